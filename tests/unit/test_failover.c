/* Failover: the way of a session through dispatch, from an executor that is lost to another one. */
#include "tests/unit/store_help.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/dispatch.h"
#include "core/failover.h"
#include "core/handle_row.h"
#include "core/store/event.h"

/* --- a daemon with three executors ---------------------------------------------------------- */

struct fake {
	struct driver driver;
	unsigned launches, kills, adoptions;
	uint32_t attempt; /* of the last launch */
	uint32_t killed_attempt;
	bool found; /* what adopt() answers */
};

struct daemon {
	struct fake fake;
	struct driver *drivers[2];
	struct store *store;
	struct fleet *fleet;
	struct dispatch *dispatch;
	const char *nobody; /* why no executor takes anything; NULL: the fittest does */
	char avoided[32], groups[32];
	unsigned mended;
	char log[8192];
};

static void fake_capabilities(struct driver *d, const struct executor_config *config,
			      struct capabilities *ret)
{
	(void)d;
	(void)config;
	*ret = (struct capabilities){.isolation = ISOLATION_NONE};
}

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
	assert_string_equal(launch->spec->argv[0], "/bin/true");
	assert_int_equal(launch->n_groups, 2);
	assert_int_equal(launch->groups[1], 27);
	assert_int_equal(launch->uid, 10);
	char handle[SESSION_HANDLE_ID_MAX];
	(void)snprintf(handle, sizeof(handle), "one.%u", launch->attempt);
	assert_string_equal(launch->handle, handle);
	f->launches++;
	f->attempt = launch->attempt;
	return 0;
}

static int fake_adopt(struct driver *d, uint32_t serial, uint32_t attempt,
		      const struct executor_config *config, bool *ret, struct error *err)
{
	struct fake *f = (struct fake *)d;

	(void)serial;
	(void)attempt;
	(void)err;
	assert_string_equal(config->kind, "fake");
	f->adoptions++;
	*ret = f->found;
	return 0;
}

static int fake_signal(struct driver *d, uint32_t serial, uint32_t attempt, const struct signal_key *key,
		       enum signal_kind signal, executor_signal_fn *done, void *user, struct error *err)
{
	struct fake *f = (struct fake *)d;

	(void)serial;
	(void)key;
	(void)err;
	assert_int_equal(signal, SIGNAL_KILL);
	f->kills++;
	f->killed_attempt = attempt;
	done(user, 0, NULL);
	return 0;
}

static const struct driver_ops fake_ops = {
	.kind = "fake",
	.capabilities = fake_capabilities,
	.check = fake_check,
	.launch = fake_launch,
	.adopt = fake_adopt,
	.signal = fake_signal,
};

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

static void on_removed(void *user, uint32_t serial, const char *name, int64_t executor_serial,
		       int64_t project_serial)
{
	(void)project_serial;
	(void)user;
	(void)serial;
	(void)name;
	(void)executor_serial;
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
	struct daemon *d = user;
	size_t n = strlen(d->log);

	(void)snprintf(d->log + n, sizeof(d->log) - n, "%s\n", line);
}

static void on_mend(void *user, uint32_t serial, uint64_t log_quota_bytes)
{
	struct daemon *d = user;

	(void)log_quota_bytes;
	d->mended++;
	dispatch_mended(d->dispatch, serial, 0);
}

static int on_place(void *user, const struct dispatch_placing *placing, struct executor **ret,
		    struct error *err)
{
	struct daemon *d = user;
	struct candidate list[3];
	struct requirements any = {0};
	size_t at;

	(void)snprintf(d->avoided, sizeof(d->avoided), "%s", placing->avoid);
	assert_non_null(placing->spec);
	if (d->nobody)
		return error_set(err, ENODEV, "%s", d->nobody);
	for (size_t i = 0; i < 3; i++) {
		const struct executor *e = fleet_at(d->fleet, i);

		list[i] = (struct candidate){.executor_id = e->record.name,
					     .state = node_state_parse(e->record.health.state)};
	}
	int r = failover_choose(list, 3, &any, true, placing->avoid, &at, NULL, err);
	if (r == 0)
		*ret = fleet_at(d->fleet, at);
	return r;
}

static void on_moved(void *user, const struct session *s, int64_t from, int64_t to)
{
	(void)user;
	assert_true(s->name[0] && from != to);
}

static void on_attempted(void *user, const struct session *s)
{
	(void)user;
	assert_true(s->attempt > 1);
}

static const struct dispatch_hooks hooks = {
	.changed = on_serial,
	.created = on_created,
	.removed = on_removed,
	.inflight = on_inflight,
	.told = on_told,
	.log = on_log,
	.mend = on_mend,
	.forget = on_serial,
	.place = on_place,
	.moved = on_moved,
	.attempted = on_attempted,
};

static int add_executors(struct store_tx *tx, void *arg, struct error *err)
{
	static char *const names[] = {(char *)(uintptr_t) "a", (char *)(uintptr_t) "b",
				      (char *)(uintptr_t) "c"};
	static char empty[] = "", kind[] = "fake", config[] = "{\"kind\":\"fake\"}";
	int r = 0;

	(void)arg;
	for (int i = 0; i < 3 && r >= 0; i++) {
		const struct executor_record row = {
			.serial = i + 1, .name = names[i], .kind = kind, .config = config,
			.config_error = empty, .health = {.state = empty, .reason = empty},
		};

		r = executor_record_seed(tx, &row, err);
	}
	return r;
}

static void daemon_start(struct daemon *d, const char *db, bool found)
{
	*d = (struct daemon){
		.fake = {.driver = {.ops = &fake_ops, .ready = true}, .found = found}};
	d->drivers[0] = &d->fake.driver;
	d->store = help_open(db);
	assert_true(help_run(d->store, add_executors, NULL, NULL) >= 0);
	d->fleet = fleet_new(d->drivers);
	assert_int_equal(fleet_load(d->fleet, store_reader(d->store), NULL), 0);
	assert_int_equal(dispatch_new(d->store, d->fleet, "boot", &hooks, d, &d->dispatch, NULL), 0);
	assert_int_equal(dispatch_load(d->dispatch, 1, NULL), 0);
}

static void daemon_end(struct daemon *d)
{
	d->store = store_free(d->store);
	d->dispatch = dispatch_free(d->dispatch);
	d->fleet = fleet_free(d->fleet);
}

/* As a hub that is killed: what was submitted is written, and nothing is done about it any more. */
static void daemon_again(struct daemon *d, const char *db, bool found)
{
	static const char *const unreachable = "unreachable";
	bool lost[3];

	for (size_t i = 0; i < 3; i++)
		lost[i] = strcmp(fleet_at(d->fleet, i)->record.health.state, unreachable) == 0;
	daemon_end(d);
	daemon_start(d, db, found);
	for (size_t i = 0; i < 3; i++)
		if (lost[i]) {
			struct executor *e = fleet_at(d->fleet, i);

			free(e->record.health.state);
			e->record.health.state = strdup(unreachable);
		}
}

static void set_state(struct daemon *d, const char *id, const char *word)
{
	struct executor *e = fleet_find(d->fleet, id);

	free(e->record.health.state);
	e->record.health.state = strdup(word);
}

static void lose(struct daemon *d, const char *id)
{
	set_state(d, id, "unreachable");
	dispatch_executor_lost(d->dispatch, fleet_find(d->fleet, id)->record.serial);
}

static void answered(void *user, const struct session *s, const struct error *err, uint32_t committed)
{
	(void)s;
	(void)err;
	(void)committed;
	(*(unsigned *)user)++;
}

static void signalled(void *user, int result, const struct error *err)
{
	(void)err;
	*(int *)user = result;
}

static void say_started(struct daemon *d)
{
	const struct executor_started started = {.pid = 77, .started_at_ns = 1000, .image = ""};

	dispatch_events.started(d->dispatch, 1, &started);
}

static void say_ended(struct daemon *d, enum session_cause cause, int code)
{
	const struct executor_exit ended = {.cause = cause, .exit_code = code, .finished_at_ns = 2000,
					    .signal = cause == SESSION_CAUSE_SIGNAL ? 9 : 0,
					    .log_bytes = 12, .started_at_ns = 1000, .pid = 77,
					    .reason = "why"};

	dispatch_events.ended(d->dispatch, 1, &ended);
}

/* Starts session 1 on "a" and lets it run. */
static void start_one(struct daemon *d)
{
	static const uint32_t groups[] = {4, 27};
	static const char text[] = "{\"work_dir\":\"/\",\"argv\":[\"/bin/true\"],"
				   "\"labels\":{\"cloop.session\":\"one\"}}";
	struct spec *spec = NULL;
	struct error err;
	unsigned n = 0;

	assert_int_equal(spec_parse(text, strlen(text), &spec, &err), 0);
	struct dispatch_start s = {
		.executor = fleet_find(d->fleet, "a"),
		.spec = spec, .uid = 10, .gid = 10, .groups = groups, .n_groups = 2,
	};
	assert_int_equal(dispatch_start(d->dispatch, &s, answered, &n, &err), 0);
	store_flush(d->store);
	say_started(d);
	store_flush(d->store);
	assert_int_equal(n, 1);
	d->fake.launches = 0;
}

static const struct session *one(struct daemon *d)
{
	const struct session *s = dispatch_get(d->dispatch, 1);

	assert_non_null(s);
	return s;
}

static uint64_t inflight(struct daemon *d, const char *id)
{
	return fleet_find(d->fleet, id)->inflight;
}

static unsigned count_events(struct daemon *d, const char *what)
{
	static char events[65536];
	size_t n = 0;
	unsigned count = 0;

	assert_int_equal(event_read(store_reader(d->store), 0, events, sizeof(events) - 1, &n, NULL), 0);
	events[n] = '\0';
	for (const char *p = events; (p = strstr(p, what)); p++)
		count++;
	return count;
}

static void it_goes_from_one_to_the_next(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;

	daemon_start(&d, dir->db, true);
	start_one(&d);
	set_state(&d, "a", "cordoned");
	dispatch_executor_lost(d.dispatch, 1);
	set_state(&d, "a", "draining");
	dispatch_tick(d.dispatch);
	store_flush(d.store);
	assert_int_equal(one(&d)->attempt, 1); /* these are never given up */

	lose(&d, "a");
	lose(&d, "a"); /* told twice */
	assert_int_equal(d.fake.kills, 0); /* nothing is touched before the claim is written */
	store_flush(d.store);
	assert_int_equal(d.fake.kills, 1);
	assert_int_equal(d.fake.killed_attempt, 1);
	assert_int_equal(one(&d)->attempt, 2);
	assert_int_equal(one(&d)->state, SESSION_PENDING);
	assert_string_equal(one(&d)->executor, "");
	assert_true(dispatch_in_flight_on(d.dispatch, 1, 1)); /* it may run there */
	assert_int_equal(inflight(&d, "a"), 1);
	dispatch_tick(d.dispatch);
	store_flush(d.store);
	assert_int_equal(d.fake.kills, 2); /* until its end comes, and nothing is started before */
	assert_int_equal(d.fake.launches, 0);

	say_ended(&d, SESSION_CAUSE_SIGNAL, 0);
	assert_int_equal(d.fake.launches, 0);
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 1);
	assert_int_equal(d.fake.attempt, 2);
	assert_string_equal(d.avoided, "a");
	assert_string_equal(one(&d)->executor, "b");
	assert_string_equal(one(&d)->error, "");
	assert_int_equal(inflight(&d, "a"), 0);
	assert_int_equal(inflight(&d, "b"), 1);
	assert_false(dispatch_in_flight_on(d.dispatch, 1, 1));
	say_started(&d);
	store_flush(d.store);
	assert_int_equal(one(&d)->state, SESSION_RUNNING);
	say_ended(&d, SESSION_CAUSE_EXIT, 3);
	store_flush(d.store);
	assert_int_equal(one(&d)->exit_code, 3);
	assert_int_equal(one(&d)->attempt, 2);
	assert_string_equal(one(&d)->handle_id, "one.2");
	assert_int_equal(inflight(&d, "b"), 0);
	assert_int_equal(dispatch_count_live(d.dispatch), 0);

	AUTO_ATTEMPT_LIST struct attempt_list list = {0};
	assert_int_equal(attempt_list(store_reader(d.store), 1, &list, NULL), 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.rows[0].state, SESSION_KILLED);
	assert_int_equal(list.rows[0].signal, 9);
	assert_string_equal(list.rows[0].executor, "a");
	assert_int_equal(list.rows[1].state, SESSION_EXITED);
	assert_string_equal(list.rows[1].executor, "b");
	assert_int_equal(count_events(&d, "\"session.claimed\""), 1);
	assert_int_equal(count_events(&d, "\"session.fenced\""), 1);
	assert_int_equal(count_events(&d, "\"session.failover\""), 1);
	assert_int_equal(count_events(&d, "\"session.started\""), 2);
	assert_int_equal(count_events(&d, "\"session.ended\""), 1);
	AUTO_HANDLE_ROW_LIST struct handle_row_list handles = {0};
	assert_int_equal(handle_row_list(store_reader(d.store), "", &handles, NULL), 0);
	assert_int_equal(handles.n, 0);
	daemon_end(&d);
}

/* Every place where a hub can die between two commits: the next one goes on from there. */
static void a_new_hub_goes_on_where_the_last_one_died(void **state)
{
	const struct help_dir *dir = *state;

	for (int death = 0; death < 5; death++) {
		struct help_dir own;
		struct daemon d;

		help_dir_init(&own, dir->path);
		daemon_start(&d, own.db, true);
		start_one(&d);
		lose(&d, "a");
		if (death == 0) /* the claim is written, and nothing is known of it */
			daemon_again(&d, own.db, true);
		store_flush(d.store);
		if (death == 1) /* it was killed, and its end has not come */
			daemon_again(&d, own.db, true);
		/* The driver says hello to the new hub. */
		dispatch_events.ready(d.dispatch, &d.fake.driver);
		assert_true(d.fake.kills > 0);
		assert_int_equal(inflight(&d, "a"), 1);
		say_ended(&d, SESSION_CAUSE_SIGNAL, 0);
		if (death == 2) { /* its end is written, and nothing was placed */
			daemon_again(&d, own.db, false);
			dispatch_events.ready(d.dispatch, &d.fake.driver);
			assert_int_equal(inflight(&d, "a"), 0);
			dispatch_tick(d.dispatch);
		}
		store_flush(d.store);
		if (death == 3 || death == 4) { /* it was placed; launched or not, its driver knows */
			daemon_again(&d, own.db, death == 4);
			d.fake.launches = 0;
			dispatch_events.ready(d.dispatch, &d.fake.driver);
		}
		assert_int_equal(d.fake.launches, death != 4);
		assert_string_equal(one(&d)->executor, "b");
		assert_int_equal(one(&d)->attempt, 2);
		say_started(&d);
		say_ended(&d, SESSION_CAUSE_EXIT, 0);
		store_flush(d.store);
		assert_int_equal(one(&d)->state, SESSION_EXITED);
		assert_int_equal(count_events(&d, "\"session.claimed\""), 1);
		assert_int_equal(count_events(&d, "\"session.fenced\""), 1);
		assert_int_equal(count_events(&d, "\"session.failover\""), 1);
		assert_int_equal(count_events(&d, "\"session.ended\""), 1);
		daemon_end(&d);
		help_dir_clean(&own);
	}
}

static void an_end_that_comes_during_the_claim_is_the_earlier_attempts(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;

	daemon_start(&d, dir->db, true);
	start_one(&d);
	lose(&d, "a");
	say_ended(&d, SESSION_CAUSE_EXIT, 0);
	store_flush(d.store);
	assert_int_equal(d.fake.kills, 0);
	assert_int_equal(one(&d)->attempt, 2);
	assert_string_equal(one(&d)->executor, "b");
	daemon_end(&d);
}

static void what_never_ran_needs_no_end(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;

	daemon_start(&d, dir->db, false);
	start_one(&d);
	lose(&d, "a");
	store_flush(d.store);
	assert_int_equal(d.fake.kills, 0);
	assert_string_equal(one(&d)->executor, "b");
	daemon_end(&d);
}

static void without_an_executor_it_waits_for_one(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	int result = 1;

	daemon_start(&d, dir->db, false);
	start_one(&d);
	d.nobody = "no executor has it all";
	lose(&d, "a");
	store_flush(d.store);
	dispatch_tick(d.dispatch);
	store_flush(d.store);
	assert_int_equal(one(&d)->state, SESSION_PENDING);
	assert_string_equal(one(&d)->error, "waits for an executor: no executor has it all");
	assert_int_equal(count_events(&d, "\"session.failover\""), 1); /* told once */
	assert_int_equal(inflight(&d, "a") + inflight(&d, "b"), 0);

	daemon_again(&d, dir->db, false);
	dispatch_events.ready(d.dispatch, &d.fake.driver);
	assert_int_equal(one(&d)->state, SESSION_PENDING);
	d.nobody = "no executor has it all";
	dispatch_tick(d.dispatch);
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 0);
	d.nobody = NULL;
	dispatch_executor_fit(d.dispatch);
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 1);
	assert_string_equal(d.avoided, "a");
	assert_string_equal(one(&d)->error, "");
	say_started(&d);
	store_flush(d.store);

	/* One that waits can be ended, and then nothing starts. */
	d.nobody = "nobody";
	lose(&d, "b");
	store_flush(d.store);
	d.nobody = NULL;
	const struct signal_key key = {1, 1};
	struct error err;
	assert_int_equal(dispatch_signal(d.dispatch, 1, &key, SIGNAL_TERMINATE, signalled, &result, &err), 0);
	assert_int_equal(result, 0);
	store_flush(d.store);
	assert_int_equal(one(&d)->state, SESSION_KILLED);
	assert_int_equal(one(&d)->signal, SIGTERM);
	assert_int_equal(d.fake.launches, 1);
	daemon_end(&d);
}

static void one_that_brings_executors_down_is_quarantined(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	struct error err;
	int result = 1;

	daemon_start(&d, dir->db, false);
	start_one(&d);
	assert_int_equal(dispatch_retry(d.dispatch, 1, 10, signalled, &result, &err), -EINVAL);
	lose(&d, "a");
	store_flush(d.store);
	say_started(&d);
	lose(&d, "b");
	store_flush(d.store);
	assert_int_equal(one(&d)->state, SESSION_PENDING);
	assert_non_null(strstr(one(&d)->error, "quarantined: 2 executors (a, b)"));
	set_state(&d, "a", "ready");
	dispatch_executor_fit(d.dispatch);
	dispatch_tick(d.dispatch);
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 1);

	daemon_again(&d, dir->db, false); /* which forgets nothing */
	dispatch_events.ready(d.dispatch, &d.fake.driver);
	dispatch_tick(d.dispatch);
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 0);
	assert_int_equal(dispatch_retry(d.dispatch, 1, 10, signalled, &result, &err), 0);
	store_flush(d.store);
	assert_int_equal(result, 0);
	assert_int_equal(d.fake.launches, 1);
	assert_int_equal(d.fake.attempt, 3);
	assert_int_equal(count_events(&d, "\"session.released\""), 1);
	say_started(&d);
	/* It begins anew: the next executor that is lost moves it. */
	lose(&d, one(&d)->executor);
	store_flush(d.store);
	assert_null(strstr(one(&d)->error, "quarantined"));
	assert_int_equal(one(&d)->attempt, 4);
	daemon_end(&d);
}

static void it_is_moved_so_often_and_no_more(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;

	daemon_start(&d, dir->db, true);
	dispatch_set_max_attempts(d.dispatch, 1);
	start_one(&d);
	lose(&d, "a");
	store_flush(d.store);
	say_ended(&d, SESSION_CAUSE_SIGNAL, 0);
	store_flush(d.store);
	say_started(&d);
	store_flush(d.store);
	lose(&d, "b");
	store_flush(d.store);
	/* It is ended before it is said to have ended; the new hub knows that it is to be. */
	assert_int_equal(one(&d)->state, SESSION_RUNNING);
	daemon_again(&d, dir->db, true);
	dispatch_events.ready(d.dispatch, &d.fake.driver);
	assert_int_equal(d.fake.killed_attempt, 2);
	say_ended(&d, SESSION_CAUSE_SIGNAL, 0);
	store_flush(d.store);
	assert_int_equal(one(&d)->state, SESSION_FAILED);
	assert_int_equal(one(&d)->attempt, 2);
	assert_non_null(strstr(one(&d)->error, "failover.max_attempts"));
	assert_int_equal(inflight(&d, "b"), 0);
	assert_int_equal(count_events(&d, "\"session.failover_exhausted\""), 1);
	daemon_end(&d);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define FAILOVER_TEST(name) cmocka_unit_test_setup_teardown(name, help_dir_make, help_dir_remove)
		FAILOVER_TEST(it_goes_from_one_to_the_next),
		FAILOVER_TEST(a_new_hub_goes_on_where_the_last_one_died),
		FAILOVER_TEST(an_end_that_comes_during_the_claim_is_the_earlier_attempts),
		FAILOVER_TEST(what_never_ran_needs_no_end),
		FAILOVER_TEST(without_an_executor_it_waits_for_one),
		FAILOVER_TEST(one_that_brings_executors_down_is_quarantined),
		FAILOVER_TEST(it_is_moved_so_often_and_no_more),
	};

	return cmocka_run_group_tests_name("failover", tests, NULL, NULL);
}
