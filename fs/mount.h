/*
 * Mounting and unmounting the tree: as root with mount(2), as an ordinary user through fusermount3.
 *
 * No call here resolves a path through the mount (it would wait for the hub), nothing waits longer
 * than MOUNT_HELPER_MS for a helper, and no file system but ours is ever unmounted: ours is what
 * /proc/self/mountinfo shows with type fuse.cloop and source cloop.
 *
 * The mount is nosuid, nodev and noexec: nothing in the tree is a program. Mounted by root it is
 * private, so that it does not spread into the mount namespaces made from this one later.
 */
#ifndef CLOOP_FS_MOUNT_H
#define CLOOP_FS_MOUNT_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/error.h"

#define MOUNT_TYPE "fuse.cloop"
#define MOUNT_SOURCE "cloop"

/* fusermount3 answers within milliseconds; one that does not is given up. */
#define MOUNT_HELPER_MS 10000

/* How long a mount of ours that is in the way may take to show that it is alive. */
#define MOUNT_PROBE_MS 2000

/* Dead mounts that lie upon each other are cleared down to so many. */
#define MOUNT_STALE_MAX 64

/* Arguments of the command that unmounts, and the NULL. */
#define MOUNT_REMOVE_ARGV 6

/*
 * Makes the mountpoint (resolved path) ready: clears dead mounts of ours, makes the directory when
 * `create` says so and it is missing, and demands an empty directory. Errors: EBUSY, something is
 * mounted there; ENOENT, ENOTDIR, ENOTEMPTY.
 */
int mount_prepare(const char *path, bool create, struct error *err);

/*
 * Mounts. *ret_fd is the mount's /dev/fuse, close-on-exec and non-blocking; *ret_dev its st_dev.
 * allow_other also means default_permissions; only root may wish for it.
 */
int mount_attach(const char *path, bool allow_other, int *ret_fd, dev_t *ret_dev,
		 struct error *err);

/*
 * Whether this process unmounts by itself (root). Otherwise fusermount3 does: the caller starts the
 * command and looks at its exit status.
 */
bool mount_is_direct(void);

/* umount2(2), lazily or not. Errors: EBUSY; EINVAL when nothing is mounted there. */
int mount_remove(const char *path, bool lazy, struct error *err);

/* Lazily, either way, waiting for the helper: for before the loop. */
int mount_clear(const char *path, struct error *err);

/* The fusermount3 command line that does the same. */
void mount_remove_argv(const char *path, bool lazy, const char *argv[static MOUNT_REMOVE_ARGV]);

#endif
