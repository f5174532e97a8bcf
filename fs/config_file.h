/*
 * Reading what an operator put into the configuration directory.
 *
 * Who may write there is the file system's affair; but what belongs to somebody else, or can be
 * written by everybody, is refused, and so is everything that is not a plain file: nothing here waits
 * for a fifo, follows a link or reads without an end. These calls may block on a slow disk: they are
 * made before the loop runs, or on libuv's pool.
 */
#ifndef CLOOP_FS_CONFIG_FILE_H
#define CLOOP_FS_CONFIG_FILE_H

#include <stddef.h>

#include "core/error.h"

/*
 * Opens a directory: its path, or a name below parent_fd (which may not be a link). Errors: ENOENT,
 * EPERM (somebody else's, or writable for others), those of open(). `shown` names it in sentences.
 */
int config_directory_open(int parent_fd, const char *name, const char *shown, int *ret_fd,
			  struct error *err);

/*
 * Reads a whole file of at most max_bytes; the caller frees *ret, which ends with a NUL that is not
 * counted. Errors: ENOENT, EPERM as above, EINVAL (no plain file), EFBIG, those of open() and
 * read(). The sentences do not name the file.
 */
int config_file_read(int dir_fd, const char *name, size_t max_bytes, char **ret, size_t *ret_len,
		     struct error *err);

#endif
