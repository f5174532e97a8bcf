/*
 * What the files of the store share; beside them only their tests include it.
 */
#ifndef CLOOP_CORE_STORE_INTERNAL_H
#define CLOOP_CORE_STORE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/store/store.h"

OWNER_DEFINE(sqlite3_stmt, stmt, (void)sqlite3_finalize);
#define AUTO_STMT CLEANUP(owner_stmtp)

/* More statements than the modules have between them; one past it is prepared for each use. */
#define STORE_STATEMENTS_MAX 96

struct store_stmt {
	const char *sql;
	sqlite3_stmt *stmt;
	bool busy;
};

/* One connection with its statements. Belongs to one thread. */
struct store_tx {
	struct store *store;
	sqlite3 *db;
	struct store_stmt kept[STORE_STATEMENTS_MAX];
	size_t n_kept;
};

struct store_queue {
	struct store_op *first;
	struct store_op *last;
};

struct store {
	char *path;
	int lock_fd;
	void (*wake)(void *user);
	void *user;
	unsigned busy_timeout_ms;
	char *boot_id;
	char *vfs;
	const struct store_schema *schema;
	int64_t check_bytes;
	int wal_limit;

	struct store_tx reader; /* loop thread */
	struct store_tx writer; /* writer thread, once it runs */

	/* Writer thread only. */
	int64_t commit_ns;   /* how long the last commit took; the writer's */
	int wal_pages;       /* in the write-ahead log, told by SQLite after each commit */
	int checkpoint_from; /* pages from which the next checkpoint is tried */
	bool unsettled;      /* a failed commit may still lie behind the log's end */

	bool opened;         /* accepted: an orderly close is recorded as such */
	atomic_bool suspect; /* any thread: damage was seen, the next start checks everything */

	bool running;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t work; /* for the writer: queue not empty, or closing */
	pthread_cond_t idle; /* for store_flush(): something finished */
	/* Under the mutex. */
	struct store_queue queue;
	struct store_queue finished;
	bool closing;
	struct store_stats stats;
};

void store_queue_push(struct store_queue *q, struct store_op *op);
struct store_op *store_queue_pop(struct store_queue *q);

/* connection.c: what SQLite says, in the project's words. Returns a negative errno. */
int store_fault(struct store_tx *tx, int rc, const char *doing, struct error *err);
int store_connect(struct store *s, struct store_tx *tx, struct error *err);
void store_disconnect(struct store_tx *tx);
int store_exec(struct store_tx *tx, const char *sql, const char *doing, struct error *err);
/* A pragma or query of one integer. */
int store_get_int(struct store_tx *tx, const char *sql, const char *doing, int64_t *ret,
		  struct error *err);

/* files.c: the lock file and the database file before SQLite sees it. */
struct store_files {
	bool wal_present; /* a write-ahead log with content was there */
	bool sound;       /* known from the last process, see STORE_CHECK_BYTES */
	int64_t bytes;    /* of database and log */
};
int store_files_prepare(struct store *s, struct store_files *ret, struct error *err);
void store_files_mark_open(struct store *s);
void store_files_mark_closed(struct store *s);
void store_files_mark_suspect(struct store *s);

/* migrate.c */
struct store_migration {
	int version;
	const char *name;
	const char *sql;
};
struct store_schema {
	const struct store_migration *migrations; /* versions 1, 2, 3, … */
	size_t n;
};
/* Generated from schema/NNN.sql at build time. */
extern const struct store_schema store_schema_builtin;

/* "cloo" in the header of the file (PRAGMA application_id). */
#define STORE_APPLICATION_ID 0x636c6f6f

int store_identify(struct store *s, struct error *err);
int store_check(struct store *s, struct error *err);
int store_migrate(struct store *s, struct error *err);
int store_compare_schema(struct store *s, struct error *err);

/* writer.c */
void *store_writer_main(void *arg);
int store_wal_hook(void *arg, sqlite3 *db, const char *name, int pages);

#endif
