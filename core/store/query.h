/*
 * Statements, for the modules that own tables. The same functions serve the writer (inside an
 * operation's apply()) and the reader (any time on the loop thread).
 *
 *	AUTO_QUERY struct store_query q = {0};
 *	int r = store_query_begin(&q, tx, "SELECT name FROM session WHERE serial = ?", err);
 *	if (r < 0)
 *		return r;
 *	store_query_int(&q, serial);
 *	r = store_query_next(&q, err);
 *
 * Parameters are bound in order, the error of a bind is reported by the next step. A query that
 * goes out of scope is reset, so no read transaction outlives the function that began it; that is
 * what keeps the write-ahead log short. Statements are prepared once and kept for each connection:
 * `sql` must be a string with static storage, and its address is its identity.
 */
#ifndef CLOOP_CORE_STORE_QUERY_H
#define CLOOP_CORE_STORE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

struct sqlite3_stmt;
struct store_stmt;
struct store_tx;

struct store_query {
	struct store_tx *tx;
	struct sqlite3_stmt *stmt;
	struct store_stmt *kept; /* where it goes back to; NULL when it is not kept */
	int n_bound;
	int bind_rc;
};

int store_query_begin(struct store_query *q, struct store_tx *tx, const char *sql,
		      struct error *err);

/* Bind the next parameter. Text is not copied and must live as long as the query; NULL is "". */
void store_query_int(struct store_query *q, int64_t value);
void store_query_text(struct store_query *q, const char *value);

/* Steps: 1 when there is a row, 0 at the end, negative errno. */
int store_query_next(struct store_query *q, struct error *err);

/*
 * Runs a statement that gives no rows: the number of rows it changed, or negative errno. EEXIST
 * for a unique key that is taken, EINVAL for a value that the schema refuses.
 */
int store_query_run(struct store_query *q, struct error *err);

/* Columns of the current row, from 0. A view is valid until the next step; NULL: no memory. */
int64_t store_query_column_int(struct store_query *q, int column);
const char *store_query_column_view(struct store_query *q, int column, size_t *ret_len);
/* A copy; never NULL on success. */
int store_query_column_dup(struct store_query *q, int column, char **ret, struct error *err);

/* Which of n words the column is; the schema lets no other one in (-EIO). */
int store_query_column_word(struct store_query *q, int column, const char *const *words, size_t n,
			    size_t *ret, struct error *err);

/* Resets the statement. Accepts a query whose begin failed. */
void store_query_end(struct store_query *q);

#define AUTO_QUERY CLEANUP(store_query_end)

/*
 * Runs a query of one integer column and at most one row: 0, or -ENOENT when there is no row (err
 * untouched), or the failure.
 */
int store_query_scalar(struct store_query *q, int64_t *ret, struct error *err);

/* The last value that an AUTOINCREMENT table ever gave out; 0 when none. Deleted rows count. */
int store_last_serial(struct store_tx *tx, const char *table, int64_t *ret, struct error *err);

/*
 * For lists of rows: makes room for one more than n of them. Returns the array, moved or not, or
 * NULL when out of memory, and then the old one is as it was.
 */
void *store_rows_grow(void *rows, size_t n, size_t *cap, size_t row_bytes);

/* Whether no statement of this connection is in the middle of its rows. */
bool store_tx_idle(struct store_tx *tx);

#endif
