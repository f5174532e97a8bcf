/*
 * The sweep: folders of sessions that no row is known of (core/orphan.h). After the start of a hub, and
 * every SWEEP_REST_S seconds, all folders are held against the rows, one shard after the other: names are
 * read, and folders removed, on libuv's pool; rows are looked up in the loop. What somebody still runs
 * without a row is ended after the grace, and its folder removed by a later sweep. Nothing that cannot be
 * read for certain is touched, and no failure is more than a line in the log.
 */
#ifndef CLOOP_FS_SWEEP_H
#define CLOOP_FS_SWEEP_H

#include "core/error.h"

struct driver;
struct hub;
struct sweep;

/* From one sweep to the next. */
#define SWEEP_REST_S 900

/* driver: whose supervisors hold the folders; borrowed, as is sessions_fd. */
int sweep_new(struct hub *hub, int sessions_fd, struct driver *driver, struct sweep **ret,
	      struct error *err);

/* After the loop has ended. */
struct sweep *sweep_free(struct sweep *s);

/* Once a second. */
void sweep_tick(struct sweep *s);

#endif
