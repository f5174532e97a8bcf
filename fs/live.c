/*
 * /.live: the files that block. They appear in their objects' directories as links into here, so
 * that `ls` shows them and `cat` follows them, while `grep -r`, `find` and `tar`, which do not follow
 * links, pass by: these directories resolve names but list nothing.
 */
#include "fs/live.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/dispatch.h"
#include "core/fleet.h"
#include "drivers/shim/log_reader.h"
#include "fs/area.h"
#include "fs/context.h"
#include "fs/logs.h"
#include "fs/tables.h"

/* --- sessions ------------------------------------------------------------------------------- */

static int stream_follow(const struct view *v, struct area_handle *h, void *data, size_t len,
			 uint64_t off, struct stream_result *ret)
{
	const struct session *row = dispatch_get(v->hub->dispatch, v->node.serial);
	int error = 0;

	(void)h;
	if (!row)
		return -ESTALE;
	/* Ask for the state first: what was written before the end is then in the log for certain. */
	bool ended = session_state_finished(row->state);
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);
	if (!reader)
		return error;
	ssize_t n = log_reader_pread(reader, LOG_VIEW_LOG, data, len, off, NULL);
	if (n < 0)
		return (int)n;
	if (n == 0 && !ended)
		return -EAGAIN;
	*ret = (struct stream_result){.len = (size_t)n, .at_end = n == 0};
	return 0;
}

/*
 * The size of a file that blocks: what there is by now. Whoever opens it while more may come is not
 * shown an empty file, or sendfile(2) would not even ask for its bytes; whoever seeks to the end is
 * told the truth, or tail would cut the first byte off.
 */
static uint64_t size_or_more(const struct view *v, uint64_t size, bool ended)
{
	return size == 0 && !ended && !v->on_handle ? 1 : size;
}

static int size_follow(const struct view *v, uint64_t *ret)
{
	const struct session *row = dispatch_get(v->hub->dispatch, v->node.serial);
	struct log_sizes sizes;
	int error = 0;

	if (!row)
		return -ESTALE;
	bool ended = session_state_finished(row->state);
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);
	if (!reader)
		return error;
	int r = log_reader_sizes(reader, &sizes, NULL);
	if (r == 0)
		*ret = size_or_more(v, sizes.log_bytes, ended);
	return r;
}

static struct log_cursor load_cursor(const uint64_t saved[4])
{
	return (struct log_cursor){.offset = saved[0], .record = saved[1], .skip = saved[2]};
}

static void save_cursor(uint64_t saved[4], const struct log_cursor *c)
{
	saved[0] = c->offset;
	saved[1] = c->record;
	saved[2] = c->skip;
}

/* A line as JSON: the names of its fields, the time and the seq, and the session's name. */
#define LINE_FRAME_MAX (128 + LOG_SESSION_MAX_BYTES)

/* A byte as JSON: \u001b. */
#define LINE_BYTE_MAX 6

/*
 * How long all lines will be is not known before they are rendered. Nobody can seek to their end; who
 * looks at the size is shown one that they do not reach, or less would leave the rest out.
 */
static int size_lines(const struct view *v, uint64_t *ret)
{
	struct log_sizes sizes;
	int error = 0;

	*ret = 0;
	if (v->on_handle)
		return 0;
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);
	if (!reader)
		return error;
	int r = log_reader_sizes(reader, &sizes, NULL);
	/* Two more for incomplete ends, and log.tail in pieces. */
	if (r == 0)
		*ret = (sizes.log_bytes + sizes.tail_bytes) * LINE_BYTE_MAX +
		       (sizes.records + 2 + sizes.tail_bytes / 4096 + 1) * LINE_FRAME_MAX;
	return r;
}

/*
 * The handle keeps two cursors: the one that the last READ began with, and the one behind it. A READ
 * begins with the second, with the first when it is replayed because its answer was lost, or in
 * between: shells read more than a line, and go back to its end. Seeking further costs the rendering of
 * all that lies before, and is refused.
 */
static int stream_lines(const struct view *v, struct area_handle *h, void *data, size_t len,
			uint64_t off, struct stream_result *ret)
{
	const struct session *row = dispatch_get(v->hub->dispatch, v->node.serial);
	int error = 0;

	if (!row)
		return -ESTALE;
	bool ended = session_state_finished(row->state);
	struct log_reader *reader = logs_get(v->hub, v->node.serial, &error);
	if (!reader)
		return error;
	if (ended)
		log_reader_complete(reader);
	struct log_cursor cursor = load_cursor(h->cursor[1]);
	if (cursor.offset != off) {
		cursor = load_cursor(h->cursor[0]);
		if (off < cursor.offset || off > h->cursor[1][0] ||
		    log_reader_lines_seek(reader, row->name, &cursor, off, UINT64_MAX, NULL) < 0 ||
		    cursor.offset != off)
			return -ESPIPE;
	}
	struct log_cursor before = cursor;
	ssize_t n = log_reader_lines(reader, row->name, &cursor, data, len, NULL);
	if (n < 0)
		return (int)n;
	if (n == 0 && !ended)
		return -EAGAIN;
	save_cursor(h->cursor[0], &before);
	save_cursor(h->cursor[1], &cursor);
	*ret = (struct stream_result){.len = (size_t)n, .at_end = n == 0};
	return 0;
}

static int put_text(const char *text, void *data, size_t len, uint64_t off,
		    struct stream_result *ret)
{
	size_t have = strlen(text);
	size_t n = off < have ? have - (size_t)off : 0;

	if (n > len)
		n = len;
	memcpy(data, text + (n ? off : 0), n);
	*ret = (struct stream_result){.len = n, .at_end = n == 0};
	return 0;
}

/* An exit code and a newline. */
#define WAIT_TEXT_MAX 16

static int wait_text(const struct view *v, char ret[static WAIT_TEXT_MAX])
{
	const struct session *row = dispatch_get(v->hub->dispatch, v->node.serial);

	if (!row)
		return -ESTALE;
	if (!session_state_finished(row->state))
		return -EAGAIN;
	return snprintf(ret, WAIT_TEXT_MAX, "%d\n", session_wait_code(row));
}

static int stream_wait(const struct view *v, struct area_handle *h, void *data, size_t len,
		       uint64_t off, struct stream_result *ret)
{
	char text[WAIT_TEXT_MAX];
	int n = wait_text(v, text);

	(void)h;
	return n < 0 ? n : put_text(text, data, len, off, ret);
}

static int size_wait(const struct view *v, uint64_t *ret)
{
	char text[WAIT_TEXT_MAX];
	int n = wait_text(v, text);

	if (n < 0 && n != -EAGAIN)
		return n;
	*ret = size_or_more(v, n < 0 ? 0 : (uint64_t)n, n >= 0);
	return 0;
}

/* --- executors ------------------------------------------------------------------------------ */

static const char drained_text[] = "0\n";

static int stream_drained(const struct view *v, struct area_handle *h, void *data, size_t len,
			  uint64_t off, struct stream_result *ret)
{
	const struct executor *e = fleet_get(v->hub->fleet, v->node.serial);

	(void)h;
	if (!e)
		return -ESTALE;
	/* Who has read of the answer gets the rest, whatever was started since. */
	if (off == 0 && e->inflight > 0)
		return -EAGAIN;
	return put_text(drained_text, data, len, off, ret);
}

static int size_drained(const struct view *v, uint64_t *ret)
{
	const struct executor *e = fleet_get(v->hub->fleet, v->node.serial);

	if (!e)
		return -ESTALE;
	*ret = size_or_more(v, e->inflight > 0 ? 0 : sizeof(drained_text) - 1, false);
	return 0;
}

/* --- tables --------------------------------------------------------------------------------- */

static const struct node_file live_files[] = {
	{.name = "executors", .type = FILE_DIR, .child = NODE_LIVE_EXECUTORS, .fixed = true,
	 .doc = "The executors' blocking files."},
	{.name = "sessions", .type = FILE_DIR, .child = NODE_LIVE_SESSIONS, .fixed = true,
	 .doc = "The sessions' blocking files."},
};

const struct node_dir live_dir = {
	.kind = NODE_LIVE,
	.path = "/.live",
	.doc = "Where the links to blocking files lead. Resolves names, lists nothing.",
	.mode = 0755,
	.hidden_rows = true,
	.files = live_files,
	.n_files = ARRAY_SIZE(live_files),
};

static int live_executors_lookup(struct hub *hub, uint32_t serial, const char *name, struct node *ret)
{
	(void)serial;
	return executor_lookup(hub, name, NODE_LIVE_EXECUTOR, ret);
}

const struct node_dir live_executors_dir = {
	.kind = NODE_LIVE_EXECUTORS,
	.path = "/.live/executors",
	.doc = "Resolves executor ids, lists nothing.",
	.mode = 0755,
	.hidden_rows = true,
	.lookup = live_executors_lookup,
};

static const struct node_file live_executor_files[] = {
	{.name = "drained", .type = FILE_WAIT, .mode = 0444, .owner = OWNER_ROOT, .stream = stream_drained,
	 .size = size_drained, .doc = "Blocks until nothing is in flight on the executor, then prints 0."},
};

const struct node_dir live_executor_dir = {
	.kind = NODE_LIVE_EXECUTOR,
	.path = "/.live/executors/<id>",
	.doc = "The blocking files of one executor.",
	.mode = 0755,
	.hidden_rows = true,
	.files = live_executor_files,
	.n_files = ARRAY_SIZE(live_executor_files),
	.object = executor_object,
	.name = executor_name,
};

static int live_sessions_lookup(struct hub *hub, uint32_t serial, const char *name, struct node *ret)
{
	(void)serial;
	return session_lookup(hub, name, NODE_LIVE_SESSION, ret);
}

const struct node_dir live_sessions_dir = {
	.kind = NODE_LIVE_SESSIONS,
	.path = "/.live/sessions",
	.doc = "Resolves session ids, lists nothing.",
	.mode = 0755,
	.hidden_rows = true,
	.lookup = live_sessions_lookup,
};

static const struct node_file live_session_files[] = {
	{.name = "lines", .type = FILE_STREAM, .mode = 0440, .owner = OWNER_SESSION,
	 .stream = stream_lines, .size = size_lines, .doc = "See /sessions/<id>/lines."},
	{.name = "follow", .type = FILE_STREAM, .mode = 0440, .owner = OWNER_SESSION,
	 .stream = stream_follow, .size = size_follow, .doc = "See /sessions/<id>/follow."},
	{.name = "wait", .type = FILE_WAIT, .mode = 0440, .owner = OWNER_SESSION, .stream = stream_wait,
	 .size = size_wait, .doc = "See /sessions/<id>/wait."},
};

const struct node_dir live_session_dir = {
	.kind = NODE_LIVE_SESSION,
	.path = "/.live/sessions/<id>",
	.doc = "The blocking files of one session.",
	.mode = 0755,
	.owner = OWNER_SESSION,
	.hidden_rows = true,
	.files = live_session_files,
	.n_files = ARRAY_SIZE(live_session_files),
	.object = session_object,
	.name = session_name,
};
