#include "fs/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/owner.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/logs.h"
#include "fs/projects.h"
#include "fs/watch_internal.h"

/*
 * When changes are in doubt, a scan is asked for after so long; twice as long each time that one
 * finds nobody who watches, so that a hub in which much is looked up and changed asks no more often
 * than the nudger scans anyway. After a quiet while it begins anew.
 */
#define SCAN_DELAY_MS 50
#define SCAN_DELAY_MAX_MS 2000
#define SCAN_QUIET_MS 10000

/* An order that the socket has no room for is tried again. */
#define RETRY_MS 20

/*
 * The clock of files moves in ticks of some milliseconds: a log that was written just after it was
 * looked up may seem to have been written just before.
 */
#define TICK_NS (20 * CLOCK_NS_PER_MS)

static const struct node root = {.kind = NODE_ROOT};
static const struct node sessions = {.kind = NODE_SESSIONS};

static int64_t now_ms(const struct watch *w)
{
	return (int64_t)uv_now(&w->hub->loop);
}

static void on_timer(uv_timer_t *timer)
{
	watch_pump(timer->data);
}

static void wake(struct watch *w, int64_t delay_ms)
{
	uint64_t delay = delay_ms > 0 ? (uint64_t)delay_ms : 0;

	if (uv_is_active((uv_handle_t *)&w->timer) && uv_timer_get_due_in(&w->timer) <= delay)
		return;
	(void)uv_timer_start(&w->timer, on_timer, delay, 0);
}

/* --- what files show ------------------------------------------------------------------------ */

/* FNV-1a; 0 for nothing, and for an empty line. */
static uint64_t print_of_text(const char *text, size_t len)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	if (len == 0 || (len == 1 && text[0] == '\n'))
		return 0;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return hash ? hash : 1;
}

/* A wait file shows something as soon as nobody has to wait any more. */
static int print_of_wait(const struct view *v, const struct node_file *row, uint64_t *ret)
{
	struct area_handle nobody = {0};
	struct stream_result result = {0};
	char data[64];
	int r = row->stream(v, &nobody, data, sizeof(data), 0, &result);

	*ret = r == 0 ? print_of_text(data, result.len) : 0;
	return r == -EAGAIN ? 0 : r;
}

static int print_file(void *user, struct node file, uint64_t *ret)
{
	struct watch *w = user;
	const struct view v = {.hub = w->hub, .node = file, .uid = w->hub->uid};
	const struct node_file *row = node_file(file);
	const struct node_dir *dir = node_dir(file.kind);
	struct object_info info;

	if (!row || (dir->object && dir->object(w->hub, file.serial, &info) < 0))
		return -ESTALE;
	if (row->type == FILE_LOG || row->type == FILE_STREAM)
		return row->size ? row->size(&v, ret) : -EINVAL;
	if (row->type == FILE_WAIT)
		return print_of_wait(&v, row, ret);

	AUTO_BUF struct buf text = BUF_INIT(NODE_TEXT_MAX);
	int r = node_render(w->hub, file, v.uid, &text);
	if (r >= 0)
		*ret = print_of_text(text.data, text.len);
	return r;
}

/* --- marks ---------------------------------------------------------------------------------- */

/*
 * The blocking files of a session or an executor are an object of their own, which changes with the
 * other one; the same when there are none.
 */
static struct node blocking_of(struct node dir)
{
	if (dir.kind == NODE_SESSION)
		dir.kind = NODE_LIVE_SESSION;
	else if (dir.kind == NODE_EXECUTOR)
		dir.kind = NODE_LIVE_EXECUTOR;
	return dir;
}

static bool shows_output(const struct watch *w, struct node dir)
{
	return w->everything || (watch_table_marks(w->table, dir) &
				 (UINT64_C(1) | watch_table_outputs(w->table, dir.kind)));
}

/*
 * What was written between the look-up and the report of the mark raised no event: the time of the
 * log tells whether there was something.
 */
static bool missed_output(const struct watch *w, struct node dir)
{
	int64_t looked_up = watch_table_lookup(w->table, dir, now_ms(w));

	if (looked_up < 0)
		return false;
	int64_t since = clock_now_ns() - (now_ms(w) - looked_up) * CLOCK_NS_PER_MS - TICK_NS;
	return logs_changed_ns(w->hub, dir.serial) >= since;
}

static void announce_missed_output(struct watch *w, struct node dir, uint64_t rows)
{
	rows &= watch_table_outputs(w->table, dir.kind);
	if (!rows || !missed_output(w, dir))
		return;
	watch_table_unlearn(w->table, dir, rows);
	watch_table_changed(w->table, dir, rows, now_ms(w));
}

static bool follow_live(void *user, const struct session *s)
{
	struct watch *w = user;
	const struct node session = {.kind = NODE_SESSION, .serial = (uint32_t)s->serial};
	const struct node both[] = {session, blocking_of(session)};
	bool wanted = false;

	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		wanted = wanted || shows_output(w, both[i]);
	logs_announce(w->hub, session.serial, wanted);
	/* Only now, or what is written in between would be in neither. */
	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		announce_missed_output(w, both[i], watch_table_learn(w->table, both[i]));
	return true;
}

static bool is_session(enum node_kind kind)
{
	return kind == NODE_SESSION || kind == NODE_LIVE_SESSION;
}

static void on_marked(void *user, struct node dir, uint64_t before, uint64_t after)
{
	struct watch *w = user;

	(void)before;
	/* Of many sessions most have ended: those that live are looked at together. */
	if (after && !is_session(dir.kind))
		(void)watch_table_learn(w->table, dir);
}

/* Sessions that came after those that an earlier hub announced. */
static bool catch_up_session(void *user, uint32_t serial, const char *name)
{
	struct watch *w = user;
	const struct session *s = dispatch_get(w->hub->dispatch, serial);
	const struct node session = {.kind = NODE_SESSION, .serial = serial};
	const struct node link = {.kind = NODE_EXECUTOR_SESSION, .serial = serial, .file = 1};

	watch_table_came(w->table, sessions, name, session, now_ms(w));
	if (s && session_state_live(s->state)) {
		const struct node links = {.kind = NODE_EXECUTOR_SESSIONS,
					   .serial = (uint32_t)s->executor_serial};

		watch_table_came(w->table, links, name, link, now_ms(w));
	}
	if (s)
		projects_session_created(w->hub, s->project_serial, serial, name);
	w->last_session = serial;
	return true;
}

struct catch_up {
	struct watch *w;
	int64_t since_ns;
	unsigned n_sessions;
};

static bool changed_lately(struct catch_up *c, struct node dir)
{
	struct object_info info;

	if (c->n_sessions++ >= WATCH_CATCH_UP_MAX ||
	    node_dir(dir.kind)->object(c->w->hub, dir.serial, &info) < 0)
		return false;
	return info.changed_ns >= c->since_ns ||
	       logs_changed_ns(c->w->hub, dir.serial) >= c->since_ns;
}

static void catch_up_files(void *user, struct node dir)
{
	struct catch_up *c = user;
	struct watch *w = c->w;
	uint64_t rows = watch_table_outputs(w->table, dir.kind);

	if (is_session(dir.kind) && !changed_lately(c, dir))
		return;
	/* The other files of the root are the daemon's own, and each looks at them for himself. */
	if (dir.kind != NODE_ROOT)
		rows |= watch_table_values(w->table, dir.kind);
	watch_table_unlearn(w->table, dir, rows);
	watch_table_changed(w->table, dir, rows, now_ms(w));
}

static void catch_up(struct watch *w)
{
	uint64_t told = area_header(w->hub->area)->sessions_told;
	struct catch_up c = {.w = w,
			     .since_ns = clock_now_ns() - WATCH_CATCH_UP_MS * CLOCK_NS_PER_MS};

	w->caught_up = true;
	(void)dispatch_list(w->hub->dispatch, told + 1, catch_up_session, w);
	watch_table_each(w->table, catch_up_files, &c);
}

void watch_marks_changed(struct watch *w)
{
	dispatch_each_live(w->hub->dispatch, 0, follow_live, w);
	if (!w->caught_up)
		catch_up(w);
}

/* --- the timer ------------------------------------------------------------------------------ */

/* Asks for a scan when changes are in doubt and it is time. Returns when to look again. */
static int64_t ask_scan(struct watch *w)
{
	int64_t now = now_ms(w);

	if (!watch_table_wants_scan(w->table))
		return WATCH_NEVER;
	if (!w->scan_waits) {
		if (now - w->scanned_ms > SCAN_QUIET_MS)
			w->scan_delay_ms = SCAN_DELAY_MS;
		w->scan_due_ms = now + w->scan_delay_ms;
		w->scan_waits = true;
	}
	if (now < w->scan_due_ms)
		return w->scan_due_ms;
	w->scan_waits = false;
	w->scan_asked = watch_table_ask_scan(w->table);
	watch_send(w, NUDGE_SCAN, w->scan_asked, root, "");
	return WATCH_NEVER;
}

void watch_scanned(struct watch *w, uint64_t number, size_t n_certain)
{
	if (number != w->scan_asked || w->scanned == number)
		return;
	w->scanned = number;
	w->scanned_ms = now_ms(w);
	w->scan_delay_ms = n_certain > 0 ? SCAN_DELAY_MS : w->scan_delay_ms * 2;
	if (w->scan_delay_ms > SCAN_DELAY_MAX_MS)
		w->scan_delay_ms = SCAN_DELAY_MAX_MS;
}

/* Where the file of a call is below the mount. */
static int path_of_call(const struct watch *w, const struct watch_call *c, struct buf *out)
{
	struct node where = c->type == NUDGE_MODIFY ? c->node : c->dir;
	int r = node_path(w->hub, where, out);

	if (r < 0 || c->type == NUDGE_MODIFY)
		return r;
	buf_printf(out, "%s%s", out->len > 0 ? "/" : "", c->name);
	if (c->row)
		buf_printf(out, "/%s", node_dir(c->node.kind)->files[c->row - 1].name);
	return out->failed;
}

static void send_call(struct watch *w, const struct watch_call *c)
{
	AUTO_BUF struct buf path = BUF_INIT(NUDGE_PATH_MAX - 1);

	/* Its directory is gone: so are its watchers. */
	if (path_of_call(w, c, &path) < 0)
		(void)watch_table_done(w->table, c->number, now_ms(w));
	else
		watch_send(w, c->type, c->number, c->node, path.data);
}

/* The serial up to which sessions were announced, for the hub that follows this one. */
static void keep_told(struct watch *w)
{
	struct area_header *h = area_header(w->hub->area);
	uint32_t serial = watch_table_sessions_waiting(w->table) > 0
				  ? watch_table_sessions_settled(w->table)
				  : w->last_session;

	if (w->caught_up && serial > h->sessions_told)
		h->sessions_told = serial;
}

void watch_pump(struct watch *w)
{
	int64_t due = WATCH_NEVER;
	struct watch_call *c = NULL;

	if (w->fd < 0)
		return;
	int64_t scan_due = watch_send_waiting(w) ? ask_scan(w) : WATCH_NEVER;
	while (w->unsent_len == 0 && (c = watch_table_next(w->table, now_ms(w), &due)))
		send_call(w, c);
	keep_told(w);
	if (w->unsent_len > 0)
		due = now_ms(w) + RETRY_MS;
	if (scan_due < due)
		due = scan_due;
	if (due != WATCH_NEVER)
		wake(w, due - now_ms(w));
}

/* --- what happened -------------------------------------------------------------------------- */

/* The watch, while there is anybody to tell. */
static struct watch *watch_of(struct hub *hub)
{
	return hub->watch && hub->store ? hub->watch : NULL;
}

static uint64_t row_of(struct node file)
{
	return file.file <= WATCH_ROWS_MAX ? UINT64_C(1) << file.file : 0;
}

void watch_modified(struct hub *hub, struct node node)
{
	struct watch *w = watch_of(hub);

	if (!w)
		return;
	watch_table_changed(w->table, node, row_of(node), now_ms(w));
	wake(w, 0);
}

/* Output of a session that somebody watches is followed while it can grow. */
static void follow_session(struct watch *w, struct node session)
{
	if (!shows_output(w, session) && !shows_output(w, blocking_of(session)))
		return;
	const struct session *s = dispatch_get(w->hub->dispatch, session.serial);
	logs_announce(w->hub, session.serial, s && session_state_live(s->state));
}

static void change_object(struct watch *w, struct node dir)
{
	uint64_t rows = watch_table_values(w->table, dir.kind);

	/* Output that is not followed is not known to have changed; it may be the last there is. */
	if (is_session(dir.kind) && (shows_output(w, dir) || missed_output(w, dir)))
		rows |= watch_table_outputs(w->table, dir.kind);
	watch_table_changed(w->table, dir, rows, now_ms(w));
}

void watch_modified_all(struct hub *hub, struct node dir)
{
	struct watch *w = watch_of(hub);
	struct node blocking = blocking_of(dir);

	if (!w)
		return;
	if (dir.kind == NODE_SESSION)
		follow_session(w, dir);
	change_object(w, dir);
	if (blocking.kind != dir.kind)
		change_object(w, blocking);
	wake(w, 0);
}

void watch_grown(struct hub *hub, uint32_t serial)
{
	struct watch *w = watch_of(hub);
	const struct node session = {.kind = NODE_SESSION, .serial = serial};
	const struct node live = blocking_of(session);

	if (!w)
		return;
	watch_table_changed(w->table, session, watch_table_outputs(w->table, session.kind),
			    now_ms(w));
	watch_table_changed(w->table, live, watch_table_outputs(w->table, live.kind), now_ms(w));
	wake(w, 0);
}

/* The request that is being carried out, when it makes or removes a name in that directory. */
static const struct change *kernel_tells_in(const struct watch *w, struct node dir)
{
	const struct change *c = w->telling;

	return c && c->op != CHANGE_WRITE && node_id(c->node) == node_id(dir) ? c : NULL;
}

void watch_created(struct hub *hub, struct node dir, const char *name, struct node child)
{
	struct watch *w = watch_of(hub);
	const struct change *c = w ? kernel_tells_in(w, dir) : NULL;

	/* Before the first report, what came is among what is caught up with. */
	if (!w || !w->caught_up || (c && strcmp(c->name, name) == 0))
		return;
	if (dir.kind == NODE_SESSIONS && child.serial > w->last_session)
		w->last_session = child.serial;
	watch_table_came(w->table, dir, name, child, now_ms(w));
	keep_told(w);
	wake(w, 0);
}

void watch_deleted(struct hub *hub, struct node dir, const char *name, struct node child)
{
	struct watch *w = watch_of(hub);

	const struct change *c = w ? kernel_tells_in(w, dir) : NULL;

	if (!w)
		return;
	if (child.kind == NODE_SESSION && child.file == 0)
		logs_announce(hub, child.serial, false);
	/* Whoever forgot a session may not know its name any more. */
	if (c && name[0] == '\0')
		name = c->name;
	bool told = c && strcmp(c->name, name) == 0;
	watch_table_went(w->table, dir, name, child, told, now_ms(w));
	if (told)
		watch_gone_add(w, child);
	wake(w, 0);
}

void watch_kernel_tells(struct hub *hub, const struct change *c)
{
	struct watch *w = watch_of(hub);

	if (!w)
		return;
	if (!c && w->telling && w->telling->op == CHANGE_WRITE)
		watch_table_told(w->table, w->telling->node);
	w->telling = c;
}

void watch_looked_up(struct hub *hub, struct node node)
{
	struct watch *w = watch_of(hub);

	if (w)
		watch_table_looked_up(w->table, node, now_ms(w));
}

void watch_status(struct hub *hub, struct buf *out)
{
	struct watch *w = watch_of(hub);

	if (!w)
		return;
	if (w->everything)
		buf_puts(out, "all");
	else
		buf_printf(out, "%zu", watch_table_count_marks(w->table));
	buf_printf(out, " files watched, %llu changes announced\n", (unsigned long long)w->n_told);
}

/* --- life ----------------------------------------------------------------------------------- */

int watch_new(struct hub *hub, struct watch **ret, struct error *err)
{
	static const struct watch_table_hooks hooks = {.print = print_file, .marked = on_marked};
	struct area_header *h = area_header(hub->area);
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return error_oom(err);
	*w = (struct watch){
		.hub = hub,
		.pidfd = -1,
		.fd = -1,
		.number = h->hub_epoch,
		.scan_delay_ms = SCAN_DELAY_MS,
	};
	int r = watch_table_new(&hooks, w, &w->table, err);
	w->gone = r < 0 ? NULL : watch_gone_new(hub);
	if (r >= 0 && !w->gone)
		r = error_oom(err);
	if (r < 0) {
		(void)watch_free(w);
		return r;
	}
	(void)uv_timer_init(&hub->loop, &w->timer);
	w->timer.data = w;
	/* Nobody watched a mount that was not there. */
	if (h->hub_epoch == 1) {
		h->sessions_told = (uint64_t)dispatch_last_serial(hub->dispatch);
		w->caught_up = true;
	}
	w->last_session = (uint32_t)h->sessions_told;
	hub->watch = w;
	*ret = w;
	if (hub->options->nudger_fd >= 0)
		watch_set_nudger(hub, hub->options->nudger_pid,
				 fcntl(hub->options->nudger_fd, F_DUPFD_CLOEXEC, 0));
	return 0;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	w->table = watch_table_free(w->table);
	w->gone = watch_gone_free(w->gone);
	w->fd = close_fd(w->fd);
	w->pidfd = close_fd(w->pidfd);
	free(w);
	return NULL;
}
