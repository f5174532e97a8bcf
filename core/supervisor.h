/*
 * When which executor is probed: the schedule, without a clock, a probe or a store of its own.
 *
 * The caller asks for the next executor that is due, probes it, and says how that ended; times are
 * nanoseconds of a clock that only goes forward (CLOCK_BOOTTIME), random numbers come from a
 * function. What an executor's state becomes of a result is for core/health.h, and the row.
 *
 * A healthy node is probed every interval, one that failed n times in a row after base·2^(n-1); every
 * delay has its jitter, so that a fleet that was started at once does not stay in step. At most
 * max_concurrent_probes run at the same time; who waits for that goes in the order in which they were
 * due. A node that is probed already is not probed again before that ends.
 *
 * After a restart the schedule goes on where it was: a node whose last probe is known is due when it
 * would have been, one that was never probed at once.
 *
 * Source: the reference's Supervisor.ProbeOnce and SupervisorConfig.
 */
#ifndef CLOOP_CORE_SUPERVISOR_H
#define CLOOP_CORE_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/supervisor_config.h"

struct supervisor;

/* random: from [0,1), called with user for each delay. NULL when out of memory. */
struct supervisor *supervisor_new(const struct supervisor_config *config,
				  double (*random)(void *user), void *user);
struct supervisor *supervisor_free(struct supervisor *s);

/* Other settings from now on: nobody waits longer than the new delays would have them wait. */
void supervisor_configure(struct supervisor *s, const struct supervisor_config *config,
			  int64_t now_ns);
/* What is in force, normalised. */
const struct supervisor_config *supervisor_config(const struct supervisor *s);

/*
 * Watches an executor that had that many failures in a row. ago_ns: how long ago its last probe was;
 * negative: never, or nobody knows. One that is watched already keeps its place.
 */
int supervisor_watch(struct supervisor *s, int64_t serial, int64_t failures, int64_t ago_ns,
		     int64_t now_ns);

/* Not watched any more. A probe of it that runs keeps its place among those at once until it ends. */
void supervisor_forget(struct supervisor *s, int64_t serial);

bool supervisor_watches(const struct supervisor *s, int64_t serial);
size_t supervisor_count(const struct supervisor *s);

/*
 * Probes it before everybody else; one that is probed just now, once more after that, so that whoever
 * asks learns of a probe that began later. False when it is not watched.
 */
bool supervisor_hurry(struct supervisor *s, int64_t serial);

/* The next one to probe now, which counts as being probed from then on. False: nobody, or enough are. */
bool supervisor_next(struct supervisor *s, int64_t now_ns, int64_t *ret_serial);

/* Its probe has ended; failures in a row as they are now. */
void supervisor_done(struct supervisor *s, int64_t serial, int64_t failures, int64_t now_ns);

/* How long until somebody is due, 0 when somebody is; -1 while nobody can be: the end of a probe, or
 * another executor, has to come first. */
int64_t supervisor_wait_ns(const struct supervisor *s, int64_t now_ns);

#endif
