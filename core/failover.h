/*
 * Failover: what becomes of a session whose executor cannot be reached any more. Pure decisions, and
 * the claim, which is one conditional change of rows; core/dispatch_attempt.c carries it out.
 *
 *   claim   whoever presents the session's token rotates it. The session is pending again, at its
 *           next attempt and without an executor. Whoever comes second is told ESTALE and does nothing.
 *   fence   what the earlier attempt left running is killed, and its end recorded on the attempt
 *   place   another executor is chosen, and named in the session's row
 *   launch  as any other
 *
 * Each step is a commit, and each begins from the rows that the one before left, so a hub that is
 * killed between two of them is followed by one that goes on with the next.
 *
 * A session is moved at most max_attempts times; then it ends as failed. One under which two
 * executors became unreachable is quarantined before that: it may be what brings them down, so it waits
 * for an operator (`echo retry > signal`). An attempt that an operator let the session go on from
 * counts no more. Cordoned and draining executors are never given up.
 *
 * Source: the reference's SessionStore.ClaimRequeue, FailoverEvent and FailoverHandler; the cap and
 * quarantine: failover.max_attempts.
 */
#ifndef CLOOP_CORE_FAILOVER_H
#define CLOOP_CORE_FAILOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/attempt.h"
#include "core/error.h"
#include "core/placement.h"

/* failover.max_attempts: how often a session is moved. More than ten is a session to look at. */
#define FAILOVER_ATTEMPTS_DEFAULT 2
#define FAILOVER_ATTEMPTS_MAX 10

/* Executors that became unreachable under a session until it is quarantined. */
#define FAILOVER_QUARANTINE_EXECUTORS 2

enum failover_verdict {
	FAILOVER_MOVE = 1,
	FAILOVER_QUARANTINE, /* moved off, and not placed before an operator says so */
	FAILOVER_EXHAUSTED,  /* ended as failed */
};

#define FAILOVER_REASON_MAX 512

/*
 * What becomes of a session whose present attempt, the last in the list, loses its executor. reason is
 * what its `error` shows from then on.
 */
enum failover_verdict failover_decide(const struct attempt_list *attempts, int64_t max_attempts,
				      char reason[static FAILOVER_REASON_MAX]);

/* Whether a session that waits for an executor waits for an operator. reason as above. */
bool failover_quarantined(const struct attempt_list *attempts,
			  char reason[static FAILOVER_REASON_MAX]);

/*
 * Chooses an executor other than `avoid` (an id; "": none); that one as well when nobody else can take
 * it and it is fit again. Errors and *ret_refusal as placement_select().
 */
int failover_choose(const struct candidate *candidates, size_t n, const struct requirements *req,
		    bool host_allowed, const char *avoid, size_t *ret,
		    struct placement_refusal *ret_refusal, struct error *err);

#define CLAIM_TOKEN_MAX 33

struct failover_claim {
	int64_t session;
	const char *claim_token; /* that the session carries, as far as the claimer knows */
	const char *new_token;
	const char *because; /* why its executor was given up */
	int64_t max_attempts;
	int64_t at_ns;

	/* What was done. */
	enum failover_verdict verdict;
	char reason[FAILOVER_REASON_MAX];
};

/* A token that nobody else has. */
void claim_token_make(char ret[static CLAIM_TOKEN_MAX]);

/*
 * On the writer: decides and claims in one transaction, and tells events. Errors: as
 * session_set_pending(); an operation that fails must be undone.
 */
int failover_claim(struct store_tx *tx, struct failover_claim *claim, struct error *err);

/* On the writer: one event of a move, with what applies of the rest. Texts may be NULL. */
struct failover_event {
	const char *type;
	uint32_t uid;
	const char *session;
	int64_t attempt;
	const char *from, *to;
	const char *reason;
	int64_t at_ns;
};
int failover_tell(struct store_tx *tx, const struct failover_event *event, struct error *err);

#endif
