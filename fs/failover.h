/* What dispatch asks of the hub when sessions lose their executor (core/failover.h). */
#ifndef CLOOP_FS_FAILOVER_H
#define CLOOP_FS_FAILOVER_H

#include "core/dispatch.h"

struct hub;

/*
 * Hooks of dispatch whose user begins with the hub. place: chooses among the fleet by the session's
 * requirements, or what its spec implies when it was not placed; an executor whose driver refuses the
 * spec is passed over. moved, attempted: the names that came and went.
 */
int failover_place(void *user, const struct dispatch_placing *placing, struct executor **ret,
		   struct error *err);
void failover_moved(void *user, const struct session *s, int64_t from, int64_t to);
void failover_attempted(void *user, const struct session *s);

/* A session changed, and with it the attempt that it is at. */
void failover_changed(struct hub *hub, const struct session *s);

/* Listens to the supervisor: sessions on an executor that was lost, and those that wait for one. */
void failover_attach(struct hub *hub);

#endif
