#include "fs/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include "core/fault.h"
#include "core/owner.h"
#include "fs/area.h"
#include "fs/context.h"

/*
 * Requests handled before the loop looks at anything else, so that a caller who never stops asking
 * does not starve timers and commits.
 */
#define REQUESTS_PER_TURN 64

struct wire {
	struct hub *hub;
	struct fuse_session *session;
	uv_poll_t poll;
	bool started;
	bool blocked; /* no room for another request until one is answered: not polling */

	uint64_t unique;
	const void *request;
	uint32_t request_len;
	bool replaying;
	int init_mismatch;
	int pipe[2]; /* for replies out of files; empty between two of them, -1 before the first */
};

static int resume(struct wire *w);

static const char init_differs[] = "this binary would negotiate another FUSE session than the mount "
				   "has; stop and start cloopd instead of upgrading it";

static size_t iov_length(const struct iovec *iov, int count)
{
	size_t len = 0;

	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* The reply to the kernel's INIT: sent and kept once, compared by every later hub. */
static ssize_t init_reply(struct wire *w, const struct iovec *iov, int count)
{
	struct area_header *h = area_header(w->hub->area);
	char reply[AREA_INIT_MAX];
	size_t len = iov_length(iov, count), at = 0;

	if (len > sizeof(reply)) {
		w->init_mismatch = -EPROTO;
		return (ssize_t)len;
	}
	for (int i = 0; i < count; i++) {
		memcpy(reply + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	if (h->init_answered) {
		if (len != h->init_reply_len || memcmp(reply, h->init_reply, len) != 0)
			w->init_mismatch = -EPROTO;
		return (ssize_t)len;
	}
	memcpy(h->init_reply, reply, len);
	h->init_reply_len = (uint32_t)len;
	ssize_t n = writev(w->hub->options->fuse_fd, iov, count);
	int saved = errno;
	/* ENOENT: a hub that died at this very place had answered it. */
	if (n >= 0 || saved == ENOENT)
		__atomic_store_n(&h->init_answered, 1, __ATOMIC_RELEASE);
	errno = saved;
	return n;
}

/* Whether a reply is that to INIT, which is not among the kept requests. */
static bool is_init(const struct wire *w, uint64_t unique)
{
	const struct area_header *h = area_header(w->hub->area);
	const struct fuse_in_header *in = (const struct fuse_in_header *)h->init;

	return h->init_len >= sizeof(*in) && in->unique == unique;
}

/* The requests that change something: where a test stops the hub. */
static void fault_at(uint32_t opcode, const char *point)
{
	if (opcode == FUSE_WRITE || opcode == FUSE_MKDIR || opcode == FUSE_RMDIR)
		(void)fault_point(point);
}

/* The request was answered, well or not. */
static void answered(struct wire *w, uint64_t unique)
{
	area_request_done(w->hub->area, unique);
	if (w->blocked)
		(void)resume(w);
}

static ssize_t wire_writev(int fd, struct iovec *iov, int count, void *user)
{
	struct hub *hub = user;
	struct wire *w = hub->wire;
	const struct fuse_out_header *out = iov[0].iov_base;
	uint64_t unique = out->unique;

	if (unique == 0)
		return writev(fd, iov, count);
	uint32_t len;
	const struct fuse_in_header *in = area_request_get(hub->area, unique, &len);
	if (!in)
		return is_init(w, unique) ? init_reply(w, iov, count) : writev(fd, iov, count);

	fault_at(in->opcode, "wire.reply");
	ssize_t n = writev(fd, iov, count);
	int saved = errno;
	fault_at(in->opcode, "wire.replied");
	/*
	 * ENOENT: the kernel does not wait for it any more. Other failures (EINVAL: a reply that the
	 * kernel does not take) must not leave the caller waiting for ever either.
	 */
	if (n < 0 && saved != ENOENT) {
		const struct fuse_out_header eio = {.len = sizeof(eio), .error = -EIO, .unique = unique};

		hub_log("reply to request %llu was not taken: %s", (unsigned long long)unique,
			strerror(saved));
		if (write(fd, &eio, sizeof(eio)) < 0 && errno != ENOENT)
			hub_log("nor was the error: %s", strerror(errno));
	}
	answered(w, unique);
	errno = saved;
	return n;
}

/* --- replies out of files ------------------------------------------------------------------- */

/* The pages of a READ that begins inside a page, and one for the header; and as much again. */
#define PIPE_BYTES (2 * AREA_MAX_WRITE)

static void pipe_close(struct wire *w)
{
	w->pipe[0] = close_fd(w->pipe[0]);
	w->pipe[1] = close_fd(w->pipe[1]);
}

static int pipe_open(struct wire *w)
{
	if (w->pipe[0] >= 0)
		return 0;
	if (pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		w->pipe[0] = w->pipe[1] = -1;
		return -errno;
	}
	if (fcntl(w->pipe[1], F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES) {
		pipe_close(w);
		return -ENOSPC;
	}
	return 0;
}

/* Header and bytes are in the pipe; or an error, and then the pipe may hold anything. */
static int pipe_fill(struct wire *w, const struct fuse_out_header *out, int fd, size_t len,
		     uint64_t off)
{
	loff_t at = (loff_t)off;

	if (write(w->pipe[1], out, sizeof(*out)) != (ssize_t)sizeof(*out))
		return -EIO;
	while (len > 0) {
		ssize_t n = splice(fd, &at, w->pipe[1], NULL, len, SPLICE_F_NONBLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		len -= (size_t)n;
	}
	return 0;
}

int wire_reply_file(struct wire *w, fuse_req_t req, int fd, size_t len, uint64_t off)
{
	const struct fuse_out_header out = {.len = (uint32_t)(sizeof(out) + len),
					    .unique = w->unique};
	int r = pipe_open(w);

	if (r == 0)
		r = pipe_fill(w, &out, fd, len, off);
	if (r == 0 && splice(w->pipe[0], NULL, w->hub->options->fuse_fd, NULL, out.len, 0) < 0)
		r = -errno;
	if (r < 0)
		pipe_close(w);
	/* ENOENT: the reader does not wait any more. */
	if (r < 0 && r != -ENOENT)
		return r;
	answered(w, out.unique);
	fuse_reply_none(req);
	return 0;
}

/* --- INIT, for a binary that only asks itself ------------------------------------------------ */

struct init_check {
	char reply[AREA_INIT_MAX];
	size_t len;
	bool too_long;
};

static ssize_t check_writev(int fd, struct iovec *iov, int count, void *user)
{
	struct init_check *check = user;
	size_t len = iov_length(iov, count);

	(void)fd;
	check->too_long = len > sizeof(check->reply);
	check->len = 0;
	for (int i = 0; i < count && !check->too_long; i++) {
		memcpy(check->reply + check->len, iov[i].iov_base, iov[i].iov_len);
		check->len += iov[i].iov_len;
	}
	return (ssize_t)len;
}

static ssize_t wire_read(int fd, void *data, size_t len, void *user)
{
	(void)user;
	return read(fd, data, len);
}

int wire_new(struct hub *hub, const struct fuse_lowlevel_ops *ops, struct wire **ret,
	     struct error *err)
{
	static const struct fuse_custom_io io = {.writev = wire_writev, .read = wire_read};
	char *argv[] = {(char *)"cloopd", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct wire *w = calloc(1, sizeof(*w));

	if (!w)
		return error_oom(err);
	w->hub = hub;
	w->pipe[0] = w->pipe[1] = -1;
	hub->wire = w;
	w->session = fuse_session_new(&args, ops, sizeof(*ops), hub);
	fuse_opt_free_args(&args);
	/* The session closes its descriptor when it is destroyed; the keeper's stays open. */
	int fd = w->session ? dup(hub->options->fuse_fd) : -1;
	if (!w->session || fd < 0 || fuse_session_custom_io(w->session, &io, fd) != 0) {
		close_fd(fd);
		hub->wire = wire_free(w);
		return error_set(err, ENOMEM, "cannot set up the FUSE session");
	}
	*ret = w;
	return 0;
}

struct wire *wire_free(struct wire *w)
{
	if (!w)
		return NULL;
	if (w->session)
		fuse_session_destroy(w->session);
	pipe_close(w);
	free(w);
	return NULL;
}

int wire_check_init(const struct area_header *h, const struct fuse_lowlevel_ops *ops,
		    struct error *err)
{
	static const struct fuse_custom_io io = {.writev = check_writev, .read = wire_read};
	struct init_check check = {0};
	char *argv[] = {(char *)"cloopd", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *session = fuse_session_new(&args, ops, sizeof(*ops), &check);
	struct fuse_buf buf = {.size = h->init_len, .mem = (void *)(uintptr_t)h->init};
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	fuse_opt_free_args(&args);
	if (!session || fd < 0 || fuse_session_custom_io(session, &io, fd) != 0) {
		close_fd(fd);
		if (session)
			fuse_session_destroy(session);
		return error_set(err, ENOMEM, "cannot set up the FUSE session");
	}
	fuse_session_process_buf(session, &buf);
	fuse_session_destroy(session);
	if (check.too_long || check.len != h->init_reply_len ||
	    memcmp(check.reply, h->init_reply, check.len) != 0)
		return error_set(err, EPROTO, "%s", init_differs);
	return 0;
}

/* Hands one request to libfuse. The memory stays valid until it is answered. */
static void handle(struct wire *w, const void *data, uint32_t len)
{
	const struct fuse_in_header *in = data;
	struct fuse_buf buf = {.size = len, .mem = (void *)(uintptr_t)data};

	w->unique = in->unique;
	w->request = data;
	w->request_len = len;
	fuse_session_process_buf(w->session, &buf);
	w->unique = 0;
	w->request = NULL;
}

static void keep_init(struct wire *w, const void *data, uint32_t len)
{
	struct area_header *h = area_header(w->hub->area);

	if (len > sizeof(h->init))
		return;
	memcpy(h->init, data, len);
	__atomic_store_n(&h->init_len, len, __ATOMIC_RELEASE);
}

int wire_replay_init(struct wire *w, struct error *err)
{
	struct area_header *h = area_header(w->hub->area);

	if (h->init_len == 0) {
		/* Perhaps a hub read it and did no more. */
		const struct fuse_in_header *in = area_staging(w->hub->area);

		if (in->len < sizeof(*in) || in->opcode != FUSE_INIT || in->len > sizeof(h->init))
			return 0;
		keep_init(w, in, in->len);
		area_staging_clear(w->hub->area);
	}
	handle(w, h->init, h->init_len);
	if (w->init_mismatch < 0)
		return error_set(err, EPROTO, "%s", init_differs);
	return 0;
}

int wire_replay_requests(struct wire *w, struct error *err)
{
	AUTO_FREE uint64_t *list = NULL;
	ssize_t n = area_requests(w->hub->area, &list);

	if (n < 0)
		return error_oom(err);
	w->replaying = true;
	for (ssize_t i = 0; i < n; i++) {
		uint32_t len;
		void *data = area_request_get(w->hub->area, list[i], &len);

		if (data)
			handle(w, data, len);
	}
	w->replaying = false;
	return 0;
}

/* Requests whose loss is harmless, or that have no reply: not kept. */
static bool is_kept(uint32_t opcode)
{
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT &&
	       opcode != FUSE_INIT;
}

/* Reads and handles one request. Returns false when there is none to be had now. */
static bool one(struct wire *w)
{
	struct area *area = w->hub->area;

	if (!area_can_take(area)) {
		w->blocked = true;
		(void)uv_poll_stop(&w->poll);
		return false;
	}
	area_staging_clear(area);
	ssize_t n = read(w->hub->options->fuse_fd, area_staging(area), AREA_MAX_REQUEST);
	if (n < 0) {
		if (errno == EINTR || errno == ENOENT)
			return true; /* the request was given up while it was being read */
		if (errno != EAGAIN)
			hub_exit(w->hub, errno == ENODEV ? HUB_EXIT_UNMOUNTED : 1);
		return false;
	}
	const struct fuse_in_header *in = area_staging(area);
	if ((size_t)n < sizeof(*in)) {
		hub_exit(w->hub, n == 0 ? HUB_EXIT_UNMOUNTED : 1);
		return false;
	}
	if (is_kept(in->opcode)) {
		fault_at(in->opcode, "wire.read");
		const void *kept = area_request_keep(area, in->unique, (uint32_t)n);

		fault_at(in->opcode, "wire.kept");
		handle(w, kept, (uint32_t)n);
	} else {
		if (in->opcode == FUSE_INIT)
			keep_init(w, in, (uint32_t)n);
		handle(w, in, (uint32_t)n);
		area_staging_clear(area);
	}
	return true;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct wire *w = poll->data;

	(void)events;
	if (status < 0) {
		/* POLLERR: the connection was aborted. */
		(void)one(w);
		return;
	}
	/* What waits beyond these makes the poll fire again: it is level-triggered. */
	for (int i = 0; i < REQUESTS_PER_TURN; i++)
		if (!w->started || !one(w))
			return;
}

static int resume(struct wire *w)
{
	w->blocked = false;
	return w->started ? uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, on_readable) : 0;
}

int wire_start(struct wire *w, struct error *err)
{
	int r = uv_poll_init(&w->hub->loop, &w->poll, w->hub->options->fuse_fd);

	w->poll.data = w;
	if (r == 0) {
		w->started = true;
		r = resume(w);
	}
	if (r < 0)
		return error_set(err, -r, "cannot watch the FUSE descriptor: %s", uv_strerror(r));
	return 0;
}

void wire_stop(struct wire *w)
{
	if (!w->started)
		return;
	w->started = false;
	uv_close((uv_handle_t *)&w->poll, NULL);
}

uint64_t wire_unique(const struct wire *w)
{
	return w->unique;
}

bool wire_replaying(const struct wire *w)
{
	return w->replaying;
}

const void *wire_request(const struct wire *w, uint32_t *ret_len)
{
	*ret_len = w->request_len;
	return w->request;
}

void wire_notify_poll(struct wire *w, uint64_t kh)
{
	struct fuse_out_header out = {.error = FUSE_NOTIFY_POLL};
	struct fuse_notify_poll_wakeup_out arg = {.kh = kh};
	struct iovec iov[] = {{.iov_base = &out, .iov_len = sizeof(out)},
			      {.iov_base = &arg, .iov_len = sizeof(arg)}};

	out.len = sizeof(out) + sizeof(arg);
	/* ENOENT: nobody polls that file any more. */
	if (writev(w->hub->options->fuse_fd, iov, 2) < 0 && errno != ENOENT)
		hub_log("cannot wake a poll: %s", strerror(errno));
}
