/*
 * The keeper's answer in place of a hub: EIO, so that nothing that touches the mount hangs for
 * good.
 *
 * While no hub process exists the keeper owns the shared area (fallback_own()): then the requests
 * that dead hubs left unanswered are answered too, and descriptors that are closed are forgotten
 * there. While a hub exists that does not say READY, the area is that hub's: the keeper takes only
 * what is fresh from the device, and remembers the closed descriptors until it owns the area again.
 *
 * Never answered: FORGET, BATCH_FORGET, INTERRUPT (they have no reply), and INIT: a mount whose
 * INIT was answered with an error is dead, and what a hub answers is the hub's to know. Until INIT
 * was answered, nothing is read. RELEASE succeeds; so does the FLUSH of a descriptor that holds no
 * unfinished document, for there is nothing that could have been lost.
 */
#ifndef CLOOP_FS_FALLBACK_H
#define CLOOP_FS_FALLBACK_H

#include <stdbool.h>

#include "core/error.h"

/* Requests answered in one turn: who never stops asking does not keep signals waiting. */
#define FALLBACK_TURN 64

/* Descriptors that were closed while a hub owned the area; the area has no more than these. */
#define FALLBACK_RELEASED_MAX 65536

struct fallback;

/* Both descriptors stay the caller's. */
int fallback_new(int fuse_fd, int area_fd, struct fallback **ret, struct error *err);
struct fallback *fallback_free(struct fallback *f);

/* Attaches the area (no hub may exist) and answers what waits in it. Harmless when it has it. */
int fallback_own(struct fallback *f, struct error *err);

/* Gives the area up: before a hub starts. */
void fallback_yield(struct fallback *f);

/* Whether requests may be read: INIT was answered. */
bool fallback_may_serve(const struct fallback *f);

/*
 * Reads and answers what waits on the device, at most FALLBACK_TURN requests. Returns their number;
 * -ENODEV when the mount is gone.
 */
int fallback_serve(struct fallback *f, struct error *err);

#endif
