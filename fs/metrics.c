#include "fs/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/fleet.h"
#include "core/owner.h"
#include "core/store/store.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/follow.h"
#include "fs/supervise.h"

/* The last is for all others. */
static const int errnos[METRICS_ERRNOS - 1] = {
	EINVAL, ENOENT, EEXIST, ENXIO, EOPNOTSUPP, EACCES, EPERM, ENOKEY,  EHOSTUNREACH,
	EBUSY,  ENODEV, ESTALE, EFBIG, E2BIG,      EDQUOT, EIO,   ENOSPC,
};

void metrics_answered(struct hub *hub, const struct change *c, int code)
{
	const struct node_file *file = c->op == CHANGE_WRITE ? node_file(c->node) : NULL;
	size_t i = 0;

	if (!file || file->type != FILE_TRANSACTION || strcmp(file->name, "start") != 0)
		return;
	if (code == 0) {
		hub->metrics.starts++;
		return;
	}
	while (i < ARRAY_SIZE(errnos) && errnos[i] != code)
		i++;
	hub->metrics.refused[i]++;
}

void metrics_ended(struct hub *hub, enum session_state state)
{
	if ((size_t)state < ARRAY_SIZE(hub->metrics.ended))
		hub->metrics.ended[state]++;
}

void metrics_failover(struct hub *hub)
{
	hub->metrics.failovers++;
}

/* --- text ----------------------------------------------------------------------------------- */

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void line(struct buf *out, const char *name, const char *label, const char *value, uint64_t n)
{
	buf_printf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, n);
}

struct live {
	uint64_t pending, running;
};

static bool count_live(void *user, const struct session *s)
{
	struct live *live = user;

	if (s->state == SESSION_PENDING)
		live->pending++;
	else
		live->running++;
	return true;
}

static void render_sessions(struct hub *hub, struct buf *out)
{
	struct live live = {0};

	dispatch_each_live(hub->dispatch, 0, count_live, &live);
	head(out, "cloop_sessions", "gauge", "Sessions in flight.");
	line(out, "cloop_sessions", "state", "pending", live.pending);
	line(out, "cloop_sessions", "state", "running", live.running);
	head(out, "cloop_sessions_ended_total", "counter", "Sessions that ended, by their last state.");
	for (enum session_state s = SESSION_EXITED; s <= SESSION_KILLED; s++)
		line(out, "cloop_sessions_ended_total", "state", session_state_name(s), hub->metrics.ended[s]);
	head(out, "cloop_starts_total", "counter", "Starts that were acknowledged.");
	buf_printf(out, "cloop_starts_total %" PRIu64 "\n", hub->metrics.starts);
	head(out, "cloop_start_failures_total", "counter", "Starts that were refused.");
	for (size_t i = 0; i < METRICS_ERRNOS; i++)
		line(out, "cloop_start_failures_total", "errno",
		     i < ARRAY_SIZE(errnos) ? error_name(errnos[i]) : "other", hub->metrics.refused[i]);
	head(out, "cloop_failovers_total", "counter", "Sessions that were moved to another executor.");
	buf_printf(out, "cloop_failovers_total %" PRIu64 "\n", hub->metrics.failovers);
}

static void render_fleet(struct hub *hub, struct buf *out)
{
	const struct supervise_counts counts = supervise_counts(hub);
	uint64_t states[NODE_DRAINING + 1] = {0}, unconfigured = 0;
	const struct executor *e;

	for (size_t i = 0; (e = fleet_at(hub->fleet, i)); i++) {
		if (e->record.config[0])
			states[node_state_parse(e->record.health.state)]++;
		else
			unconfigured++;
	}
	head(out, "cloop_executors", "gauge", "Executors by state.");
	line(out, "cloop_executors", "state", STATE_UNCONFIGURED, unconfigured);
	for (enum node_state s = NODE_READY; s <= NODE_DRAINING; s++)
		line(out, "cloop_executors", "state", node_state_name(s), states[s]);
	head(out, "cloop_executor_inflight", "gauge", "Sessions in flight on each executor.");
	for (size_t i = 0; (e = fleet_at(hub->fleet, i)); i++)
		line(out, "cloop_executor_inflight", "executor", e->record.name, e->inflight);
	head(out, "cloop_probes_total", "counter", "Probes of executors.");
	line(out, "cloop_probes_total", "result", "ok", counts.probes_ok);
	line(out, "cloop_probes_total", "result", "failed", counts.probes_failed);
	head(out, "cloop_executor_transitions_total", "counter", "Changes of state, by the new one.");
	for (enum node_state s = NODE_READY; s <= NODE_DRAINING; s++)
		line(out, "cloop_executor_transitions_total", "to", node_state_name(s),
		     counts.transitions[s]);
}

static void render_store(struct hub *hub, struct buf *out)
{
	static const int64_t bounds_ms[STORE_COMMIT_BUCKETS] = STORE_COMMIT_BOUNDS_MS;
	struct store_stats stats;
	uint64_t sum = 0;

	store_get_stats(hub->store, &stats);
	head(out, "cloop_store_commit_seconds", "histogram",
	     "How long a commit took until it was on the disk.");
	for (size_t i = 0; i < STORE_COMMIT_BUCKETS; i++) {
		sum += stats.commit_buckets[i];
		buf_printf(out,
			   "cloop_store_commit_seconds_bucket{le=\"%" PRId64 ".%03" PRId64
			   "\"} %" PRIu64 "\n",
			   bounds_ms[i] / 1000, bounds_ms[i] % 1000, sum);
	}
	buf_printf(out, "cloop_store_commit_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", stats.commits);
	buf_printf(out, "cloop_store_commit_seconds_sum %.6f\n",
		   (double)stats.commit_ns / (double)CLOCK_NS_PER_S);
	buf_printf(out, "cloop_store_commit_seconds_count %" PRIu64 "\n", stats.commits);
	head(out, "cloop_store_waiting", "gauge", "Changes that wait for a commit.");
	buf_printf(out, "cloop_store_waiting %" PRIu64 "\n", stats.waiting);
}

int metrics_render(const struct view *v, struct buf *out)
{
	struct hub *hub = v->hub;

	render_sessions(hub, out);
	render_fleet(hub, out);
	render_store(hub, out);
	head(out, "cloop_blocked_readers", "gauge", "Reads and polls that wait, of streams and conditions.");
	buf_printf(out, "cloop_blocked_readers %u\n", follow_count(hub));
	head(out, "cloop_held_changes", "gauge", "Requests to change something that wait for their end.");
	buf_printf(out, "cloop_held_changes %u\n", hub->n_changes);
	return out->failed;
}
