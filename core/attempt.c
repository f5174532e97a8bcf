#include "core/attempt.h"

#include <errno.h>
#include <inttypes.h>

#include "core/store/query.h"

void attempt_clear(struct attempt *a)
{
	free(a->executor);
	free(a->handle_id);
	free(a->error);
	*a = (struct attempt){0};
}

void attempt_list_clear(struct attempt_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		attempt_clear(&list->rows[i]);
	free(list->rows);
	*list = (struct attempt_list){0};
}

/* In the order of read_attempt(). */
#define ATTEMPT_COLUMNS                                                                            \
	"serial, session, attempt, executor, executor_serial, state, cause, exit_code, signal, "   \
	"pid, handle_id, created_at, started_at, finished_at, deadline, log_bytes, "               \
	"log_dropped_bytes, moved_at, forgiven, error"

/* The counts of a session's row are those of all its attempts together. */
#define EARLIER(column)                                                                            \
	"(SELECT coalesce(sum(a." column "), 0) FROM attempt a "                                   \
	"WHERE a.session = s.serial AND a.attempt < s.attempt)"

int attempt_record(struct store_tx *tx, int64_t session, int64_t at_ns, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx,
		"INSERT INTO attempt (session, attempt, executor, executor_serial, state, cause, "
		"exit_code, signal, pid, handle_id, created_at, started_at, finished_at, deadline, "
		"log_bytes, log_dropped_bytes, moved_at, forgiven, error) "
		"SELECT s.serial, s.attempt, s.executor, s.executor_serial, s.state, s.cause, "
		"s.exit_code, s.signal, s.pid, s.handle_id, ?, s.started_at, s.finished_at, "
		"s.deadline, max(0, s.log_bytes - " EARLIER("log_bytes") "), "
		"max(0, s.log_dropped_bytes - " EARLIER("log_dropped_bytes") "), 0, 0, s.error "
		"FROM session s WHERE s.serial = ? "
		"ON CONFLICT (session, attempt) DO UPDATE SET executor = excluded.executor, "
		"executor_serial = excluded.executor_serial, state = excluded.state, "
		"cause = excluded.cause, exit_code = excluded.exit_code, signal = excluded.signal, "
		"pid = excluded.pid, handle_id = excluded.handle_id, "
		"started_at = excluded.started_at, finished_at = excluded.finished_at, "
		"deadline = excluded.deadline, log_bytes = excluded.log_bytes, "
		"log_dropped_bytes = excluded.log_dropped_bytes, error = excluded.error",
		err);

	if (r < 0)
		return r;
	store_query_int(&q, at_ns);
	store_query_int(&q, session);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int attempt_moved(struct store_tx *tx, int64_t session, int64_t at_ns, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "UPDATE attempt SET moved_at = ? WHERE session = ? AND attempt = "
				  "(SELECT attempt FROM session WHERE serial = ?)",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, at_ns);
	store_query_int(&q, session);
	store_query_int(&q, session);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int attempt_end(struct store_tx *tx, int64_t session, int64_t attempt,
		const struct session_finished *finished, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx,
		"UPDATE attempt SET state = ?, cause = ?, exit_code = ?, signal = ?, "
		/* Whoever tells that it was lost need not know when it started. */
		"pid = coalesce(nullif(?, 0), pid), "
		"started_at = coalesce(nullif(?, 0), started_at), finished_at = ?, error = ?, "
		"log_bytes = max(0, ? - (SELECT coalesce(sum(a.log_bytes), 0) FROM attempt a "
		"WHERE a.session = attempt.session AND a.attempt < attempt.attempt)), "
		"log_dropped_bytes = max(0, ? - (SELECT coalesce(sum(a.log_dropped_bytes), 0) "
		"FROM attempt a WHERE a.session = attempt.session "
		"AND a.attempt < attempt.attempt)) "
		"WHERE session = ? AND attempt = ? AND moved_at <> 0 AND finished_at = 0",
		err);

	if (r < 0)
		return r;
	store_query_text(&q, session_state_name(finished->state));
	store_query_text(&q, session_cause_name(finished->cause));
	store_query_int(&q, finished->exit_code);
	store_query_int(&q, finished->signal);
	store_query_int(&q, finished->pid);
	store_query_int(&q, finished->started_at_ns);
	store_query_int(&q, finished->finished_at_ns);
	store_query_text(&q, finished->error);
	store_query_int(&q, finished->log_bytes);
	store_query_int(&q, finished->log_dropped_bytes);
	store_query_int(&q, session);
	store_query_int(&q, attempt);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int attempt_forgive(struct store_tx *tx, int64_t session, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "UPDATE attempt SET forgiven = 1 WHERE session = ? AND forgiven = 0 "
				  "AND moved_at <> 0",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, session);
	return store_query_run(&q, err);
}

int attempt_forget(struct store_tx *tx, int64_t session, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM attempt WHERE session = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, session);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

static int read_attempt(struct store_query *q, struct attempt *ret, struct error *err)
{
	AUTO_ATTEMPT struct attempt a = {
		.serial = store_query_column_int(q, 0),
		.session = store_query_column_int(q, 1),
		.attempt = store_query_column_int(q, 2),
		.executor_serial = store_query_column_int(q, 4),
		.exit_code = (int)store_query_column_int(q, 7),
		.signal = (int)store_query_column_int(q, 8),
		.pid = store_query_column_int(q, 9),
		.created_at_ns = store_query_column_int(q, 11),
		.started_at_ns = store_query_column_int(q, 12),
		.finished_at_ns = store_query_column_int(q, 13),
		.deadline_ns = store_query_column_int(q, 14),
		.log_bytes = store_query_column_int(q, 15),
		.log_dropped_bytes = store_query_column_int(q, 16),
		.moved_at_ns = store_query_column_int(q, 17),
		.forgiven = store_query_column_int(q, 18) != 0,
	};
	int r = session_read_words(q, 5, &a.state, 6, &a.cause, err);

	if (r == 0)
		r = store_query_column_dup(q, 3, &a.executor, err);
	if (r == 0)
		r = store_query_column_dup(q, 10, &a.handle_id, err);
	if (r == 0)
		r = store_query_column_dup(q, 19, &a.error, err);
	if (r < 0)
		return r;
	*ret = a;
	a = (struct attempt){0};
	return 0;
}

/* The one row of a query whose parameters are bound. */
static int get_row(struct store_query *q, struct attempt *ret, struct error *err)
{
	int r = store_query_next(q, err);

	if (r == 0)
		return error_set(err, ENOENT, "there is no such attempt");
	return r < 0 ? r : read_attempt(q, ret, err);
}

int attempt_get(struct store_tx *tx, int64_t serial, struct attempt *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	return get_row(&q, ret, err);
}

int attempt_find(struct store_tx *tx, int64_t session, int64_t attempt, struct attempt *ret,
		 struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " ATTEMPT_COLUMNS
				  " FROM attempt WHERE session = ? AND attempt = ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, session);
	store_query_int(&q, attempt);
	return get_row(&q, ret, err);
}

static int read_list(struct store_query *q, struct attempt_list *ret, struct error *err)
{
	AUTO_ATTEMPT_LIST struct attempt_list list = {0};
	size_t cap = 0;
	int r;

	while ((r = store_query_next(q, err)) > 0) {
		struct attempt *rows = store_rows_grow(list.rows, list.n, &cap, sizeof(*rows));

		if (!rows)
			return error_oom(err);
		list.rows = rows;
		r = read_attempt(q, &list.rows[list.n], err);
		if (r < 0)
			return r;
		list.n++;
	}
	if (r < 0)
		return r;
	*ret = list;
	list = (struct attempt_list){0};
	return 0;
}

int attempt_list(struct store_tx *tx, int64_t session, struct attempt_list *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " ATTEMPT_COLUMNS
				  " FROM attempt WHERE session = ? ORDER BY attempt",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, session);
	return read_list(&q, ret, err);
}

int attempt_list_open(struct store_tx *tx, int64_t session, struct attempt_list *ret,
		      struct error *err)
{
	static const char all[] = "SELECT " ATTEMPT_COLUMNS
				  " FROM attempt INDEXED BY attempt_open WHERE moved_at <> 0 "
				  "AND finished_at = 0 ORDER BY session, attempt";
	static const char one[] = "SELECT " ATTEMPT_COLUMNS
				  " FROM attempt INDEXED BY attempt_open WHERE moved_at <> 0 "
				  "AND finished_at = 0 AND session = ? ORDER BY attempt";
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, session ? one : all, err);

	if (r < 0)
		return r;
	if (session)
		store_query_int(&q, session);
	return read_list(&q, ret, err);
}
