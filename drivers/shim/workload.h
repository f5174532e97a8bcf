/*
 * The birth of a workload: from a checked launch record to a process that executes it. libc only;
 * nothing is allocated between fork and exec.
 *
 * The process gets: a session of its own, its control groups, umask 022, default signal actions and
 * an empty mask, an empty session keyring, the resource limits and the OOM score that the launcher
 * itself was started with, /dev/null as standard input, two pipes as standard output and error, the
 * caller's groups, gid and uid, no_new_privs, SIGKILL when its shim dies, its working directory and
 * no other descriptor.
 *
 * The working directory is opened as the user, by the new process, so a path that hangs or lies
 * hurts nobody else. It is refused on the forbidden device (the mount itself), and so is a program
 * there: the hub would wait for itself. argv[0] without a slash is sought in the PATH of the
 * workload's own environment; a file that is no program is not handed to a shell.
 */
#ifndef CLOOP_DRIVERS_SHIM_WORKLOAD_H
#define CLOOP_DRIVERS_SHIM_WORKLOAD_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "drivers/shim/cgroup.h"
#include "drivers/shim/protocol.h"
#include "drivers/shim/record.h"

/* Where argv[0] is sought when env has no PATH (decisions: the minimal environment). */
#define WORKLOAD_PATH "/usr/local/bin:/usr/bin:/bin"

/* What the launcher found about itself before it changed anything. */
struct workload_origin {
	struct rlimit nofile;
	char oom_score_adj[16];
	bool can_setuid;
};

/*
 * A runtime's client instead of the workload itself. It runs as the daemon's user, in none of the
 * session's groups, in a mount namespace of its own where that is allowed: there the directories
 * that the sandbox is given are mounted below `stage`, which was opened, and checked, as the user,
 * so that no name can lead the runtime elsewhere. The namespace goes with its last process, and
 * nothing is left to unmount.
 */
struct workload_client {
	char **argv;          /* the record's, with room in those that are edited */
	char *const *room;    /* one a launch_edit */
	size_t room_bytes;    /* of each */
	const char *folder;   /* of the session: absolute path */
	const char *stage;    /* an empty directory in it */
	const char *work_dir; /* absolute, also when the shim made it */
	const char *group;    /* LAUNCH_EDIT_GROUP */
	bool made_work_dir;
};

struct workload_plan {
	const struct launch_record *record;
	const struct workload_client *client; /* NULL: argv of the record is the workload */
	const struct workload_origin *origin;
	const struct cgroup *cgroup; /* NULL: none */
	int started_fd;              /* session_started_set_pid() */
	int stdout_fd;
	int stderr_fd;
	int report_fd; /* close-on-exec; what failed is written here (struct shim_failure) */
};

/*
 * Clones the process. Returns 0 with pid and pidfd, or a negative errno. Whether it came to execute
 * anything is told by the report pipe: a struct shim_failure, or end of file when it did.
 */
int workload_spawn(const struct workload_plan *plan, pid_t *ret_pid, int *ret_pidfd);

/*
 * Starts a program of the runtime's, as the daemon's user, without input and output, that dies with
 * the shim. Returns its pid or a negative errno; it exits with 127 when it cannot be executed.
 */
pid_t workload_spawn_helper(const struct workload_origin *origin, char *const *argv,
			    char *const *env);

/*
 * One round of ending everything that the calling process, a subreaper, has started; true when
 * nothing is left of it. group (NULL: none) is what it was started in, pid_fd its main process, -1
 * when that is reaped. The caller reaps children and repeats.
 */
bool workload_kill_round(const struct cgroup *group, int pid_fd);

#endif
