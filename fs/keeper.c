#include "fs/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/fallback.h"
#include "fs/keeper_internal.h"
#include "fs/keeper_log.h"

/* How often the size of the log is looked at. */
#define ROTATE_MS 60000

bool keeper_is_due(struct keeper *k, int64_t deadline, int64_t now)
{
	if (now >= deadline)
		return true;
	if (deadline < k->wake_at)
		k->wake_at = deadline;
	return false;
}

void keeper_say_error(const struct keeper *k, const struct error *err)
{
	char text[ERROR_FIELD_MAX + ERROR_REASON_MAX + ERROR_REMEDY_MAX + 8];

	(void)error_sentence(err, text, sizeof(text));
	keeper_say(k, "%s", text);
}

void keeper_say_refusal(const struct keeper *k, const char *text)
{
	keeper_say(k, "%s", text);
	if (k->caller_fd >= 0 && k->log_fd >= 0)
		keeper_log_line(STDERR_FILENO, false, "%s", text);
}

void keeper_report(const struct keeper *k)
{
	if (k->phase != PHASE_RUNNING)
		notify_send(&k->notify, "STOPPING=1\nSTATUS=stopping");
	else if (k->hub_ready)
		notify_send(&k->notify, "READY=1\nMAINPID=%d\nSTATUS=serving %.200s, hub %d",
			    getpid(), k->mountpoint, k->hub.pid);
	else if (k->outage)
		notify_send(&k->notify, "STATUS=no hub: requests to %.200s are answered EIO",
			    k->mountpoint);
	else
		notify_send(&k->notify, "STATUS=waiting for the hub");
}

/* --- before the loop ------------------------------------------------------------------------ */

/*
 * Descriptors 0 to 2 must be taken, or a file opened next becomes stderr; whatever else was
 * inherited belongs to somebody else, who may wait for its end.
 */
static int clean_descriptors(struct error *err)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return error_set(err, errno, "cannot open /dev/null: %s", strerror(errno));
		if (fd <= STDERR_FILENO)
			(void)fcntl(fd, F_SETFD, 0);
	} while (fd <= STDERR_FILENO);
	(void)dup2(fd, STDIN_FILENO);
	(void)close(fd);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);
	return 0;
}

/*
 * Signals arrive by descriptor. SIGPIPE stays blocked for good: a reader of stderr may go. SIGINT
 * that was ignored at start (`cloopd serve &` in a script) stays so.
 */
static int watch_signals(int *ret_fd, struct error *err)
{
	struct sigaction interrupt;
	sigset_t watched, blocked;

	(void)signal(SIGCHLD, SIG_DFL);
	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGHUP);
	sigaddset(&watched, SIGUSR2);
	if (sigaction(SIGINT, NULL, &interrupt) < 0 || interrupt.sa_handler != SIG_IGN)
		sigaddset(&watched, SIGINT);
	blocked = watched;
	sigaddset(&blocked, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0)
		return error_set(err, errno, "cannot block signals: %s", strerror(errno));
	int fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return error_set(err, errno, "cannot watch signals: %s", strerror(errno));
	*ret_fd = fd;
	return 0;
}

/* What the process does that was called: waits for the byte that means READY, or for the end. */
static int wait_for_ready(pid_t daemon, int fd)
{
	char byte;
	ssize_t n;
	int status = 0;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return 0;
	while (waitpid(daemon, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1;
}

/*
 * Forks at the very start, so that the locks are taken by the process that keeps them. Returns 1 in
 * the caller's process, with the exit status; 0 in the daemon.
 */
static int daemonise(int *ret_caller_fd, int *ret_status, struct error *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, errno, "cannot make a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0) {
		int saved = errno;

		(void)close(fds[0]);
		(void)close(fds[1]);
		return error_set(err, saved, "cannot start the daemon: %s", strerror(saved));
	}
	if (pid > 0) {
		(void)close(fds[1]);
		*ret_status = wait_for_ready(pid, fds[0]);
		(void)close(fds[0]);
		return 1;
	}
	(void)close(fds[0]);
	(void)setsid();
	*ret_caller_fd = fds[1];
	return 0;
}

/* --- the loop ------------------------------------------------------------------------------- */

static void handle_signals(struct keeper *k, int64_t now)
{
	struct signalfd_siginfo info;

	while (read(k->signal_fd, &info, sizeof(info)) == sizeof(info))
		switch (info.ssi_signo) {
		case SIGTERM:
		case SIGINT:
			if (k->phase == PHASE_RUNNING)
				keeper_say(k, "stopping: signal %u from pid %u", info.ssi_signo,
					   info.ssi_pid);
			keeper_stop_begin(k, 0, now);
			break;
		case SIGUSR2:
			keeper_upgrade_begin(k, now);
			break;
		default:
			break;
		}
}

static void reap_children(struct keeper *k, int64_t now)
{
	struct child_end end;

	if (child_reap(&k->hub, &end))
		keeper_hub_ended(k, end, now);
	if (child_reap(&k->run_launcher.child, &end))
		keeper_helper_ended(k, &k->run_launcher, end, now);
	if (child_reap(&k->run_nudger.child, &end))
		keeper_helper_ended(k, &k->run_nudger, end, now);
	if (child_reap(&k->check, &end))
		keeper_upgrade_ended(k, end, now);
	/* The unmounter's success shows in the list of mounts, which keeper_stop_step() reads. */
	(void)child_reap(&k->unmounter, &end);
}

static void answer_requests(struct keeper *k, int64_t now)
{
	struct error err;

	if (fallback_serve(k->fallback, &err) >= 0)
		return;
	if (err.code != ENODEV)
		keeper_say_error(k, &err);
	if (k->phase == PHASE_RUNNING)
		keeper_say(k, "the mount at %s is gone: ending", k->mountpoint);
	k->unmounted = true;
	keeper_stop_begin(k, 0, now);
}

/* Starts and ends what is due. A step may begin another phase, which has steps of its own. */
static void step(struct keeper *k, int64_t now)
{
	enum keeper_phase before;

	do {
		before = k->phase;
		k->wake_at = KEEPER_NEVER;
		if (k->phase == PHASE_RUNNING) {
			keeper_helper_step(k, now);
			keeper_hub_step(k, now);
		} else {
			keeper_stop_step(k, now);
		}
	} while (k->phase != before && k->phase != PHASE_DONE);
	if (k->log_fd >= 0 && keeper_is_due(k, k->rotate_at, now)) {
		keeper_log_rotate(k->state_fd, k->log_fd);
		k->rotate_at = now + ROTATE_MS;
		(void)keeper_is_due(k, k->rotate_at, now);
	}
}

enum {
	AT_SIGNAL,
	AT_HUB,
	AT_HUB_SOCKET,
	AT_LAUNCHER,
	AT_NUDGER,
	AT_CHECK,
	AT_UNMOUNTER,
	AT_FUSE,
	AT_CALLER,
	N_AT
};

static void wait_for_events(struct keeper *k, bool answers, struct pollfd p[static N_AT])
{
	/* The device is watched while nobody else does: an error means that the mount is gone. */
	bool alone = k->hub.pid == 0 && !k->unmounted;
	int timeout = -1;

	for (int i = 0; i < N_AT; i++)
		p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	p[AT_SIGNAL].fd = k->signal_fd;
	p[AT_HUB].fd = k->hub.pidfd;
	p[AT_HUB_SOCKET].fd = k->hub_fd;
	p[AT_LAUNCHER].fd = k->run_launcher.child.pidfd;
	p[AT_NUDGER].fd = k->run_nudger.child.pidfd;
	p[AT_CHECK].fd = k->check.pidfd;
	p[AT_UNMOUNTER].fd = k->unmounter.pidfd;
	p[AT_FUSE].fd = answers || alone ? k->fuse_fd : -1;
	p[AT_FUSE].events = answers ? POLLIN : 0;
	p[AT_CALLER].fd = k->caller_fd;
	p[AT_CALLER].events = 0;

	if (k->wake_at != KEEPER_NEVER) {
		int64_t left = k->wake_at - child_now_ms();

		timeout = left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
	}
	if (poll(p, N_AT, timeout) < 0)
		for (int i = 0; i < N_AT; i++)
			p[i].revents = 0;
}

static void loop(struct keeper *k)
{
	struct pollfd p[N_AT];

	for (;;) {
		int64_t now = child_now_ms();

		step(k, now);
		if (k->phase == PHASE_DONE)
			return;
		wait_for_events(k, keeper_answers(k, now), p);

		now = child_now_ms();
		if (p[AT_SIGNAL].revents)
			handle_signals(k, now);
		/* Before the hub's end: what it said last decides what its end means. */
		if (p[AT_HUB_SOCKET].revents)
			keeper_hub_messages(k, now);
		reap_children(k, now);
		if (p[AT_FUSE].revents)
			answer_requests(k, now);
		if (p[AT_CALLER].revents && k->caller_fd >= 0) {
			keeper_say(k, "stopping: whoever started this is gone before it was ready");
			k->caller_fd = close_fd(k->caller_fd);
			keeper_stop_begin(k, 1, now);
		}
	}
}

int keeper_serve(const struct options *o)
{
	struct keeper k = {
		.program_fd = -1,
		.state_fd = -1,
		.runtime_fd = -1,
		.state_lock_fd = -1,
		.runtime_lock_fd = -1,
		.signal_fd = -1,
		.caller_fd = -1,
		.log_fd = -1,
		.fuse_fd = -1,
		.area_fd = -1,
		.hub_fd = -1,
		.next_fd = -1,
		.launcher_fd = -1,
		.nudger_fd = -1,
		.hub = CHILD_NONE,
		.check = CHILD_NONE,
		.unmounter = CHILD_NONE,
		.run_launcher = {.name = "launcher", .child = CHILD_NONE},
		.run_nudger = {.name = "nudger", .child = CHILD_NONE},
		.answer_at = KEEPER_NEVER,
		.hub_kill_at = KEEPER_NEVER,
		.patience_ms = KEEPER_PATIENCE_MS,
	};
	struct error err;
	int status = 1;
	int r = clean_descriptors(&err);

	if (r == 0 && !o->foreground)
		r = daemonise(&k.caller_fd, &status, &err);
	if (r == 1)
		return status;
	if (r == 0)
		r = watch_signals(&k.signal_fd, &err);
	if (r == 0)
		r = keeper_setup(&k, o, &err);
	if (r < 0) {
		keeper_log_error(&err);
		k.exit_status = 1;
	} else {
		loop(&k);
		keeper_say(&k, "ended");
	}
	status = k.exit_status;
	keeper_teardown(&k);
	return status;
}
