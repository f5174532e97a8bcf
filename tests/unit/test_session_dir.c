/* A session's folder: names, lock, records, and what is left when something fails. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "drivers/shim/session_dir.h"
#include "tests/unit/tree_remove.h"

static char root[64];
static int sessions = -1;

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	(void)snprintf(root, sizeof(root), "%s/cloop-sd-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(root))
		return -1;
	sessions = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return sessions < 0;
}

static int teardown(void **state)
{
	(void)state;
	sessions = close_fd(sessions);
	return tree_remove(root);
}

static void test_names(void **state)
{
	static const struct {
		uint64_t serial;
		const char *shard, *name;
	} cases[] = {{1, "01", "0000000000000001"},
		     {0xab, "ab", "00000000000000ab"},
		     {UINT64_MAX, "ff", "ffffffffffffffff"},
		     {0x123456789abcdef0, "f0", "123456789abcdef0"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char shard[SESSION_SHARD_MAX], name[SESSION_NAME_MAX];

		session_dir_shard(cases[i].serial, shard);
		session_dir_name(cases[i].serial, name);
		assert_string_equal(shard, cases[i].shard);
		assert_string_equal(name, cases[i].name);
	}
}

static void test_lock(void **state)
{
	int dir, lock, other_dir, other_lock;

	(void)state;
	assert_int_equal(session_dir_open(sessions, 5), -ENOENT);
	assert_int_equal(session_dir_enter(sessions, 5, &dir, &lock), 0);
	assert_int_equal(session_dir_locked(dir), 1);
	assert_int_equal(session_dir_enter(sessions, 5, &other_dir, &other_lock), -EAGAIN);
	assert_int_equal(shim_session_remove(sessions, 5), -EBUSY);
	assert_int_equal(fcntl(lock, F_GETFD), FD_CLOEXEC);

	/* It goes with the process that has it, and not with a program that one executes. */
	pid_t pid = fork();
	if (pid == 0) {
		lock = close_fd(lock);
		int r = session_dir_enter(sessions, 6, &other_dir, &other_lock);
		_exit(r == 0 ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(session_dir_enter(sessions, 6, &other_dir, &other_lock), 0);
	assert_int_equal(close(other_lock), 0);
	assert_int_equal(session_dir_locked(other_dir), 0);
	assert_int_equal(close(other_dir), 0);

	lock = close_fd(lock);
	assert_int_equal(session_dir_locked(dir), 0);
	dir = close_fd(dir);
	assert_int_equal(shim_session_remove(sessions, 5), 0);
	assert_int_equal(session_dir_open(sessions, 5), -ENOENT);
	assert_int_equal(shim_session_remove(sessions, 5), 0);
}

static void test_records(void **state)
{
	struct session_started record = {.serial = 7, .attempt = 1, .shim_pid = 42}, got;
	struct shim_exit end = {.cause = SHIM_CAUSE_EXIT, .code = 9, .log_bytes = 3}, end_got;
	int dir, lock;

	(void)state;
	assert_int_equal(session_dir_enter(sessions, 7, &dir, &lock), 0);
	assert_int_equal(session_started_read(dir, 7, 1, &got), -ENOENT);
	int fd = session_started_create(sessions, dir, &record);
	assert_true(fd >= 0);
	assert_int_equal(session_started_create(sessions, dir, &record), -EEXIST);
	assert_int_equal(session_started_read(dir, 7, 1, &got), 0);
	assert_int_equal(got.shim_pid, 42);
	assert_int_equal(got.pid, 0);
	assert_int_equal(session_started_set_pid(fd, 77, 88), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(session_started_read(dir, 7, 1, &got), 0);
	assert_int_equal(got.pid, 77);
	assert_int_equal(got.pid_starttime, 88);
	assert_int_equal(got.shim_pid, 42);
	/* Of another attempt, of another session. */
	assert_int_equal(session_started_read(dir, 7, 2, &got), -ENOENT);
	assert_int_equal(session_started_read(dir, 8, 1, &got), -EBADMSG);

	assert_int_equal(session_exit_read(dir, 7, 1, &end_got), -ENOENT);
	assert_int_equal(session_exit_write(dir, 7, 1, &end), 0);
	assert_int_equal(session_exit_read(dir, 7, 1, &end_got), 0);
	assert_int_equal(end_got.code, 9);
	assert_int_equal(faccessat(dir, "exit.new", F_OK, 0), -1);
	assert_int_equal(session_exit_read(dir, 8, 1, &end_got), -EBADMSG);

	/* Cut short, or longer. */
	fd = openat(dir, "exit", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, sizeof(struct session_exit) - 1), 0);
	assert_int_equal(session_exit_read(dir, 7, 1, &end_got), -EBADMSG);
	assert_int_equal(ftruncate(fd, sizeof(struct session_exit) + 1), 0);
	assert_int_equal(session_exit_read(dir, 7, 1, &end_got), -EBADMSG);
	assert_int_equal(close(fd), 0);
	/* No file at all: reading does not wait for anybody. */
	assert_int_equal(unlinkat(dir, "exit", 0), 0);
	assert_int_equal(mkfifoat(dir, "exit", 0600), 0);
	assert_int_equal(session_exit_read(dir, 7, 1, &end_got), -EBADMSG);

	/* A second attempt beside the first. */
	record.attempt = 2;
	fd = session_started_create(sessions, dir, &record);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(session_exit_write(dir, 7, 2, &end), 0);
	assert_int_equal(session_exit_read(dir, 7, 2, &end_got), 0);
	assert_int_equal(faccessat(dir, "started.2", F_OK, 0), 0);
	assert_int_equal(faccessat(dir, "exit.2", F_OK, 0), 0);
	assert_int_equal(close(lock), 0);
	assert_int_equal(close(dir), 0);
}

static void test_undo(void **state)
{
	struct session_started record = {.serial = 3, .attempt = 1}, got;
	int dir, lock, fd;

	(void)state;
	assert_int_equal(session_dir_enter(sessions, 3, &dir, &lock), 0);
	fd = session_started_create(sessions, dir, &record);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(openat(dir, "log", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	/* Of a later attempt: only what is its own. */
	record.attempt = 2;
	fd = session_started_create(sessions, dir, &record);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	session_launch_undo(sessions, dir, 3, 2, true);
	assert_int_equal(session_started_read(dir, 3, 2, &got), -ENOENT);
	assert_int_equal(session_started_read(dir, 3, 1, &got), 0);
	assert_int_equal(faccessat(dir, "log", F_OK, 0), 0);
	/* Without a claim nothing of somebody else goes. */
	session_launch_undo(sessions, dir, 3, 1, false);
	assert_int_equal(session_started_read(dir, 3, 1, &got), 0);
	session_launch_undo(sessions, dir, 3, 1, true);
	assert_int_equal(session_dir_open(sessions, 3), -ENOENT);

	/* Who opened the folder before that gets a new one. */
	int again_dir, again_lock;
	assert_int_equal(session_dir_enter(sessions, 3, &again_dir, &again_lock), 0);
	assert_int_equal(session_dir_locked(again_dir), 1);
	assert_int_equal(close(lock), 0);
	assert_int_equal(session_dir_locked(again_dir), 1);
	assert_int_equal(close(again_lock), 0);
	assert_int_equal(close(again_dir), 0);
	assert_int_equal(close(dir), 0);
}

/* Everything flat goes; what nobody of ours has made stays, and is said. */
static void test_remove(void **state)
{
	int dir, lock;

	(void)state;
	assert_int_equal(session_dir_enter(sessions, 9, &dir, &lock), 0);
	assert_int_equal(close(lock), 0);
	for (int i = 0; i < 200; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "file%d", i);
		assert_int_equal(close(openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	}
	assert_int_equal(symlinkat(root, dir, "link"), 0);
	assert_int_equal(mkdirat(dir, "empty", 0700), 0);
	assert_int_equal(mkdirat(dir, "full", 0700), 0);
	assert_int_equal(mkdirat(dir, "full/x", 0700), 0);
	assert_int_equal(shim_session_remove(sessions, 9), -ENOTEMPTY);
	assert_int_equal(unlinkat(dir, "full/x", AT_REMOVEDIR), 0);
	assert_int_equal(shim_session_remove(sessions, 9), 0);
	assert_int_equal(session_dir_open(sessions, 9), -ENOENT);
	assert_int_equal(access(root, F_OK), 0);
	assert_int_equal(close(dir), 0);
}

/* Two processes that enter and leave the same folder: never both inside. */
static void test_contention(void **state)
{
	pid_t pids[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i] > 0)
			continue;
		for (int n = 0; n < 200;) {
			int dir, lock, r = session_dir_enter(sessions, 1, &dir, &lock);

			if (r == -EAGAIN || r == -ENOENT)
				continue;
			if (r < 0)
				_exit(1);
			/* A mark that must not be there, and must be ours. */
			int mark = openat(dir, "mark", O_CREAT | O_EXCL | O_CLOEXEC, 0600);
			if (mark < 0 || unlinkat(dir, "mark", 0) < 0)
				_exit(2);
			session_launch_undo(sessions, dir, 1, 1, false);
			(void)close(mark);
			(void)close(lock);
			(void)close(dir);
			n++;
		}
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void test_shards(void **state)
{
	char shard[SESSION_SHARD_MAX];
	struct stat st;
	int dir = -1, lock = -1;

	(void)state;
	assert_int_equal(session_dir_prepare(sessions), 0);
	assert_int_equal(session_dir_prepare(sessions), 0);
	for (uint64_t i = 0; i < SESSION_SHARDS; i++) {
		session_dir_shard(i, shard);
		assert_int_equal(fstatat(sessions, shard, &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(st.st_mode, S_IFDIR | 0700);
	}
	/* One that somebody removed is made again. */
	session_dir_shard(7, shard);
	assert_int_equal(unlinkat(sessions, shard, AT_REMOVEDIR), 0);
	assert_int_equal(session_dir_enter(sessions, 7, &dir, &lock), 0);
	assert_int_equal(close(lock), 0);
	assert_int_equal(close(dir), 0);
	/* What is no directory of ours is not taken for one. */
	session_dir_shard(8, shard);
	assert_int_equal(unlinkat(sessions, shard, AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("/tmp", sessions, shard), 0);
	assert_int_equal(session_dir_prepare(sessions), 0);
	assert_true(session_dir_enter(sessions, 8, &dir, &lock) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shards, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_records, setup, teardown),
		cmocka_unit_test_setup_teardown(test_undo, setup, teardown),
		cmocka_unit_test_setup_teardown(test_remove, setup, teardown),
		cmocka_unit_test_setup_teardown(test_contention, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
