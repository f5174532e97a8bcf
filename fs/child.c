#include "fs/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/owner.h"

int64_t child_now_ms(void)
{
	return clock_boot_ns() / CLOCK_NS_PER_MS;
}

static void reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void set_oom_score_adj(int value)
{
	AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* Without the right to change it, it stays what it is: nothing depends on it. */
	if (fd >= 0 && dprintf(fd, "%d\n", value) < 0)
		errno = 0;
}

static void raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* In the child, which has one thread and memory of its own. */
static _Noreturn void execute(const struct child_command *command, pid_t parent)
{
	reset_signals();
	if (command->death_signal) {
		(void)prctl(PR_SET_PDEATHSIG, command->death_signal);
		/* It may have died before. */
		if (getppid() != parent)
			_exit(CHILD_EXIT_CANNOT_EXECUTE);
	}
	if (command->output_fd >= 0) {
		(void)dup2(command->output_fd, STDOUT_FILENO);
		(void)dup2(command->output_fd, STDERR_FILENO);
	}
	if (command->oom_score_adj != CHILD_OOM_KEEP)
		set_oom_score_adj(command->oom_score_adj);
	if (command->raise_files)
		raise_files();
	for (size_t i = 0; i < command->n_fds; i++)
		(void)fcntl(command->fds[i], F_SETFD, 0);
	if (command->environment)
		(void)putenv((char *)(uintptr_t)command->environment);

	if (command->exe_fd >= 0)
		(void)execveat(command->exe_fd, "", command->argv, environ, AT_EMPTY_PATH);
	else
		(void)execvp(command->path, command->argv);
	(void)dprintf(STDERR_FILENO, "cloopd: cannot execute %s: %s\n", command->path,
		      strerror(errno));
	_exit(CHILD_EXIT_CANNOT_EXECUTE);
}

pid_t child_fork(struct child *c, struct error *err)
{
	pid_t pid = fork();

	if (pid < 0)
		return error_set(err, errno, "cannot start a process: %s", strerror(errno));
	if (pid == 0)
		return 0;
	/* Not reaped yet, so the number is still its own. */
	int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		int saved = errno;

		(void)kill(pid, SIGKILL);
		return error_set(err, saved, "cannot watch a process: %s", strerror(saved));
	}
	*c = (struct child){.pid = pid, .pidfd = pidfd, .started_ms = child_now_ms()};
	return pid;
}

int child_start(struct child *c, const struct child_command *command, struct error *err)
{
	pid_t parent = getpid(), pid = child_fork(c, err);

	if (pid == 0)
		execute(command, parent);
	return pid < 0 ? (int)pid : 0;
}

bool child_reap(struct child *c, struct child_end *ret)
{
	siginfo_t info = {0};

	if (c->pid == 0)
		return false;
	int r = waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED | WNOHANG);
	if (r == 0 && info.si_pid == 0)
		return false;
	if (r < 0 && errno == EINTR)
		return false;
	c->pidfd = close_fd(c->pidfd);
	c->pid = 0;
	ret->by_signal = r < 0 || info.si_code != CLD_EXITED;
	ret->value = r < 0 ? SIGKILL : info.si_status;
	return true;
}

bool child_wait(struct child *c, int timeout_ms, struct child_end *ret)
{
	int64_t until = child_now_ms() + timeout_ms;

	while (c->pid != 0 && !child_reap(c, ret)) {
		int64_t left = until - child_now_ms();
		struct pollfd p = {.fd = c->pidfd, .events = POLLIN};

		if (left <= 0)
			return false;
		(void)poll(&p, 1, (int)left);
	}
	return true;
}

void child_kill(const struct child *c, int signal)
{
	if (c->pid != 0)
		(void)pidfd_send_signal(c->pidfd, signal, NULL, 0);
}

void child_abandon(struct child *c)
{
	struct child_end end;

	child_kill(c, SIGKILL);
	if (!child_reap(c, &end))
		c->pidfd = close_fd(c->pidfd);
	*c = CHILD_NONE;
}

void child_describe(struct child_end end, char buf[static CHILD_END_MAX])
{
	if (end.by_signal)
		(void)snprintf(buf, CHILD_END_MAX, "signal %d (%s)", end.value,
			       strsignal(end.value));
	else
		(void)snprintf(buf, CHILD_END_MAX, "exit status %d", end.value);
}
