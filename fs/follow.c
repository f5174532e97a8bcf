#include "fs/follow.h"

#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"
#include "fs/area.h"
#include "fs/caller.h"
#include "fs/context.h"
#include "fs/logs.h"
#include "fs/wire.h"

/* Objects with waiters, by hash; a power of two. */
#define BUCKETS 1024

/*
 * Every blocked READ keeps a slot of the area: if they used up all, nobody could ask for anything any
 * more. So there are fewer waiters than slots, and no one user has most of them.
 */
#define WAITERS_MAX (AREA_SMALL_COUNT - 8192)
#define WAITERS_PER_UID (WAITERS_MAX / 2)

/* Waiters that are tried before the loop looks at anything else. */
#define TRIES_PER_TURN 256

/* Objects whose waiters are tried over several turns; a wake beyond these is not put off. */
#define UNFINISHED_MAX 64

/*
 * One blocked READ (req set) or one poll (req NULL). It holds no buffer: the bytes are fetched when
 * there are some.
 */
struct waiter {
	struct waiter *next, **link;
	struct hub *hub;
	struct node node;
	uid_t uid;
	uint64_t fh;
	fuse_req_t req;
	size_t len;
	uint64_t off;
	uint64_t tried; /* the wake that it was tried for last */
	bool watching;  /* counts as an interest in the session's log */
};

struct unfinished {
	enum node_kind kind;
	uint32_t serial;
	uint64_t wake;
};

struct follow {
	struct hub *hub;
	struct waiter *buckets[BUCKETS];
	unsigned n_waiters;
	unsigned of_uid[HUB_UID_COUNTERS];
	uint64_t wakes; /* numbers each wake */
	struct unfinished unfinished[UNFINISHED_MAX];
	size_t n_unfinished;
	uv_timer_t timer;
	char data[AREA_MAX_WRITE]; /* what a READ is answered from */
};

unsigned follow_count(const struct hub *hub)
{
	return hub->follow->n_waiters;
}

static struct waiter **bucket_of(struct follow *f, enum node_kind kind, uint32_t serial)
{
	return &f->buckets[((uint32_t)kind * 31 + serial * 2654435761U) % BUCKETS];
}

int follow_new(struct hub *hub, struct follow **ret, struct error *err)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return error_oom(err);
	f->hub = hub;
	(void)uv_timer_init(&hub->loop, &f->timer);
	f->timer.data = f;
	*ret = f;
	return 0;
}

struct follow *follow_free(struct follow *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < BUCKETS; i++)
		while (f->buckets[i]) {
			struct waiter *w = f->buckets[i];

			f->buckets[i] = w->next;
			free(w);
		}
	free(f);
	return NULL;
}

/*
 * Only output grows between two changes of the object itself. A log that is not there yet cannot be
 * watched: tried again with the next change of the session, which is its start.
 */
static void watch_growth(struct waiter *w)
{
	if (!w->watching && w->node.kind == NODE_LIVE_SESSION && node_file(w->node)->type == FILE_STREAM)
		w->watching = logs_watch(w->hub, w->node.serial);
}

/* Users whose waiters are counted one by one; two may share a counter, which only makes it stricter. */
static unsigned *waiters_of(struct follow *f, uid_t uid)
{
	return &f->of_uid[uid % HUB_UID_COUNTERS];
}

static void waiter_count(struct follow *f, const struct waiter *w, int by)
{
	f->n_waiters += (unsigned)by;
	*waiters_of(f, w->uid) += (unsigned)by;
}

static void waiter_drop(struct waiter *w)
{
	waiter_count(w->hub->follow, w, -1);
	if (w->watching)
		logs_unwatch(w->hub, w->node.serial);
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	free(w);
}

/* NULL: out of memory, or more than may wait. */
static struct waiter *waiter_add(struct hub *hub, struct node node, const struct area_handle *h,
				 fuse_req_t req)
{
	struct waiter **bucket = bucket_of(hub->follow, node.kind, node.serial);

	if (hub->follow->n_waiters >= WAITERS_MAX || *waiters_of(hub->follow, h->uid) >= WAITERS_PER_UID)
		return NULL;
	struct waiter *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct waiter){.hub = hub, .node = node, .uid = h->uid, .fh = h->fh, .req = req,
			     .next = *bucket, .link = bucket};
	if (*bucket)
		(*bucket)->link = &w->next;
	*bucket = w;
	waiter_count(hub->follow, w, 1);
	watch_growth(w);
	return w;
}

/* Answers a READ if it can be answered now. Returns false when it has to wait. */
static bool try_read(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h,
		     size_t len, uint64_t off)
{
	const struct view v = {.hub = hub, .node = node, .uid = h->uid};
	const struct area_handle before = *h;
	struct stream_result result = {0};
	char *data = hub->follow->data;

	int r = node_file(node)->stream(&v, h, data, len, off, &result);
	if (r == -EAGAIN && !hub->stopping)
		return false;
	if (r < 0 && r != -EAGAIN) {
		(void)fuse_reply_err(req, -r);
		return true;
	}
	h->read_off = off + result.len;
	if (fuse_reply_buf(req, data, result.len) == -ENOENT) {
		/* An earlier hub had answered it, perhaps with less: that is where the reader is. */
		memcpy(h->cursor, before.cursor, sizeof(h->cursor));
		h->read_off = before.read_off;
	}
	return true;
}

static bool is_ready(struct hub *hub, struct node node, struct area_handle *h)
{
	const struct view v = {.hub = hub, .node = node, .uid = h->uid};
	struct stream_result result = {0};
	char byte;

	/* Asking must not move a rendered stream's cursor: the handle is only borrowed. */
	struct area_handle look = *h;
	return hub->stopping ||
	       node_file(node)->stream(&v, &look, &byte, 1, h->read_off, &result) != -EAGAIN;
}

static void on_interrupt(fuse_req_t req, void *user)
{
	waiter_drop(user);
	(void)fuse_reply_err(req, EINTR);
}

void follow_read(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h,
		 size_t len, uint64_t off, int flags)
{
	if (len > sizeof(hub->follow->data))
		len = sizeof(hub->follow->data);
	if (try_read(hub, req, node, h, len, off))
		return;
	if (flags & O_NONBLOCK) {
		(void)fuse_reply_err(req, EAGAIN);
		return;
	}
	/* The INTERRUPT may have reached the hub that died, and comes only once. */
	if (wire_replaying(hub->wire) && caller_interrupted(fuse_req_ctx(req)->pid)) {
		(void)fuse_reply_err(req, EINTR);
		return;
	}
	struct waiter *w = waiter_add(hub, node, h, req);
	if (!w) {
		(void)fuse_reply_err(req, EDQUOT);
		return;
	}
	w->len = len;
	w->off = off;
	/* What was written before the log was watched raises no event. */
	if (w->watching && try_read(hub, req, node, h, len, off)) {
		waiter_drop(w);
		return;
	}
	fuse_req_interrupt_func(req, on_interrupt, w);
}

void follow_poll(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h)
{
	uint32_t len;
	const char *raw = wire_request(hub->wire, &len);
	struct fuse_poll_in in;

	if (len < sizeof(struct fuse_in_header) + sizeof(in)) {
		(void)fuse_reply_err(req, EIO);
		return;
	}
	memcpy(&in, raw + sizeof(struct fuse_in_header), sizeof(in));
	bool ready = is_ready(hub, node, h);
	if (in.flags & FUSE_POLL_SCHEDULE_NOTIFY) {
		h->poll_kh = in.kh;
		/*
		 * Also when it is ready: an edge-triggered epoll does not ask again after it has read
		 * what is there, but wants to be told of what comes then.
		 */
		struct waiter *w = h->poll_set ? NULL : waiter_add(hub, node, h, NULL);
		if (!w && !h->poll_set && !ready) {
			(void)fuse_reply_err(req, EDQUOT);
			return;
		}
		h->poll_set = h->poll_set || w;
		/* What was written before the log was watched raises no event. */
		ready = ready || (w && w->watching && is_ready(hub, node, h));
	}
	(void)fuse_reply_poll(req, ready ? POLLIN | POLLRDNORM : 0);
}

void follow_release(struct hub *hub, struct area_handle *h)
{
	struct node node;

	if (!h->poll_set || !node_parse(h->node, &node))
		return;
	for (struct waiter *w = *bucket_of(hub->follow, node.kind, node.serial), *next; w; w = next) {
		next = w->next;
		if (!w->req && w->fh == h->fh)
			waiter_drop(w);
	}
}

/* Tries one waiter. Returns true when it is done with. */
static bool try_waiter(struct hub *hub, struct waiter *w)
{
	struct area_handle *h = area_handle_get(hub->area, w->fh);

	if (!h) {
		/* A READ keeps its descriptor open, unless an earlier hub had answered it already. */
		if (w->req)
			(void)fuse_reply_err(w->req, EBADF);
		return true;
	}
	watch_growth(w);
	if (w->req) {
		fuse_req_t req = w->req;

		/* The reply frees the request, so nobody may be told of an interrupt meanwhile. */
		fuse_req_interrupt_func(req, NULL, NULL);
		if (try_read(hub, req, w->node, h, w->len, w->off))
			return true;
		fuse_req_interrupt_func(req, on_interrupt, w);
		return false;
	}
	if (!is_ready(hub, w->node, h))
		return false;
	h->poll_set = 0;
	wire_notify_poll(hub->wire, h->poll_kh);
	return true;
}

/* Tries waiters of an object that were not tried for this wake. Returns false when some are left. */
static bool try_object(struct follow *f, const struct unfinished *u, unsigned *budget)
{
	for (struct waiter *w = *bucket_of(f, u->kind, u->serial), *next; w; w = next) {
		next = w->next;
		if (w->node.kind != u->kind || w->node.serial != u->serial || w->tried >= u->wake)
			continue;
		if (*budget == 0)
			return false;
		--*budget;
		w->tried = u->wake;
		if (try_waiter(f->hub, w))
			waiter_drop(w);
	}
	return true;
}

static void on_turn(uv_timer_t *timer)
{
	struct follow *f = timer->data;
	unsigned budget = TRIES_PER_TURN;
	size_t left = 0;

	for (size_t i = 0; i < f->n_unfinished; i++) {
		struct unfinished u = f->unfinished[i];

		if (!try_object(f, &u, &budget))
			f->unfinished[left++] = u;
	}
	f->n_unfinished = left;
	if (left > 0)
		(void)uv_timer_start(&f->timer, on_turn, 0, 0);
}

void follow_wake(struct hub *hub, enum node_kind live_kind, uint32_t serial)
{
	struct follow *f = hub->follow;
	struct unfinished u = {.kind = live_kind, .serial = serial, .wake = ++f->wakes};
	bool can_wait = f->n_unfinished < UNFINISHED_MAX;
	unsigned budget = can_wait ? TRIES_PER_TURN : UINT_MAX;

	/* A wake that is not finished yet begins again: what it has tried may be ready now. */
	for (size_t i = 0; i < f->n_unfinished; i++)
		if (f->unfinished[i].kind == live_kind && f->unfinished[i].serial == serial) {
			f->unfinished[i].wake = u.wake;
			return;
		}
	if (try_object(f, &u, &budget))
		return;
	f->unfinished[f->n_unfinished++] = u;
	(void)uv_timer_start(&f->timer, on_turn, 0, 0);
}

void follow_tick(struct hub *hub)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct waiter *w = hub->follow->buckets[i], *next; w; w = next) {
			next = w->next;
			if (w->node.kind == NODE_LIVE_SESSION && !w->watching &&
			    node_file(w->node)->type == FILE_STREAM && try_waiter(hub, w))
				waiter_drop(w);
		}
}

static void wake_saved(struct area_handle *h, void *user)
{
	struct hub *hub = user;

	if (!h->poll_set)
		return;
	h->poll_set = 0;
	wire_notify_poll(hub->wire, h->poll_kh);
}

void follow_wake_saved(struct hub *hub)
{
	area_handle_each(hub->area, wake_saved, hub);
}

void follow_stop(struct hub *hub)
{
	hub->stopping = true;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct waiter *w = hub->follow->buckets[i], *next; w; w = next) {
			next = w->next;
			if (try_waiter(hub, w))
				waiter_drop(w);
		}
}
