/* Workloads from launch to end, through a real launcher. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/clock.h"
#include "tests/unit/shim_fixture.h"

/* An ordinary user: the launcher has neither groups nor other ids. */
static bool ordinary(void)
{
	return geteuid() != 0;
}

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

/* What was written just before the end is there, however much it is. */
static void test_log_of_a_burst(void **state)
{
	struct fixture *f = *state;
	const struct outcome *o =
		fixture_run_shell(f, 1, "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2");

	assert_int_equal(o->exit.code, 0);
	assert_int_equal(o->exit.log_bytes, 5000000);
}

/* The next attempt has records of its own and goes on with the same log. */
static void test_attempts(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"sh", "-c", "echo again; exit 2", NULL};
	struct launch_request q = fixture_request(1, argv);
	enum shim_adoption adoption;
	struct error err;

	assert_int_equal(fixture_run_shell(f, 1, "echo once; exit 1")->exit.code, 1);
	q.attempt = 2;
	fixture_launch(f, &q);
	fixture_until(f, f->outcomes[1].n_exited == 2);
	assert_int_equal(f->outcomes[1].exit.code, 2);
	const char *log = fixture_log(f, 1);
	assert_true(strncmp(log, "once\n[cloop] ", 13) == 0);
	assert_non_null(strstr(log, "\nagain\n"));

	/* A launch that fails takes nothing of the earlier attempts away. */
	const char *const none[] = {"/nonexistent", NULL};
	q = fixture_request(1, none);
	q.attempt = 3;
	fixture_launch(f, &q);
	fixture_until(f, f->outcomes[1].n_failed == 1);
	assert_int_equal(shim_client_adopt(f->client, 1, 3, &adoption, NULL, &err), 0);
	assert_int_equal(adoption, SHIM_ADOPT_NEVER);
	assert_int_equal(shim_client_adopt(f->client, 1, 1, &adoption, NULL, &err), 0);
	assert_int_equal(adoption, SHIM_ADOPT_FINISHED);
	fixture_until(f, f->outcomes[1].n_exited == 3);
	assert_int_equal(f->outcomes[1].exit.code, 1);
}

/* What the process is given, and nothing else. */
static void test_birth(void **state)
{
	struct fixture *f = *state;
	static const char *const env[] = {"PATH=/usr/bin:/bin", "A=b=c", "EMPTY="};
	static const gid_t groups[] = {65531, 65532};
	const char *const argv[] = {
		"sh", "-c",
		"id -u; id -g; id -G; umask; pwd; ulimit -Sn;"
		"grep -E '^(NoNewPrivs|Sig(Blk|Ign)|CapEff)' /proc/self/status;"
		"ls /proc/$$/fd; ps -o sid= -p $$ | tr -d ' ' >sid; echo $$ >pid; env | sort",
		NULL};
	struct launch_request q = fixture_request(1, argv);
	char expected[1024], where[96];

	if (!ordinary()) {
		q.uid = 65534;
		q.gid = 65533;
		q.groups = groups;
		q.n_groups = ARRAY_SIZE(groups);
	}
	q.env = env;
	q.n_env = ARRAY_SIZE(env);
	(void)snprintf(where, sizeof(where), "%s/w", f->dir);
	assert_int_equal(mkdir(where, 0777), 0);
	assert_int_equal(chmod(where, 0777), 0);
	q.work_dir = where;
	assert_int_equal(fixture_run(f, &q)->exit.code, 0);
	(void)snprintf(expected, sizeof(expected),
		       "%s0022\n%s\n%ld\n"
		       "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
		       "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n0\n1\n2\n"
		       "A=b=c\nEMPTY=\nPATH=/usr/bin:/bin\nPWD=%s\n",
		       ordinary() ? "65534\n65534\n65534\n" : "65534\n65533\n65533 65531 65532\n",
		       where, sysconf(_SC_OPEN_MAX), where);
	assert_string_equal(fixture_log(f, 1), expected);
	assert_true(fixture_number(f, "w/pid") > 0);
	assert_int_equal(fixture_number(f, "w/sid"), fixture_number(f, "w/pid"));
}

struct failing {
	const char *argv0, *path, *work_dir;
	int error;
	const char *field, *in_reason;
};

/* Each way in which a program cannot be executed: errno, field, a sentence with the path; and
 * nothing is left of it. */
static void test_exec_errors(void **state)
{
	struct fixture *f = *state;
	static const struct failing cases[] = {
		{"/nonexistent/x", NULL, "/", ENOENT, "argv[0]", "/nonexistent/x"},
		{"/etc/passwd", NULL, "/", EACCES, "argv[0]", "/etc/passwd"},
		{"/etc", NULL, "/", EACCES, "argv[0]", "/etc"},
		{"/etc/passwd/x", NULL, "/", ENOTDIR, "argv[0]", "/etc/passwd/x"},
		{"./text", NULL, NULL, ENOEXEC, "argv[0]", "./text"},
		{"./script", NULL, NULL, ENOENT, "argv[0]", "interpreter of ./script"},
		{"no-such-program", NULL, "/", ENOENT, "argv[0]", "no-such-program"},
		{"", NULL, "/", EINVAL, "argv", ""},
		/* Not executable in the first directory, not there in the second. */
		{"plain", "PATH=%s:/bin", "/", EACCES, "argv[0]", "/plain"},
		{"text", "PATH=/bin:%s", "/", ENOEXEC, "argv[0]", "/text"},
		/* An empty element is the working directory. */
		{"text", "PATH=/bin:", NULL, ENOEXEC, "argv[0]", "text"},
		{"text", "PATH=/bin", NULL, ENOENT, "argv[0]", "text"},
		{"/bin/true", NULL, "/nonexistent/dir", ENOENT, "work_dir", "/nonexistent/dir"},
		{"/bin/true", NULL, "/etc/passwd", ENOTDIR, "work_dir", "/etc/passwd"},
		{"/bin/true", NULL, "relative", EINVAL, "work_dir", "absolute"},
		{"/bin/true", NULL, "", EINVAL, "work_dir", "absolute"},
	};

	fixture_write(f, "text", "no program\n", 0755);
	fixture_write(f, "script", "#!/nonexistent/interpreter\n", 0755);
	fixture_write(f, "plain", "#!/bin/sh\n", 0644);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct failing *c = &cases[i];
		const char *const argv[] = {c->argv0, NULL};
		uint64_t serial = i + 1;
		struct launch_request q = fixture_request(serial, argv);
		struct outcome *o = &f->outcomes[serial];
		enum shim_adoption adoption;
		char path[128];
		const char *const env[] = {path};

		if (c->path) {
			const char *at = strstr(c->path, "%s");
			int before = at ? (int)(at - c->path) : (int)strlen(c->path);

			(void)snprintf(path, sizeof(path), "%.*s%s%s", before, c->path,
				       at ? f->dir : "", at ? at + 2 : "");
			q.env = env;
			q.n_env = 1;
		}
		q.work_dir = c->work_dir ? c->work_dir : f->dir;
		/* Some are refused before anything is sent. */
		if (shim_client_launch(f->client, &q, &o->err) == 0) {
			fixture_until(f, fixture_ended(f, serial));
			assert_int_equal(o->n_failed, 1);
			assert_int_equal(o->n_started, 0);
		}
		assert_int_equal(o->err.code, c->error);
		assert_string_equal(o->err.field, c->field);
		if (!strstr(o->err.reason, c->in_reason))
			fail_msg("%s: %s", c->argv0, o->err.reason);
		assert_false(fixture_left(f, serial));
		assert_int_equal(shim_client_adopt(f->client, serial, 1, &adoption, NULL, NULL), 0);
		assert_int_equal(adoption, SHIM_ADOPT_NEVER);
	}
}

/* More than one argument may hold, and more than all may. */
static void test_too_much(void **state)
{
	struct fixture *f = *state;
	AUTO_FREE char *large = malloc(LAUNCH_RECORD_MAX + 1);
	const char *const argv[] = {"/bin/true", large, NULL};
	struct error err;

	assert_non_null(large);
	memset(large, 'x', LAUNCH_RECORD_MAX);
	large[LAUNCH_RECORD_MAX] = '\0';
	struct launch_request q = fixture_request(1, argv);
	assert_int_equal(shim_client_launch(f->client, &q, &err), -E2BIG);

	/* MAX_ARG_STRLEN is 128 KiB. */
	large[1 << 20] = '\0';
	const struct outcome *o = fixture_run(f, &q);
	assert_int_equal(o->n_failed, 1);
	assert_int_equal(o->err.code, E2BIG);
	large[100000] = '\0';
	q.serial = 2;
	assert_int_equal(fixture_run(f, &q)->exit.code, 0);
}

/* A directory that the user may not enter is refused by who he is, not by who the launcher is. */
static void test_work_dir_of_others(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"/bin/true", NULL};
	struct launch_request q = fixture_request(1, argv);
	char path[96];

	if (ordinary())
		skip();
	(void)snprintf(path, sizeof(path), "%s/private", f->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	q.work_dir = path;
	q.uid = 65534;
	q.gid = 65534;
	const struct outcome *o = fixture_run(f, &q);
	assert_int_equal(o->n_failed, 1);
	assert_int_equal(o->err.code, EACCES);
	assert_string_equal(o->err.field, "work_dir");
	assert_false(fixture_left(f, 1));
}

/* Nothing on the mount's own device is entered or executed. */
static void test_forbidden_device(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"/bin/true", NULL};
	const char *const search[] = {"self/exe", NULL};
	struct launch_request q = fixture_request(1, argv);
	struct stat st;

	assert_int_equal(stat("/proc", &st), 0);
	q.forbidden_dev = st.st_dev;
	q.work_dir = "/proc/self";
	const struct outcome *o = fixture_run(f, &q);
	assert_int_equal(o->n_failed, 1);
	assert_int_equal(o->err.code, EINVAL);
	assert_string_equal(o->err.field, "work_dir");
	assert_non_null(strstr(o->err.reason, "/proc/self"));

	/* Through a symbolic link as well. */
	char link[96];
	(void)snprintf(link, sizeof(link), "%s/link", f->dir);
	assert_int_equal(symlink("/proc", link), 0);
	q.work_dir = link;
	q.serial = 2;
	assert_string_equal(fixture_run(f, &q)->err.field, "work_dir");

	assert_int_equal(stat("/bin/true", &st), 0);
	q = fixture_request(3, argv);
	q.forbidden_dev = st.st_dev;
	q.work_dir = "/proc";
	o = fixture_run(f, &q);
	assert_int_equal(o->n_failed, 1);
	assert_string_equal(o->err.field, "argv[0]");
	assert_non_null(strstr(o->err.reason, "/bin/true"));

	/* Another device is none of our business. */
	q = fixture_request(4, search);
	q.forbidden_dev = st.st_dev + 12345;
	q.work_dir = "/proc";
	assert_int_equal(fixture_run(f, &q)->n_started, 1);
}

static void test_other_users(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"/bin/true", NULL};
	struct launch_request q = fixture_request(1, argv);

	assert_int_equal((f->abilities & SHIM_CAN_SETUID) != 0, !ordinary());
	if (!ordinary())
		return;
	q.uid = 0;
	const struct outcome *o = fixture_run(f, &q);
	assert_int_equal(o->n_failed, 1);
	assert_int_equal(o->err.code, EPERM);
}

static void test_timeout(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"sh", "-c",
				    "trap '' TERM INT; echo $$ >pid; sleep 1000; exit 0", NULL};
	struct launch_request q = fixture_request(1, argv);
	int64_t before = clock_boot_ns();

	q.work_dir = f->dir;
	q.timeout_ms = 300;
	const struct outcome *o = fixture_run(f, &q);
	assert_int_equal(o->n_started, 1);
	assert_true(o->started.deadline_boot_ns >= before + 300 * CLOCK_NS_PER_MS);
	assert_true(clock_boot_ns() >= o->started.deadline_boot_ns);
	assert_int_equal(o->exit.cause, SHIM_CAUSE_TIMEOUT);
	assert_int_equal(o->exit.signal, SIGKILL);
	assert_int_equal(o->exit.code, -1);
	assert_false(fixture_alive(fixture_number(f, "pid")));

	/* In time is in time; a deadline beyond all clocks is none. */
	const char *const quick[] = {"/bin/true", NULL};
	q = fixture_request(2, quick);
	q.timeout_ms = INT64_MAX;
	assert_int_equal(fixture_run(f, &q)->exit.cause, SHIM_CAUSE_EXIT);
}

static void test_memory_limit(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"tail", "/dev/zero", NULL};
	const char *const child[] = {"sh", "-c", "tail /dev/zero; exit $?", NULL};
	const char *const tolerant[] = {"sh", "-c", "tail /dev/zero; exit 0", NULL};
	struct launch_request q = fixture_request(1, argv);

	q.memory_mb = 16;
	const struct outcome *o = fixture_run(f, &q);
	if ((f->abilities & SHIM_CAN_MEMORY) == 0) {
		assert_int_equal(o->err.code, EOPNOTSUPP);
		assert_string_equal(o->err.field, "resource_limits.memory_mb");
		return;
	}
	assert_int_equal(o->exit.cause, SHIM_CAUSE_OOM);
	assert_true(o->exit.oom_kills > 0);

	q = fixture_request(2, child);
	q.memory_mb = 16;
	assert_int_equal(fixture_run(f, &q)->exit.cause, SHIM_CAUSE_OOM);

	/* One that lives with the loss of a child ends as it wants to. */
	q = fixture_request(3, tolerant);
	q.memory_mb = 16;
	o = fixture_run(f, &q);
	assert_int_equal(o->exit.cause, SHIM_CAUSE_EXIT);
	assert_int_equal(o->exit.code, 0);
	assert_true(o->exit.oom_kills > 0);
}

static void test_pids_limit(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"sh", "-c", "for i in 1 2 3 4 5 6 7; do sleep 1000 & done",
				    NULL};
	struct launch_request q = fixture_request(1, argv);

	q.pids = 5;
	fixture_launch(f, &q);
	if ((f->abilities & SHIM_CAN_PIDS) == 0) {
		fixture_until(f, fixture_ended(f, 1));
		assert_string_equal(f->outcomes[1].err.field, "resource_limits.pids");
		return;
	}
	/* "Cannot fork"; and the five that it could are gone with it. */
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.cause, SHIM_CAUSE_EXIT);
	assert_int_not_equal(f->outcomes[1].exit.code, 0);
}

static void test_cpu_limit(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {
		"sh", "-c",
		"cd /sys/fs/cgroup/cpu$(sed -n 's/^[0-9]*:cpu://p' /proc/self/cgroup) &&"
		"cat cpu.cfs_quota_us cpu.cfs_period_us",
		NULL};
	struct launch_request q = fixture_request(1, argv);

	q.cpu_millis = 250;
	/* Programs look at their own limits, whoever they run as. */
	if (!ordinary())
		q.uid = q.gid = 65534;
	const struct outcome *o = fixture_run(f, &q);
	if ((f->abilities & SHIM_CAN_CPU) == 0) {
		assert_string_equal(o->err.field, "resource_limits.cpu_millis");
		return;
	}
	if (access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK) < 0 &&
	    access("/sys/fs/cgroup/cpu/cpu.shares", F_OK) < 0)
		skip();
	assert_string_equal(fixture_log(f, 1), "25000\n100000\n");
	q.serial = 2;
	q.cpu_millis = 3;
	assert_int_equal(fixture_run(f, &q)->exit.code, 0);
	assert_string_equal(fixture_log(f, 2), "3000\n1000000\n");
}

/* A limit that the kernel refuses is refused, and nothing is left. */
static void test_refused_limit(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = {"/bin/true", NULL};
	struct launch_request q = fixture_request(1, argv);

	q.pids = INT64_MAX;
	const struct outcome *o = fixture_run(f, &q);
	assert_int_equal(o->n_failed, 1);
	assert_string_equal(o->err.field, "resource_limits.pids");
	assert_false(fixture_left(f, 1));
	q.serial = 2;
	q.pids = 0;
	q.memory_mb = INT64_MAX;
	assert_string_equal(fixture_run(f, &q)->err.field, "resource_limits.memory_mb");
	assert_false(fixture_left(f, 2));
}

/* 200 launches, 8 in flight: each ends once, with its own code. */
static void test_many(void **state)
{
	struct fixture *f = *state;
	uint64_t next = 1, ended = 0;

	while (ended < 200) {
		uint64_t running = 0;

		ended = 0;
		for (uint64_t s = 1; s < next; s++)
			fixture_ended(f, s) ? ended++ : running++;
		for (; running < 8 && next <= 200; running++, next++) {
			char script[64];

			(void)snprintf(script, sizeof(script), "echo %u; exit %u", (unsigned)next,
				       (unsigned)next % 256);
			fixture_launch_shell(f, next, script);
		}
		uint64_t deadline = 0;
		assert_true(fixture_turn(f, &deadline));
	}
	for (uint64_t s = 1; s <= 200; s++) {
		char expected[16];

		assert_int_equal(f->outcomes[s].n_exited, 1);
		assert_int_equal(f->outcomes[s].exit.code, s % 256);
		(void)snprintf(expected, sizeof(expected), "%u\n", (unsigned)s);
		assert_string_equal(fixture_log(f, s), expected);
	}
}

/* A hub that is killed: the next one finds what runs, what ended meanwhile, and nothing else. */
static void test_adoption(void **state)
{
	struct fixture *f = *state;
	struct session_started started;
	enum shim_adoption adoption;

	fixture_launch_shell(f, 1,
			     "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3");
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

/* The same attempt again is answered with the one that is there, and runs once. */
static void test_replayed_launch(void **state)
{
	struct fixture *f = *state;
	static const char script[] = "echo x >>count; while [ ! -e go ]; do sleep 0.01; done";

	fixture_launch_shell(f, 1, script);
	fixture_until(f, f->outcomes[1].n_started == 1);
	fixture_drop_client(f);
	fixture_start_client(f);
	/* Running. */
	fixture_launch_shell(f, 1, script);
	fixture_until(f, f->outcomes[1].n_started == 1);
	fixture_write(f, "go", "", 0644);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].n_exited, 1);
	/* Finished. */
	fixture_launch_shell(f, 1, script);
	fixture_until(f, f->outcomes[1].n_exited == 2);
	assert_int_equal(f->outcomes[1].n_failed, 0);

	struct stat st;
	assert_int_equal(fstatat(f->dir_fd, "count", &st, 0), 0);
	assert_int_equal(st.st_size, 2);
}

/* A hub that is replaced gets nothing more and can do nothing more. */
static void test_older_hub(void **state)
{
	struct fixture *f = *state;
	struct shim_message m;
	AUTO_CLOSE int old = -1;
	int r;

	shim_message_init(&m, SHIM_HELLO, 0, 0);
	m.body.hello.epoch = f->epoch - 1;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/run/launcher.sock", f->dir);
	old = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(old, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(shim_message_send(old, &m, -1), 0);
	fixture_until(f, (r = shim_message_recv(old, &m, NULL)) != -EAGAIN);
	assert_int_equal(r, 0);
	/* The real one was not disturbed. */
	assert_int_equal(fixture_run_shell(f, 1, "exit 9")->exit.code, 9);
	assert_int_equal(f->n_disconnected, 0);
}

static void test_signals(void **state)
{
	struct fixture *f = *state;

	fixture_launch_shell(f, 1,
			     "trap 'echo $(($(cat n || echo 0)+1)) >n' INT; echo $$ >ready;"
			     "while :; do sleep 0.01; done");
	fixture_until(f, fixture_number(f, "ready") > 0);
	fixture_signal(f, 1, 1, SHIM_SIGNAL_INTERRUPT);
	fixture_until(f, fixture_number(f, "n") == 1);
	/* The same key again is acknowledged, and that is all; so over a hub's death. */
	fixture_signal(f, 1, 1, SHIM_SIGNAL_INTERRUPT);
	fixture_drop_client(f);
	fixture_start_client(f);
	assert_int_equal(fixture_adopt(f, 1, 1), SHIM_ADOPT_RUNNING);
	fixture_signal(f, 1, 1, SHIM_SIGNAL_INTERRUPT);
	fixture_signal(f, 1, 2, SHIM_SIGNAL_INTERRUPT);
	fixture_until(f, fixture_number(f, "n") == 2);
	fixture_signal(f, 1, 9, SHIM_SIGNAL_KILL);
	fixture_until(f, fixture_ended(f, 1));
	assert_int_equal(f->outcomes[1].exit.cause, SHIM_CAUSE_SIGNAL);
	assert_int_equal(f->outcomes[1].exit.signal, SIGKILL);
}

static bool applies(const char *name)
{
	return !ordinary() || strcmp(name, "test_work_dir_of_others") != 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_exit_codes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_log_of_a_burst, setup, teardown),
		cmocka_unit_test_setup_teardown(test_attempts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_birth, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exec_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_much, setup, teardown),
		cmocka_unit_test_setup_teardown(test_work_dir_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forbidden_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_users, setup, teardown),
		cmocka_unit_test_setup_teardown(test_timeout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pids_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cpu_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_adoption, setup, teardown),
		cmocka_unit_test_setup_teardown(test_replayed_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_older_hub, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
	};

	if (!fixture_main(argc, argv))
		return 1;
	return fixture_run_tests("shim_run", tests, ARRAY_SIZE(tests), applies);
}
