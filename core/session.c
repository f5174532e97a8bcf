#include "core/session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/attempt.h"
#include "core/store/query.h"

static const char *const state_names[] = {
	[SESSION_PENDING] = "pending", [SESSION_RUNNING] = "running", [SESSION_EXITED] = "exited",
	[SESSION_FAILED] = "failed",   [SESSION_KILLED] = "killed",   [SESSION_UNKNOWN] = "unknown",
};

static const char *const cause_names[] = {
	[SESSION_CAUSE_NONE] = "",         [SESSION_CAUSE_EXIT] = "exit",
	[SESSION_CAUSE_SIGNAL] = "signal", [SESSION_CAUSE_TIMEOUT] = "timeout",
	[SESSION_CAUSE_OOM] = "oom",       [SESSION_CAUSE_START] = "start",
	[SESSION_CAUSE_LOST] = "lost",
};

const char *session_state_name(enum session_state state)
{
	return state_names[state];
}

const char *session_cause_name(enum session_cause cause)
{
	return cause_names[cause];
}

bool session_state_live(enum session_state state)
{
	return state == SESSION_PENDING || state == SESSION_RUNNING;
}

bool session_state_finished(enum session_state state)
{
	return state == SESSION_EXITED || state == SESSION_FAILED || state == SESSION_KILLED;
}

int session_read_words(struct store_query *q, int state_column, enum session_state *ret_state,
		       int cause_column, enum session_cause *ret_cause, struct error *err)
{
	size_t state = 0, cause = 0;
	int r = store_query_column_word(q, state_column, state_names, ARRAY_SIZE(state_names), &state,
					err);

	if (r == 0)
		r = store_query_column_word(q, cause_column, cause_names, ARRAY_SIZE(cause_names),
					    &cause, err);
	if (r < 0)
		return r;
	*ret_state = (enum session_state)state;
	*ret_cause = (enum session_cause)cause;
	return 0;
}

void session_clear(struct session *s)
{
	free(s->name);
	free(s->executor);
	free(s->boot_id);
	free(s->handle_id);
	free(s->claim_token);
	free(s->project_path);
	free(s->error);
	free(s->requirements);
	free(s->spec);
	free(s->groups);
	free(s->image);
	*s = (struct session){0};
}

void session_list_clear(struct session_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		session_clear(&list->rows[i]);
	free(list->rows);
	*list = (struct session_list){0};
}

/* In the order of bind_session() and read_session(). */
#define SESSION_COLUMNS                                                                            \
	"serial, name, executor, executor_serial, uid, gid, state, cause, exit_code, signal, "     \
	"pid, boot_id, handle_id, claim_token, attempt, created_at, started_at, finished_at, "     \
	"deadline, log_bytes, log_dropped_bytes, log_quota_bytes, origin_mount, origin_unique, "   \
	"project_path, task_id, error, requirements, spec, groups, start_file, "      \
	"project_serial, image"

#define SESSION_LIVE "state IN ('pending', 'running')"

static void bind_session(struct store_query *q, const struct session *s)
{
	store_query_int(q, s->serial);
	store_query_text(q, s->name);
	store_query_text(q, s->executor);
	store_query_int(q, s->executor_serial);
	store_query_int(q, s->uid);
	store_query_int(q, s->gid);
	store_query_text(q, session_state_name(s->state));
	store_query_text(q, session_cause_name(s->cause));
	store_query_int(q, s->exit_code);
	store_query_int(q, s->signal);
	store_query_int(q, s->pid);
	store_query_text(q, s->boot_id);
	store_query_text(q, s->handle_id);
	store_query_text(q, s->claim_token);
	store_query_int(q, s->attempt);
	store_query_int(q, s->created_at_ns);
	store_query_int(q, s->started_at_ns);
	store_query_int(q, s->finished_at_ns);
	store_query_int(q, s->deadline_ns);
	store_query_int(q, s->log_bytes);
	store_query_int(q, s->log_dropped_bytes);
	store_query_int(q, s->log_quota_bytes);
	store_query_int(q, (int64_t)s->origin_mount);
	store_query_int(q, (int64_t)s->origin_unique);
	store_query_text(q, s->project_path);
	store_query_int(q, s->task_id);
	store_query_text(q, s->error);
	store_query_text(q, s->requirements);
	store_query_text(q, s->spec);
	store_query_text(q, s->groups);
	store_query_int(q, (int64_t)s->start_file);
	store_query_int(q, s->project_serial);
	store_query_text(q, s->image ? s->image : "");
}

static int read_session(struct store_query *q, struct session *ret, struct error *err)
{
	AUTO_SESSION struct session s = {
		.serial = store_query_column_int(q, 0),
		.executor_serial = store_query_column_int(q, 3),
		.uid = (uid_t)store_query_column_int(q, 4),
		.gid = (gid_t)store_query_column_int(q, 5),
		.exit_code = (int)store_query_column_int(q, 8),
		.signal = (int)store_query_column_int(q, 9),
		.pid = (pid_t)store_query_column_int(q, 10),
		.attempt = store_query_column_int(q, 14),
		.created_at_ns = store_query_column_int(q, 15),
		.started_at_ns = store_query_column_int(q, 16),
		.finished_at_ns = store_query_column_int(q, 17),
		.deadline_ns = store_query_column_int(q, 18),
		.log_bytes = store_query_column_int(q, 19),
		.log_dropped_bytes = store_query_column_int(q, 20),
		.log_quota_bytes = store_query_column_int(q, 21),
		.origin_mount = (uint64_t)store_query_column_int(q, 22),
		.origin_unique = (uint64_t)store_query_column_int(q, 23),
		.task_id = store_query_column_int(q, 25),
		.start_file = (uint64_t)store_query_column_int(q, 30),
		.project_serial = store_query_column_int(q, 31),
	};
	const struct {
		int column;
		char **text;
	} texts[] = {
		{1, &s.name},       {2, &s.executor},      {11, &s.boot_id},
		{12, &s.handle_id}, {13, &s.claim_token},  {24, &s.project_path},
		{26, &s.error},     {27, &s.requirements}, {28, &s.spec},
		{29, &s.groups},    {32, &s.image},
	};

	int r = session_read_words(q, 6, &s.state, 7, &s.cause, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = store_query_column_dup(q, texts[i].column, texts[i].text, err);
	if (r < 0)
		return r;
	*ret = s;
	s = (struct session){0};
	return 0;
}

int session_last_serial(struct store_tx *tx, int64_t *ret, struct error *err)
{
	return store_last_serial(tx, "session", ret, err);
}

/* Says which of the keys was taken; the row cannot be inserted, so one of these finds it. */
static int insert_conflict(struct store_tx *tx, const struct session *s, struct error *err)
{
	AUTO_SESSION struct session other = {0};
	int r = session_get_by_name(tx, s->name, &other, NULL);

	if (r == 0) {
		r = error_set(err, EEXIST, "there is a session \"%s\" already", s->name);
		error_field(err, "name");
		error_remedy(err, "choose another name, or remove that session");
		return r;
	}
	if (r != -ENOENT)
		return error_set(err, -r, "cannot find out which session is in the way");
	bool serial = session_get(tx, s->serial, &other, NULL) == 0;
	r = error_set(err, EEXIST,
		      serial ? "there is a session with serial %" PRId64 " already"
			     : "the request that asks for session %" PRId64
			       " has started one before",
		      s->serial);
	error_field(err, serial ? "serial" : "origin");
	return r;
}

int session_insert(struct store_tx *tx, const struct session *s, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "INSERT INTO session (" SESSION_COLUMNS ") VALUES ("
				  "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
				  "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				  err);

	if (r < 0)
		return r;
	bind_session(&q, s);
	r = store_query_run(&q, err);
	if (r == -EEXIST)
		return insert_conflict(tx, s, err);
	return r < 0 ? r : attempt_record(tx, s->serial, s->created_at_ns, err);
}

/* A conditional UPDATE changed nothing: why? */
static int claim_refusal(struct store_tx *tx, int64_t serial, const char *claim_token,
			 struct error *err)
{
	AUTO_SESSION struct session s = {0};
	int r = session_get(tx, serial, &s, err);

	if (r < 0)
		return r;
	if (strcmp(s.claim_token, claim_token) != 0)
		return error_set_kind(err, ESTALE, ERROR_SESSION_CLAIM_LOST,
				      "the claim on session \"%s\" was lost to another requeue",
				      s.name);
	return error_set(err, EALREADY, "session \"%s\" is %s already", s.name,
			 session_state_name(s.state));
}

/* at_ns: when the attempt that the session is at now came to be, if there is no row of it yet. */
static int run_claimed(struct store_query *q, int64_t serial, const char *claim_token, int64_t at_ns,
		       struct error *err)
{
	store_query_int(q, serial);
	store_query_text(q, claim_token);
	int r = store_query_run(q, err);

	if (r == 0)
		return claim_refusal(q->tx, serial, claim_token, err);
	return r < 0 ? r : attempt_record(q->tx, serial, at_ns, err);
}

#define WHERE_CLAIMED " WHERE serial = ? AND claim_token = ? AND "

int session_place(struct store_tx *tx, int64_t serial, const char *claim_token,
		  const struct session_placement *placement, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "UPDATE session SET executor = ?, executor_serial = ?, "
				  "handle_id = ?, boot_id = ?, error = ''" WHERE_CLAIMED
				  "state = 'pending' AND executor_serial = 0",
				  err);

	if (r < 0)
		return r;
	store_query_text(&q, placement->executor);
	store_query_int(&q, placement->executor_serial);
	store_query_text(&q, placement->handle_id);
	store_query_text(&q, placement->boot_id);
	return run_claimed(&q, serial, claim_token, 0, err);
}

int session_set_running(struct store_tx *tx, int64_t serial, const char *claim_token,
			const struct session_running *running, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx,
		"UPDATE session SET state = 'running', handle_id = ?, pid = ?, "
		"boot_id = ?, started_at = ?, deadline = ?, image = ?" WHERE_CLAIMED SESSION_LIVE,
		err);

	if (r < 0)
		return r;
	store_query_text(&q, running->handle_id);
	store_query_int(&q, running->pid);
	store_query_text(&q, running->boot_id);
	store_query_int(&q, running->started_at_ns);
	store_query_int(&q, running->deadline_ns);
	store_query_text(&q, running->image ? running->image : "");
	return run_claimed(&q, serial, claim_token, running->started_at_ns, err);
}

int session_set_finished(struct store_tx *tx, int64_t serial, const char *claim_token,
			 const struct session_finished *finished, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};

	if (!session_state_finished(finished->state))
		return error_set(err, EINVAL, "a session cannot finish as %s",
				 session_state_name(finished->state));
	int r = store_query_begin(&q, tx,
				  "UPDATE session SET state = ?, cause = ?, exit_code = ?, "
				  "signal = ?, pid = ?, started_at = ?, finished_at = ?, error = ?, log_bytes = ?, "
				  "log_dropped_bytes = ?, "
				  "origin_unique = CASE WHEN ? THEN 0 ELSE origin_unique END" WHERE_CLAIMED
				  SESSION_LIVE,
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
	store_query_int(&q, finished->answered);
	return run_claimed(&q, serial, claim_token, finished->finished_at_ns, err);
}

int session_set_pending(struct store_tx *tx, int64_t serial, const char *claim_token,
			const struct session_requeue *requeue, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx,
		"UPDATE session SET state = 'pending', claim_token = ?, "
		"attempt = attempt + 1, executor = ?, executor_serial = ?, "
		"boot_id = ?, error = ?, handle_id = '', pid = 0, started_at = 0, "
		"deadline = 0" WHERE_CLAIMED SESSION_LIVE,
		err);

	if (r >= 0)
		r = attempt_moved(tx, serial, requeue->at_ns, err);
	if (r < 0)
		return r;
	store_query_text(&q, requeue->new_token);
	store_query_text(&q, requeue->executor);
	store_query_int(&q, requeue->executor_serial);
	store_query_text(&q, requeue->boot_id);
	store_query_text(&q, requeue->error);
	return run_claimed(&q, serial, claim_token, requeue->at_ns, err);
}

int session_give_up(struct store_tx *tx, int64_t serial, const char *claim_token,
		    const char *new_token, const char *error, int64_t at_ns, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx, "UPDATE session SET claim_token = ?, error = ?" WHERE_CLAIMED SESSION_LIVE, err);

	if (r >= 0)
		r = attempt_moved(tx, serial, at_ns, err);
	if (r < 0)
		return r;
	store_query_text(&q, new_token);
	store_query_text(&q, error);
	return run_claimed(&q, serial, claim_token, at_ns, err);
}

static int absent(struct error *err, int64_t serial)
{
	return error_set(err, ENOENT, "there is no session with serial %" PRId64, serial);
}

int session_set_error(struct store_tx *tx, int64_t serial, const char *error, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "UPDATE session SET error = ? WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_text(&q, error);
	store_query_int(&q, serial);
	r = store_query_run(&q, err);
	if (r == 0)
		return absent(err, serial);
	return r < 0 ? r : attempt_record(tx, serial, 0, err);
}

int session_delete(struct store_tx *tx, int64_t serial, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM session WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	r = store_query_run(&q, err);
	if (r == 0)
		return absent(err, serial);
	return r < 0 ? r : attempt_forget(tx, serial, err);
}

/* The one row of a query whose parameters are bound: 1, 0 when there is none. */
static int get_row(struct store_query *q, struct session *ret, struct error *err)
{
	int r = store_query_next(q, err);

	if (r <= 0)
		return r;
	r = read_session(q, ret, err);
	return r < 0 ? r : 1;
}

int session_get(struct store_tx *tx, int64_t serial, struct session *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " SESSION_COLUMNS " FROM session WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	r = get_row(&q, ret, err);
	if (r == 0)
		return absent(err, serial);
	return r < 0 ? r : 0;
}

int session_get_by_name(struct store_tx *tx, const char *name, struct session *ret,
			struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "SELECT " SESSION_COLUMNS " FROM session WHERE name = ?",
				  err);

	if (r < 0)
		return r;
	store_query_text(&q, name);
	r = get_row(&q, ret, err);
	if (r == 0)
		return error_set(err, ENOENT, "there is no session \"%s\"", name);
	return r < 0 ? r : 0;
}

int session_get_by_origin(struct store_tx *tx, uint64_t mount, uint64_t unique, struct session *ret,
			  struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " SESSION_COLUMNS " FROM session WHERE origin_mount = ? "
				  "AND origin_unique = ? AND origin_unique <> 0",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, (int64_t)mount);
	store_query_int(&q, (int64_t)unique);
	r = get_row(&q, ret, err);
	if (r == 0)
		return error_set(err, ENOENT, "request %" PRIu64 " started no session", unique);
	return r < 0 ? r : 0;
}

/* Tells rows of (serial, name) until fn has enough. */
static int tell(struct store_query *q, bool (*fn)(void *user, int64_t serial, const char *name),
		void *user, struct error *err)
{
	int n = 0, r;

	while ((r = store_query_next(q, err)) > 0) {
		const char *name = store_query_column_view(q, 1, NULL);

		if (!name)
			return error_oom(err);
		n++;
		if (!fn(user, store_query_column_int(q, 0), name))
			break;
	}
	return r < 0 ? r : n;
}

int session_list_page(struct store_tx *tx, int64_t after, int limit,
		      bool (*fn)(void *user, int64_t serial, const char *name), void *user,
		      struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT serial, name FROM session INDEXED BY session_list "
				  "WHERE serial > ? ORDER BY serial LIMIT ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, after);
	store_query_int(&q, limit);
	return tell(&q, fn, user, err);
}

int session_list_project(struct store_tx *tx, int64_t project_serial, int64_t after, int limit,
			 bool (*fn)(void *user, int64_t serial, const char *name), void *user,
			 struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT serial, name FROM session INDEXED BY session_project "
				  "WHERE project_serial = ? AND project_serial <> 0 AND serial > ? "
				  "ORDER BY serial LIMIT ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, project_serial);
	store_query_int(&q, after);
	store_query_int(&q, limit);
	return tell(&q, fn, user, err);
}

int session_list_finished(struct store_tx *tx, int64_t before_ns, int limit,
			  bool (*fn)(void *user, int64_t serial, const char *name), void *user,
			  struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT serial, name FROM session INDEXED BY session_finished "
				  "WHERE state IN ('exited', 'failed', 'killed') "
				  "AND finished_at < ? ORDER BY finished_at, serial LIMIT ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, before_ns);
	store_query_int(&q, limit);
	return tell(&q, fn, user, err);
}

int session_list_live(struct store_tx *tx, struct session_list *ret, struct error *err)
{
	AUTO_SESSION_LIST struct session_list list = {0};
	AUTO_QUERY struct store_query q = {0};
	size_t cap = 0;
	int r = store_query_begin(&q, tx,
				  "SELECT " SESSION_COLUMNS
				  " FROM session INDEXED BY session_live WHERE " SESSION_LIVE
				  " ORDER BY serial",
				  err);

	if (r < 0)
		return r;
	while ((r = store_query_next(&q, err)) > 0) {
		struct session *rows = store_rows_grow(list.rows, list.n, &cap, sizeof(*rows));

		if (!rows)
			return error_oom(err);
		list.rows = rows;
		r = read_session(&q, &list.rows[list.n], err);
		if (r < 0)
			return r;
		list.n++;
	}
	if (r < 0)
		return r;
	*ret = list;
	list = (struct session_list){0};
	return 0;
}

int session_count_live(struct store_tx *tx, int64_t executor_serial, int64_t *ret,
		       struct error *err)
{
	static const char all[] = "SELECT count(*) FROM session INDEXED BY session_live "
				  "WHERE " SESSION_LIVE;
	static const char one[] = "SELECT count(*) FROM session INDEXED BY session_live "
				  "WHERE " SESSION_LIVE " AND executor_serial = ?";
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, executor_serial ? one : all, err);

	if (r < 0)
		return r;
	if (executor_serial)
		store_query_int(&q, executor_serial);
	return store_query_scalar(&q, ret, err);
}

int session_count(struct store_tx *tx, int64_t *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "SELECT count(*) FROM session", err);

	return r < 0 ? r : store_query_scalar(&q, ret, err);
}

int session_known(struct store_tx *tx, int64_t serial, bool *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int64_t known = 0;
	int r = store_query_begin(&q, tx,
				  "SELECT EXISTS (SELECT 1 FROM session WHERE serial = ?) OR "
				  "EXISTS (SELECT 1 FROM session_doomed WHERE serial = ?)",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	store_query_int(&q, serial);
	r = store_query_scalar(&q, &known, err);
	if (r == 0)
		*ret = known != 0;
	return r;
}

int session_doom(struct store_tx *tx, int64_t serial, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "INSERT OR IGNORE INTO session_doomed VALUES (?)", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int session_redeem(struct store_tx *tx, int64_t serial, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM session_doomed WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int session_list_doomed(struct store_tx *tx, int64_t after, int limit,
			void (*fn)(void *user, int64_t serial), void *user, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int n = 0;
	int r = store_query_begin(&q, tx,
				  "SELECT serial FROM session_doomed WHERE serial > ? ORDER BY serial LIMIT ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, after);
	store_query_int(&q, limit);
	while ((r = store_query_next(&q, err)) > 0) {
		fn(user, store_query_column_int(&q, 0));
		n++;
	}
	return r < 0 ? r : n;
}
