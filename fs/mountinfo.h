/*
 * What is mounted where, out of /proc/self/mountinfo: the only way to learn about a FUSE mount
 * without a system call that waits for its server.
 */
#ifndef CLOOP_FS_MOUNTINFO_H
#define CLOOP_FS_MOUNTINFO_H

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/error.h"

/* Longer names are cut: they are compared with short ones and shown in sentences. */
#define MOUNTINFO_NAME_MAX 64

struct mountinfo {
	dev_t dev;                       /* st_dev of what is mounted */
	char type[MOUNTINFO_NAME_MAX];   /* "fuse.cloop" */
	char source[MOUNTINFO_NAME_MAX]; /* "cloop" */
};

/*
 * The topmost mount at exactly that path (absolute, resolved). Returns 1 when there is one, 0 when
 * not. Lines that cannot be read are passed over. Errors: EIO.
 */
int mountinfo_find_in(FILE *f, const char *path, struct mountinfo *ret, struct error *err);

/* The same, of the calling process. */
int mountinfo_find(const char *path, struct mountinfo *ret, struct error *err);

#endif
