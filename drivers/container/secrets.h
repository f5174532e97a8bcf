/*
 * Secret files of a session: one directory in memory, which the sandbox sees read-only where its
 * environment names it.
 *
 * The directory is <parent>/<name>, mode 0700, on a tmpfs (anything else is refused: what was on a
 * disk stays there). Files are made with O_EXCL and the modes that they ask for; when the sandbox
 * starts, directory and files are given to its user. Since the directory itself is mounted, not its
 * files, a file that is refreshed or wiped here is so inside, too.
 *
 * Wiping writes zeros over a file before it is unlinked. It can be repeated, and done in any order. A
 * link, or anything else that is no regular file, is nothing that was delivered: it is reported, and
 * unlinked without being followed.
 *
 * Source: the reference's delivery, refresh and destruction of leased files.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_SECRETS_H
#define CLOOP_DRIVERS_CONTAINER_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/secret.h"

/*
 * Makes the directory with all files. Their dir is one and the same. Errors: EEXIST, EINVAL (more
 * than one directory; no tmpfs), those of the system; nothing is left then.
 */
int container_secrets_deliver(int parent_fd, const char *name, const struct secret_file *files,
			      size_t n, struct error *err);

/*
 * Replaces the content of a file that was delivered, with owner and mode as they were: beside it,
 * then by name. Errors: ENOENT for a name that was not, EPERM for one that
 * is no file of ours any more.
 */
int container_secrets_refresh(int parent_fd, const char *name, const struct secret_file *file,
			      struct error *err);

/* Wipes one file (file NULL: all). Returns how many went, also 0, or what could not be wiped. */
int container_secrets_scrub(int parent_fd, const char *name, const char *file, struct error *err);

/* Wipes all and removes the directory; also one that is not there. */
int container_secrets_remove(int parent_fd, const char *name, struct error *err);

#endif
