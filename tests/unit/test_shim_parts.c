/* The small parts: messages, processes, the boot id, fault points, sentences. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "core/boot_id.h"
#include "core/fault.h"
#include "drivers/shim/client.h"
#include "drivers/shim/process.h"

static void open_pair(int fds[static 2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
}

static void test_messages(void **state)
{
	struct shim_message m, got;
	int fds[2], fd;

	(void)state;
	open_pair(fds);
	for (uint32_t type = SHIM_HELLO; type <= SHIM_PONG; type++) {
		shim_message_init(&m, type, 5, 6);
		assert_int_equal(shim_message_send(fds[0], &m, -1), 0);
		assert_int_equal(shim_message_recv(fds[1], &got, &fd), 1);
		assert_int_equal(got.header.type, type);
		assert_int_equal(got.header.serial, 5);
		assert_int_equal(got.header.attempt, 6);
		assert_int_equal(fd, -1);
	}
	/* With a descriptor, which is close-on-exec; and one that nobody asked for. */
	assert_int_equal(shim_message_send(fds[0], &m, STDERR_FILENO), 0);
	assert_int_equal(shim_message_recv(fds[1], &got, &fd), 1);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(close(fd), 0);
	assert_int_equal(shim_message_send(fds[0], &m, STDERR_FILENO), 0);
	assert_int_equal(shim_message_recv(fds[1], &got, NULL), 1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);

	assert_int_equal(shim_message_recv(fds[1], &got, NULL), -EAGAIN);
	assert_int_equal(shim_peer_check(fds[0]), 0);
	/* A path without an end gets one. */
	shim_message_init(&m, SHIM_FAILED, 1, 1);
	memset(m.body.failure.path, 'x', SHIM_PATH_MAX);
	assert_int_equal(shim_message_send(fds[0], &m, -1), 0);
	assert_int_equal(shim_message_recv(fds[1], &got, NULL), 1);
	assert_int_equal(strlen(got.body.failure.path), SHIM_PATH_MAX - 1);

	/* Whoever is gone is gone, without a signal. */
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(shim_message_recv(fds[1], &got, NULL), 0);
	assert_int_equal(shim_message_send(fds[1], &m, -1), -EPIPE);
	assert_int_equal(close(fds[1]), 0);
}

static void test_wrong_messages(void **state)
{
	struct shim_message m, got;
	int fds[2];

	(void)state;
	open_pair(fds);
	memset(&got, 0x55, sizeof(got));
	struct shim_message before = got;
	shim_message_init(&m, SHIM_REAPED, 1, 1);
	size_t right = sizeof(m.header) + sizeof(m.body.reply);
	for (size_t len = 1; len <= sizeof(m); len++) {
		if (len == right)
			continue;
		assert_int_equal(send(fds[0], &m, len, 0), len);
		assert_int_equal(shim_message_recv(fds[1], &got, NULL), -EPROTO);
	}
	m.header.protocol++;
	assert_int_equal(send(fds[0], &m, right, 0), right);
	assert_int_equal(shim_message_recv(fds[1], &got, NULL), -EPROTO);
	static const uint32_t types[] = {0, SHIM_PONG + 1, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		shim_message_init(&m, SHIM_REAP, 1, 1);
		m.header.type = types[i];
		assert_int_equal(send(fds[0], &m, sizeof(m.header), 0), sizeof(m.header));
		assert_int_equal(shim_message_recv(fds[1], &got, NULL), -EPROTO);
	}
	/* Outputs are untouched on failure. */
	assert_memory_equal(&got, &before, sizeof(got));
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

/* More descriptors than one: none is kept. */
static void test_many_descriptors(void **state)
{
	struct shim_message m, got;
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m.header)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int fds[2], sent[3] = {0, 1, 2}, lowest = dup(0);

	(void)state;
	assert_int_equal(close(lowest), 0);
	open_pair(fds);
	shim_message_init(&m, SHIM_LAUNCH, 1, 1);
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(sent));
	memcpy(CMSG_DATA(c), sent, sizeof(sent));
	assert_int_equal(sendmsg(fds[0], &msg, 0), sizeof(m.header));
	assert_int_equal(shim_message_recv(fds[1], &got, NULL), -EPROTO);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
	int now = dup(0);
	assert_int_equal(now, lowest);
	assert_int_equal(close(now), 0);
}

static pid_t start(void (*run)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		run();
		_exit(0);
	}
	return pid;
}

static void wait_for_ever(void)
{
	/* A name that looks like the end of the name and more. */
	(void)prctl(PR_SET_NAME, "a) Z 1 (b", 0, 0, 0);
	for (;;)
		(void)pause();
}

static void die(void)
{
}

static void grow(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			(void)setsid();
			(void)signal(SIGTERM, SIG_IGN);
			(void)!fork();
			wait_for_ever();
		}
	wait_for_ever();
}

static void reap_all(void)
{
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void test_identity(void **state)
{
	pid_t pid = start(wait_for_ever);
	uint64_t starttime, own;

	(void)state;
	assert_int_equal(process_starttime(pid, &starttime), 0);
	assert_int_equal(process_starttime(getpid(), &own), 0);
	assert_true(own > 0 && own <= starttime);
	assert_int_equal(process_signal_exact(pid, starttime + 1, SIGKILL), -ESRCH);
	assert_int_equal(process_signal_in_group(pid, "no-such-group", SIGKILL), -ESRCH);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(process_signal_exact(pid, starttime, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_starttime(pid, &starttime), -ESRCH);
	assert_int_equal(process_signal_exact(pid, starttime, SIGKILL), -ESRCH);

	/* One that is dead and not reaped is dead. */
	pid = start(die);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_starttime(pid, &starttime), 0);
	assert_int_equal(process_signal_exact(pid, starttime, SIGKILL), -ESRCH);
	assert_int_equal(process_tree_signal(getpid(), SIGTERM, NULL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool spare_one(pid_t child, void *arg)
{
	return child == *(pid_t *)arg;
}

static void test_tree(void **state)
{
	pid_t spared = start(wait_for_ever), top = start(grow);
	const struct process_filter filter = {spare_one, &spared};

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	/* Three children with one each, and the top; signal 0 only counts. */
	while (process_tree_signal(getpid(), 0, &filter) < 7)
		(void)usleep(1000);
	assert_int_equal(process_tree_signal(top, 0, NULL), 6);
	assert_int_equal(process_tree_kill(getpid(), &filter), 7);
	while (process_tree_signal(getpid(), 0, &filter) > 0)
		(void)usleep(1000);
	assert_int_equal(process_tree_signal(getpid(), 0, NULL), 1);
	assert_int_equal(process_tree_kill(getpid(), NULL), 1);
	reap_all();
}

static void test_boot_id(void **state)
{
	static const struct {
		const char *text;
		int r;
	} cases[] = {
		{"01234567-89ab-cdef-0123-456789ABCDEF", 0},
		{"01234567-89ab-cdef-0123-456789abcdef\n", 0},
		{"", -EINVAL},
		{"01234567-89ab-cdef-0123-456789abcde", -EINVAL},
		{"01234567-89ab-cdef-0123-456789abcdef0", -EINVAL},
		{"01234567-89ab-cdef-0123-456789abcdeg", -EINVAL},
		{"0123456789ab-cdef-0123-456789abcdef00", -EINVAL},
		{"01234567-89ab-cdef-0123-456789abcdef\n\n", -EINVAL},
	};
	static const uint8_t expected[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
					   0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t id[BOOT_ID_BYTES] = {0};

		assert_int_equal(boot_id_parse(cases[i].text, id), cases[i].r);
		if (cases[i].r == 0)
			assert_memory_equal(id, expected, sizeof(id));
	}
	uint8_t one[BOOT_ID_BYTES], two[BOOT_ID_BYTES];
	assert_int_equal(boot_id_read(one), 0);
	assert_int_equal(boot_id_read(two), 0);
	assert_memory_equal(one, two, sizeof(one));
#ifdef CLOOP_TEST_HOOKS
	assert_int_equal(setenv("CLOOP_BOOT_ID", cases[0].text, 1), 0);
	assert_int_equal(boot_id_read(two), 0);
	assert_memory_equal(two, expected, sizeof(two));
	assert_int_equal(unsetenv("CLOOP_BOOT_ID"), 0);
#endif
}

static void test_faults(void **state)
{
	(void)state;
	assert_int_equal(fault_point("none"), 0);
#ifdef CLOOP_TEST_HOOKS
	static const struct {
		const char *text;
		int results[5];
	} counts[] = {{"1", {-EIO, 0, 0, 0, 0}},   {"2\n", {-EIO, -EIO, 0, 0, 0}},
		      {"2 1", {0, 0, -EIO, 0, 0}}, {"0", {0, 0, 0, 0, 0}},
		      {"", {0, 0, 0, 0, 0}},       {"x", {0, 0, 0, 0, 0}}};
	char path[] = "/tmp/cloop-fault-XXXXXX", fault[128];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(setenv("CLOOP_FAULT", "a:eio,bb:enospc,c:nothing", 1), 0);
	assert_int_equal(fault_point("a"), -EIO);
	assert_int_equal(fault_point("bb"), -ENOSPC);
	assert_int_equal(fault_point("b"), 0);
	assert_int_equal(fault_point("c"), 0);
	assert_int_equal(fault_point("eio"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, counts[i].text, strlen(counts[i].text), 0),
				 strlen(counts[i].text));
		(void)snprintf(fault, sizeof(fault), "x:enomem,a:eio:%s", path);
		assert_int_equal(setenv("CLOOP_FAULT", fault, 1), 0);
		for (size_t n = 0; n < 5; n++)
			assert_int_equal(fault_point("a"), counts[i].results[n]);
	}
	/* Killed, in a process of its own; a count file that is not there never acts. */
	assert_int_equal(setenv("CLOOP_FAULT", "a:kill,b:kill:/nonexistent/count", 1), 0);
	assert_int_equal(fault_point("b"), 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)fault_point("a");
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(unsetenv("CLOOP_FAULT"), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
#endif
}

/* One line, whatever the other side says. */
static void test_sentences(void **state)
{
	(void)state;
	for (uint32_t step = 0; step < 20; step++)
		for (int error = -1; error < 140; error++) {
			struct shim_failure f = {.error = error, .step = step};
			struct error err;

			(void)strcpy(f.path, "a\nb\x7f");
			int r = shim_failure_error(&f, &err);
			assert_true(r < 0 && err.code == -r);
			assert_true(err.reason[0] != '\0');
			assert_null(strpbrk(err.reason, "\n\x7f"));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_wrong_messages),
		cmocka_unit_test(test_many_descriptors),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_boot_id),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
