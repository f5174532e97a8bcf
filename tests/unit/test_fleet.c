#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/fleet.h"
#include "core/store/event.h"
#include "tests/unit/store_help.h"

static void names_have_one_form(void **state)
{
	static const char *const good[] = {"a", "0", "a.b_c-d",
					   "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz01234567890"};
	static const char *const bad[] = {"", ".", "-a", "_a", "A", "a b", "a/b", "\xc3\xa9", "a\n",
					  "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz012345678901"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(object_name_check("executor", good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(object_name_check("executor", bad[i], NULL), -EINVAL);
}

/* --- changes -------------------------------------------------------------------------------- */

static struct driver_ops fake_ops = {.kind = "fake"};
static struct driver fake = {.ops = &fake_ops, .ready = true};
static struct driver *const drivers[] = {&fake, NULL};

static int apply(struct store_tx *tx, void *change, struct error *err)
{
	return fleet_change_apply(tx, change, err);
}

/* Applies a change as the daemon does: in the store, then in memory. */
static int make(struct store *s, struct fleet *r, enum fleet_change_kind kind, const char *name,
		const char *argument)
{
	const struct executor *e = fleet_find(r, name);
	struct fleet_change c = {.kind = kind, .uid = 7, .at_ns = 1000, .policy = {1, 3}};

	c.serial = kind == FLEET_ADD ? fleet_next_serial(r) : e ? e->record.serial : 999;
	c.name = strdup(name);
	c.reason = kind == FLEET_CONFIGURE ? strdup("") : argument ? strdup(argument) : NULL;
	if (kind == FLEET_CONFIGURE) {
		c.config_text = strdup(argument);
		c.config_kind = strdup("fake");
	}
	c.config_error = kind == FLEET_CONFIG_ERROR ? strdup(argument) : NULL;
	int result = help_run(s, apply, &c, NULL);
	if (result >= 0)
		fleet_changed(r, &c);
	fleet_change_clear(&c);
	return result;
}

#define CONFIG "{\"kind\":\"fake\"}"

static const char *default_of(struct fleet *r)
{
	const struct executor *e = fleet_default(r);

	return e ? e->record.name : "";
}

static void the_first_becomes_the_default_and_the_lowest_inherits(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct fleet *r = fleet_new(drivers);

	assert_int_equal(fleet_load(r, store_reader(s), NULL), 0);
	assert_string_equal(default_of(r), "");

	assert_int_equal(make(s, r, FLEET_ADD, "c", ""), 0);
	assert_string_equal(default_of(r), ""); /* not configured: not registered */
	assert_string_equal(executor_state(fleet_find(r, "c")), "unconfigured");
	assert_int_equal(make(s, r, FLEET_ADD, "c", ""), -EEXIST);
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "c", CONFIG), 0);
	assert_string_equal(default_of(r), "c");
	assert_int_equal(make(s, r, FLEET_ADD, "b", ""), 0);
	assert_int_equal(make(s, r, FLEET_ADD, "a", ""), 0);
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "b", CONFIG), 0);
	assert_string_equal(default_of(r), "c");
	assert_string_equal(fleet_at(r, 0)->record.name, "a");
	assert_null(fleet_at(r, 3));

	/* "a" is lower, but has no config. */
	assert_int_equal(make(s, r, FLEET_REMOVE, "c", ""), 0);
	assert_string_equal(default_of(r), "b");
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "a", CONFIG), 0);
	assert_int_equal(make(s, r, FLEET_DEFAULT, "a", ""), 0);
	assert_string_equal(default_of(r), "a");

	/* Another process reads the same. */
	struct fleet *again = fleet_new(drivers);
	assert_int_equal(fleet_load(again, store_reader(s), NULL), 0);
	assert_string_equal(default_of(again), "a");
	assert_ptr_equal(fleet_find(again, "b")->driver, &fake);
	assert_null(fleet_find(again, "c"));
	/* A name that comes again is another executor. */
	assert_int_equal(make(s, again, FLEET_ADD, "c", ""), 0);
	assert_true(fleet_find(again, "c")->record.serial > 3);
	(void)fleet_free(again);

	assert_int_equal(make(s, r, FLEET_REMOVE, "a", ""), 0);
	assert_int_equal(make(s, r, FLEET_REMOVE, "b", ""), 0);
	assert_string_equal(default_of(r), "");
	assert_int_equal(make(s, r, FLEET_REMOVE, "b", ""), -ENOENT);
	(void)fleet_free(r);
}

static void states_decide_about_new_work(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct fleet *r = fleet_new(drivers);
	struct error err;

	assert_int_equal(fleet_load(r, store_reader(s), NULL), 0);
	assert_int_equal(make(s, r, FLEET_ADD, "x", ""), 0);
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EHOSTUNREACH);
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "x", "{\"kind\":\"fake\",\"max_concurrent\":1}"), 0);
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), 0);

	assert_int_equal(make(s, r, FLEET_CORDON, "x", "disk swap"), 0);
	assert_string_equal(executor_state(fleet_find(r, "x")), "cordoned");
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EBUSY);
	assert_non_null(strstr(err.reason, "disk swap"));
	assert_int_equal(make(s, r, FLEET_DRAIN, "x", ""), 0);
	assert_string_equal(executor_state(fleet_find(r, "x")), "draining");
	/* A new config does not let work in. */
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "x", "{\"kind\":\"fake\",\"max_concurrent\":1}"), 0);
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EBUSY);
	assert_int_equal(make(s, r, FLEET_UNCORDON, "x", ""), 0);
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), 0);

	fleet_find(r, "x")->inflight = 1;
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EBUSY);
	fleet_find(r, "x")->inflight = 0;
	fleet_find(r, "x")->removing = true;
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EBUSY);

	/* A kind that this build has no driver for takes nothing. */
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "x", "{\"kind\":\"other\"}"), 0);
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EHOSTUNREACH);
	(void)fleet_free(r);
}

static const char *state_of(struct fleet *r, const char *id)
{
	return executor_state(fleet_find(r, id));
}

static size_t heard;

static void hear(void *user, const struct fleet_change *c)
{
	struct fleet *r = user;

	/* Memory is as it will be seen from now on. */
	if (c->transition.changed)
		assert_string_equal(state_of(r, c->name), node_state_name(c->transition.to));
	heard++;
}

static void probes_are_folded_into_the_row(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct fleet *r = fleet_new(drivers);
	struct error err;

	assert_int_equal(fleet_load(r, store_reader(s), NULL), 0);
	fleet_listen(r, hear, r);
	heard = 0;
	assert_int_equal(make(s, r, FLEET_ADD, "x", ""), 0);
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "x", CONFIG), 0);
	assert_int_equal(make(s, r, FLEET_PROBED, "x", NULL), 0);
	assert_string_equal(state_of(r, "x"), "ready");
	assert_int_equal(fleet_find(r, "x")->record.health.last_seen_ns, 1000);
	assert_non_null(fleet_find(r, "x")->driver);

	assert_int_equal(make(s, r, FLEET_PROBED, "x", "no disk"), 0);
	assert_string_equal(state_of(r, "x"), "degraded");
	assert_string_equal(fleet_find(r, "x")->record.health.reason, "no disk");
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), 0);
	/* An operator holds it while a probe runs: the probe counts and leaves that alone. */
	assert_int_equal(make(s, r, FLEET_CORDON, "x", "disk swap"), 0);
	assert_int_equal(make(s, r, FLEET_PROBED, "x", "no disk"), 0);
	assert_int_equal(make(s, r, FLEET_PROBED, "x", "no disk"), 0);
	assert_string_equal(state_of(r, "x"), "cordoned");
	assert_string_equal(fleet_find(r, "x")->record.health.reason, "disk swap");
	assert_int_equal(fleet_find(r, "x")->record.health.consecutive_failures, 3);
	assert_int_equal(make(s, r, FLEET_UNCORDON, "x", ""), 0);
	assert_string_equal(state_of(r, "x"), "unreachable");
	assert_int_equal(executor_check_schedulable(fleet_find(r, "x"), &err), -EHOSTUNREACH);
	assert_int_equal(heard, 8);

	/* So does a daemon that is started later. */
	struct fleet *again = fleet_new(drivers);
	assert_int_equal(fleet_load(again, store_reader(s), NULL), 0);
	assert_string_equal(state_of(again, "x"), "unreachable");
	assert_int_equal(fleet_find(again, "x")->record.health.consecutive_failures, 3);
	(void)fleet_free(again);

	assert_int_equal(make(s, r, FLEET_PROBED, "x", NULL), 0);
	assert_string_equal(state_of(r, "x"), "ready");
	/* Removed while it was probed: nothing comes back. */
	struct fleet_change late = {.kind = FLEET_PROBED, .serial = fleet_find(r, "x")->record.serial,
				    .at_ns = 2000, .policy = {1, 3}};
	late.name = strdup("x");
	assert_int_equal(make(s, r, FLEET_REMOVE, "x", ""), 0);
	assert_int_equal(help_run(s, apply, &late, NULL), -ENOENT);
	assert_null(fleet_find(r, "x"));
	fleet_change_clear(&late);
	(void)fleet_free(r);
}

static void transitions_are_told_once(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct fleet *r = fleet_new(drivers);
	char events[8192];
	size_t n = 0, changes = 0;

	assert_int_equal(fleet_load(r, store_reader(s), NULL), 0);
	assert_int_equal(make(s, r, FLEET_ADD, "x", ""), 0);
	assert_int_equal(make(s, r, FLEET_CONFIGURE, "x", CONFIG), 0);
	assert_int_equal(make(s, r, FLEET_CORDON, "x", "one"), 0);
	assert_int_equal(make(s, r, FLEET_CORDON, "x", "two"), 0); /* the reason changes, the state not */
	assert_string_equal(fleet_find(r, "x")->record.health.reason, "two");
	assert_int_equal(event_read(store_reader(s), 0, events, sizeof(events) - 1, &n, NULL), 0);
	events[n] = '\0';
	for (const char *p = events; (p = strstr(p, "executor.state_change")); p++)
		changes++;
	assert_int_equal(changes, 1);
	assert_non_null(strstr(events, "\"from\":\"ready\",\"to\":\"cordoned\",\"reason\":\"one\""));
	assert_non_null(strstr(events, "\"uid\":7"));
	(void)fleet_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_have_one_form),
		cmocka_unit_test_setup_teardown(the_first_becomes_the_default_and_the_lowest_inherits, help_dir_make,
						help_dir_remove),
		cmocka_unit_test_setup_teardown(states_decide_about_new_work, help_dir_make,
						help_dir_remove),
		cmocka_unit_test_setup_teardown(probes_are_folded_into_the_row, help_dir_make,
						help_dir_remove),
		cmocka_unit_test_setup_teardown(transitions_are_told_once, help_dir_make,
						help_dir_remove),
	};

	return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
