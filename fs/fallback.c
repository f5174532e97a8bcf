#include "fs/fallback.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/area.h"

struct fallback {
	int fuse_fd;
	int area_fd;
	struct area *area; /* while the keeper owns it */
	void *request;     /* AREA_MAX_REQUEST bytes */

	uint64_t *released; /* handles to drop when the area is ours again */
	size_t n_released;
	size_t cap_released;
};

OWNER_DEFINE(struct fallback, fallback, fallback_free);

int fallback_new(int fuse_fd, int area_fd, struct fallback **ret, struct error *err)
{
	CLEANUP(owner_fallbackp) struct fallback *f = calloc(1, sizeof(*f));

	if (!f)
		return error_oom(err);
	f->fuse_fd = fuse_fd;
	f->area_fd = area_fd;
	f->request = malloc(AREA_MAX_REQUEST);
	if (!f->request)
		return error_oom(err);
	*ret = take_ptr(f);
	return 0;
}

struct fallback *fallback_free(struct fallback *f)
{
	if (!f)
		return NULL;
	area_free(f->area);
	free(f->request);
	free(f->released);
	free(f);
	return NULL;
}

static void remember_released(struct fallback *f, uint64_t fh)
{
	if (f->n_released == f->cap_released) {
		size_t cap = f->cap_released ? 2 * f->cap_released : 64;
		uint64_t *longer = cap <= FALLBACK_RELEASED_MAX
					   ? realloc(f->released, cap * sizeof(*longer))
					   : NULL;

		/* Without memory the handle stays in the area until the mount goes: no more. */
		if (!longer)
			return;
		f->released = longer;
		f->cap_released = cap;
	}
	f->released[f->n_released++] = fh;
}

static void drop(struct fallback *f, uint64_t fh)
{
	struct area_handle *h = f->area ? area_handle_get(f->area, fh) : NULL;

	if (h)
		area_handle_drop(f->area, h);
	else if (!f->area)
		remember_released(f, fh);
}

static bool has_document(struct fallback *f, uint64_t fh)
{
	const struct area_handle *h = f->area ? area_handle_get(f->area, fh) : NULL;

	return !h || h->doc.len > 0;
}

/*
 * What a request is answered with: 0, a negative errno, or 1 for no answer. What OPEN had made so
 * far goes: the kernel will never release it.
 */
static int verdict(struct fallback *f, const struct fuse_in_header *in, size_t len)
{
	const void *body = in + 1;
	size_t body_len = len - sizeof(*in);

	switch (in->opcode) {
	case FUSE_INIT:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
	case FUSE_NOTIFY_REPLY:
		return 1;
	case FUSE_DESTROY:
		return 0;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		if (body_len >= sizeof(struct fuse_release_in))
			drop(f, ((const struct fuse_release_in *)body)->fh);
		return 0;
	case FUSE_FLUSH:
		if (body_len >= sizeof(struct fuse_flush_in) &&
		    !has_document(f, ((const struct fuse_flush_in *)body)->fh))
			return 0;
		return -EIO;
	default:
		return -EIO;
	}
}

/* Returns whether the kernel took an answer. */
static bool answer(struct fallback *f, const struct fuse_in_header *in, size_t len)
{
	const struct fuse_out_header out = {
		.len = sizeof(out), .error = verdict(f, in, len), .unique = in->unique};

	/* A request that the kernel gave up, or has an answer to (ENOENT), needs none. */
	return out.error <= 0 && write(f->fuse_fd, &out, sizeof(out)) == (ssize_t)sizeof(out);
}

/* Answers one request of the area, which a dead hub left. */
static void answer_kept(struct fallback *f, uint64_t unique)
{
	uint32_t len = 0;
	const struct fuse_in_header *in = area_request_get(f->area, unique, &len);

	if (in && len >= sizeof(*in)) {
		struct area_handle *opened = NULL;

		if (in->opcode == FUSE_OPEN || in->opcode == FUSE_OPENDIR ||
		    in->opcode == FUSE_CREATE)
			opened = area_handle_of_open(f->area, unique);
		/* ENOENT: the hub died after its answer, and the descriptor is in use. */
		if (answer(f, in, len) && opened)
			area_handle_drop(f->area, opened);
	}
	area_request_done(f->area, unique);
}

int fallback_own(struct fallback *f, struct error *err)
{
	AUTO_FREE uint64_t *unanswered = NULL;

	if (f->area)
		return 0;
	int r = area_attach(f->area_fd, &f->area, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_released; i++)
		drop(f, f->released[i]);
	f->n_released = 0;

	ssize_t n = area_requests(f->area, &unanswered);
	if (n < 0) {
		f->area = area_free(f->area);
		return error_oom(err);
	}
	for (ssize_t i = 0; i < n; i++)
		answer_kept(f, unanswered[i]);
	return 0;
}

void fallback_yield(struct fallback *f)
{
	f->area = area_free(f->area);
}

bool fallback_may_serve(const struct fallback *f)
{
	struct area_header h;

	return area_peek(f->area_fd, &h, NULL) == 0 && h.init_len != 0 && h.init_reply_len != 0;
}

int fallback_serve(struct fallback *f, struct error *err)
{
	const struct fuse_in_header *in = f->request;

	for (int done = 0; done < FALLBACK_TURN; done++) {
		ssize_t n = read(f->fuse_fd, f->request, AREA_MAX_REQUEST);

		if (n < 0 && (errno == EINTR || errno == ENOENT))
			continue; /* ENOENT: it was given up while it was being read */
		if (n < 0 && errno == EAGAIN)
			return done;
		if (n < 0)
			return error_set(err, errno, "cannot read requests: %s", strerror(errno));
		if ((size_t)n < sizeof(*in))
			return error_set(err, ENODEV, "the mount is gone");
		answer(f, in, (size_t)n);
	}
	return FALLBACK_TURN;
}
