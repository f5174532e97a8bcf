/*
 * The scheduling state of an executor, as a pure function of what happened to it: no clock, no I/O.
 *
 *   ready → degraded → unreachable    by failed probes, back to ready by a successful one
 *   cordoned, draining                by an operator; probes never leave these, but keep counting
 *
 * Instants are whatever the caller counts in (the hub: nanoseconds of real time), 0 is unset.
 *
 * Source: the reference's Health, HealthPolicy, ObserveProbe, Cordon, Drain, Uncordon.
 */
#ifndef CLOOP_CORE_HEALTH_H
#define CLOOP_CORE_HEALTH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum node_state {
	NODE_READY = 0,
	NODE_DEGRADED, /* takes work, as a last resort */
	NODE_UNREACHABLE,
	NODE_CORDONED,
	NODE_DRAINING,
};

const char *node_state_name(enum node_state state);

/* Returns false, leaving *ret alone, for a word that is no state. */
bool node_state_lookup(const char *word, enum node_state *ret);

/* The state of a stored word; what is no state is ready, as a node without a record is. */
enum node_state node_state_parse(const char *word);

/* Whether new work may be placed on a node in this state: ready and degraded. */
bool node_state_schedulable(enum node_state state);

/* Whether an operator set it. */
bool node_state_admin_held(enum node_state state);

/* A failure is shown by its first line, 199 bytes and an ellipsis when that is above 200. */
#define HEALTH_FAILURE_BYTES_MAX 200
/* The longest reason with its NUL: an operator's note may be longer than a failure. */
#define HEALTH_REASON_MAX 512

struct health {
	enum node_state state;
	char reason[HEALTH_REASON_MAX]; /* one line; "" when there is nothing to say */
	int64_t consecutive_failures;   /* since the last success, also while held */
	int64_t last_seen;              /* last successful probe */
	int64_t last_probe;             /* last probe of any outcome */
	int64_t state_changed_at;
};

struct health_policy {
	int64_t degrade_after;     /* failures; at least 1 */
	int64_t unreachable_after; /* failures; at least degrade_after */
};

/* 1 and 3: with a probe every 30 s about 90 s until a node is given up. */
struct health_policy health_policy_default(void);

/* The policy with its thresholds clamped. */
struct health_policy health_policy_clamp(struct health_policy policy);

/* A change of state. */
struct health_transition {
	enum node_state from;
	enum node_state to;
	char reason[HEALTH_REASON_MAX];
	int64_t at;
};

/* Makes a record that was read usable: the state is one there is, the count is not negative. */
void health_normalize(struct health *h);

/*
 * Each folds one event into h and returns whether the state changed, filling *ret (may be NULL) if
 * so. failure is NULL for a successful probe. A blank reason of an operator gets a default one.
 */
bool health_observe_probe(struct health *h, const char *failure, int64_t at,
			  struct health_policy policy, struct health_transition *ret);
bool health_cordon(struct health *h, const char *reason, int64_t at, struct health_transition *ret);
bool health_drain(struct health *h, const char *reason, int64_t at, struct health_transition *ret);

/*
 * Returns a held node to the state its probes justify, which need not be ready. Nothing happens to
 * a node that is not held.
 */
bool health_uncordon(struct health *h, int64_t at, struct health_policy policy,
		     struct health_transition *ret);

/* "e1: ready -> unreachable (gone)". Caller frees; NULL when out of memory. */
char *health_transition_text(const char *executor_id, const struct health_transition *t);

/*
 * The reference's Health object with times as RFC 3339, for instants in nanoseconds. NULL when out
 * of memory.
 */
json_t *health_to_json(const char *executor_id, const struct health *h);

#endif
