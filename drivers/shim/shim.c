#include "drivers/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/process.h"
#include "drivers/shim/session_dir.h"

/* What one turn moves from a pipe, so that signals and the deadline are seen while output pours. */
#define PUMP_BYTES ((size_t)256 << 10)
/* Rounds of ending what is left: soon at first, then less often. */
#define END_FIRST_MS 1
#define END_LAST_MS 100
#define WRITE_RETRY_MS 1000
/* The kernel ends others first. */
#define SHIM_OOM_SCORE (-900)

/* Signals that end a process by themselves: a service manager or a terminal sends them to
 * everybody, and shims go on. */
static const int ignored_signals[] = {SIGPIPE, SIGXFSZ, SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				      SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};

static void lower_oom_score(const char *current)
{
	if (atoi(current) <= SHIM_OOM_SCORE)
		return;
	AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "-900", 4);
}

int shim_process_set_up(const struct shim_host *host, const char *name, int *ret_child_fd)
{
	AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t child;

	if (null < 0)
		return -errno;
	(void)setsid();
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(ignored_signals); i++)
		(void)signal(ignored_signals[i], SIG_IGN);
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &child, NULL) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (*ret_child_fd < 0)
		return -errno;
	(void)prctl(PR_SET_NAME, name, 0, 0, 0);
	lower_oom_score(host->origin.oom_score_adj);
	return 0;
}

static int set_up(struct shim *shim)
{
	int r = shim_process_set_up(shim->host, "cloop-shim", &shim->child_fd);

	if (r < 0)
		return r;
	/* Opened anew: a lock belongs to the open file, which a fork shares. */
	shim->gate_fd = openat(shim->host->sockets_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return shim->gate_fd < 0 ? -errno : 0;
}

static void tell_launcher(struct shim *shim, const struct shim_message *m)
{
	if (shim->launcher_fd >= 0 && shim_message_send(shim->launcher_fd, m, -1) < 0)
		shim->launcher_fd = close_fd(shim->launcher_fd);
}

/* The launch came to nothing: take everything away, then say so. */
static void finish_failed(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_message m;

	if (s->has_cgroup)
		(void)cgroup_remove(&shim->host->cgroups, &s->cgroup);
	if (s->container.on && s->has_cgroup)
		cgroup_remove_everywhere(&shim->host->cgroups, s->cgroup.name);
	if (s->listen_fd >= 0)
		shim_control_unlink(shim->host, s->serial);
	if (s->lock_fd >= 0 && s->failure.step != SHIM_STEP_ALREADY)
		session_launch_undo(shim->host->sessions_fd, s->dir_fd, s->serial, s->attempt,
				    s->claimed);
	s->lock_fd = close_fd(s->lock_fd);

	shim_message_init(&m, SHIM_FAILED, s->serial, s->attempt);
	m.body.failure = s->failure;
	shim_control_tell(shim, &m);
	shim_session_release(shim);
	tell_launcher(shim, &m);
}

/* Name, lock and connections go; the session's files say what there is to say. */
static void finish_session(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_message m;

	shim_control_unlink(shim->host, s->serial);
	/* Free before the hub hears of the end, so that it may remove the folder at once. */
	s->lock_fd = close_fd(s->lock_fd);
	shim_message_init(&m, SHIM_EXITED, s->serial, s->attempt);
	m.body.exit = s->exit;
	(void)fault_point("shim.before_exited");
	shim_control_tell(shim, &m);
	shim_session_release(shim);
	shim_message_init(&m, SHIM_IDLE, 0, 0);
	tell_launcher(shim, &m);
}

static void describe_end(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_exit *e = &s->exit;
	int status = s->wait_status;
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	/* Once: a group of which a part is gone already counts nothing any more. */
	if (e->cause != 0)
		return;
	if (s->has_cgroup)
		e->oom_kills = cgroup_oom_kills(&shim->host->cgroups, &s->cgroup);
	e->pid = s->pid;
	e->started_at_ns = s->started.started_at_ns;
	e->log_bytes = s->log.log_bytes;
	e->log_dropped_bytes = s->log.dropped_bytes;
	if (s->container.on) {
		shim_container_describe_end(shim);
		return;
	}
	e->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	e->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	e->cause = WIFEXITED(status) ? SHIM_CAUSE_EXIT : SHIM_CAUSE_SIGNAL;
	if (killed && s->timed_out)
		e->cause = SHIM_CAUSE_TIMEOUT;
	else if (e->oom_kills > 0 && (killed || e->code == 128 + SIGKILL))
		/* A shell whose child was killed passes that on as its own code. */
		e->cause = SHIM_CAUSE_OOM;
	if (e->cause == SHIM_CAUSE_OOM) {
		e->code = -1;
		e->signal = SIGKILL;
	}
}

/* Nobody of ours writes any more: what is in the pipe now, and no more than it can hold. */
static void drain(struct shim_session *s, enum log_stream stream, int fd)
{
	int left = fd < 0 ? 0 : fcntl(fd, F_GETPIPE_SZ);

	while (left > 0) {
		ssize_t n = log_writer_pump(&s->log, stream, fd, (size_t)left);

		if (n <= 0)
			return;
		left -= (int)n;
	}
}

void shim_drain(struct shim_session *s)
{
	drain(s, LOG_STDOUT, s->out_fd);
	drain(s, LOG_STDERR, s->err_fd);
}

static void record_end(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_message m;

	if (session_exit_write(s->dir_fd, s->serial, s->attempt, &s->exit) == 0 ||
	    s->write_tries >= SHIM_EXIT_WRITE_TRIES) {
		finish_session(shim);
		return;
	}
	if (s->write_tries++ == 0) {
		shim_message_init(&m, SHIM_EXITED, s->serial, s->attempt);
		m.body.exit = s->exit;
		shim_control_tell(shim, &m);
	}
	s->phase = SHIM_PHASE_RECORDING;
}

/* The main process has ended: one round of ending the rest, and the end when there is none. */
static void advance_end(struct shim *shim)
{
	struct shim_session *s = &shim->s;

	(void)fault_point("shim.ending");
	if (s->container.on ? !shim_container_gone(shim) : !shim_kill_all(shim) || !s->reaped)
		return;
	if (s->failed) {
		finish_failed(shim);
		return;
	}
	if (!s->container.dead)
		shim_drain(s);
	describe_end(shim);
	if (s->has_cgroup && cgroup_remove(&shim->host->cgroups, &s->cgroup) == -EBUSY)
		return;
	if (s->container.on && s->has_cgroup)
		cgroup_remove_everywhere(&shim->host->cgroups, s->cgroup.name);
	(void)fault_point("shim.before_sync");
	/* Not written, not readable: nothing better can be done about it than to go on. */
	(void)log_writer_sync(&s->log);
	(void)fault_point("shim.before_exit");
	record_end(shim);
}

static void reap(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(shim->child_fd, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		if (s->container.on) {
			shim_container_reaped(shim, pid, status);
			continue;
		}
		if (pid != s->pid || s->reaped)
			continue;
		s->reaped = true;
		s->exit.finished_at_ns = clock_now_ns();
		s->wait_status = status;
	}
}

void shim_begin_running(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_message m;

	s->phase = SHIM_PHASE_RUNNING;
	s->started.started_at_ns = clock_now_ns();
	s->started.pid = s->container.on ? s->container.init : s->pid;
	(void)process_starttime(s->started.pid, &s->started.pid_starttime);
	launch_record_unmap(&s->record);
	shim_message_started(s, &m);
	tell_launcher(shim, &m);
	shim_control_tell(shim, &m);
	(void)fault_point("shim.running");
}

/* The report pipe: a failure, or end of file when the workload was executed. */
static void read_report(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	ssize_t n = read(s->report_fd, &s->failure, sizeof(s->failure));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	s->report_fd = close_fd(s->report_fd);
	if (n != (ssize_t)sizeof(s->failure) && s->container.on) {
		shim_container_executed(shim);
		return;
	}
	if (n != (ssize_t)sizeof(s->failure)) {
		shim_begin_running(shim);
		return;
	}
	s->failure.path[SHIM_PATH_MAX - 1] = '\0';
	s->failed = true;
	s->phase = SHIM_PHASE_ENDING;
}

static int pump(struct shim_session *s, enum log_stream stream, int fd)
{
	char unwanted[PIPE_BUF];

	/* Of a runtime that has trouble with a container that is dead. */
	if (s->container.dead)
		return read(fd, unwanted, sizeof(unwanted)) == 0 ? close_fd(fd) : fd;
	ssize_t n = log_writer_pump(&s->log, stream, fd, PUMP_BYTES);

	return n == 0 || (n < 0 && n != -EAGAIN) ? close_fd(fd) : fd;
}

static void on_deadline(struct shim *shim)
{
	struct shim_session *s = &shim->s;

	s->timer_fd = close_fd(s->timer_fd);
	if (s->reaped)
		return;
	s->timed_out = true;
	if (s->container.on)
		shim_container_kill(shim);
	else
		(void)shim_kill_all(shim);
}

static void on_launcher(struct shim *shim)
{
	AUTO_CLOSE int record_fd = -1;
	struct shim_message m;
	int r = shim_message_recv(shim->launcher_fd, &m, &record_fd);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || m.header.type != SHIM_LAUNCH || shim->s.phase != SHIM_PHASE_IDLE) {
		shim->launcher_fd = close_fd(shim->launcher_fd);
		return;
	}
	if (shim_launch(shim, record_fd, m.header.serial, m.header.attempt) < 0)
		finish_failed(shim);
	else
		shim->s.phase = SHIM_PHASE_LAUNCHING;
}

/* What poll() watches; descriptors that are not open are -1, which it passes over. */
enum watched { W_LAUNCHER, W_CHILD, W_TIMER, W_LISTEN, W_REPORT, W_OUT, W_ERR, W_INIT, W_HUB };
#define WATCHED_N (W_HUB + SHIM_HUBS_MAX)

static void watch(const struct shim *shim, struct pollfd fds[static WATCHED_N])
{
	const struct shim_session *s = &shim->s;
	/* Until the runtime's client is done, what it says is its own. */
	bool held = s->container.on && !s->container.client_done;

	fds[W_LAUNCHER].fd = shim->launcher_fd;
	fds[W_CHILD].fd = shim->child_fd;
	fds[W_TIMER].fd = s->timer_fd;
	fds[W_LISTEN].fd = s->listen_fd;
	fds[W_REPORT].fd = s->report_fd;
	fds[W_OUT].fd = held ? -1 : s->out_fd;
	fds[W_ERR].fd = held ? -1 : s->err_fd;
	fds[W_INIT].fd = s->container.init > 0 && !s->container.dead ? s->pid_fd : -1;
	for (size_t i = 0; i < SHIM_HUBS_MAX; i++)
		fds[W_HUB + i].fd = s->hub_fd[i];
	for (size_t i = 0; i < WATCHED_N; i++) {
		fds[i].events = POLLIN;
		fds[i].revents = 0;
	}
}

static void turn(struct shim *shim, const struct pollfd fds[static WATCHED_N])
{
	struct shim_session *s = &shim->s;

	/* Hubs before anything that ends the session or reorders them. */
	for (size_t i = 0; i < SHIM_HUBS_MAX; i++)
		if (fds[W_HUB + i].revents != 0)
			shim_control_read(shim, i);
	if (fds[W_LISTEN].revents != 0)
		shim_control_accept(shim);
	if (fds[W_REPORT].revents != 0)
		read_report(shim);
	if (fds[W_OUT].revents != 0)
		s->out_fd = pump(s, LOG_STDOUT, s->out_fd);
	if (fds[W_ERR].revents != 0)
		s->err_fd = pump(s, LOG_STDERR, s->err_fd);
	if (fds[W_INIT].revents != 0)
		shim_container_died(s);
	if (fds[W_CHILD].revents != 0)
		reap(shim);
	if (fds[W_TIMER].revents != 0)
		on_deadline(shim);

	if (s->container.on)
		shim_container_turn(shim);
	if (s->phase == SHIM_PHASE_RUNNING && s->reaped)
		s->phase = SHIM_PHASE_ENDING;
	if (s->phase == SHIM_PHASE_ENDING)
		advance_end(shim);
	else if (s->phase == SHIM_PHASE_RECORDING)
		record_end(shim);
	if (fds[W_LAUNCHER].revents != 0)
		on_launcher(shim);
}

void shim_run(const struct shim_host *host, int launcher_fd)
{
	/* Too large for a stack that is to stay small; nothing else in the process uses it. */
	static struct shim shim;
	int end_ms = END_FIRST_MS;

	shim.host = host;
	shim.launcher_fd = launcher_fd;
	shim_session_init(&shim.s);
	if (set_up(&shim) < 0)
		_exit(1);
	while (shim.launcher_fd >= 0 || shim.s.phase != SHIM_PHASE_IDLE) {
		struct pollfd fds[WATCHED_N];
		int timeout = -1;

		if (shim.s.phase == SHIM_PHASE_ENDING) {
			timeout = end_ms;
			end_ms = end_ms * 2 < END_LAST_MS ? end_ms * 2 : END_LAST_MS;
		} else {
			end_ms = END_FIRST_MS;
			if (shim.s.phase == SHIM_PHASE_RECORDING)
				timeout = WRITE_RETRY_MS;
			else if (shim.s.container.on)
				timeout = shim_container_timeout_ms(&shim);
		}
		watch(&shim, fds);
		if (poll(fds, WATCHED_N, timeout) < 0 && errno != EINTR)
			_exit(1);
		turn(&shim, fds);
	}
	_exit(0);
}
