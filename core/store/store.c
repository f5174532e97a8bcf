#include "core/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/store/internal.h"

/* A UUID and its newline. */
#define BOOT_ID_MAX 64

static int read_boot_id(char **ret, struct error *err)
{
	char id[BOOT_ID_MAX];
	AUTO_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);

	if (n <= 0)
		return error_set(err, errno ? errno : EIO, "cannot read the machine's boot id");
	id[n] = '\0';
	id[strcspn(id, "\n")] = '\0';
	char *copy = strdup(id);
	if (!copy)
		return error_oom(err);
	*ret = copy;
	return 0;
}

static int take_options(struct store *s, const char *path, const struct store_options *opts,
			struct error *err)
{
	s->wake = opts->wake;
	s->user = opts->user;
	s->busy_timeout_ms = opts->busy_timeout_ms ? opts->busy_timeout_ms : STORE_BUSY_TIMEOUT_MS;
	s->schema = opts->schema ? opts->schema : &store_schema_builtin;
	s->check_bytes = opts->check_bytes ? opts->check_bytes : STORE_CHECK_BYTES;
	s->wal_limit = opts->wal_pages ? opts->wal_pages : STORE_WAL_PAGES;
	s->checkpoint_from = s->wal_limit;
	s->path = strdup(path);
	if (!s->path)
		return error_oom(err);
	if (opts->vfs) {
		s->vfs = strdup(opts->vfs);
		if (!s->vfs)
			return error_oom(err);
	}
	if (!opts->boot_id)
		return read_boot_id(&s->boot_id, err);
	s->boot_id = strdup(opts->boot_id);
	return s->boot_id ? 0 : error_oom(err);
}

/* The checks that come before the first byte is written. */
static int inspect(struct store *s, const struct store_files *files, struct error *err)
{
	int r = store_identify(s, err);

	if (r < 0)
		return r;
	if (files->bytes > s->check_bytes && files->sound)
		return 0;
	s->stats.checked = true;
	return store_check(s, err);
}

static int switch_to_wal(struct store_tx *tx, struct error *err)
{
	AUTO_STMT sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(tx->db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return store_fault(tx, rc, "switch to a write-ahead log", err);
	const char *mode = (const char *)sqlite3_column_text(stmt, 0);
	if (!mode)
		return error_oom(err);
	if (strcmp(mode, "wal") != 0)
		return error_set(err, EIO, "the database %s cannot have a write-ahead log there",
				 tx->store->path);
	return 0;
}

static int prepare_writer(struct store *s, struct error *err)
{
	struct store_tx *tx = &s->writer;

	if (sqlite3_db_readonly(tx->db, "main") == 1) {
		int r = error_set(err, EROFS, "the database %s is read-only", s->path);
		error_remedy(err, "mount the file system that holds it read-write");
		return r;
	}
	int r = switch_to_wal(tx, err);
	if (r < 0)
		return r;
	(void)sqlite3_wal_hook(tx->db, store_wal_hook, s);
	/*
	 * FULL: each commit is synced. The limit cuts the file of a log that once grew. In memory:
	 * what a savepoint must be able to undo would else go to /tmp, which has its own ways to
	 * fail.
	 */
	r = store_exec(tx,
		       "PRAGMA synchronous = FULL; PRAGMA cell_size_check = ON;"
		       "PRAGMA journal_size_limit = 16777216; PRAGMA temp_store = MEMORY;",
		       "be set up", err);
	/* Whoever holds the database for good is named now, not at the first change. */
	if (r == 0)
		r = store_exec(tx, "BEGIN IMMEDIATE; ROLLBACK", "be locked", err);
	if (r == 0)
		r = store_migrate(s, err);
	return r == 0 ? store_compare_schema(s, err) : r;
}

static int start_writer(struct store *s, struct error *err)
{
	sigset_t all, before;

	/* Signals are the loop's. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int code = pthread_create(&s->thread, NULL, store_writer_main, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code != 0)
		return error_set(err, code, "cannot start the store's writer thread: %s",
				 strerror(code));
	(void)pthread_setname_np(s->thread, "store");
	s->running = true;
	return 0;
}

static int open_all(struct store *s, struct error *err)
{
	struct store_files files;
	int r = store_files_prepare(s, &files, err);

	if (r == 0)
		r = store_connect(s, &s->writer, err);
	if (r < 0)
		return r;
	/* Closing would put the log of a database that is refused into it. */
	(void)sqlite3_db_config(s->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
				(int)files.wal_present, NULL);
	r = inspect(s, &files, err);
	if (r == 0)
		r = prepare_writer(s, err);
	if (r == 0)
		r = store_connect(s, &s->reader, err);
	if (r == 0)
		r = store_exec(&s->reader, "PRAGMA query_only = ON; PRAGMA cell_size_check = ON;",
			       "be set up", err);
	if (r < 0)
		return r;
	(void)sqlite3_busy_timeout(s->reader.db, STORE_READER_BUSY_TIMEOUT_MS);
	(void)sqlite3_db_config(s->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	/* Starts with an empty log; when that fails, the next checkpoint does it. */
	(void)sqlite3_wal_checkpoint_v2(s->writer.db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL,
					NULL);
	store_files_mark_open(s);
	s->opened = true;
	return start_writer(s, err);
}

int store_open(const char *path, const struct store_options *opts, struct store **ret,
	       struct error *err)
{
	AUTO_STORE struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return error_oom(err);
	s->lock_fd = -1;
	(void)pthread_mutex_init(&s->mutex, NULL);
	(void)pthread_cond_init(&s->work, NULL);
	(void)pthread_cond_init(&s->idle, NULL);
	int r = take_options(s, path, opts, err);
	if (r == 0)
		r = open_all(s, err);
	if (r < 0)
		return r;
	*ret = take_ptr(s);
	return 0;
}

void store_submit(struct store *s, struct store_op *op)
{
	(void)pthread_mutex_lock(&s->mutex);
	store_queue_push(&s->queue, op);
	s->stats.waiting++;
	(void)pthread_mutex_unlock(&s->mutex);
	/* Behind the lock, or the writer wakes only to wait for it. */
	(void)pthread_cond_signal(&s->work);
}

void store_dispatch(struct store *s)
{
	(void)pthread_mutex_lock(&s->mutex);
	struct store_queue finished = s->finished;
	s->finished = (struct store_queue){0};
	(void)pthread_mutex_unlock(&s->mutex);

	for (struct store_op *op; (op = store_queue_pop(&finished));)
		op->done(op, op->result, op->result < 0 ? &op->error : NULL);
}

void store_flush(struct store *s)
{
	for (;;) {
		(void)pthread_mutex_lock(&s->mutex);
		while (!s->finished.first && s->stats.waiting > 0)
			(void)pthread_cond_wait(&s->idle, &s->mutex);
		bool more = s->finished.first;
		(void)pthread_mutex_unlock(&s->mutex);
		if (!more)
			return;
		store_dispatch(s);
	}
}

struct store_tx *store_reader(struct store *s)
{
	return &s->reader;
}

void store_get_stats(struct store *s, struct store_stats *ret)
{
	(void)pthread_mutex_lock(&s->mutex);
	*ret = s->stats;
	(void)pthread_mutex_unlock(&s->mutex);
}

struct store *store_free(struct store *s)
{
	if (!s)
		return NULL;
	if (s->running) {
		store_flush(s);
		(void)pthread_mutex_lock(&s->mutex);
		s->closing = true;
		(void)pthread_cond_signal(&s->work);
		(void)pthread_mutex_unlock(&s->mutex);
		(void)pthread_join(s->thread, NULL);
	}
	store_disconnect(&s->reader);
	store_disconnect(&s->writer);
	if (s->opened)
		store_files_mark_closed(s);
	s->lock_fd = close_fd(s->lock_fd);
	(void)pthread_cond_destroy(&s->idle);
	(void)pthread_cond_destroy(&s->work);
	(void)pthread_mutex_destroy(&s->mutex);
	free(s->boot_id);
	free(s->vfs);
	free(s->path);
	free(s);
	return NULL;
}
