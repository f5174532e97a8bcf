/*
 * Taking a lease's material back from workloads that run: what is asked, what came of it, and who
 * may be given such material at all.
 *
 * Source: the reference's RevokeRequest, RevokeAction, RevokeState, RevokeReport, RevokeOutcome,
 * RequireRevocable, SupportsRevocation and RevocationDeniedError.
 */
#ifndef CLOOP_CORE_REVOCATION_H
#define CLOOP_CORE_REVOCATION_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/secret.h"
#include "core/spec.h"

enum revoke_action {
	REVOKE_ACTION_UNSET = 0, /* nothing, or a word that is none of the others */
	REVOKE_SCRUB,            /* invalidate the material, let the workload run on */
	REVOKE_KILL,             /* scrub, and end every workload that holds it */
};

const char *revoke_action_name(enum revoke_action action);
enum revoke_action revoke_action_parse(const char *word);

/* What to do: scrub unless a kill was asked for in so many words. It does not destroy work. */
enum revoke_action revoke_action_effective(enum revoke_action action);

enum revoke_state {
	REVOKE_PENDING = 0, /* "revoke_pending": on its way or queued */
	REVOKE_REVOKED,     /* the driver reported what it took back; the only final one */
	REVOKE_UNREACHABLE, /* the executor is offline, the material still out there */
	REVOKE_FAILED,
};

const char *revoke_state_name(enum revoke_state state);

/* Returns false, leaving *ret alone, for a word that is no state. */
bool revoke_state_parse(const char *word, enum revoke_state *ret);
bool revoke_state_terminal(enum revoke_state state);

/* Borrowed strings. */
struct revoke_request {
	const char *lease_id; /* required: a request without one matches nothing */
	const char *grant_id; /* "": everything the lease delivered */
	const char *reason;
	enum revoke_action action;
};

/*
 * Whether a binding is in scope: the same lease, and the same grant unless the request names none.
 * Ids are compared as they are.
 */
bool revoke_request_matches(const struct revoke_request *request, const struct secret_binding *b);

/* How a driver stands to revocation at this moment. */
struct revoker {
	bool implemented;   /* the driver has revocation at all */
	bool available;     /* and could honour one now */
	const char *detail; /* why not, for people; may be NULL */
};

bool revoker_supports_revocation(const struct revoker *revoker);

/*
 * Refuses a spec with revocable bindings on an executor that cannot take them back: EOPNOTSUPP,
 * ERROR_REVOCATION_UNSUPPORTED, naming the secrets. A spec without any passes everywhere.
 * *ret_detail (may be NULL) is the driver's own reason, borrowed, NULL when the driver does not
 * implement revocation; it is set on a refusal only.
 */
int revocation_require(const char *executor_id, const char *kind, const struct revoker *revoker,
		       const struct spec *spec, const char **ret_detail, struct error *err);

#endif
