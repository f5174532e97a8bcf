/* A session that has no executor: how it comes to have one, or to its end without. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch_internal.h"
#include "core/failover.h"
#include "core/fault.h"

/* Sessions without an executor that one tick looks one up for: each costs a look at the fleet. */
#define PLACED_A_TICK 64

void live_set_text(char **place_of, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return; /* what it said before is better than nothing */
	free(*place_of);
	*place_of = copy;
}

void live_count_as(struct dispatch *d, struct live *l, int64_t executor_serial)
{
	int64_t before = l->counted;

	if (before == executor_serial)
		return;
	live_count(d, l, executor_serial);
	d->hooks->moved(d->user, &l->row, before, executor_serial);
	if (before)
		d->hooks->inflight(d->user, before);
	if (executor_serial)
		d->hooks->inflight(d->user, executor_serial);
}

bool live_ended_by_signal(struct dispatch *d, struct live *l)
{
	if (!l->signals)
		return false;
	live_signal_unplaced(d, l, l->signals->signal);
	return true;
}

void live_wait_for_executor(struct dispatch *d, struct live *l)
{
	if (live_ended_by_signal(d, l))
		return;
	l->phase = PHASE_UNPLACED;
	/* That it was started is answered: what it waits for now may take long. */
	dispatch_answer_resolved(l);
	d->hooks->changed(d->user, (uint32_t)l->row.serial);
}

/* --- place ---------------------------------------------------------------------------------- */

struct place_op {
	struct store_op op; /* first */
	struct dispatch *dispatch;
	int64_t serial, attempt, executor_serial;
	uint32_t uid;
	char *name, *token, *from, *to, *boot_id, *reason; /* to NULL: nobody takes it, and why */
};

static void place_op_free(struct place_op *p)
{
	free(p->name);
	free(p->token);
	free(p->from);
	free(p->to);
	free(p->boot_id);
	free(p->reason);
	free(p);
}

static int apply_place(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct place_op *p = (const struct place_op *)op;
	const struct session s = {.name = p->name, .attempt = p->attempt};
	const struct failover_event event = {
		.type = "session.failover",
		.uid = p->uid,
		.session = p->name,
		.attempt = p->attempt,
		.from = p->from,
		.to = p->to,
		.reason = p->reason,
		.at_ns = clock_now_ns(),
	};
	char handle[SESSION_HANDLE_ID_MAX];
	int r;

	session_handle_id(&s, handle);
	const struct session_placement placement = {.executor = p->to,
						    .executor_serial = p->executor_serial,
						    .handle_id = handle,
						    .boot_id = p->boot_id};
	(void)fault_point("failover.before_place");
	if (p->to)
		r = session_place(tx, p->serial, p->token, &placement, err);
	else
		r = session_set_error(tx, p->serial, p->reason, err);
	return r < 0 ? r : failover_tell(tx, &event, err);
}

static void placed(struct store_op *op, int result, const struct error *err)
{
	struct place_op *p = (struct place_op *)op;
	struct dispatch *d = p->dispatch;
	struct live *l = live_get(d, p->serial);

	if (result >= 0)
		d->hooks->told(d->user);
	if (!p->to) {
		/* The reason why it waits was written. */
	} else if (l && l->phase == PHASE_PLACING && result < 0) {
		dispatch_say(d, l, "cannot be placed yet", err->reason);
		live_count_as(d, l, 0);
		live_wait_for_executor(d, l);
	} else if (l && l->phase == PHASE_PLACING) {
		(void)fault_point("failover.placed");
		l->row.executor_serial = p->executor_serial;
		live_set_text(&l->row.executor, p->to);
		live_set_text(&l->row.boot_id, d->boot_id);
		live_set_text(&l->row.error, "");
		char handle[SESSION_HANDLE_ID_MAX];
		session_handle_id(&l->row, handle);
		live_set_text(&l->row.handle_id, handle);
		l->adopted = false;
		dispatch_say(d, l, "moved", p->from);
		d->hooks->changed(d->user, (uint32_t)l->row.serial);
		live_launch(d, l);
		(void)fault_point("failover.launched");
	}
	place_op_free(p);
}

static struct place_op *place_op_new(struct dispatch *d, const struct live *l,
				     const struct executor *to, const char *reason)
{
	struct place_op *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->op = (struct store_op){.apply = apply_place, .done = placed};
	p->dispatch = d;
	p->serial = l->row.serial;
	p->attempt = l->row.attempt;
	p->uid = l->row.uid;
	p->executor_serial = to ? to->record.serial : 0;
	p->name = strdup(l->row.name);
	p->token = strdup(l->row.claim_token);
	p->from = strdup(l->from ? l->from : "");
	p->to = to ? strdup(to->record.name) : NULL;
	p->boot_id = strdup(d->boot_id);
	p->reason = reason ? strdup(reason) : NULL;
	if (!p->name || !p->token || !p->from || !p->boot_id || (to && !p->to) || (reason && !p->reason)) {
		place_op_free(p);
		return NULL;
	}
	return p;
}

/* Nobody takes it: it waits, and says so once for each reason. */
static void nobody_takes_it(struct dispatch *d, struct live *l, const struct error *why)
{
	char reason[ERROR_REASON_MAX + 32];
	bool waited = l->phase == PHASE_UNPLACED;

	(void)snprintf(reason, sizeof(reason), "waits for an executor: %s", why->reason);
	if (strcmp(reason, l->row.error) != 0) {
		struct place_op *p = place_op_new(d, l, NULL, reason);

		if (p) {
			dispatch_say(d, l, "not placed", why->reason);
			live_set_text(&l->row.error, reason);
			store_submit(d->store, &p->op);
			waited = false;
		}
	}
	if (!waited)
		live_wait_for_executor(d, l);
}

/* Reads back what a session that ran has no need to keep in memory. */
static int read_back(struct dispatch *d, struct live *l, struct error *err)
{
	AUTO_SESSION struct session row = {0};

	int r = session_get(store_reader(d->store), l->row.serial, &row, err);
	if (r < 0)
		return r;
	if (!l->spec)
		r = spec_parse(row.spec, strlen(row.spec), &l->spec, err);
	if (r < 0)
		return r;
	free(l->row.spec);
	free(l->row.groups);
	free(l->row.requirements);
	l->row.spec = take_ptr(row.spec);
	l->row.groups = take_ptr(row.groups);
	l->row.requirements = take_ptr(row.requirements);
	return 0;
}

void live_place(struct dispatch *d, struct live *l)
{
	AUTO_FREE uint32_t *groups = NULL;
	struct executor *e = NULL;
	struct error err;

	int r = read_back(d, l, &err);
	if (r >= 0) {
		const struct dispatch_placing placing = {
			.session = &l->row,
			.spec = l->spec,
			.n_groups = dispatch_parse_groups(l->row.groups, &groups),
			.groups = groups,
			.avoid = l->from ? l->from : "",
		};

		r = d->hooks->place(d->user, &placing, &e, &err);
	}
	if (r < 0) {
		nobody_takes_it(d, l, &err);
		return;
	}
	struct place_op *p = place_op_new(d, l, e, NULL);
	if (!p) {
		live_wait_for_executor(d, l); /* tried again at a tick */
		return;
	}
	l->phase = PHASE_PLACING;
	live_count_as(d, l, e->record.serial);
	store_submit(d->store, &p->op);
}

void live_place_waiting(struct dispatch *d)
{
	unsigned n = 0;
	int64_t last = d->place_after;

	for (int round = 0; round < 2 && n < PLACED_A_TICK; round++) {
		for (struct live *l = d->first, *next; l && n < PLACED_A_TICK; l = next) {
			next = l->next;
			if (l->phase != PHASE_UNPLACED || l->quarantined ||
			    (l->row.serial > last) != (round == 0))
				continue;
			d->place_after = l->row.serial;
			n++;
			live_place(d, l);
		}
	}
}

void dispatch_executor_fit(struct dispatch *d)
{
	live_place_waiting(d);
}

/* --- words from outside --------------------------------------------------------------------- */

void live_signal_unplaced(struct dispatch *d, struct live *l, enum signal_kind signal)
{
	static const int numbers[] = {
		[SIGNAL_INTERRUPT] = SIGINT,
		[SIGNAL_TERMINATE] = SIGTERM,
		[SIGNAL_KILL] = SIGKILL,
	};
	const struct executor_exit ended = {.cause = SESSION_CAUSE_SIGNAL,
					    .exit_code = -1,
					    .signal = numbers[signal],
					    .finished_at_ns = clock_now_ns(),
					    .reason = ""};

	live_finish(d, l, &ended);
	dispatch_answer_resolved(l);
}

struct retry_op {
	struct store_op op; /* first */
	struct dispatch *dispatch;
	int64_t serial;
	uint32_t uid;
	char *name;
	int64_t attempt;
	executor_signal_fn *done;
	void *user;
};

static int apply_retry(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct retry_op *o = (const struct retry_op *)op;
	const struct failover_event event = {
		.type = "session.released",
		.uid = o->uid,
		.session = o->name,
		.attempt = o->attempt,
		.at_ns = clock_now_ns(),
	};
	int r = attempt_forgive(tx, o->serial, err);

	return r < 0 ? r : failover_tell(tx, &event, err);
}

static void retried(struct store_op *op, int result, const struct error *err)
{
	struct retry_op *o = (struct retry_op *)op;
	struct live *l = live_get(o->dispatch, o->serial);

	if (result >= 0)
		o->dispatch->hooks->told(o->dispatch->user);
	if (result >= 0 && l && l->phase == PHASE_UNPLACED) {
		l->quarantined = false;
		live_place(o->dispatch, l);
	}
	o->done(o->user, result < 0 ? result : 0, err);
	free(o->name);
	free(o);
}

int dispatch_retry(struct dispatch *d, uint32_t serial, uint32_t uid, executor_signal_fn *done,
		   void *user, struct error *err)
{
	struct live *l = live_get(d, serial);

	if (l && l->phase != PHASE_UNPLACED && l->from && !l->quarantined) {
		done(user, 0, NULL); /* it goes on already: asked twice, or before a hub died */
		return 0;
	}
	if (!l || l->phase != PHASE_UNPLACED) {
		int r = error_set(err, EINVAL, "the session does not wait for an executor");

		error_remedy(err, "retry is for a session whose error says that it waits, or is quarantined");
		return r;
	}
	struct retry_op *o = calloc(1, sizeof(*o));
	char *name = strdup(l->row.name);
	if (!o || !name) {
		free(o);
		free(name);
		return error_oom(err);
	}
	*o = (struct retry_op){.op = {.apply = apply_retry, .done = retried},
			       .dispatch = d,
			       .serial = serial,
			       .uid = uid,
			       .name = name,
			       .attempt = l->row.attempt,
			       .done = done,
			       .user = user};
	store_submit(d->store, &o->op);
	return 0;
}

