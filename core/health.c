#include "core/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/owner.h"

static const char *const state_names[] = {
	[NODE_READY] = "ready",
	[NODE_DEGRADED] = "degraded",
	[NODE_UNREACHABLE] = "unreachable",
	[NODE_CORDONED] = "cordoned",
	[NODE_DRAINING] = "draining",
};

const char *node_state_name(enum node_state state)
{
	return state_names[(size_t)state < ARRAY_SIZE(state_names) ? state : NODE_READY];
}

bool node_state_lookup(const char *word, enum node_state *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(state_names); i++) {
		if (strcmp(state_names[i], word) == 0) {
			*ret = (enum node_state)i;
			return true;
		}
	}
	return false;
}

enum node_state node_state_parse(const char *word)
{
	enum node_state state = NODE_READY;

	(void)node_state_lookup(word, &state);
	return state;
}

bool node_state_schedulable(enum node_state state)
{
	return state == NODE_READY || state == NODE_DEGRADED;
}

bool node_state_admin_held(enum node_state state)
{
	return state == NODE_CORDONED || state == NODE_DRAINING;
}

struct health_policy health_policy_default(void)
{
	return (struct health_policy){.degrade_after = 1, .unreachable_after = 3};
}

struct health_policy health_policy_clamp(struct health_policy p)
{
	if (p.degrade_after < 1)
		p.degrade_after = 1;
	if (p.unreachable_after < p.degrade_after)
		p.unreachable_after = p.degrade_after;
	return p;
}

void health_normalize(struct health *h)
{
	if ((size_t)h->state >= ARRAY_SIZE(state_names))
		h->state = NODE_READY;
	if (h->consecutive_failures < 0)
		h->consecutive_failures = 0;
}

static void set_reason(struct health *h, struct text_view reason)
{
	size_t n = reason.len < sizeof(h->reason) ? reason.len : sizeof(h->reason) - 1;

	/* The text may be the record's own. */
	memmove(h->reason, reason.data, n);
	h->reason[n] = '\0';
	if (n < reason.len)
		text_ellipsis(h->reason, sizeof(h->reason));
	text_one_line(h->reason);
}

/* Moves to a state with the reason that was set. */
static bool move(struct health *h, enum node_state to, int64_t at, struct health_transition *ret)
{
	if (h->state == to)
		return false;
	if (ret) {
		*ret = (struct health_transition){.from = h->state, .to = to, .at = at};
		memcpy(ret->reason, h->reason, sizeof(ret->reason));
	}
	h->state = to;
	h->state_changed_at = at;
	return true;
}

static void set_failure(struct health *h, const char *failure)
{
	struct text_view v = text_trimmed(failure);
	const char *newline = v.len > 0 ? memchr(v.data, '\n', v.len) : NULL;
	char cut[HEALTH_FAILURE_BYTES_MAX + 3];

	if (newline)
		v = text_trim(v.data, (size_t)(newline - v.data));
	if (v.len == 0)
		v = (struct text_view){"the probe failed", sizeof("the probe failed") - 1};
	if (v.len > HEALTH_FAILURE_BYTES_MAX) {
		size_t n = HEALTH_FAILURE_BYTES_MAX - 1;

		while (n > 0 && ((unsigned char)v.data[n] & 0xc0) == 0x80)
			n--;
		memcpy(cut, v.data, n);
		memcpy(cut + n, "\xe2\x80\xa6", 3);
		v = (struct text_view){cut, n + 3};
	}
	set_reason(h, v);
}

/* Where the failures alone would have the node. */
static enum node_state justified(const struct health *h, struct health_policy policy)
{
	if (h->consecutive_failures >= policy.unreachable_after)
		return NODE_UNREACHABLE;
	if (h->consecutive_failures >= policy.degrade_after)
		return NODE_DEGRADED;
	return NODE_READY;
}

bool health_observe_probe(struct health *h, const char *failure, int64_t at,
			  struct health_policy policy, struct health_transition *ret)
{
	policy = health_policy_clamp(policy);
	health_normalize(h);
	h->last_probe = at;
	if (!failure) {
		h->consecutive_failures = 0;
		h->last_seen = at;
		if (node_state_admin_held(h->state))
			return false;
		h->reason[0] = '\0';
		return move(h, NODE_READY, at, ret);
	}
	if (h->consecutive_failures < INT64_MAX)
		h->consecutive_failures++;
	if (node_state_admin_held(h->state))
		return false;
	set_failure(h, failure);

	enum node_state to = justified(h, policy);
	/* A failure never makes a node look better than it did. */
	return to > h->state ? move(h, to, at, ret) : false;
}

static bool hold(struct health *h, enum node_state to, const char *reason, const char *otherwise,
		 int64_t at, struct health_transition *ret)
{
	struct text_view v = text_trimmed(reason);

	health_normalize(h);
	if (v.len == 0)
		v = (struct text_view){otherwise, strlen(otherwise)};
	set_reason(h, v);
	return move(h, to, at, ret);
}

bool health_cordon(struct health *h, const char *reason, int64_t at, struct health_transition *ret)
{
	return hold(h, NODE_CORDONED, reason, "cordoned by an operator", at, ret);
}

bool health_drain(struct health *h, const char *reason, int64_t at, struct health_transition *ret)
{
	return hold(h, NODE_DRAINING, reason, "draining, by an operator", at, ret);
}

bool health_uncordon(struct health *h, int64_t at, struct health_policy policy,
		     struct health_transition *ret)
{
	char text[64] = "";

	health_normalize(h);
	if (!node_state_admin_held(h->state))
		return false;

	enum node_state to = justified(h, health_policy_clamp(policy));
	if (to != NODE_READY)
		(void)snprintf(text, sizeof(text), "%" PRId64 " failed probes while it was held",
			       h->consecutive_failures);
	set_reason(h, (struct text_view){text, strlen(text)});
	return move(h, to, at, ret);
}

char *health_transition_text(const char *executor_id, const struct health_transition *t)
{
	bool why = t->reason[0] != '\0';
	char *text = NULL;

	if (asprintf(&text, "%s: %s -> %s%s%s%s", executor_id, node_state_name(t->from),
		     node_state_name(t->to), why ? " (" : "", t->reason, why ? ")" : "") < 0)
		return NULL;
	return text;
}

json_t *health_to_json(const char *executor_id, const struct health *h)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "executor_id", executor_id) < 0 ||
	    json_put_string(o, "state", node_state_name(h->state)) < 0 ||
	    json_put_string_if(o, "reason", h->reason) < 0 ||
	    json_put_int(o, "consecutive_failures", h->consecutive_failures) < 0 ||
	    json_put_time_if(o, "last_seen", h->last_seen) < 0 ||
	    json_put_time_if(o, "last_probe", h->last_probe) < 0 ||
	    json_put_time_if(o, "state_changed_at", h->state_changed_at) < 0)
		return NULL;
	return take_ptr(o);
}
