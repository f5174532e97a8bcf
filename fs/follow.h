/*
 * Waiting: blocked reads and polls of stream and wait files.
 *
 * A reader that has to wait costs a list entry, not a thread. Whoever changes an object calls
 * follow_wake() for it; every waiter of that object is then tried again. While a session has
 * waiters on its output, its log is watched with inotify.
 */
#ifndef CLOOP_FS_FOLLOW_H
#define CLOOP_FS_FOLLOW_H

#include <fuse_lowlevel.h>
#include <stdint.h>

#include "core/error.h"
#include "fs/node.h"

struct area_handle;
struct follow;
struct hub;

int follow_new(struct hub *hub, struct follow **ret, struct error *err);
struct follow *follow_free(struct follow *f);

/*
 * Answers a READ now, or when the object has changed enough. flags are the open file's as they are
 * now (O_NONBLOCK). Replies.
 */
void follow_read(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h,
		 size_t len, uint64_t off, int flags);

/* Answers a POLL, remembering the handle that is to be woken. Replies. */
void follow_poll(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h);

/* The descriptor is closed. */
void follow_release(struct hub *hub, struct area_handle *h);

/*
 * The object has changed: tries its waiters again, as many as a turn of the loop allows, the others
 * in the next turns.
 */
void follow_wake(struct hub *hub, enum node_kind live_kind, uint32_t serial);

/* Once a second or so: tries those whose logs cannot be watched. */
void follow_tick(struct hub *hub);

/* Wakes every poll that an earlier hub remembered: which events were missed cannot be known. */
void follow_wake_saved(struct hub *hub);

/* How many reads wait. */
unsigned follow_count(const struct hub *hub);

/* Ends every waiter: blocked reads get end of file. */
void follow_stop(struct hub *hub);

#endif
