#include "core/failover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/json.h"
#include "core/store/event.h"

/* --- decisions ------------------------------------------------------------------------------ */

/* Whether the i-th counts: it lost its executor, and nobody has let the session go on since. */
static bool counts(const struct attempt_list *list, size_t i, bool last_too)
{
	const struct attempt *a = &list->rows[i];

	return !a->forgiven && (a->moved_at_ns != 0 || (last_too && i + 1 == list->n));
}

/* How many executors became unreachable while the session ran on them; their names. */
static size_t executors_lost(const struct attempt_list *list, bool last_too, char *names, size_t size)
{
	size_t n = 0, used = 0;

	names[0] = '\0';
	for (size_t i = 0; i < list->n; i++) {
		bool known = false;

		/* What never ran brought nothing down. */
		if (!counts(list, i, last_too) || list->rows[i].started_at_ns == 0)
			continue;
		for (size_t k = 0; k < i && !known; k++)
			known = counts(list, k, last_too) && list->rows[k].started_at_ns != 0 &&
				list->rows[k].executor_serial == list->rows[i].executor_serial;
		if (known)
			continue;
		int len = snprintf(names + used, size - used, "%s%s", n ? ", " : "",
				   list->rows[i].executor);
		used += len > 0 && (size_t)len < size - used ? (size_t)len : 0;
		n++;
	}
	return n;
}

static bool quarantined(const struct attempt_list *list, bool last_too,
			char reason[static FAILOVER_REASON_MAX])
{
	char names[256];
	size_t n = executors_lost(list, last_too, names, sizeof(names));

	if (n < FAILOVER_QUARANTINE_EXECUTORS)
		return false;
	(void)snprintf(reason, FAILOVER_REASON_MAX,
		       "quarantined: %zu executors (%s) became unreachable while it ran on them; echo "
		       "retry > signal to let it go on",
		       n, names);
	return true;
}

bool failover_quarantined(const struct attempt_list *attempts,
			  char reason[static FAILOVER_REASON_MAX])
{
	return quarantined(attempts, false, reason);
}

enum failover_verdict failover_decide(const struct attempt_list *attempts, int64_t max_attempts,
				      char reason[static FAILOVER_REASON_MAX])
{
	const struct attempt *last = &attempts->rows[attempts->n - 1];
	int64_t moves = 0;

	for (size_t i = 0; i + 1 < attempts->n; i++)
		moves += counts(attempts, i, false);
	if (moves >= max_attempts) {
		(void)snprintf(reason, FAILOVER_REASON_MAX,
			       "its executor %s became unreachable, and it has been moved %" PRId64
			       " times, as often as failover.max_attempts allows",
			       last->executor, moves);
		return FAILOVER_EXHAUSTED;
	}
	if (quarantined(attempts, true, reason))
		return FAILOVER_QUARANTINE;
	(void)snprintf(reason, FAILOVER_REASON_MAX, "is being moved, as its executor %s became unreachable",
		       last->executor);
	return FAILOVER_MOVE;
}

int failover_choose(const struct candidate *candidates, size_t n, const struct requirements *req,
		    bool host_allowed, const char *avoid, size_t *ret,
		    struct placement_refusal *ret_refusal, struct error *err)
{
	AUTO_FREE struct candidate *others = calloc(n ? n : 1, sizeof(*others));
	AUTO_FREE size_t *places = calloc(n ? n : 1, sizeof(*places));
	size_t m = 0, at;

	if (!others || !places)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(candidates[i].executor_id, avoid) == 0)
			continue;
		others[m] = candidates[i];
		places[m++] = i;
	}
	if (m < n && placement_select(others, m, req, host_allowed, &at, NULL, NULL) == 0) {
		*ret = places[at];
		return 0;
	}
	return placement_select(candidates, n, req, host_allowed, ret, ret_refusal, err);
}

/* --- rows ----------------------------------------------------------------------------------- */

void claim_token_make(char ret[static CLAIM_TOKEN_MAX])
{
	unsigned char random[(CLAIM_TOKEN_MAX - 1) / 2];

	/* Cannot fail or block once the machine has seeded itself. */
	while (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		;
	for (size_t i = 0; i < sizeof(random); i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", random[i]);
}

int failover_tell(struct store_tx *tx, const struct failover_event *event, struct error *err)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "type", event->type) < 0 || json_put_int(o, "uid", event->uid) < 0 ||
	    json_put_string(o, "session", event->session) < 0 ||
	    json_put_int(o, "attempt", event->attempt) < 0 ||
	    (event->from && json_put_string_if(o, "from", event->from) < 0) ||
	    (event->to && json_put_string_if(o, "to", event->to) < 0) ||
	    (event->reason && json_put_string_if(o, "reason", event->reason) < 0))
		return error_oom(err);
	AUTO_FREE char *text = json_text(o);
	return text ? event_append(tx, event->at_ns, text, NULL, err) : error_oom(err);
}

int failover_claim(struct store_tx *tx, struct failover_claim *claim, struct error *err)
{
	AUTO_ATTEMPT_LIST struct attempt_list attempts = {0};
	AUTO_SESSION struct session s = {0};

	int r = session_get(tx, claim->session, &s, err);
	if (r >= 0)
		r = attempt_list(tx, claim->session, &attempts, err);
	if (r < 0)
		return r;
	if (attempts.n == 0)
		return error_set(err, EIO, "session %s has no attempt", s.name);
	claim->verdict = failover_decide(&attempts, claim->max_attempts, claim->reason);
	if (claim->verdict == FAILOVER_EXHAUSTED) {
		/* It stays where it is until what runs there has been ended. */
		r = session_give_up(tx, claim->session, claim->claim_token, claim->new_token,
				    claim->reason, claim->at_ns, err);
	} else {
		const struct session_requeue requeue = {
			.new_token = claim->new_token,
			.executor = "",
			.boot_id = "",
			.error = claim->reason,
			.at_ns = claim->at_ns,
		};

		r = session_set_pending(tx, claim->session, claim->claim_token, &requeue, err);
	}
	if (r < 0)
		return r;
	struct failover_event event = {
		.type = "session.claimed",
		.uid = s.uid,
		.session = s.name,
		.attempt = s.attempt,
		.from = s.executor,
		.reason = claim->because,
		.at_ns = claim->at_ns,
	};
	r = failover_tell(tx, &event, err);
	if (r < 0 || claim->verdict == FAILOVER_MOVE)
		return r;
	event.type = claim->verdict == FAILOVER_EXHAUSTED ? "session.failover_exhausted"
							  : "session.quarantined";
	event.reason = claim->reason;
	return failover_tell(tx, &event, err);
}
