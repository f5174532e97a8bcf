/*
 * The directories that a keeper uses: where they really are, whether they may be trusted, and who
 * has them already.
 *
 * Two locks keep daemons apart: POSIX record locks on <state-dir>/lock and <runtime-dir>/lock, held
 * by the keeper for its life. A POSIX lock belongs to the process: children do not inherit it, it
 * goes with the process however that ends, and F_GETLK tells who holds it. It also goes when the
 * process closes any descriptor of the file, so the file is opened once.
 */
#ifndef CLOOP_FS_PLACE_H
#define CLOOP_FS_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/error.h"

/* Links followed for a mountpoint, as the kernel's own limit. */
#define PLACE_LINKS_MAX 40

enum place_kind {
	PLACE_STATE,   /* made when missing; ours alone: owner, nobody else may write */
	PLACE_RUNTIME, /* the same */
	PLACE_CONFIG,  /* may be missing; root's or ours, not writable for everybody */
};

/*
 * The absolute path without links, "." and "..", of something whose last parts need not exist yet.
 * The caller frees *ret. Errors: EINVAL (".." below what does not exist), and those of realpath().
 */
int place_resolve(const char *path, char **ret, struct error *err);

/*
 * The same of a mountpoint, which is never touched itself: a system call on it could wait for a hub
 * that does not answer. Errors: also EINVAL when the path is relative.
 */
int place_resolve_mountpoint(const char *path, char **ret, struct error *err);

/* Whether a resolved path is that directory, or below it. */
bool place_is_inside(const char *path, const char *dir);

/*
 * Opens a directory (resolved path). For PLACE_CONFIG only the checks are made: *ret_fd is -1 when
 * it is missing. With `create` false a missing directory is ENOENT.
 */
int place_open(enum place_kind kind, const char *path, bool create, int *ret_fd, struct error *err);

/* Takes the lock of a directory. Errors: EBUSY naming the process that has it, EROFS, EACCES. */
int place_lock(enum place_kind kind, int dir_fd, const char *path, int *ret_fd, struct error *err);

/*
 * Who holds the lock; *ret_pid is 0 when nobody does. Errors: ESRCH when it is a process that this
 * one cannot see.
 */
int place_lock_holder(int dir_fd, const char *path, pid_t *ret_pid, struct error *err);

#endif
