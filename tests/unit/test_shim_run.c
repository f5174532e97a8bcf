/* Workloads from launch to end, through a real launcher. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "tests/unit/shim_fixture.h"

static int setup(void **state)
{
	*state = fixture_open();
	return 0;
}

static int teardown(void **state)
{
	fixture_close(*state);
	return 0;
}

static void test_exit_codes(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *script;
		enum shim_cause cause;
		int code, signal;
	} cases[] = {
		{"exit 0", SHIM_CAUSE_EXIT, 0, 0},
		{"exit 7", SHIM_CAUSE_EXIT, 7, 0},
		{"exit 255", SHIM_CAUSE_EXIT, 255, 0},
		{"kill -9 $$", SHIM_CAUSE_SIGNAL, -1, SIGKILL},
		{"kill -TERM $$", SHIM_CAUSE_SIGNAL, -1, SIGTERM},
		{"kill -SEGV $$", SHIM_CAUSE_SIGNAL, -1, SIGSEGV},
		/* SIGPIPE has its default action, although the shim ignores it. */
		{"kill -PIPE $$", SHIM_CAUSE_SIGNAL, -1, SIGPIPE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct outcome *o = fixture_run_shell(f, i + 1, cases[i].script);

		assert_int_equal(o->n_started, 1);
		assert_int_equal(o->n_exited, 1);
		assert_int_equal(o->exit.cause, cases[i].cause);
		assert_int_equal(o->exit.code, cases[i].code);
		assert_int_equal(o->exit.signal, cases[i].signal);
		assert_true(o->exit.pid > 0);
		assert_true(o->started.started_at_ns <= o->exit.finished_at_ns);
		assert_int_equal(shim_session_remove(f->sessions_fd, i + 1), 0);
	}
}

static void test_log(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o = fixture_run_shell(f, 1, "printf out; printf err >&2; cat");

	assert_int_equal(o->exit.code, 0);
	assert_int_equal(o->exit.log_bytes, 6);
	assert_int_equal(o->exit.log_dropped_bytes, 0);
	assert_int_equal(strlen(fixture_log(f, 1)), 6);
}

/* A hub that is killed: the next one finds what runs, what ended meanwhile, and nothing else. */
static void test_adoption(void **state)
{
	struct fixture *f = *state;
	struct session_started started;
	enum shim_adoption adoption;

	fixture_launch_shell(f, 1, "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3");
	fixture_launch_shell(f, 2, "exit 4");
	fixture_until(f, f->outcomes[1].n_started == 1 && f->outcomes[2].n_exited == 1);
	fixture_drop_client(f);
	fixture_start_client(f);

	assert_int_equal(shim_client_adopt(f->client, 1, 1, &adoption, &started, NULL), 0);
	assert_int_equal(adoption, SHIM_ADOPT_RUNNING);
	assert_true(started.pid > 1);
	assert_int_equal(shim_client_adopt(f->client, 1, 1, &adoption, &started, NULL), -EEXIST);
	assert_int_equal(shim_client_adopt(f->client, 2, 1, &adoption, NULL, NULL), 0);
	assert_int_equal(adoption, SHIM_ADOPT_FINISHED);
	assert_int_equal(shim_client_adopt(f->client, 3, 1, &adoption, NULL, NULL), 0);
	assert_int_equal(adoption, SHIM_ADOPT_NEVER);
	assert_int_equal(f->outcomes[2].n_exited, 0);

	fixture_until(f, f->outcomes[1].n_started == 1 && fixture_ended(f, 2));
	assert_int_equal(f->outcomes[1].started.pid, started.pid);
	assert_int_equal(f->outcomes[2].exit.code, 4);
	assert_int_equal(close(openat(f->dir_fd, "go", O_CREAT | O_WRONLY, 0644)), 0);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.code, 3);
	assert_string_equal(fixture_log(f, 1), "one\ntwo\n");
}

static void test_signals(void **state)
{
	struct fixture *f = *state;

	fixture_launch_shell(f, 1, "trap 'echo $(($(cat n || echo 0)+1)) >n' INT; echo $$ >ready;"
				   "while :; do sleep 0.01; done");
	fixture_until(f, fixture_number(f, "ready") > 0);
	fixture_signal(f, 1, 1, SHIM_SIGNAL_INTERRUPT);
	fixture_until(f, fixture_number(f, "n") == 1);
	fixture_signal(f, 1, 9, SHIM_SIGNAL_KILL);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.cause, SHIM_CAUSE_SIGNAL);
	assert_int_equal(f->outcomes[1].exit.signal, SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_exit_codes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_adoption, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
