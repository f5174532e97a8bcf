#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "fs/child.h"
#include "fs/notify.h"

/* Long enough for any machine; nothing here takes a second. */
#define PATIENCE_MS 30000

static struct child_end run(const char *script, const struct child_command *like)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)script, NULL};
	struct child_command command = *like;
	struct child c = CHILD_NONE;
	struct child_end end = {0};

	command.exe_fd = -1;
	command.path = "sh";
	command.argv = argv;
	assert_int_equal(child_start(&c, &command, NULL), 0);
	assert_true(c.pid > 0);
	assert_true(child_wait(&c, PATIENCE_MS, &end));
	assert_int_equal(c.pid, 0);
	assert_int_equal(c.pidfd, -1);
	return end;
}

static const struct child_command plain = {.output_fd = -1, .oom_score_adj = CHILD_OOM_KEEP};

static void ends_are_told_apart(void **state)
{
	char how[CHILD_END_MAX];
	struct child_end end = run("exit 7", &plain);

	(void)state;
	assert_false(end.by_signal);
	assert_int_equal(end.value, 7);
	child_describe(end, how);
	assert_string_equal(how, "exit status 7");
	end = run("kill -SEGV $$", &plain);
	assert_true(end.by_signal);
	assert_int_equal(end.value, SIGSEGV);
	child_describe(end, how);
	assert_string_equal(how, "signal 11 (Segmentation fault)");
}

static void what_cannot_be_executed_ends_with_127(void **state)
{
	char *argv[] = {(char *)"x", NULL};
	AUTO_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const struct child_command command = {.exe_fd = -1,
					      .path = "/no/such/program",
					      .argv = argv,
					      .output_fd = null,
					      .oom_score_adj = CHILD_OOM_KEEP};
	struct child c = CHILD_NONE;
	struct child_end end = {0};

	(void)state;
	assert_int_equal(child_start(&c, &command, NULL), 0);
	assert_true(child_wait(&c, PATIENCE_MS, &end));
	assert_false(end.by_signal);
	assert_int_equal(end.value, CHILD_EXIT_CANNOT_EXECUTE);
}

static void descriptors_are_handed_on_by_name_only(void **state)
{
	AUTO_CLOSE int given = open("/dev/null", O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct child_command command = plain;
	char script[128];

	(void)state;
	command.fds[command.n_fds++] = given;
	(void)snprintf(script, sizeof(script),
		       "[ -e /proc/self/fd/%d ] && ! [ -e /proc/self/fd/%d ]", given, kept);
	assert_int_equal(run(script, &command).value, 0);
	assert_int_equal(fcntl(given, F_GETFD), FD_CLOEXEC);
}

static void signals_have_their_defaults(void **state)
{
	sigset_t blocked, before;

	(void)state;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGPIPE);
	assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &before), 0);
	(void)signal(SIGHUP, SIG_IGN);
	assert_int_equal(run("grep -q '^SigBlk:.*[^0]$' /proc/self/status && exit 1;"
			     "grep '^SigIgn:' /proc/self/status | grep -q '1$' && exit 2; exit 0",
			     &plain)
				 .value,
			 0);
	assert_int_equal(run("kill -TERM $$; exit 0", &plain).value, SIGTERM);
	(void)signal(SIGHUP, SIG_DFL);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static void limits_and_environment(void **state)
{
	struct child_command command = plain;
	struct rlimit before, low;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	low.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(run("[ $(ulimit -Sn) = 64 ]", &command).value, 0);
	command.raise_files = true;
	assert_int_equal(run("[ $(ulimit -Sn) = $(ulimit -Hn) ]", &command).value, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

	command.environment = "CLOOP_TEST_WORD=a b";
	assert_int_equal(run("[ \"$CLOOP_TEST_WORD\" = 'a b' ]", &command).value, 0);
	assert_null(getenv("CLOOP_TEST_WORD"));
	command.oom_score_adj = 500;
	assert_int_equal(run("[ $(cat /proc/self/oom_score_adj) = 500 ]", &command).value, 0);
}

static void waiting_is_bounded_and_giving_up_is_possible(void **state)
{
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};
	const struct child_command command = {.exe_fd = -1,
					      .path = "sleep",
					      .argv = argv,
					      .output_fd = -1,
					      .oom_score_adj = CHILD_OOM_KEEP};
	struct child c = CHILD_NONE;
	struct child_end end;

	(void)state;
	/* Nothing happens to a process that is none. */
	child_kill(&c, SIGKILL);
	assert_false(child_reap(&c, &end));
	child_abandon(&c);

	assert_int_equal(child_start(&c, &command, NULL), 0);
	assert_false(child_wait(&c, 20, &end));
	child_kill(&c, SIGTERM);
	assert_true(child_wait(&c, PATIENCE_MS, &end));
	assert_int_equal(end.value, SIGTERM);

	assert_int_equal(child_start(&c, &command, NULL), 0);
	child_abandon(&c);
	assert_int_equal(c.pid, 0);
	assert_int_equal(c.pidfd, -1);
}

static void a_manager_that_is_none_is_ignored(void **state)
{
	static const char *const bad[] = {NULL, "", "@", "/", "relative", "unix:/x"};
	char too_long[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(notify_init(bad[i]).len, 0);
	memset(too_long, 'x', sizeof(too_long));
	too_long[0] = '/';
	too_long[sizeof(too_long) - 1] = '\0';
	struct notify n = notify_init(too_long);
	assert_int_equal(n.len, 0);
	notify_send(&n, "READY=1");
	n = notify_init("/no/such/socket");
	assert_true(n.len > 0);
	notify_send(&n, "READY=1");
	n = notify_init("@abstract");
	assert_int_equal(n.address.sun_path[0], '\0');
	assert_int_equal(n.len, offsetof(struct sockaddr_un, sun_path) + strlen("@abstract"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_are_told_apart),
		cmocka_unit_test(what_cannot_be_executed_ends_with_127),
		cmocka_unit_test(descriptors_are_handed_on_by_name_only),
		cmocka_unit_test(signals_have_their_defaults),
		cmocka_unit_test(limits_and_environment),
		cmocka_unit_test(waiting_is_bounded_and_giving_up_is_possible),
		cmocka_unit_test(a_manager_that_is_none_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
