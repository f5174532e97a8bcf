#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/fleet.h"
#include "core/fleet_policy.h"
#include "core/policy_record.h"
#include "tests/unit/store_help.h"

/* --- on the disk ---------------------------------------------------------------------------- */

struct begin {
	uint64_t mount;
	enum host_process configured;
	struct policy_record got;
};

static int apply_begin(struct store_tx *tx, void *arg, struct error *err)
{
	struct begin *b = arg;

	return policy_record_begin(tx, b->mount, b->configured, 1000, &b->got, err);
}

static int apply_forbid(struct store_tx *tx, void *arg, struct error *err)
{
	return policy_record_forbid(tx, *(enum policy_origin *)arg, 2000, err);
}

/* What holds when a hub begins on that mount. */
static enum policy_origin begin(struct store *s, uint64_t mount, enum host_process configured)
{
	struct begin b = {.mount = mount, .configured = configured};

	assert_int_equal(help_run(s, apply_begin, &b, NULL), 0);
	assert_true((b.got.origin == POLICY_ALLOWED) == (b.got.since_ns == 0));
	return b.got.origin;
}

static void forbid(struct store *s, enum policy_origin by)
{
	assert_int_equal(help_run(s, apply_forbid, &by, NULL), 0);
}

static void a_written_denial_stays_until_the_file_says_true(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);

	assert_int_equal(begin(s, 1, HOST_PROCESS_UNSAID), POLICY_ALLOWED);
	forbid(s, POLICY_FORBIDDEN_BY_HAND);
	assert_int_equal(begin(s, 1, HOST_PROCESS_UNSAID), POLICY_FORBIDDEN_BY_HAND);
	/* A hub that takes over does not loosen. */
	assert_int_equal(begin(s, 1, HOST_PROCESS_ALLOWED), POLICY_FORBIDDEN_BY_HAND);
	assert_int_equal(begin(s, 2, HOST_PROCESS_UNSAID), POLICY_FORBIDDEN_BY_HAND);
	/* Nor is it forgotten because the file said the same for a while. */
	assert_int_equal(begin(s, 3, HOST_PROCESS_FORBIDDEN), POLICY_FORBIDDEN_BY_HAND);
	forbid(s, POLICY_FORBIDDEN_BY_FILE);
	assert_int_equal(begin(s, 4, HOST_PROCESS_UNSAID), POLICY_FORBIDDEN_BY_HAND);
	assert_int_equal(begin(s, 5, HOST_PROCESS_ALLOWED), POLICY_ALLOWED);
	assert_int_equal(begin(s, 6, HOST_PROCESS_UNSAID), POLICY_ALLOWED);
}

static void a_denial_of_the_file_stays_for_the_mount(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);

	assert_int_equal(begin(s, 1, HOST_PROCESS_FORBIDDEN), POLICY_FORBIDDEN_BY_FILE);
	assert_int_equal(begin(s, 1, HOST_PROCESS_UNSAID), POLICY_FORBIDDEN_BY_FILE);
	assert_int_equal(begin(s, 1, HOST_PROCESS_ALLOWED), POLICY_FORBIDDEN_BY_FILE);
	assert_int_equal(begin(s, 2, HOST_PROCESS_UNSAID), POLICY_ALLOWED);
	forbid(s, POLICY_FORBIDDEN_BY_FILE);
	assert_int_equal(begin(s, 2, HOST_PROCESS_ALLOWED), POLICY_FORBIDDEN_BY_FILE);
	forbid(s, POLICY_FORBIDDEN_BY_HAND);
	assert_int_equal(begin(s, 3, HOST_PROCESS_UNSAID), POLICY_FORBIDDEN_BY_HAND);
}

/* --- in the fleet --------------------------------------------------------------------------- */

static void host_capabilities(struct driver *d, const struct executor_config *config,
			      struct capabilities *ret)
{
	(void)d;
	(void)config;
	*ret = (struct capabilities){.isolation = ISOLATION_NONE};
}

/* It isolates, unless the config gives away all of its memory. */
static void cell_capabilities(struct driver *d, const struct executor_config *config,
			      struct capabilities *ret)
{
	(void)d;
	*ret = (struct capabilities){.isolation =
					     config->memory_mb ? ISOLATION_NONE : ISOLATION_CONTAINER};
}

static struct driver_ops host_ops = {.kind = "host", .capabilities = host_capabilities};
static struct driver_ops cell_ops = {.kind = "cell", .capabilities = cell_capabilities};
static struct driver host = {.ops = &host_ops, .ready = true};
static struct driver cell = {.ops = &cell_ops, .ready = true};
static struct driver *const drivers[] = {&host, &cell, NULL};

static int apply_fleet(struct store_tx *tx, void *change, struct error *err)
{
	return fleet_change_apply(tx, change, err);
}

static void make(struct store *s, struct fleet *f, const char *name, const char *kind,
		 const char *text)
{
	struct fleet_change add = {.kind = FLEET_ADD, .at_ns = 1}, set = {.kind = FLEET_CONFIGURE};

	add.serial = set.serial = fleet_next_serial(f);
	add.name = strdup(name);
	add.reason = strdup("");
	set.name = strdup(name);
	set.reason = strdup("");
	set.config_kind = strdup(kind);
	set.config_text = strdup(text);
	assert_int_equal(help_run(s, apply_fleet, &add, NULL), 0);
	fleet_changed(f, &add);
	assert_int_equal(help_run(s, apply_fleet, &set, NULL), 0);
	fleet_changed(f, &set);
	fleet_change_clear(&add);
	fleet_change_clear(&set);
}

static int check_config(struct fleet *f, const char *id, const char *text, struct error *err)
{
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0};

	assert_int_equal(executor_config_parse(text, strlen(text), drivers, &c, err), 0);
	return fleet_check_config(f, id, fleet_find(f, id), &c, err);
}

static void what_does_not_isolate_is_refused_where_it_would_be_used(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct fleet *f = fleet_new(drivers);
	struct error err;

	assert_int_equal(fleet_load(f, store_reader(s), NULL), 0);
	make(s, f, "bare", "host", "{\"kind\":\"host\"}");
	make(s, f, "walled", "cell", "{\"kind\":\"cell\"}");
	assert_int_equal(fleet_check_host(f, fleet_find(f, "bare"), NULL, &err), 0);
	assert_int_equal(check_config(f, "new", "{\"kind\":\"host\"}", &err), 0);

	host_policy_apply(fleet_host_policy(f), false);
	assert_int_equal(fleet_check_host(f, fleet_find(f, "bare"), "/srv/x", &err), -EACCES);
	assert_int_equal(err.kind, ERROR_HOST_EXECUTION_DENIED);
	assert_non_null(strstr(err.remedy, "walled"));
	assert_non_null(strstr(err.reason, "/srv/x"));
	assert_int_equal(fleet_check_host(f, fleet_find(f, "walled"), NULL, &err), 0);
	assert_int_equal(check_config(f, "new", "{\"kind\":\"host\"}", &err), -EACCES);
	assert_int_equal(check_config(f, "new", "{\"kind\":\"cell\"}", &err), 0);

	/* It stays, and may be configured; but nothing that isolates becomes one that does not. */
	assert_int_equal(check_config(f, "bare", "{\"kind\":\"host\",\"max_concurrent\":2}", &err), 0);
	assert_int_equal(check_config(f, "bare", "{\"kind\":\"cell\"}", &err), 0);
	assert_int_equal(check_config(f, "walled", "{\"kind\":\"cell\",\"memory_mb\":5}", &err), -EACCES);
	assert_int_equal(check_config(f, "walled", "{\"kind\":\"host\"}", &err), -EACCES);

	/* With work on it, the kind stays, whatever the policy says. */
	fleet_find(f, "bare")->inflight = 1;
	assert_int_equal(check_config(f, "bare", "{\"kind\":\"cell\"}", &err), -EBUSY);
	assert_string_equal(err.field, "kind");
	assert_int_equal(check_config(f, "bare", "{\"kind\":\"host\",\"max_concurrent\":2}", &err), 0);
	(void)fleet_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_written_denial_stays_until_the_file_says_true,
						help_dir_make, help_dir_remove),
		cmocka_unit_test_setup_teardown(a_denial_of_the_file_stays_for_the_mount, help_dir_make,
						help_dir_remove),
		cmocka_unit_test_setup_teardown(
			what_does_not_isolate_is_refused_where_it_would_be_used, help_dir_make,
			help_dir_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
