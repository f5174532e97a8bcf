/* Who survives what: workloads, shims, launchers and hubs that are killed, in each way of grouping
 * processes. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/shim_fixture.h"

static int setup(void **state)
{
	*state = fixture_open();
	return 0;
}

static int setup_v1(void **state)
{
	bool there = geteuid() == 0 && access("/sys/fs/cgroup/freezer/tasks", F_OK) == 0;

	*state = there ? fixture_open_with(NULL, FIXTURE_GROUPS_V1) : NULL;
	return 0;
}

static int setup_none(void **state)
{
	*state = fixture_open_with(NULL, FIXTURE_GROUPS_NONE);
	return 0;
}

static int teardown(void **state)
{
	if (*state)
		fixture_close(*state);
	return 0;
}

/* Starts processes that hide: in sessions of their own, reparented, ignoring what can be ignored,
 * holding the pipes. Their pids are in the files a, b, c and d. */
#define HIDERS                                                                                     \
	"trap '' TERM INT HUP;"                                                                    \
	"(setsid sh -c 'echo $$ >a; (setsid sh -c \"echo \\$\\$ >b; exec sleep 1000\" &);"         \
	"exec sleep 1000' &);"                                                                     \
	"sh -c 'echo $$ >c; (sleep 1000 & echo $! >d); exec sleep 1000' &"                         \
	"for i in a b c d; do while [ ! -s $i ]; do sleep 0.01; done; done; echo $$ >main;"

static const char *const hiders[] = {"a", "b", "c", "d", "main"};

static void wait_for_hiders(struct fixture *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++) {
		fixture_until(f, fixture_number(f, hiders[i]) > 0);
		assert_true(fixture_alive(fixture_number(f, hiders[i])));
	}
}

static void check_hiders_gone(struct fixture *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++)
		assert_false(fixture_alive(fixture_number(f, hiders[i])));
}

/* A session that is finished has nothing running. */
static void test_leftovers(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	const struct outcome *o = fixture_run_shell(f, 1, HIDERS "exit 5");
	check_hiders_gone(f);
	assert_int_equal(o->exit.cause, SHIM_CAUSE_EXIT);
	assert_int_equal(o->exit.code, 5);
}

static void test_kill(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	fixture_launch_shell(f, 1, HIDERS "while :; do sleep 1; done");
	wait_for_hiders(f);
	fixture_signal(f, 1, 1, SHIM_SIGNAL_KILL);
	fixture_until(f, fixture_ended(f, 1));
	check_hiders_gone(f);
	assert_int_equal(f->outcomes[1].exit.cause, SHIM_CAUSE_SIGNAL);
	assert_int_equal(f->outcomes[1].exit.signal, SIGKILL);
}

/* SIGTERM comes to every descendant, not only to the main process. */
static void test_terminate(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	/* The main process ends last: when it does, the others are ended. */
	fixture_launch_shell(f, 1,
			     "each() { trap 'echo 1 >got.'$1'; exit 0' TERM; echo 1 >ready.$1;"
			     "while :; do sleep 0.01; done; };"
			     "(each 1) & (setsid sh -c '\n"
			     "trap \"echo 1 >got.2; exit 0\" TERM; echo 1 >ready.2;"
			     "while :; do sleep 0.01; done' &);"
			     "trap 'while [ ! -s got.1 ] || [ ! -s got.2 ]; do sleep 0.01; done;"
			     "echo 1 >got.3; exit 0' TERM; echo 1 >ready.3;"
			     "while :; do sleep 0.01; done");
	fixture_until(f, fixture_number(f, "ready.1") && fixture_number(f, "ready.2") &&
				 fixture_number(f, "ready.3"));
	fixture_signal(f, 1, 1, SHIM_SIGNAL_TERMINATE);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.cause, SHIM_CAUSE_EXIT);
	assert_int_equal(f->outcomes[1].exit.code, 0);
	assert_int_equal(fixture_number(f, "got.3"), 1);
}

/* A descriptor that somebody else holds does not keep the session open. */
static void test_pipe_held_elsewhere(void **state)
{
	struct fixture *f = *state;
	char path[64];

	if (!f)
		skip();
	fixture_launch_shell(f, 1,
			     "echo $$ >pid; while [ ! -e go ]; do sleep 0.01; done; echo end");
	fixture_until(f, fixture_number(f, "pid") > 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/1", fixture_number(f, "pid"));
	AUTO_CLOSE int held = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(held >= 0);
	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.code, 0);
	assert_string_equal(fixture_log(f, 1), "end\n");
}

/* A killed shim takes everything with it, and the session is lost, once. */
static void test_shim_killed(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	fixture_launch_shell(f, 1, HIDERS "exec sleep 1000");
	wait_for_hiders(f);
	fixture_until(f, f->outcomes[1].n_started == 1);
	assert_int_equal(kill(fixture_shim(f, 1), SIGKILL), 0);
	fixture_until(f, fixture_ended(f, 1));
	check_hiders_gone(f);
	assert_int_equal(f->outcomes[1].n_lost, 1);
	assert_int_equal(f->outcomes[1].n_exited, 0);
	assert_int_equal(f->outcomes[1].err.code, EIO);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_LOST);
	fixture_until(f, f->outcomes[1].n_lost == 2);
	/* It is not run again, and others are not disturbed. */
	fixture_launch_shell(f, 1, "echo again >again");
	fixture_until(f, f->outcomes[1].n_lost == 3);
	assert_int_equal(faccessat(f->dir_fd, "again", F_OK, 0), -1);
	assert_int_equal(fixture_run_shell(f, 2, "exit 3")->exit.code, 3);
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), 0);
}

/* The launcher's death is nobody else's. */
static void test_launcher_killed(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	fixture_launch_shell(f, 1, "echo 1 >ready; while [ ! -e go ]; do sleep 0.01; done; exit 6");
	fixture_launch_shell(f, 2, "while [ ! -e go ]; do sleep 0.01; done; exit 7");
	fixture_until(f, f->outcomes[1].n_started && f->outcomes[2].n_started);
	fixture_kill_launcher(f);
	fixture_until(f, f->n_disconnected == 1);
	struct error err;
	const char *const argv[] = {"/bin/true", NULL};
	struct launch_request q = fixture_request(9, argv);
	assert_int_equal(shim_client_launch(f->client, &q, &err), -EAGAIN);

	fixture_signal(f, 2, 1, SHIM_SIGNAL_KILL);
	fixture_until(f, fixture_ended(f, 2));
	assert_int_equal(f->outcomes[2].exit.signal, SIGKILL);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready == 2);
	assert_int_equal(fixture_run_shell(f, 3, "exit 8")->exit.code, 8);
	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.code, 6);
	assert_int_equal(f->outcomes[1].n_started, 1);
}

/* Shim and launcher both: the next launcher ends what is left, when the hub asks. Without groups
 * only the main process can be told from others. */
static void test_both_killed(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	fixture_launch_shell(f, 1, HIDERS "exec sleep 1000");
	wait_for_hiders(f);
	fixture_until(f, f->outcomes[1].n_started == 1);
	pid_t shim = fixture_shim(f, 1);
	fixture_kill_launcher(f);
	fixture_until(f, f->n_disconnected == 1);
	assert_int_equal(kill(shim, SIGKILL), 0);
	/* The launcher is not there: lost is not said while something may still run. */
	fixture_until(f, !fixture_alive(fixture_number(f, "main")));
	assert_false(fixture_ended(f, 1));
	fixture_start_launcher(f, NULL);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].n_lost, 1);
	if ((f->abilities & SHIM_CAN_KILL) != 0)
		check_hiders_gone(f);
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++)
		if (fixture_alive(fixture_number(f, hiders[i])))
			assert_int_equal(kill(fixture_number(f, hiders[i]), SIGKILL), 0);
}

/* The same without a hub that asks: the next launcher looks by itself. */
static void test_sweep(void **state)
{
	struct fixture *f = *state;

	if (!f || (f->abilities & SHIM_CAN_KILL) == 0)
		skip();
	fixture_launch_shell(f, 1, HIDERS "exec sleep 1000");
	fixture_launch_shell(f, 2, "while [ ! -e go ]; do sleep 0.01; done; exit 2");
	wait_for_hiders(f);
	fixture_until(f, f->outcomes[1].n_started && f->outcomes[2].n_started);
	pid_t shim = fixture_shim(f, 1);
	fixture_drop_client(f);
	fixture_kill_launcher(f);
	assert_int_equal(kill(shim, SIGKILL), 0);
	fixture_until(f, !fixture_alive(shim));
	fixture_start_launcher(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(hiders); i++)
		fixture_until(f, !fixture_alive(fixture_number(f, hiders[i])));
	/* Only the dead one's. */
	fixture_start_client(f);
	assert_int_equal(fixture_adopt(f, 2, 1), SHIM_ADOPT_RUNNING);
	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 2));
	assert_int_equal(f->outcomes[2].exit.code, 2);
}

/* All at once: hub, launcher and shim; the next hub learns the truth. */
static void test_all_killed(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	fixture_launch_shell(f, 1, "echo $$ >main; exec sleep 1000");
	fixture_launch_shell(f, 2, "exit 2");
	fixture_until(f, fixture_number(f, "main") > 0 && f->outcomes[1].n_started &&
				 fixture_ended(f, 2));
	pid_t shim = fixture_shim(f, 1);
	fixture_drop_client(f);
	fixture_kill_launcher(f);
	assert_int_equal(kill(shim, SIGKILL), 0);
	fixture_start_launcher(f, NULL);
	fixture_start_client(f);
	fixture_until(f, !fixture_alive(shim));
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_LOST);
	assert_int_equal(fixture_adopt(f, 2, 1), SHIM_ADOPT_FINISHED);
	fixture_until(f, fixture_ended(f, 1) && fixture_ended(f, 2));
	assert_int_equal(f->outcomes[1].n_lost, 1);
	assert_int_equal(f->outcomes[2].exit.code, 2);
	assert_false(fixture_alive(fixture_number(f, "main")));
}

/* Processes that never stop forking end with their session. */
static void test_forkers(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	fixture_launch_shell(f, 1,
			     "trap '' TERM; for i in 1 2 3 4; do (setsid sh -c '"
			     "while :; do sleep 0.01 & sleep 0.01; done' &); done; echo 1 >ready;"
			     "while :; do sleep 0.01 & sleep 0.01; done");
	fixture_until(f, fixture_number(f, "ready") > 0);
	fixture_signal(f, 1, 1, SHIM_SIGNAL_KILL);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.signal, SIGKILL);
}

/* What runs cannot be removed; what is over can, at once. */
static void test_remove(void **state)
{
	struct fixture *f = *state;

	if (!f)
		skip();
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), 0);
	fixture_launch_shell(f, 1, "while [ ! -e go ]; do sleep 0.01; done");
	fixture_until(f, f->outcomes[1].n_started == 1);
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), -EBUSY);
	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), 0);
	assert_false(fixture_left(f, 1));
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_NEVER);
}

/* The record of a launch, which may hold secrets, is gone when the workload runs; and shims keep
 * nothing of each other. */
static void test_no_secrets_kept(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = {"PATH=/usr/bin:/bin", "TOKEN=very-secret-value"};
	const char *const argv[] = {"sleep", "1000", NULL};

	if (!f)
		skip();
	for (uint64_t serial = 1; serial <= 3; serial++) {
		struct launch_request q = fixture_request(serial, argv);

		q.env = env;
		q.n_env = ARRAY_SIZE(env);
		fixture_launch(f, &q);
	}
	fixture_until(f, f->outcomes[1].n_started && f->outcomes[2].n_started &&
				 f->outcomes[3].n_started);
	for (uint64_t serial = 1; serial <= 3; serial++) {
		char path[64], target[256];
		struct dirent *e;
		int sockets = 0;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd", fixture_shim(f, serial));
		AUTO_CLOSEDIR DIR *d = opendir(path);
		assert_non_null(d);
		while ((e = readdir(d))) {
			ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

			if (n <= 0)
				continue;
			target[n] = '\0';
			assert_null(strstr(target, "memfd"));
			if (strncmp(target, "socket:", 7) == 0)
				sockets++;
		}
		/* To the launcher, the control socket, and the hub's connection. */
		assert_true(sockets <= 3);
	}
	for (uint64_t serial = 1; serial <= 3; serial++) {
		fixture_signal(f, serial, 1, SHIM_SIGNAL_KILL);
		fixture_until(f, fixture_ended(f, serial));
	}
}

#define EACH(name)                                                                                 \
	{#name, name, setup, teardown, NULL}, {#name "_v1", name, setup_v1, teardown, NULL},       \
	{                                                                                          \
#name "_none", name, setup_none, teardown, NULL                                    \
	}

/* Whether root, with control groups of both versions, or a user without any runs them. */
static bool applies(const char *name)
{
	size_t len = strlen(name);

	if (geteuid() == 0)
		return strcmp(name, "test_sweep_none") != 0;
	return strncmp(name, "test_sweep", 10) != 0 && (len < 3 || strcmp(name + len - 3, "_v1") != 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		EACH(test_leftovers),   EACH(test_kill),
		EACH(test_terminate),   EACH(test_pipe_held_elsewhere),
		EACH(test_shim_killed), EACH(test_launcher_killed),
		EACH(test_both_killed), EACH(test_all_killed),
		EACH(test_forkers),     EACH(test_remove),
		EACH(test_sweep),       EACH(test_no_secrets_kept),
	};

	if (!fixture_main(argc, argv))
		return 1;
	return fixture_run_tests("shim_kill", tests, ARRAY_SIZE(tests), applies);
}
