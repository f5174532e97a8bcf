/*
 * The writer thread: batches, commits, and what happens when they fail.
 */
#include "core/store/internal.h"

#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/fault.h"

void store_queue_push(struct store_queue *q, struct store_op *op)
{
	op->next = NULL;
	if (q->last)
		q->last->next = op;
	else
		q->first = op;
	q->last = op;
}

struct store_op *store_queue_pop(struct store_queue *q)
{
	struct store_op *op = q->first;

	if (op) {
		q->first = op->next;
		if (!q->first)
			q->last = NULL;
		op->next = NULL;
	}
	return op;
}

int store_wal_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;

	(void)db;
	(void)name;
	s->wal_pages = pages;
	return SQLITE_OK;
}

/* Without memory even this can fail: then begin() tries again, and nothing is committed before. */
static void rollback(struct store *s)
{
	if (!sqlite3_get_autocommit(s->writer.db))
		(void)sqlite3_exec(s->writer.db, "ROLLBACK", NULL, NULL, NULL);
}

/* The failure that an operation took no notice of, if SQLite still knows it. */
static int given_up(struct store_tx *tx, struct error *err)
{
	int rc = sqlite3_extended_errcode(tx->db);

	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
		return error_set(err, EIO, "the database %s gave up the transaction",
				 tx->store->path);
	return store_fault(tx, rc, "be changed", err);
}

/*
 * One operation in its savepoint. Fails when the transaction cannot go on: when SQLite gave it
 * up, even if the operation took no notice, or when an operation that refused cannot be undone.
 * Then *err says why, for the whole batch.
 */
static int apply_one(struct store *s, struct store_op *op, struct error *err)
{
	struct store_tx *tx = &s->writer;
	int r = store_exec(tx, "SAVEPOINT op", "begin a change", err);

	if (r < 0)
		return r;
	op->error = (struct error){0};
	op->result = op->apply(tx, op, &op->error);
	if (op->result < 0 && op->error.code == 0)
		(void)error_set(&op->error, -op->result, "%s", strerror(-op->result));
	if (sqlite3_get_autocommit(tx->db)) {
		if (op->result >= 0)
			return given_up(tx, err);
		*err = op->error;
		return op->result;
	}
	if (op->result < 0)
		r = store_exec(tx, "ROLLBACK TO op", "undo a change", err);
	return r < 0 ? r : store_exec(tx, "RELEASE op", "end a change", err);
}

/* The write-ahead log's header and each page's, and where the index of it tells its length. */
#define WAL_HEADER_BYTES 32
#define WAL_PAGE_HEADER_BYTES 24
#define WAL_INDEX_BYTES 32768
#define WAL_INDEX_VERSION 3007000
#define WAL_INDEX_PAGE_SIZE 14
#define WAL_INDEX_PAGES 16

/*
 * Cuts off what lies in the file behind the last commit that counts. When only the fsync of a
 * commit fails, all of it is in the file, and the next process to open the database would take it
 * for committed: an operation that was answered with an error would come true. The format is
 * SQLite's "WAL-mode file format"; the write lock is held by the caller.
 */
static int wal_cut_locked(sqlite3 *db)
{
	sqlite3_file *file = NULL, *wal = NULL;
	volatile void *index = NULL;
	uint32_t version, pages;
	uint16_t page_size;
	sqlite3_int64 size;

	(void)sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
	(void)sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
	if (!file || !file->pMethods || file->pMethods->iVersion < 2 || !wal || !wal->pMethods)
		return SQLITE_IOERR;
	int rc = file->pMethods->xShmMap(file, 0, WAL_INDEX_BYTES, 0, &index);
	if (rc != SQLITE_OK)
		return rc;
	if (!index)
		return SQLITE_IOERR;
	memcpy(&version, (const char *)index, sizeof(version));
	if (version != WAL_INDEX_VERSION)
		return SQLITE_IOERR;
	memcpy(&page_size, (const char *)index + WAL_INDEX_PAGE_SIZE, sizeof(page_size));
	memcpy(&pages, (const char *)index + WAL_INDEX_PAGES, sizeof(pages));
	sqlite3_int64 page_bytes = page_size == 1 ? 65536 : page_size;
	sqlite3_int64 end =
		pages ? WAL_HEADER_BYTES + (WAL_PAGE_HEADER_BYTES + page_bytes) * pages : 0;
	rc = wal->pMethods->xFileSize(wal, &size);
	if (rc != SQLITE_OK || size <= end)
		return rc;
	rc = wal->pMethods->xTruncate(wal, end);
	return rc == SQLITE_OK ? wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) : rc;
}

static void wal_cut(struct store *s)
{
	sqlite3 *db = s->writer.db;
	int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

	if (rc == SQLITE_OK) {
		rc = wal_cut_locked(db);
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	}
	s->unsettled = rc != SQLITE_OK;
}

static int begin(struct store *s, struct error *err)
{
	int moved = 0;

	rollback(s);
	if (s->unsettled)
		wal_cut(s);
	/* A database that was deleted would take changes and lose them with the process. */
	if (sqlite3_file_control(s->writer.db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) ==
		    SQLITE_OK &&
	    moved) {
		int r = error_set(err, EIO, "the database %s was removed or replaced while in use",
				  s->path);
		error_remedy(err, "put it back, or restart cloopd to use what is there now");
		return r;
	}
	return store_exec(&s->writer, "BEGIN IMMEDIATE", "begin a transaction", err);
}

static int commit(struct store *s, struct error *err)
{
	(void)fault_point("store.commit");
	int rc = sqlite3_exec(s->writer.db, "COMMIT", NULL, NULL, NULL);

	if (rc == SQLITE_OK) {
		(void)fault_point("store.committed");
		s->unsettled = false;
		return 0;
	}
	int r = store_fault(&s->writer, rc, "commit", err);
	rollback(s);
	wal_cut(s);
	if (s->unsettled)
		error_remedy(err,
			     "the change may show up after a restart of cloopd, as the disk did "
			     "not let it be taken back either");
	return r;
}

/*
 * Takes one batch off the queue, applies and commits it. On failure each operation of it has the
 * error, also one that refused by itself: perhaps because of a neighbour that is undone now.
 */
static int run_batch(struct store *s, struct store_queue *waiting, struct store_queue *batch,
		     bool *ret_committed)
{
	struct error err = {0};
	int64_t until = clock_boot_ns() + STORE_BATCH_NS;
	bool changed = false;
	int r = begin(s, &err);

	/* All that waited while a transaction could not begin waited long enough: no limit then. */
	for (unsigned n = 0; waiting->first && (r < 0 || n < STORE_BATCH_OPS_MAX); n++) {
		struct store_op *op = store_queue_pop(waiting);

		store_queue_push(batch, op);
		if (r < 0)
			continue;
		r = apply_one(s, op, &err);
		changed = changed || op->result >= 0;
		if (r < 0 || clock_boot_ns() >= until)
			break;
	}
	int64_t begun = clock_boot_ns();
	if (r == 0 && changed)
		r = commit(s, &err);
	else
		rollback(s);
	s->commit_ns = clock_boot_ns() - begun;
	*ret_committed = r == 0 && changed;
	for (struct store_op *op = batch->first; r < 0 && op; op = op->next) {
		op->error = err;
		op->result = r;
	}
	return r;
}

static void count_commit(struct store *s)
{
	static const int64_t bounds_ms[STORE_COMMIT_BUCKETS] = STORE_COMMIT_BOUNDS_MS;
	size_t i = 0;

	while (i < STORE_COMMIT_BUCKETS && s->commit_ns > bounds_ms[i] * CLOCK_NS_PER_MS)
		i++;
	if (i < STORE_COMMIT_BUCKETS)
		s->stats.commit_buckets[i]++;
	s->stats.commit_ns += s->commit_ns;
}

/* Hands a batch over to the loop. */
static void publish(struct store *s, struct store_queue *batch, bool failed, bool committed)
{
	(void)pthread_mutex_lock(&s->mutex);
	bool was_empty = !s->finished.first;
	for (struct store_op *op; (op = store_queue_pop(batch));) {
		if (failed)
			s->stats.failed++;
		else if (op->result < 0)
			s->stats.refused++;
		else
			s->stats.applied++;
		s->stats.waiting--;
		store_queue_push(&s->finished, op);
	}
	s->stats.commits += committed;
	if (committed)
		count_commit(s);
	s->stats.wal_pages = s->wal_pages;
	(void)pthread_cond_broadcast(&s->idle);
	(void)pthread_mutex_unlock(&s->mutex);
	if (was_empty && s->wake)
		s->wake(s->user);
}

static void checkpoint(struct store *s)
{
	sqlite3 *db = s->writer.db;
	int times = s->wal_pages / (s->wal_limit * STORE_WAL_TRUNCATE_TIMES);
	bool truncate = times > 0;
	int wait_ms = times < STORE_WAL_WAIT_MAX_MS / STORE_WAL_WAIT_MS ? times * STORE_WAL_WAIT_MS
									: STORE_WAL_WAIT_MAX_MS;

	/* A short log has started over. */
	if (s->wal_pages < s->wal_limit)
		s->checkpoint_from = s->wal_limit;
	if (s->wal_pages < s->checkpoint_from)
		return;
	(void)sqlite3_busy_timeout(db, wait_ms);
	/* A checkpoint that fails loses nothing; the next one does its work. */
	int rc = sqlite3_wal_checkpoint_v2(
		db, "main", truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, NULL,
		NULL);
	(void)sqlite3_busy_timeout(db, (int)s->busy_timeout_ms);
	if (truncate && rc == SQLITE_OK)
		s->wal_pages = 0;
	s->checkpoint_from = s->wal_pages + s->wal_limit;
}

void *store_writer_main(void *arg)
{
	struct store *s = arg;
	struct store_queue waiting = {0};

	for (;;) {
		(void)pthread_mutex_lock(&s->mutex);
		while (!s->queue.first && !s->closing)
			(void)pthread_cond_wait(&s->work, &s->mutex);
		waiting = s->queue;
		s->queue = (struct store_queue){0};
		(void)pthread_mutex_unlock(&s->mutex);
		if (!waiting.first)
			return NULL;
		while (waiting.first) {
			struct store_queue batch = {0};
			bool committed = false;
			int r = run_batch(s, &waiting, &batch, &committed);

			publish(s, &batch, r < 0, committed);
			if (committed)
				checkpoint(s);
		}
	}
}
