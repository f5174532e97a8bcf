/*
 * /executors and /executors/<id>: where workloads run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/json.h"
#include "core/fleet.h"
#include "core/fleet_policy.h"
#include "core/text.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/config_dir.h"
#include "fs/config_scan.h"
#include "fs/context.h"
#include "fs/live.h"
#include "fs/preflight.h"
#include "fs/probe.h"
#include "fs/render.h"
#include "fs/supervise.h"
#include "fs/fleet_change.h"
#include "fs/start.h"
#include "fs/tables.h"
#include "fs/watch.h"

static struct executor *executor_at(const struct view *v)
{
	return fleet_get(v->hub->fleet, v->node.serial);
}

/* --- reading -------------------------------------------------------------------------------- */

static int render_config(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	if (!e)
		return -ESTALE;
	return e->record.config[0] ? render_line(out, e->record.config) : 0;
}

static int render_config_error(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	if (!e)
		return -ESTALE;
	return e->record.config_error[0] ? render_line(out, e->record.config_error) : 0;
}

static int render_kind(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	return e ? render_line(out, e->record.kind) : -ESTALE;
}

static int render_capabilities(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);
	struct capabilities caps = {0};

	if (!e)
		return -ESTALE;
	if (!e->driver)
		return render_line(out, "{}");
	e->driver->ops->capabilities(e->driver, &e->config, &caps);
	caps.max_concurrent = e->config.max_concurrent;
	return render_json(out, capabilities_to_json(&caps));
}

static int render_labels(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	return e ? render_json(out, labels_to_json(e->config.labels, e->config.n_labels)) : -ESTALE;
}

static int render_max_concurrent(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	if (!e)
		return -ESTALE;
	buf_printf(out, "%lld\n", (long long)e->config.max_concurrent);
	return out->failed;
}

static int render_state(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	return e ? render_line(out, executor_state(e)) : -ESTALE;
}

static int render_health(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);
	AUTO_JSON json_t *o = json_object();

	if (!e)
		return -ESTALE;
	const struct executor_record_health *h = &e->record.health;
	if (!o || json_put_string(o, "executor_id", e->record.name) < 0 ||
	    json_put_string(o, "state", executor_state(e)) < 0 ||
	    json_put_string_if(o, "reason", h->reason) < 0 ||
	    json_put_int(o, "consecutive_failures", h->consecutive_failures) < 0 ||
	    json_put_time_if(o, "last_seen", h->last_seen_ns) < 0 ||
	    json_put_time_if(o, "last_probe", h->last_probe_ns) < 0 ||
	    json_put_time_if(o, "state_changed_at", h->state_changed_at_ns) < 0)
		return -ENOMEM;
	return render_json(out, take_ptr(o));
}

static int render_inflight(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	if (!e)
		return -ESTALE;
	buf_printf(out, "%llu\n", (unsigned long long)e->inflight);
	return out->failed;
}

static int64_t inflight_changed(const struct view *v)
{
	const struct executor *e = executor_at(v);

	return e ? e->inflight_ns : 0;
}

static int render_drained(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);

	if (!e)
		return -ESTALE;
	buf_printf(out, "../../.live/executors/%s/drained", e->record.name);
	return out->failed;
}

/* --- changing ------------------------------------------------------------------------------- */

static void free_fleet_change(void *data)
{
	fleet_change_clear(data);
	free(data);
}

/* The change of the fleet that a request commits; NULL when out of memory (and refused). */
struct fleet_change *fleet_change_begin(struct change *c, enum fleet_change_kind kind,
					      int64_t serial, const char *name)
{
	struct fleet_change *rc = calloc(1, sizeof(*rc));

	if (rc) {
		rc->kind = kind;
		rc->serial = serial;
		rc->uid = c->uid;
		rc->at_ns = clock_now_ns();
		rc->name = strdup(name);
		rc->reason = strdup("");
		rc->policy = supervise_config(c->hub)->policy;
		c->data = rc;
		c->data_free = free_fleet_change;
	}
	if (!rc || !rc->name || !rc->reason) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return NULL;
	}
	return rc;
}

static int apply_fleet(struct store_tx *tx, struct change *c, struct error *err)
{
	return fleet_change_apply(tx, c->data, err);
}

void fleet_change_done(struct hub *hub, struct fleet_change *rc)
{
	const struct node dir = {.kind = NODE_EXECUTOR, .serial = (uint32_t)rc->serial};
	const struct node list = {.kind = NODE_EXECUTORS};

	fleet_changed(hub->fleet, rc);
	hub_event(hub);
	watch_modified(hub, root_node("default_id"));
	if (fleet_changed_ns(hub->fleet) > area_header(hub->area)->executors_ns)
		area_header(hub->area)->executors_ns = fleet_changed_ns(hub->fleet);
	if (rc->kind == FLEET_ADD)
		watch_created(hub, list, rc->name, dir);
	else if (rc->kind == FLEET_REMOVE)
		watch_deleted(hub, list, rc->name, dir);
	else
		watch_modified_all(hub, dir);
}

static void fleet_committed(struct change *c)
{
	const struct fleet_change *rc = c->data;
	bool removed = rc->kind == FLEET_REMOVE;

	fleet_change_done(c->hub, c->data);
	if (removed)
		config_dir_look(c->hub); /* a file that had its id may be taken now */
}

void fleet_change_commit(struct change *c)
{
	c->apply = apply_fleet;
	c->committed = fleet_committed;
	change_commit(c);
}

/* The executor that a change is about; refuses when it is gone. */
static struct executor *executor_of_change(struct change *c)
{
	struct executor *e = fleet_get(c->hub->fleet, c->node.serial);

	if (!e) {
		(void)error_set_kind(&c->err, ESTALE, ERROR_EXECUTOR_NOT_FOUND, "the executor was removed");
		change_refuse(c);
	}
	return e;
}

static bool refuse_if_from_file(struct change *c, const struct executor *e)
{
	if (e->record.source != EXECUTOR_SOURCE_FILE)
		return false;
	(void)error_set(&c->err, EPERM, "executor %s comes from the file " CONFIG_EXECUTORS_DIR "/%s.json",
			e->record.name, e->record.name);
	error_remedy(&c->err, "change or remove that file in the configuration directory");
	change_refuse(c);
	return true;
}

static void execute_config(struct change *c, const char *text, size_t len)
{
	AUTO_EXECUTOR_CONFIG struct executor_config config = {0};
	struct executor *e = executor_of_change(c);

	if (!e || refuse_if_from_file(c, e))
		return;
	if (executor_config_parse(text, len, fleet_drivers(c->hub->fleet), &config, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	if (fleet_check_config(c->hub->fleet, e->record.name, e, &config, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	struct fleet_change *rc = fleet_change_begin(c, FLEET_CONFIGURE, e->record.serial,
							   e->record.name);
	if (!rc)
		return;
	rc->config_text = executor_config_text(&config);
	rc->config_kind = strdup(config.kind);
	c->answer = rc->config_text ? strdup(rc->config_text) : NULL;
	if (!rc->config_text || !rc->config_kind || !c->answer) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	fleet_change_commit(c);
}

/* Longer notes are for another place; this one is shown in one line. */
#define REASON_MAX 200

static void command_state(struct change *c, const char *command)
{
	static const struct {
		const char *word;
		enum fleet_change_kind kind;
	} words[] = {
		{"cordon", FLEET_CORDON},     {"cordoned", FLEET_CORDON},
		{"drain", FLEET_DRAIN},       {"draining", FLEET_DRAIN},
		{"uncordon", FLEET_UNCORDON}, {"ready", FLEET_UNCORDON},
	};
	struct executor *e = executor_of_change(c);
	struct text_view all = text_trim(command, strlen(command));
	size_t n = strcspn(all.data, " \t");
	int kind = -1;

	if (!e)
		return;
	if (n > all.len)
		n = all.len;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i].word) == n && strncmp(all.data, words[i].word, n) == 0)
			kind = (int)words[i].kind;
	struct text_view reason = text_trim(all.data + n, all.len - n);
	if (kind < 0) {
		(void)error_set(&c->err, EINVAL, "no such command for a state");
		error_remedy(&c->err, "write cordon, drain or uncordon, and a reason if you like");
	} else if (!e->record.config[0]) {
		(void)error_set(&c->err, EHOSTUNREACH, "executor %s is not configured", e->record.name);
		error_remedy(&c->err, "write its config first");
	} else if (reason.len > REASON_MAX || !text_utf8_valid(reason.data, reason.len)) {
		(void)error_set(&c->err, EINVAL, "a reason is at most %d bytes of UTF-8", REASON_MAX);
		error_remedy(&c->err, "write a shorter one");
	} else if (kind == FLEET_UNCORDON && reason.len > 0) {
		(void)error_set(&c->err, EINVAL, "uncordon takes no reason");
		error_remedy(&c->err, "echo uncordon > executors/%s/state", e->record.name);
	}
	if (c->err.code) {
		change_refuse(c);
		return;
	}
	struct fleet_change *rc = fleet_change_begin(c, (enum fleet_change_kind)kind,
							   e->record.serial, e->record.name);
	if (!rc)
		return;
	free(rc->reason);
	rc->reason = strndup(reason.data, reason.len);
	if (!rc->reason) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	text_one_line(rc->reason);
	fleet_change_commit(c);
}

static void execute_start(struct change *c, const char *text, size_t len)
{
	struct executor *e = executor_of_change(c);

	if (e)
		start_execute(c, e, text, len);
}

/* --- the directory of all ------------------------------------------------------------------- */

static void executors_mkdir(struct change *c, const char *name)
{
	if (object_name_check("executor", name, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	if (fleet_find(c->hub->fleet, name)) {
		(void)error_set_kind(&c->err, EEXIST, ERROR_ALREADY_REGISTERED,
				     "there is an executor %s already", name);
		change_refuse(c);
		return;
	}
	int64_t serial = fleet_next_serial(c->hub->fleet);
	if (!fleet_change_begin(c, FLEET_ADD, serial, name))
		return;
	c->made = (struct node){.kind = NODE_EXECUTOR, .serial = (uint32_t)serial};
	fleet_change_commit(c);
}

static void removal_failed(struct change *c)
{
	const struct fleet_change *rc = c->data;
	struct executor *e = fleet_get(c->hub->fleet, rc->serial);

	if (e)
		e->removing = false;
}

static void executors_rmdir(struct change *c, const char *name)
{
	struct executor *e = fleet_find(c->hub->fleet, name);

	if (!e) {
		(void)error_set_kind(&c->err, ENOENT, ERROR_EXECUTOR_NOT_FOUND, "no such executor");
		change_refuse(c);
		return;
	}
	if (refuse_if_from_file(c, e))
		return;
	if (e->inflight > 0 || e->removing) {
		(void)error_set(&c->err, EBUSY, "%llu sessions are in flight on executor %s",
				(unsigned long long)e->inflight, name);
		error_remedy(&c->err, "echo drain > executors/%s/state, and cat executors/%s/drained", name,
			     name);
		change_refuse(c);
		return;
	}
	if (!fleet_change_begin(c, FLEET_REMOVE, e->record.serial, name))
		return;
	e->removing = true;
	c->undo = removal_failed;
	fleet_change_commit(c);
}

int executor_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	const struct executor *e = fleet_get(hub->fleet, serial);

	if (!e)
		return -ESTALE;
	int64_t changed = e->record.changed_at_ns;
	if (e->record.health.state_changed_at_ns > changed)
		changed = e->record.health.state_changed_at_ns;
	*ret = (struct object_info){.changed_ns = changed, .created_ns = e->record.created_at_ns};
	return 0;
}

int executor_name(struct hub *hub, uint32_t serial, struct buf *out)
{
	const struct executor *e = fleet_get(hub->fleet, serial);

	if (!e)
		return -ESTALE;
	buf_puts(out, e->record.name);
	return out->failed;
}

int executor_lookup(struct hub *hub, const char *name, enum node_kind kind, struct node *ret)
{
	const struct executor *e = fleet_find(hub->fleet, name);

	if (!e)
		return -ENOENT;
	*ret = (struct node){.kind = kind, .serial = (uint32_t)e->record.serial};
	return 0;
}

static int executors_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	(void)serial;
	*ret = (struct object_info){.created_ns = hub->started_ns,
				    .changed_ns = area_header(hub->area)->executors_ns};
	return 0;
}

static int executors_lookup(struct hub *hub, uint32_t serial, const char *name, struct node *ret)
{
	(void)serial;
	return executor_lookup(hub, name, NODE_EXECUTOR, ret);
}

/* A position is a serial: stable whatever comes and goes. */
static int executors_list(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
			  node_emit_fn *emit, void *user)
{
	(void)serial;
	for (const struct executor *e; (e = fleet_from(hub->fleet, (int64_t)from));) {
		const struct node node = {.kind = NODE_EXECUTOR, .serial = (uint32_t)e->record.serial};

		from = (uint64_t)e->record.serial + 1;
		if (!emit(user, e->record.name, node, S_IFDIR, base + from))
			return 0;
	}
	return 0;
}

const struct node_dir executors_dir = {
	.kind = NODE_EXECUTORS,
	.path = "/executors",
	.doc = "The executors. `mkdir` makes one, writing its `config` registers it; `rmdir` unregisters "
	       "it, EBUSY while sessions run on it.",
	.mode = 02775,
	.owner = OWNER_ADMIN,
	.growing = true,
	.object = executors_object,
	.lookup = executors_lookup,
	.list = executors_list,
	.mkdir = executors_mkdir,
	.rmdir = executors_rmdir,
};

static const struct node_file executor_files[] = {
	{.name = "config", .type = FILE_DOCUMENT, .mode = 0664, .owner = OWNER_ADMIN,
	 .render = render_config, .execute = execute_config,
	 .doc = "The configuration in canonical JSON; write a new one to replace it. Keys: kind, labels, "
		"max_concurrent, log_quota_bytes, harnesses, container_runtimes, memory_mb, and those of the "
		"kind. Applies to new sessions."},
	{.name = "kind", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT, .render = render_kind,
	 .doc = "The driver: localprocess or container. Empty before a config was accepted."},
	{.name = "capabilities", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT,
	 .render = render_capabilities, .doc = "JSON: what the executor can honour."},
	{.name = "labels", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT, .render = render_labels,
	 .doc = "JSON: the labels of its config."},
	{.name = "max_concurrent", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT,
	 .render = render_max_concurrent,
	 .doc = "How many sessions it runs at once; 0 is no ceiling. Beyond it `start` is EBUSY."},
	{.name = "state", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN,
	 .render = render_state, .command = command_state,
	 .doc = "unconfigured, ready, degraded, unreachable, cordoned or draining. Write `cordon [reason]` "
		"or `drain [reason]` to refuse new work with EBUSY, `uncordon` to take it again; running "
		"work goes on."},
	{.name = "health", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT, .render = render_health,
	 .changed = probe_changed,
	 .doc = "JSON: the state with its reason and since when, and when it was probed."},
	{.name = "start", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = execute_start,
	 .doc = "Write a spec in JSON to start it; reads as {\"session\",\"handle\"}, or as the refusal."},
	{.name = "inflight", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT,
	 .render = render_inflight, .changed = inflight_changed, .doc = "How many sessions are pending or running on it."},
	{.name = "drained", .type = FILE_WAIT, .mode = 0444, .owner = OWNER_ROOT, .fixed = true,
	 .render = render_drained,
	 .doc = "Blocks until nothing is in flight on it, then prints 0."},
	{.name = "sessions", .type = FILE_DIR, .child = NODE_EXECUTOR_SESSIONS, .fixed = true,
	 .doc = "Links to the sessions in flight on it."},
	{.name = "config_error", .type = FILE_TEXT, .mode = 0444, .owner = OWNER_ROOT,
	 .render = render_config_error,
	 .doc = "What is wrong with its file in executors.d, in one sentence, while an earlier version is in "
		"force; else empty."},
	{.name = "probe", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN, .clone = true,
	 .render = probe_render, .changed = probe_changed, .command = probe_command,
	 .doc = "Write `now` to probe it; the write returns when that is done, and fails with what is wrong. "
		"Reads as the last result: ok or failed, when, and why."},
	{.name = "preflight", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN, .clone = true,
	 .render = preflight_render, .changed = preflight_changed, .command = preflight_command,
	 .doc = "Write `run` to look at everything that a workload would need there, `smoke` to also run one "
		"from its start to its end; the write fails when a check does. Reads as the last report, one "
		"`ok|warn|fail name: detail` a line. Each config that is accepted is looked at once by itself; "
		"what fails then counts as a failed probe."},
};

const struct node_dir executor_dir = {
	.kind = NODE_EXECUTOR,
	.path = "/executors/<id>",
	.doc = "One executor. `local` exists by default.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.files = executor_files,
	.n_files = ARRAY_SIZE(executor_files),
	.object = executor_object,
	.name = executor_name,
};

/* --- links to what is in flight ------------------------------------------------------------- */

static int executor_sessions_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	int r = executor_object(hub, serial, ret);
	const struct executor *e = fleet_get(hub->fleet, serial);

	if (r == 0 && e->inflight_ns)
		ret->changed_ns = e->inflight_ns;
	return r;
}

static int executor_sessions_lookup(struct hub *hub, uint32_t serial, const char *name,
				    struct node *ret)
{
	uint32_t found;

	if (dispatch_find(hub->dispatch, name, &found) < 0)
		return -ENOENT;
	if (!dispatch_in_flight_on(hub->dispatch, found, serial))
		return -ENOENT;
	*ret = (struct node){.kind = NODE_EXECUTOR_SESSION, .serial = found, .file = 1};
	return 0;
}

struct list_context {
	node_emit_fn *emit;
	void *user;
	uint64_t from, base;
};

static bool list_live(void *user, const struct session *s)
{
	struct list_context *l = user;
	const struct node node = {.kind = NODE_EXECUTOR_SESSION, .serial = (uint32_t)s->serial, .file = 1};

	if ((uint64_t)s->serial < l->from)
		return true;
	return l->emit(l->user, s->name, node, S_IFLNK, l->base + (uint64_t)s->serial + 1);
}

static int executor_sessions_list(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
				  node_emit_fn *emit, void *user)
{
	struct list_context l = {.emit = emit, .user = user, .from = from, .base = base};

	dispatch_each_live(hub->dispatch, serial, list_live, &l);
	return 0;
}

const struct node_dir executor_sessions_dir = {
	.kind = NODE_EXECUTOR_SESSIONS,
	.path = "/executors/<id>/sessions",
	.doc = "Links to the sessions in flight.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.growing = true,
	.object = executor_sessions_object,
	.name = executor_name,
	.lookup = executor_sessions_lookup,
	.list = executor_sessions_list,
};

static const struct node_file executor_session_files[] = {
	{.name = "link", .type = FILE_LINK, .owner = OWNER_SESSION, .fixed = true,
	 .render = render_session_link, .doc = "Link to a session in flight."},
};

const struct node_dir executor_session_dir = {
	.kind = NODE_EXECUTOR_SESSION,
	.path = "/executors/<id>/sessions",
	.doc = "Links to the sessions in flight.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.hidden_rows = true,
	.files = executor_session_files,
	.n_files = ARRAY_SIZE(executor_session_files),
	.object = session_object,
	.name = session_name,
};
