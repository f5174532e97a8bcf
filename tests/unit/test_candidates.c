#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/candidates.h"
#include "core/requirements.h"
#include "tests/unit/store_help.h"

/* --- two drivers, and a fleet in a store ------------------------------------------------------ */

struct fake {
	struct driver driver;
	struct capabilities capabilities;
};

static void tell(struct driver *d, const struct executor_config *config, struct capabilities *ret)
{
	(void)config;
	*ret = ((struct fake *)d)->capabilities;
}

static const struct driver_ops bare_ops = {.kind = "bare", .capabilities = tell};
static const struct driver_ops boxed_ops = {.kind = "boxed", .capabilities = tell};

struct world {
	struct fake bare, boxed;
	struct driver *drivers[3];
	struct store *store;
	struct fleet *fleet;
};

struct row {
	int64_t serial;
	const char *name, *config, *state;
};

static int add_row(struct store_tx *tx, void *arg, struct error *err)
{
	static char empty[] = "";
	const struct row *row = arg;
	const struct executor_record record = {
		.serial = row->serial, .name = (char *)(uintptr_t)row->name, .kind = empty,
		.config = (char *)(uintptr_t)row->config, .config_error = empty,
		.health = {.state = (char *)(uintptr_t)row->state, .reason = empty},
	};

	return executor_record_insert(tx, &record, err);
}

static void world_begin(struct world *w, const char *db, struct row *rows, size_t n)
{
	*w = (struct world){
		.bare = {.driver = {.ops = &bare_ops},
			 .capabilities = {.isolation = ISOLATION_NONE, .supports_signal = true}},
		.boxed = {.driver = {.ops = &boxed_ops},
			  .capabilities = {.isolation = ISOLATION_CONTAINER,
					   .supports_image_override = true}},
	};
	w->drivers[0] = &w->bare.driver;
	w->drivers[1] = &w->boxed.driver;
	w->store = help_open(db);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(help_run(w->store, add_row, &rows[i], NULL), 0);
	w->fleet = fleet_new(w->drivers);
	assert_int_equal(fleet_load(w->fleet, store_reader(w->store), NULL), 0);
}

static void world_end(struct world *w)
{
	w->fleet = fleet_free(w->fleet);
	w->store = store_free(w->store);
}

#define BARE "{\"kind\":\"bare\"}"
#define BOXED "{\"kind\":\"boxed\"}"

/* --- tests ------------------------------------------------------------------------------------ */

static void candidates_are_those_that_are_registered(void **state)
{
	static struct row rows[] = {
		{5, "b", "{\"kind\":\"bare\",\"labels\":{\"zone\":\"x\"},\"max_concurrent\":3,"
			"\"harnesses\":[\"h\"],\"container_runtimes\":[\"r\",\"s\"],\"memory_mb\":512}",
		 "degraded"},
		{1, "c", "", ""},
		{2, "d", "{\"kind\":\"gone\"}", ""},
		{3, "e", BARE, "cordoned"},
		{4, "a", BOXED, ""},
	};
	const struct help_dir *dir = *state;
	AUTO_CANDIDATES struct candidates c = {0};
	struct world w;

	world_begin(&w, dir->db, rows, ARRAY_SIZE(rows));
	fleet_find(w.fleet, "b")->inflight = 2;
	assert_int_equal(candidates_gather(w.fleet, &c), 0);
	assert_int_equal(c.n, 3);
	assert_string_equal(c.list[0].executor_id, "a");
	assert_string_equal(c.list[1].executor_id, "b");
	assert_string_equal(c.list[2].executor_id, "e");
	assert_ptr_equal(c.executors[1], fleet_find(w.fleet, "b"));
	assert_int_equal(c.list[0].capabilities.isolation, ISOLATION_CONTAINER);
	assert_int_equal(c.list[0].capabilities.max_concurrent, 0);
	assert_int_equal(c.list[1].capabilities.isolation, ISOLATION_NONE);
	assert_int_equal(c.list[1].capabilities.max_concurrent, 3);
	assert_int_equal(c.list[1].in_flight, 2);
	assert_true(c.list[1].in_flight_known);
	assert_false(c.list[1].can_revoke);
	assert_string_equal(labels_get(c.list[1].labels, c.list[1].n_labels, "zone"), "x");
	assert_int_equal(c.list[1].n_harnesses, 1);
	assert_string_equal(c.list[1].harnesses[0], "h");
	assert_int_equal(c.list[1].n_container_runtimes, 2);
	assert_int_equal(c.list[1].memory_mb, 512);
	assert_int_equal(c.list[0].n_harnesses, 0);
	assert_int_equal(c.list[0].state, NODE_READY);
	assert_int_equal(c.list[1].state, NODE_DEGRADED);
	assert_int_equal(c.list[2].state, NODE_CORDONED);
	/* What is being removed takes no work. */
	fleet_find(w.fleet, "a")->removing = true;
	candidates_clear(&c);
	assert_int_equal(candidates_gather(w.fleet, &c), 0);
	assert_int_equal(c.n, 2);
	world_end(&w);
}

static int select_for(struct world *w, const char *text, bool host_allowed, const char **ret,
		      struct placement_refusal *refusal, struct error *err)
{
	AUTO_REQUIREMENTS struct requirements q = {0};
	struct executor *e = NULL;

	assert_int_equal(requirements_parse(text, strlen(text), &q, NULL), 0);
	int r = fleet_select(w->fleet, &q, host_allowed, &e, refusal, err);
	*ret = e ? e->record.name : "";
	return r;
}

static void the_best_of_the_fleet_is_chosen(void **state)
{
	static struct row rows[] = {
		{1, "bare", BARE, ""},
		{2, "boxed", BOXED, ""},
		{3, "small", "{\"kind\":\"boxed\",\"max_concurrent\":1,\"labels\":{\"zone\":\"s\"}}", ""},
		{4, "sick", "{\"kind\":\"boxed\",\"labels\":{\"zone\":\"s\"}}", "degraded"},
	};
	static const struct {
		const char *requirements;
		bool host_allowed;
		int result;
		const char *want; /* the executor, or the headline */
	} cases[] = {
		{"{}", true, 0, "boxed"},
		{"{\"require_signal\":true}", true, 0, "bare"},
		{"{\"require_signal\":true}", false, -ENODEV, "signal"},
		{"{\"executor_id\":\"bare\"}", false, -ENODEV, "executor_id"},
		{"{\"labels\":{\"zone\":\"s\"}}", true, 0, "small"},
		{"{\"executor_id\":\"sick\"}", true, 0, "sick"},
		{"{\"executor_id\":\"sick\",\"forbid_degraded\":true}", true, -ENODEV, "executor_id"},
		{"{\"require_virtualization\":true}", true, -ENODEV, "virtualization"},
		{"{\"require_revocation\":true}", true, -ENODEV, "revocation"},
	};
	const struct help_dir *dir = *state;
	struct world w;

	world_begin(&w, dir->db, rows, ARRAY_SIZE(rows));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
		struct error err = {0};
		const char *chosen;

		int r = select_for(&w, cases[i].requirements, cases[i].host_allowed, &chosen, &refusal,
				   &err);
		if (r != cases[i].result ||
		    strcmp(r == 0 ? chosen : constraint_name(refusal.constraint), cases[i].want) != 0)
			fail_msg("%s: %d %s %s", cases[i].requirements, r, chosen, err.reason);
		assert_int_equal(refusal.considered, r == 0 ? 0 : 4);
		assert_int_equal(refusal.n_rejections, refusal.considered);
	}
	/* The last free slot. */
	const char *chosen;
	fleet_find(w.fleet, "small")->inflight = 1;
	fleet_find(w.fleet, "sick")->removing = true;
	assert_int_equal(select_for(&w, "{\"labels\":{\"zone\":\"s\"},\"ignore_capacity\":true}", true,
				    &chosen, NULL, NULL),
			 0);
	assert_string_equal(chosen, "small");
	assert_int_equal(select_for(&w, "{\"executor_id\":\"small\",\"labels\":{\"zone\":\"s\"}}", true,
				    &chosen, NULL, NULL),
			 -ENODEV);
	world_end(&w);
}

static void a_fleet_without_executors_has_no_candidates(void **state)
{
	static struct row rows[] = {{1, "new", "", ""}};
	const struct help_dir *dir = *state;
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
	const char *chosen;
	struct world w;

	world_begin(&w, dir->db, rows, 1);
	assert_int_equal(select_for(&w, "{}", true, &chosen, &refusal, NULL), -ENODEV);
	assert_int_equal(refusal.constraint, CONSTRAINT_NO_CANDIDATES);
	assert_int_equal(refusal.considered, 0);
	world_end(&w);
}

static void what_is_bound_is_held_to_the_needs(void **state)
{
	static struct row rows[] = {
		{1, "bare", "{\"kind\":\"bare\",\"max_concurrent\":1}", "cordoned"},
		{2, "boxed", BOXED, ""},
	};
	const struct help_dir *dir = *state;
	struct requirements q = {0};
	struct error err = {0};
	enum constraint gap;
	struct world w;

	world_begin(&w, dir->db, rows, ARRAY_SIZE(rows));
	struct executor *bare = fleet_find(w.fleet, "bare");
	/* Health and load are somebody else's question. */
	bare->inflight = 1;
	assert_int_equal(fleet_check_bound(w.fleet, bare, &q, true, "/p", &gap, &err), 0);
	q.require_image_override = true;
	assert_int_equal(fleet_check_bound(w.fleet, bare, &q, true, "/p", &gap, &err), -EACCES);
	assert_int_equal(err.kind, ERROR_HOST_EXECUTION_DENIED);
	assert_int_equal(gap, CONSTRAINT_IMAGE_OVERRIDE);
	assert_non_null(strstr(err.remedy, "boxed"));
	q.require_image_override = false;
	q.require_secret_files = true;
	assert_int_equal(fleet_check_bound(w.fleet, bare, &q, true, "/p", &gap, &err), -ENODEV);
	assert_int_equal(err.kind, ERROR_NO_PLACEMENT);
	assert_string_equal(err.field, "secret_files");
	world_end(&w);
}

static void a_fleet_is_found_by_serial_in_order(void **state)
{
	static struct row rows[] = {
		{30, "a", BARE, ""}, {10, "b", BARE, ""}, {20, "c", BARE, ""}, {40, "d", BARE, ""},
	};
	const struct help_dir *dir = *state;
	struct world w;

	world_begin(&w, dir->db, rows, ARRAY_SIZE(rows));
	assert_int_equal(fleet_len(w.fleet), 4);
	assert_string_equal(fleet_get(w.fleet, 10)->record.name, "b");
	assert_null(fleet_get(w.fleet, 11));
	assert_null(fleet_get(w.fleet, 0));
	int64_t want = 10;
	for (struct executor *e = fleet_from(w.fleet, 0); e; e = fleet_from(w.fleet, e->record.serial + 1)) {
		assert_int_equal(e->record.serial, want);
		want += 10;
	}
	assert_int_equal(want, 50);
	assert_null(fleet_from(w.fleet, 41));

	struct fleet_change gone = {.kind = FLEET_REMOVE, .serial = 20, .name = strdup("c")};
	fleet_changed(w.fleet, &gone);
	fleet_change_clear(&gone);
	assert_null(fleet_get(w.fleet, 20));
	assert_string_equal(fleet_from(w.fleet, 11)->record.name, "a");
	assert_string_equal(fleet_at(w.fleet, 2)->record.name, "d");
	world_end(&w);
}

int main(void)
{
#define DIR_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)
	const struct CMUnitTest tests[] = {
		DIR_TEST(candidates_are_those_that_are_registered),
		DIR_TEST(the_best_of_the_fleet_is_chosen),
		DIR_TEST(a_fleet_without_executors_has_no_candidates),
		DIR_TEST(what_is_bound_is_held_to_the_needs),
		DIR_TEST(a_fleet_is_found_by_serial_in_order),
	};

	return cmocka_run_group_tests_name("candidates", tests, NULL, NULL);
}
