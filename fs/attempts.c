/*
 * /sessions/<id>/attempts and /sessions/<id>/attempts/<n>: where a session was dispatched to, and
 * what became of it there. A node's serial is that of the attempt's row.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/attempt.h"
#include "core/dispatch.h"
#include "core/json.h"
#include "core/store/store.h"
#include "drivers/shim/log_reader.h"
#include "fs/attempts.h"
#include "fs/context.h"
#include "fs/live.h"
#include "fs/logs.h"
#include "fs/render.h"
#include "fs/tables.h"

/*
 * The row as it is committed, and, for the attempt that the session is at, what the session says: it
 * knows a moment earlier. Texts of *ret_shown are borrowed from both.
 */
static int look(const struct view *v, struct attempt *ret, struct session *ret_shown)
{
	int r = attempt_get(store_reader(v->hub->store), v->node.serial, ret, NULL);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	const struct session *s = dispatch_get(v->hub->dispatch, (uint32_t)ret->session);
	if (!s)
		return -ESTALE;
	if (s->attempt == ret->attempt) {
		*ret_shown = *s;
		/* The session counts the output of all its attempts. */
		if (s->attempt > 1) {
			ret_shown->log_bytes = ret->log_bytes;
			ret_shown->log_dropped_bytes = ret->log_dropped_bytes;
		}
		return 0;
	}
	*ret_shown = (struct session){
		.name = s->name,
		.executor = ret->executor,
		.attempt = ret->attempt,
		.state = ret->state,
		.cause = ret->cause,
		.exit_code = ret->exit_code,
		.signal = ret->signal,
		.pid = (pid_t)ret->pid,
		.started_at_ns = ret->started_at_ns,
		.finished_at_ns = ret->finished_at_ns,
		.log_bytes = ret->log_bytes,
		.log_dropped_bytes = ret->log_dropped_bytes,
		.error = ret->error,
	};
	return 0;
}

static int render_executor(const struct view *v, struct buf *out)
{
	AUTO_ATTEMPT struct attempt a = {0};
	struct session shown;
	int r = look(v, &a, &shown);

	return r < 0 ? r : render_line(out, shown.executor);
}

static int render_status(const struct view *v, struct buf *out)
{
	AUTO_ATTEMPT struct attempt a = {0};
	struct session shown;
	int r = look(v, &a, &shown);

	if (r < 0)
		return r;
	AUTO_JSON json_t *o = session_status_json(&shown);
	if (!o || json_put_time_if(o, "moved_at", a.moved_at_ns) < 0)
		return -ENOMEM;
	return render_json(out, take_ptr(o));
}

/* Where its part of the session's log is. */
static int part_of(const struct view *v, struct log_reader **ret, uint64_t *ret_from, uint64_t *ret_to)
{
	AUTO_ATTEMPT struct attempt a = {0};
	int r = attempt_get(store_reader(v->hub->store), v->node.serial, &a, NULL), error = 0;

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	struct log_reader *reader = logs_get(v->hub, (uint32_t)a.session, &error);
	if (!reader)
		return error;
	r = log_reader_attempt(reader, (unsigned)a.attempt, ret_from, ret_to, NULL);
	if (r < 0)
		return r;
	*ret = reader;
	return 0;
}

static int size_log(const struct view *v, uint64_t *ret)
{
	struct log_reader *reader;
	uint64_t from, to;
	int r = part_of(v, &reader, &from, &to);

	if (r == 0)
		*ret = to - from;
	return r;
}

static ssize_t pread_log(const struct view *v, void *data, size_t len, uint64_t off)
{
	struct log_reader *reader = NULL;
	uint64_t from = 0, to = 0;
	int r = part_of(v, &reader, &from, &to);

	if (r < 0)
		return r;
	if (off >= to - from)
		return 0;
	if (len > to - from - off)
		len = (size_t)(to - from - off);
	return log_reader_pread(reader, LOG_VIEW_LOG, data, len, from + off, NULL);
}

/* --- the tables ----------------------------------------------------------------------------- */

struct node attempt_parent(struct hub *hub, uint32_t serial)
{
	AUTO_ATTEMPT struct attempt a = {0};

	if (attempt_get(store_reader(hub->store), serial, &a, NULL) < 0)
		return (struct node){.kind = NODE_ROOT};
	return (struct node){.kind = NODE_ATTEMPTS, .serial = (uint32_t)a.session};
}

int attempt_node(struct hub *hub, uint32_t session, int64_t attempt, struct node *ret)
{
	AUTO_ATTEMPT struct attempt a = {0};
	int r = attempt_find(store_reader(hub->store), session, attempt, &a, NULL);

	if (r < 0)
		return r;
	*ret = (struct node){.kind = NODE_ATTEMPT, .serial = (uint32_t)a.serial};
	return 0;
}

static int attempts_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	AUTO_ATTEMPT struct attempt a = {0};
	const struct session *s = dispatch_get(hub->dispatch, serial);
	int r = session_object(hub, serial, ret);

	if (r < 0)
		return r;
	/* It changes when an attempt comes. */
	ret->changed_ns = ret->created_ns;
	if (s->attempt > 1 &&
	    attempt_find(store_reader(hub->store), serial, s->attempt, &a, NULL) == 0)
		ret->changed_ns = a.created_at_ns;
	return 0;
}

static int attempts_lookup(struct hub *hub, uint32_t serial, const char *name, struct node *ret)
{
	char *end;

	/* As it is listed, and no other way to write that number. */
	if (name[0] < '1' || name[0] > '9' || strlen(name) > 9)
		return -ENOENT;
	long n = strtol(name, &end, 10);
	return *end ? -ENOENT : attempt_node(hub, serial, n, ret);
}

static int attempts_list(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
			 node_emit_fn *emit, void *user)
{
	AUTO_ATTEMPT_LIST struct attempt_list list = {0};
	int r = attempt_list(store_reader(hub->store), serial, &list, NULL);

	for (size_t i = 0; i < list.n && r >= 0; i++) {
		const struct attempt *a = &list.rows[i];
		char name[24];

		if ((uint64_t)a->attempt < from)
			continue;
		(void)snprintf(name, sizeof(name), "%" PRId64, a->attempt);
		if (!emit(user, name, (struct node){.kind = NODE_ATTEMPT, .serial = (uint32_t)a->serial},
			  S_IFDIR, base + (uint64_t)a->attempt + 1))
			break;
	}
	return r;
}

const struct node_dir attempts_dir = {
	.kind = NODE_ATTEMPTS,
	.path = "/sessions/<id>/attempts",
	.doc = "How often the session was dispatched, and where to: one directory an attempt, from 1. There "
	       "is more than one when an executor became unreachable under it (see reliability.md).",
	.mode = 0755,
	.owner = OWNER_SESSION,
	.growing = true,
	.object = attempts_object,
	.name = session_name,
	.lookup = attempts_lookup,
	.list = attempts_list,
};

static const struct node_file attempt_files[] = {
	{.name = "executor", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_executor,
	 .doc = "The executor's id; an empty line while the attempt waits for one."},
	{.name = "status", .type = FILE_TEXT, .mode = 0440, .owner = OWNER_SESSION,
	 .render = render_status,
	 .doc = "JSON, as the session's status: how this attempt ended, also when its end came after the "
		"session had been moved. moved_at: when its executor was given up."},
	{.name = "log", .type = FILE_LOG, .mode = 0440, .owner = OWNER_SESSION, .size = size_log,
	 .pread = pread_log,
	 .doc = "The part of the session's log that this attempt wrote, with the marker line before it. To be "
		"told of new output watch the session's log."},
};

static int attempt_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	AUTO_ATTEMPT struct attempt a = {0};
	const struct view v = {.hub = hub, .node = {.kind = NODE_ATTEMPT, .serial = serial}};
	struct session shown;
	int r = look(&v, &a, &shown);

	if (r >= 0)
		r = session_object(hub, (uint32_t)a.session, ret);
	if (r < 0)
		return r;
	ret->created_ns = a.created_at_ns;
	ret->changed_ns = shown.finished_at_ns  ? shown.finished_at_ns
			  : shown.started_at_ns ? shown.started_at_ns
						: a.created_at_ns;
	return 0;
}

static int attempt_name(struct hub *hub, uint32_t serial, unsigned nth, struct buf *out)
{
	AUTO_ATTEMPT struct attempt a = {0};
	int r = attempt_get(store_reader(hub->store), serial, &a, NULL);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	if (nth == 0)
		return session_name(hub, (uint32_t)a.session, out);
	buf_printf(out, "%" PRId64, a.attempt);
	return out->failed;
}

const struct node_dir attempt_dir = {
	.kind = NODE_ATTEMPT,
	.path = "/sessions/<id>/attempts/<n>",
	.doc = "One dispatch of a session.",
	.mode = 0755,
	.owner = OWNER_SESSION,
	.files = attempt_files,
	.n_files = ARRAY_SIZE(attempt_files),
	.object = attempt_object,
	.nth_name = attempt_name,
};
