#include "core/store/query.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/internal.h"

static int prepare(struct store_tx *tx, const char *sql, sqlite3_stmt **ret, struct error *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v3(tx->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);

	if (rc != SQLITE_OK)
		return store_fault(tx, rc, "prepare a statement", err);
	*ret = stmt;
	return 0;
}

int store_query_begin(struct store_query *q, struct store_tx *tx, const char *sql,
		      struct error *err)
{
	struct store_stmt *kept = NULL;

	*q = (struct store_query){.tx = tx};
	for (size_t i = 0; i < tx->n_kept && !kept; i++)
		if (tx->kept[i].sql == sql)
			kept = &tx->kept[i];
	if (kept && !kept->busy) {
		kept->busy = true;
		q->kept = kept;
		q->stmt = kept->stmt;
		return 0;
	}

	/* The first use, or a function that runs inside its own rows: that one is not kept. */
	int r = prepare(tx, sql, &q->stmt, err);
	if (r < 0)
		return r;
	if (!kept && tx->n_kept < STORE_STATEMENTS_MAX) {
		q->kept = &tx->kept[tx->n_kept++];
		*q->kept = (struct store_stmt){.sql = sql, .stmt = q->stmt, .busy = true};
	}
	return 0;
}

static void bound(struct store_query *q, int rc)
{
	if (rc != SQLITE_OK && q->bind_rc == SQLITE_OK)
		q->bind_rc = rc;
}

void store_query_int(struct store_query *q, int64_t value)
{
	bound(q, sqlite3_bind_int64(q->stmt, ++q->n_bound, value));
}

void store_query_text(struct store_query *q, const char *value)
{
	bound(q, sqlite3_bind_text64(q->stmt, ++q->n_bound, value ? value : "",
				     value ? strlen(value) : 0, SQLITE_STATIC, SQLITE_UTF8));
}

int store_query_next(struct store_query *q, struct error *err)
{
	int rc = q->bind_rc != SQLITE_OK ? q->bind_rc : sqlite3_step(q->stmt);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE)
		return 0;
	return store_fault(q->tx, rc, sqlite3_stmt_readonly(q->stmt) ? "be read" : "be changed",
			   err);
}

int store_query_run(struct store_query *q, struct error *err)
{
	int r = store_query_next(q, err);

	return r < 0 ? r : sqlite3_changes(q->tx->db);
}

int64_t store_query_column_int(struct store_query *q, int column)
{
	return sqlite3_column_int64(q->stmt, column);
}

const char *store_query_column_view(struct store_query *q, int column, size_t *ret_len)
{
	const unsigned char *text = sqlite3_column_text(q->stmt, column);

	if (ret_len)
		*ret_len = text ? (size_t)sqlite3_column_bytes(q->stmt, column) : 0;
	return (const char *)text;
}

int store_query_column_dup(struct store_query *q, int column, char **ret, struct error *err)
{
	const char *text = store_query_column_view(q, column, NULL);

	/* No column of the schema is ever NULL. */
	char *copy = text ? strdup(text) : NULL;
	if (!copy)
		return error_oom(err);
	*ret = copy;
	return 0;
}

int store_query_column_word(struct store_query *q, int column, const char *const *words, size_t n,
			    size_t *ret, struct error *err)
{
	const char *text = store_query_column_view(q, column, NULL);

	if (!text)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(text, words[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	return error_set(err, EIO, "the database %s holds a word that nobody knows",
			 q->tx->store->path);
}

void store_query_end(struct store_query *q)
{
	if (!q->stmt)
		return;
	if (q->kept) {
		(void)sqlite3_reset(q->stmt);
		(void)sqlite3_clear_bindings(q->stmt);
		q->kept->busy = false;
	} else {
		(void)sqlite3_finalize(q->stmt);
	}
	*q = (struct store_query){0};
}

int store_query_scalar(struct store_query *q, int64_t *ret, struct error *err)
{
	int r = store_query_next(q, err);

	if (r < 0)
		return r;
	if (r == 0)
		return -ENOENT;
	*ret = store_query_column_int(q, 0);
	return 0;
}

int store_last_serial(struct store_tx *tx, const char *table, int64_t *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "SELECT seq FROM sqlite_sequence WHERE name = ?", err);

	if (r < 0)
		return r;
	store_query_text(&q, table);
	int64_t last = 0;
	r = store_query_scalar(&q, &last, err);
	if (r < 0 && r != -ENOENT)
		return r;
	*ret = last;
	return 0;
}

void *store_rows_grow(void *rows, size_t n, size_t *cap, size_t row_bytes)
{
	if (n < *cap)
		return rows;
	size_t more = *cap ? *cap * 2 : 16;
	void *grown = reallocarray(rows, more, row_bytes);
	if (grown)
		*cap = more;
	return grown;
}

bool store_tx_idle(struct store_tx *tx)
{
	for (sqlite3_stmt *stmt = sqlite3_next_stmt(tx->db, NULL); stmt;
	     stmt = sqlite3_next_stmt(tx->db, stmt))
		if (sqlite3_stmt_busy(stmt))
			return false;
	return true;
}
