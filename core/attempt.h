/*
 * Attempts: one row for each dispatch of a session, from 1, kept as long as the session.
 *
 * The row of the attempt that a session is at repeats what the session's own row says of it;
 * core/session.c writes both in one transaction, so every session has one from its insertion on. An
 * attempt whose executor was given up keeps its row: its end, which may come late, is recorded there
 * and nowhere else.
 *
 * Rules that rest on these rows: the next attempt starts only when every earlier one has ended
 * (attempt_list_open()), and how often a session was moved, and under how many executors it was,
 * decides whether it is moved again (core/failover.h).
 *
 * Functions run on the writer (inside store_op.apply) or the reader; those that change something
 * only on the writer. Unset texts are "", unset instants 0.
 */
#ifndef CLOOP_CORE_ATTEMPT_H
#define CLOOP_CORE_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"
#include "core/session.h"

struct store_tx;

struct attempt {
	int64_t serial;  /* part of node ids; never given out twice */
	int64_t session; /* the session's serial */
	int64_t attempt; /* from 1 */
	char *executor;  /* "" while it is not placed */
	int64_t executor_serial;
	enum session_state state;
	enum session_cause cause;
	int exit_code;
	int signal;
	int64_t pid;
	char *handle_id;
	int64_t created_at_ns;
	int64_t started_at_ns;
	int64_t finished_at_ns;
	int64_t deadline_ns;
	int64_t log_bytes; /* of this attempt alone */
	int64_t log_dropped_bytes;
	int64_t moved_at_ns; /* its executor was given up; 0: never */
	bool forgiven;       /* counts no more, as an operator let the session go on */
	char *error;
};

/* Frees the texts and zeroes the struct. */
void attempt_clear(struct attempt *a);
#define AUTO_ATTEMPT CLEANUP(attempt_clear)

struct attempt_list {
	struct attempt *rows;
	size_t n;
};
void attempt_list_clear(struct attempt_list *list);
#define AUTO_ATTEMPT_LIST CLEANUP(attempt_list_clear)

/*
 * For core/session.c: makes the row of the attempt that a session is at say what the session's row
 * says, inserting it when there is none; at_ns is when that attempt came to be.
 */
int attempt_record(struct store_tx *tx, int64_t session, int64_t at_ns, struct error *err);

/* Notes that the executor of the session's present attempt was given up. */
int attempt_moved(struct store_tx *tx, int64_t session, int64_t at_ns, struct error *err);

/* The end of an attempt that was moved. Succeeds, changing nothing, when its end is known. */
int attempt_end(struct store_tx *tx, int64_t session, int64_t attempt,
		const struct session_finished *finished, struct error *err);

/* From now on none of the session's attempts counts. Returns how many did. */
int attempt_forgive(struct store_tx *tx, int64_t session, struct error *err);

/* Removes a session's attempts. */
int attempt_forget(struct store_tx *tx, int64_t session, struct error *err);

/* 0, or -ENOENT. Clear *ret afterwards. */
int attempt_get(struct store_tx *tx, int64_t serial, struct attempt *ret, struct error *err);
int attempt_find(struct store_tx *tx, int64_t session, int64_t attempt, struct attempt *ret,
		 struct error *err);

/* A session's attempts in their order. */
int attempt_list(struct store_tx *tx, int64_t session, struct attempt_list *ret, struct error *err);

/* Moved and not known to have ended, in order of session and attempt; of all sessions with 0. */
int attempt_list_open(struct store_tx *tx, int64_t session, struct attempt_list *ret,
		      struct error *err);

#endif
