/* Everybody is killed, stopped or refused at each step of launch and end; hostile folders and messages.
 * The first part needs a build with test hooks. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

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
	{"shim.started:enospc:%s/faults", ENOSPC},
	{"shim.started:eio:%s/faults", EIO},
	{"shim.log_open:enospc:%s/faults", ENOSPC},
	{"shim.clone:eagain:%s/faults", EAGAIN},
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
	struct fixture *f = fixture_open_with("shim.exit_record:eio:%s/faults",
					      FIXTURE_GROUPS_MACHINE);
	struct shim_exit exit;

	fixture_write(f, "faults", "1", 0666);
	/* The hub is told at once. */
	assert_int_equal(fixture_run_shell(f, 1, "exit 4")->exit.code, 4);
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, 1);
	assert_int_equal(session_exit_read(dir, 1, 1, &exit), -ENOENT);
	assert_int_equal(shim_session_remove(f->sessions_fd, 1), -EBUSY);
	/* One that comes meanwhile, too. */
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_RUNNING);
	fixture_until(f, f->outcomes[1].n_exited == 2);
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
	struct fixture *f = fixture_open_with("shim.started:stop:%s/faults", FIXTURE_GROUPS_MACHINE);

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
	struct fixture *f = fixture_open_with("shim.started:stop:%s/faults", FIXTURE_GROUPS_MACHINE);

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
		fixture_launch_shell(f, serial, "trap 'exit 0' TERM; echo 1 >ready;"
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
	assert_int_equal(symlink(target, path), 0);
	check_refused(f, 1, 0);
	(void)snprintf(path, sizeof(path), "%s/sessions/02", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
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
	for (uint32_t type = SHIM_LAUNCH; type <= SHIM_EXITED; type++) {
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
	for (size_t i = 1; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(close(fds[i]), 0);
	assert_int_equal(close(pipes[1]), 0);
	assert_int_equal(close(hub), 0);
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
	/* Until neither side takes more: the launcher has no room for answers, and reads no more. */
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
		cmocka_unit_test(test_killed_at_each_step),
		cmocka_unit_test(test_killed_while_undoing),
		cmocka_unit_test(test_refused_at_each_step),
		cmocka_unit_test(test_exit_record_later),
		cmocka_unit_test(test_ready_waits_for_earlier_launches),
		cmocka_unit_test(test_ready_waits_for_earlier_launchers),
		cmocka_unit_test(test_launch_of_dead_launcher),
		cmocka_unit_test(test_launcher_killed_while_launching),
		cmocka_unit_test(test_other_boot),
		cmocka_unit_test(test_planted_links),
		cmocka_unit_test(test_planted_dirs),
		cmocka_unit_test(test_broken_records),
		cmocka_unit_test(test_hostile_messages),
		cmocka_unit_test(test_hostile_launches),
		cmocka_unit_test(test_slow_hub),
	};

	if (!fixture_main(argc, argv))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
