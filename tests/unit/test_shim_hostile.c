/* Hostile folders, records and messages, and hubs that do not behave. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/unit/shim_fixture.h"

static bool ran(const struct fixture *f)
{
	return faccessat(f->dir_fd, "count", F_OK, 0) == 0;
}

/* --- folders --- */

static void make_session_dir(struct fixture *f, uint64_t serial, mode_t mode, char path[static 128])
{
	char shard[SESSION_SHARD_MAX], name[SESSION_NAME_MAX];

	session_dir_shard(serial, shard);
	session_dir_name(serial, name);
	(void)snprintf(path, 128, "%s/sessions/%s", f->dir, shard);
	assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
	(void)snprintf(path, 128, "%s/sessions/%s/%s", f->dir, shard, name);
	assert_int_equal(mkdir(path, mode), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void check_refused(struct fixture *f, uint64_t serial, int error)
{
	const struct outcome *o = fixture_run_shell(f, serial, "echo x >>count");

	assert_int_equal(o->n_failed, 1);
	if (error != 0)
		assert_int_equal(o->err.code, error);
	assert_false(ran(f));
}

/* Symbolic links where files are made: nothing is written through them. */
static void test_planted_links(void **state)
{
	static const char *const names[] = {"lock", "exit.new", "log", "started", "signals"};
	struct fixture *f = fixture_open();
	char path[128], link[160], victim[96];
	struct stat st;

	(void)state;
	(void)snprintf(victim, sizeof(victim), "%s/victim", f->dir);
	fixture_write(f, "victim", "untouched", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t serial = i + 1;

		make_session_dir(f, serial, 0700, path);
		(void)snprintf(link, sizeof(link), "%s/%s", path, names[i]);
		assert_int_equal(symlink(victim, link), 0);
		fixture_launch_shell(f, serial,
				     "trap 'exit 0' TERM; echo 1 >ready;"
				     "while :; do sleep 0.01; done");
		fixture_until(f, fixture_ended(f, serial) || f->outcomes[serial].n_started);
		if (f->outcomes[serial].n_started) {
			/* Only the file of keys is of no importance. */
			assert_string_equal(names[i], "signals");
			fixture_until(f, fixture_number(f, "ready") == 1);
			fixture_signal(f, serial, 1, SHIM_SIGNAL_TERMINATE);
			fixture_until(f, fixture_ended(f, serial));
			assert_int_equal(f->outcomes[serial].exit.code, 0);
		}
		assert_int_equal(fstatat(f->dir_fd, "victim", &st, 0), 0);
		assert_int_equal(st.st_size, 9);
	}
	fixture_close(f);
}

static void test_planted_dirs(void **state)
{
	struct fixture *f = fixture_open();
	char path[128], target[96];

	(void)state;
	/* The shard, and the folder itself. */
	(void)snprintf(target, sizeof(target), "%s/target", f->dir);
	assert_int_equal(mkdir(target, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/sessions/01", f->dir);
	/* The launcher has made the shards; whoever plants something has to remove them. */
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink(target, path), 0);
	check_refused(f, 1, 0);
	(void)snprintf(path, sizeof(path), "%s/sessions/02/0000000000000002", f->dir);
	assert_int_equal(symlink(target, path), 0);
	check_refused(f, 2, 0);
	assert_int_equal(rmdir(target), 0);

	/* Others may write to it; or it is somebody else's. */
	make_session_dir(f, 3, 0770, path);
	check_refused(f, 3, EPERM);
	if (geteuid() == 0) {
		make_session_dir(f, 4, 0700, path);
		assert_int_equal(chown(path, 65534, 65534), 0);
		check_refused(f, 4, EPERM);
	}
	/* A file where the folder should be. */
	make_session_dir(f, 5, 0700, path);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	check_refused(f, 5, ENOTDIR);
	/* A name that is taken in the directory of sockets is of a dead shim. */
	(void)snprintf(path, sizeof(path), "%s/run/shims/0000000000000006", f->dir);
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_equal(fixture_run_shell(f, 6, "exit 6")->exit.code, 6);
	fixture_close(f);
}

/* Records of another session, of another version, cut short, or garbage. */
static void test_broken_records(void **state)
{
	struct fixture *f = fixture_open();
	static const char *const contents[] = {"", "garbage", NULL};
	char path[160], dir[128];

	(void)state;
	for (uint64_t serial = 1; serial <= 3; serial++) {
		const char *content = contents[serial - 1];
		char zeros[sizeof(struct session_started)] = {0};

		make_session_dir(f, serial, 0700, dir);
		(void)snprintf(path, sizeof(path), "%s/started", dir);
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		size_t len = content ? strlen(content) : sizeof(zeros);
		assert_int_equal(write(fd, content ? content : zeros, len), len);
		assert_int_equal(close(fd), 0);
		/* Somebody began to start it: it is not started again. */
		assert_int_equal(fixture_adopt(f, serial, 1), SHIM_ADOPT_LOST);
		fixture_until(f, f->outcomes[serial].n_lost == 1);
		fixture_launch_shell(f, serial, "echo x >>count");
		fixture_until(f, f->outcomes[serial].n_lost == 2);
		assert_false(ran(f));
	}
	fixture_close(f);
}

/* --- messages --- */

static int connect_to(const struct fixture *f, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/run/%s", f->dir, name);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int connect_hub(struct fixture *f)
{
	int fd = connect_to(f, SHIM_LAUNCHER_SOCKET), r;
	struct shim_message m;

	shim_message_init(&m, SHIM_HELLO, 0, 0);
	m.body.hello.epoch = ++f->epoch;
	assert_int_equal(shim_message_send(fd, &m, -1), 0);
	fixture_until(f, (r = shim_message_recv(fd, &m, NULL)) != -EAGAIN);
	assert_int_equal(r, 1);
	assert_int_equal(m.body.hello.epoch, f->epoch);
	return fd;
}

static void check_closed(struct fixture *f, int fd)
{
	struct shim_message m;
	int r;

	fixture_until(f, (r = shim_message_recv(fd, &m, NULL)) != -EAGAIN);
	assert_true(r == 0 || r == -ECONNRESET || r == -EPIPE);
	assert_int_equal(close(fd), 0);
}

/* Says something wrong to a shim: it is heard, and cut off. */
static void check_shim_closes(struct fixture *f, const void *data, size_t len)
{
	int fd = connect_to(f, "shims/0000000000000001");
	struct shim_message m;

	assert_int_equal(send(fd, data, len, 0), len);
	fixture_until(f, shim_message_recv(fd, &m, NULL) == 1);
	assert_int_equal(m.header.type, SHIM_STARTED);
	check_closed(f, fd);
}

static void check_launcher_closes(struct fixture *f, const void *data, size_t len)
{
	int fd = connect_to(f, SHIM_LAUNCHER_SOCKET);

	assert_int_equal(send(fd, data, len, 0), len);
	check_closed(f, fd);
}

/* Whoever says something wrong is cut off, and nobody else is. */
static void test_hostile_messages(void **state)
{
	struct fixture *f = fixture_open();
	static const size_t sizes[] = {1, 23, 24, 25, 4000, 100000};
	static char junk[100000];
	struct shim_message m;

	(void)state;
	memset(junk, 0xa5, sizeof(junk));
	fixture_launch_shell(f, 1, "while [ ! -e go ]; do sleep 0.01; done; exit 3");
	fixture_until(f, f->outcomes[1].n_started == 1);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		check_launcher_closes(f, junk, sizes[i]);
		check_shim_closes(f, junk, sizes[i]);
	}
	/* Of every kind, mostly of the wrong length; before HELLO, and for another session. */
	for (uint32_t type = SHIM_LAUNCH; type <= SHIM_PONG; type++) {
		shim_message_init(&m, type, 2, 1);
		check_launcher_closes(f, &m, sizeof(m.header));
		check_shim_closes(f, &m, sizeof(m.header));
	}
	shim_message_init(&m, SHIM_SIGNAL, 2, 1);
	check_shim_closes(f, &m, sizeof(m.header) + sizeof(m.body.signal));
	shim_message_init(&m, SHIM_SIGNAL, 1, 2);
	check_shim_closes(f, &m, sizeof(m.header) + sizeof(m.body.signal));

	/* A signal that there is none of is refused and does not end the connection. */
	int fd = connect_to(f, "shims/0000000000000001");
	shim_message_init(&m, SHIM_SIGNAL, 1, 1);
	m.body.signal.signal = 77;
	assert_int_equal(shim_message_send(fd, &m, -1), 0);
	fixture_until(f, shim_message_recv(fd, &m, NULL) == 1);
	fixture_until(f, shim_message_recv(fd, &m, NULL) == 1);
	assert_int_equal(m.header.type, SHIM_SIGNALLED);
	assert_int_equal(m.body.signalled.error, EINVAL);
	assert_int_equal(close(fd), 0);

	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.code, 3);
	assert_int_equal(f->n_disconnected, 0);
	fixture_close(f);
}

/* Launches without a record, with one that is not sealed, and with somebody else's. */
static void test_hostile_launches(void **state)
{
	struct fixture *f = fixture_open();
	const char *const argv[] = {"/bin/true", NULL};
	struct launch_request q = fixture_request(7, argv);
	struct shim_message m;
	int record;

	(void)state;
	fixture_drop_client(f);
	int hub = connect_hub(f);
	assert_int_equal(launch_record_encode(&q, &record, NULL), 0);
	int unsealed = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char copy[4096];
	ssize_t n = pread(record, copy, sizeof(copy), 0);
	assert_int_equal(write(unsealed, copy, (size_t)n), n);
	int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	int pipes[2];
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	const int fds[] = {-1, unsealed, file, pipes[0], record};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		/* The last: the record says 7, the message 8. */
		shim_message_init(&m, SHIM_LAUNCH, i + 1 < ARRAY_SIZE(fds) ? 7 : 8, 1);
		assert_int_equal(shim_message_send(hub, &m, fds[i]), 0);
		fixture_until(f, shim_message_recv(hub, &m, NULL) == 1);
		assert_int_equal(m.header.type, SHIM_FAILED);
		assert_int_equal(m.body.failure.step, SHIM_STEP_RECORD);
		assert_int_equal(m.body.failure.error, EINVAL);
	}
	shim_message_init(&m, SHIM_LAUNCH, 7, 1);
	assert_int_equal(shim_message_send(hub, &m, record), 0);
	fixture_until(f, shim_message_recv(hub, &m, NULL) == 1);
	assert_int_equal(m.header.type, SHIM_STARTED);
	/* Its end is in its folder, whoever listens. */
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, 7);
	struct shim_exit exit;
	fixture_until(f, session_exit_read(dir, 7, 1, &exit) == 0 && session_dir_locked(dir) == 0);
	assert_int_equal(exit.code, 0);
	for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(close(fds[i]), 0);
	assert_int_equal(close(pipes[1]), 0);
	assert_int_equal(close(hub), 0);
	fixture_close(f);
}

/* A hub is killed with launches in flight: each runs once, whichever hub asked for it. */
static void test_hub_killed_with_launches_in_flight(void **state)
{
	enum { N = 40 };
	struct fixture *f = fixture_open();
	char scripts[N + 1][64];
	struct stat st;

	(void)state;
	fixture_drop_client(f);
	int hub = connect_hub(f);
	for (uint64_t s = 1; s <= N; s++) {
		struct shim_message m;
		int record;

		(void)snprintf(scripts[s], sizeof(scripts[s]), "echo x >>count.%u", (unsigned)s);
		const char *const argv[] = {"sh", "-c", scripts[s], NULL};
		struct launch_request q = fixture_request(s, argv);
		q.work_dir = f->dir;
		assert_int_equal(launch_record_encode(&q, &record, NULL), 0);
		shim_message_init(&m, SHIM_LAUNCH, s, 1);
		assert_int_equal(shim_message_send(hub, &m, record), 0);
		assert_int_equal(close(record), 0);
	}
	assert_int_equal(close(hub), 0);
	fixture_start_client(f);
	for (uint64_t s = 1; s <= N; s++)
		if (fixture_adopt(f, s, 1) == SHIM_ADOPT_NEVER)
			fixture_launch_shell(f, s, scripts[s]);
	for (uint64_t s = 1; s <= N; s++) {
		char name[32];

		fixture_until(f, fixture_ended(f, s));
		assert_int_equal(f->outcomes[s].n_exited, 1);
		(void)snprintf(name, sizeof(name), "count.%u", (unsigned)s);
		assert_int_equal(fstatat(f->dir_fd, name, &st, 0), 0);
		assert_int_equal(st.st_size, 2);
	}
	fixture_close(f);
}

/* A hub that does not read holds up nothing but the reports to itself, of which none is lost. */
static void test_slow_hub(void **state)
{
	enum { N = 12000 };
	struct fixture *f = fixture_open();
	struct shim_message m;
	size_t sent = 0, got = 0;
	int r = 0;

	(void)state;
	fixture_drop_client(f);
	int hub = connect_hub(f);
	/* Until neither side takes more: the launcher has no room for answers, and reads no
	 * more. */
	for (int idle = 0; sent < N && idle < 100;) {
		shim_message_init(&m, SHIM_LAUNCH, 1000 + sent, 1);
		r = shim_message_send(hub, &m, -1);
		if (r == 0) {
			sent++;
			idle = 0;
		} else {
			assert_int_equal(r, -EAGAIN);
			idle++;
			(void)usleep(5000);
		}
	}
	while (got < sent) {
		fixture_until(f, (r = shim_message_recv(hub, &m, NULL)) != -EAGAIN);
		assert_int_equal(r, 1);
		assert_int_equal(m.header.type, SHIM_FAILED);
		got++;
	}
	assert_int_equal(close(hub), 0);
	fixture_start_client(f);
	assert_int_equal(fixture_run_shell(f, 1, "exit 5")->exit.code, 5);
	fixture_close(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_planted_links),
		cmocka_unit_test(test_planted_dirs),
		cmocka_unit_test(test_broken_records),
		cmocka_unit_test(test_hostile_messages),
		cmocka_unit_test(test_hostile_launches),
		cmocka_unit_test(test_hub_killed_with_launches_in_flight),
		cmocka_unit_test(test_slow_hub),
	};

	if (!fixture_main(argc, argv))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
