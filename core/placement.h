/*
 * Which executor runs a workload. Pure: the caller gathers the candidates from the registry, the
 * health store and what devices reported.
 *
 * Every candidate is held against the requirements in one fixed order, and the first one that fails
 * is its constraint. The order is that of enum constraint below. If nobody is left, the headline is
 * the constraint that removed most candidates, the alphabetically first among equals.
 *
 * Among those left: ready before degraded, more free slots first (unknown load or no maximum counts
 * as plenty), isolated before not isolated, then the id.
 *
 * Source: the reference's Candidate, Select, CheckSandboxSupport, Constraint, PlacementError.
 */
#ifndef CLOOP_CORE_PLACEMENT_H
#define CLOOP_CORE_PLACEMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/capabilities.h"
#include "core/error.h"
#include "core/health.h"

enum constraint {
	CONSTRAINT_NONE = 0,
	CONSTRAINT_NO_CANDIDATES,
	/* From here on in the order of blame. */
	CONSTRAINT_EXECUTOR_ID,
	CONSTRAINT_HEALTH,
	CONSTRAINT_HOST_POLICY,
	CONSTRAINT_ISOLATION,
	CONSTRAINT_VIRTUALIZATION,
	CONSTRAINT_LABELS,
	CONSTRAINT_PLATFORM,
	CONSTRAINT_ARCH,
	CONSTRAINT_HARNESS,
	CONSTRAINT_CONTAINER_RUNTIME,
	CONSTRAINT_NETWORK_EGRESS,
	CONSTRAINT_RESOURCE_LIMITS,
	CONSTRAINT_IMAGE_OVERRIDE,
	CONSTRAINT_SANDBOX_BUILD,
	CONSTRAINT_SANDBOX_MOUNTS,
	CONSTRAINT_HOST_MOUNTS,
	CONSTRAINT_WORKSPACE,
	CONSTRAINT_WRITE_BACK,
	CONSTRAINT_SECRET_FILES,
	CONSTRAINT_REVOCATION,
	CONSTRAINT_STREAM,
	CONSTRAINT_SIGNAL,
	CONSTRAINT_MEMORY,
	CONSTRAINT_CAPACITY,
	CONSTRAINTS, /* how many there are */
};

/* "health", "host_execution_policy" and so on; "" for CONSTRAINT_NONE. */
const char *constraint_name(enum constraint constraint);

/* One executor offered. Everything borrowed. */
struct candidate {
	const char *executor_id;
	struct capabilities capabilities;
	bool can_revoke; /* the driver implements revocation and could honour one now */
	enum node_state state;
	const struct spec_label *labels;
	size_t n_labels;
	char *const *harnesses; /* none known: detection failed, which rejects nothing */
	size_t n_harnesses;
	char *const *container_runtimes;
	size_t n_container_runtimes;
	int64_t memory_mb; /* 0: unknown, never too small */
	int64_t in_flight;
	bool in_flight_known;
};

#define PLACEMENT_DETAIL_MAX 192

struct placement_rejection {
	const char *executor_id; /* borrowed from the candidate */
	enum constraint constraint;
	enum node_state state;
	char detail[PLACEMENT_DETAIL_MAX];
};

/* Why nobody was chosen. */
struct placement_refusal {
	enum constraint constraint;             /* the headline */
	struct placement_rejection *rejections; /* by executor id */
	size_t n_rejections;
	size_t considered;
};

void placement_refusal_clear(struct placement_refusal *refusal);
#define AUTO_PLACEMENT_REFUSAL CLEANUP(placement_refusal_clear)

/* {"constraint","considered","rejections":[{"executor_id","constraint","detail"}]}. */
json_t *placement_refusal_to_json(const struct placement_refusal *refusal);

/*
 * The first requirement that the candidate fails, CONSTRAINT_NONE when it satisfies all. detail
 * (may be NULL) gets a sentence for people. host_allowed is the policy on running workloads beside
 * the hub; it is compared with a declared ISOLATION_NONE only, as in the reference: the registry
 * is where undeclared isolation is refused.
 */
enum constraint placement_reject(const struct candidate *c, const struct requirements *req,
				 bool host_allowed, char detail[PLACEMENT_DETAIL_MAX]);

/* Whether a is the better choice of two that both satisfy. */
bool placement_is_better(const struct candidate *a, const struct candidate *b);

/*
 * Chooses among n candidates. Returns 0 and the index, or fills *ret_refusal (may be NULL; the
 * caller clears it) and err with ERROR_NO_PLACEMENT:
 *   EHOSTUNREACH  health, with a node that cannot be reached
 *   EBUSY         health, where all are cordoned, draining or merely degraded; capacity
 *   EACCES        host execution policy
 *   ENODEV        everything else
 */
int placement_select(const struct candidate *candidates, size_t n, const struct requirements *req,
		     bool host_allowed, size_t *ret, struct placement_refusal *ret_refusal,
		     struct error *err);

/*
 * Whether the executor that a project is bound to can honour req: the same rules, for one
 * candidate. Only what the executor itself is counts, not its health or load: a caller passes a
 * candidate with just executor_id, capabilities and can_revoke.
 *
 * A gap that means "this cannot run beside the hub" (image, build, mounts, egress, limits or
 * virtualization, on an executor that does not isolate) is EACCES, ERROR_HOST_EXECUTION_DENIED with
 * the isolated executors (alternatives, borrowed) named. Any other gap is as in placement_select().
 * *ret_constraint (may be NULL) is the gap.
 */
int placement_check_bound(const struct candidate *bound, const struct requirements *req,
			  bool host_allowed, const char *project_path, char *const *alternatives,
			  size_t n_alternatives, enum constraint *ret_constraint,
			  struct error *err);

#endif
