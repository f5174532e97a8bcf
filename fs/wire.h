/*
 * The wire: libfuse's low-level session over the keeper's descriptor.
 *
 * Each request is read into the shared area before it is looked at, and forgotten there when its
 * reply was written. A hub that starts while requests are unanswered replays INIT to libfuse with
 * the reply muted (it is compared with the first one), then handles those requests under their own
 * `unique` in ascending order. A reply to a request that the kernel gave up meanwhile gets ENOENT,
 * which is harmless.
 */
#ifndef CLOOP_FS_WIRE_H
#define CLOOP_FS_WIRE_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct hub;
struct wire;

int wire_new(struct hub *hub, const struct fuse_lowlevel_ops *ops, struct wire **ret,
	     struct error *err);
struct wire *wire_free(struct wire *w);

/*
 * Replays INIT when the area holds one, muted if it was answered. Errors: EPROTO when this binary would answer it in another
 * way than the mount was answered.
 */
int wire_replay_init(struct wire *w, struct error *err);

/*
 * Whether ops would answer the INIT of a running mount as it was answered, without any effect: EPROTO
 * when not.
 */
struct area_header;
int wire_check_init(const struct area_header *h, const struct fuse_lowlevel_ops *ops,
		    struct error *err);

/* Handles every request that an earlier hub left unanswered. */
int wire_replay_requests(struct wire *w, struct error *err);

/* Begins to read requests on the hub's loop; stops by itself when the mount is gone. */
int wire_start(struct wire *w, struct error *err);
void wire_stop(struct wire *w);

/* The request that is being handled right now: valid inside a lowlevel operation only. */
uint64_t wire_unique(const struct wire *w);
bool wire_replaying(const struct wire *w);

/* The raw bytes of that request (struct fuse_in_header first). */
const void *wire_request(const struct wire *w, uint32_t *ret_len);

/*
 * Answers the READ that is being handled with len bytes (at most AREA_MAX_WRITE) at an offset of
 * a file: the kernel moves them from the file's pages to the reader's, not through this process.
 * Returns 0 when it is answered, and req is gone then; or a negative errno, when nothing was
 * answered: the file is shorter, or on a file system that cannot do that, or there is no
 * descriptor left for a pipe.
 */
int wire_reply_file(struct wire *w, fuse_req_t req, int fd, size_t len, uint64_t off);

/* Wakes one saved poll handle. */
void wire_notify_poll(struct wire *w, uint64_t kh);

#endif
