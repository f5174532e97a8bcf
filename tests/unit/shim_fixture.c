#include "tests/unit/shim_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "drivers/shim/process.h"
#include "tests/unit/test.h"
#include "tests/unit/tree_remove.h"

static const char *const default_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin"};

/* --- what the client says --- */

static void on_ready(void *user, unsigned abilities)
{
	struct fixture *f = user;

	f->n_ready++;
	f->abilities = abilities;
}

static void on_started(void *user, uint64_t serial, uint32_t attempt,
		       const struct shim_started *started)
{
	struct fixture *f = user;

	assert_true(serial < FIXTURE_SERIALS);
	assert_true(attempt > 1 || !fixture_ended(f, serial));
	f->outcomes[serial].n_started++;
	f->outcomes[serial].started = *started;
}

static void on_failed(void *user, uint64_t serial, uint32_t attempt, const struct error *err)
{
	struct fixture *f = user;

	(void)attempt;
	f->outcomes[serial].n_failed++;
	f->outcomes[serial].err = *err;
}

static void on_exited(void *user, uint64_t serial, uint32_t attempt, const struct shim_exit *exit)
{
	struct fixture *f = user;

	(void)attempt;
	f->outcomes[serial].n_exited++;
	f->outcomes[serial].exit = *exit;
}

static void on_lost(void *user, uint64_t serial, uint32_t attempt, const struct error *err)
{
	struct fixture *f = user;

	(void)attempt;
	f->outcomes[serial].n_lost++;
	f->outcomes[serial].err = *err;
}

static void on_refused(void *user)
{
	((struct fixture *)user)->n_refused++;
}

static void on_disconnected(void *user)
{
	((struct fixture *)user)->n_disconnected++;
}

static const struct shim_client_ops ops = {on_ready, on_started,      on_failed, on_exited,
					   on_lost,  on_disconnected, on_refused};

bool fixture_ended(const struct fixture *f, uint64_t serial)
{
	const struct outcome *o = &f->outcomes[serial];

	return o->n_failed + o->n_exited + o->n_lost > 0;
}

/* --- processes --- */

void fixture_start_launcher(struct fixture *f, const char *fault)
{
	const char *program = getenv("CLOOP_LAUNCHER");
	char sessions[96], runtime[96], fd[16], fault_text[256];
	const char *args[] = {program,
			      "--sessions-dir",
			      sessions,
			      "--runtime-dir",
			      runtime,
			      "--listen-fd",
			      fd,
			      "--cgroup-parent",
			      f->cgroup_parent,
			      f->cgroup_root[0] ? "--cgroup-root" : NULL,
			      f->cgroup_root,
			      NULL};

	if (!program)
		fail_msg("CLOOP_LAUNCHER does not say where the launcher is");
	(void)snprintf(sessions, sizeof(sessions), "%s/sessions", f->dir);
	(void)snprintf(runtime, sizeof(runtime), "%s/run", f->dir);
	(void)snprintf(fd, sizeof(fd), "%d", f->listen_fd);
	f->launcher = fork();
	assert_true(f->launcher >= 0);
	if (f->launcher > 0)
		return;
	if (fault) {
		const char *at = strstr(fault, "%s");
		int before = at ? (int)(at - fault) : (int)strlen(fault);

		(void)snprintf(fault_text, sizeof(fault_text), "%.*s%s%s", before, fault,
			       at ? f->dir : "", at ? at + 2 : "");
		(void)setenv("CLOOP_FAULT", fault_text, 1);
	}
	(void)fcntl(f->listen_fd, F_SETFD, 0);
	(void)execv(program, (char **)(uintptr_t)args);
	_exit(126);
}

void fixture_kill_launcher(struct fixture *f)
{
	assert_int_equal(kill(f->launcher, SIGKILL), 0);
	assert_int_equal(waitpid(f->launcher, NULL, 0), f->launcher);
	f->launcher = 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void on_tick(uv_timer_t *timer)
{
	(void)timer;
}

void fixture_begin_client(struct fixture *f)
{
	struct shim_client_config config = {
		.sessions_fd = f->sessions_fd, .runtime_fd = f->runtime_fd, .epoch = ++f->epoch};

	assert_int_equal(shim_client_new(&f->loop, &config, &ops, f, &f->client, NULL), 0);
}

void fixture_start_client(struct fixture *f)
{
	int ready = f->n_ready;

	fixture_begin_client(f);
	fixture_until(f, f->n_ready > ready);
}

void fixture_start_client_beside(struct fixture *f, dev_t mount)
{
	struct shim_client_config config = {.sessions_fd = f->sessions_fd,
					    .runtime_fd = f->runtime_fd,
					    .epoch = ++f->epoch,
					    .forbidden_dev = mount};
	int ready = f->n_ready;

	assert_int_equal(shim_client_new(&f->loop, &config, &ops, f, &f->client, NULL), 0);
	fixture_until(f, f->n_ready > ready);
}

enum shim_adoption fixture_adopt(struct fixture *f, uint64_t serial, uint32_t attempt)
{
	enum shim_adoption adoption;
	struct error err;

	if (shim_client_adopt(f->client, serial, attempt, &adoption, NULL, &err) < 0)
		fail_msg("adopt: %s", err.reason);
	return adoption;
}

bool fixture_main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--ordinary") != 0 || geteuid() != 0)
		return true;
	/* Dumpable again: /proc/self/fd belongs to root otherwise. */
	return setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 &&
	       setresuid(65534, 65534, 65534) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

int fixture_run_tests(const char *name, const struct CMUnitTest *tests, size_t n,
		      bool (*applies)(const char *name))
{
	AUTO_FREE struct CMUnitTest *some = calloc(n, sizeof(*some));
	size_t n_some = 0;

	if (!some)
		return 1;
	for (size_t i = 0; i < n; i++)
		if (applies(tests[i].name))
			some[n_some++] = tests[i];
	return _cmocka_run_group_tests(name, some, n_some, NULL, NULL);
}

void fixture_drop_client(struct fixture *f)
{
	f->client = shim_client_free(f->client);
	for (int i = 0; i < 4; i++)
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
	memset(f->outcomes, 0, sizeof(f->outcomes));
}

void fixture_write(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
	AUTO_CLOSE int fd = openat(f->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* A directory that stands for the place where control groups are mounted. */
static void make_groups(struct fixture *f, enum fixture_groups groups)
{
	static const char *const controllers[] = {"memory", "pids", "cpu", "freezer"};

	if (groups == FIXTURE_GROUPS_MACHINE)
		return;
	(void)snprintf(f->cgroup_root, sizeof(f->cgroup_root), "%s/groups", f->dir);
	assert_int_equal(mkdir(f->cgroup_root, 0755), 0);
	for (size_t i = 0; groups == FIXTURE_GROUPS_V1 && i < ARRAY_SIZE(controllers); i++) {
		char from[128], to[128];

		(void)snprintf(to, sizeof(to), "/sys/fs/cgroup/%s", controllers[i]);
		(void)snprintf(from, sizeof(from), "%s/%s", f->cgroup_root, controllers[i]);
		assert_int_equal(symlink(to, from), 0);
	}
}

struct fixture *fixture_open_with(const char *fault, enum fixture_groups groups)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[96];

	assert_non_null(f);
	/* Orphans come to us, so that we see whether any are left. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	const char *tmp = getenv("TMPDIR");
	(void)snprintf(f->dir, sizeof(f->dir), "%s/cloop-shim-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(chmod(f->dir, 0755), 0);
	/* What one test leaves does not make the next one fail. */
	(void)snprintf(f->cgroup_parent, sizeof(f->cgroup_parent), "cloop-test-%d-%s", getpid(),
		       f->dir + strlen(f->dir) - 6);
	make_groups(f, groups);
	f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(f->dir_fd, "sessions", 0700), 0);
	assert_int_equal(mkdirat(f->dir_fd, "run", 0700), 0);
	f->sessions_fd = openat(f->dir_fd, "sessions", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->runtime_fd = openat(f->dir_fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/run/" SHIM_LAUNCHER_SOCKET, f->dir);
	f->listen_fd = listen_at(path);
	assert_int_equal(uv_loop_init(&f->loop), 0);
	assert_int_equal(uv_timer_init(&f->loop, &f->tick), 0);
	assert_int_equal(uv_timer_start(&f->tick, on_tick, 5, 5), 0);
	fixture_start_launcher(f, fault);
	fixture_start_client(f);
	return f;
}

struct fixture *fixture_open(void)
{
	return fixture_open_with(NULL, FIXTURE_GROUPS_MACHINE);
}

bool fixture_turn(struct fixture *f, uint64_t *deadline)
{
	(void)uv_run(&f->loop, UV_RUN_ONCE);
	if (*deadline == 0)
		*deadline = uv_now(&f->loop) + FIXTURE_WAIT_MS;
	return uv_now(&f->loop) < *deadline;
}

char fixture_state(pid_t pid)
{
	char path[64], text[512];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	const char *p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return 0;
	return p[2];
}

bool fixture_alive(pid_t pid)
{
	char state = fixture_state(pid);

	return state != 0 && state != 'Z' && state != 'X';
}

int fixture_number(const struct fixture *f, const char *name)
{
	char text[32];
	AUTO_CLOSE int fd = openat(f->dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* Whole only with its newline. */
	return strchr(text, '\n') ? atoi(text) : 0;
}

static const char *const mounts[] = {"/sys/fs/cgroup",        "/sys/fs/cgroup/unified",
				     "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
				     "/sys/fs/cgroup/cpu",    "/sys/fs/cgroup/freezer"};

pid_t fixture_shim(const struct fixture *f, uint64_t serial)
{
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, serial);
	struct session_started started;

	assert_true(dir >= 0);
	assert_int_equal(session_started_read(dir, serial, 1, &started), 0);
	return started.shim_pid;
}

/* nftw() has no argument for its callback. */
static char group_name[24];

static int find_group(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	return strncmp(path + ftw->base, group_name, strlen(group_name)) == 0;
}

bool fixture_left(const struct fixture *f, uint64_t serial)
{
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, serial);

	if (dir >= 0)
		return true;
	(void)snprintf(group_name, sizeof(group_name), "%016llx.", (unsigned long long)serial);
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		char path[160];

		(void)snprintf(path, sizeof(path), "%s/%s", mounts[i], f->cgroup_parent);
		if (nftw(path, find_group, 16, FTW_PHYS) > 0)
			return true;
	}
	return false;
}

/* Counts the launcher's children; returns one that has stopped, 0 when there is none. */
static pid_t look_at_shims(const struct fixture *f, int *ret_n)
{
	char path[64];
	pid_t stopped = 0;
	int pid;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", f->launcher, f->launcher);
	AUTO_FCLOSE FILE *children = fopen(path, "re");
	for (*ret_n = 0; children && fscanf(children, "%d", &pid) == 1; (*ret_n)++)
		if (fixture_state(pid) == 'T')
			stopped = pid;
	return stopped;
}

int fixture_shims(const struct fixture *f)
{
	int n;

	(void)look_at_shims(f, &n);
	return n;
}

pid_t fixture_stopped_shim(const struct fixture *f)
{
	int n;

	return look_at_shims(f, &n);
}

static void check_groups_gone(const struct fixture *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		char path[160];

		(void)snprintf(path, sizeof(path), "%s/%s", mounts[i], f->cgroup_parent);
		if (access(path, F_OK) == 0)
			fail_msg("%s is left", path);
	}
}

static void check_runtime_empty(const struct fixture *f)
{
	int fd = openat(f->runtime_fd, SHIM_SOCKETS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *d = fdopendir(fd);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			fail_msg("socket %s is left", e->d_name);
}

static void on_closed_all(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* Shims end when they see that the launcher has; whatever else is there should not be. */
static void check_processes_gone(void)
{
	for (int ms = 0; ms < FIXTURE_WAIT_MS; ms += 5) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return;
		if (pid == 0)
			(void)usleep(5000);
	}
	int left = process_tree_kill(getpid(), NULL);
	fail_msg("%d processes were left", left);
}

void fixture_close(struct fixture *f)
{
	/* Sessions that a test left running are its own fault; they would never end here. */
	if (f->client)
		f->client = shim_client_free(f->client);
	uv_walk(&f->loop, on_closed_all, NULL);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	if (f->launcher > 0) {
		int status;

		assert_int_equal(kill(f->launcher, SIGTERM), 0);
		assert_int_equal(waitpid(f->launcher, &status, 0), f->launcher);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	check_processes_gone();
	check_runtime_empty(f);
	check_groups_gone(f);
	(void)close_fd(f->listen_fd);
	(void)close_fd(f->sessions_fd);
	(void)close_fd(f->runtime_fd);
	(void)close_fd(f->dir_fd);
	assert_int_equal(tree_remove(f->dir), 0);
	free(f);
}

/* --- launching --- */

struct launch_request fixture_request(uint64_t serial, const char *const *argv)
{
	struct launch_request q = {
		.serial = serial,
		.attempt = 1,
		.uid = geteuid(),
		.gid = getegid(),
		.argv = argv,
		.env = default_env,
		.n_env = ARRAY_SIZE(default_env),
		.work_dir = "/",
	};

	while (argv[q.n_argv])
		q.n_argv++;
	return q;
}

void fixture_launch(struct fixture *f, const struct launch_request *request)
{
	struct error err;

	if (shim_client_launch(f->client, request, &err) < 0)
		fail_msg("launch: %s", err.reason);
}

void fixture_launch_shell(struct fixture *f, uint64_t serial, const char *script)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	struct launch_request q = fixture_request(serial, argv);

	q.work_dir = f->dir;
	fixture_launch(f, &q);
}

const struct outcome *fixture_run(struct fixture *f, const struct launch_request *request)
{
	fixture_launch(f, request);
	fixture_until(f, fixture_ended(f, request->serial));
	return &f->outcomes[request->serial];
}

const struct outcome *fixture_run_shell(struct fixture *f, uint64_t serial, const char *script)
{
	fixture_launch_shell(f, serial, script);
	fixture_until(f, fixture_ended(f, serial));
	return &f->outcomes[serial];
}

static void on_signalled(void *arg, int error)
{
	assert_int_equal(error, 0);
	*(bool *)arg = true;
}

void fixture_signal(struct fixture *f, uint64_t serial, uint8_t key, enum shim_signal signal)
{
	uint8_t bytes[SHIM_KEY_BYTES] = {key};
	bool done = false;
	struct error err;

	fixture_until(f, f->outcomes[serial].n_started == 1);
	if (shim_client_signal(f->client, serial, 1, bytes, signal, on_signalled, &done, &err) < 0)
		fail_msg("signal: %s", err.reason);
	fixture_until(f, done);
}

const char *fixture_log(const struct fixture *f, uint64_t serial)
{
	static char text[65536];
	AUTO_CLOSE int dir = session_dir_open(f->sessions_fd, serial);
	AUTO_CLOSE int fd = dir < 0 ? -1 : openat(dir, "log", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}
