#include "core/dispatch.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/disk_floor.h"
#include "core/dispatch_internal.h"
#include "core/failover.h"
#include "core/fault.h"
#include "core/fleet_policy.h"
#include "core/store/store.h"

/* --- the tables ----------------------------------------------------------------------------- */

static int by_serial(const void *a, const void *b)
{
	const struct live *x = a, *y = b;

	return x->row.serial < y->row.serial ? -1 : x->row.serial > y->row.serial;
}

static int by_name(const void *a, const void *b)
{
	const struct live *x = a, *y = b;

	return strcmp(x->row.name, y->row.name);
}

struct live *live_get(struct dispatch *d, int64_t serial)
{
	struct live key = {.row = {.serial = serial}};
	struct live **found = tfind(&key, &d->by_serial, by_serial);

	return found ? *found : NULL;
}

static struct live *live_find(struct dispatch *d, const char *name)
{
	struct live key = {.row = {.name = (char *)(uintptr_t)name}};
	struct live **found = tfind(&key, &d->by_name, by_name);

	return found ? *found : NULL;
}

static void live_free(struct live *l)
{
	if (!l)
		return;
	session_clear(&l->row);
	(void)spec_free(l->spec);
	free(l->lost_reason);
	free(l->from);
	free(l->end_reason);
	while (l->waiters) {
		struct start_waiter *w = l->waiters;

		l->waiters = w->next;
		free(w);
	}
	while (l->signals) {
		struct queued_signal *s = l->signals;

		l->signals = s->next;
		free(s);
	}
	free(l);
}

static struct executor *executor_of(struct dispatch *d, const struct live *l)
{
	return fleet_get(d->fleet, l->row.executor_serial);
}

/* The list keeps the order of serials: new ones go to its end. */
static int live_add(struct dispatch *d, struct live *l)
{
	if (!tsearch(l, &d->by_serial, by_serial))
		return -ENOMEM;
	if (!tsearch(l, &d->by_name, by_name)) {
		(void)tdelete(l, &d->by_serial, by_serial);
		return -ENOMEM;
	}
	l->prev = d->last;
	if (d->last)
		d->last->next = l;
	else
		d->first = l;
	d->last = l;
	d->n_live++;
	live_count(d, l, l->row.executor_serial);
	return 0;
}

void live_count(struct dispatch *d, struct live *l, int64_t executor_serial)
{
	struct executor *before = fleet_get(d->fleet, l->counted);
	struct executor *e = fleet_get(d->fleet, executor_serial);

	if (before)
		before->inflight--;
	if (e)
		e->inflight++;
	/* What an earlier hub left there is no change. */
	if (before)
		before->inflight_ns = clock_now_ns();
	if (e && !l->adopted)
		e->inflight_ns = clock_now_ns();
	l->counted = executor_serial;
}

void live_drop(struct dispatch *d, struct live *l)
{
	(void)tdelete(l, &d->by_serial, by_serial);
	(void)tdelete(l, &d->by_name, by_name);
	if (l->prev)
		l->prev->next = l->next;
	else
		d->first = l->next;
	if (l->next)
		l->next->prev = l->prev;
	else
		d->last = l->prev;
	d->n_live--;
	live_count(d, l, 0);
	live_free(l);
}

/* --- answers -------------------------------------------------------------------------------- */

static int waiter_add(struct live *l, dispatch_started_fn *done, void *user)
{
	struct start_waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	struct start_waiter **end = &l->waiters;
	while (*end)
		end = &(*end)->next;
	w->done = done;
	w->user = user;
	*end = w;
	return 0;
}

/* Tells the first who waits for this start how it went. */
static void answer_first(struct live *l, const struct error *err, uint32_t committed)
{
	struct start_waiter *w = l->waiters;

	l->waiters = w->next;
	w->done(w->user, err ? NULL : &l->row, err, committed);
	free(w);
}

/* Tells everybody who waits for this start how it went. */
static void answer_waiters(struct live *l, const struct error *err)
{
	while (l->waiters)
		answer_first(l, err, 0);
}

void dispatch_say(struct dispatch *d, const struct live *l, const char *what, const char *detail)
{
	char line[ERROR_REASON_MAX + 256];

	(void)snprintf(line, sizeof(line), "session %s on %s: %s%s%s", l->row.name,
		       l->row.executor[0] ? l->row.executor : "(none)", what, detail[0] ? ": " : "",
		       detail);
	d->hooks->log(d->user, line);
}

/* --- launching ------------------------------------------------------------------------------ */

size_t dispatch_parse_groups(const char *text, uint32_t **ret)
{
	size_t n = text[0] ? 1 : 0, i = 0;

	for (const char *p = text; *p; p++)
		n += *p == ',';
	uint32_t *groups = calloc(n ? n : 1, sizeof(*groups));
	for (char *end; groups && *text; text = *end ? end + 1 : end)
		groups[i++] = (uint32_t)strtoul(text, &end, 10);
	*ret = groups;
	return i;
}

static char *groups_text(const uint32_t *groups, size_t n)
{
	AUTO_BUF struct buf b = BUF_INIT(1024 * 1024);

	buf_puts(&b, "");
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%u", i ? "," : "", groups[i]);
	return b.failed ? NULL : buf_take(&b);
}

/* The driver refused, or the workload could not be executed: the start answers the reason. */
static void launch_refused(struct dispatch *d, struct live *l, const struct error *err)
{
	dispatch_say(d, l, "not started", err->reason);
	if (l->waiters) {
		/*
		 * Who asked first takes the row back with the commit that records his refusal; the
		 * others are told when it is gone, so that none of them can see it launched again.
		 */
		l->phase = PHASE_TAKING_BACK;
		l->start_error = *err;
		live_answer_signals(l, err);
		answer_first(l, &l->start_error, (uint32_t)l->row.serial);
	} else {
		/* Nobody waits for the answer any more: it is the session that tells. */
		const struct executor_exit failed = {.cause = SESSION_CAUSE_START,
						     .exit_code = -1,
						     .finished_at_ns = clock_now_ns(),
						     .reason = err->reason};
		live_finish(d, l, &failed);
	}
}

void live_launch(struct dispatch *d, struct live *l)
{
	struct executor *e = executor_of(d, l);
	AUTO_FREE uint32_t *groups = NULL;
	struct error err;

	l->phase = PHASE_LAUNCHING;
	if (!e || !e->driver) {
		(void)error_set(&err, EHOSTUNREACH, "executor %s is not registered any more",
				l->row.executor);
		launch_refused(d, l, &err);
		return;
	}
	if (fleet_check_host(d->fleet, e, l->row.project_path, &err) < 0) {
		launch_refused(d, l, &err);
		return;
	}
	if (!e->driver->ready)
		return; /* resolved when it is */
	if (!l->spec && spec_parse(l->row.spec, strlen(l->row.spec), &l->spec, &err) < 0) {
		launch_refused(d, l, &err);
		return;
	}
	size_t n_groups = dispatch_parse_groups(l->row.groups, &groups);
	const struct executor_launch launch = {
		.serial = (uint32_t)l->row.serial,
		.attempt = (uint32_t)l->row.attempt,
		.executor = l->row.executor,
		.handle = l->row.handle_id,
		.spec = l->spec,
		.config = &e->config,
		.uid = l->row.uid,
		.gid = l->row.gid,
		.groups = groups,
		.n_groups = n_groups,
		.log_quota_bytes = (uint64_t)l->row.log_quota_bytes,
	};
	int r = e->driver->ops->launch(e->driver, &launch, &err);
	if (r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		l->unresolved = true; /* says nothing about the workload: asked again */
	else if (r < 0)
		launch_refused(d, l, &err);
}

/* The row is on the disk: nothing may be launched before. */
static void row_committed(struct store_op *op, int result, const struct error *err)
{
	AUTO_FREE struct row_op *row_op = (struct row_op *)op; /* and err with it */
	struct dispatch *d = row_op->dispatch;
	struct live *l = row_op->live;

	if (result < 0) {
		int64_t executor = l->row.executor_serial;

		answer_waiters(l, err);
		live_answer_signals(l, err);
		live_drop(d, l);
		d->hooks->inflight(d->user, executor);
		return;
	}
	(void)fault_point("launch.row");
	d->changed_ns = clock_now_ns();
	l->visible = true;
	d->hooks->created(d->user, (uint32_t)l->row.serial, l->row.name);
	d->hooks->inflight(d->user, l->row.executor_serial);
	live_launch(d, l);
	(void)fault_point("launch.asked");
}

static int apply_row(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct row_op *row_op = (const struct row_op *)op;

	/* The loop does not change what is read here while the phase is PHASE_COMMITTING. */
	int r = session_insert(tx, &row_op->live->row, err);

	(void)fault_point("launch.inserted");
	return r;
}

/* A row of before files were noted was asked for at the executor that it ran on. */
static bool same_file(const struct session *s, const struct dispatch_start *start)
{
	if (s->start_file)
		return s->start_file == start->start_file;
	return start->executor && s->executor_serial == start->executor->record.serial;
}

static bool same_request(struct dispatch *d, const struct session *s,
			 const struct dispatch_start *start, const char *text)
{
	AUTO_FREE char *spec = NULL;

	return same_file(s, start) &&
	       (!start->same_requirements || strcmp(s->requirements, start->requirements) == 0) &&
	       dispatch_spec(d, (uint32_t)s->serial, &spec) == 0 && strcmp(spec, text) == 0;
}

static int refuse_name(const struct session *s, uid_t uid, struct error *err)
{
	int r;

	if (s->uid != uid) {
		r = error_set(err, EPERM, "session %s belongs to another user", s->name);
	} else {
		r = error_set(err, EEXIST, "session %s exists, with another spec or started elsewhere",
			      s->name);
		error_remedy(err, "choose another id, or rmdir sessions/%s", s->name);
	}
	error_field(err, "labels.%s", SESSION_LABEL);
	return r;
}

/* Answers a start whose name is taken. Returns 1 when it is free. */
static int try_existing(struct dispatch *d, const char *name, const struct dispatch_start *start,
			const char *text, dispatch_started_fn *done, void *user, struct error *err)
{
	struct live *l = live_find(d, name);

	if (!l) {
		AUTO_SESSION struct session row = {0};
		int r = session_get_by_name(store_reader(d->store), name, &row, err);

		if (r == -ENOENT)
			return 1;
		if (r < 0)
			return r;
		if (row.uid != start->uid || !same_request(d, &row, start, text))
			return refuse_name(&row, start->uid, err);
		done(user, &row, NULL, 0);
		return 0;
	}
	if (l->row.uid != start->uid || !same_request(d, &l->row, start, text))
		return refuse_name(&l->row, start->uid, err);
	if (l->phase == PHASE_TAKING_BACK) {
		int r = error_set(err, EBUSY, "session %s could not be started and is being removed", name);

		error_remedy(err, "try again");
		return r;
	}
	if (l->phase == PHASE_COMMITTING || l->phase == PHASE_LAUNCHING)
		return waiter_add(l, done, user) < 0 ? error_oom(err) : 0;
	done(user, &l->row, NULL, 0);
	return 0;
}

static int fill_row(struct dispatch *d, struct live *l, const struct dispatch_start *start,
		    const struct executor *e, const char *name, char *text)
{
	struct session *row = &l->row;
	char handle[SESSION_HANDLE_ID_MAX];

	row->serial = ++d->last_serial;
	row->name = strdup(name);
	row->executor = strdup(e->record.name);
	row->executor_serial = e->record.serial;
	row->uid = start->uid;
	row->gid = start->gid;
	row->state = SESSION_PENDING;
	row->exit_code = 0;
	row->boot_id = strdup(d->boot_id);
	row->claim_token = strdup("1");
	row->attempt = 1;
	row->created_at_ns = clock_now_ns();
	row->log_quota_bytes = (int64_t)(e->config.log_quota_bytes ? e->config.log_quota_bytes
								   : d->limits.log_quota_bytes);
	row->origin_mount = start->origin_mount;
	row->origin_unique = start->origin_unique;
	row->project_path = strdup(start->project_path ? start->project_path : "");
	row->project_serial = start->project_serial;
	row->error = strdup("");
	row->requirements = strdup(start->requirements ? start->requirements : "");
	row->start_file = start->start_file;
	row->groups = groups_text(start->groups, start->n_groups);
	row->spec = text;
	if (!row->name)
		return -ENOMEM;
	session_handle_id(row, handle);
	row->handle_id = strdup(handle);
	return row->executor && row->boot_id && row->claim_token && row->project_path && row->error &&
			       row->requirements && row->groups && row->handle_id
		       ? 0
		       : -ENOMEM;
}

int dispatch_start(struct dispatch *d, struct dispatch_start *start, dispatch_started_fn *done,
		   void *user, struct error *err)
{
	const char *chosen = spec_label(start->spec, SESSION_LABEL);
	char name[SESSION_ID_MAX + 1];
	AUTO_FREE char *text = spec_text(start->spec);
	int r;

	if (!text)
		return error_oom(err);
	if (chosen) {
		r = dispatch_check_id(start->spec, err);
		if (r < 0)
			return r;
		(void)snprintf(name, sizeof(name), "%s", chosen);
		/* A retry is answered also when the executor takes nothing new any more. */
		r = try_existing(d, name, start, text, done, user, err);
		if (r <= 0)
			return r;
	} else {
		dispatch_make_name(name);
	}
	struct executor *executor = start->executor;
	r = executor ? 0 : start->choose(start->choose_user, &executor, err);
	if (r >= 0)
		r = fleet_check_host(d->fleet, executor, start->project_path, err);
	if (r >= 0)
		r = executor_check_schedulable(executor, err);
	if (r >= 0)
		r = disk_floor_check(d->limits.disk_free_bytes, d->limits.disk_floor_bytes, err);
	if (r < 0)
		return r;

	const struct executor_launch launch = {
		.executor = executor->record.name, .handle = "",
		.spec = start->spec, .config = &executor->config,
		.uid = start->uid, .gid = start->gid,
		.groups = start->groups, .n_groups = start->n_groups,
	};
	struct driver *driver = executor->driver;
	r = driver->ops->check(driver, &launch, err);
	if (r < 0)
		return r;

	struct live *l = calloc(1, sizeof(*l));
	struct row_op *op = calloc(1, sizeof(*op));
	if (!l || !op || fill_row(d, l, start, executor, name, take_ptr(text)) < 0 ||
	    waiter_add(l, done, user) < 0 || live_add(d, l) < 0) {
		live_free(l);
		free(op);
		return error_oom(err);
	}
	l->spec = take_ptr(start->spec);
	l->phase = PHASE_COMMITTING;
	*op = (struct row_op){.op = {.apply = apply_row, .done = row_committed}, .dispatch = d, .live = l};
	store_submit(d->store, &op->op);
	return 0;
}

bool dispatch_resume(struct dispatch *d, uint64_t origin_mount, uint64_t origin_unique,
		     dispatch_started_fn *done, void *user)
{
	for (struct live *l = d->first; l; l = l->next) {
		if (l->row.origin_mount != origin_mount || l->row.origin_unique != origin_unique)
			continue;
		if (l->phase == PHASE_LAUNCHING && waiter_add(l, done, user) == 0)
			return true;
		done(user, &l->row, NULL, 0);
		return true;
	}
	AUTO_SESSION struct session row = {0};
	if (session_get_by_origin(store_reader(d->store), origin_mount, origin_unique, &row, NULL) < 0)
		return false;
	done(user, &row, NULL, 0);
	return true;
}

int dispatch_apply_take_back(struct store_tx *tx, uint32_t serial, struct error *err)
{
	int r = session_delete(tx, serial, err);

	return r < 0 ? r : session_doom(tx, serial, err);
}

void dispatch_taken_back(struct dispatch *d, uint32_t serial)
{
	struct live *l = live_get(d, serial);

	if (!l)
		return;
	AUTO_FREE char *name = strdup(l->row.name);
	int64_t executor = l->row.executor_serial, project = l->row.project_serial;

	answer_waiters(l, &l->start_error);
	/* Whoever is woken now must not find it any more. */
	live_drop(d, l);
	d->changed_ns = clock_now_ns();
	d->hooks->removed(d->user, serial, name ? name : "", executor, project);
	d->hooks->inflight(d->user, executor);
	d->hooks->forget(d->user, serial);
}

void dispatch_give_up(struct dispatch *d, uint32_t serial, const struct error *err)
{
	struct live *l = live_get(d, serial);
	const struct executor_exit failed = {.cause = SESSION_CAUSE_START,
					     .exit_code = -1,
					     .finished_at_ns = clock_now_ns(),
					     .reason = err->reason};

	if (!l)
		return;
	answer_waiters(l, err);
	live_finish(d, l, &failed);
}

void dispatch_answered(struct dispatch *d, uint32_t serial)
{
	struct live *l = live_get(d, serial);

	if (l)
		l->answered = true;
}

/* --- reports of the driver ------------------------------------------------------------------ */

static void on_started(void *user, uint32_t serial, const struct executor_started *started)
{
	struct dispatch *d = user;
	struct live *l = live_get(d, serial);

	if (!l || live_moving_started(d, l, started) || l->phase != PHASE_LAUNCHING)
		return;
	(void)fault_point("launch.started");
	live_running(d, l, started);
	answer_waiters(l, NULL);
	live_send_signals(d, l);
}

static void on_failed(void *user, uint32_t serial, const struct error *err)
{
	struct dispatch *d = user;
	struct live *l = live_get(d, serial);

	(void)fault_point("launch.failed");
	if (l && !live_moving_failed(d, l, err) && l->phase == PHASE_LAUNCHING)
		launch_refused(d, l, err);
}

static void on_ended(void *user, uint32_t serial, const struct executor_exit *ended)
{
	struct dispatch *d = user;
	struct live *l = live_get(d, serial);

	if (!l || live_moving_ended(d, l, ended) ||
	    (l->phase != PHASE_RUNNING && l->phase != PHASE_LAUNCHING))
		return;
	(void)fault_point("end.told");
	if (ended->cause == SESSION_CAUSE_LOST) {
		l->phase = PHASE_MENDING;
		l->lost_reason = strdup(ended->reason);
		d->hooks->mend(d->user, serial, (uint64_t)l->row.log_quota_bytes);
	} else {
		live_finish(d, l, ended);
	}
	/* It was adopted at its end: whoever waits for its start learns that it was started. */
	dispatch_answer_resolved(l);
}

void dispatch_mended(struct dispatch *d, uint32_t serial, uint64_t log_bytes)
{
	struct live *l = live_get(d, serial);

	if (!l || l->phase != PHASE_MENDING)
		return;
	const struct executor_exit lost = {.cause = SESSION_CAUSE_LOST,
					   .exit_code = -1,
					   .finished_at_ns = clock_now_ns(),
					   .log_bytes = log_bytes,
					   .reason = l->lost_reason ? l->lost_reason : ""};
	live_finish(d, l, &lost);
}

/* The driver can be asked: every session of it that is not known to run is resolved. */
static void on_ready(void *user, struct driver *driver)
{
	struct dispatch *d = user;

	for (struct live *l = d->first, *next; l; l = next) {
		struct executor *e = executor_of(d, l);

		next = l->next;
		if (l->phase == PHASE_FENCING && l->from_serial)
			live_fence(d, l);
		else if (e && e->driver == driver && l->phase == PHASE_LAUNCHING)
			live_resolve(d, l);
		else if ((!e || !e->driver) && l->phase == PHASE_LAUNCHING)
			live_orphaned(d, l);
	}
}

const struct executor_events dispatch_events = {
	.ready = on_ready,
	.stalled = live_stalled,
	.started = on_started,
	.failed = on_failed,
	.ended = on_ended,
};

void dispatch_answer_resolved(struct live *l)
{
	answer_waiters(l, NULL);
}

/* --- construction --------------------------------------------------------------------------- */

int dispatch_new(struct store *store, struct fleet *fleet, const char *boot_id,
		 const struct dispatch_hooks *hooks, void *user, struct dispatch **ret,
		 struct error *err)
{
	struct dispatch *d = calloc(1, sizeof(*d));

	if (!d)
		return error_oom(err);
	d->store = store;
	d->fleet = fleet;
	d->hooks = hooks;
	d->user = user;
	d->max_attempts = FAILOVER_ATTEMPTS_DEFAULT;
	d->limits = (struct dispatch_limits){.log_quota_bytes = LOG_QUOTA_DEFAULT,
					     .disk_free_bytes = INT64_MAX};
	d->boot_id = strdup(boot_id);
	if (!d->boot_id) {
		(void)dispatch_free(d);
		return error_oom(err);
	}
	*ret = d;
	return 0;
}

struct dispatch_limits *dispatch_limits(struct dispatch *d)
{
	return &d->limits;
}

static void nothing(void *node)
{
	(void)node;
}

struct dispatch *dispatch_free(struct dispatch *d)
{
	if (!d)
		return NULL;
	tdestroy(d->by_serial, nothing);
	tdestroy(d->by_name, nothing);
	while (d->first) {
		struct live *l = d->first;

		d->first = l->next;
		live_free(l);
	}
	session_cache_clear(d);
	free(d->boot_id);
	free(d);
	return NULL;
}

int dispatch_load(struct dispatch *d, int64_t changed_ns, struct error *err)
{
	AUTO_SESSION_LIST struct session_list list = {0};

	d->changed_ns = changed_ns;

	int r = session_last_serial(store_reader(d->store), &d->last_serial, err);
	if (r >= 0)
		r = session_list_live(store_reader(d->store), &list, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		struct live *l = calloc(1, sizeof(*l));

		if (!l)
			return error_oom(err);
		l->row = list.rows[i];
		list.rows[i] = (struct session){0};
		l->phase = PHASE_LAUNCHING;
		l->visible = true;
		l->adopted = true;
		l->started_told = l->row.state == SESSION_RUNNING;
		if (l->row.state == SESSION_RUNNING) {
			free(take_ptr(l->row.spec));
			free(take_ptr(l->row.groups));
		}
		if (live_add(d, l) < 0) {
			live_free(l);
			return error_oom(err);
		}
		r = live_recover(d, l, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- looking -------------------------------------------------------------------------------- */

const struct session *dispatch_get(struct dispatch *d, uint32_t serial)
{
	struct live *l = live_get(d, serial);

	if (l)
		return l->visible ? &l->row : NULL;
	return session_cache_get(d, serial);
}

int dispatch_find(struct dispatch *d, const char *name, uint32_t *ret)
{
	struct live *l = live_find(d, name);

	if (l && !l->visible)
		return -ENOENT;
	if (l) {
		*ret = (uint32_t)l->row.serial;
		return 0;
	}
	return session_cache_find(d, name, ret);
}

void dispatch_each_live(struct dispatch *d, int64_t executor_serial,
			bool (*fn)(void *user, const struct session *s), void *user)
{
	for (struct live *l = d->first; l; l = l->next)
		if (l->visible && !l->finished &&
		    (executor_serial == 0 || l->counted == executor_serial) &&
		    !fn(user, &l->row))
			return;
}
