/* Helper programs of the hub, through a real launcher: how they end, and that nothing outlives them. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/shim_fixture.h"

/* What was said of one run. */
struct said {
	int n_done;
	bool failed, timed_out, truncated;
	int exit_code, signal;
	char out[256], err[256];
	size_t out_len, err_len;
	struct error error;
	size_t streamed[3]; /* by enum shim_stream */
	bool cancel;        /* at the first output */
	struct fixture *f;
	uint64_t id;
};

static int setup(void **state)
{
	*state = fixture_open();
	return 0;
}

static int setup_none(void **state)
{
	*state = fixture_open_with(NULL, FIXTURE_GROUPS_NONE);
	return 0;
}

static int teardown(void **state)
{
	fixture_close(*state);
	return 0;
}

static void on_done(void *user, const struct run_result *result, const struct error *err)
{
	struct said *s = user;

	s->n_done++;
	assert_true((result == NULL) != (err == NULL));
	s->failed = err != NULL;
	if (err) {
		s->error = *err;
		return;
	}
	s->timed_out = result->timed_out;
	s->truncated = result->truncated;
	s->exit_code = result->exit_code;
	s->signal = result->signal;
	s->out_len = result->out_len;
	s->err_len = result->err_len;
	assert_int_equal(result->out[result->out_len], '\0');
	assert_int_equal(result->err[result->err_len], '\0');
	(void)snprintf(s->out, sizeof(s->out), "%s", result->out);
	(void)snprintf(s->err, sizeof(s->err), "%s", result->err);
}

static void on_output(void *user, enum shim_stream stream, const char *bytes, size_t len)
{
	struct said *s = user;

	(void)bytes;
	assert_true(stream == SHIM_STREAM_STDOUT || stream == SHIM_STREAM_STDERR);
	s->streamed[stream] += len;
	if (s->cancel)
		shim_client_run_cancel(s->f->client, s->id);
}

static char *const path_env[] = {(char *)(uintptr_t) "PATH=/usr/local/bin:/usr/bin:/bin", NULL};

/* `sh -c script` in the fixture's directory, as the test's own user. */
static struct run_command shell(struct fixture *f, const char *script, char *argv[static 4])
{
	argv[0] = (char *)(uintptr_t) "sh";
	argv[1] = (char *)(uintptr_t) "-c";
	argv[2] = (char *)(uintptr_t)script;
	argv[3] = NULL;
	return (struct run_command){.argv = argv,
				    .env = path_env,
				    .cwd = f->dir,
				    .uid = geteuid(),
				    .gid = getegid(),
				    .timeout_ms = FIXTURE_WAIT_MS * 10,
				    .output_max_bytes = 200};
}

static void begin(struct fixture *f, const struct run_command *command, struct said *s)
{
	struct error err;

	s->f = f;
	if (shim_client_run(f->client, command, on_done, s, &s->id, &err) < 0)
		fail_msg("run: %s", err.reason);
}

static void begin_shell(struct fixture *f, const char *script, struct said *s)
{
	char *argv[4];
	struct run_command command = shell(f, script, argv);

	begin(f, &command, s);
}

static struct said run_shell(struct fixture *f, const char *script)
{
	struct said s = {0};

	begin_shell(f, script, &s);
	fixture_until(f, s.n_done > 0);
	assert_int_equal(s.n_done, 1);
	return s;
}

static void test_ends(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *script;
		int code, signal;
		const char *out, *err;
	} cases[] = {
		{"exit 0", 0, 0, "", ""},
		{"echo out; echo err >&2; exit 7", 7, 0, "out\n", "err\n"},
		{"cat; exit 255", 255, 0, "", ""}, /* standard input is empty */
		{"kill -TERM $$", -1, SIGTERM, "", ""},
		{"kill -KILL $$", -1, SIGKILL, "", ""},
		{"kill -PIPE $$", -1, SIGPIPE, "", ""},
		{"exec >&-; exec 2>&-; sleep 0.05; exit 3", 3, 0, "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct said s = run_shell(f, cases[i].script);

		assert_false(s.failed);
		assert_false(s.timed_out);
		assert_false(s.truncated);
		assert_int_equal(s.exit_code, cases[i].code);
		assert_int_equal(s.signal, cases[i].signal);
		assert_string_equal(s.out, cases[i].out);
		assert_string_equal(s.err, cases[i].err);
	}
}

/* What the process is given, and nothing else. */
static void test_birth(void **state)
{
	struct fixture *f = *state;
	struct said s = run_shell(f, "grep NoNewPrivs /proc/self/status; ls /proc/$$/fd;"
				     "[ $(ps -o sid= -p $$) = $$ ] && echo leads;"
				     "env | grep -v ^_= | grep -v ^PWD= | sort; pwd");
	char expected[512];

	(void)snprintf(expected, sizeof(expected),
		       "NoNewPrivs:\t1\n0\n1\n2\nleads\nPATH=/usr/local/bin:/usr/bin:/bin\n%s\n",
		       f->dir);
	assert_string_equal(s.out, expected);
}

static void test_user(void **state)
{
	struct fixture *f = *state;
	static const uint32_t groups[] = {65531};
	char *argv[4];
	struct run_command command = shell(f, "id -u; id -g; id -G; pwd", argv);
	struct said s = {0};

	command.uid = 65534;
	command.gid = 65533;
	command.groups = groups;
	command.n_groups = 1;
	command.cwd = NULL;
	begin(f, &command, &s);
	fixture_until(f, s.n_done > 0);
	if (geteuid() == 0) {
		assert_string_equal(s.out, "65534\n65533\n65533 65531\n/\n");
	} else {
		/* Our own uid happens to be that one; another gid needs root. */
		assert_int_equal(s.exit_code, 0);
	}
}

static void test_output_limit(void **state)
{
	struct fixture *f = *state;
	char *argv[4];
	struct run_command command = shell(f, "head -c 3000000 /dev/zero;"
					      "head -c 200 /dev/zero >&2; exit 4", argv);
	struct said s = {0};

	command.on_output = on_output;
	begin(f, &command, &s);
	fixture_until(f, s.n_done > 0);
	/* It ran to its end: what is not kept is read all the same, and told. */
	assert_int_equal(s.exit_code, 4);
	assert_true(s.truncated);
	assert_int_equal(s.out_len, 200);
	assert_int_equal(s.err_len, 200);
	assert_int_equal(s.streamed[SHIM_STREAM_STDOUT], 3000000);
	assert_int_equal(s.streamed[SHIM_STREAM_STDERR], 200);
}

static void test_exec_errors(void **state)
{
	struct fixture *f = *state;
	struct said s;
	struct {
		const char *file, *cwd;
		int error;
		const char *field;
	} cases[] = {
		{"/nonexistent", NULL, ENOENT, "argv[0]"},
		{"no-such-program", NULL, ENOENT, "argv[0]"},
		{"./plain", f->dir, EACCES, "argv[0]"},
		{"./script", f->dir, ENOENT, "argv[0]"},
		{"./empty", f->dir, ENOEXEC, "argv[0]"},
		{"/bin/true", "/nonexistent", ENOENT, "work_dir"},
	};

	fixture_write(f, "plain", "#!/bin/sh\n", 0644);
	fixture_write(f, "script", "#!/nonexistent\n", 0755);
	fixture_write(f, "empty", "exit 0\n", 0755);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *argv[] = {(char *)(uintptr_t)cases[i].file, NULL};
		struct run_command command = {.argv = argv,
					      .env = path_env,
					      .cwd = cases[i].cwd,
					      .uid = geteuid(),
					      .gid = getegid(),
					      .timeout_ms = 1000000};

		s = (struct said){0};
		begin(f, &command, &s);
		fixture_until(f, s.n_done > 0);
		assert_true(s.failed);
		assert_int_equal(s.error.code, cases[i].error);
		assert_string_equal(s.error.field, cases[i].field);
	}
}

static void test_forbidden_device(void **state)
{
	struct fixture *f = *state;
	char *argv[4];
	struct said s = {0};
	struct run_command command = shell(f, "exit 0", argv);
	struct stat st;

	/* The device that the fixture's directory is on stands for the mount. */
	fixture_drop_client(f);
	assert_int_equal(fstat(f->dir_fd, &st), 0);
	fixture_start_client_beside(f, st.st_dev);
	begin(f, &command, &s);
	fixture_until(f, s.n_done > 0);
	assert_int_equal(s.error.code, EINVAL);
	assert_string_equal(s.error.field, "work_dir");
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	char *argv[4], *none[] = {NULL}, *bad_env[] = {(char *)(uintptr_t) "NAME", NULL};
	struct run_command good = shell(f, "exit 0", argv), bad;
	struct said s = {.f = f};
	struct error err;
	uint64_t id = 77;

	bad = good;
	bad.timeout_ms = 0;
	assert_int_equal(shim_client_run(f->client, &bad, on_done, &s, &id, &err), -EINVAL);
	assert_string_equal(err.field, "timeout_ms");
	bad.timeout_ms = RUN_TIMEOUT_MAX_MS + 1;
	assert_int_equal(shim_client_run(f->client, &bad, on_done, &s, &id, &err), -EINVAL);
	bad = good;
	bad.output_max_bytes = RUN_OUTPUT_MAX_BYTES + 1;
	assert_int_equal(shim_client_run(f->client, &bad, on_done, &s, &id, &err), -EINVAL);
	bad = good;
	bad.argv = none;
	assert_int_equal(shim_client_run(f->client, &bad, on_done, &s, &id, &err), -EINVAL);
	assert_string_equal(err.field, "argv");
	bad = good;
	bad.env = bad_env;
	assert_int_equal(shim_client_run(f->client, &bad, on_done, &s, &id, &err), -EINVAL);
	bad = good;
	bad.cwd = "relative";
	assert_int_equal(shim_client_run(f->client, &bad, on_done, &s, &id, &err), -EINVAL);
	assert_string_equal(err.field, "work_dir");
	assert_int_equal(id, 77);
	assert_int_equal(s.n_done, 0);
}

/* Processes that hide, as in test_shim_kill.c; their pids are in the files a, b, c and main. */
#define HIDERS                                                                                     \
	"trap '' TERM INT HUP;"                                                                    \
	"(setsid sh -c 'echo $$ >a; (setsid sh -c \"echo \\$\\$ >b; exec sleep 1000\" &);"         \
	"exec sleep 1000' &); (sleep 1000 & echo $! >c);"                                          \
	"for i in a b c; do while [ ! -s $i ]; do sleep 0.01; done; done; echo $$ >main;"

static const char *const hiders[] = {"a", "b", "c", "main"};

static void wait_for_hiders(struct fixture *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++) {
		fixture_until(f, fixture_number(f, hiders[i]) > 0);
		assert_true(fixture_alive(fixture_number(f, hiders[i])));
	}
}

static void wait_until_gone(struct fixture *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++)
		fixture_until(f, !fixture_alive(fixture_number(f, hiders[i])));
}

/* A program that is over has nothing running. */
static void test_leftovers(void **state)
{
	struct fixture *f = *state;
	struct said s = run_shell(f, HIDERS "exit 5");

	assert_int_equal(s.exit_code, 5);
	assert_false(s.timed_out);
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++)
		assert_false(fixture_alive(fixture_number(f, hiders[i])));
}

static void test_timeout(void **state)
{
	struct fixture *f = *state;
	char *argv[4];
	struct run_command command = shell(f, HIDERS "echo all; while :; do sleep 1; done", argv);
	struct said s = {0};

	command.timeout_ms = 2000;
	begin(f, &command, &s);
	fixture_until(f, s.n_done > 0);
	assert_false(s.failed);
	assert_true(s.timed_out);
	assert_int_equal(s.exit_code, -1);
	assert_int_equal(s.signal, SIGKILL);
	/* Whoever came to run by then is gone; on a slow machine not all did. */
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++)
		if (fixture_number(f, hiders[i]) > 0)
			assert_false(fixture_alive(fixture_number(f, hiders[i])));
}

static void test_cancel(void **state)
{
	struct fixture *f = *state;
	char *argv[4];
	struct said s = {.cancel = true}, other;
	int idle = fixture_shims(f);

	begin_shell(f, HIDERS "while :; do sleep 1; done", &s);
	wait_for_hiders(f);
	shim_client_run_cancel(f->client, s.id);
	wait_until_gone(f);
	/* Again, and what never was: nothing. */
	shim_client_run_cancel(f->client, s.id);
	shim_client_run_cancel(f->client, 0);
	shim_client_run_cancel(f->client, UINT64_MAX);

	/* From its own callback; with the end already there. */
	struct run_command command = shell(f, "echo a; echo b >&2", argv);
	command.on_output = on_output;
	begin(f, &command, &s);
	fixture_until(f, s.streamed[SHIM_STREAM_STDOUT] + s.streamed[SHIM_STREAM_STDERR] > 0);
	other = run_shell(f, "echo x");
	assert_string_equal(other.out, "x\n");
	assert_int_equal(s.n_done, 0);
	/* What ends after the launcher leaves the group of them all to the next one. */
	fixture_until(f, fixture_shims(f) == idle);
}

/* As after kill -9 of the hub. */
static void test_hub_gone(void **state)
{
	struct fixture *f = *state;
	struct said s = {0};

	begin_shell(f, HIDERS "while :; do sleep 1; done", &s);
	wait_for_hiders(f);
	fixture_drop_client(f);
	wait_until_gone(f);
	fixture_start_client(f);
	assert_int_equal(run_shell(f, "exit 6").exit_code, 6);
	assert_int_equal(s.n_done, 0);
}

static void test_launcher_killed(void **state)
{
	struct fixture *f = *state;
	struct said s = {0}, unsent = {0}, refused = {.f = f};
	char *argv[4];
	struct run_command command = shell(f, "exit 0", argv);
	struct error err;
	int ready = f->n_ready;

	begin_shell(f, HIDERS "while :; do sleep 1; done", &s);
	wait_for_hiders(f);
	begin(f, &command, &unsent);
	fixture_kill_launcher(f);
	fixture_until(f, s.n_done > 0 && unsent.n_done > 0);
	assert_int_equal(s.n_done + unsent.n_done, 2);
	assert_int_equal(s.error.code, EIO);
	assert_int_equal(unsent.error.code, EIO);
	wait_until_gone(f);
	fixture_until(f, f->n_disconnected > 0);
	assert_int_equal(shim_client_run(f->client, &command, on_done, &refused, NULL, &err),
			 -EAGAIN);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready > ready);
	assert_int_equal(run_shell(f, "exit 6").exit_code, 6);
	assert_int_equal(refused.n_done, 0);
}

/* A runner that is killed: its launcher ends what it leaves. */
static void test_runner_killed(void **state)
{
	struct fixture *f = *state;
	struct said s = {0};

	begin_shell(f, "ps -o ppid= -p $$ >runner;" HIDERS "while :; do sleep 1; done", &s);
	wait_for_hiders(f);
	assert_int_equal(kill(fixture_number(f, "runner"), SIGKILL), 0);
	fixture_until(f, s.n_done > 0);
	assert_int_equal(s.error.code, EIO);
	wait_until_gone(f);
	assert_int_equal(run_shell(f, "exit 6").exit_code, 6);
}

/* Both at once: the next launcher finds the group. */
static void test_both_killed(void **state)
{
	struct fixture *f = *state;
	struct said s = {0};
	int ready = f->n_ready;

	begin_shell(f, "ps -o ppid= -p $$ >runner;" HIDERS "while :; do sleep 1; done", &s);
	wait_for_hiders(f);
	/* Neither can do anything about the other's death. */
	assert_int_equal(kill(fixture_number(f, "runner"), SIGSTOP), 0);
	fixture_until(f, fixture_state(fixture_number(f, "runner")) == 'T');
	fixture_kill_launcher(f);
	assert_int_equal(kill(fixture_number(f, "runner"), SIGKILL), 0);
	fixture_until(f, s.n_done > 0);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready > ready);
	wait_until_gone(f);
}

static void test_many(void **state)
{
	struct fixture *f = *state;
	static struct said said[SHIM_CLIENT_RUNS_MAX];
	struct said more = {.f = f};
	char *argv[4];
	struct run_command command = shell(f, "exec 2>&1; echo $$; exit 9", argv);
	struct error err;
	size_t ended = 0;

	memset(said, 0, sizeof(said));
	for (size_t i = 0; i < SHIM_CLIENT_RUNS_MAX; i++)
		begin(f, &command, &said[i]);
	assert_int_equal(shim_client_run(f->client, &command, on_done, &more, NULL, &err), -EAGAIN);
	for (size_t i = 0; i < SHIM_CLIENT_RUNS_MAX; i++) {
		fixture_until(f, said[i].n_done > 0);
		assert_false(said[i].failed);
		assert_int_equal(said[i].exit_code, 9);
		assert_true(said[i].out_len > 1);
		ended++;
	}
	assert_int_equal(ended, SHIM_CLIENT_RUNS_MAX);
	assert_int_equal(run_shell(f, "exit 6").exit_code, 6);
	/* Sessions go on beside them. */
	assert_int_equal(fixture_run_shell(f, 1, "exit 3")->exit.code, 3);
}

struct pinged {
	int n_done, n_failed;
};

static void on_pong(void *user, const struct error *err)
{
	struct pinged *p = user;

	p->n_done++;
	p->n_failed += err != NULL;
}

static void test_ping(void **state)
{
	struct fixture *f = *state;
	struct pinged answered = {0}, hung = {0};
	struct error err;
	int ready = f->n_ready;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(shim_client_ping(f->client, on_pong, &answered, &err), 0);
	assert_int_equal(answered.n_done, 0); /* not from within the call */
	fixture_until(f, answered.n_done == 1000);
	assert_int_equal(answered.n_failed, 0);

	/* One that hangs answers when it goes on, one that dies never does. */
	assert_int_equal(kill(f->launcher, SIGSTOP), 0);
	fixture_until(f, fixture_state(f->launcher) == 'T');
	assert_int_equal(shim_client_ping(f->client, on_pong, &hung, &err), 0);
	assert_int_equal(shim_client_ping(f->client, on_pong, &hung, &err), 0);
	for (int i = 0; i < 20; i++)
		(void)uv_run(&f->loop, UV_RUN_ONCE);
	assert_int_equal(hung.n_done, 0);
	fixture_kill_launcher(f);
	fixture_until(f, hung.n_done == 2);
	assert_int_equal(hung.n_failed, 2);
	assert_int_equal(shim_client_ping(f->client, on_pong, &hung, &err), -EAGAIN);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready > ready);
	assert_int_equal(shim_client_ping(f->client, on_pong, &hung, &err), 0);
	/* Nothing is said of the last one by a client that is gone. */
}

/* Another one is begun from the callback of the last. */
static void on_done_again(void *user, const struct run_result *result, const struct error *err)
{
	struct said *s = user;
	char *argv[4];

	assert_null(err);
	assert_string_equal(result->out, "x\n");
	if (++s->n_done < 5) {
		struct run_command command = shell(s->f, "echo x", argv);

		assert_int_equal(shim_client_run(s->f->client, &command, on_done_again, s, &s->id,
						 NULL), 0);
	}
	assert_string_equal(result->out, "x\n");
}

static void test_again_from_callback(void **state)
{
	struct fixture *f = *state;
	struct said s = {.f = f};
	char *argv[4];
	struct run_command command = shell(f, "echo x", argv);

	assert_int_equal(shim_client_run(f->client, &command, on_done_again, &s, &s.id, NULL), 0);
	fixture_until(f, s.n_done == 5);
}

static void test_no_process(void **state)
{
	struct fixture *f = *state;
	struct said s;
	int ready = f->n_ready;

	fixture_write(f, "once", "1", 0600);
	fixture_kill_launcher(f);
	fixture_start_launcher(f, "launcher.run:eagain:%s/once");
	fixture_until(f, f->n_ready > ready);
	s = run_shell(f, "exit 0");
	assert_true(s.failed);
	assert_int_equal(s.error.code, EAGAIN);
	assert_int_equal(run_shell(f, "exit 6").exit_code, 6);
}

#ifdef CLOOP_TEST_HOOKS
static const bool faults = true;
#else
static const bool faults = false;
#endif

/* Without control groups nobody finds what two dead processes have left but by pid. */
static bool applies(const char *name)
{
	bool groups = access("/sys/fs/cgroup/freezer/tasks", F_OK) == 0 ||
		      access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;

	if (strcmp(name, "test_no_process") == 0)
		return faults;
	return strcmp(name, "test_both_killed") != 0 || (geteuid() == 0 && groups);
}

#define WITH(fn, setup_) cmocka_unit_test_setup_teardown(fn, setup_, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(test_ends, setup),
		WITH(test_birth, setup),
		WITH(test_user, setup),
		WITH(test_output_limit, setup),
		WITH(test_exec_errors, setup),
		WITH(test_forbidden_device, setup),
		WITH(test_refused, setup),
		WITH(test_leftovers, setup),
		WITH(test_leftovers, setup_none),
		WITH(test_timeout, setup),
		WITH(test_timeout, setup_none),
		WITH(test_cancel, setup),
		WITH(test_cancel, setup_none),
		WITH(test_hub_gone, setup),
		WITH(test_hub_gone, setup_none),
		WITH(test_launcher_killed, setup),
		WITH(test_launcher_killed, setup_none),
		WITH(test_runner_killed, setup),
		WITH(test_runner_killed, setup_none),
		WITH(test_both_killed, setup),
		WITH(test_many, setup),
		WITH(test_again_from_callback, setup),
		WITH(test_ping, setup),
		WITH(test_no_process, setup),
	};

	if (!fixture_main(argc, argv))
		return 1;
	return fixture_run_tests("shim_helper", tests, ARRAY_SIZE(tests), applies);
}
