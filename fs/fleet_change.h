/* Requests that change the fleet, for the tables that have such files. */
#ifndef CLOOP_FS_FLEET_CHANGE_H
#define CLOOP_FS_FLEET_CHANGE_H

#include "core/fleet.h"

struct change;
struct hub;

/*
 * Attaches a change of the fleet to a request, to be completed by the caller. NULL: out of memory, and
 * the request was refused.
 */
struct fleet_change *fleet_change_begin(struct change *c, enum fleet_change_kind kind,
					      int64_t serial, const char *name);

/* Commits it, and ends the request. */
void fleet_change_commit(struct change *c);

/* After a commit: follows it in memory, and tells those who watch. */
void fleet_change_done(struct hub *hub, struct fleet_change *rc);

#endif
