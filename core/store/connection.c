#include "core/store/internal.h"

#include <errno.h>
#include <string.h>

#include "core/store/query.h"

static bool telling(int code)
{
	return code == ENOSPC || code == EDQUOT || code == EROFS || code == EACCES;
}

/* The errno of the last failed call on one of the connection's files. */
static int file_errno(sqlite3 *db, int which)
{
	sqlite3_file *file = NULL;
	int code = 0;

	(void)sqlite3_file_control(db, "main", which, &file);
	if (file && file->pMethods)
		(void)file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &code);
	return code;
}

/*
 * The errno that SQLite met, when it says more than "I/O error". A failed COMMIT keeps it with the
 * file, a failed statement with the connection.
 */
static int io_errno(sqlite3 *db, int rc)
{
	const int codes[] = {
		file_errno(db, SQLITE_FCNTL_JOURNAL_POINTER),
		file_errno(db, SQLITE_FCNTL_FILE_POINTER),
		sqlite3_system_errno(db),
	};

	/* A file that could not be opened has no errno of its own. */
	for (size_t i = (rc & 0xff) == SQLITE_CANTOPEN ? 2 : 0; i < ARRAY_SIZE(codes); i++)
		if (telling(codes[i]))
			return codes[i];
	return EIO;
}

static int fault_errno(sqlite3 *db, int rc)
{
	if (rc == SQLITE_IOERR_NOMEM)
		return ENOMEM;
	if (rc == SQLITE_READONLY_DBMOVED)
		return EIO;
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return db ? io_errno(db, rc) : EIO;
	case SQLITE_READONLY:
		return EROFS;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return EBUSY;
	case SQLITE_NOMEM:
		return ENOMEM;
	case SQLITE_TOOBIG:
		return EFBIG;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return EACCES;
	case SQLITE_CONSTRAINT:
		return rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY ||
				       rc == SQLITE_CONSTRAINT_ROWID
			       ? EEXIST
			       : EINVAL;
	default:
		return EIO;
	}
}

static const char *fault_remedy(int code)
{
	switch (code) {
	case ENOSPC:
		return "free space on the file system that holds it, then try again";
	case EDQUOT:
		return "raise the quota or free space, then try again";
	case EROFS:
		return "mount the file system that holds it read-write, then try again";
	case EBUSY:
		return "end the program that holds it (an open sqlite3 shell?), then try again";
	case EIO:
		return "look for disk errors in the kernel log";
	default:
		return "";
	}
}

int store_fault(struct store_tx *tx, int rc, const char *doing, struct error *err)
{
	int code = fault_errno(tx->db, rc);

	if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB)
		store_files_mark_suspect(tx->store);
	if (code == ENOMEM)
		return error_oom(err);
	/* The message names tables and columns, never a value. */
	int r = error_set(err, code, "the database %s could not %s: %s", tx->store->path, doing,
			  telling(code) ? strerror(code)
			  : tx->db      ? sqlite3_errmsg(tx->db)
					: sqlite3_errstr(rc));
	error_remedy(err, "%s", fault_remedy(code));
	return r;
}

int store_connect(struct store *s, struct store_tx *tx, struct error *err)
{
	tx->store = s;
	/* One thread a connection, so SQLite needs no mutex of its own. */
	int rc = sqlite3_open_v2(
		s->path, &tx->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, s->vfs);
	if (rc != SQLITE_OK)
		return store_fault(tx, rc, "be opened", err);
	(void)sqlite3_busy_timeout(tx->db, (int)s->busy_timeout_ms);
	(void)sqlite3_limit(tx->db, SQLITE_LIMIT_LENGTH, STORE_ROW_MAX);
	(void)sqlite3_db_config(tx->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(tx->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return 0;
}

void store_disconnect(struct store_tx *tx)
{
	for (size_t i = 0; i < tx->n_kept; i++)
		(void)sqlite3_finalize(tx->kept[i].stmt);
	tx->n_kept = 0;
	(void)sqlite3_close_v2(tx->db);
	tx->db = NULL;
}

int store_exec(struct store_tx *tx, const char *sql, const char *doing, struct error *err)
{
	int rc = sqlite3_exec(tx->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : store_fault(tx, rc, doing, err);
}

int store_get_int(struct store_tx *tx, const char *sql, const char *doing, int64_t *ret,
		  struct error *err)
{
	AUTO_STMT sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(tx->db, sql, -1, &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return store_fault(tx, rc, doing, err);
	*ret = sqlite3_column_int64(stmt, 0);
	return 0;
}
