#include "core/revocation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/field.h"
#include "core/owner.h"

const char *revoke_action_name(enum revoke_action action)
{
	switch (action) {
	case REVOKE_SCRUB:
		return "scrub";
	case REVOKE_KILL:
		return "kill";
	default:
		return "";
	}
}

enum revoke_action revoke_action_parse(const char *word)
{
	if (strcmp(word, "scrub") == 0)
		return REVOKE_SCRUB;
	return strcmp(word, "kill") == 0 ? REVOKE_KILL : REVOKE_ACTION_UNSET;
}

enum revoke_action revoke_action_effective(enum revoke_action action)
{
	return action == REVOKE_KILL ? REVOKE_KILL : REVOKE_SCRUB;
}

static const char *const state_names[] = {
	[REVOKE_PENDING] = "revoke_pending",
	[REVOKE_REVOKED] = "revoked",
	[REVOKE_UNREACHABLE] = "unreachable",
	[REVOKE_FAILED] = "failed",
};

const char *revoke_state_name(enum revoke_state state)
{
	return state_names[(size_t)state < ARRAY_SIZE(state_names) ? state : REVOKE_FAILED];
}

bool revoke_state_parse(const char *word, enum revoke_state *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(state_names); i++) {
		if (strcmp(state_names[i], word) == 0) {
			*ret = (enum revoke_state)i;
			return true;
		}
	}
	return false;
}

bool revoke_state_terminal(enum revoke_state state)
{
	return state == REVOKE_REVOKED;
}

bool revoke_request_matches(const struct revoke_request *request, const struct secret_binding *b)
{
	const char *lease = text_or_empty(request->lease_id);
	const char *grant = text_or_empty(request->grant_id);

	if (!lease[0] || strcmp(lease, text_or_empty(b->lease_id)) != 0)
		return false;
	return !grant[0] || strcmp(grant, text_or_empty(b->grant_id)) == 0;
}

bool revoker_supports_revocation(const struct revoker *revoker)
{
	return revoker->implemented && revoker->available;
}

/* The names of the secrets, as much of them as a sentence has room for. */
#define DENIED_SECRETS_MAX 16
#define DENIED_NAMES_BYTES_MAX 200

static char *describe(const struct spec *spec, size_t revocable)
{
	const struct secret_binding *found[DENIED_SECRETS_MAX];
	struct buf out = BUF_INIT(4096);
	size_t n = spec_revocable_secrets(spec, found, ARRAY_SIZE(found));

	if (n > ARRAY_SIZE(found))
		n = ARRAY_SIZE(found);
	size_t shown = 0;
	while (shown < n) {
		AUTO_FREE char *name = secret_bindings_describe(found[shown], 1);

		if (!name || out.len + strlen(name) > DENIED_NAMES_BYTES_MAX)
			break;
		buf_printf(&out, "%s%s", shown > 0 ? ", " : "", name);
		shown++;
	}
	if (shown < revocable)
		buf_printf(&out, shown > 0 ? " and %zu more" : "%zu secrets", revocable - shown);
	return buf_take(&out);
}

int revocation_require(const char *executor_id, const char *kind, const struct revoker *revoker,
		       const struct spec *spec, const char **ret_detail, struct error *err)
{
	size_t revocable = spec_revocable_secrets(spec, NULL, 0);
	const char *detail = NULL;
	int r;

	if (revocable == 0 || revoker_supports_revocation(revoker))
		return 0;
	if (revoker->implemented)
		detail = text_or_empty(revoker->detail)[0]
				 ? revoker->detail
				 : "it cannot honour a revocation at this moment";
	AUTO_FREE char *names = describe(spec, revocable);
	r = error_set_kind(err, EOPNOTSUPP, ERROR_REVOCATION_UNSUPPORTED,
			   "executor %s (%s) could not take back %s: %s", executor_id,
			   text_or_empty(kind), names ? names : "the secrets",
			   detail ? detail : "its driver does not implement revocation");
	error_field(err, "secrets");
	error_remedy(err, "use an executor that can revoke, or start without these secrets");
	if (ret_detail)
		*ret_detail = detail;
	return r;
}
