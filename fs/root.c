/*
 * The root of the tree: what the daemon says of itself, and where everything begins.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/fleet.h"
#include "core/store/event.h"
#include "core/store/store.h"
#include "core/text.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/docs.h"
#include "fs/fleet_change.h"
#include "fs/placing.h"
#include "fs/status.h"
#include "fs/tables.h"
#include "fs/watch.h"

static int render_version(const struct view *v, struct buf *out)
{
	(void)v;
	buf_puts(out, CLOOP_VERSION "\n");
	return out->failed;
}

static int render_readme(const struct view *v, struct buf *out)
{
	(void)v;
	docs_readme(out);
	return out->failed;
}

/* --- the latest refusal --------------------------------------------------------------------- */

static json_t *latest_refusal(const struct view *v)
{
	const struct area_mailbox *m = area_mailbox_get(v->hub->area, v->uid, AREA_MAILBOX_ERROR);
	json_t *value = NULL;

	if (!m || m->text.len == 0)
		return NULL;
	AUTO_FREE char *text = malloc(m->text.len);
	if (!text)
		return NULL;
	size_t n = area_blob_read(v->hub->area, &m->text, 0, text, m->text.len);
	return json_parse(text, n, &value, NULL) == 0 ? value : NULL;
}

static int64_t refused_at(const struct view *v)
{
	AUTO_JSON json_t *refusal = latest_refusal(v);
	struct json_object o;
	int64_t at = 0;

	if (refusal && json_object_begin(&o, refusal, "", NULL) == 0)
		(void)json_object_time(&o, "at", &at, NULL);
	return at;
}

static int render_error(const struct view *v, struct buf *out)
{
	AUTO_JSON json_t *refusal = latest_refusal(v);
	struct json_object o;
	const char *file = "", *reason = "", *field = "", *remedy = "";

	if (!refusal || json_object_begin(&o, refusal, "", NULL) < 0)
		return 0;
	(void)json_object_string(&o, "file", &file, NULL);
	(void)json_object_string(&o, "reason", &reason, NULL);
	(void)json_object_string(&o, "field", &field, NULL);
	(void)json_object_string(&o, "remedy", &remedy, NULL);
	buf_printf(out, "%s: %s%s%s%s%s\n", file, field, field[0] ? ": " : "", reason,
		   remedy[0] ? "; " : "", remedy);
	return out->failed;
}

static int render_error_json(const struct view *v, struct buf *out)
{
	AUTO_JSON json_t *refusal = latest_refusal(v);
	AUTO_FREE char *text = refusal ? json_text(refusal) : NULL;

	if (text)
		buf_printf(out, "%s\n", text);
	return out->failed;
}

/* --- events --------------------------------------------------------------------------------- */

static int size_events(const struct view *v, uint64_t *ret)
{
	int64_t size = 0;
	int r = event_size(store_reader(v->hub->store), &size, NULL);

	if (r == 0)
		*ret = (uint64_t)size;
	return r;
}

static ssize_t pread_events(const struct view *v, void *data, size_t len, uint64_t off)
{
	size_t n = 0;
	int r = off > INT64_MAX ? 0
				: event_read(store_reader(v->hub->store), (int64_t)off, data, len, &n, NULL);

	return r < 0 ? r : (ssize_t)n;
}

/* --- the default executor ------------------------------------------------------------------- */

static bool default_absent(struct hub *hub, uint32_t serial)
{
	(void)serial;
	return !fleet_default(hub->fleet);
}

static int render_default(const struct view *v, struct buf *out)
{
	const struct executor *e = fleet_default(v->hub->fleet);

	if (!e)
		return -ENOENT;
	buf_printf(out, "executors/%s", e->record.name);
	return out->failed;
}

static int64_t default_changed(const struct view *v)
{
	return area_header(v->hub->area)->executors_ns;
}

static int render_default_id(const struct view *v, struct buf *out)
{
	const struct executor *e = fleet_default(v->hub->fleet);

	buf_printf(out, "%s\n", e ? e->record.name : "");
	return out->failed;
}

static void command_default_id(struct change *c, const char *command)
{
	struct text_view id = text_trim(command, strlen(command));
	char name[256];

	(void)snprintf(name, sizeof(name), "%.*s", (int)(id.len < sizeof(name) ? id.len : sizeof(name) - 1),
		       id.data);
	const struct executor *e = fleet_find(c->hub->fleet, name);
	if (!e || !e->driver) {
		(void)error_set_kind(&c->err, ENOENT, ERROR_EXECUTOR_NOT_FOUND, "no such executor is registered");
		error_remedy(&c->err, "see ls executors");
		change_refuse(c);
		return;
	}
	if (fleet_change_begin(c, FLEET_DEFAULT, e->record.serial, e->record.name))
		fleet_change_commit(c);
}

static int root_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	(void)serial;
	*ret = (struct object_info){.changed_ns = hub->started_ns, .created_ns = hub->started_ns};
	return 0;
}

static const struct node_file root_files[] = {
	{.name = "README", .type = FILE_TEXT, .mode = 0444, .fixed = true, .render = render_readme,
	 .doc = "What is where in this tree, in short."},
	{.name = "version", .type = FILE_TEXT, .mode = 0444, .fixed = true, .render = render_version,
	 .doc = "The version of the daemon."},
	{.name = "status", .type = FILE_TEXT, .mode = 0444, .render = status_render,
	 .changed = status_changed,
	 .doc = "For people: the executors with their state, load, when they were last seen and why they are "
		"in that state, and what is in flight. 200 rows at most: of more executors those that are not ready come "
		"first."},
	{.name = "error", .type = FILE_TEXT, .mode = 0444, .render = render_error, .per_caller = true,
	 .changed = refused_at,
	 .doc = "Why your latest refused change was refused, in one sentence; a refusal by file mode is the "
		"kernel's and leaves none."},
	{.name = "error.json", .type = FILE_TEXT, .mode = 0444, .render = render_error_json, .per_caller = true,
	 .changed = refused_at,
	 .doc = "The same as {\"file\",\"errno\",\"reason\",\"field\",\"remedy\",\"at\"}."},
	{.name = "events", .type = FILE_LOG, .mode = 0440, .owner = OWNER_ADMIN, .size = size_events,
	 .pread = pread_events, .changed = status_changed,
	 .doc = "One JSON object a line: executors that come, go and change state, projects and configs that "
		"change, sessions that start and end."},
	{.name = "default", .type = FILE_LINK, .render = render_default, .absent = default_absent,
	 .doc = "Link to the default executor; absent when there is none."},
	{.name = "default_id", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN,
	 .render = render_default_id, .changed = default_changed, .command = command_default_id,
	 .doc = "The id of the default executor; write another one."},
	{.name = "executors", .type = FILE_DIR, .child = NODE_EXECUTORS, .fixed = true,
	 .doc = "Where workloads run."},
	{.name = "sessions", .type = FILE_DIR, .child = NODE_SESSIONS, .fixed = true,
	 .doc = "What runs and what ran."},
	{.name = ".live", .type = FILE_DIR, .child = NODE_LIVE, .fixed = true,
	 .doc = "Where the links to blocking files lead."},
	{.name = "policy", .type = FILE_DIR, .child = NODE_POLICY, .fixed = true,
	 .doc = "What may run at all."},
	{.name = "start", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = placing_execute_start,
	 .doc = "Write {\"spec\",\"requirements\"}, or a spec alone, to start it on the executor that fits "
		"best; reads as {\"session\",\"handle\"}, or as {\"constraint\",\"considered\","
		"\"rejections\"} when none fits."},
	{.name = "place", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = placing_execute_place,
	 .doc = "Write {\"spec\",\"requirements\"}, either of them or both, to ask where that would go; "
		"reads as {\"selected\"}, or as the rejections. Starts nothing."},
	{.name = "projects", .type = FILE_DIR, .child = NODE_PROJECTS, .fixed = true,
	 .doc = "Where work belongs."},
	{.name = "check", .type = FILE_DIR, .child = NODE_CHECK, .fixed = true,
	 .doc = "Dry runs: what the rules say of a document."},
	{.name = "metrics", .type = FILE_TEXT, .mode = 0444, .render = metrics_render,
	 .changed = status_changed,
	 .doc = "Numbers for Prometheus in its text format; counters begin anew with each hub process."},
};

const struct node_dir root_dir = {
	.kind = NODE_ROOT,
	.path = "/",
	.doc = "A control plane as a file system.",
	.mode = 0755,
	.files = root_files,
	.n_files = ARRAY_SIZE(root_files),
	.object = root_object,
};
