/*
 * Keeping the state directory in bounds: finished sessions are forgotten (core/retention.h), and the
 * space that is left is measured for the disk floor (core/disk_floor.h). Both as the settings say
 * (fs/settings.h), and both elsewhere than in the loop.
 *
 * A session that goes is announced like one that somebody removed; its folder is removed as after a
 * rmdir, and the next batch waits until most of the folders of the one before are gone.
 */
#ifndef CLOOP_FS_RETENTION_H
#define CLOOP_FS_RETENTION_H

#include "core/buf.h"
#include "core/error.h"

struct hub;
struct retention;

/*
 * sessions_fd: where sessions keep their folders; n_removals: how many of them are being removed.
 * Both are borrowed. Measures at once.
 */
int retention_new(struct hub *hub, int sessions_fd, const unsigned *n_removals, struct error *err);
struct retention *retention_free(struct retention *r);

/* Once a second. */
void retention_tick(struct hub *hub);

/* The settings have changed: looks at once. */
void retention_look(struct hub *hub);

/* A line for /status, when there is something to say. */
void retention_status(struct hub *hub, struct buf *out);

#endif
