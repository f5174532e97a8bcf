/*
 * An SQLite VFS for tests: over the real one, with calls that fail when told to, and with a record
 * of everything that reaches the disk, from which any moment of a power cut can be rebuilt.
 */
#ifndef CLOOP_TESTS_UNIT_STORE_VFS_H
#define CLOOP_TESTS_UNIT_STORE_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VFS_NAME "cloop-test"

enum vfs_call {
	VFS_OPEN,
	VFS_READ,
	VFS_WRITE,
	VFS_TRUNCATE,
	VFS_SYNC,
	VFS_DELETE,
	VFS_MARK, /* only in the record: vfs_mark() */
};

enum vfs_file_kind {
	VFS_DB,
	VFS_WAL,
	VFS_JOURNAL,
	VFS_FILES,
};

/* Registers the VFS; once a process. */
void vfs_install(void);

/*
 * From now on such calls on such files fail with errno `code` (ENOSPC on a write is SQLITE_FULL)
 * after `skip` more of them; a write that fails has written half. Several may be set.
 */
void vfs_fail(enum vfs_call call, enum vfs_file_kind file, int code, int skip);
/* Everything works again. */
void vfs_heal(void);
/* How many calls failed since vfs_heal(). */
int vfs_failures(void);

struct vfs_event {
	enum vfs_call call;
	enum vfs_file_kind file;
	int64_t offset; /* write; size of a truncate; number of a mark; sync, delete: with directory
			 */
	size_t len;
	unsigned char *data;
};

/* Starts an empty record; what comes after vfs_record_stop() is not in it. */
void vfs_record_start(void);
void vfs_record_stop(void);
void vfs_mark(int64_t number);
size_t vfs_record_length(void);
const struct vfs_event *vfs_record_at(size_t i);
void vfs_record_free(void);

/* How much of what was not synced a power cut leaves. */
enum vfs_loss {
	VFS_LOSE_ALL,  /* nothing */
	VFS_LOSE_EVEN, /* every other write, and the first half of the last one */
	VFS_LOSE_ODD,  /* the other ones, and the second half of the last one */
	VFS_LOSE_NONE, /* everything */
	VFS_LOSSES,
};

/* Writes what is on the disk after the first n events to db, db-wal and db-journal. */
void vfs_rebuild(size_t n, enum vfs_loss loss, const char *db);

#endif
