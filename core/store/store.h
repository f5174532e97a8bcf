/*
 * The store: one SQLite database that holds everything cloop must not forget.
 *
 * Acknowledged means durable, so the price of a change is one fsync. The store makes many changes
 * share it: operations are submitted by the loop thread, ONE writer thread takes what waits as one
 * transaction (group commit; WAL, synchronous=FULL), and `done` runs on the loop thread after the
 * commit is on the disk, in the order of submission. An operation that refuses is undone alone (it
 * has its own savepoint); a transaction that fails is undone as a whole, and each of its operations
 * is answered with the failure. A failed batch leaves nothing: not even after a power cut, because
 * what a failed commit left behind in the log is cut off before the answer.
 *
 * Threads: every function here is for the loop thread, except that an operation's apply() runs on
 * the writer thread, and wake() is called there. Reading goes through store_reader(), the loop
 * thread's own read-only connection, which sees what is committed.
 *
 * Failures: ENOSPC (EDQUOT), EROFS, EBUSY (another process holds the database for longer than
 * busy_timeout_ms), ENOMEM, EIO (everything else the disk can do), each with a sentence that names
 * the database. None is final: the next batch tries again, so the store works again as soon as the
 * condition goes away.
 */
#ifndef CLOOP_CORE_STORE_STORE_H
#define CLOOP_CORE_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

/* Longer than any transaction of an operator's sqlite3 shell that is not simply left open. */
#define STORE_BUSY_TIMEOUT_MS 5000U

/* The reader runs in the loop, which must not stand still: a held database is EBUSY at once. */
#define STORE_READER_BUSY_TIMEOUT_MS 50

/*
 * A batch ends after so many operations, or after so long: what waits behind it, and what is in it,
 * waits no longer than this plus one fsync, and its part of the write-ahead log stays small.
 */
#define STORE_BATCH_OPS_MAX 256U
#define STORE_BATCH_NS INT64_C(20000000)

/*
 * The write-ahead log: at this many pages (4 MiB) it is copied into the database after a commit,
 * and then starts over, as there are no long readers. An outsider that keeps a read transaction
 * open can make it grow: it is tried again after as many more pages, and from so many times that on
 * the log is also cut to nothing, waiting for the statements that run. The wait grows with the log,
 * so that many slow readers cannot keep it growing for ever, and has a maximum, so that one that
 * never ends cannot stop the changes.
 */
#define STORE_WAL_PAGES 1000
#define STORE_WAL_TRUNCATE_TIMES 4
#define STORE_WAL_WAIT_MS 100
#define STORE_WAL_WAIT_MAX_MS 1000

/*
 * The structure of the whole database is checked (PRAGMA quick_check) at every start up to this
 * size, which takes 0.2 s (0.7 GiB with a million sessions take 2.3 s). A larger one is checked
 * unless it is known to be sound: it passed in this boot of the machine, and the file is the one
 * that the last process left (same inode; after an orderly close also same size and time). So a hub
 * that was killed is back at once with a million sessions, while a machine that may have lost power
 * pays for the proof.
 */
#define STORE_CHECK_BYTES (INT64_C(64) << 20)

/* The largest row: a spec and its requirements, a document of 1 MiB each, with room to spare. */
#define STORE_ROW_MAX (8 << 20)

struct store;
struct store_tx;
struct store_schema;

struct store_options {
	/*
	 * Called on the writer thread when finished operations begin to wait for store_dispatch().
	 * May be NULL: then the loop must call store_dispatch() by itself. What it wakes must be
	 * there until store_free() has returned.
	 */
	void (*wake)(void *user);
	void *user;

	unsigned busy_timeout_ms; /* 0: STORE_BUSY_TIMEOUT_MS */
	const char *boot_id;      /* NULL: the kernel's */

	/* For tests. */
	const char *vfs;                   /* NULL: SQLite's default */
	const struct store_schema *schema; /* NULL: the built-in one */
	int64_t check_bytes;               /* 0: STORE_CHECK_BYTES; -1: no size is small */
	int wal_pages;                     /* 0: STORE_WAL_PAGES */
};

/*
 * One change. The memory is the caller's and stays valid until done(), which may free it. Embed it
 * at the start of a larger struct to carry arguments and results.
 */
struct store_op {
	/*
	 * Writer thread, inside the transaction. Returns a result >= 0, or a negative errno with
	 * err filled, and then what it did is undone. Must not block on anything but the database,
	 * nor touch what belongs to the loop.
	 */
	int (*apply)(struct store_tx *tx, struct store_op *op, struct error *err);
	/*
	 * Loop thread, after the commit or its failure. err is NULL unless result is negative, and
	 * is valid during the call. May submit; must not flush, dispatch or free the store.
	 */
	void (*done)(struct store_op *op, int result, const struct error *err);

	/* The store's own. */
	struct store_op *next;
	int result;
	struct error error;
};

/* Commits are counted by how long they took: the upper bounds of the buckets; longer ones are in none. */
#define STORE_COMMIT_BUCKETS 9
#define STORE_COMMIT_BOUNDS_MS {1, 2, 5, 10, 25, 50, 100, 250, 1000}

struct store_stats {
	uint64_t commits;  /* transactions that were committed */
	uint64_t applied;  /* operations in them */
	uint64_t refused;  /* operations that refused */
	uint64_t failed;   /* operations that were undone by a failed transaction */
	uint64_t waiting;  /* operations submitted and not yet finished */
	uint64_t commit_buckets[STORE_COMMIT_BUCKETS];
	int64_t commit_ns; /* all of them together */
	int64_t wal_pages; /* length of the write-ahead log after the last commit */
	bool checked;      /* whether the whole database was checked at open */
};

/*
 * Opens the database at path (absolute, or relative to the working directory; its directory must
 * exist), creating it with mode 0600, and brings its schema up to date: each migration in a
 * transaction of its own, recorded with build and time. Beside it lives path + ".lock", held while
 * the store is open, which also says what the check above wants to know. May take as long as the
 * check, so call it before serving.
 *
 * Refusals leave the database as it was, byte for byte:
 *   EUCLEAN       it is damaged or cut short, or its write-ahead log is there and it is not
 *   EINVAL        it is another program's, or not a plain file
 *   EOPNOTSUPP    its schema is newer than this build (names both versions)
 *   EBUSY         another process has it open, or holds it
 *   EROFS, EACCES, ENOSPC, EIO, ENOMEM, ENOENT (no such directory)
 */
int store_open(const char *path, const struct store_options *opts, struct store **ret,
	       struct error *err);

/*
 * Hands over one operation; never blocks on the disk. Operations are applied and answered in the
 * order of submission.
 */
void store_submit(struct store *s, struct store_op *op);

/* Runs done() of what has finished. Call it from the loop after wake(). */
void store_dispatch(struct store *s);

/*
 * Blocks until everything submitted is finished, and dispatches it, including what the callbacks
 * submit meanwhile. For orderly ends and tests, not for the loop.
 */
void store_flush(struct store *s);

/* The loop thread's read-only connection. Valid until store_free(). */
struct store_tx *store_reader(struct store *s);

void store_get_stats(struct store *s, struct store_stats *ret);

/* Flushes, puts the write-ahead log into the database, closes. Returns NULL. */
struct store *store_free(struct store *s);

OWNER_DEFINE(struct store, store, store_free);
#define AUTO_STORE CLEANUP(owner_storep)

#endif
