/*
 * Sessions: one row for each workload that was asked for, until it is forgotten.
 *
 * The row is the truth about a session: it is committed before anything is launched, and a new hub
 * decides from it what to adopt, finish, or launch. It carries the reference's Session (claim
 * token, attempt, project path, task id, spec) and what its Status tells. The spec is stored as
 * given: the caller has taken leased values out of it.
 *
 * Functions run on the writer (inside store_op.apply) or the reader; those that change something
 * only on the writer. Unset texts are "" (never NULL when filled by a getter), unset instants 0.
 */
#ifndef CLOOP_CORE_SESSION_H
#define CLOOP_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/owner.h"

struct store_query;
struct store_tx;

/* The reference's State. A pending or running session is *live*. */
enum session_state {
	SESSION_PENDING,
	SESSION_RUNNING,
	SESSION_EXITED,
	SESSION_FAILED,
	SESSION_KILLED,
	SESSION_UNKNOWN,
};

/* Why a finished session ended. */
enum session_cause {
	SESSION_CAUSE_NONE,
	SESSION_CAUSE_EXIT,
	SESSION_CAUSE_SIGNAL,
	SESSION_CAUSE_TIMEOUT,
	SESSION_CAUSE_OOM,
	SESSION_CAUSE_START,
	SESSION_CAUSE_LOST,
};

/* The words of the tree: "pending" …, "" "exit" …. Static storage. */
const char *session_state_name(enum session_state state);
const char *session_cause_name(enum session_cause cause);
bool session_state_live(enum session_state state);
/* exited, failed or killed. */
bool session_state_finished(enum session_state state);

/* The two of a row that has them in these columns. -EIO for a word that is none. */
int session_read_words(struct store_query *q, int state_column, enum session_state *ret_state,
		       int cause_column, enum session_cause *ret_cause, struct error *err);

struct session {
	int64_t serial; /* part of node ids; never given out twice */
	char *name;
	char *executor; /* "" while it is not placed */
	int64_t executor_serial;
	uid_t uid;
	gid_t gid;
	enum session_state state;
	enum session_cause cause;
	int exit_code; /* valid when finished; -1 when failed */
	int signal;
	pid_t pid; /* 0 where there is none */
	char *boot_id;
	char *handle_id;
	char *claim_token; /* the right to finish or requeue it; rotated by each requeue */
	int64_t attempt;   /* of dispatch, from 1 */
	int64_t created_at_ns;
	int64_t started_at_ns;
	int64_t finished_at_ns;
	int64_t deadline_ns;
	int64_t log_bytes;
	int64_t log_dropped_bytes;
	int64_t log_quota_bytes;
	uint64_t origin_mount; /* the request that asked for it; unique 0: none */
	uint64_t origin_unique;
	uint64_t start_file; /* the file that it was asked for through; opaque here, 0: not noted */
	char *project_path;
	int64_t project_serial; /* the project that it was started in; 0: none */
	int64_t task_id;
	char *error;
	char *requirements; /* canonical JSON, for placing it again; "" when it was not placed */
	char *spec;         /* canonical JSON */
	char *groups;       /* the caller's supplementary groups, "4,27": what it is launched with */
	char *image;        /* what it runs, with its digest; "" or NULL where there is none */
};

/* Frees the texts and zeroes the struct. */
void session_clear(struct session *s);
#define AUTO_SESSION CLEANUP(session_clear)

struct session_list {
	struct session *rows;
	size_t n;
};
void session_list_clear(struct session_list *list);
#define AUTO_SESSION_LIST CLEANUP(session_list_clear)

/*
 * The highest serial that was ever given out, also to a session that is gone. The hub asks once,
 * counts on in memory and inserts with explicit serials, as node ids need them before the commit.
 */
int session_last_serial(struct store_tx *tx, int64_t *ret, struct error *err);

/* -EEXIST with field "name", "serial" or "origin" when that is taken. */
int session_insert(struct store_tx *tx, const struct session *s, struct error *err);

/*
 * The changes below are for the holder of the claim: one conditional UPDATE each. Errors: -ENOENT
 * when there is no such session, -ESTALE with ERROR_SESSION_CLAIM_LOST when it carries another
 * token, -EALREADY when it is not in a state that the change starts from (finished already).
 */

struct session_placement {
	const char *executor;
	int64_t executor_serial;
	const char *handle_id; /* of the attempt that it is at */
	const char *boot_id;   /* of this hub's machine: it may launch only in this boot */
};
/* Names the executor of a pending session that had none, and clears its error. */
int session_place(struct store_tx *tx, int64_t serial, const char *claim_token,
		  const struct session_placement *placement, struct error *err);

struct session_running {
	const char *handle_id;
	pid_t pid;
	const char *boot_id;
	int64_t started_at_ns;
	int64_t deadline_ns;
	const char *image; /* NULL: none */
};
/* pending or running → running. */
int session_set_running(struct store_tx *tx, int64_t serial, const char *claim_token,
			const struct session_running *running, struct error *err);

struct session_finished {
	enum session_state state; /* exited, failed or killed */
	enum session_cause cause;
	int exit_code;
	int signal;
	pid_t pid; /* with its start, for one whose start was never written */
	int64_t started_at_ns;
	int64_t finished_at_ns;
	const char *error;
	int64_t log_bytes;
	int64_t log_dropped_bytes;
	bool answered; /* the request that asked for it was answered: it can not come again */
};
/* pending or running → finished. */
int session_set_finished(struct store_tx *tx, int64_t serial, const char *claim_token,
			 const struct session_finished *finished, struct error *err);

struct session_requeue {
	const char *new_token;
	const char *executor; /* where it goes now; "" when nothing can take it yet */
	int64_t executor_serial;
	const char *boot_id; /* of this hub's machine: it may launch only in this boot */
	const char *error;   /* why it waits; "" when it is placed */
	int64_t at_ns;
};
/*
 * The reference's ClaimRequeue: pending or running → pending under a new token and the next attempt
 * number, without handle, pid, start and deadline. Whoever comes second has -ESTALE and does
 * nothing further.
 */
int session_set_pending(struct store_tx *tx, int64_t serial, const char *claim_token,
			const struct session_requeue *requeue, struct error *err);

/*
 * A pending or running session stays so, under a new token and with this error: it is not moved any
 * more, and ends as failed when what runs of it has been ended.
 */
int session_give_up(struct store_tx *tx, int64_t serial, const char *claim_token,
		    const char *new_token, const char *error, int64_t at_ns, struct error *err);

/* The reason that `error` shows, in any state. -ENOENT. */
int session_set_error(struct store_tx *tx, int64_t serial, const char *error, struct error *err);

/* Forgets the session in whatever state it is. -ENOENT. */
int session_delete(struct store_tx *tx, int64_t serial, struct error *err);

/*
 * A session that was forgotten leaves a folder behind, which is removed outside of transactions:
 * doom with the row's end, redeem when the folder is gone, list after a start.
 */
int session_doom(struct store_tx *tx, int64_t serial, struct error *err);
int session_redeem(struct store_tx *tx, int64_t serial, struct error *err);
int session_list_doomed(struct store_tx *tx, int64_t after, int limit,
			void (*fn)(void *user, int64_t serial), void *user, struct error *err);

/* Whether there is such a session, or its folder is still to be removed. */
int session_known(struct store_tx *tx, int64_t serial, bool *ret, struct error *err);

/* Getters: 0, or -ENOENT. Clear *ret afterwards. */
int session_get(struct store_tx *tx, int64_t serial, struct session *ret, struct error *err);
int session_get_by_name(struct store_tx *tx, const char *name, struct session *ret,
			struct error *err);
int session_get_by_origin(struct store_tx *tx, uint64_t mount, uint64_t unique, struct session *ret,
			  struct error *err);

/*
 * Calls fn for the sessions with serials above `after`, in order of serial, until it returns false
 * or `limit` were told. The name is valid during the call. Reads an index only, never the rows, so
 * a page of a million costs what it holds. Returns how many were told.
 */
int session_list_page(struct store_tx *tx, int64_t after, int limit,
		      bool (*fn)(void *user, int64_t serial, const char *name), void *user,
		      struct error *err);

/* The same of one project's sessions. */
int session_list_project(struct store_tx *tx, int64_t project_serial, int64_t after, int limit,
			 bool (*fn)(void *user, int64_t serial, const char *name), void *user,
			 struct error *err);

/* Every live session, whole, in order of serial. */
int session_list_live(struct store_tx *tx, struct session_list *ret, struct error *err);

/* Live sessions of one executor; 0 for all. */
int session_count_live(struct store_tx *tx, int64_t executor_serial, int64_t *ret,
		       struct error *err);

/* All sessions. Reads a whole index (20 ms for a million): once, at start. */
int session_count(struct store_tx *tx, int64_t *ret, struct error *err);

/*
 * For retention: the finished sessions that ended before `before_ns`, the one that ended first
 * first. Like session_list_page().
 */
int session_list_finished(struct store_tx *tx, int64_t before_ns, int limit,
			  bool (*fn)(void *user, int64_t serial, const char *name), void *user,
			  struct error *err);

#endif
