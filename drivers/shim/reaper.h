/*
 * Ends what a killed shim left behind: the launcher's part of "its processes die at once".
 *
 * With control groups the session's group is killed and removed. Without, the orphans have become
 * children of the launcher (it is a subreaper, and its only other children are shims), and all of
 * those are ended; the orphans of a shim of an earlier launcher are found by the process that the
 * `started` record names (each workload also dies with its shim by itself, workload.h).
 */
#ifndef CLOOP_DRIVERS_SHIM_REAPER_H
#define CLOOP_DRIVERS_SHIM_REAPER_H

#include <stdbool.h>
#include <stdint.h>

#include "drivers/shim/process.h"
#include "drivers/shim/shim.h"

/*
 * One round for one attempt of a session. Returns 1 when nothing is left of it, 0 when it has to be
 * tried again shortly, -EBUSY when a living shim holds the session's lock and the caller asked for
 * the check. spare says which children of the launcher are shims.
 */
int reaper_round(const struct shim_host *host, uint64_t serial, uint32_t attempt, bool check_lock,
		 const struct process_filter *spare);

#endif
