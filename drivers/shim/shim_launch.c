/* From a LAUNCH message to a cloned process, and the way back when that fails. */
#include "drivers/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/process.h"
#include "drivers/shim/session_dir.h"

/* A pipe that holds more lets a workload that writes in bursts run on while the disk is busy. */
#define PIPE_BYTES (1 << 20)

int shim_launch_fail(struct shim_session *s, enum shim_step step, int r, const char *path)
{
	memset(&s->failure, 0, sizeof(s->failure));
	s->failure.error = -r;
	s->failure.step = step;
	if (path)
		(void)strncpy(s->failure.path, path, sizeof(s->failure.path) - 1);
	return -1;
}

void shim_session_init(struct shim_session *s)
{
	memset(s, 0, sizeof(*s));
	s->dir_fd = s->lock_fd = s->started_fd = s->listen_fd = s->signals_fd = -1;
	s->report_fd = s->out_fd = s->err_fd = s->pid_fd = s->timer_fd = -1;
	for (size_t i = 0; i < SHIM_HUBS_MAX; i++)
		s->hub_fd[i] = -1;
	s->cgroup = CGROUP_NONE;
	s->container.oom_fd = -1;
}

void shim_session_release(struct shim *shim)
{
	struct shim_session *s = &shim->s;

	launch_record_unmap(&s->record);
	shim_container_release(&s->container);
	if (s->has_log)
		log_writer_close(&s->log);
	cgroup_close(&s->cgroup);
	s->listen_fd = close_fd(s->listen_fd);
	s->report_fd = close_fd(s->report_fd);
	s->out_fd = close_fd(s->out_fd);
	s->err_fd = close_fd(s->err_fd);
	s->pid_fd = close_fd(s->pid_fd);
	s->timer_fd = close_fd(s->timer_fd);
	s->signals_fd = close_fd(s->signals_fd);
	s->started_fd = close_fd(s->started_fd);
	s->lock_fd = close_fd(s->lock_fd);
	s->dir_fd = close_fd(s->dir_fd);
	for (size_t i = 0; i < SHIM_HUBS_MAX; i++)
		s->hub_fd[i] = close_fd(s->hub_fd[i]);
	shim_session_init(s);
}

/* The absolute deadline on the boot clock; a sum that does not fit is never. */
static void set_deadline(struct shim_session *s)
{
	int64_t ns;

	if (s->record.header->timeout_ms == 0)
		return;
	if (__builtin_mul_overflow(s->record.header->timeout_ms, CLOCK_NS_PER_MS, &ns))
		ns = INT64_MAX;
	if (__builtin_add_overflow(clock_boot_ns(), ns, &s->started.deadline_boot_ns))
		s->started.deadline_boot_ns = INT64_MAX;
	if (__builtin_add_overflow(clock_now_ns(), ns, &s->started.deadline_at_ns))
		s->started.deadline_at_ns = INT64_MAX;
}

static int arm_timer(struct shim_session *s)
{
	struct itimerspec at = {
		.it_value = {.tv_sec = s->started.deadline_boot_ns / CLOCK_NS_PER_S,
			     .tv_nsec = s->started.deadline_boot_ns % CLOCK_NS_PER_S}};

	if (s->started.deadline_boot_ns == 0)
		return 0;
	s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->timer_fd < 0 || timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
		return -errno;
	return 0;
}

/*
 * Nothing is claimed for a launcher that is gone: the hub has been told, or will be, that the
 * launch is not on its way. A launcher that is started later waits for this lock before it says so.
 */
static int enter_gate(struct shim *shim)
{
	while (flock(shim->gate_fd, LOCK_SH) < 0)
		if (errno != EINTR)
			return shim_launch_fail(&shim->s, SHIM_STEP_SHIM, -errno, NULL);
	if (getppid() != shim->host->launcher)
		return shim_launch_fail(&shim->s, SHIM_STEP_SHIM, -ECANCELED, NULL);
	return 0;
}

/* Lock, control socket, `started`: after this nobody else runs the attempt. */
static int claim(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct session_started record = {
		.serial = s->serial,
		.attempt = s->attempt,
		.claimed_at_ns = clock_now_ns(),
		.deadline_boot_ns = s->started.deadline_boot_ns,
		.deadline_at_ns = s->started.deadline_at_ns,
		.shim_pid = getpid(),
	};

	int r = session_dir_enter(shim->host->sessions_fd, s->serial, &s->dir_fd, &s->lock_fd);
	if (r == -EAGAIN)
		return shim_launch_fail(s, SHIM_STEP_ALREADY, -EEXIST, NULL);
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_SESSION_DIR, r, NULL);
	r = shim_control_listen(shim);
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_SESSION_DIR, r, SHIM_SOCKETS_DIR);
	(void)process_starttime(record.shim_pid, &record.shim_starttime);
	r = session_started_create(shim->host->sessions_fd, s->dir_fd, &record);
	if (r == -EEXIST)
		return shim_launch_fail(s, SHIM_STEP_ALREADY, r, NULL);
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_SESSION_DIR, r, "started");
	s->started_fd = r;
	s->claimed = true;
	(void)fault_point("shim.after_started");
	return 0;
}

/* A pipe whose reading end does not block and that holds much, where that is allowed. */
static int open_pipe(int *ret_read, int *ret_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) {
		int r = -errno;

		(void)close(fds[0]);
		(void)close(fds[1]);
		return r;
	}
	(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES);
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

static int spawn(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	AUTO_CLOSE int out = -1, err = -1, report = -1;
	CLEANUP(shim_container_free_client) struct workload_client client = {0};
	int fds[2];

	if (s->container.on && shim_container_prepare(shim, &client) < 0)
		return -1;
	int r = open_pipe(&s->out_fd, &out);

	if (r == 0)
		r = open_pipe(&s->err_fd, &err);
	if (r == 0 && pipe2(fds, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_PROCESS, r, NULL);
	s->report_fd = fds[0];
	report = fds[1];

	struct workload_plan plan = {
		.record = &s->record,
		.origin = &shim->host->origin,
		.client = s->container.on ? &client : NULL,
		/* The client is not what the limits are for. */
		.cgroup = s->has_cgroup && !s->container.on ? &s->cgroup : NULL,
		.started_fd = s->started_fd,
		.stdout_fd = out,
		.stderr_fd = err,
		.report_fd = report,
	};
	r = workload_spawn(&plan, &s->pid, &s->pid_fd);
	return r < 0 ? shim_launch_fail(s, SHIM_STEP_PROCESS, r, NULL) : 0;
}

/* What was done for the workload before there was a log. */
static void write_preamble(struct shim_session *s)
{
	char line[LOG_MARKER_MAX_BYTES + 1];

	for (const char *p = s->record.preamble; *p != '\0';) {
		size_t len = strcspn(p, "\n");

		(void)snprintf(line, sizeof(line), "setup: %.*s", (int)len, p);
		(void)log_writer_marker(&s->log, line);
		p += len;
		p += *p == '\n';
	}
}

static int prepare(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	const struct launch_header *h = s->record.header;
	struct cgroup_limits limits = {h->cpu_millis, h->memory_mb, h->pids};
	const char *file = NULL;
	char name[CGROUP_NAME_MAX];

	uint64_t quota = h->log_quota_bytes != 0 ? h->log_quota_bytes : LOG_QUOTA_MAX_BYTES;
	int r = fault_point("shim.log_open");
	if (r == 0)
		r = log_writer_open_attempt(&s->log, s->dir_fd, quota, s->attempt);
	/* A launch of this attempt failed after it had opened the log. */
	if (r == -EINVAL && s->attempt > 1)
		r = log_writer_open(&s->log, s->dir_fd, quota, true);
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_LOG, r, "log");
	s->has_log = true;
	write_preamble(s);

	bool limited = limits.cpu_millis > 0 || limits.memory_mb > 0 || limits.pids > 0;
	if (limited || cgroup_tree_usable(&shim->host->cgroups)) {
		cgroup_name(s->serial, s->attempt, name);
		r = cgroup_create(&shim->host->cgroups, name, &limits, &s->cgroup, &file);
		if (r < 0)
			return shim_launch_fail(s, SHIM_STEP_CGROUP, r, file);
		s->has_cgroup = true;
	}
	r = arm_timer(s);
	return r < 0 ? shim_launch_fail(s, SHIM_STEP_PROCESS, r, NULL) : 0;
}

int shim_launch(struct shim *shim, int record_fd, uint64_t serial, uint32_t attempt)
{
	struct shim_session *s = &shim->s;

	s->serial = serial;
	s->attempt = attempt;
	int r = record_fd < 0 ? -EINVAL : launch_record_map(record_fd, &s->record);
	if (r == 0 && (s->record.header->serial != serial || s->record.header->attempt != attempt))
		r = -EINVAL;
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_RECORD, r, NULL);
	s->container.on = s->record.header->mode == LAUNCH_CONTAINER;
	set_deadline(s);
	r = enter_gate(shim);
	if (r == 0)
		r = claim(shim);
	(void)flock(shim->gate_fd, LOCK_UN);
	if (r < 0)
		return -1;

	struct shim_message m;
	shim_message_init(&m, SHIM_CLAIMED, serial, attempt);
	if (shim->launcher_fd >= 0)
		(void)shim_message_send(shim->launcher_fd, &m, -1);
	(void)fault_point("shim.claimed");
	if (prepare(shim) < 0 || spawn(shim) < 0)
		return -1;
	(void)fault_point("shim.cloned");
	return 0;
}
