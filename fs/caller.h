/*
 * Who calls: fixed when a file is opened, and kept with the handle.
 *
 * uid and gid come with every FUSE request; the supplementary groups are read from
 * /proc/<tid>/status while OPEN is held (never through NSS). A caller that the hub cannot see (pid 0:
 * another pid namespace), or that lives in another pid or user namespace than the hub, is not
 * trusted: it reads, but gets no control.
 */
#ifndef CLOOP_FS_CALLER_H
#define CLOOP_FS_CALLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The kernel's own limit (NGROUPS_MAX). */
#define CALLER_GROUPS_MAX 65536

struct hub;

struct caller {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	bool trusted;
	uint32_t *groups;
	size_t n_groups;
};

/* The namespaces of this process, which never change: what a caller's are compared with. */
struct caller_home {
	dev_t pid_dev, user_dev;
	ino_t pid_ino, user_ino;
};
/* Returns 0, or a negative errno when /proc cannot be read: then nobody can be trusted. */
int caller_home_read(struct caller_home *ret);

/*
 * Reads what /proc knows of the thread. Returns 0 (then ret->groups is the caller's to free with
 * caller_clear()), or a negative errno when it cannot be read: the caller is gone, or hidden.
 */
int caller_read(const struct caller_home *home, pid_t tid, uid_t uid, gid_t gid,
		struct caller *ret);
void caller_clear(struct caller *c);

/* The same as for a request without /proc: not trusted, no groups. */
struct caller caller_unknown(uid_t uid, gid_t gid);

/*
 * The process that a thread belongs to, and that one's parent. Also of a thread that was killed in a
 * call which is not answered yet.
 */
int caller_process(pid_t tid, pid_t *ret_process, pid_t *ret_parent);

/*
 * Whether a signal that ends a blocking call waits for that thread: what an INTERRUPT that got lost
 * with a dead hub would have said.
 */
bool caller_interrupted(pid_t tid);

/* Looks up cloop and cloop-admin, before the loop runs: NSS may take its time. */
void caller_find_groups(struct hub *hub);

#endif
