/* Reaching every process of a session: through its group, and through the tree below the shim. */
#include "drivers/shim/shim_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/shim/process.h"

void shim_signal_all(struct shim *shim, int sig)
{
	struct shim_session *s = &shim->s;

	/* None: one that was just cloned and has joined nothing yet. */
	if (s->has_cgroup && cgroup_signal(&s->cgroup, sig) > 0)
		return;
	(void)process_tree_signal(getpid(), sig, NULL);
}

bool workload_kill_round(const struct cgroup *group, int pid_fd)
{
	siginfo_t info;
	bool populated = group && cgroup_populated(group) == 1;

	if (populated)
		(void)cgroup_kill(group);
	/* The main process also when it was cloned but is in no group yet. */
	if (pid_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
	/* WNOWAIT: reaping is done in one place. A child that only waits to be reaped is a
	 * child. */
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD)
		return !populated;
	/* Whoever left the group is still below us. */
	if (!populated)
		(void)process_tree_kill(getpid(), NULL);
	return false;
}

bool shim_kill_all(struct shim *shim)
{
	struct shim_session *s = &shim->s;

	return workload_kill_round(s->has_cgroup ? &s->cgroup : NULL, s->reaped ? -1 : s->pid_fd);
}
