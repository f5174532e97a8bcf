/* What dispatch asks of the hub when sessions lose their executor (core/failover.h). */
#ifndef CLOOP_FS_FAILOVER_H
#define CLOOP_FS_FAILOVER_H

#include "core/dispatch.h"

struct hub;

/*
 * For dispatch_hooks.place: chooses among the fleet by the session's requirements, or what its spec
 * implies when it was not placed. An executor whose driver refuses the spec is passed over.
 */
int failover_place(struct hub *hub, const struct dispatch_placing *placing, struct executor **ret,
		   struct error *err);

/* For dispatch_hooks.moved and .attempted: the names that came and went. */
void failover_moved(struct hub *hub, const struct session *s, int64_t from, int64_t to);
void failover_attempted(struct hub *hub, const struct session *s);

/* Listens to the supervisor: sessions on an executor that was lost, and those that wait for one. */
void failover_attach(struct hub *hub);

#endif
