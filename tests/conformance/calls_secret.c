/* Leases: who holds them, and taking them back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/lease.h"
#include "core/revocation.h"
#include "core/revocation_log.h"
#include "core/strlist.h"
#include "tests/conformance/calls.h"

/* The bindings under a name; none when they cannot be read. */
static void read_bindings(json_t *o, const char *name, struct secret_binding **ret, size_t *ret_n)
{
	*ret = NULL;
	*ret_n = 0;
	(void)secret_bindings_from_json(json_object_get(o, name), name, ret, ret_n, NULL);
}

/* One binding that is an object of its own. */
static void read_binding(json_t *value, struct secret_binding **ret, size_t *ret_n)
{
	AUTO_JSON json_t *array = json_pack("[O]", value);

	*ret = NULL;
	*ret_n = 0;
	(void)secret_bindings_from_json(array, "binding", ret, ret_n, NULL);
}

static json_t *matches_call(json_t *input)
{
	json_t *request = json_object_get(input, "request");
	struct revoke_request q = {.lease_id = get_text(request, "lease_id"),
				   .grant_id = get_text(request, "grant_id")};
	struct secret_binding *b;
	size_t n;

	read_binding(json_object_get(input, "binding"), &b, &n);
	json_t *answer = json_pack("{s:b}", "matches", n > 0 && revoke_request_matches(&q, &b[0]));
	secret_bindings_free(b, n);
	return answer;
}

static json_t *effective_call(json_t *input)
{
	enum revoke_action action = revoke_action_parse(get_text(input, "action"));

	return json_pack("{s:s}", "effective", revoke_action_name(revoke_action_effective(action)));
}

static json_t *action_valid_call(json_t *input)
{
	return json_pack("{s:b}", "valid",
			 revoke_action_parse(get_text(input, "action")) != REVOKE_ACTION_UNSET);
}

static json_t *revocable_call(json_t *input)
{
	struct secret_binding *b;
	size_t n;

	read_binding(input, &b, &n);
	json_t *answer = json_pack("{s:b}", "revocable", n > 0 && secret_binding_revocable(&b[0]));
	secret_bindings_free(b, n);
	return answer;
}

static json_t *state_call(json_t *input)
{
	enum revoke_state state;
	bool terminal = revoke_state_parse(get_text(input, "state"), &state) &&
			revoke_state_terminal(state);

	return json_pack("{s:b, s:b}", "terminal", terminal, "pending", !terminal);
}

static json_t *describe_call(json_t *input)
{
	struct secret_binding *b;
	size_t n;

	read_bindings(input, "bindings", &b, &n);
	AUTO_FREE char *text = secret_bindings_describe(b, n);
	secret_bindings_free(b, n);
	return json_pack("{s:s}", "text", text);
}

static json_t *env_keys_call(json_t *input)
{
	struct secret_binding *b;
	char **keys = NULL;
	size_t n, n_keys = 0;

	read_bindings(input, "bindings", &b, &n);
	int r = secret_bindings_env_keys(b, n, &keys, &n_keys);
	secret_bindings_free(b, n);
	if (r < 0)
		return NULL;
	json_t *answer = json_pack("{s:o}", "env_keys", strlist_to_json(keys, n_keys));
	strlist_free(keys, n_keys);
	return answer;
}

static struct revoker read_revoker(json_t *input)
{
	const char *driver = get_text(input, "driver");

	return (struct revoker){.implemented = strncmp(driver, "revoker", 7) == 0,
				.available = strcmp(driver, "revoker_available") == 0,
				.detail = "the executor is offline"};
}

static json_t *require_call(json_t *input)
{
	AUTO_SPEC struct spec *spec = spec_new();
	struct revoker revoker = read_revoker(input);
	const char *detail = NULL;
	struct error err = {0};

	if (!spec)
		return NULL;
	read_bindings(input, "secrets", &spec->secrets, &spec->n_secrets);
	const char *id = get_text(input, "executor_id"), *kind = get_text(input, "kind");
	int r = revocation_require(id[0] ? id : "e", kind[0] ? kind : "driver", &revoker, spec,
				   &detail, &err);
	AUTO_JSON json_t *answer = verdict_to_json(r, &err);
	if (r < 0 && answer &&
	    (json_put_bool(answer, "detail_empty", !text_or_empty(detail)[0]) < 0 ||
	     json_put_new(answer, "error", verdict_sentence(&err)) < 0))
		return NULL;
	return take_ptr(answer);
}

static json_t *supports_call(json_t *input)
{
	struct revoker revoker = read_revoker(input);

	return json_pack("{s:b}", "supports_revocation", revoker_supports_revocation(&revoker));
}

/* Operations on one lease index. */
static json_t *list_to_json(int r, char **list, size_t n)
{
	json_t *value = r < 0 ? NULL : strlist_to_json(list, n);

	if (r == 0)
		strlist_free(list, n);
	return value;
}

static json_t *holders_to_json(const struct lease_index *index, json_t *op)
{
	struct revoke_request q = {.lease_id = get_text(op, "lease_id"),
				   .grant_id = get_text(op, "grant_id")};
	AUTO_JSON json_t *array = json_array();
	struct lease_holder *holders = NULL;
	size_t n = 0;

	if (!array || lease_index_holders(index, &q, &holders, &n) < 0)
		return NULL;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, json_string(holders[i].handle_id));
	lease_holders_free(holders, n);
	return take_ptr(array);
}

static json_t *index_op(struct lease_index *index, json_t *op)
{
	const char *name = get_text(op, "op"), *handle = get_text(op, "handle");
	struct secret_binding *b;
	char **list = NULL;
	size_t n = 0;

	if (strcmp(name, "holds") == 0)
		return json_boolean(lease_index_holds(index, get_text(op, "lease_id")));
	if (strcmp(name, "leases") == 0) {
		int r = lease_index_leases(index, &list, &n);
		return list_to_json(r, list, n);
	}
	if (strcmp(name, "unresolved") == 0) {
		int r = lease_index_unresolved(index, &list, &n);
		return list_to_json(r, list, n);
	}
	if (strcmp(name, "unresolved_error") == 0)
		return json_boolean(lease_index_unresolved_error(index, NULL) < 0);
	if (strcmp(name, "handles") == 0)
		return holders_to_json(index, op);
	if (strcmp(name, "release") == 0) {
		lease_index_release(index, handle);
		return json_null();
	}
	if (strcmp(name, "mark_unresolved") == 0)
		return lease_index_mark_unresolved(index, handle, get_text(op, "reason")) < 0
			       ? NULL
			       : json_null();
	read_bindings(op, "bindings", &b, &n);
	struct handle_record record = {.handle_id = (char *)handle,
				       .secrets = b,
				       .n_secrets = n,
				       .secrets_recorded = get_bool(op, "secrets_recorded")};
	int r = strcmp(name, "adopt") == 0 ? lease_index_adopt(index, &record)
					   : lease_index_bind(index, handle, b, n);
	secret_bindings_free(b, n);
	return r < 0 ? NULL : json_null();
}

static json_t *lease_index_call(json_t *input)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	AUTO_JSON json_t *results = json_array();
	json_t *op;
	size_t i;

	if (!index || !results)
		return NULL;
	json_array_foreach(json_object_get(input, "ops"), i,
			   op) if (json_array_append_new(results, index_op(index, op)) <
				   0) return NULL;
	return json_pack("{s:O}", "results", results);
}

/* Operations on one revocation log. */
static json_t *outcome_to_json(const struct revoke_outcome *o)
{
	return json_pack("{s:I, s:s, s:s, s:s, s:b, s:s, s:s, s:I, s:s}", "acked_at",
			 (json_int_t)o->acked_at, "action", revoke_action_name(o->action), "error",
			 o->error, "grant_id", o->grant_id, "has_ack", o->has_ack, "lease_id",
			 o->lease_id, "reason", o->reason, "sent_at", (json_int_t)o->sent_at,
			 "state", revoke_state_name(o->state));
}

static json_t *outcomes_to_json(int r, const struct revoke_outcome **list, size_t n)
{
	AUTO_FREE const struct revoke_outcome **owned = r == 0 ? list : NULL;
	AUTO_JSON json_t *array = json_array();

	if (r < 0 || !array)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(array, outcome_to_json(owned[i])) < 0)
			return NULL;
	return take_ptr(array);
}

static json_t *log_record(struct revocation_log *log, json_t *op)
{
	struct revoke_outcome o = {
		.lease_id = (char *)get_text(op, "lease_id"),
		.grant_id = (char *)get_text(op, "grant_id"),
		.executor_id = (char *)get_text(op, "executor_id"),
		.action = revoke_action_parse(get_text(op, "action")),
		.reason = (char *)get_text(op, "reason"),
		.error = (char *)get_text(op, "error"),
		.sent_at = get_int(op, "sent_at"),
		.acked_at = get_int(op, "acked_at"),
	};
	const struct revoke_outcome *live;

	(void)revoke_state_parse(get_text(op, "state"), &o.state);
	return revocation_log_record(log, &o, &live) < 0 ? NULL : outcome_to_json(live);
}

static json_t *log_op(struct revocation_log *log, json_t *op)
{
	const char *name = get_text(op, "op");
	const char *lease = get_text(op, "lease_id"), *grant = get_text(op, "grant_id");
	const struct revoke_outcome **list = NULL;
	size_t n = 0;

	if (strcmp(name, "record") == 0)
		return log_record(log, op);
	if (strcmp(name, "pending") == 0) {
		int r = revocation_log_pending(log, &list, &n);
		return outcomes_to_json(r, list, n);
	}
	if (strcmp(name, "snapshot") == 0) {
		int r = revocation_log_snapshot(log, &list, &n);
		return outcomes_to_json(r, list, n);
	}
	if (strcmp(name, "settle") == 0) {
		json_t *ack = json_object_get(op, "ack");
		json_t *from = json_is_object(ack) ? ack : op;
		struct revoke_report report = {.known = get_bool(from, "known"),
					       .error = (char *)get_text(from, "error")};
		int64_t at = get_int(op, json_object_get(op, "at") ? "at" : "acked_at");
		return revocation_log_settle(log, lease, grant, &report, at) < 0 ? NULL
										 : json_null();
	}
	if (strcmp(name, "fail") == 0) {
		enum revoke_state state = REVOKE_FAILED;

		(void)revoke_state_parse(get_text(op, "state"), &state);
		return revocation_log_fail(log, lease, grant, state, get_text(op, "error")) < 0
			       ? NULL
			       : json_null();
	}
	if (strcmp(name, "len") == 0)
		return json_integer((json_int_t)revocation_log_len(log));
	return json_null();
}

static json_t *revocation_log_call(json_t *input)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();
	AUTO_JSON json_t *results = json_array();
	json_t *op;
	size_t i;

	if (!log || !results)
		return NULL;
	json_array_foreach(json_object_get(input, "ops"), i,
			   op) if (json_array_append_new(results, log_op(log, op)) < 0) return NULL;
	return json_pack("{s:O}", "results", results);
}

const struct call secret_calls[] = {
	{"RevokeRequest", matches_call},
	{"RevokeRequest/Matches", matches_call},
	{"RevokeRequest/Effective", effective_call},
	{"RevokeRequest/RevokeAction.Valid", action_valid_call},
	{"RevokeRequest/SecretBinding.Revocable", revocable_call},
	{"RevokeRequest/RevokeState", state_call},
	{"RevokeRequest/DescribeBindings", describe_call},
	{"RevokeRequest/EnvKeys", env_keys_call},
	{"RequireRevocable", require_call},
	{"RequireRevocable/SupportsRevocation", supports_call},
	{"LeaseIndex", lease_index_call},
	{"RevocationLog", revocation_log_call},
	{NULL, NULL},
};
