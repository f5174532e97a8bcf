/*
 * /cloop/metrics: numbers for Prometheus, in its text format.
 *
 * Counters are of this hub process and begin at 0 with it, as Prometheus allows; gauges are computed
 * when somebody looks. Labels are closed sets: states, results, names of errnos. The one exception is
 * the id of an executor, of which there are as many as operators make; no session has a label.
 *
 * Everything here runs on the loop thread.
 */
#ifndef CLOOP_FS_METRICS_H
#define CLOOP_FS_METRICS_H

#include <stdint.h>

#include "core/session.h"
#include "fs/node.h"

struct change;
struct hub;

/* The errnos that a start is refused with (design: errors), and "other". */
#define METRICS_ERRNOS 18

struct metrics {
	uint64_t starts;
	uint64_t refused[METRICS_ERRNOS];
	uint64_t ended[SESSION_KILLED + 1]; /* by the state that it ended in */
	uint64_t failovers;
};

int metrics_render(const struct view *v, struct buf *out);

/* A change was answered: with 0, or refused with that errno. Starts are counted. */
void metrics_answered(struct hub *hub, const struct change *c, int code);

/* A session came to its end. */
void metrics_ended(struct hub *hub, enum session_state state);

/* A session was moved to another executor. */
void metrics_failover(struct hub *hub);

#endif
