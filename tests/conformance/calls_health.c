/* Health of executors and the arithmetic of probing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/health.h"
#include "core/supervisor_config.h"
#include "tests/conformance/calls.h"

static struct health read_health(json_t *value)
{
	struct health h = {
		.state = node_state_parse(get_text(value, "state")),
		.consecutive_failures = get_int(value, "consecutive_failures"),
		.last_seen = get_int(value, "last_seen"),
		.last_probe = get_int(value, "last_probe"),
		.state_changed_at = get_int(value, "state_changed_at"),
	};
	size_t n = strnlen(get_text(value, "reason"), sizeof(h.reason) - 1);

	memcpy(h.reason, get_text(value, "reason"), n);
	return h;
}

static json_t *normalize_call(json_t *input)
{
	struct health h = read_health(input);

	health_normalize(&h);
	AUTO_JSON json_t *answer =
		json_pack("{s:I, s:s}", "consecutive_failures", (json_int_t)h.consecutive_failures,
			  "state", node_state_name(h.state));
	if (answer && json_put_string_if(answer, "reason", h.reason) < 0)
		return NULL;
	return take_ptr(answer);
}

static json_t *node_state_call(json_t *input)
{
	enum node_state state;
	bool known = node_state_lookup(get_text(input, "state"), &state);

	return json_pack("{s:b, s:b}", "schedulable", known && node_state_schedulable(state),
			 "admin_held", known && node_state_admin_held(state));
}

static json_t *default_policy_call(json_t *input)
{
	struct health_policy p = health_policy_default();

	(void)input;
	return json_pack("{s:I, s:I}", "degrade_after", (json_int_t)p.degrade_after,
			 "unreachable_after", (json_int_t)p.unreachable_after);
}

static json_t *transition_text_call(json_t *input)
{
	struct health h = read_health(input);
	struct health_transition t = {.from = node_state_parse(get_text(input, "from")),
				      .to = node_state_parse(get_text(input, "to"))};

	memcpy(t.reason, h.reason, sizeof(t.reason));
	AUTO_FREE char *text = health_transition_text(get_text(input, "executor_id"), &t);
	return json_pack("{s:s}", "text", text);
}

/* Whether a reason is one that the row gave, whole or cut to what is shown of it. */
static bool is_given(json_t *input, const char *reason)
{
	static const char dots[] = "\xe2\x80\xa6";
	size_t len = strlen(reason);
	json_t *op;
	size_t i;

	if (!reason[0] ||
	    strcmp(get_text(json_object_get(input, "initial"), "reason"), reason) == 0)
		return true;
	if (len > 3 && memcmp(reason + len - 3, dots, 3) == 0)
		len -= 3;
	json_array_foreach(json_object_get(input, "ops"), i, op)
	{
		const char *text = get_text(op, json_object_get(op, "error") ? "error" : "reason");
		struct text_view v = text_trim(text, strlen(text));

		if (v.len >= len && memcmp(v.data, reason, len) == 0)
			return true;
	}
	return false;
}

static json_t *step_to_json(json_t *input, const struct health *h,
			    const struct health_transition *t)
{
	AUTO_JSON json_t *o = json_pack(
		"{s:I, s:I, s:I, s:s, s:I}", "consecutive_failures",
		(json_int_t)h->consecutive_failures, "last_probe", (json_int_t)h->last_probe,
		"last_seen", (json_int_t)h->last_seen, "state", node_state_name(h->state),
		"state_changed_at", (json_int_t)h->state_changed_at);
	json_t *change = t ? json_pack("{s:s, s:s}", "from", node_state_name(t->from), "to",
				       node_state_name(t->to))
			   : json_null();

	if (!o || json_put_new(o, "transition", change) < 0 ||
	    (is_given(input, h->reason) ? json_put_string(o, "reason", h->reason)
					: json_put_bool(o, "reason_nonempty", true)) < 0)
		return NULL;
	return take_ptr(o);
}

static json_t *transitions_call(json_t *input)
{
	json_t *limits = json_object_get(input, "policy");
	struct health_policy policy = health_policy_default();
	struct health h = read_health(json_object_get(input, "initial"));
	AUTO_JSON json_t *steps = json_array();
	json_t *op;
	size_t i;

	if (limits)
		policy = (struct health_policy){get_int(limits, "degrade_after"),
						get_int(limits, "unreachable_after")};
	json_array_foreach(json_object_get(input, "ops"), i, op)
	{
		const char *name = get_text(op, "op");
		struct health_transition t;
		int64_t at = get_int(op, "at");
		bool moved;

		if (strcmp(name, "probe_ok") == 0)
			moved = health_observe_probe(&h, NULL, at, policy, &t);
		else if (strcmp(name, "probe_fail") == 0)
			moved = health_observe_probe(&h, get_text(op, "error"), at, policy, &t);
		else if (strcmp(name, "cordon") == 0)
			moved = health_cordon(&h, get_text(op, "reason"), at, &t);
		else if (strcmp(name, "drain") == 0)
			moved = health_drain(&h, get_text(op, "reason"), at, &t);
		else
			moved = health_uncordon(&h, at, policy, &t);
		if (json_array_append_new(steps, step_to_json(input, &h, moved ? &t : NULL)) < 0)
			return NULL;
	}
	return json_pack("{s:O}", "steps", steps);
}

/* Seconds, whole or not, to nanoseconds. */
static int64_t get_ns(json_t *o, const char *name)
{
	return llround(get_number(o, name) * (double)CLOCK_NS_PER_S);
}

static json_t *seconds(int64_t ns)
{
	return number((double)ns / (double)CLOCK_NS_PER_S);
}

static json_t *backoff_call(json_t *input)
{
	struct supervisor_config c = {.backoff_base_ns = get_ns(input, "backoff_base_s"),
				      .backoff_max_ns = get_ns(input, "backoff_max_s")};

	return json_pack("{s:o}", "delay_s",
			 seconds(supervisor_backoff_ns(&c, get_int(input, "failures"))));
}

static json_t *jitter_call(json_t *input)
{
	int64_t delay = supervisor_jitter_ns(get_int(input, "delay_ns"),
					     get_number(input, "jitter_fraction"),
					     get_number(input, "rand"));

	return json_pack("{s:I}", "delay_ns", (json_int_t)delay);
}

static json_t *config_to_json(struct supervisor_config c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "interval_s",
			 seconds(c.interval_ns), "probe_timeout_s", seconds(c.probe_timeout_ns),
			 "backoff_base_s", seconds(c.backoff_base_ns), "backoff_max_s",
			 seconds(c.backoff_max_ns), "jitter_fraction", number(c.jitter_fraction),
			 "max_concurrent_probes", (json_int_t)c.max_concurrent_probes,
			 "degrade_after", (json_int_t)c.policy.degrade_after, "unreachable_after",
			 (json_int_t)c.policy.unreachable_after);
}

static json_t *config_call(json_t *input)
{
	json_t *from = json_object_get(input, "config");
	json_t *limits = json_object_get(from, "policy") ? json_object_get(from, "policy") : from;
	struct supervisor_config c = {
		.interval_ns = get_ns(from, "interval_s"),
		.probe_timeout_ns = get_ns(from, "probe_timeout_s"),
		.backoff_base_ns = get_ns(from, "backoff_base_s"),
		.backoff_max_ns = get_ns(from, "backoff_max_s"),
		.jitter_fraction = get_number(from, "jitter_fraction"),
		.max_concurrent_probes = get_int(from, "max_concurrent_probes"),
		.policy = {get_int(limits, "degrade_after"), get_int(limits, "unreachable_after")},
	};

	return config_to_json(supervisor_config_normalize(c));
}

static json_t *default_config_call(json_t *input)
{
	(void)input;
	return config_to_json(supervisor_config_default());
}

const struct call health_calls[] = {
	{"Health.Normalize", normalize_call},
	{"Health.Normalize/NodeState", node_state_call},
	{"Health.Normalize/DefaultHealthPolicy", default_policy_call},
	{"Health.Normalize/Transition.String", transition_text_call},
	{"Health.Transitions", transitions_call},
	{"Supervisor.Backoff", backoff_call},
	{"Supervisor.Jitter", jitter_call},
	{"Supervisor.Config", config_call},
	{"Supervisor.Config/DefaultSupervisorConfig", default_config_call},
	{NULL, NULL},
};
