#include "fs/supervise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <uv.h>

#include "core/clock.h"
#include "core/executor.h"
#include "core/owner.h"
#include "core/store/store.h"
#include "core/supervisor.h"
#include "fs/context.h"
#include "fs/preflight.h"
#include "fs/settings.h"
#include "fs/tables.h"
#include "fs/watch.h"

/* How long drivers may take to become ready when the hub begins, and how often that is looked at. */
#define START_WAIT_MS 5000
#define START_LOOK_MS 20

/* Somebody who wants to know how a probe ended. */
struct waiter {
	STAILQ_ENTRY(waiter) entry;
	int64_t serial;
	supervise_done_fn *done;
	void *user;
};
STAILQ_HEAD(waiters, waiter);

/* One probe or preflight. It lives until its result is committed and the driver has come back. */
struct probing {
	struct store_op op; /* first */
	LIST_ENTRY(probing) entry;
	struct supervise *owner;
	int64_t serial;
	int64_t deadline_ns; /* of the boot clock */
	bool with_driver;
	bool told; /* its result is being committed, or was */
	bool committing;
	bool preflight;   /* it is one, in place of a probe */
	int64_t begun_ns; /* of the wall clock */
	char *report;     /* of a preflight; NULL: it did not come to one */
	struct fleet_change change;
	struct error err; /* what it said; code 0: fit */
	struct waiters waiters;
};

LIST_HEAD(probing_list, probing);

struct listener {
	const struct supervisor_events *events;
	void *user;
};

struct supervise {
	struct hub *hub;
	struct supervisor *schedule;
	uv_timer_t timer;
	bool started, stopped;
	int64_t begin_by_ns; /* of the boot clock: drivers that are not ready then are not waited for */
	uint64_t random;
	struct waiters waiters; /* for a probe that has not begun */
	struct probing_list probing;
	struct listener listeners[SUPERVISE_LISTENERS_MAX];
	size_t n_listeners;
	struct supervise_counts counts;
};

static void run(struct supervise *s);

/* splitmix64: for jitter it only has to differ from one delay to the next. */
static double next_random(void *user)
{
	struct supervise *s = user;
	uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

const struct supervisor_config *supervise_config(const struct hub *hub)
{
	return supervisor_config(hub->supervise->schedule);
}

struct executor_probe supervise_request(const struct hub *hub, const struct executor *e)
{
	return (struct executor_probe){
		.serial = e->record.serial,
		.id = e->record.name,
		.config = &e->config,
		.timeout_ms = supervise_config(hub)->probe_timeout_ns / CLOCK_NS_PER_MS,
	};
}

/* A preflight does up to three things, each of which may take as long as a probe. */
#define PREFLIGHT_PARTS 3

static bool can_be_probed(const struct executor *e)
{
	return e && e->driver && e->driver->ops->probe;
}

static bool preflight_is_due(const struct executor *e)
{
	return can_be_probed(e) && e->preflight_due && e->driver->ops->preflight;
}

/* What the hub before has not looked at, or not to the end. */
static bool preflight_is_missing(const struct supervise *s, const struct executor *e)
{
	int64_t at_ns = 0;

	return executor_record_get_preflight(store_reader(s->hub->store), e->record.serial, &at_ns, NULL,
					     NULL) < 0 ||
	       at_ns < e->record.changed_at_ns;
}

/* --- who waits ------------------------------------------------------------------------------ */

/* Moves those that wait for an executor from one list to another. */
static void move_waiters(struct waiters *from, struct waiters *to, int64_t serial)
{
	struct waiters rest = STAILQ_HEAD_INITIALIZER(rest);
	struct waiter *w;

	while ((w = STAILQ_FIRST(from))) {
		STAILQ_REMOVE_HEAD(from, entry);
		if (w->serial == serial)
			STAILQ_INSERT_TAIL(to, w, entry);
		else
			STAILQ_INSERT_TAIL(&rest, w, entry);
	}
	STAILQ_CONCAT(from, &rest);
}

static void tell_waiters(struct waiters *waiters, const struct error *err)
{
	struct waiter *w;

	while ((w = STAILQ_FIRST(waiters))) {
		STAILQ_REMOVE_HEAD(waiters, entry);
		w->done(w->user, err);
		free(w);
	}
}

static void free_waiters(struct waiters *waiters)
{
	struct waiter *w;

	while ((w = STAILQ_FIRST(waiters))) {
		STAILQ_REMOVE_HEAD(waiters, entry);
		free(w);
	}
}

/* --- when ----------------------------------------------------------------------------------- */

/* A hub that has just begun is not yet connected to what its drivers use; that says nothing of the
 * executors. */
static bool drivers_are_ready(const struct supervise *s)
{
	struct driver *const *drivers = fleet_drivers(s->hub->fleet);

	for (size_t i = 0; drivers[i]; i++)
		if (!drivers[i]->ready)
			return false;
	return true;
}

static void on_timer(uv_timer_t *timer)
{
	run(timer->data);
}

static void on_start_timer(uv_timer_t *timer)
{
	struct supervise *s = timer->data;

	if (s->stopped || (!drivers_are_ready(s) && clock_boot_ns() < s->begin_by_ns))
		return;
	s->started = true;
	(void)uv_timer_stop(timer);
	run(s);
	preflight_start(s->hub);
}

static void arm(struct supervise *s)
{
	int64_t now = clock_boot_ns(), wait = supervisor_wait_ns(s->schedule, now);

	if (!s->started || s->stopped)
		return;
	for (const struct probing *p = LIST_FIRST(&s->probing); p; p = LIST_NEXT(p, entry)) {
		int64_t left = p->deadline_ns > now ? p->deadline_ns - now : 0;

		if (!p->told && (wait < 0 || left < wait))
			wait = left;
	}
	if (wait < 0)
		(void)uv_timer_stop(&s->timer);
	else
		(void)uv_timer_start(&s->timer, on_timer,
				     (uint64_t)((wait + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS), 0);
}

/* Begins or ends to watch an executor, as it is now. */
static void follow_executor(struct supervise *s, int64_t serial)
{
	const struct executor *e = fleet_get(s->hub->fleet, serial);
	int64_t ago = -1;

	if (!can_be_probed(e)) {
		supervisor_forget(s->schedule, serial);
		return;
	}
	const struct executor_record_health *h = &e->record.health;
	if (h->last_probe_ns) {
		ago = clock_now_ns() - h->last_probe_ns;
		/* A clock that was set back says nothing. */
		ago = ago < 0 ? 0 : ago;
	}
	if (supervisor_watch(s->schedule, serial, h->consecutive_failures, ago, clock_boot_ns()) < 0)
		hub_log("no memory to probe executor %s", e->record.name);
}

/* --- what changed --------------------------------------------------------------------------- */

static void tell_listeners(struct supervise *s, const struct fleet_change *c)
{
	const struct fleet_transition *t = &c->transition;
	const struct executor *e = fleet_get(s->hub->fleet, c->serial);
	bool lost = t->changed && t->to == NODE_UNREACHABLE;
	bool fit = t->changed && node_state_schedulable(t->to) && !node_state_schedulable(t->from);

	/* Registered, or it offers something else than before. */
	if (c->kind == FLEET_ADD || c->kind == FLEET_CONFIGURE)
		fit = e && e->driver && node_state_schedulable(node_state_parse(e->record.health.state));

	for (size_t i = 0; i < s->n_listeners; i++) {
		const struct listener *l = &s->listeners[i];

		if (lost && l->events->unreachable)
			l->events->unreachable(l->user, (uint32_t)c->serial);
		if (fit && l->events->fit)
			l->events->fit(l->user, (uint32_t)c->serial);
	}
}

static void want_preflight(struct supervise *s, int64_t serial)
{
	struct executor *e = fleet_get(s->hub->fleet, serial);

	if (e)
		e->preflight_due = true;
}

static void fleet_was_changed(void *user, const struct fleet_change *c)
{
	struct supervise *s = user;
	struct waiters gone = STAILQ_HEAD_INITIALIZER(gone);
	struct error err;

	if (s->stopped)
		return;
	if (c->transition.changed)
		s->counts.transitions[c->transition.to]++;
	if (c->kind != FLEET_PROBED) {
		follow_executor(s, c->serial);
		if (c->kind == FLEET_ADD || c->kind == FLEET_CONFIGURE)
			want_preflight(s, c->serial);
		/* What the new config means, nobody knows yet. */
		if (c->kind == FLEET_CONFIGURE)
			(void)supervisor_hurry(s->schedule, c->serial);
		if (!supervisor_watches(s->schedule, c->serial)) {
			move_waiters(&s->waiters, &gone, c->serial);
			(void)error_set(&err, ESTALE, "the executor was removed");
			tell_waiters(&gone, &err);
		}
	}
	tell_listeners(s, c);
	arm(s);
}

static void file_changed(struct hub *hub, int64_t serial, const char *name)
{
	const struct node node = {.kind = NODE_EXECUTOR,
				  .serial = (uint32_t)serial,
				  .file = node_find(&executor_dir, name)};

	watch_modified(hub, node);
}

void supervise_probed(struct hub *hub, struct fleet_change *change)
{
	bool changed = change->transition.changed;
	int64_t serial = change->serial;

	if (change->reason)
		hub->supervise->counts.probes_failed++;
	else
		hub->supervise->counts.probes_ok++;
	fleet_changed(hub->fleet, change);
	if (!changed) {
		file_changed(hub, serial, "health");
		file_changed(hub, serial, "probe");
		return;
	}
	hub_event(hub);
	watch_modified(hub, root_node("status"));
	watch_modified_all(hub, (struct node){.kind = NODE_EXECUTOR, .serial = (uint32_t)serial});
}

/* --- one probe ------------------------------------------------------------------------------ */

static void release(struct probing *p)
{
	if (p->with_driver || p->committing)
		return;
	LIST_REMOVE(p, entry);
	free_waiters(&p->waiters);
	fleet_change_clear(&p->change);
	free(p->report);
	free(p);
}

static int64_t failures_of(const struct supervise *s, int64_t serial)
{
	const struct executor *e = fleet_get(s->hub->fleet, serial);

	return e ? e->record.health.consecutive_failures : 0;
}

static int apply(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct probing *p = (struct probing *)op;
	int r = fleet_change_apply(tx, &p->change, err);

	if (r < 0 || !p->report)
		return r;
	return executor_record_set_preflight(tx, p->serial, p->begun_ns, p->report, err);
}

static void preflight_ended(const struct probing *p, bool kept)
{
	struct executor *e = fleet_get(p->owner->hub->fleet, p->serial);

	if (!e)
		return;
	if (kept && p->report)
		file_changed(p->owner->hub, p->serial, "preflight");
	else
		e->preflight_due = true;
}

static void committed(struct store_op *op, int result, const struct error *err)
{
	struct probing *p = (struct probing *)op;
	struct supervise *s = p->owner;
	int64_t serial = p->serial;

	p->committing = false;
	if (s->stopped) {
		release(p);
		return;
	}
	if (result >= 0)
		supervise_probed(s->hub, &p->change);
	else if (result != -ENOENT)
		hub_log("a probe's result cannot be kept: %s", err->reason);
	if (p->preflight)
		preflight_ended(p, result >= 0);
	supervisor_done(s->schedule, serial, failures_of(s, serial), clock_boot_ns());
	/* Who asked for a probe came first. */
	if (!p->preflight && preflight_is_due(fleet_get(s->hub->fleet, serial)))
		(void)supervisor_hurry(s->schedule, serial);
	if (result < 0)
		tell_waiters(&p->waiters, err);
	else
		tell_waiters(&p->waiters, p->err.code ? &p->err : NULL);
	release(p);
	run(s);
}

/* The result is known. */
static void conclude(struct probing *p, const struct error *err)
{
	struct supervise *s = p->owner;
	const struct executor *e = fleet_get(s->hub->fleet, p->serial);

	p->told = true;
	if (err)
		p->err = *err;
	p->change = (struct fleet_change){
		.kind = FLEET_PROBED,
		.serial = p->serial,
		.uid = s->hub->uid,
		.at_ns = clock_now_ns(),
		.name = strdup(e ? e->record.name : ""),
		.reason = err ? strdup(err->reason) : NULL,
		.policy = supervisor_config(s->schedule)->policy,
	};
	p->committing = true;
	p->op.apply = apply;
	p->op.done = committed;
	if (p->change.name && (p->change.reason || !err)) {
		store_submit(s->hub->store, &p->op);
		return;
	}
	struct error oom;
	committed(&p->op, error_oom(&oom), &oom);
}

static void answered(void *user, const struct error *err)
{
	struct probing *p = user;

	p->with_driver = false;
	if (p->told || p->owner->stopped)
		release(p);
	else
		conclude(p, err);
}

static void preflighted(void *user, const char *report, const struct error *err)
{
	struct probing *p = user;
	AUTO_FREE char *reason = NULL;
	struct error found;

	if (err || p->told || p->owner->stopped) {
		answered(p, err);
		return;
	}
	int failed = preflight_judge(report, &reason);
	if (failed >= 0)
		p->report = strdup(report);
	if (!p->report)
		(void)error_oom(&found);
	else if (failed > 0)
		(void)error_set(&found, EIO, "%s", reason);
	answered(p, !p->report || failed > 0 ? &found : NULL);
}

/* What nobody waits for looks at a new config first. */
static int ask(struct probing *p, struct executor *e, struct error *err)
{
	struct supervise *s = p->owner;
	struct executor_probe request = supervise_request(s->hub, e);

	p->with_driver = true;
	if (!STAILQ_EMPTY(&p->waiters) || !preflight_is_due(e))
		return e->driver->ops->probe(e->driver, &request, answered, p, err);
	p->preflight = true;
	e->preflight_due = false; /* a change of its config meanwhile sets it again */
	p->deadline_ns += (PREFLIGHT_PARTS - 1) * supervisor_config(s->schedule)->probe_timeout_ns;
	return e->driver->ops->preflight(e->driver, &request, preflighted, p, err);
}

static bool still_with_driver(const struct supervise *s, int64_t serial)
{
	for (const struct probing *p = LIST_FIRST(&s->probing); p; p = LIST_NEXT(p, entry))
		if (p->serial == serial && p->with_driver)
			return true;
	return false;
}

static void begin(struct supervise *s, int64_t serial)
{
	struct executor *e = fleet_get(s->hub->fleet, serial);
	struct probing *p = can_be_probed(e) ? calloc(1, sizeof(*p)) : NULL;
	struct error err;
	int r;

	if (!p) {
		supervisor_done(s->schedule, serial, failures_of(s, serial), clock_boot_ns());
		return;
	}
	p->owner = s;
	p->serial = serial;
	p->deadline_ns = clock_boot_ns() + supervisor_config(s->schedule)->probe_timeout_ns +
			 SUPERVISE_GRACE_MS * CLOCK_NS_PER_MS;
	STAILQ_INIT(&p->waiters);
	move_waiters(&s->waiters, &p->waiters, serial);
	p->begun_ns = clock_now_ns();
	bool stuck = still_with_driver(s, serial);
	LIST_INSERT_HEAD(&s->probing, p, entry);
	if (stuck)
		r = error_set(&err, EBUSY, "the probe before this one has not come back");
	else
		r = ask(p, e, &err);
	if (r < 0) {
		p->with_driver = false;
		conclude(p, &err);
	}
}

/* Those that have not come back in time have failed. */
static void give_up_late(struct supervise *s)
{
	int64_t now = clock_boot_ns();
	struct probing *p, *next;
	struct error err;

	for (p = LIST_FIRST(&s->probing); p; p = next) {
		next = LIST_NEXT(p, entry);
		if (p->told || p->deadline_ns > now)
			continue;
		int64_t took_ns = supervisor_config(s->schedule)->probe_timeout_ns;
		(void)error_set(&err, ETIMEDOUT, "the %s did not come back within %lld ms",
				p->preflight ? "preflight" : "probe",
				(long long)((p->preflight ? PREFLIGHT_PARTS * took_ns : took_ns) /
					    CLOCK_NS_PER_MS));
		conclude(p, &err);
	}
}

static void run(struct supervise *s)
{
	int64_t serial;

	if (!s->started || s->stopped)
		return;
	give_up_late(s);
	while (supervisor_next(s->schedule, clock_boot_ns(), &serial))
		begin(s, serial);
	arm(s);
}

/* --- for others ----------------------------------------------------------------------------- */

int supervise_probe(struct hub *hub, const struct executor *e, supervise_done_fn *done, void *user,
		    struct error *err)
{
	struct supervise *s = hub->supervise;
	int64_t serial = e->record.serial;

	if (!e->driver) {
		int r = error_set(err, EHOSTUNREACH, "executor %s is not configured", e->record.name);

		error_remedy(err, "write its config first");
		return r;
	}
	if (!supervisor_watches(s->schedule, serial))
		return error_set(err, EOPNOTSUPP, "executors of this kind are not probed");
	struct waiter *w = calloc(1, sizeof(*w));
	if (!w)
		return error_oom(err);
	*w = (struct waiter){.serial = serial, .done = done, .user = user};
	STAILQ_INSERT_TAIL(&s->waiters, w, entry);
	(void)supervisor_hurry(s->schedule, serial);
	/* From the loop: nothing is answered from within this call. */
	if (s->started && !s->stopped)
		(void)uv_timer_start(&s->timer, on_timer, 0, 0);
	return 0;
}

void supervise_listen(struct hub *hub, const struct supervisor_events *events, void *user)
{
	struct supervise *s = hub->supervise;

	if (s->n_listeners < SUPERVISE_LISTENERS_MAX)
		s->listeners[s->n_listeners++] = (struct listener){events, user};
}

struct supervise_counts supervise_counts(const struct hub *hub)
{
	return hub->supervise->counts;
}

void supervise_configure(struct hub *hub, const struct supervisor_config *config)
{
	struct supervise *s = hub->supervise;

	supervisor_configure(s->schedule, config, clock_boot_ns());
	arm(s);
}

void supervise_start(struct hub *hub)
{
	struct supervise *s = hub->supervise;

	s->begin_by_ns = clock_boot_ns() + START_WAIT_MS * CLOCK_NS_PER_MS;
	(void)uv_timer_start(&s->timer, on_start_timer, 0, START_LOOK_MS);
}

bool supervise_started(const struct hub *hub)
{
	return hub->supervise->started;
}

void supervise_stop(struct hub *hub)
{
	if (hub->supervise)
		hub->supervise->stopped = true;
}

int supervise_new(struct hub *hub, struct supervise **ret, struct error *err)
{
	struct supervise *s = calloc(1, sizeof(*s));
	struct executor *e;

	if (!s)
		return error_oom(err);
	s->hub = hub;
	STAILQ_INIT(&s->waiters);
	LIST_INIT(&s->probing);
	if (getrandom(&s->random, sizeof(s->random), 0) != (ssize_t)sizeof(s->random))
		s->random = (uint64_t)clock_boot_ns();
	s->schedule = supervisor_new(&settings_get(hub)->supervisor, next_random, s);
	if (!s->schedule) {
		free(s);
		return error_oom(err);
	}
	(void)uv_timer_init(&hub->loop, &s->timer); /* cannot fail */
	s->timer.data = s;
	for (size_t i = 0; (e = fleet_at(hub->fleet, i)); i++) {
		follow_executor(s, e->record.serial);
		e->preflight_due = preflight_is_missing(s, e);
		if (preflight_is_due(e))
			(void)supervisor_hurry(s->schedule, e->record.serial);
	}
	fleet_listen(hub->fleet, fleet_was_changed, s);
	*ret = s;
	return 0;
}

struct supervise *supervise_free(struct supervise *s)
{
	struct probing *p;

	if (!s)
		return NULL;
	while ((p = LIST_FIRST(&s->probing))) {
		p->with_driver = p->committing = false;
		release(p);
	}
	free_waiters(&s->waiters);
	s->schedule = supervisor_free(s->schedule);
	free(s);
	return NULL;
}
