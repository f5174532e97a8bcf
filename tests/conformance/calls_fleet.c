/* Placement, the policy on host execution, and the registry. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/label.h"
#include "core/placement.h"
#include "core/policy.h"
#include "core/registry.h"
#include "core/strlist.h"
#include "tests/conformance/calls.h"

static void candidate_clear(struct candidate *c)
{
	labels_free((struct spec_label *)c->labels, c->n_labels);
	free((void *)c->harnesses);
	free((void *)c->container_runtimes);
}

static int read_candidate(json_t *value, struct candidate *ret)
{
	json_t *health = json_object_get(value, "health");
	json_t *labels = json_object_get(value, "labels");
	struct spec_label *sorted = NULL;
	struct candidate c = {
		.executor_id = get_text(value, "id"),
		.state = node_state_parse(get_text(health ? health : value, "state")),
		.memory_mb = get_int(value, "memory_mb"),
		.in_flight = get_int(value, "in_flight"),
		.in_flight_known = get_bool(value, "in_flight_known"),
	};

	if (read_capabilities(json_object_get(value, "capabilities"), &c.capabilities,
			      &c.can_revoke) < 0)
		return -EINVAL;
	if (labels && labels_from_json(labels, "labels", &sorted, &c.n_labels, NULL) < 0)
		return -EINVAL;
	c.labels = sorted;
	c.harnesses = get_list(value, "harnesses", &c.n_harnesses);
	c.container_runtimes = get_list(value, "container_runtimes", &c.n_container_runtimes);
	*ret = c;
	return 0;
}

/* Allowed unless the row says otherwise. */
static bool host_allowed(json_t *input)
{
	return !json_is_false(json_object_get(input, "host_execution_allowed"));
}

/*
 * A word that is no isolation is refused where somebody writes requirements; in a row it is one
 * that no executor has.
 */
static int read_requirements(json_t *input, struct requirements *ret)
{
	json_t *value = json_object_get(input, "requirements"), *word;
	AUTO_JSON json_t *plain = json_is_object(value) ? json_copy(value) : json_object();
	size_t i;

	if (!plain)
		return -ENOMEM;
	json_object_del(plain, "allowed_isolations");
	int r = requirements_from_json(plain, "requirements", ret, NULL);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(value, "allowed_isolations"), i, word)
		ret->allowed_isolations |=
		1U << isolation_parse(text_or_empty(json_string_value(word)));
	return 0;
}

static json_t *refusal_to_json(const struct placement_refusal *refusal)
{
	AUTO_JSON json_t *answer = placement_refusal_to_json(refusal);
	json_t *rejection;
	size_t i;

	if (!answer || json_object_set_new(answer, "selected", json_null()) < 0)
		return NULL;
	/* The sentence for people is not part of the contract. */
	json_array_foreach(json_object_get(answer, "rejections"), i, rejection)
		json_object_del(rejection, "detail");
	return take_ptr(answer);
}

static json_t *select_call(json_t *input)
{
	json_t *list = json_object_get(input, "candidates");
	size_t n = json_array_size(list), chosen = 0;
	AUTO_FREE struct candidate *candidates = calloc(n + 1, sizeof(*candidates));
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
	AUTO_REQUIREMENTS struct requirements req = {0};
	json_t *answer = NULL;
	int r = candidates ? read_requirements(input, &req) : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++)
		r = read_candidate(json_array_get(list, i), &candidates[i]);
	if (r < 0) {
		answer = json_pack("{s:s}", "error", "the row cannot be read");
	} else {
		r = placement_select(candidates, n, &req, host_allowed(input), &chosen, &refusal,
				     NULL);
		answer = r < 0 ? refusal_to_json(&refusal)
			       : json_pack("{s:s}", "selected", candidates[chosen].executor_id);
	}
	for (size_t i = 0; candidates && i < n; i++)
		candidate_clear(&candidates[i]);
	return answer;
}

static json_t *check_call(json_t *input)
{
	AUTO_REQUIREMENTS struct requirements req = {0};
	enum constraint gap = CONSTRAINT_NONE;
	struct candidate bound = {0};
	AUTO_FREE char **alternatives = NULL;
	struct error err = {0};
	size_t n = 0;

	/* No executor is nothing to object to. */
	if (!json_is_object(json_object_get(input, "executor")))
		return json_pack("{s:s}", "result", "ok");
	if (read_requirements(input, &req) < 0 ||
	    read_candidate(json_object_get(input, "executor"), &bound) < 0)
		return json_pack("{s:s}", "error", "the row cannot be read");
	alternatives = get_list(input, "alternatives", &n);
	int r = placement_check_bound(&bound, &req, host_allowed(input),
				      get_text(input, "project_path"), alternatives, n, &gap, &err);
	candidate_clear(&bound);
	if (r == 0)
		return json_pack("{s:s}", "result", "ok");
	if (err.kind == ERROR_HOST_EXECUTION_DENIED)
		return json_pack("{s:s}", "result", "host_execution_denied");
	return json_pack("{s:s, s:s}", "constraint", constraint_name(gap), "result",
			 "placement_error");
}

static json_t *isolates_call(json_t *input)
{
	enum isolation isolation = isolation_parse(get_text(input, "isolation"));

	return json_pack("{s:b}", "isolates_from_host", isolation_isolates_from_host(isolation));
}

static json_t *denied_call(json_t *input)
{
	struct error err = {0};
	size_t n;
	AUTO_FREE char **alternatives = get_list(input, "alternatives", &n);

	(void)host_execution_deny(get_text(input, "executor_id"), get_text(input, "project_path"),
				  NULL, alternatives, n, &err);
	return json_pack("{s:o, s:s}", "error", verdict_sentence(&err), "remediation", err.remedy);
}

/* Operations on one registry: ["op", argument, argument]. */
static json_t *outcome(int r, const struct error *err)
{
	const char *name = error_sentinel(err->kind);

	if (r >= 0)
		return json_null();
	return json_string(name ? name : "error");
}

static json_t *entry_or_error(int r, const struct registry_entry *entry, const struct error *err)
{
	return r < 0 ? outcome(r, err) : json_string(entry->id);
}

static json_t *ids_to_json(const struct registry *registry, bool isolated_only)
{
	AUTO_JSON json_t *array = json_array();
	char **ids = NULL;
	size_t n = 0;

	if (!array)
		return NULL;
	if (isolated_only) {
		if (registry_isolated_ids(registry, &ids, &n) < 0)
			return NULL;
		json_t *list = strlist_to_json(ids, n);
		strlist_free(ids, n);
		return list;
	}
	for (size_t i = 0; i < registry_len(registry); i++)
		json_array_append_new(array, json_string(registry_at(registry, i)->id));
	return take_ptr(array);
}

static json_t *policy_op(struct host_policy *policy, const char *op, json_t *argument)
{
	if (strcmp(op, "forbid") == 0)
		host_policy_apply(policy, false);
	else if (strcmp(op, "permit") == 0 || strcmp(op, "allow") == 0)
		host_policy_apply(policy, true);
	else if (strncmp(op, "apply", 5) == 0)
		host_policy_apply(policy, json_is_true(argument));
	else if (strncmp(op, "set", 3) == 0)
		return json_boolean(host_policy_set(policy, json_is_true(argument)));
	else if (strcmp(op, "allowed") == 0)
		return json_boolean(host_policy_allows(policy));
	return json_null();
}

/* Bindings that are stored elsewhere: an object of paths and ids. */
static const char *lookup(void *context, const char *path)
{
	return json_string_value(json_object_get(context, path));
}

/* Takes away what is stored elsewhere, or adds one path, or an object of them. */
static json_t *lookup_op(struct registry *r, json_t *stored, json_t *first, json_t *second)
{
	if (json_is_object(first))
		json_object_update(stored, first);
	else if (json_is_string(first))
		json_object_set(stored, json_string_value(first), second);
	else
		json_object_clear(stored);
	registry_set_binding_lookup(r, json_object_size(stored) > 0 ? lookup : NULL, stored);
	return json_null();
}

static json_t *registry_op(struct registry *r, struct host_policy *policy, json_t *stored,
			   json_t *op)
{
	const char *name = json_string_value(json_array_get(op, 0));
	json_t *first = json_array_get(op, 1), *second = json_array_get(op, 2);
	const char *a = json_is_string(first) ? json_string_value(first) : "";
	const char *b = json_is_string(second) ? json_string_value(second) : "";
	const struct registry_entry *entry = NULL;
	struct error err = {0};

	if (!name)
		return json_null();
	/* A registry row without isolation is not about isolation. */
	enum isolation isolation = second ? isolation_parse(b) : ISOLATION_CONTAINER;
	if (strcmp(name, "register") == 0)
		return outcome(registry_register(r, a, isolation, NULL, &err), &err);
	if (strcmp(name, "ensure") == 0)
		return outcome(registry_ensure(r, a, isolation, NULL, &err), &err);
	if (strcmp(name, "bind") == 0)
		return outcome(registry_bind(r, a, b, &err), &err);
	if (strcmp(name, "unbind") == 0) {
		/* It has nothing to answer: without a binding there is nothing to undo. */
		(void)registry_unbind(r, a, NULL);
		return json_null();
	}
	if (strcmp(name, "set_default") == 0)
		return outcome(registry_set_default(r, a, &err), &err);
	if (strcmp(name, "default_id") == 0)
		return json_string(registry_default_id(r));
	if (strcmp(name, "list") == 0 || strcmp(name, "isolated_ids") == 0)
		return ids_to_json(r, strcmp(name, "isolated_ids") == 0);
	if (strcmp(name, "binding") == 0) {
		const char *id = registry_binding(r, a);
		return id ? json_string(id) : json_null();
	}
	if (strcmp(name, "unregister") == 0) {
		registry_unregister(r, a);
		return json_null();
	}
	if (strstr(name, "lookup"))
		return lookup_op(r, stored, first, second);
	/* Each call has its own statement: the entry is read after it. */
	if (strcmp(name, "resolve") == 0) {
		int e = registry_resolve(r, a, &entry, &err);
		return entry_or_error(e, entry, &err);
	}
	if (strcmp(name, "resolve_binding") == 0) {
		int e = registry_resolve_binding(r, a, &entry, &err);
		return entry_or_error(e, entry, &err);
	}
	if (strcmp(name, "default") == 0) {
		int e = registry_get_default(r, &entry, &err);
		return entry_or_error(e, entry, &err);
	}
	if (strcmp(name, "get") == 0) {
		int e = registry_get(r, a, &entry, &err);
		return entry_or_error(e, entry, &err);
	}
	return policy_op(policy, name, first);
}

static json_t *registry_call(json_t *input)
{
	struct host_policy policy = {.forbidden = json_is_false(json_object_get(input, "allowed"))};
	AUTO_REGISTRY struct registry *registry = registry_new(&policy);
	AUTO_JSON json_t *results = json_array(), *stored = json_object();
	json_t *op;
	size_t i;

	if (!registry || !results || !stored)
		return NULL;
	if (json_object_get(input, "lookup"))
		json_decref(lookup_op(registry, stored, json_object_get(input, "lookup"), NULL));
	json_array_foreach(
		json_object_get(input, "ops"), i,
		op) if (json_array_append_new(results, registry_op(registry, &policy, stored, op)) <
			0) return NULL;
	return json_pack("{s:O}", "results", results);
}

const struct call fleet_calls[] = {
	{"Select", select_call},
	{"CheckSandboxSupport", check_call},
	{"Registry", registry_call},
	{"HostExecutionPolicy", registry_call},
	{"HostExecutionPolicy/IsolatesFromHost", isolates_call},
	{"HostExecutionPolicy/HostExecutionDeniedError", denied_call},
	{NULL, NULL},
};
