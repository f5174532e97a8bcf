/*
 * Whether workloads may run on the hub's own host without any boundary.
 *
 * The policy is a ratchet: a configuration can forbid, never allow again. Otherwise one project's
 * permissive configuration would loosen the hub for all. Loosening is a restart with a permissive
 * configuration.
 *
 * Source: the reference's ApplyHostExecutionPolicy, SetAllowHostExecution and
 * HostExecutionDeniedError.
 */
#ifndef CLOOP_CORE_POLICY_H
#define CLOOP_CORE_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* Zero is the default: allowed. Belongs to the loop; not a global. */
struct host_policy {
	bool forbidden;
};

bool host_policy_allows(const struct host_policy *policy);

/* Folds one configured value in: false forbids, true leaves everything as it is. */
void host_policy_apply(struct host_policy *policy, bool allowed);

/* The raw switch, for the start of a hub and for tests. Returns the previous value. */
bool host_policy_set(struct host_policy *policy, bool allowed);

/*
 * Fills err with EACCES, ERROR_HOST_EXECUTION_DENIED for a workload that was to run on executor_id:
 * the reason names executor, project (may be NULL or "") and the cause (NULL: the policy; or what
 * the executor lacks), the remedy the executors that isolate, or how to register one. Returns
 * -EACCES.
 */
int host_execution_deny(const char *executor_id, const char *project_path, const char *cause,
			char *const *alternatives, size_t n, struct error *err);

#endif
