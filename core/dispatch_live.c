/* What happens to a session once its row is written: running, resolving, signals, its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch_internal.h"
#include "core/fault.h"
#include "core/handle_row.h"
#include "core/json.h"
#include "core/store/event.h"

/* --- writing what happened ------------------------------------------------------------------ */

/* One row's transition on its way to the disk. Holds copies: the writer reads nothing of the loop's. */
struct state_op {
	struct store_op op; /* first */
	struct dispatch *dispatch;
	struct session row; /* texts are owned copies */
	char *driver;       /* kind, for the handle record */
	bool starts, ends; /* what it tells: both for a session that was found at its end */
	bool answered;
};

static void state_op_free(struct state_op *s)
{
	session_clear(&s->row);
	free(s->driver);
	free(s);
}

static char *dup_text(const char *text)
{
	return strdup(text ? text : "");
}

static struct state_op *state_op_new(struct dispatch *d, const struct live *l)
{
	struct state_op *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	const struct executor *e = fleet_get(d->fleet, l->row.executor_serial);
	s->dispatch = d;
	s->answered = l->answered;
	s->row = l->row;
	s->row.name = dup_text(l->row.name);
	s->row.executor = dup_text(l->row.executor);
	s->row.boot_id = dup_text(l->row.boot_id);
	s->row.handle_id = dup_text(l->row.handle_id);
	s->row.claim_token = dup_text(l->row.claim_token);
	s->row.error = dup_text(l->row.error);
	s->row.image = dup_text(l->row.image ? l->row.image : "");
	s->row.project_path = dup_text(l->row.project_path);
	s->row.requirements = s->row.spec = s->row.groups = NULL;
	s->driver = dup_text(e && e->driver ? e->driver->ops->kind : "");
	if (!s->row.name || !s->row.executor || !s->row.boot_id || !s->row.handle_id ||
	    !s->row.claim_token || !s->row.error || !s->row.image || !s->row.project_path ||
	    !s->driver) {
		state_op_free(s);
		return NULL;
	}
	return s;
}

static int append_event(struct store_tx *tx, const struct session *row, bool ended, struct error *err)
{
	AUTO_JSON json_t *o = json_object();
	int64_t at_ns = ended ? row->finished_at_ns : row->started_at_ns;

	if (!o || json_put_string(o, "type", ended ? "session.ended" : "session.started") < 0 || json_put_int(o, "uid", row->uid) < 0 ||
	    json_put_string(o, "session", row->name) < 0 ||
	    json_put_string(o, "executor_id", row->executor) < 0 ||
	    json_put_int(o, "attempt", row->attempt) < 0 || json_put_int_if(o, "pid", row->pid) < 0)
		return error_oom(err);
	if (ended && (json_put_string(o, "state", session_state_name(row->state)) < 0 ||
		      json_put_string_if(o, "cause", session_cause_name(row->cause)) < 0 ||
		      json_put_int(o, "exit_code", row->exit_code) < 0 ||
		      json_put_int_if(o, "signal", row->signal) < 0 ||
		      json_put_string_if(o, "error", row->error) < 0))
		return error_oom(err);
	AUTO_FREE char *text = json_text(o);
	return text ? event_append(tx, at_ns, text, NULL, err) : error_oom(err);
}

static int apply_running(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct state_op *s = (const struct state_op *)op;
	const struct session *row = &s->row;
	const struct session_running running = {
		.handle_id = row->handle_id,
		.pid = row->pid,
		.boot_id = row->boot_id,
		.started_at_ns = row->started_at_ns,
		.deadline_ns = row->deadline_ns,
		.image = row->image,
	};
	char external[24], empty[] = "", none[] = "[]";

	(void)snprintf(external, sizeof(external), "%lld", (long long)row->pid);
	const struct handle_row handle = {
		.handle_id = row->handle_id,
		.executor_id = row->executor,
		.driver = s->driver,
		.external_id = external,
		.project_path = row->project_path,
		.pid = row->pid,
		.image = row->image,
		.started_at_ns = row->started_at_ns,
		.deadline_ns = row->deadline_ns,
		.meta = empty,
		.secrets = none,
	};
	(void)fault_point("running.apply");
	int r = session_set_running(tx, row->serial, row->claim_token, &running, err);
	if (r >= 0)
		r = handle_row_put(tx, &handle, err);
	return r < 0 ? r : append_event(tx, row, false, err);
}

static int apply_ended(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct state_op *s = (const struct state_op *)op;
	const struct session *row = &s->row;
	const struct session_finished finished = {
		.state = row->state,
		.cause = row->cause,
		.exit_code = row->exit_code,
		.signal = row->signal,
		.pid = row->pid,
		.started_at_ns = row->started_at_ns,
		.finished_at_ns = row->finished_at_ns,
		.error = row->error,
		.log_bytes = row->log_bytes,
		.log_dropped_bytes = row->log_dropped_bytes,
		.answered = s->answered,
	};

	(void)fault_point("end.apply");
	int r = session_set_finished(tx, row->serial, row->claim_token, &finished, err);
	if (r >= 0)
		r = handle_row_delete(tx, row->handle_id, err);
	if (r >= 0 && s->starts)
		r = append_event(tx, row, false, err);
	return r < 0 ? r : append_event(tx, row, true, err);
}

static void state_written(struct store_op *op, int result, const struct error *err)
{
	struct state_op *s = (struct state_op *)op;
	struct dispatch *d = s->dispatch;
	struct live *l = live_get(d, s->row.serial);

	(void)fault_point(s->ends ? "end.written" : "running.written");
	if (result >= 0)
		d->hooks->told(d->user);
	/* A running row that could not be written is made up for by the one that ends it. */
	if (l && !s->ends && result < 0)
		l->started_told = l->started_told && !s->starts;
	if (l && s->ends) {
		if (result >= 0 || result == -EALREADY || result == -ESTALE || result == -ENOENT) {
			live_drop(d, l);
		} else {
			dispatch_say(d, l, "its end could not be recorded yet", err->reason);
			l->unwritten = true;
			l->started_told = l->started_told && !s->starts;
		}
	}
	state_op_free(s);
}

static void write_state(struct dispatch *d, struct live *l, bool ends)
{
	struct state_op *s = state_op_new(d, l);

	if (!s) {
		l->unwritten = ends;
		return;
	}
	s->ends = ends;
	s->starts = !l->started_told && l->row.started_at_ns != 0;
	l->started_told = l->started_told || s->starts;
	s->op.apply = ends ? apply_ended : apply_running;
	s->op.done = state_written;
	store_submit(d->store, &s->op);
}

/* --- transitions ---------------------------------------------------------------------------- */

void live_running(struct dispatch *d, struct live *l, const struct executor_started *started)
{
	bool known = l->row.state == SESSION_RUNNING;

	l->phase = PHASE_RUNNING;
	l->row.state = SESSION_RUNNING;
	l->row.pid = (pid_t)started->pid;
	l->row.started_at_ns = started->started_at_ns;
	l->row.deadline_ns = started->deadline_ns;
	/* One that was adopted is what it was when it was started. */
	if (started->image[0]) {
		free(l->row.image);
		l->row.image = strdup(started->image);
	}
	l->spec = spec_free(l->spec);
	free(take_ptr(l->row.spec));
	free(take_ptr(l->row.groups));
	if (!known)
		write_state(d, l, false);
	dispatch_say(d, l, l->adopted ? "adopted" : "started", "");
	d->hooks->changed(d->user, (uint32_t)l->row.serial);
}

static void set_error(struct live *l, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	free(l->row.error);
	l->row.error = copy;
}

enum session_state executor_exit_state(const struct executor_exit *ended)
{
	switch (ended->cause) {
	case SESSION_CAUSE_EXIT:
		return SESSION_EXITED;
	case SESSION_CAUSE_START:
	case SESSION_CAUSE_LOST:
		return SESSION_FAILED;
	default:
		return SESSION_KILLED;
	}
}

char *executor_exit_text(const struct executor_exit *ended)
{
	char text[128];

	switch (ended->cause) {
	case SESSION_CAUSE_SIGNAL: {
		const char *name = sigabbrev_np(ended->signal);

		(void)snprintf(text, sizeof(text), "ended by signal %d (%s%s)", ended->signal,
			       name ? "SIG" : "unknown", name ? name : "");
		return strdup(text);
	}
	case SESSION_CAUSE_TIMEOUT:
		return strdup("killed when its timeout was reached");
	case SESSION_CAUSE_OOM:
		return strdup("killed because it ran out of memory");
	default:
		return strdup(ended->reason ? ended->reason : "");
	}
}

static void describe_end(struct live *l, const struct executor_exit *ended)
{
	char *text = executor_exit_text(ended);

	if (!text)
		return;
	free(l->row.error);
	l->row.error = text;
}

void live_finish(struct dispatch *d, struct live *l, const struct executor_exit *ended)
{
	l->phase = PHASE_FINISHED;
	l->finished = true;
	l->row.cause = ended->cause;
	l->row.state = executor_exit_state(ended);
	l->row.exit_code = ended->cause == SESSION_CAUSE_EXIT ? ended->exit_code : -1;
	l->row.signal = ended->signal;
	l->row.finished_at_ns = ended->finished_at_ns;
	l->row.log_bytes = (int64_t)ended->log_bytes;
	l->row.log_dropped_bytes = (int64_t)ended->log_dropped_bytes;
	if (ended->started_at_ns) {
		l->row.started_at_ns = ended->started_at_ns;
		l->row.pid = (pid_t)ended->pid;
	}
	if (ended->cause == SESSION_CAUSE_LOST && l->row.started_at_ns != 0 &&
	    strcmp(l->row.boot_id, d->boot_id) != 0)
		set_error(l, "the machine was restarted while it ran");
	else
		describe_end(l, ended);
	int64_t executor = l->counted;
	live_count(d, l, 0);
	dispatch_say(d, l, session_state_name(l->row.state), l->row.error);

	live_answer_signals(l, NULL); /* whoever waited to signal it has what he wanted */
	write_state(d, l, true);
	uint32_t serial = (uint32_t)l->row.serial;
	d->hooks->changed(d->user, serial);
	if (executor)
		d->hooks->inflight(d->user, executor);
}

static void lost(struct dispatch *d, struct live *l, const char *reason)
{
	const struct executor_exit ended = {.cause = SESSION_CAUSE_LOST,
					    .exit_code = -1,
					    .finished_at_ns = clock_now_ns(),
					    .reason = reason};

	live_finish(d, l, &ended);
}

void live_orphaned(struct dispatch *d, struct live *l)
{
	lost(d, l, "its executor is not registered any more");
	dispatch_answer_resolved(l);
}

void live_stalled(void *user, struct driver *driver)
{
	struct dispatch *d = user;

	for (struct live *l = d->first; l; l = l->next) {
		const struct executor *e = fleet_get(d->fleet, l->row.executor_serial);

		if (e && e->driver == driver && l->phase == PHASE_LAUNCHING)
			dispatch_answer_resolved(l);
	}
}

void live_resolve(struct dispatch *d, struct live *l)
{
	struct executor *e = fleet_get(d->fleet, l->row.executor_serial);
	struct error err;
	bool found = false;

	l->unresolved = false;
	int r = e->driver->ops->adopt(e->driver, (uint32_t)l->row.serial, (uint32_t)l->row.attempt,
				      &e->config, &found, &err);
	if (r < 0) {
		/* Not a verdict: the session may well run. Asked again later. */
		dispatch_say(d, l, "cannot be looked for yet", err.reason);
		l->unresolved = true;
	} else if (found) {
		l->adopted = true; /* the driver tells what became of it */
	} else if (l->row.state != SESSION_PENDING) {
		lost(d, l, "nothing is left of it");
		dispatch_answer_resolved(l);
	} else if (strcmp(l->row.boot_id, d->boot_id) != 0) {
		lost(d, l, "the machine was restarted before it was launched");
		dispatch_answer_resolved(l);
	} else {
		live_launch(d, l);
	}
}

void dispatch_tick(struct dispatch *d)
{
	for (struct live *l = d->first, *next; l; l = next) {
		struct executor *e = fleet_get(d->fleet, l->row.executor_serial);

		next = l->next;
		if (l->unwritten) {
			l->unwritten = false;
			write_state(d, l, true);
		} else if (l->unresolved && e && e->driver && e->driver->ready) {
			live_resolve(d, l);
		}
	}
	live_moving_tick(d);
}

/* --- signals -------------------------------------------------------------------------------- */

void live_answer_signals(struct live *l, const struct error *err)
{
	while (l->signals) {
		struct queued_signal *s = l->signals;

		l->signals = s->next;
		s->done(s->user, err ? -ESTALE : 0, err);
		free(s);
	}
}

static int signal_now(struct dispatch *d, struct live *l, const struct signal_key *key,
		      enum signal_kind signal, executor_signal_fn *done, void *user,
		      struct error *err)
{
	struct executor *e = fleet_get(d->fleet, l->row.executor_serial);

	if (!e || !e->driver)
		return error_set(err, EHOSTUNREACH, "executor %s is not registered any more",
				 l->row.executor);
	return e->driver->ops->signal(e->driver, (uint32_t)l->row.serial, (uint32_t)l->row.attempt, key,
				      signal, done, user, err);
}

void live_send_signals(struct dispatch *d, struct live *l)
{
	while (l->signals) {
		struct queued_signal *s = l->signals;
		struct error err;

		l->signals = s->next;
		int r = signal_now(d, l, &s->key, s->signal, s->done, s->user, &err);
		if (r < 0)
			s->done(s->user, r, &err);
		free(s);
	}
}

int dispatch_signal(struct dispatch *d, uint32_t serial, const struct signal_key *key,
		    enum signal_kind signal, executor_signal_fn *done, void *user,
		    struct error *err)
{
	struct live *l = live_get(d, serial);

	if (!l) {
		if (!session_cache_get(d, serial))
			return error_set_kind(err, ESTALE, ERROR_HANDLE_NOT_FOUND, "the session was removed");
		done(user, 0, NULL);
		return 0;
	}
	switch (l->phase) {
	case PHASE_RUNNING:
		return signal_now(d, l, key, signal, done, user, err);
	case PHASE_FINISHED:
		done(user, 0, NULL);
		return 0;
	case PHASE_TAKING_BACK:
		return error_set(err, ESTALE, "the session could not be started and is being removed");
	case PHASE_UNPLACED:
		live_signal_unplaced(d, l, signal);
		done(user, 0, NULL);
		return 0;
	case PHASE_LAUNCHING:
		/* A launch may hang (a directory on a dead server): that it can be killed is all the
		 * more important. */
		if (signal_now(d, l, key, signal, done, user, err) == 0)
			return 0;
		__attribute__((fallthrough));
	default: {
		struct queued_signal *s = calloc(1, sizeof(*s));
		struct queued_signal **end = &l->signals;

		if (!s)
			return error_oom(err);
		*s = (struct queued_signal){.key = *key, .signal = signal, .done = done, .user = user};
		while (*end)
			end = &(*end)->next;
		*end = s;
		return 0;
	}
	}
}

/* --- forgetting ----------------------------------------------------------------------------- */

int dispatch_apply_remove(struct store_tx *tx, uint32_t serial, uid_t uid, int64_t at_ns,
			  struct error *err)
{
	AUTO_SESSION struct session row = {0};

	int r = session_get(tx, serial, &row, err);
	if (r >= 0)
		r = session_delete(tx, serial, err);
	if (r >= 0)
		r = session_doom(tx, serial, err);
	if (r < 0)
		return r;
	AUTO_JSON json_t *o = json_object();
	if (!o || json_put_string(o, "type", "session.removed") < 0 || json_put_int(o, "uid", uid) < 0 ||
	    json_put_string(o, "session", row.name) < 0)
		return error_oom(err);
	AUTO_FREE char *text = json_text(o);
	return text ? event_append(tx, at_ns, text, NULL, err) : error_oom(err);
}

void dispatch_removed(struct dispatch *d, uint32_t serial, const char *name)
{
	struct session *s = &d->cache[serial % SESSION_CACHE];
	struct live *l = live_get(d, serial);
	int64_t project = l ? l->row.project_serial : s->serial == serial ? s->project_serial : 0;

	/* Whoever is woken now must not find it any more. */
	if (s->serial == serial)
		session_clear(s);
	if (l)
		live_drop(d, l); /* its end was still to be written */
	d->changed_ns = clock_now_ns();
	d->hooks->removed(d->user, serial, name, 0, project);
	d->hooks->forget(d->user, serial);
}

/* --- finished sessions ---------------------------------------------------------------------- */

int dispatch_spec(struct dispatch *d, uint32_t serial, char **ret)
{
	const struct live *l = live_get(d, serial);
	AUTO_SESSION struct session row = {0};

	if (l && l->row.spec) {
		*ret = strdup(l->row.spec);
		return *ret ? 0 : -ENOMEM;
	}
	int r = session_get(store_reader(d->store), serial, &row, NULL);
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	*ret = take_ptr(row.spec);
	return 0;
}

/* Every access through a path begins with a name (FNV-1a). */
static int64_t *cache_name(struct dispatch *d, const char *name)
{
	uint32_t hash = 2166136261U;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619U;
	return &d->cache_names[hash % SESSION_CACHE];
}

static const struct session *cache_put(struct dispatch *d, struct session *row)
{
	struct session *s = &d->cache[(uint64_t)row->serial % SESSION_CACHE];

	session_clear(s);
	*s = *row;
	*row = (struct session){0};
	/* A spec may be 1 MiB: it is read when somebody asks for it (dispatch_spec()). */
	free(take_ptr(s->spec));
	*cache_name(d, s->name) = s->serial;
	return s;
}

const struct session *session_cache_get(struct dispatch *d, uint32_t serial)
{
	const struct session *s = &d->cache[serial % SESSION_CACHE];
	AUTO_SESSION struct session row = {0};

	if (serial != 0 && s->serial == serial)
		return s;
	if (session_get(store_reader(d->store), serial, &row, NULL) < 0)
		return NULL;
	return cache_put(d, &row);
}

int session_cache_find(struct dispatch *d, const char *name, uint32_t *ret)
{
	AUTO_SESSION struct session row = {0};
	int64_t known = *cache_name(d, name);
	const struct session *s = &d->cache[(uint64_t)known % SESSION_CACHE];

	/* The slot may hold another one meanwhile, or none, as it was removed. */
	if (known != 0 && s->serial == known && strcmp(s->name, name) == 0) {
		*ret = (uint32_t)known;
		return 0;
	}
	int r = session_get_by_name(store_reader(d->store), name, &row, NULL);
	if (r < 0)
		return r;
	*ret = (uint32_t)row.serial;
	(void)cache_put(d, &row);
	return 0;
}

void session_cache_clear(struct dispatch *d)
{
	for (size_t i = 0; i < SESSION_CACHE; i++)
		session_clear(&d->cache[i]);
}

/* Names a listing takes at a time. */
#define LIST_PAGE 512

struct list_page {
	bool (*fn)(void *user, uint32_t serial, const char *name);
	void *user;
	int64_t project; /* 0: all */
	int64_t after;
	bool full;
};

static bool list_one(void *user, int64_t serial, const char *name)
{
	struct list_page *p = user;

	p->full = !p->fn(p->user, (uint32_t)serial, name);
	p->after = serial;
	return !p->full;
}

static int list_pages(struct dispatch *d, struct list_page *p)
{
	struct store_tx *tx = store_reader(d->store);
	int n;

	do {
		n = p->project ? session_list_project(tx, p->project, p->after, LIST_PAGE, list_one, p, NULL)
			       : session_list_page(tx, p->after, LIST_PAGE, list_one, p, NULL);
		if (n < 0)
			return n;
	} while (n == LIST_PAGE && !p->full);
	return 0;
}

int dispatch_list(struct dispatch *d, uint64_t from,
		  bool (*fn)(void *user, uint32_t serial, const char *name), void *user)
{
	struct list_page p = {.fn = fn, .user = user, .after = (int64_t)from - 1};

	return list_pages(d, &p);
}

int dispatch_list_project(struct dispatch *d, int64_t project_serial, uint64_t from,
			  bool (*fn)(void *user, uint32_t serial, const char *name), void *user)
{
	struct list_page p = {.fn = fn, .user = user, .project = project_serial, .after = (int64_t)from - 1};

	return list_pages(d, &p);
}

int64_t dispatch_changed_ns(const struct dispatch *d)
{
	return d->changed_ns;
}

int64_t dispatch_last_serial(const struct dispatch *d)
{
	return d->last_serial;
}

size_t dispatch_count_live(const struct dispatch *d)
{
	return d->n_live;
}

size_t dispatch_count_project(const struct dispatch *d, int64_t project_serial)
{
	size_t n = 0;

	for (const struct live *l = d->first; l; l = l->next)
		n += !l->finished && l->row.project_serial == project_serial;
	return n;
}
