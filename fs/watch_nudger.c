#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/caller.h"
#include "fs/context.h"
#include "fs/watch_internal.h"

/*
 * Reports handled before the loop looks at anything else: one of a thousand marks takes half a
 * millisecond.
 */
#define REPORTS_PER_TURN 8

/* --- orders --------------------------------------------------------------------------------- */

static bool send_now(struct watch *w, const struct nudge_order *o, size_t len)
{
	ssize_t n = send(w->fd, o, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	/* No room: later. Anything else: the nudger is gone, and the keeper starts another one. */
	return n >= 0 || (errno != EAGAIN && errno != EINTR && errno != ENOBUFS);
}

bool watch_send_waiting(struct watch *w)
{
	if (w->unsent_len > 0 && !send_now(w, &w->unsent, w->unsent_len))
		return false;
	w->unsent_len = 0;
	if (w->hello_due) {
		w->hello_due = false;
		watch_send(w, NUDGE_HELLO, 0, (struct node){.kind = NODE_ROOT}, "");
	}
	return w->unsent_len == 0;
}

void watch_send(struct watch *w, enum nudge_type type, uint64_t number, struct node node,
		const char *path)
{
	struct nudge_order o = {.type = type, .hub = w->number, .number = number,
				.inode = node_inode(node)};
	size_t len = strlen(path) + 1;

	if (w->fd < 0 || len > sizeof(o.path))
		return;
	node.file = 0;
	o.dir = node_inode(node);
	memcpy(o.path, path, len);
	len += offsetof(struct nudge_order, path);
	if (send_now(w, &o, len))
		return;
	w->unsent = o;
	w->unsent_len = len;
}

/* --- reports -------------------------------------------------------------------------------- */

static void on_marks(struct watch *w, const struct nudge_report *r)
{
	int64_t now = (int64_t)uv_now(&w->hub->loop);

	if (r->flags & NUDGE_MARKS_SAME) {
		watch_table_marks_same(w->table, r->number, now);
		watch_scanned(w, r->number, 0);
		return;
	}
	if (r->flags & NUDGE_MARKS_FIRST)
		watch_table_marks_begin(w->table);
	for (uint32_t i = 0; i < r->n_marks; i++)
		watch_table_mark(w->table, r->marks[i]);
	if (!(r->flags & NUDGE_MARKS_LAST))
		return;
	w->everything = r->flags & NUDGE_MARKS_EVERYTHING;
	size_t n = watch_table_marks_end(w->table, r->number, w->everything, now);
	watch_scanned(w, r->number, n);
	watch_marks_changed(w);
}

static void on_report(struct watch *w, const struct nudge_report *r, size_t len)
{
	const size_t head = offsetof(struct nudge_report, marks);

	if (len < head || r->hub != w->number)
		return;
	if (r->type == NUDGE_DONE) {
		enum nudge_type type =
			watch_table_done(w->table, r->number, (int64_t)uv_now(&w->hub->loop));
		w->n_told += type != NUDGE_NONE && type != NUDGE_LOOK && r->result == 0;
	} else if (r->type == NUDGE_MARKS && r->n_marks <= NUDGE_MARKS_A_REPORT &&
		   len == head + r->n_marks * sizeof(r->marks[0])) {
		on_marks(w, r);
	}
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct watch *w = poll->data;
	struct nudge_report r;

	(void)status;
	(void)events;
	for (int i = 0; i < REPORTS_PER_TURN; i++) {
		ssize_t n = recv(w->fd, &r, sizeof(r), MSG_DONTWAIT);

		if (n < 0)
			break;
		on_report(w, &r, (size_t)n);
	}
	watch_pump(w);
}

/* --- the process ---------------------------------------------------------------------------- */

/*
 * The loop knows a descriptor by its number, and may look at it until the next turn: so the number
 * stays, and the socket behind it is exchanged.
 */
static int take_socket(struct watch *w, int fd)
{
	if (w->poll_ready) {
		(void)uv_poll_stop(&w->poll);
		int r = dup3(fd, w->fd, O_CLOEXEC);
		(void)close(fd);
		if (r < 0)
			return -errno;
	} else {
		w->fd = fd;
		int r = uv_poll_init(&w->hub->loop, &w->poll, fd);
		if (r < 0)
			return r;
		w->poll.data = w;
		w->poll_ready = true;
	}
	return uv_poll_start(&w->poll, UV_READABLE, on_readable);
}

/* The pidfd of a child of the keeper, which is our own parent; -1 when the number is another's. */
static int hold_nudger(pid_t pid)
{
	AUTO_CLOSE int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	pid_t group, parent;

	if (pidfd < 0 || caller_process(pid, &group, &parent) < 0 || parent != getppid())
		return -1;
	return take_fd(&pidfd);
}

void watch_set_nudger(struct hub *hub, pid_t pid, int fd)
{
	struct watch *w = hub->watch;

	if (!w || fd < 0) {
		close_fd(fd);
		return;
	}
	w->pidfd = close_fd(w->pidfd);
	w->pid = pid;
	w->pidfd = hold_nudger(pid);
	w->unsent_len = 0;
	int r = take_socket(w, fd);
	if (r < 0) {
		hub_log("cannot reach the nudger: %s; files cannot be watched", strerror(-r));
		return;
	}
	w->hello_due = true;
	w->scan_waits = false;
	watch_table_retry(w->table, (int64_t)uv_now(&hub->loop));
	watch_pump(w);
}
