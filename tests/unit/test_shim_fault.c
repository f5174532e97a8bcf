/* Everybody is killed, stopped or refused at each step of launch and end. Most of it needs a build
 * with test hooks. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/shim_fixture.h"

#ifdef CLOOP_TEST_HOOKS
#define HOOKS true
#else
#define HOOKS false
#endif

static bool ran(const struct fixture *f)
{
	return faccessat(f->dir_fd, "count", F_OK, 0) == 0;
}

/* At most once, whatever happened. */
static void check_ran_once(const struct fixture *f)
{
	struct stat st;

	/* Empty: killed between the two. */
	if (fstatat(f->dir_fd, "count", &st, 0) == 0)
		assert_true(st.st_size == 0 || st.st_size == 2);
}

/* What is said, and how it ends, when somebody dies at a step. */
static const struct step {
	const char *fault;
	bool exited, lost, runs;
} steps[] = {
	{"launcher.launch", false, false, false},
	{"shim.started", false, true, false},
	{"shim.after_started", false, true, false},
	{"shim.claimed", false, true, false},
	{"shim.log_open", false, true, false},
	{"shim.clone", false, true, false},
	{"shim.running", false, true, true},
	{"shim.ending", false, true, true},
	{"shim.before_sync", false, true, true},
	{"shim.before_exit", false, true, true},
	{"shim.exit_record", false, true, true},
	{"shim.before_exited", true, false, true},
	/* The workload's own process, before it is one. */
	{"workload.cloned", true, false, false},
	{"workload.exec", true, false, false},
};

/* In flight when the launcher died: the caller finds out. */
static void check_launcher_killed(struct fixture *f)
{
	fixture_until(f, f->n_disconnected == 1);
	fixture_kill_launcher(f);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready == 2);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_NEVER);
}

static void check_step(struct fixture *f, const struct step *s)
{
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].n_exited, s->exited);
	assert_int_equal(f->outcomes[1].n_lost, s->lost);
	assert_int_equal(f->outcomes[1].n_failed, 0);
	/* One that was killed just when it began may or may not have come to it. */
	if (strcmp(s->fault, "shim.running") != 0)
		assert_int_equal(ran(f), s->runs);
	/* A second launch of the same finds the same. */
	fixture_launch_shell(f, 1, "echo x >>count");
	fixture_until(f, f->outcomes[1].n_exited + f->outcomes[1].n_lost == 2);
	check_ran_once(f);
	/* The next one is not affected. */
	assert_int_equal(fixture_run_shell(f, 2, "exit 3")->exit.code, 3);
}

static void test_killed_at_each_step(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		char fault[128];

		(void)snprintf(fault, sizeof(fault), "%s:kill:%%s/faults", steps[i].fault);
		struct fixture *f = fixture_open_with(fault, FIXTURE_GROUPS_MACHINE);
		fixture_write(f, "faults", "1", 0666);
		fixture_launch_shell(f, 1, "echo x >>count");
		if (strcmp(steps[i].fault, "launcher.launch") == 0)
			check_launcher_killed(f);
		else
			check_step(f, &steps[i]);
		fixture_close(f);
	}
}

static void test_killed_while_undoing(void **state)
{
	const char *const argv[] = {"/nonexistent", NULL};
	struct launch_request q = fixture_request(1, argv);

	(void)state;
	if (!HOOKS)
		skip();
	struct fixture *f = fixture_open_with("shim.undo:kill:%s/faults", FIXTURE_GROUPS_MACHINE);
	fixture_write(f, "faults", "1", 0666);
	/* `started` is still there: nobody can know that nothing ran. */
	assert_int_equal(fixture_run(f, &q)->n_lost, 1);
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), 0);
	assert_false(fixture_left(f, 1));
	fixture_close(f);
}

static const struct refusal {
	const char *fault;
	int error;
} refusals[] = {
	{"shim.started:enospc:%s/faults", ENOSPC},  {"shim.started:eio:%s/faults", EIO},
	{"shim.log_open:enospc:%s/faults", ENOSPC}, {"shim.clone:eagain:%s/faults", EAGAIN},
	{"launcher.fork:enomem:%s/faults", ENOMEM},
};

/* What cannot be done is refused with its errno, leaves nothing, and can be done later. */
static void test_refused_at_each_step(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct fixture *f = fixture_open_with(refusals[i].fault, FIXTURE_GROUPS_MACHINE);

		fixture_write(f, "faults", "1", 0666);
		const struct outcome *o = fixture_run_shell(f, 1, "echo x >>count");
		assert_int_equal(o->n_failed, 1);
		assert_int_equal(o->err.code, refusals[i].error);
		assert_false(fixture_left(f, 1));
		assert_false(ran(f));
		memset(&f->outcomes[1], 0, sizeof(f->outcomes[1]));
		assert_int_equal(fixture_run_shell(f, 1, "echo x >>count")->n_exited, 1);
		check_ran_once(f);
		fixture_close(f);
	}
}

/* A disk that fails for a while loses no exit code. */
static void test_exit_record_later(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	struct fixture *f =
		fixture_open_with("shim.exit_record:eio:%s/faults", FIXTURE_GROUPS_MACHINE);
	struct shim_exit exit;

	/* Until we say that the disk is well again. */
	fixture_write(f, "faults", "1000000", 0666);
	/* The hub is told at once. */
	assert_int_equal(fixture_run_shell(f, 1, "exit 4")->exit.code, 4);
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, 1);
	assert_int_equal(session_exit_read(dir, 1, 1, &exit), -ENOENT);
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), -EBUSY);
	/* One that comes meanwhile, too. */
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_RUNNING);
	fixture_until(f, f->outcomes[1].n_exited == 2);
	fixture_write(f, "faults", "0", 0666);
	fixture_until(f, session_exit_read(dir, 1, 1, &exit) == 0);
	assert_int_equal(exit.code, 4);
	fixture_close(f);
}

/* A hub is not told ready while a launch of the hub before may still claim its session. */
static void test_ready_waits_for_earlier_launches(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	struct fixture *f =
		fixture_open_with("shim.started:stop:%s/faults", FIXTURE_GROUPS_MACHINE);

	fixture_write(f, "faults", "1", 0666);
	fixture_launch_shell(f, 1, "echo x >>count; while [ ! -e go ]; do sleep 0.01; done");
	/* It has no record yet that would say who it is: the one child that has stopped. */
	pid_t shim = 0;
	fixture_until(f, (shim = fixture_stopped_shim(f)) > 0);
	fixture_drop_client(f);
	fixture_begin_client(f);
	for (int i = 0; i < 20; i++) {
		uint64_t deadline = 0;

		(void)fixture_turn(f, &deadline);
		assert_int_equal(f->n_ready, 1);
	}
	assert_int_equal(kill(shim, SIGCONT), 0);
	fixture_until(f, f->n_ready == 2);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_RUNNING);
	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].n_exited, 1);
	check_ran_once(f);
	fixture_close(f);
}

/* The same when the launcher died, too: the next one waits for shims that it does not know. */
static void test_ready_waits_for_earlier_launchers(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	struct fixture *f =
		fixture_open_with("shim.started:stop:%s/faults", FIXTURE_GROUPS_MACHINE);

	fixture_write(f, "faults", "1", 0666);
	fixture_launch_shell(f, 1, "echo x >>count; exit 3");
	pid_t shim = 0;
	fixture_until(f, (shim = fixture_stopped_shim(f)) > 0);
	fixture_drop_client(f);
	fixture_kill_launcher(f);
	fixture_start_launcher(f, NULL);
	fixture_begin_client(f);
	for (int i = 0; i < 40; i++) {
		uint64_t deadline = 0;

		(void)fixture_turn(f, &deadline);
		assert_int_equal(f->n_ready, 1);
	}
	assert_int_equal(kill(shim, SIGCONT), 0);
	fixture_until(f, f->n_ready == 2);
	assert_int_not_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_NEVER);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.code, 3);
	check_ran_once(f);
	fixture_close(f);
}

/*
 * Hands session 2 to a shim that does not read. False when it was not that one's turn: whether the
 * launcher has heard that a shim is idle cannot be seen from outside.
 */
static bool hand_to_stopped_shim(struct fixture *f, pid_t *ret_shim)
{
	struct session_started started;

	assert_int_equal(fixture_run_shell(f, 1, "exit 1")->exit.code, 1);
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, 1);
	assert_int_equal(session_started_read(dir, 1, 1, &started), 0);
	assert_int_equal(kill(started.shim_pid, SIGSTOP), 0);
	fixture_until(f, fixture_state(started.shim_pid) == 'T');
	fixture_launch_shell(f, 2, "echo x >>count");
	/* They are handed over in order. */
	fixture_launch_shell(f, 3, "exit 3");
	fixture_until(f, fixture_ended(f, 3));
	*ret_shim = started.shim_pid;
	return f->outcomes[2].n_started == 0 && fixture_shims(f) == 2;
}

/* A launch that was handed over and not read when the launcher died is never run: the next hub was
 * told that nothing is on its way. */
static void test_launch_of_dead_launcher(void **state)
{
	struct fixture *f = fixture_open();
	pid_t shim;

	(void)state;
	while (!hand_to_stopped_shim(f, &shim)) {
		assert_int_equal(kill(shim, SIGCONT), 0);
		fixture_until(f, fixture_ended(f, 2));
		fixture_close(f);
		f = fixture_open();
	}
	fixture_kill_launcher(f);
	fixture_until(f, f->n_disconnected == 1);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready == 2);
	assert_int_equal(fixture_adopt(f, 2, 1), SHIM_ADOPT_NEVER);
	assert_int_equal(kill(shim, SIGCONT), 0);
	fixture_until(f, !fixture_alive(shim));
	assert_false(ran(f));
	assert_false(fixture_left(f, 2));
	/* And now it is launched, once. */
	assert_int_equal(fixture_run_shell(f, 2, "echo x >>count")->exit.code, 0);
	assert_true(ran(f));
	check_ran_once(f);
	fixture_close(f);
}

/* The launcher dies while a shim has claimed its session and not begun it. */
static void test_launcher_killed_while_launching(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	struct fixture *f =
		fixture_open_with("shim.claimed:stop:%s/faults", FIXTURE_GROUPS_MACHINE);

	fixture_write(f, "faults", "1", 0666);
	fixture_launch_shell(f, 1, "echo x >>count; exit 3");
	AUTO_CLOSE int dir = -1;
	struct session_started started;
	fixture_until(f, (dir = session_dir_open(f->sessions_fd, 1)) >= 0);
	fixture_until(f, session_started_read(dir, 1, 1, &started) == 0);
	fixture_until(f, fixture_state(started.shim_pid) == 'T');
	fixture_kill_launcher(f);
	fixture_until(f, f->n_disconnected == 1);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready == 2);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_RUNNING);
	assert_int_equal(kill(started.shim_pid, SIGCONT), 0);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].n_exited, 1);
	assert_int_equal(f->outcomes[1].exit.code, 3);
	check_ran_once(f);
	fixture_close(f);
}

/* What answers no HELLO: said once, and over when there is a launcher that does. */
static void test_launcher_of_another_version(void **state)
{
	struct fixture *f = fixture_open();

	(void)state;
	fixture_launch_shell(f, 1, "while [ ! -e go ]; do sleep 0.02; done; exit 3");
	fixture_until(f, f->outcomes[1].n_started == 1);
	fixture_kill_launcher(f);
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			(void)close(accept(f->listen_fd, NULL, NULL));
	fixture_until(f, f->n_refused == 1);
	/* What runs does not depend on it. */
	fixture_write(f, "go", "", 0666);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.code, 3);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready == 2);
	assert_int_equal(f->n_refused, 1);
	assert_int_equal(fixture_run_shell(f, 2, "exit 4")->exit.code, 4);
	fixture_close(f);
}

/* The machine went down while it ran: another boot. */
static void test_other_boot(void **state)
{
	(void)state;
	if (!HOOKS)
		skip();
	struct fixture *f = fixture_open();

	assert_int_equal(setenv("CLOOP_BOOT_ID", "00112233-4455-6677-8899-aabbccddeeff", 1), 0);
	fixture_kill_launcher(f);
	fixture_start_launcher(f, NULL);
	fixture_until(f, f->n_ready == 2);
	fixture_launch_shell(f, 1, "sleep 1000");
	fixture_until(f, f->outcomes[1].n_started == 1);
	pid_t shim = fixture_shim(f, 1);
	fixture_drop_client(f);
	assert_int_equal(unsetenv("CLOOP_BOOT_ID"), 0);
	assert_int_equal(kill(shim, SIGKILL), 0);
	fixture_until(f, !fixture_alive(shim));
	fixture_start_client(f);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_LOST);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].n_lost, 1);
	assert_non_null(strstr(f->outcomes[1].err.reason, "restarted"));
	fixture_close(f);
}

/* A disk that is full: the workload runs on, its exit code is kept, what cannot be begun is refused
 * and leaves nothing. */
static void test_full_disk(void **state)
{
	char path[96];

	(void)state;
	/* In a mount namespace of our own, so that nothing is left whatever happens. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	struct fixture *f = fixture_open();
	fixture_drop_client(f);
	fixture_kill_launcher(f);
	(void)snprintf(path, sizeof(path), "%s/sessions", f->dir);
	assert_int_equal(mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=700"), 0);
	assert_int_equal(close(f->sessions_fd), 0);
	f->sessions_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fixture_start_launcher(f, NULL);
	fixture_start_client(f);

	const struct outcome *o = fixture_run_shell(f, 1, "head -c 8000000 /dev/zero; exit 3");
	assert_int_equal(o->exit.cause, SHIM_CAUSE_EXIT);
	assert_int_equal(o->exit.code, 3);
	assert_int_equal(o->exit.log_bytes, 8000000);
	assert_true(o->exit.log_dropped_bytes > 0);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_FINISHED);
	fixture_until(f, f->outcomes[1].n_exited == 2);
	assert_int_equal(f->outcomes[1].exit.code, 3);

	/* Full to the last byte. */
	AUTO_CLOSE int filler =
		openat(f->sessions_fd, "filler", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	char page[4096] = {0};
	while (write(filler, page, sizeof(page)) > 0)
		;
	o = fixture_run_shell(f, 2, "echo x >>count");
	assert_int_equal(o->n_failed, 1);
	assert_int_equal(o->err.code, ENOSPC);
	assert_false(ran(f));
	assert_false(fixture_left(f, 2));

	assert_int_equal(unlinkat(f->sessions_fd, "filler", 0), 0);
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), 0);
	memset(&f->outcomes[2], 0, sizeof(f->outcomes[2]));
	assert_int_equal(fixture_run_shell(f, 2, "exit 4")->exit.code, 4);
	fixture_drop_client(f);
	assert_int_equal(close(f->sessions_fd), 0);
	f->sessions_fd = -1;
	assert_int_equal(umount2(path, MNT_DETACH), 0);
	fixture_close(f);
}

static bool applies(const char *name)
{
	static const char *const without_hooks[] = {"test_launch_of_dead_launcher", "test_full_disk"};
	bool wanted = HOOKS;

	for (size_t i = 0; i < ARRAY_SIZE(without_hooks); i++)
		wanted = wanted || strcmp(name, without_hooks[i]) == 0;
	/* A user has no mounts of his own to fill. */
	return wanted && (geteuid() == 0 || strcmp(name, "test_full_disk") != 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_at_each_step),
		cmocka_unit_test(test_killed_while_undoing),
		cmocka_unit_test(test_refused_at_each_step),
		cmocka_unit_test(test_exit_record_later),
		cmocka_unit_test(test_ready_waits_for_earlier_launches),
		cmocka_unit_test(test_ready_waits_for_earlier_launchers),
		cmocka_unit_test(test_launch_of_dead_launcher),
		cmocka_unit_test(test_launcher_killed_while_launching),
		cmocka_unit_test(test_launcher_of_another_version),
		cmocka_unit_test(test_other_boot),
		cmocka_unit_test(test_full_disk),
	};

	if (!fixture_main(argc, argv))
		return 1;
	return fixture_run_tests("shim_fault", tests, ARRAY_SIZE(tests), applies);
}
