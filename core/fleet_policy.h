/*
 * What the host policy (core/policy.h) means for the fleet: where it forbids, an executor that does
 * not isolate workloads from the hub's host takes no new work and no new one is registered. Those
 * that are registered stay, and what runs on them goes on.
 *
 * Placement has the policy as a constraint of its own (core/placement.h: host_allowed).
 *
 * Errors: EACCES, ERROR_HOST_EXECUTION_DENIED, with the executors that isolate named.
 *
 * Source: the reference's Registry.
 */
#ifndef CLOOP_CORE_FLEET_POLICY_H
#define CLOOP_CORE_FLEET_POLICY_H

#include <stdbool.h>

#include "core/error.h"
#include "core/fleet.h"

/* How it separates workloads from the host; undeclared without a driver. */
enum isolation executor_isolation(const struct executor *e);

/* Whether work may go to e. project_path may be NULL. */
int fleet_check_host(struct fleet *fleet, const struct executor *e, const char *project_path,
		     struct error *err);

/*
 * Whether an executor may get this config: a registered one keeps its kind while sessions run on it
 * (EBUSY), and one that would run workloads on the host without a boundary is not registered, nor
 * made of one that isolates. e is NULL when the executor is still to be made.
 */
int fleet_check_config(struct fleet *fleet, const char *id, const struct executor *e,
		       const struct executor_config *config, struct error *err);

#endif
