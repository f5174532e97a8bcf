/*
 * The descriptors that the nudger keeps open: opening a file for each announcement would cost six
 * times as much, and its watchers would see it opened and closed each time.
 *
 * Shared by threads; every function may be called from any of them. Closing talks to the hub and
 * may wait for it, so the scanner's files_keep() only says what is to be closed, and files_close()
 * does it in a thread of its own.
 */
#ifndef CLOOP_FS_NUDGER_FILES_H
#define CLOOP_FS_NUDGER_FILES_H

#include <stddef.h>
#include <stdint.h>

/* Watched files that change all the time are rarely so many; beyond, the least recently used goes.
 */
#define NUDGER_FILES_MAX 512

struct files;
struct marks;

/* NULL: out of memory. `max` is at most NUDGER_FILES_MAX. */
struct files *files_new(size_t max);

/* Only when no other thread uses it any more. */
struct files *files_free(struct files *f);

/*
 * The descriptor of a file, for writing, opened by open_file when it is not kept yet. Returns it,
 * to be given back with files_put(), or a negative errno.
 */
int files_get(struct files *f, uint64_t inode, uint64_t dir,
	      int (*open_file)(void *user), void *user);

/* The descriptor is not used any more; with `broken` it is not worth keeping. */
void files_put(struct files *f, int fd, int broken);

/* An object is gone: closes what is open of it, now where nobody uses it. */
void files_forget(struct files *f, uint64_t dir);

/* All objects may be: closes everything that nobody uses, soon. */
void files_forget_all(struct files *f);

/* A moment, for files_keep(): what is opened later is newer. */
uint64_t files_now(struct files *f);

/* Closes what was used last before that moment and is not watched. */
void files_keep(struct files *f, const struct marks *marks, uint64_t since);

/* Closes what is to be closed, and waits for more. Returns after files_end() only. */
void files_close(struct files *f);
void files_end(struct files *f);

#endif
