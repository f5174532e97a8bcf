/*
 * Drives the supervisor (core/supervisor.h) from the hub's loop: asks drivers, folds what they say
 * into the executors' rows, and tells whoever wants to know.
 *
 * An executor is probed from when it has an accepted config and a driver that can. What a probe says is
 * committed; memory, `health`, watchers and listeners follow the commit. A probe that does not come
 * back is a failed one after its timeout and SUPERVISE_GRACE_MS; until it does, each further one of
 * that executor fails at once, so that they do not pile up behind a hanging program.
 *
 * A config that was accepted is looked at once: the first probe after it that nobody asked for is the
 * driver's preflight instead, in its turn and within the same limits. Its report is kept with what it
 * means for health (fs/preflight.h). One that came to no report, or a hub that died before the commit,
 * has looked at nothing: it is done again.
 *
 * Everything here runs on the loop thread.
 */
#ifndef CLOOP_FS_SUPERVISE_H
#define CLOOP_FS_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/fleet.h"
#include "core/supervisor_config.h"

struct hub;
struct supervise;

/* For a driver to notice a timeout itself, and to say it in a better sentence. */
#define SUPERVISE_GRACE_MS 1000

#define SUPERVISE_LISTENERS_MAX 8

/* Told after the commit, in the order in which they asked. */
struct supervisor_events {
	/* It cannot be reached any more: what runs on it is lost from sight. */
	void (*unreachable)(void *user, uint32_t executor_serial);
	/* It takes work again, or for the first time. */
	void (*fit)(void *user, uint32_t executor_serial);
};

/* Watches the fleet, which is loaded. Nothing is probed before supervise_start(). */
int supervise_new(struct hub *hub, struct supervise **ret, struct error *err);
/* After the loop has closed its handles. */
struct supervise *supervise_free(struct supervise *s);

void supervise_start(struct hub *hub);

/* Whether the drivers are ready, or were waited for long enough. */
bool supervise_started(const struct hub *hub);

/* Nothing is probed, committed or told any more. */
void supervise_stop(struct hub *hub);

/* Other settings from now on; can be called at any time. */
void supervise_configure(struct hub *hub, const struct supervisor_config *config);
const struct supervisor_config *supervise_config(const struct hub *hub);

/* Before the loop runs. events and user are borrowed. */
void supervise_listen(struct hub *hub, const struct supervisor_events *events, void *user);

typedef void supervise_done_fn(void *user, const struct error *err);

/*
 * Probes an executor out of turn. done() follows, with NULL when it is fit, after the result was
 * committed: never from within the call, and not when the hub ends before. Those who ask while it is
 * probed share the next probe. Errors: EHOSTUNREACH for one that is not probed at all.
 */
int supervise_probe(struct hub *hub, const struct executor *e, supervise_done_fn *done, void *user,
		    struct error *err);

/* The request of a probe, as a driver is asked. Borrows from e. */
struct executor_probe supervise_request(const struct hub *hub, const struct executor *e);

/* The loop's part of a FLEET_PROBED that somebody committed; as fleet_changed(), and tells watchers. */
void supervise_probed(struct hub *hub, struct fleet_change *change);

/* Since this hub began. */
struct supervise_counts {
	uint64_t probes_ok, probes_failed;
	uint64_t transitions[NODE_DRAINING + 1]; /* by the state that was entered */
};
struct supervise_counts supervise_counts(const struct hub *hub);

#endif
