/*
 * A session's way away from an executor that is given up (core/failover.h): claimed, then fenced. What
 * is decided is committed first; a hub that finds the rows goes on from there (live_recover()).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/dispatch_internal.h"
#include "core/failover.h"
#include "core/fault.h"
#include "core/handle_row.h"
#include "core/health.h"

static void fence_ended(struct dispatch *d, struct live *l, const struct executor_exit *ended);

/* --- claim ---------------------------------------------------------------------------------- */

struct claim_op {
	struct store_op op; /* first */
	struct dispatch *dispatch;
	int64_t serial;
	char *token, *because;
	char new_token[CLAIM_TOKEN_MAX];
	struct failover_claim claim;
};

static int apply_claim(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct claim_op *c = (struct claim_op *)op;

	(void)fault_point("failover.before_claim");
	return failover_claim(tx, &c->claim, err);
}

/* It was not claimed: what its driver said meanwhile counts after all. */
static void claim_failed(struct dispatch *d, struct live *l)
{
	l->phase = l->before;
	if (l->start_known) {
		l->start_known = false;
		if (l->phase == PHASE_LAUNCHING)
			dispatch_events.started(d, (uint32_t)l->row.serial, &l->start);
	}
	if (l->end_known) {
		l->end_known = false;
		dispatch_events.ended(d, (uint32_t)l->row.serial, &l->end);
	}
	if (l->phase == PHASE_RUNNING)
		live_send_signals(d, l);
}

static void claimed(struct store_op *op, int result, const struct error *err)
{
	struct claim_op *c = (struct claim_op *)op;
	struct dispatch *d = c->dispatch;
	struct live *l = live_get(d, c->serial);

	if (result >= 0)
		d->hooks->told(d->user);
	if (!l || l->phase != PHASE_CLAIMING) {
		/* It was forgotten meanwhile. */
	} else if (result < 0) {
		/* Who has it moves it, and needs nobody's help. */
		l->claim_lost = result == -ESTALE;
		if (!l->claim_lost)
			dispatch_say(d, l, "cannot be moved yet", err->reason);
		claim_failed(d, l);
	} else {
		(void)fault_point("failover.claimed");
		live_set_text(&l->row.claim_token, c->new_token);
		live_set_text(&l->row.error, c->claim.reason);
		live_set_text(&l->from, l->row.executor);
		l->from_serial = l->row.executor_serial;
		l->from_attempt = l->row.attempt;
		l->giving_up = c->claim.verdict == FAILOVER_EXHAUSTED;
		l->quarantined = c->claim.verdict == FAILOVER_QUARANTINE;
		l->phase = PHASE_FENCING;
		dispatch_say(d, l, "claimed", c->claim.reason);
		if (!l->giving_up) {
			l->row.state = SESSION_PENDING;
			l->row.attempt++;
			l->row.executor_serial = 0;
			l->row.pid = 0;
			l->row.started_at_ns = l->row.deadline_ns = 0;
			live_set_text(&l->row.executor, "");
			live_set_text(&l->row.handle_id, "");
			live_set_text(&l->row.boot_id, "");
			l->started_told = false;
			l->unresolved = false;
			d->hooks->attempted(d->user, &l->row);
		}
		d->hooks->changed(d->user, (uint32_t)l->row.serial);
		if (l->end_known) {
			const struct executor_exit ended = l->end;

			fence_ended(d, l, &ended); /* it came while the claim was written */
		} else {
			live_fence(d, l);
		}
	}
	free(c->token);
	free(c->because);
	free(c);
}

static void claim(struct dispatch *d, struct live *l, const struct executor *e)
{
	struct claim_op *c = calloc(1, sizeof(*c));

	if (!c)
		return; /* at the next tick */
	c->op = (struct store_op){.apply = apply_claim, .done = claimed};
	c->dispatch = d;
	c->serial = l->row.serial;
	c->token = strdup(l->row.claim_token);
	c->because = strdup(e->record.health.reason);
	if (!c->token || !c->because) {
		free(c->token);
		free(c->because);
		free(c);
		return;
	}
	claim_token_make(c->new_token);
	c->claim = (struct failover_claim){
		.session = c->serial,
		.claim_token = c->token,
		.new_token = c->new_token,
		.because = c->because,
		.max_attempts = d->max_attempts,
		.at_ns = clock_now_ns(),
	};
	l->before = l->phase;
	l->phase = PHASE_CLAIMING;
	l->start_known = l->end_known = false;
	store_submit(d->store, &c->op);
}

static bool is_unreachable(const struct executor *e)
{
	return e && node_state_parse(e->record.health.state) == NODE_UNREACHABLE;
}

void dispatch_executor_lost(struct dispatch *d, int64_t executor_serial)
{
	const struct executor *e = fleet_get(d->fleet, executor_serial);

	if (!is_unreachable(e))
		return;
	for (struct live *l = d->first; l; l = l->next)
		if (l->row.executor_serial == executor_serial && l->visible && !l->claim_lost &&
		    (l->phase == PHASE_LAUNCHING || l->phase == PHASE_RUNNING))
			claim(d, l, e);
}

/* --- fence ---------------------------------------------------------------------------------- */

struct fence_op {
	struct store_op op; /* first */
	struct dispatch *dispatch;
	int64_t serial, attempt;
	uint32_t uid;
	char *name, *from, *reason;
	struct session_finished finished;
};

static void fence_op_free(struct fence_op *f)
{
	free(f->name);
	free(f->from);
	free(f->reason);
	free(f);
}

static int apply_fenced(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct fence_op *f = (const struct fence_op *)op;
	const struct session s = {.name = f->name, .attempt = f->attempt};
	const struct failover_event event = {
		.type = "session.fenced",
		.uid = f->uid,
		.session = f->name,
		.attempt = f->attempt,
		.from = f->from,
		.reason = f->finished.error,
		.at_ns = f->finished.finished_at_ns,
	};
	char handle[SESSION_HANDLE_ID_MAX];

	session_handle_id(&s, handle);
	int r = attempt_end(tx, f->serial, f->attempt, &f->finished, err);
	if (r >= 0)
		r = handle_row_delete(tx, handle, err);
	return r < 0 ? r : failover_tell(tx, &event, err);
}

static void fenced(struct store_op *op, int result, const struct error *err)
{
	struct fence_op *f = (struct fence_op *)op;
	struct dispatch *d = f->dispatch;
	struct live *l = live_get(d, f->serial);

	if (result >= 0)
		d->hooks->told(d->user);
	if (l && l->phase == PHASE_FENCING && result < 0) {
		dispatch_say(d, l, "the end of its earlier attempt could not be recorded yet",
			     err->reason);
		l->end_unwritten = true;
	} else if (l && l->phase == PHASE_FENCING) {
		(void)fault_point("failover.fence_recorded");
		l->from_serial = 0;
		l->end_known = false;
		live_count_as(d, l, 0);
		if (l->quarantined)
			live_wait_for_executor(d, l);
		else if (!live_ended_by_signal(d, l))
			live_place(d, l);
	}
	fence_op_free(f);
}

static void write_fenced(struct dispatch *d, struct live *l)
{
	struct fence_op *f = calloc(1, sizeof(*f));

	l->end_unwritten = true; /* until it is on its way */
	if (!f)
		return;
	const struct executor_exit *e = &l->end;
	f->op = (struct store_op){.apply = apply_fenced, .done = fenced};
	f->dispatch = d;
	f->serial = l->row.serial;
	f->attempt = l->from_attempt;
	f->uid = l->row.uid;
	f->name = strdup(l->row.name);
	f->from = strdup(l->from ? l->from : "");
	f->reason = executor_exit_text(e);
	if (!f->name || !f->from || !f->reason) {
		fence_op_free(f);
		return;
	}
	f->finished = (struct session_finished){
		.state = executor_exit_state(e),
		.cause = e->cause,
		.exit_code = e->cause == SESSION_CAUSE_EXIT ? e->exit_code : -1,
		.signal = e->signal,
		.pid = (pid_t)e->pid,
		.started_at_ns = e->started_at_ns,
		.finished_at_ns = e->finished_at_ns,
		.error = f->reason,
		.log_bytes = (int64_t)e->log_bytes,
		.log_dropped_bytes = (int64_t)e->log_dropped_bytes,
	};
	l->end_unwritten = false;
	store_submit(d->store, &f->op);
}

static void keep_end(struct live *l, const struct executor_exit *ended)
{
	live_set_text(&l->end_reason, ended->reason ? ended->reason : "");
	l->end = *ended;
	l->end.reason = l->end_reason ? l->end_reason : "";
	l->end_known = true;
}

/* Nothing of the earlier attempt runs any more. */
static void fence_ended(struct dispatch *d, struct live *l, const struct executor_exit *ended)
{
	(void)fault_point("failover.fenced");
	if (l->giving_up) {
		struct executor_exit lost = *ended;
		char *reason = strdup(l->row.error);

		lost.cause = SESSION_CAUSE_LOST;
		lost.reason = reason ? reason : "";
		if (ended->cause == SESSION_CAUSE_LOST) {
			/* Its log was left half written. */
			l->phase = PHASE_MENDING;
			l->lost_reason = reason;
			d->hooks->mend(d->user, (uint32_t)l->row.serial,
				       (uint64_t)l->row.log_quota_bytes);
		} else {
			live_finish(d, l, &lost);
			free(reason);
		}
		dispatch_answer_resolved(l);
		return;
	}
	keep_end(l, ended);
	write_fenced(d, l);
}

static void never_ran(struct dispatch *d, struct live *l)
{
	const struct executor_exit ended = {.cause = SESSION_CAUSE_LOST,
					    .exit_code = -1,
					    .finished_at_ns = clock_now_ns(),
					    .reason = "its executor was given up before it was started"};

	fence_ended(d, l, &ended);
}

static void killed(void *user, int result, const struct error *err)
{
	(void)user; /* its end is what counts, and when that does not come it is killed again */
	(void)result;
	(void)err;
}

static void kill_earlier(struct dispatch *d, struct live *l, struct driver *driver)
{
	struct signal_key key;

	/* Each time with another key: one may have been taken when there was no process yet. */
	while (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
		;
	/* One that has no supervisor yet, or none any more, is looked at again at the next tick. */
	(void)driver->ops->signal(driver, (uint32_t)l->row.serial, (uint32_t)l->from_attempt, &key,
				  SIGNAL_KILL, killed, NULL, NULL);
	(void)d;
	(void)fault_point("failover.fencing");
}

void live_fence(struct dispatch *d, struct live *l)
{
	struct executor *e = fleet_get(d->fleet, l->from_serial);
	bool found = false;
	struct error err;

	if (l->end_known)
		return; /* and is being written */
	/* Without its driver nobody can say that it ended: it may well run. */
	if (!e || !e->driver || !e->driver->ready)
		return;
	int r = e->driver->ops->adopt(e->driver, (uint32_t)l->row.serial, (uint32_t)l->from_attempt,
				      &e->config, &found, &err);
	if (r < 0)
		return; /* asked again at the next tick */
	if (found)
		kill_earlier(d, l, e->driver);
	else
		never_ran(d, l);
}

bool live_moving_started(struct dispatch *d, struct live *l, const struct executor_started *started)
{
	struct executor *e = fleet_get(d->fleet, l->from_serial);

	if (l->phase == PHASE_CLAIMING) {
		l->start = *started;
		l->start.image = "";
		l->start_known = true;
		return true;
	}
	if (l->phase != PHASE_FENCING)
		return false;
	if (e && e->driver)
		kill_earlier(d, l, e->driver);
	return true;
}

bool live_moving_ended(struct dispatch *d, struct live *l, const struct executor_exit *ended)
{
	if (l->phase == PHASE_CLAIMING) {
		keep_end(l, ended);
		return true;
	}
	if (l->phase != PHASE_FENCING)
		return false;
	if (!l->end_known)
		fence_ended(d, l, ended);
	return true;
}

bool live_moving_failed(struct dispatch *d, struct live *l, const struct error *err)
{
	const struct executor_exit ended = {.cause = SESSION_CAUSE_START,
					    .exit_code = -1,
					    .finished_at_ns = clock_now_ns(),
					    .reason = err->reason};

	return live_moving_ended(d, l, &ended);
}

void live_moving_tick(struct dispatch *d)
{
	const struct executor *e;

	for (size_t i = 0; (e = fleet_at(d->fleet, i)); i++)
		if (is_unreachable(e) && e->inflight > 0)
			dispatch_executor_lost(d, e->record.serial);
	for (struct live *l = d->first, *next; l; l = next) {
		next = l->next;
		if (l->phase != PHASE_FENCING)
			continue;
		if (l->end_known && l->end_unwritten)
			write_fenced(d, l);
		else if (!l->end_known)
			live_fence(d, l);
	}
	live_place_waiting(d);
}

void dispatch_set_max_attempts(struct dispatch *d, int64_t max_attempts)
{
	d->max_attempts = max_attempts;
}

bool dispatch_in_flight_on(struct dispatch *d, uint32_t serial, int64_t executor_serial)
{
	const struct live *l = live_get(d, serial);

	return l && l->visible && !l->finished && l->counted == executor_serial;
}

/* --- after a start -------------------------------------------------------------------------- */

int live_recover(struct dispatch *d, struct live *l, struct error *err)
{
	AUTO_ATTEMPT_LIST struct attempt_list list = {0};
	char reason[FAILOVER_REASON_MAX];

	/* Nearly all are at their first executor. */
	if (l->row.executor_serial != 0 && !l->row.error[0])
		return 0;
	int r = attempt_list(store_reader(d->store), l->row.serial, &list, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		const struct attempt *a = &list.rows[i];

		if (a->moved_at_ns == 0)
			continue;
		live_set_text(&l->from, a->executor);
		l->from_attempt = a->attempt;
		l->from_serial = a->finished_at_ns == 0 ? a->executor_serial : 0;
	}
	if (!l->from)
		return 0;
	l->giving_up = l->from_attempt == l->row.attempt;
	if (l->row.executor_serial != 0 && !l->giving_up)
		return 0; /* it is at another one already: launched, or about to be */
	l->quarantined = !l->giving_up && failover_quarantined(&list, reason);
	l->phase = l->from_serial ? PHASE_FENCING : PHASE_UNPLACED;
	if (l->from_serial)
		live_count(d, l, l->from_serial);
	return 0;
}
