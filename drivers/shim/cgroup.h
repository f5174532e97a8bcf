/*
 * Control groups: how a workload's processes are limited, counted and ended together. libc only.
 *
 * Where the groups are:
 *
 *	cgroup v2   <mount>/<parent>/<instance>/<leaf>
 *	cgroup v1   the same below memory, pids, cpu and freezer, each where it is mounted; a leaf
 *	            is made only in those whose limit is asked for
 *	hybrid      both: each limit where its controller is, kill and freeze on the v2 tree
 *
 * The parent ("cloop" unless told otherwise) is shared; the instance is unique for a runtime
 * directory, so that two daemons do not meet; a leaf is "<serial in hex>.<attempt>".
 *
 * What can be enforced is found by trying, once, when the tree is opened (enum shim_ability); a
 * limit that cannot be enforced is refused, never dropped. Instead of the mounted trees another
 * directory can be given, for tests: a v2 tree when it has a file cgroup.controllers, else one
 * directory a controller ("memory", "pids", "cpu", "freezer", "unified").
 */
#ifndef CLOOP_DRIVERS_SHIM_CGROUP_H
#define CLOOP_DRIVERS_SHIM_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "drivers/shim/protocol.h"

enum cgroup_v1 { CGROUP_V1_MEMORY, CGROUP_V1_PIDS, CGROUP_V1_CPU, CGROUP_V1_FREEZER, CGROUP_V1_N };

/* "<16 hex digits>.<attempt>" */
#define CGROUP_NAME_MAX 32
/* Parent and instance: more than any slice that an operator would name. */
#define CGROUP_PATH_MAX 1024

struct cgroup_tree {
	int unified_fd;         /* the instance's directory, -1: no cgroup v2 */
	int v1_fd[CGROUP_V1_N]; /* the instance's directory, -1: not there or not usable */
	unsigned v2_limits;     /* those of CPU, MEMORY and PIDS that the unified tree sets */
	unsigned abilities;     /* CPU, MEMORY, PIDS and KILL of enum shim_ability */
	char path[CGROUP_PATH_MAX]; /* "parent/instance" */
	bool given;                 /* not where the machine has its groups */
	/* For cgroup_tree_remove(): the directories that hold parent, -1 where there is none. */
	int mount_fd[CGROUP_V1_N + 1];
};

/* Limits; 0: none. */
struct cgroup_limits {
	int64_t cpu_millis;
	int64_t memory_mb;
	int64_t pids;
};

/* One workload's groups. */
struct cgroup {
	char name[CGROUP_NAME_MAX];
	int unified_fd;
	int v1_fd[CGROUP_V1_N];
	/* Opened for writing, for the process that joins; -1 where there is none. The unified one
	 * is used where clone3() could not place the process. */
	int join_fd[CGROUP_V1_N + 1];
};

/*
 * Opens (and makes) the instance's groups. root NULL: where /proc/self/mountinfo says. parent: a
 * relative path without "..". A machine without usable groups is no error: the abilities say so.
 * Errors: -EINVAL for a bad parent, what opening a given root says.
 */
int cgroup_tree_open(struct cgroup_tree *ret, const char *root, const char *parent,
		     const char *instance);

/* Removes instance and parent where they are empty. */
void cgroup_tree_remove(const struct cgroup_tree *t, const char *parent, const char *instance);

void cgroup_tree_close(struct cgroup_tree *t);

/* Whether a workload gets a group at all. */
bool cgroup_tree_usable(const struct cgroup_tree *t);

void cgroup_name(uint64_t serial, uint32_t attempt, char ret[static CGROUP_NAME_MAX]);

/*
 * Makes a leaf and sets its limits. On failure nothing is left, and *ret_file names the file or
 * controller (static storage). -EOPNOTSUPP: a limit that cannot be enforced here.
 */
int cgroup_create(const struct cgroup_tree *t, const char *name, const struct cgroup_limits *limits,
		  struct cgroup *ret, const char **ret_file);

/* Calls fn for each leaf of the instance. */
void cgroup_list(const struct cgroup_tree *t, void (*fn)(const char *name, void *arg), void *arg);

/* Opens what there is of a leaf. -ENOENT: nothing. */
int cgroup_open(const struct cgroup_tree *t, const char *name, struct cgroup *ret);

/*
 * Moves the calling process, which must have one thread. in_unified: it is in the unified leaf
 * already. For use between fork and exec.
 */
int cgroup_join_self(const struct cgroup *g, bool in_unified);

/* Signals every process in the leaf and below, frozen meanwhile where that is possible, so that
 * none is missed. Returns how many it was sent to. */
int cgroup_signal(const struct cgroup *g, int sig);

/* SIGKILL to every process in the leaf and below, at once where that is possible. */
int cgroup_kill(const struct cgroup *g);

/* Whether processes are left: 1, 0. */
int cgroup_populated(const struct cgroup *g);

/* How many processes were killed at the leaf's memory limit. */
uint32_t cgroup_oom_kills(const struct cgroup_tree *t, const struct cgroup *g);

/* Removes the leaf, with groups that the workload made below it. -EBUSY: processes are left. */
int cgroup_remove(const struct cgroup_tree *t, const struct cgroup *g);

/*
 * A container's groups are made by its runtime below a leaf, in every hierarchy of the machine, also
 * in those that are not used here.
 */

/* Removes the leaf wherever the machine has one; name NULL: instance and parent, where empty. */
void cgroup_remove_everywhere(const struct cgroup_tree *t, const char *name);

/*
 * A descriptor that counts (eventfd) how often the leaf was at its memory limit, for processes in
 * groups below it, which cgroup_oom_kills() does not count on cgroup v1. -ENOTSUP where it does.
 */
int cgroup_watch_oom(const struct cgroup_tree *t, const struct cgroup *g);

/* Closes descriptors; accepts one that CGROUP_NONE initialised. */
void cgroup_close(struct cgroup *g);

#define CGROUP_NONE                                                                                \
	((struct cgroup){                                                                          \
		.unified_fd = -1, .v1_fd = {-1, -1, -1, -1}, .join_fd = {-1, -1, -1, -1, -1}})

#endif
