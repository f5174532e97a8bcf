#include "drivers/shim/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"

/* Rounds of ending what is left: soon at first, then less often. */
#define END_FIRST_MS 1
#define END_LAST_MS 100

struct runner {
	const struct shim_host *host;
	int control_fd;  /* -1: nobody wants to know any more */
	int launcher_fd; /* its pidfd */
	int child_fd, timer_fd, report_fd, pid_fd;
	struct launch_record record;
	struct cgroup cgroup;
	bool has_cgroup;
	pid_t pid;
	int wait_status;
	bool reaped;
	bool ending; /* it is killed, or its main process has ended */
	bool timed_out;
	bool failed; /* it never executed anything */
	struct shim_failure failure;
};

static int fail(struct runner *r, enum shim_step step, int error, const char *path)
{
	memset(&r->failure, 0, sizeof(r->failure));
	r->failed = true;
	r->failure.error = -error;
	r->failure.step = step;
	if (path)
		(void)strncpy(r->failure.path, path, sizeof(r->failure.path) - 1);
	return -1;
}

static void tell(const struct runner *r, const struct shim_message *m, int fd)
{
	/* The socket holds the few messages of a run; a hub that is gone needs none. */
	if (r->control_fd >= 0)
		(void)shim_message_send(r->control_fd, m, fd);
}

static int receive_record(struct runner *r)
{
	AUTO_CLOSE int fd = -1;
	struct shim_message m;
	int got = shim_message_recv(r->control_fd, &m, &fd);

	/* It was sent before we were asked for: not there means that the hub has gone. */
	if (got < 0)
		return fail(r, SHIM_STEP_RECORD, got, NULL);
	if (got == 0 || m.header.type != SHIM_RUN_RECORD || fd < 0)
		return fail(r, SHIM_STEP_RECORD, -EINVAL, NULL);
	got = launch_record_map(fd, &r->record);
	return got < 0 ? fail(r, SHIM_STEP_RECORD, got, NULL) : 0;
}

/* The hub reads the streams itself: *ret is the program's end. */
static int open_stream(const struct runner *r, enum shim_stream stream, int *ret)
{
	struct shim_message m;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	shim_message_init(&m, SHIM_RUN_OUTPUT, 0, 0);
	m.body.run_output.stream = stream;
	tell(r, &m, fds[0]);
	(void)close(fds[0]);
	*ret = fds[1];
	return 0;
}

static int arm_timer(struct runner *r)
{
	int64_t ms = r->record.header->timeout_ms;
	struct itimerspec in = {.it_value = {.tv_sec = ms / 1000,
					     .tv_nsec = ms % 1000 * CLOCK_NS_PER_MS}};

	if (ms == 0)
		return 0;
	r->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r->timer_fd < 0 || timerfd_settime(r->timer_fd, 0, &in, NULL) < 0)
		return -errno;
	return 0;
}

static int start(struct runner *r, uint64_t group)
{
	static const struct cgroup_limits none;
	AUTO_CLOSE int out = -1, err = -1, report = -1;
	char name[CGROUP_NAME_MAX];
	const char *file = NULL;
	int fds[2], e;

	if (cgroup_tree_usable(&r->host->cgroups)) {
		cgroup_name(group, RUNNER_ATTEMPT, name);
		e = cgroup_create(&r->host->cgroups, name, &none, &r->cgroup, &file);
		if (e < 0)
			return fail(r, SHIM_STEP_CGROUP, e, file);
		r->has_cgroup = true;
	}
	e = open_stream(r, SHIM_STREAM_STDOUT, &out);
	if (e == 0)
		e = open_stream(r, SHIM_STREAM_STDERR, &err);
	if (e == 0)
		e = arm_timer(r);
	if (e == 0 && pipe2(fds, O_CLOEXEC) < 0)
		e = -errno;
	if (e < 0)
		return fail(r, SHIM_STEP_PROCESS, e, NULL);
	r->report_fd = fds[0];
	report = fds[1];

	struct workload_plan plan = {
		.record = &r->record,
		.origin = &r->host->origin,
		.cgroup = r->has_cgroup ? &r->cgroup : NULL,
		.started_fd = -1,
		.stdout_fd = out,
		.stderr_fd = err,
		.report_fd = report,
	};
	e = workload_spawn(&plan, &r->pid, &r->pid_fd);
	return e < 0 ? fail(r, SHIM_STEP_PROCESS, e, NULL) : 0;
}

/* A failure, or end of file when the program was executed. */
static void read_report(struct runner *r)
{
	struct shim_failure failure;
	ssize_t n = read(r->report_fd, &failure, sizeof(failure));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	r->report_fd = close_fd(r->report_fd);
	launch_record_unmap(&r->record);
	(void)fault_point("runner.running");
	if (n != (ssize_t)sizeof(failure))
		return;
	failure.path[SHIM_PATH_MAX - 1] = '\0';
	r->failure = failure;
	r->failed = true;
	r->ending = true;
}

static void reap(struct runner *r)
{
	char info[512];
	int status;
	pid_t pid;

	while (read(r->child_fd, info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		if (pid != r->pid || r->reaped)
			continue;
		r->reaped = true;
		r->wait_status = status;
		r->ending = true;
	}
}

/* Whoever asked has gone, or the launcher has: nothing is told, and nothing stays. */
static void abandon(struct runner *r)
{
	r->control_fd = close_fd(r->control_fd);
	r->launcher_fd = close_fd(r->launcher_fd);
	r->ending = true;
}

static void on_timer(struct runner *r)
{
	r->timer_fd = close_fd(r->timer_fd);
	if (r->reaped)
		return;
	r->timed_out = true;
	r->ending = true;
}

static bool control_ended(const struct runner *r)
{
	struct shim_message m;

	/* A hub has nothing more to say; whatever it is, it ends the program. */
	return shim_message_recv(r->control_fd, &m, NULL) != -EAGAIN;
}

static void describe_end(const struct runner *r, struct shim_message *ret)
{
	int status = r->wait_status;

	if (r->failed) {
		shim_message_init(ret, SHIM_FAILED, 0, 0);
		ret->body.failure = r->failure;
		return;
	}
	shim_message_init(ret, SHIM_RUN_EXITED, 0, 0);
	ret->body.run_exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	ret->body.run_exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	/* One that ended by itself just then was in time. */
	ret->body.run_exit.timed_out =
		r->timed_out && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

enum watched { W_CONTROL, W_LAUNCHER, W_CHILD, W_TIMER, W_REPORT, W_N };

static void turn(struct runner *r, int timeout_ms)
{
	const int watched[W_N] = {
		[W_CONTROL] = r->control_fd, [W_LAUNCHER] = r->launcher_fd,
		[W_CHILD] = r->child_fd,     [W_TIMER] = r->timer_fd,
		[W_REPORT] = r->report_fd,
	};
	struct pollfd fds[W_N];

	for (size_t i = 0; i < W_N; i++)
		fds[i] = (struct pollfd){.fd = watched[i], .events = POLLIN};
	if (poll(fds, W_N, timeout_ms) < 0)
		return;
	if (fds[W_REPORT].revents != 0)
		read_report(r);
	if (fds[W_CHILD].revents != 0)
		reap(r);
	if (fds[W_TIMER].revents != 0)
		on_timer(r);
	if (fds[W_LAUNCHER].revents != 0 || (fds[W_CONTROL].revents != 0 && control_ended(r)))
		abandon(r);
}

/* Until nothing of the program is left. */
static void supervise(struct runner *r)
{
	int end_ms = END_FIRST_MS;

	for (;;) {
		if (r->ending && workload_kill_round(r->has_cgroup ? &r->cgroup : NULL,
						     r->reaped ? -1 : r->pid_fd) &&
		    r->reaped)
			return;
		turn(r, r->ending ? end_ms : -1);
		if (r->ending)
			end_ms = end_ms * 2 < END_LAST_MS ? end_ms * 2 : END_LAST_MS;
	}
}

void runner_run(const struct shim_host *host, int control_fd, uint64_t group)
{
	struct runner r = {
		.host = host,
		.control_fd = control_fd,
		.launcher_fd = (int)syscall(SYS_pidfd_open, host->launcher, 0),
		.child_fd = -1,
		.timer_fd = -1,
		.report_fd = -1,
		.pid_fd = -1,
		.cgroup = CGROUP_NONE,
	};
	struct shim_message m;

	/* A launcher that died meanwhile left us to another parent. */
	if (r.launcher_fd < 0 || getppid() != host->launcher ||
	    shim_process_set_up(host, "cloop-run", &r.child_fd) < 0)
		_exit(1);
	if (receive_record(&r) == 0 && start(&r, group) == 0)
		supervise(&r);
	/* What is in the pipes the hub reads to their end. */
	if (r.has_cgroup)
		while (cgroup_remove(&host->cgroups, &r.cgroup) == -EBUSY)
			(void)poll(NULL, 0, END_FIRST_MS);
	describe_end(&r, &m);
	tell(&r, &m, -1);
	_exit(0);
}
