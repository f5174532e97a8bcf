/*
 * The fleet as candidates: what placement (core/placement.h) has to know of each registered executor,
 * gathered from its config, its driver, its health and what is in flight on it.
 *
 * Candidates are those that are registered: with an accepted config, of a kind that this build has,
 * and not about to be removed. In flight is what the hub itself has dispatched, so it is known.
 *
 * Everything is borrowed from the fleet, and valid until the fleet changes: for a decision that is
 * made at once, on the loop thread. 10,000 executors are a millisecond or two
 * (tests/bench/placement.c).
 */
#ifndef CLOOP_CORE_CANDIDATES_H
#define CLOOP_CORE_CANDIDATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/fleet.h"
#include "core/owner.h"
#include "core/placement.h"

struct candidates {
	struct candidate *list;      /* in order of id */
	struct executor **executors; /* whom list[i] stands for */
	size_t n;
};

/* Returns 0 or -ENOMEM. Clear *ret afterwards. */
int candidates_gather(struct fleet *fleet, struct candidates *ret);

void candidates_clear(struct candidates *c);
#define AUTO_CANDIDATES CLEANUP(candidates_clear)

/*
 * Select over the whole fleet. Errors and *ret_refusal (may be NULL) as placement_select(); what the
 * refusal borrows is valid until the fleet changes.
 */
int fleet_select(struct fleet *fleet, const struct requirements *req, bool host_allowed,
		 struct executor **ret, struct placement_refusal *ret_refusal, struct error *err);

/*
 * Everybody's verdict, for a dry run: {"candidates":[id,…],"rejections":[{"executor_id","constraint",
 * "detail"},…]}, those that satisfy with the best first, the others by id. NULL: out of memory.
 */
json_t *fleet_survey(struct fleet *fleet, const struct requirements *req, bool host_allowed);

/*
 * CheckSandboxSupport of one executor: what it is counts, not its health or load. Its labels,
 * programs and memory do count, as those of any candidate. Errors as placement_check_bound(), with
 * the executors that isolate named.
 */
int fleet_check_bound(struct fleet *fleet, const struct executor *bound,
		      const struct requirements *req, bool host_allowed, const char *project_path,
		      enum constraint *ret_constraint, struct error *err);

#endif
