#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/dispatch.h"
#include "core/store/event.h"
#include "tests/unit/store_help.h"

#define BOOT "boot-1"

/* --- a driver that does what the test says --------------------------------------------------- */

enum adopt_answer { ADOPT_NEVER, ADOPT_FOUND, ADOPT_ERROR };

struct fake {
	struct driver driver;
	unsigned launches, signals;
	uint32_t launched; /* the serial of the last launch */
	uint32_t n_groups;
	int launch_result, check_result;
	enum adopt_answer adopt;
	enum signal_kind signal;
	bool unsupervised; /* nobody could be signalled: the launch is not there yet */
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
	(void)launch;
	return ((struct fake *)d)->check_result ? error_set(err, EOPNOTSUPP, "cannot") : 0;
}

static int fake_launch(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	struct fake *f = (struct fake *)d;

	if (f->launch_result)
		return error_set(err, -f->launch_result, "no");
	f->launches++;
	f->launched = launch->serial;
	f->n_groups = (uint32_t)launch->n_groups;
	assert_string_equal(launch->spec->argv[0], "/bin/true");
	return 0;
}

static int fake_adopt(struct driver *d, uint32_t serial, uint32_t attempt,
		      const struct executor_config *config, bool *ret, struct error *err)
{
	(void)config;
	(void)serial;
	assert_int_equal(attempt, 1);
	if (((struct fake *)d)->adopt == ADOPT_ERROR)
		return error_set(err, EMFILE, "too many files");
	*ret = ((struct fake *)d)->adopt == ADOPT_FOUND;
	return 0;
}

static int fake_signal(struct driver *d, uint32_t serial, uint32_t attempt, const struct signal_key *key,
		       enum signal_kind signal, executor_signal_fn *done, void *user, struct error *err)
{
	struct fake *f = (struct fake *)d;

	(void)serial;
	(void)attempt;
	(void)key;
	if (f->unsupervised)
		return error_set(err, EAGAIN, "being started");
	f->signals++;
	f->signal = signal;
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

/* --- one daemon ----------------------------------------------------------------------------- */

struct daemon {
	struct fake fake;
	struct driver *drivers[2];
	struct store *store;
	struct fleet *fleet;
	struct dispatch *dispatch;
	unsigned created, removed, forgotten, mended, told;
};

static void on_serial(void *user, uint32_t serial)
{
	(void)user;
	(void)serial;
}

static void on_forget(void *user, uint32_t serial)
{
	(void)serial;
	((struct daemon *)user)->forgotten++;
}

static void on_created(void *user, uint32_t serial, const char *name)
{
	(void)serial;
	assert_true(name[0] != '\0');
	((struct daemon *)user)->created++;
}

static void on_removed(void *user, uint32_t serial, const char *name, int64_t executor_serial,
		       int64_t project_serial)
{
	(void)project_serial;
	(void)serial;
	(void)executor_serial;
	(void)name;
	((struct daemon *)user)->removed++;
}

static void on_inflight(void *user, int64_t serial)
{
	(void)user;
	(void)serial;
}

static void on_told(void *user)
{
	((struct daemon *)user)->told++;
}

static void on_log(void *user, const char *line)
{
	(void)user;
	(void)line;
}

/* Mending takes no time here; its place in the order of things is what counts. */
static void on_mend(void *user, uint32_t serial, uint64_t log_quota_bytes)
{
	struct daemon *d = user;

	assert_int_equal(log_quota_bytes, LOG_QUOTA_DEFAULT);
	assert_false(session_state_finished(dispatch_get(d->dispatch, serial)->state));
	d->mended++;
	dispatch_mended(d->dispatch, serial, 42);
}

static const struct dispatch_hooks hooks = {
	.changed = on_serial,
	.created = on_created,
	.removed = on_removed,
	.inflight = on_inflight,
	.told = on_told,
	.log = on_log,
	.mend = on_mend,
	.forget = on_forget,
};

static int add_executor(struct store_tx *tx, void *arg, struct error *err)
{
	static char name[] = "x", empty[] = "", kind[] = "fake",
		    config[] = "{\"kind\":\"fake\",\"max_concurrent\":3}";
	const struct executor_record row = {
		.serial = 1, .name = name, .kind = kind, .config = config, .config_error = empty,
		.health = {.state = empty, .reason = empty},
	};

	(void)arg;
	return executor_record_seed(tx, &row, err);
}

static void daemon_start(struct daemon *d, const char *db, const char *boot)
{
	*d = (struct daemon){.fake = {.driver = {.ops = &fake_ops, .ready = true}}};
	d->drivers[0] = &d->fake.driver;
	d->store = help_open(db);
	assert_true(help_run(d->store, add_executor, NULL, NULL) >= 0);
	d->fleet = fleet_new(d->drivers);
	assert_int_equal(fleet_load(d->fleet, store_reader(d->store), NULL), 0);
	assert_int_equal(dispatch_new(d->store, d->fleet, boot, &hooks, d, &d->dispatch, NULL), 0);
	assert_int_equal(dispatch_load(d->dispatch, 1, NULL), 0);
}

static void daemon_end(struct daemon *d)
{
	d->store = store_free(d->store);
	d->dispatch = dispatch_free(d->dispatch);
	d->fleet = fleet_free(d->fleet);
}

/* What a start was answered. */
struct answer {
	unsigned n;
	char name[SESSION_ID_MAX + 1];
	int code;
	uint32_t committed;
};

static void answered(void *user, const struct session *s, const struct error *err, uint32_t committed)
{
	struct answer *a = user;

	a->n++;
	a->code = err ? err->code : 0;
	a->committed = committed;
	(void)snprintf(a->name, sizeof(a->name), "%s", s ? s->name : "");
}

static int start(struct daemon *d, const char *name, const char *work_dir, uid_t uid, uint64_t unique,
		 struct answer *a)
{
	static const uint32_t groups[] = {4, 27};
	char text[512];
	struct spec *spec = NULL;
	struct error err;

	(void)snprintf(text, sizeof(text), "{\"work_dir\":\"%s\",\"argv\":[\"/bin/true\"]%s%s%s}", work_dir,
		       name ? ",\"labels\":{\"cloop.session\":\"" : "", name ? name : "", name ? "\"}" : "");
	assert_int_equal(spec_parse(text, strlen(text), &spec, &err), 0);
	struct dispatch_start s = {
		.executor = fleet_find(d->fleet, "x"),
		.spec = spec, .uid = uid, .gid = uid, .groups = groups, .n_groups = 2,
		.origin_mount = 5, .origin_unique = unique,
	};
	int r = dispatch_start(d->dispatch, &s, answered, a, &err);
	(void)spec_free(s.spec);
	return r;
}

static void say_started(struct daemon *d, uint32_t serial)
{
	const struct executor_started started = {.pid = 77, .started_at_ns = 1000, .image = ""};

	dispatch_events.started(d->dispatch, serial, &started);
}

static void say_ended(struct daemon *d, uint32_t serial, enum session_cause cause, int code)
{
	const struct executor_exit ended = {.cause = cause, .exit_code = code, .finished_at_ns = 2000,
					    .signal = cause == SESSION_CAUSE_SIGNAL ? 9 : 0, .log_bytes = 12,
					    .started_at_ns = 1000, .pid = 77, .reason = "why"};

	dispatch_events.ended(d->dispatch, serial, &ended);
}

static enum session_state state_of(struct daemon *d, const char *name)
{
	uint32_t serial;

	assert_int_equal(dispatch_find(d->dispatch, name, &serial), 0);
	return dispatch_get(d->dispatch, serial)->state;
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

/* --- tests ---------------------------------------------------------------------------------- */

static void nothing_is_launched_before_its_row_is_written(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	struct answer a = {0};

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), 0);
	assert_int_equal(d.fake.launches, 0);
	uint32_t serial;
	assert_int_equal(dispatch_find(d.dispatch, "one", &serial), -ENOENT); /* not yet visible */
	assert_int_equal(fleet_find(d.fleet, "x")->inflight, 1);        /* but counted */
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 1);
	assert_int_equal(d.fake.n_groups, 2);
	assert_int_equal(a.n, 0);
	assert_int_equal(state_of(&d, "one"), SESSION_PENDING);
	say_started(&d, d.fake.launched);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.code, 0);
	assert_string_equal(a.name, "one");
	assert_int_equal(state_of(&d, "one"), SESSION_RUNNING);
	say_ended(&d, d.fake.launched, SESSION_CAUSE_EXIT, 3);
	assert_int_equal(fleet_find(d.fleet, "x")->inflight, 0);
	store_flush(d.store);
	assert_int_equal(dispatch_count_live(d.dispatch), 0);
	assert_int_equal(dispatch_find(d.dispatch, "one", &serial), 0);
	const struct session *s = dispatch_get(d.dispatch, serial);
	assert_int_equal(s->state, SESSION_EXITED);
	assert_int_equal(s->exit_code, 3);
	assert_int_equal(s->log_bytes, 12);
	assert_int_equal(session_wait_code(s), 3);
	assert_int_equal(count_events(&d, "session.started"), 1);
	assert_int_equal(count_events(&d, "session.ended"), 1);
	daemon_end(&d);
}

static void a_retry_is_answered_with_the_same_session(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	struct answer a = {0}, b = {0}, c = {0}, e = {0};

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), 0);
	assert_int_equal(start(&d, "one", "/", 10, 2, &b), 0); /* while its row is written */
	assert_int_equal(start(&d, "one", "/tmp", 10, 3, &e), -EEXIST);
	assert_int_equal(start(&d, "one", "/", 11, 4, &e), -EPERM);
	store_flush(d.store);
	assert_int_equal(start(&d, "one", "/", 10, 5, &c), 0); /* while it is launched */
	say_started(&d, d.fake.launched);
	assert_int_equal(d.fake.launches, 1);
	assert_true(a.n == 1 && b.n == 1 && c.n == 1);
	assert_string_equal(b.name, "one");
	say_ended(&d, d.fake.launched, SESSION_CAUSE_EXIT, 0);
	store_flush(d.store);
	assert_int_equal(start(&d, "one", "/", 10, 6, &a), 0); /* when it is over */
	assert_int_equal(a.n, 2);
	assert_int_equal(start(&d, "one", "/tmp", 10, 7, &e), -EEXIST);
	assert_int_equal(start(&d, "one", "/", 11, 8, &e), -EPERM);
	assert_int_equal(d.fake.launches, 1);
	assert_int_equal(e.n, 0);
	daemon_end(&d);
}

static void bad_ids_are_refused(void **state)
{
	static const char *const bad[] = {
		"", "-a", ".a", "A", "a b", "a/b", "s-abcdefghijklmnop",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	const struct help_dir *dir = *state;
	struct daemon d;
	struct answer a = {0};

	daemon_start(&d, dir->db, BOOT);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(start(&d, bad[i], "/", 10, 1, &a), -EINVAL);
	assert_int_equal(start(&d, "s-abcdefghijklmno1", "/", 10, 1, &a), 0); /* no base32 digit: free */
	daemon_end(&d);
}

static int take_back(struct store_tx *tx, void *serial, struct error *err)
{
	return dispatch_apply_take_back(tx, *(uint32_t *)serial, err);
}

static void signal_refused(void *user, int result, const struct error *err)
{
	assert_non_null(err);
	assert_int_equal(result, -ESTALE);
	++*(unsigned *)user;
}

static void a_start_that_fails_leaves_nothing(void **state)
{
	const struct help_dir *dir = *state;
	const struct signal_key key = {1, 2};
	struct daemon d;
	struct answer a = {0}, b = {0}, c = {0};
	struct error err;
	uint32_t serial;
	unsigned refused = 0;

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), 0);
	assert_int_equal(start(&d, "one", "/", 10, 2, &b), 0);
	store_flush(d.store);
	(void)error_set(&err, ENOENT, "cannot execute");
	d.fake.unsupervised = true;
	assert_int_equal(dispatch_signal(d.dispatch, d.fake.launched, &key, SIGNAL_KILL, signal_refused,
					 &refused, NULL), 0);
	dispatch_events.failed(d.dispatch, d.fake.launched, &err);
	assert_int_equal(refused, 1);
	/* Who asked first takes the row back; the other hears of it when it is gone. */
	assert_true(a.n == 1 && a.code == ENOENT && b.n == 0);
	assert_int_equal(a.committed, d.fake.launched);
	serial = a.committed;
	assert_int_equal(start(&d, "one", "/", 10, 3, &c), -EBUSY); /* its name is not free yet */
	assert_int_equal(help_run(d.store, take_back, &serial, NULL), 0);
	dispatch_taken_back(d.dispatch, serial);
	assert_true(b.n == 1 && b.code == ENOENT && b.committed == 0);
	assert_int_equal(dispatch_find(d.dispatch, "one", &serial), -ENOENT);
	assert_int_equal(fleet_find(d.fleet, "x")->inflight, 0);
	assert_int_equal(d.created, 1);
	assert_int_equal(d.removed, 1);
	assert_int_equal(d.forgotten, 1);
	assert_int_equal(start(&d, "one", "/tmp", 10, 4, &b), 0); /* now it is */
	daemon_end(&d);
}

static void what_is_refused_at_once_writes_nothing(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	struct answer a = {0};

	daemon_start(&d, dir->db, BOOT);
	d.fake.check_result = 1;
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), -EOPNOTSUPP);
	d.fake.check_result = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(start(&d, NULL, "/", 10, (uint64_t)i + 2, &a), 0);
	assert_int_equal(start(&d, NULL, "/", 10, 9, &a), -EBUSY); /* max_concurrent */
	store_flush(d.store);
	assert_int_equal(d.fake.launches, 3);
	assert_int_equal(dispatch_count_live(d.dispatch), 3);
	daemon_end(&d);
}

/* Leaves a session in the store as a daemon that was killed at that point leaves it. */
static void leave(const char *db, const char *boot, bool running)
{
	struct daemon d;
	struct answer a = {0};

	daemon_start(&d, db, boot);
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), 0);
	store_flush(d.store);
	if (running)
		say_started(&d, d.fake.launched);
	store_flush(d.store);
	daemon_end(&d);
}

static void the_next_daemon_finds_out(void **state)
{
	static const struct {
		const char *boot;
		bool running;
		enum adopt_answer adopt;
		unsigned want_launches;
		enum session_state want;
		const char *want_error;
	} cases[] = {
		{BOOT, false, ADOPT_NEVER, 1, SESSION_PENDING, ""},
		{BOOT, false, ADOPT_FOUND, 0, SESSION_PENDING, ""},
		{BOOT, true, ADOPT_FOUND, 0, SESSION_RUNNING, ""},
		{BOOT, true, ADOPT_NEVER, 0, SESSION_FAILED, "nothing is left"},
		{"boot-2", false, ADOPT_NEVER, 0, SESSION_FAILED, "machine was restarted before"},
		{"boot-2", true, ADOPT_NEVER, 0, SESSION_FAILED, "machine was restarted while it ran"},
		{BOOT, true, ADOPT_ERROR, 0, SESSION_RUNNING, ""},
		{BOOT, false, ADOPT_ERROR, 0, SESSION_PENDING, ""},
	};
	const struct help_dir *dir = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char db[256];
		struct daemon d;
		struct answer a = {0};
		uint32_t serial;

		(void)snprintf(db, sizeof(db), "%s/case-%zu.db", dir->path, i);
		leave(db, BOOT, cases[i].running);
		daemon_start(&d, db, cases[i].boot);
		d.fake.adopt = cases[i].adopt;
		/* The request that asked for it was not answered: it is asked again. */
		assert_true(dispatch_resume(d.dispatch, 5, 1, answered, &a));
		assert_false(dispatch_resume(d.dispatch, 5, 2, answered, &a));
		dispatch_events.ready(d.dispatch, &d.fake.driver);
		store_flush(d.store);
		assert_int_equal(d.fake.launches, cases[i].want_launches);
		assert_int_equal(state_of(&d, "one"), cases[i].want);
		assert_int_equal(dispatch_find(d.dispatch, "one", &serial), 0);
		assert_non_null(strstr(dispatch_get(d.dispatch, serial)->error, cases[i].want_error));
		if (cases[i].adopt == ADOPT_ERROR) {
			d.fake.adopt = ADOPT_FOUND; /* no verdict: asked again */
			dispatch_tick(d.dispatch);
		}
		if (cases[i].want != SESSION_FAILED) {
			say_started(&d, serial);
			say_ended(&d, serial, SESSION_CAUSE_SIGNAL, -1);
			store_flush(d.store);
			assert_int_equal(state_of(&d, "one"), SESSION_KILLED);
			assert_int_equal(count_events(&d, "session.started"), 1);
		}
		assert_int_equal(count_events(&d, "session.ended"), 1);
		assert_int_equal(a.n, 1);
		assert_int_equal(a.code, 0);
		assert_int_equal(fleet_find(d.fleet, "x")->inflight, 0);
		daemon_end(&d);
	}
}

static void a_session_that_ended_meanwhile_is_told_whole(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	uint32_t serial;

	leave(dir->db, BOOT, false);
	daemon_start(&d, dir->db, BOOT);
	d.fake.adopt = ADOPT_FOUND;
	dispatch_events.ready(d.dispatch, &d.fake.driver);
	assert_int_equal(dispatch_find(d.dispatch, "one", &serial), 0);
	say_ended(&d, serial, SESSION_CAUSE_EXIT, 0);
	store_flush(d.store);
	assert_int_equal(state_of(&d, "one"), SESSION_EXITED);
	assert_int_equal(dispatch_get(d.dispatch, serial)->started_at_ns, 1000);
	assert_int_equal(count_events(&d, "session.started"), 1);
	assert_int_equal(count_events(&d, "session.ended"), 1);
	daemon_end(&d);
}

static void lost_after_a_restart_of_the_machine_says_so(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	uint32_t serial;

	leave(dir->db, BOOT, true);
	daemon_start(&d, dir->db, "boot-2");
	d.fake.adopt = ADOPT_FOUND;
	dispatch_events.ready(d.dispatch, &d.fake.driver);
	assert_int_equal(dispatch_find(d.dispatch, "one", &serial), 0);
	say_ended(&d, serial, SESSION_CAUSE_LOST, -1);
	store_flush(d.store);
	const struct session *s = dispatch_get(d.dispatch, serial);
	assert_int_equal(s->state, SESSION_FAILED);
	assert_int_equal(s->exit_code, -1);
	assert_int_equal(session_wait_code(s), 255);
	assert_non_null(strstr(s->error, "machine was restarted"));
	assert_int_equal(d.mended, 1);
	assert_int_equal(s->log_bytes, 42);
	daemon_end(&d);
}

static void signal_done(void *user, int result, const struct error *err)
{
	(void)err;
	assert_int_equal(result, 0);
	++*(unsigned *)user;
}

static void signals_wait_for_the_start_and_succeed_after_the_end(void **state)
{
	const struct help_dir *dir = *state;
	const struct signal_key key = {1, 2};
	struct daemon d;
	struct answer a = {0};
	unsigned done = 0;

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), 0);
	store_flush(d.store);
	uint32_t serial = d.fake.launched;
	d.fake.unsupervised = true;
	assert_int_equal(dispatch_signal(d.dispatch, serial, &key, SIGNAL_INTERRUPT, signal_done, &done, NULL), 0);
	assert_int_equal(dispatch_signal(d.dispatch, serial, &key, SIGNAL_KILL, signal_done, &done, NULL), 0);
	assert_int_equal(d.fake.signals, 0);
	d.fake.unsupervised = false;
	say_started(&d, serial);
	assert_int_equal(d.fake.signals, 2);
	assert_int_equal(d.fake.signal, SIGNAL_KILL); /* in the order they came */
	assert_int_equal(done, 2);
	say_ended(&d, serial, SESSION_CAUSE_SIGNAL, -1);
	assert_int_equal(dispatch_signal(d.dispatch, serial, &key, SIGNAL_KILL, signal_done, &done, NULL), 0);
	store_flush(d.store);
	assert_int_equal(dispatch_signal(d.dispatch, serial, &key, SIGNAL_KILL, signal_done, &done, NULL), 0);
	assert_int_equal(done, 4);
	assert_int_equal(d.fake.signals, 2);
	assert_int_equal(dispatch_signal(d.dispatch, 999, &key, SIGNAL_KILL, signal_done, &done, NULL), -ESTALE);
	daemon_end(&d);
}

static void a_launch_that_does_not_come_up_is_signalled(void **state)
{
	const struct help_dir *dir = *state;
	const struct signal_key key = {1, 2};
	struct daemon d;
	struct answer a = {0};
	unsigned done = 0;

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(start(&d, "one", "/", 10, 1, &a), 0);
	store_flush(d.store);
	uint32_t serial = d.fake.launched;
	assert_int_equal(dispatch_signal(d.dispatch, serial, &key, SIGNAL_KILL, signal_done, &done, NULL), 0);
	assert_int_equal(d.fake.signals, 1);
	assert_int_equal(done, 1);
	assert_int_equal(state_of(&d, "one"), SESSION_PENDING);
	say_ended(&d, serial, SESSION_CAUSE_SIGNAL, -1);
	assert_int_equal(d.fake.signals, 1);
	assert_int_equal(a.n, 1);
	assert_int_equal(state_of(&d, "one"), SESSION_KILLED);
	daemon_end(&d);
}

struct listed {
	size_t n, max;
	uint32_t last;
};

static bool list_fn(void *user, uint32_t serial, const char *name)
{
	struct listed *l = user;

	(void)name;
	if (l->n == l->max)
		return false;
	assert_true(serial > l->last);
	l->last = serial;
	l->n++;
	return true;
}

static int insert_many(struct store_tx *tx, void *n, struct error *err)
{
	static char empty[] = "", spec[] = "{}", token[] = "1";
	char name[16];

	for (int64_t i = 1; i <= *(int *)n; i++) {
		(void)snprintf(name, sizeof(name), "n%lld", (long long)i);
		const struct session s = {
			.serial = i, .name = name, .executor = empty, .state = SESSION_EXITED,
			.cause = SESSION_CAUSE_EXIT, .boot_id = empty, .handle_id = empty,
			.claim_token = token, .attempt = 1, .created_at_ns = i, .finished_at_ns = i,
			.project_path = empty, .error = empty, .requirements = empty, .spec = spec,
			.groups = empty,
		};
		int r = session_insert(tx, &s, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void listings_resume_where_they_stopped(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	int n = 1500;
	struct listed l = {.max = 700};

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(help_run(d.store, insert_many, &n, NULL), 0);
	assert_int_equal(dispatch_list(d.dispatch, 0, list_fn, &l), 0);
	assert_int_equal(l.n, 700);
	l.max = 5000;
	assert_int_equal(dispatch_list(d.dispatch, (uint64_t)l.last + 1, list_fn, &l), 0);
	assert_int_equal(l.n, 1500);
	uint32_t serial;
	assert_int_equal(dispatch_find(d.dispatch, "n1234", &serial), 0);
	assert_string_equal(dispatch_get(d.dispatch, serial)->name, "n1234");
	/* Two that share a place in the cache. */
	assert_string_equal(dispatch_get(d.dispatch, serial - 256)->name, "n978");
	assert_string_equal(dispatch_get(d.dispatch, serial)->name, "n1234");
	assert_null(dispatch_get(d.dispatch, 0));
	/* A name that is remembered, one whose session gave its place away, one that never was. */
	assert_int_equal(dispatch_find(d.dispatch, "n1234", &serial), 0);
	assert_int_equal(serial, 1234);
	assert_int_equal(dispatch_find(d.dispatch, "n978", &serial), 0);
	assert_int_equal(serial, 978);
	assert_int_equal(dispatch_find(d.dispatch, "n1234", &serial), 0);
	assert_int_equal(serial, 1234);
	assert_int_equal(dispatch_find(d.dispatch, "n1501", &serial), -ENOENT);
	daemon_end(&d);
}

static int remove_session(struct store_tx *tx, void *serial, struct error *err)
{
	return dispatch_apply_remove(tx, *(uint32_t *)serial, 10, 3000, err);
}

static void doomed(void *user, int64_t serial)
{
	*(int64_t *)user = serial;
}

static void what_is_removed_is_gone_and_its_folder_remembered(void **state)
{
	const struct help_dir *dir = *state;
	struct daemon d;
	int n = 3;
	uint32_t serial = 2;
	int64_t dead = 0;

	daemon_start(&d, dir->db, BOOT);
	assert_int_equal(help_run(d.store, insert_many, &n, NULL), 0);
	assert_int_equal(dispatch_find(d.dispatch, "n2", &serial), 0);
	assert_non_null(dispatch_get(d.dispatch, serial));
	assert_int_equal(help_run(d.store, remove_session, &serial, NULL), 0);
	dispatch_removed(d.dispatch, serial, "n2");
	assert_int_equal(dispatch_find(d.dispatch, "n2", &serial), -ENOENT);
	assert_null(dispatch_get(d.dispatch, serial));
	assert_int_equal(d.forgotten, 1);
	assert_int_equal(session_list_doomed(store_reader(d.store), 0, 10, doomed, &dead, NULL), 1);
	assert_int_equal(dead, 2);
	assert_int_equal(count_events(&d, "session.removed"), 1);
	assert_int_equal(help_run(d.store, remove_session, &serial, NULL), -ENOENT);
	daemon_end(&d);
}

static void views_follow_the_row(void **state)
{
	static char name[] = "n", empty[] = "", executor[] = "x", why[] = "why";
	static const struct {
		enum session_state state;
		enum session_cause cause;
		int exit_code, signal, want_wait;
		const char *want;
	} cases[] = {
		{SESSION_EXITED, SESSION_CAUSE_EXIT, 0, 0, 0, "\"state\":\"exited\""},
		{SESSION_EXITED, SESSION_CAUSE_EXIT, 255, 0, 255, "\"exit_code\":255"},
		{SESSION_KILLED, SESSION_CAUSE_SIGNAL, -1, 15, 143, "\"signal\":15"},
		{SESSION_KILLED, SESSION_CAUSE_TIMEOUT, -1, 9, 137, "\"cause\":\"timeout\""},
		{SESSION_KILLED, SESSION_CAUSE_OOM, -1, 9, 137, "\"cause\":\"oom\""},
		{SESSION_FAILED, SESSION_CAUSE_LOST, -1, 0, 255, "\"error\":\"why\""},
		{SESSION_FAILED, SESSION_CAUSE_START, -1, 0, 255, "\"cause\":\"start\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct session s = {
			.name = name, .executor = executor, .state = cases[i].state, .cause = cases[i].cause,
			.exit_code = cases[i].exit_code, .signal = cases[i].signal, .attempt = 2, .error = why,
			.handle_id = empty,
		};
		json_t *status = session_status_json(&s), *handle = session_handle_json(&s);
		AUTO_FREE char *text = json_dumps(status, JSON_COMPACT);
		AUTO_FREE char *handle_text = json_dumps(handle, JSON_COMPACT);

		assert_int_equal(session_wait_code(&s), cases[i].want_wait);
		assert_non_null(strstr(text, cases[i].want));
		assert_string_equal(handle_text, "{\"id\":\"n.2\",\"executor_id\":\"x\"}");
		json_decref(status);
		json_decref(handle);
	}
}

static void signals_have_three_words(void **state)
{
	static const char *const bad[] = {"", "TERM", "kill ", "9", "Kill"};
	enum signal_kind signal = SIGNAL_INTERRUPT;
	struct error err;

	(void)state;
	assert_int_equal(signal_parse("terminate", &signal, &err), 0);
	assert_int_equal(signal, SIGNAL_TERMINATE);
	assert_string_equal(signal_name(SIGNAL_KILL), "kill");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(signal_parse(bad[i], &signal, &err), -EINVAL);
		assert_int_equal(err.kind, ERROR_INVALID_SIGNAL);
	}
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_DIR(nothing_is_launched_before_its_row_is_written),
		WITH_DIR(a_retry_is_answered_with_the_same_session),
		WITH_DIR(bad_ids_are_refused),
		WITH_DIR(a_start_that_fails_leaves_nothing),
		WITH_DIR(what_is_refused_at_once_writes_nothing),
		WITH_DIR(the_next_daemon_finds_out),
		WITH_DIR(a_session_that_ended_meanwhile_is_told_whole),
		WITH_DIR(lost_after_a_restart_of_the_machine_says_so),
		WITH_DIR(signals_wait_for_the_start_and_succeed_after_the_end),
		WITH_DIR(a_launch_that_does_not_come_up_is_signalled),
		WITH_DIR(listings_resume_where_they_stopped),
		WITH_DIR(what_is_removed_is_gone_and_its_folder_remembered),
		cmocka_unit_test(views_follow_the_row),
		cmocka_unit_test(signals_have_three_words),
	};

	return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
