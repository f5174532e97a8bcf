/*
 * /sessions and /sessions/<id>: what ran, what runs, and what it printed.
 */
#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/fault.h"
#include "core/json.h"
#include "drivers/shim/log_format.h"
#include "drivers/shim/log_reader.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/live.h"
#include "fs/logs.h"
#include "fs/projects.h"
#include "fs/render.h"
#include "fs/tables.h"

static const struct session *row_of(const struct view *v)
{
	return dispatch_get(v->hub->dispatch, v->node.serial);
}

static int render_spec(const struct view *v, struct buf *out)
{
	AUTO_FREE char *spec = NULL;
	int r = dispatch_spec(v->hub->dispatch, v->node.serial, &spec);

	return r < 0 ? r : render_line(out, spec);
}

static int render_handle(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	return row ? render_json(out, session_handle_json(row)) : -ESTALE;
}

static int render_state(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	return row ? render_line(out, session_state_name(row->state)) : -ESTALE;
}

static int render_exit_code(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	if (!row)
		return -ESTALE;
	if (session_state_finished(row->state))
		buf_printf(out, "%d", row->exit_code);
	return render_line(out, "");
}

static int render_pid(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	if (!row)
		return -ESTALE;
	buf_printf(out, "%lld\n", row->state == SESSION_RUNNING ? (long long)row->pid : 0LL);
	return out->failed;
}

static int render_attempt(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	if (!row)
		return -ESTALE;
	buf_printf(out, "%lld\n", (long long)row->attempt);
	return out->failed;
}

static int render_error(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	if (!row)
		return -ESTALE;
	return row->error[0] ? render_line(out, row->error) : 0;
}

static int render_executor(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	if (!row)
		return -ESTALE;
	if (!row->executor[0])
		return -ENOENT;
	buf_printf(out, "../../executors/%s", row->executor);
	return out->failed;
}

static int render_project(const struct view *v, struct buf *out)
{
	return projects_session_link(v->hub, v->node.serial, out);
}

static bool no_executor(struct hub *hub, uint32_t serial)
{
	const struct session *row = dispatch_get(hub->dispatch, serial);

	return !row || !row->executor[0];
}

/* The blocking files are links into the directory that resolves names but lists nothing. */
static int render_live(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);

	if (!row)
		return -ESTALE;
	buf_printf(out, "../../.live/sessions/%s/%s", row->name, node_file(v->node)->name);
	return out->failed;
}

/* --- signal --------------------------------------------------------------------------------- */

static int render_signal(const struct view *v, struct buf *out)
{
	return row_of(v) ? render_line(out, "") : -ESTALE;
}

static void signalled(void *user, int result, const struct error *err)
{
	struct change *c = user;

	(void)fault_point("signal.done");
	if (result < 0) {
		c->err = *err;
		change_refuse(c);
		return;
	}
	change_commit(c);
}

static void command_signal(struct change *c, const char *word)
{
	const struct signal_key key = {.mount_id = area_header(c->hub->area)->mount_id,
				       .unique = c->unique & INT64_MAX};
	enum signal_kind signal;

	if (strcmp(word, "retry") == 0) {
		if (dispatch_retry(c->hub->dispatch, c->node.serial, c->uid, signalled, c, &c->err) < 0)
			change_refuse(c);
		return;
	}
	if (signal_parse(word, &signal, &c->err) < 0 ||
	    dispatch_signal(c->hub->dispatch, c->node.serial, &key, signal, signalled, c, &c->err) < 0)
		change_refuse(c);
}

/* --- output --------------------------------------------------------------------------------- */

static int sizes_of(const struct view *v, struct log_sizes *ret)
{
	int error = 0;
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);

	return reader ? log_reader_sizes(reader, ret, NULL) : error;
}

/* The row counts what was written when the session has ended; until then the log tells. */
static int render_status(const struct view *v, struct buf *out)
{
	const struct session *row = row_of(v);
	struct log_sizes sizes;

	if (!row)
		return -ESTALE;
	struct session shown = *row;
	if (!session_state_finished(row->state) && sizes_of(v, &sizes) == 0) {
		shown.log_dropped_bytes = (int64_t)sizes.dropped_bytes;
		shown.log_bytes = (int64_t)(sizes.stdout_bytes + sizes.stderr_bytes + sizes.tail_bytes +
					    sizes.dropped_bytes);
	}
	return render_json(out, session_status_json(&shown));
}

static int64_t output_changed(const struct view *v)
{
	struct log_sizes sizes;

	return sizes_of(v, &sizes) == 0 ? sizes.time_ns : 0;
}

static ssize_t pread_view(const struct view *v, enum log_view which, void *data, size_t len,
			  uint64_t off)
{
	int error = 0;
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);

	return reader ? log_reader_pread(reader, which, data, len, off, NULL) : error;
}

#define OUTPUT_VIEW(name, which)                                                                   \
	static int size_##name(const struct view *v, uint64_t *ret)                                \
	{                                                                                          \
		struct log_sizes sizes;                                                            \
		int r = sizes_of(v, &sizes);                                                       \
                                                                                                   \
		if (r == 0)                                                                        \
			*ret = sizes.name##_bytes;                                                 \
		return r;                                                                          \
	}                                                                                          \
	static ssize_t pread_##name(const struct view *v, void *data, size_t len, uint64_t off)    \
	{                                                                                          \
		return pread_view(v, which, data, len, off);                                       \
	}

OUTPUT_VIEW(log, LOG_VIEW_LOG)
OUTPUT_VIEW(stdout, LOG_VIEW_STDOUT)
OUTPUT_VIEW(stderr, LOG_VIEW_STDERR)

static int file_log(const struct view *v, uint64_t off, size_t *len)
{
	int error = 0;
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);
	ssize_t n = reader ? log_reader_span(reader, *len, off, NULL) : error;

	if (n < 0)
		return (int)n;
	*len = (size_t)n;
	return log_reader_log_fd(reader);
}

static int size_tail(const struct view *v, uint64_t *ret)
{
	struct log_sizes sizes;
	int r = sizes_of(v, &sizes);

	if (r == 0)
		*ret = sizes.tail_bytes;
	return r;
}

/* The ring moves under a reader: an open file is a snapshot of it. */
static int render_tail(const struct view *v, struct buf *out)
{
	AUTO_FREE char *data = malloc(LOG_TAIL_MAX_BYTES);

	if (!data)
		return -ENOMEM;
	ssize_t n = pread_view(v, LOG_VIEW_TAIL, data, LOG_TAIL_MAX_BYTES, 0);
	if (n < 0)
		return (int)n;
	buf_append(out, data, (size_t)n);
	return out->failed;
}

/* --- tables --------------------------------------------------------------------------------- */

int session_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	const struct session *row = dispatch_get(hub->dispatch, serial);

	if (!row)
		return -ESTALE;
	int64_t changed = row->finished_at_ns  ? row->finished_at_ns
			  : row->started_at_ns ? row->started_at_ns
					       : row->created_at_ns;
	*ret = (struct object_info){.uid = row->uid, .changed_ns = changed, .created_ns = row->created_at_ns};
	return 0;
}

int session_name(struct hub *hub, uint32_t serial, struct buf *out)
{
	const struct session *row = dispatch_get(hub->dispatch, serial);

	if (!row)
		return -ESTALE;
	buf_puts(out, row->name);
	return out->failed;
}

int session_lookup(struct hub *hub, const char *name, enum node_kind kind, struct node *ret)
{
	uint32_t found;
	int r = dispatch_find(hub->dispatch, name, &found);

	if (r < 0)
		return r;
	*ret = (struct node){.kind = kind, .serial = found};
	return 0;
}

static int sessions_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	(void)serial;
	*ret = (struct object_info){.created_ns = hub->started_ns,
				    .changed_ns = dispatch_changed_ns(hub->dispatch)};
	return 0;
}

static int sessions_lookup(struct hub *hub, uint32_t serial, const char *name, struct node *ret)
{
	(void)serial;
	return session_lookup(hub, name, NODE_SESSION, ret);
}

struct list_context {
	node_emit_fn *emit;
	void *user;
	uint64_t base;
};

static bool list_one(void *user, uint32_t serial, const char *name)
{
	struct list_context *l = user;

	return l->emit(l->user, name, (struct node){.kind = NODE_SESSION, .serial = serial}, S_IFDIR,
		       l->base + serial + 1);
}

/* A session's position is its serial: stable whatever comes and goes. */
static int sessions_list(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
			 node_emit_fn *emit, void *user)
{
	struct list_context l = {.emit = emit, .user = user, .base = base};

	(void)serial;
	return dispatch_list(hub->dispatch, from, list_one, &l);
}

static void removed(struct change *c)
{
	uint32_t serial = (uint32_t)(uintptr_t)c->data;

	logs_forget(c->hub, serial);
	dispatch_removed(c->hub->dispatch, serial, c->name);
}

static int apply_remove(struct store_tx *tx, struct change *c, struct error *err)
{
	return dispatch_apply_remove(tx, (uint32_t)(uintptr_t)c->data, c->uid, clock_now_ns(), err);
}

static void sessions_rmdir(struct change *c, const char *name)
{
	uint32_t serial;
	int r = dispatch_find(c->hub->dispatch, name, &serial);
	const struct session *s = r < 0 ? NULL : dispatch_get(c->hub->dispatch, serial);

	if (!s) {
		if (r == 0 || r == -ENOENT)
			(void)error_set(&c->err, ENOENT, "no such session");
		else
			(void)error_set(&c->err, -r, "the session cannot be looked up: %s", strerror(-r));
		change_refuse(c);
		return;
	}
	if (!session_state_finished(s->state)) {
		(void)error_set(&c->err, EBUSY, "session %s has not ended", name);
		error_remedy(&c->err, "echo kill > sessions/%s/signal, then remove it", name);
		change_refuse(c);
		return;
	}
	c->data = (void *)(uintptr_t)serial;
	c->apply = apply_remove;
	c->committed = removed;
	change_commit(c);
}

const struct node_dir sessions_dir = {
	.kind = NODE_SESSIONS,
	.path = "/sessions",
	.doc = "Every session, running or finished, oldest first. `rmdir` of a finished one forgets it "
	       "and its log; EBUSY while it runs.",
	.mode = 01775,
	.owner = OWNER_CLOOP,
	.growing = true,
	.object = sessions_object,
	.lookup = sessions_lookup,
	.list = sessions_list,
	.rmdir = sessions_rmdir,
};

static const struct node_file session_files[] = {
	{.name = "spec", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION, .fixed = true,
	 .render = render_spec, .doc = "The spec in canonical JSON, as it was started."},
	{.name = "status", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_status,
	 .doc = "JSON: handle, executor, state, pid, exit code, times, cause (exit, signal, timeout, oom, "
		"start, lost), signal, bytes of output and how many of them were dropped."},
	{.name = "state", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_state,
	 .doc = "One word: pending, running, exited, failed, killed or unknown."},
	{.name = "exit_code", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_exit_code,
	 .doc = "The exit code of an exited session, -1 of one that ended in another way, an empty line "
		"before."},
	{.name = "pid", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION, .render = render_pid,
	 .doc = "The process id on the executor while it runs, else 0."},
	{.name = "handle", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_handle,
	 .doc = "JSON: what identifies the running workload on its executor."},
	{.name = "attempt", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_attempt, .doc = "How often it was dispatched, from 1."},
	{.name = "error", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_error, .doc = "Why it failed, was killed, or waits for an executor, in one sentence; else empty."},
	{.name = "log", .type = FILE_LOG, .mode = 0440, .owner = OWNER_SESSION, .size = size_log,
	 .pread = pread_log, .file = file_log, .changed = output_changed,
	 .doc = "Output of both streams as it arrived; `tail -f` works. Ends with a marker line at the "
		"quota."},
	{.name = "log.tail", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION, .size = size_tail,
	 .render = render_tail, .changed = output_changed, .doc = "The latest output beyond the log's quota; empty below it."},
	{.name = "stdout", .type = FILE_LOG, .mode = 0440, .owner = OWNER_SESSION, .size = size_stdout,
	 .pread = pread_stdout, .changed = output_changed, .doc = "The part of the log that came from standard output."},
	{.name = "stderr", .type = FILE_LOG, .mode = 0440, .owner = OWNER_SESSION, .size = size_stderr,
	 .pread = pread_stderr, .changed = output_changed, .doc = "The part of the log that came from standard error."},
	{.name = "lines", .type = FILE_STREAM, .mode = 0440, .owner = OWNER_SESSION, .fixed = true,
	 .render = render_live,
	 .doc = "Output as JSON objects, one chunk a line with stream, time and seq; blocks for more, ends "
		"with the session."},
	{.name = "follow", .type = FILE_STREAM, .mode = 0440, .owner = OWNER_SESSION, .fixed = true,
	 .render = render_live,
	 .doc = "The log from its start; blocks for more, ends with the session."},
	{.name = "wait", .type = FILE_WAIT, .mode = 0440, .owner = OWNER_SESSION, .fixed = true,
	 .render = render_live,
	 .doc = "Blocks until the session has ended, then prints its exit code: 128+n after signal n, 137 "
		"after a timeout or out of memory, 255 when it failed."},
	{.name = "signal", .type = FILE_CONTROL, .mode = 0660, .owner = OWNER_SESSION, .clone = true,
	 .render = render_signal, .command = command_signal,
	 .doc = "Write `interrupt`, `terminate` or `kill`: reaches every process of the session. "
		"Succeeds when it has ended already; ends one that waits for an executor. `retry` looks "
		"for an executor now, and lets one that is quarantined go on."},
	{.name = "executor", .type = FILE_LINK, .owner = OWNER_SESSION, .render = render_executor,
	 .absent = no_executor,
	 .doc = "Link to the executor it was dispatched to; absent while it waits for another one."},
	{.name = "attempts", .type = FILE_DIR, .child = NODE_ATTEMPTS, .fixed = true,
	 .doc = "Each dispatch of the session: executor, status and part of the log."},
	{.name = "project", .type = FILE_LINK, .owner = OWNER_SESSION, .absent = projects_session_has_none,
	 .render = render_project,
	 .doc = "Link to the project it was started in; absent when there is none, or not any more."},
};

const struct node_dir session_dir = {
	.kind = NODE_SESSION,
	.path = "/sessions/<id>",
	.doc = "One session. Its files belong to the user who started it and to the group cloop-admin.",
	.mode = 0755,
	.owner = OWNER_SESSION,
	.files = session_files,
	.n_files = ARRAY_SIZE(session_files),
	.object = session_object,
	.name = session_name,
};
