/*
 * The shim: one process a running workload. It holds the session's lock, is the subreaper of all
 * that the workload starts, moves its output into the log, enforces its deadline, applies signals
 * and records its end. When that is done it waits for another session (forking a shim costs most of
 * a launch), and ends when the launcher is gone or has enough idle ones. libc only.
 *
 * A session is over when its main process has ended *and* nothing that it started runs any more:
 * what is left is killed. A process that cannot die (stuck in the kernel) keeps it from being over.
 * Output that was in the pipes by then is in the log; a descriptor that was handed to a process of
 * somebody else does not delay the end.
 *
 * When the exit record cannot be written (a broken disk), hubs are told the end all the same, and
 * writing is tried again for SHIM_EXIT_WRITE_TRIES seconds with the lock held.
 */
#ifndef CLOOP_DRIVERS_SHIM_SHIM_H
#define CLOOP_DRIVERS_SHIM_SHIM_H

#include "drivers/shim/cgroup.h"
#include "drivers/shim/workload.h"

#define SHIM_EXIT_WRITE_TRIES 600

/* What the launcher hands to every shim it forks. */
struct shim_host {
	pid_t launcher;
	int sessions_fd; /* the sessions directory */
	int sockets_fd;  /* <runtime-dir>/shims */
	struct cgroup_tree cgroups;
	struct workload_origin origin;
};

/*
 * Makes a fresh fork a process of its own: a session, /dev/null as its streams, deaf to what a
 * terminal or a service manager sends to everybody, the subreaper of what it will start, and among
 * the last that the kernel ends for memory. *ret_child_fd is a signalfd for SIGCHLD. name: as ps(1)
 * shows it.
 */
int shim_process_set_up(const struct shim_host *host, const char *name, int *ret_child_fd);

/* Runs in a freshly forked process; launcher_fd is its end of the socket pair. */
__attribute__((noreturn)) void shim_run(const struct shim_host *host, int launcher_fd);

#endif
