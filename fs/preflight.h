/*
 * executors/<id>/preflight: looks at everything that a workload would need there, and keeps the report.
 *
 * `run` asks the driver (driver_ops.preflight); `smoke` then also starts a session through the same
 * path as a `start`, as the caller, and looks at its exit and its log. The write is held until the
 * report is committed, together with what it means for health: one that has a `fail` is a failed
 * probe, any other a good one. The smoke session is forgotten in that commit. A write that is replayed
 * after a hub's death looks again, and goes on with the session that the hub before had begun.
 *
 * The report is in the store, so it is there after a restart, until the executor is removed. Each
 * config that is accepted is looked at once without being asked, as fs/supervise.h says.
 */
#ifndef CLOOP_FS_PREFLIGHT_H
#define CLOOP_FS_PREFLIGHT_H

#include "fs/node.h"

int preflight_render(const struct view *v, struct buf *out);
int64_t preflight_changed(const struct view *v);
void preflight_command(struct change *c, const char *command);

/*
 * What a report means for health: the number of checks that failed, and in *ret_reason, which the caller
 * frees, the first of them; NULL when there is none.
 */
int preflight_judge(const char *report, char **ret_reason);

/* The hub and its drivers are ready: goes on with what was replayed before. */
void preflight_start(struct hub *hub);

/* A session changed; it may be a smoke. */
void preflight_session_changed(struct hub *hub, uint32_t serial);

#endif
