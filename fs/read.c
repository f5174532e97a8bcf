#include "fs/read.h"

#include <errno.h>
#include <stdlib.h>

#include "core/owner.h"
#include "fs/area.h"
#include "fs/context.h"
#include "fs/wire.h"

/* Below this a copy costs less than the detour through a pipe. */
#define SPLICE_MIN ((size_t)16 << 10)

/* Answers with bytes straight from the file that a log lies in. False when that cannot be. */
static bool splice_log(const struct view *v, fuse_req_t req, size_t size, uint64_t off)
{
	const struct node_file *file = node_file(v->node);

	if (!file->file || size < SPLICE_MIN)
		return false;
	int fd = file->file(v, off, &size);
	return fd >= 0 && size >= SPLICE_MIN &&
	       wire_reply_file(v->hub->wire, req, fd, size, off) == 0;
}

void read_log(struct hub *hub, fuse_req_t req, struct node node, size_t size, uint64_t off)
{
	const struct view v = {.hub = hub, .node = node, .uid = fuse_req_ctx(req)->uid};

	if (splice_log(&v, req, size, off))
		return;
	AUTO_FREE char *data = malloc(size ? size : 1);
	if (!data) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	ssize_t n = node_file(node)->pread(&v, data, size, off);
	if (n < 0)
		(void)fuse_reply_err(req, (int)-n);
	else
		(void)fuse_reply_buf(req, data, (size_t)n);
}

void read_text(struct hub *hub, fuse_req_t req, const struct area_handle *h, size_t size,
	       uint64_t off)
{
	AUTO_FREE char *data = malloc(size ? size : 1);

	if (!data) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	size_t n = area_blob_read(hub->area, &h->text, off, data, size);
	(void)fuse_reply_buf(req, data, n);
}
