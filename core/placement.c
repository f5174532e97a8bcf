#include "core/placement.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/label.h"
#include "core/owner.h"
#include "core/policy.h"

static const char *const names[CONSTRAINTS] = {
	[CONSTRAINT_NONE] = "",
	[CONSTRAINT_NO_CANDIDATES] = "no_candidates",
	[CONSTRAINT_EXECUTOR_ID] = "executor_id",
	[CONSTRAINT_HEALTH] = "health",
	[CONSTRAINT_HOST_POLICY] = "host_execution_policy",
	[CONSTRAINT_ISOLATION] = "isolation",
	[CONSTRAINT_VIRTUALIZATION] = "virtualization",
	[CONSTRAINT_LABELS] = "labels",
	[CONSTRAINT_PLATFORM] = "platform",
	[CONSTRAINT_ARCH] = "arch",
	[CONSTRAINT_HARNESS] = "harness",
	[CONSTRAINT_CONTAINER_RUNTIME] = "container_runtime",
	[CONSTRAINT_NETWORK_EGRESS] = "network_egress",
	[CONSTRAINT_RESOURCE_LIMITS] = "resource_limits",
	[CONSTRAINT_IMAGE_OVERRIDE] = "image_override",
	[CONSTRAINT_SANDBOX_BUILD] = "sandbox_build",
	[CONSTRAINT_SANDBOX_MOUNTS] = "sandbox_mounts",
	[CONSTRAINT_HOST_MOUNTS] = "host_mounts",
	[CONSTRAINT_WORKSPACE] = "workspace",
	[CONSTRAINT_WRITE_BACK] = "write_back",
	[CONSTRAINT_SECRET_FILES] = "secret_files",
	[CONSTRAINT_REVOCATION] = "revocation",
	[CONSTRAINT_STREAM] = "stream",
	[CONSTRAINT_SIGNAL] = "signal",
	[CONSTRAINT_MEMORY] = "memory",
	[CONSTRAINT_CAPACITY] = "capacity",
};

const char *constraint_name(enum constraint constraint)
{
	return names[(size_t)constraint < CONSTRAINTS ? constraint : CONSTRAINT_NONE];
}

static enum constraint reject(enum constraint constraint, char *detail, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static enum constraint reject(enum constraint constraint, char *detail, const char *fmt, ...)
{
	va_list ap;

	if (detail) {
		va_start(ap, fmt);
		int n = vsnprintf(detail, PLACEMENT_DETAIL_MAX, fmt, ap);
		va_end(ap);
		if (n < 0)
			detail[0] = '\0';
		else if (n >= PLACEMENT_DETAIL_MAX)
			text_ellipsis(detail, PLACEMENT_DETAIL_MAX);
		text_one_line(detail);
	}
	return constraint;
}

static bool given(const char *s)
{
	return s && s[0];
}

static bool same_name(const char *a, const char *b)
{
	return text_equal_fold((struct text_view){a, strlen(a)}, (struct text_view){b, strlen(b)});
}

static bool list_has(char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (same_name(list[i], name))
			return true;
	return false;
}

/* What the node is and where it stands. */
static enum constraint reject_node(const struct candidate *c, const struct requirements *req,
				   bool host_allowed, char *detail)
{
	const struct capabilities *cap = &c->capabilities;

	if (given(req->executor_id) && strcmp(req->executor_id, c->executor_id) != 0)
		return reject(CONSTRAINT_EXECUTOR_ID, detail, "the workload is pinned to %s",
			      req->executor_id);
	if (!node_state_schedulable(c->state))
		return reject(CONSTRAINT_HEALTH, detail, "the executor is %s",
			      node_state_name(c->state));
	if (c->state == NODE_DEGRADED && req->forbid_degraded)
		return reject(CONSTRAINT_HEALTH, detail,
			      "the executor is degraded, which the workload forbids");
	if (!host_allowed && cap->isolation == ISOLATION_NONE)
		return reject(CONSTRAINT_HOST_POLICY, detail,
			      "the executor does not isolate and host execution is denied by "
			      "policy");
	if (req->require_isolation && cap->isolation == ISOLATION_NONE)
		return reject(CONSTRAINT_ISOLATION, detail,
			      "the executor shares the hub's host and the workload must not");
	if (req->allowed_isolations != 0 && !(req->allowed_isolations & 1U << cap->isolation))
		return reject(CONSTRAINT_ISOLATION, detail,
			      "isolation \"%s\" is not one that the workload allows",
			      isolation_name(cap->isolation));
	if (req->require_virtualization && !cap->virtualized)
		return reject(CONSTRAINT_VIRTUALIZATION, detail,
			      "workloads do not run behind a hypervisor");
	return CONSTRAINT_NONE;
}

static enum constraint reject_selection(const struct candidate *c, const struct requirements *req,
					char *detail)
{
	const struct capabilities *cap = &c->capabilities;

	for (size_t i = 0; i < req->n_labels; i++) {
		const struct spec_label *want = &req->labels[i];
		const char *have = labels_get(c->labels, c->n_labels, want->key);

		if (!have)
			return reject(CONSTRAINT_LABELS, detail, "has no label %s", want->key);
		if (strcmp(have, want->value) != 0)
			return reject(CONSTRAINT_LABELS, detail, "label %s is %s, not %s",
				      want->key, have, want->value);
	}
	if (given(req->platform) && given(cap->platform) &&
	    !same_name(req->platform, cap->platform))
		return reject(CONSTRAINT_PLATFORM, detail, "platform is %s, not %s", cap->platform,
			      req->platform);
	if (given(req->arch) && given(cap->arch) && !same_name(req->arch, cap->arch))
		return reject(CONSTRAINT_ARCH, detail, "architecture is %s, not %s", cap->arch,
			      req->arch);
	for (size_t i = 0; i < req->n_harnesses && c->n_harnesses > 0; i++)
		if (!list_has(c->harnesses, c->n_harnesses, req->harnesses[i]))
			return reject(CONSTRAINT_HARNESS, detail, "does not have %s",
				      req->harnesses[i]);
	if (req->require_container_runtime && c->n_container_runtimes == 0)
		return reject(CONSTRAINT_CONTAINER_RUNTIME, detail,
			      "cannot drive a container runtime");
	return CONSTRAINT_NONE;
}

/* One requirement that is a flag against one capability that is a flag. */
struct flag_rule {
	size_t required;  /* offset in struct requirements */
	size_t supported; /* offset in struct candidate */
	enum constraint constraint;
	const char *detail;
};

#define RULE(req, cap, constraint, detail)                                                         \
	{                                                                                          \
		offsetof(struct requirements, req), offsetof(struct candidate, cap), constraint,   \
			detail                                                                     \
	}

static const struct flag_rule flag_rules[] = {
	RULE(require_network_egress, capabilities.network_egress, CONSTRAINT_NETWORK_EGRESS,
	     "workloads cannot reach the network"),
	RULE(require_resource_limits, capabilities.supports_resource_limits,
	     CONSTRAINT_RESOURCE_LIMITS, "does not enforce resource limits"),
	RULE(require_image_override, capabilities.supports_image_override,
	     CONSTRAINT_IMAGE_OVERRIDE, "cannot run an image of the workload's choice"),
	RULE(require_sandbox_build, capabilities.supports_sandbox_build, CONSTRAINT_SANDBOX_BUILD,
	     "cannot bake setup commands into an image"),
	RULE(require_sandbox_mounts, capabilities.supports_sandbox_mounts,
	     CONSTRAINT_SANDBOX_MOUNTS, "does not honour mounts of the workspace"),
	RULE(require_host_mounts, capabilities.supports_host_mounts, CONSTRAINT_HOST_MOUNTS,
	     "cannot bind a path of the hub's host"),
	RULE(require_workspace_provisioning, capabilities.supports_workspace_provisioning,
	     CONSTRAINT_WORKSPACE, "cannot fetch a source tree"),
	RULE(require_host_filesystem_workspace, capabilities.shares_host_filesystem,
	     CONSTRAINT_WORKSPACE, "does not share the hub's file system, where the tree is"),
	RULE(require_write_back, capabilities.supports_write_back, CONSTRAINT_WRITE_BACK,
	     "cannot return the files that the workload changes"),
	RULE(require_secret_files, capabilities.supports_secret_files, CONSTRAINT_SECRET_FILES,
	     "does not deliver credential files"),
	RULE(require_revocation, can_revoke, CONSTRAINT_REVOCATION,
	     "cannot take a credential back from a running workload"),
	RULE(require_stream, capabilities.supports_stream, CONSTRAINT_STREAM, "has no live output"),
	RULE(require_signal, capabilities.supports_signal, CONSTRAINT_SIGNAL,
	     "cannot signal a workload"),
};

static bool flag_at(const void *base, size_t offset)
{
	return *(const bool *)((const char *)base + offset);
}

static enum constraint reject_load(const struct candidate *c, const struct requirements *req,
				   char *detail)
{
	int64_t max = c->capabilities.max_concurrent;

	if (req->min_memory_mb > 0 && c->memory_mb > 0 && c->memory_mb < req->min_memory_mb)
		return reject(CONSTRAINT_MEMORY, detail,
			      "has %" PRId64 " MB of memory, not %" PRId64, c->memory_mb,
			      req->min_memory_mb);
	if (!req->ignore_capacity && max > 0 && c->in_flight_known && c->in_flight >= max)
		return reject(CONSTRAINT_CAPACITY, detail, "runs %" PRId64 " of at most %" PRId64,
			      c->in_flight, max);
	return CONSTRAINT_NONE;
}

enum constraint placement_reject(const struct candidate *c, const struct requirements *req,
				 bool host_allowed, char detail[PLACEMENT_DETAIL_MAX])
{
	enum constraint constraint = reject_node(c, req, host_allowed, detail);

	if (constraint != CONSTRAINT_NONE)
		return constraint;
	constraint = reject_selection(c, req, detail);
	if (constraint != CONSTRAINT_NONE)
		return constraint;
	for (size_t i = 0; i < ARRAY_SIZE(flag_rules); i++) {
		const struct flag_rule *rule = &flag_rules[i];

		if (flag_at(req, rule->required) && !flag_at(c, rule->supported))
			return reject(rule->constraint, detail, "%s", rule->detail);
	}
	return reject_load(c, req, detail);
}

static int64_t free_slots(const struct candidate *c)
{
	if (c->capabilities.max_concurrent <= 0 || !c->in_flight_known)
		return INT64_MAX;
	return c->capabilities.max_concurrent - c->in_flight;
}

bool placement_is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->state != b->state)
		return a->state == NODE_READY;
	if (free_slots(a) != free_slots(b))
		return free_slots(a) > free_slots(b);

	bool a_isolated = a->capabilities.isolation != ISOLATION_NONE;
	bool b_isolated = b->capabilities.isolation != ISOLATION_NONE;
	if (a_isolated != b_isolated)
		return a_isolated;
	return strcmp(a->executor_id, b->executor_id) < 0;
}

static int compare_rejections(const void *a, const void *b)
{
	const struct placement_rejection *x = a, *y = b;

	return strcmp(x->executor_id, y->executor_id);
}

static enum constraint headline(const struct placement_refusal *refusal)
{
	size_t count[CONSTRAINTS] = {0};
	enum constraint best = CONSTRAINT_NONE;

	if (refusal->n_rejections == 0)
		return CONSTRAINT_NO_CANDIDATES;
	for (size_t i = 0; i < refusal->n_rejections; i++)
		count[refusal->rejections[i].constraint]++;
	for (unsigned i = CONSTRAINT_NONE + 1; i < CONSTRAINTS; i++)
		if (count[i] > count[best] ||
		    (count[i] > 0 && count[i] == count[best] && strcmp(names[i], names[best]) < 0))
			best = (enum constraint)i;
	return best;
}

static int refusal_errno(const struct placement_refusal *refusal)
{
	if (refusal->constraint == CONSTRAINT_CAPACITY)
		return EBUSY;
	if (refusal->constraint == CONSTRAINT_HOST_POLICY)
		return EACCES;
	if (refusal->constraint != CONSTRAINT_HEALTH)
		return ENODEV;
	for (size_t i = 0; i < refusal->n_rejections; i++)
		if (refusal->rejections[i].constraint == CONSTRAINT_HEALTH &&
		    refusal->rejections[i].state == NODE_UNREACHABLE)
			return EHOSTUNREACH;
	return EBUSY;
}

/* What an operator can do about a headline. */
static const char *remedy(enum constraint constraint)
{
	switch (constraint) {
	case CONSTRAINT_NO_CANDIDATES:
		return "register an executor: mkdir /cloop/executors/<id> and write its config";
	case CONSTRAINT_HEALTH:
		return "look at executors/*/state and health; echo uncordon > "
		       "executors/<id>/state returns a held one";
	case CONSTRAINT_HOST_POLICY:
		return "register an executor that isolates, or set executors.allow_host_process to "
		       "true in hub.json and restart";
	case CONSTRAINT_CAPACITY:
		return "wait for running sessions to end, or raise max_concurrent in the config";
	case CONSTRAINT_EXECUTOR_ID:
		return "correct executor_id; ls /cloop/executors lists them";
	default:
		return "cat executors/*/capabilities shows what each can do";
	}
}

static int refuse(const struct placement_refusal *refusal, struct error *err)
{
	const char *name = constraint_name(refusal->constraint);
	int code = refusal_errno(refusal);
	int r;

	if (refusal->n_rejections == 0)
		r = error_set_kind(err, code, ERROR_NO_PLACEMENT, "there is no executor to choose");
	else
		r = error_set_kind(err, code, ERROR_NO_PLACEMENT,
				   "none of %zu executors can take the workload (%s): %s %s",
				   refusal->considered, name, refusal->rejections[0].executor_id,
				   refusal->rejections[0].detail);
	error_field(err, "%s", name);
	error_remedy(err, "%s", remedy(refusal->constraint));
	return r;
}

/* Why each of them is rejected; nobody is chosen. */
static int reject_all(const struct candidate *candidates, size_t n, const struct requirements *req,
		      bool host_allowed, struct placement_refusal *ret)
{
	struct placement_rejection *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &candidates[i];

		list[i].executor_id = c->executor_id;
		list[i].state = c->state;
		list[i].constraint = placement_reject(c, req, host_allowed, list[i].detail);
	}
	qsort(list, n, sizeof(*list), compare_rejections);
	*ret = (struct placement_refusal){.rejections = list, .n_rejections = n, .considered = n};
	ret->constraint = headline(ret);
	return 0;
}

int placement_select(const struct candidate *candidates, size_t n, const struct requirements *req,
		     bool host_allowed, size_t *ret, struct placement_refusal *ret_refusal,
		     struct error *err)
{
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
	const struct candidate *best = NULL;

	/* Sentences are for those who are told that nobody was found. */
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &candidates[i];

		if (placement_reject(c, req, host_allowed, NULL) == CONSTRAINT_NONE &&
		    (!best || placement_is_better(c, best)))
			best = c;
	}
	if (best) {
		*ret = (size_t)(best - candidates);
		return 0;
	}
	if (reject_all(candidates, n, req, host_allowed, &refusal) < 0)
		return error_oom(err);
	int r = refuse(&refusal, err);
	if (ret_refusal) {
		*ret_refusal = refusal;
		refusal = (struct placement_refusal){0};
	}
	return r;
}

static bool is_about_sandboxes(enum constraint constraint)
{
	return constraint == CONSTRAINT_IMAGE_OVERRIDE || constraint == CONSTRAINT_SANDBOX_BUILD ||
	       constraint == CONSTRAINT_SANDBOX_MOUNTS || constraint == CONSTRAINT_NETWORK_EGRESS ||
	       constraint == CONSTRAINT_RESOURCE_LIMITS || constraint == CONSTRAINT_VIRTUALIZATION;
}

int placement_check_bound(const struct candidate *bound, const struct requirements *req,
			  bool host_allowed, const char *project_path, char *const *alternatives,
			  size_t n_alternatives, enum constraint *ret_constraint, struct error *err)
{
	struct placement_rejection rejection = {.executor_id = bound->executor_id,
						.state = bound->state};

	rejection.constraint = placement_reject(bound, req, host_allowed, rejection.detail);
	if (rejection.constraint == CONSTRAINT_NONE)
		return 0;
	if (ret_constraint)
		*ret_constraint = rejection.constraint;
	if (is_about_sandboxes(rejection.constraint) &&
	    !isolation_isolates_from_host(bound->capabilities.isolation))
		return host_execution_deny(bound->executor_id, project_path, rejection.detail,
					   alternatives, n_alternatives, err);

	struct placement_refusal refusal = {.constraint = rejection.constraint,
					    .rejections = &rejection,
					    .n_rejections = 1,
					    .considered = 1};
	return refuse(&refusal, err);
}

json_t *placement_refusal_to_json(const struct placement_refusal *refusal)
{
	AUTO_JSON json_t *o = json_object();
	AUTO_JSON json_t *list = json_array();

	if (!o || !list ||
	    json_put_string(o, "constraint", constraint_name(refusal->constraint)) < 0 ||
	    json_put_int(o, "considered", (int64_t)refusal->considered) < 0)
		return NULL;
	for (size_t i = 0; i < refusal->n_rejections; i++) {
		const struct placement_rejection *r = &refusal->rejections[i];
		AUTO_JSON json_t *item = json_object();

		if (!item || json_put_string(item, "executor_id", r->executor_id) < 0 ||
		    json_put_string(item, "constraint", constraint_name(r->constraint)) < 0 ||
		    json_put_string(item, "detail", r->detail) < 0 ||
		    json_array_append(list, item) < 0)
			return NULL;
	}
	if (json_put_new(o, "rejections", take_ptr(list)) < 0)
		return NULL;
	return take_ptr(o);
}

void placement_refusal_clear(struct placement_refusal *refusal)
{
	free(refusal->rejections);
	*refusal = (struct placement_refusal){0};
}
