/*
 * Processes below one: found, signalled and ended without a control group. libc only.
 *
 * The one that asks is a child subreaper, so whatever its descendants do (fork twice, setsid), they
 * stay its descendants, and when it has no child left nothing of them is. A pid that is read from
 * /proc may be another process a moment later; so each is first held by a pidfd, then looked at
 * again, and signalled through the pidfd.
 *
 * Needs /proc/<pid>/task/<tid>/children (CONFIG_PROC_CHILDREN, which all common kernels have).
 */
#ifndef CLOOP_DRIVERS_SHIM_PROCESS_H
#define CLOOP_DRIVERS_SHIM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The start time of a process in clock ticks after boot (/proc/<pid>/stat, field 22), which with
 * pid and boot id names it for good. -ESRCH when there is none. */
int process_starttime(pid_t pid, uint64_t *ret);

/* The parent of a process that is alive, -ESRCH when there is none. */
pid_t process_parent(pid_t pid);

/* Signals pid if it is in the control group whose last (or a middle) element is `group`. */
int process_signal_in_group(pid_t pid, const char *group, int sig);

/* Signals pid if it started at starttime. -ESRCH when it is another process, dead, or gone. */
int process_signal_exact(pid_t pid, uint64_t starttime, int sig);

/* Says which children of the calling process are to be left alone, with all below them. */
struct process_filter {
	bool (*spare)(pid_t child, void *arg);
	void *arg;
};

/* Sends sig to every descendant of root (not to root). filter (may be NULL) applies to the children
 * of root. Returns how many processes it was sent to, or a negative errno. */
int process_tree_signal(pid_t root, int sig, const struct process_filter *filter);

/*
 * One round of ending every descendant of root: each is stopped first, so that it cannot fork on,
 * then killed. A descendant whose parent died has become a child of the subreaper meanwhile, so the
 * caller repeats this until waitpid() says ECHILD. Returns how many were killed.
 */
int process_tree_kill(pid_t root, const struct process_filter *filter);

#endif
