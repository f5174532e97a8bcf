/* Sessions that are placed: who is asked for an executor, and when the same start is asked for again. */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/dispatch.h"
#include "core/store/query.h"
#include "tests/unit/store_help.h"

/* --- one daemon ----------------------------------------------------------------------------- */

struct daemon {
	struct driver driver;
	struct driver *drivers[2];
	struct store *store;
	struct fleet *fleet;
	struct dispatch *dispatch;
};

/* What the driver was asked for; its functions get the driver alone. */
struct fake {
	struct daemon daemon; /* its driver is the first member */
	unsigned launches;
	uint32_t launched;
};

static int fake_check(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	(void)d;
	(void)launch;
	(void)err;
	return 0;
}

static int fake_launch(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	struct fake *f = (struct fake *)d;

	(void)err;
	f->launches++;
	f->launched = launch->serial;
	return 0;
}

static const struct driver_ops fake_ops = {.kind = "fake", .check = fake_check, .launch = fake_launch};

static void on_serial(void *user, uint32_t serial)
{
	(void)user;
	(void)serial;
}

static void on_created(void *user, uint32_t serial, const char *name)
{
	(void)user;
	(void)serial;
	(void)name;
}

static void on_inflight(void *user, int64_t serial)
{
	(void)user;
	(void)serial;
}

static void on_told(void *user)
{
	(void)user;
}

static void on_log(void *user, const char *line)
{
	(void)user;
	(void)line;
}

static const struct dispatch_hooks hooks = {
	.changed = on_serial, .created = on_created, .inflight = on_inflight, .told = on_told,
	.log = on_log,
};

static int add_executor(struct store_tx *tx, void *arg, struct error *err)
{
	static char name[] = "x", empty[] = "", kind[] = "fake", config[] = "{\"kind\":\"fake\"}";
	const struct executor_record row = {
		.serial = 1, .name = name, .kind = kind, .config = config, .config_error = empty,
		.health = {.state = empty, .reason = empty},
	};

	(void)arg;
	return executor_record_seed(tx, &row, err);
}

static void daemon_start(struct fake *f, const char *db)
{
	struct daemon *d = &f->daemon;

	*f = (struct fake){.daemon = {.driver = {.ops = &fake_ops, .ready = true}}};
	d->drivers[0] = &d->driver;
	d->store = help_open(db);
	assert_true(help_run(d->store, add_executor, NULL, NULL) >= 0);
	d->fleet = fleet_new(d->drivers);
	assert_int_equal(fleet_load(d->fleet, store_reader(d->store), NULL), 0);
	assert_int_equal(dispatch_new(d->store, d->fleet, "boot", &hooks, d, &d->dispatch, NULL), 0);
	assert_int_equal(dispatch_load(d->dispatch, 1, NULL), 0);
}

static void daemon_end(struct fake *f)
{
	struct daemon *d = &f->daemon;

	d->store = store_free(d->store);
	d->dispatch = dispatch_free(d->dispatch);
	d->fleet = fleet_free(d->fleet);
}

static void say_started(struct fake *f)
{
	const struct executor_started started = {.pid = 77, .started_at_ns = 1000, .image = ""};

	dispatch_events.started(f->daemon.dispatch, f->launched, &started);
}

static void say_ended(struct fake *f)
{
	const struct executor_exit ended = {.cause = SESSION_CAUSE_EXIT, .started_at_ns = 1000,
					    .finished_at_ns = 2000, .pid = 77, .reason = ""};

	dispatch_events.ended(f->daemon.dispatch, f->launched, &ended);
}

/* How often a start was answered with the session. */
static void answered(void *user, const struct session *s, const struct error *err, uint32_t committed)
{
	assert_null(err);
	assert_int_equal(committed, 0);
	assert_string_equal(s->name, "one");
	++*(unsigned *)user;
}

/* --- tests ---------------------------------------------------------------------------------- */

struct placing {
	struct fake *f;
	unsigned asked;
	bool refuses;
};

static int choose(void *user, struct executor **ret, struct error *err)
{
	struct placing *p = user;

	p->asked++;
	if (p->refuses)
		return error_set(err, ENODEV, "nobody fits");
	*ret = fleet_find(p->f->daemon.fleet, "x");
	return 0;
}

/* requirements NULL: at the executor itself. */
static int start(struct placing *p, const char *requirements, bool same, uint64_t file,
		 uint64_t unique, unsigned *n)
{
	static const char text[] = "{\"argv\":[\"/bin/true\"],\"labels\":{\"cloop.session\":\"one\"}}";
	struct daemon *d = &p->f->daemon;
	struct spec *spec = NULL;
	struct error err;

	assert_int_equal(spec_parse(text, strlen(text), &spec, &err), 0);
	struct dispatch_start s = {
		.executor = requirements ? NULL : fleet_find(d->fleet, "x"),
		.choose = choose, .choose_user = p, .spec = spec, .requirements = requirements,
		.same_requirements = same, .start_file = file, .uid = 10, .gid = 10,
		.origin_mount = 5, .origin_unique = unique,
	};
	int r = dispatch_start(d->dispatch, &s, answered, n, &err);
	(void)spec_free(s.spec);
	return r;
}

static void a_placed_start_is_the_same_through_the_same_file(void **state)
{
	const struct help_dir *dir = *state;
	struct fake f;
	struct placing p = {.f = &f, .refuses = true};
	AUTO_SESSION struct session row = {0};
	unsigned n = 0;

	daemon_start(&f, dir->db);
	assert_int_equal(start(&p, "{}", true, 7, 1, &n), -ENODEV);
	assert_int_equal(n, 0);
	p.refuses = false;
	assert_int_equal(start(&p, "{}", true, 7, 2, &n), 0);
	store_flush(f.daemon.store);
	say_started(&f);
	assert_int_equal(n, 1);
	assert_int_equal(p.asked, 2);
	/* A retry is answered also when nobody would fit any more, and without asking. */
	p.refuses = true;
	assert_int_equal(start(&p, "{}", true, 7, 3, &n), 0);
	assert_int_equal(n, 2);
	/* Through another file, or with other requirements where they are part of it, it is not. */
	assert_int_equal(start(&p, "{}", true, 8, 4, &n), -EEXIST);
	assert_int_equal(start(&p, "{\"arch\":\"a\"}", true, 7, 5, &n), -EEXIST);
	assert_int_equal(start(&p, "{\"arch\":\"a\"}", false, 7, 6, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(start(&p, NULL, false, 9, 7, &n), -EEXIST);
	assert_int_equal(p.asked, 2);
	assert_int_equal(f.launches, 1);
	/* The row says how to place it again. */
	assert_int_equal(session_get_by_name(store_reader(f.daemon.store), "one", &row, NULL), 0);
	assert_string_equal(row.requirements, "{}");
	assert_int_equal(row.start_file, 7);
	assert_string_equal(row.executor, "x");
	daemon_end(&f);
}

static int forget_file(struct store_tx *tx, void *arg, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};

	(void)arg;
	int r = store_query_begin(&q, tx, "UPDATE session SET start_file = 0", err);
	return r < 0 ? r : store_query_run(&q, err);
}

static void a_row_without_a_file_was_started_at_its_executor(void **state)
{
	const struct help_dir *dir = *state;
	struct fake f;
	struct placing p = {.f = &f};
	unsigned n = 0;

	daemon_start(&f, dir->db);
	assert_int_equal(start(&p, NULL, false, 9, 1, &n), 0);
	store_flush(f.daemon.store);
	say_started(&f);
	say_ended(&f);
	store_flush(f.daemon.store);
	assert_int_equal(help_run(f.daemon.store, forget_file, NULL, NULL), 1);
	daemon_end(&f);
	daemon_start(&f, dir->db);
	assert_int_equal(start(&p, NULL, false, 9, 2, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(start(&p, "{}", true, 7, 3, &n), -EEXIST);
	assert_int_equal(p.asked, 0);
	daemon_end(&f);
}

int main(void)
{
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, help_dir_make, help_dir_remove)
	const struct CMUnitTest tests[] = {
		WITH_DIR(a_placed_start_is_the_same_through_the_same_file),
		WITH_DIR(a_row_without_a_file_was_started_at_its_executor),
	};

	return cmocka_run_group_tests_name("dispatch_placed", tests, NULL, NULL);
}
