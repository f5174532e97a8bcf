/*
 * A driver's record of the leases it has been told to take back, to be replayed and reported.
 *
 * One entry for each (lease, grant), both without surrounding white space. What is still owed is
 * never forgotten; finished entries are dropped, the oldest first, when a new one makes the log
 * longer than MAX_RETAINED_REVOCATIONS. The record of what happened is the audit trail, not this.
 *
 * Belongs to one owner; no locks. Instants are what the caller counts in, 0 is unset.
 *
 * Source: the reference's RevocationLog, RevokeOutcome, RevokeReport.
 */
#ifndef CLOOP_CORE_REVOCATION_LOG_H
#define CLOOP_CORE_REVOCATION_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/owner.h"
#include "core/revocation.h"

#define MAX_RETAINED_REVOCATIONS 512

/* What a driver did. Names only, never values. */
struct revoke_report {
	char *lease_id; /* echoed, as are the next two; a log has them in the outcome */
	char *grant_id;
	enum revoke_action action; /* what was done: a driver may escalate a scrub */
	bool known;                /* it was holding the lease; false is a success too */
	char **env_scrubbed;
	size_t n_env_scrubbed;
	int64_t files_removed;
	bool egress_dropped;
	char **killed; /* handles */
	size_t n_killed;
	char *error; /* "": all of it worked */
};

struct revoke_outcome {
	char *lease_id;
	char *grant_id;
	char *executor_id;
	enum revoke_state state;
	enum revoke_action action;
	char *reason;
	int64_t sent_at;
	int64_t acked_at;
	bool has_ack;
	struct revoke_report ack;
	char *error;
};

struct revocation_log;

/* NULL when out of memory. */
struct revocation_log *revocation_log_new(void);
struct revocation_log *revocation_log_free(struct revocation_log *log);
OWNER_DEFINE(struct revocation_log, revocation_log, revocation_log_free);
#define AUTO_REVOCATION_LOG CLEANUP(owner_revocation_logp)

/*
 * Inserts an entry or refreshes the one there is, without changing one that is revoked. A refresh
 * without a reason, an action, an executor or an instant keeps the old one. Everything is copied.
 * *ret (may be NULL) is the live entry, borrowed until the next call. Returns 0 or -ENOMEM, then
 * nothing has changed.
 */
int revocation_log_record(struct revocation_log *log, const struct revoke_outcome *outcome,
			  const struct revoke_outcome **ret);

/*
 * Applies a driver's report: revoked, or failed when it carries an error. Unknown and revoked
 * entries stay as they are. Returns 0 or -ENOMEM.
 */
int revocation_log_settle(struct revocation_log *log, const char *lease_id, const char *grant_id,
			  const struct revoke_report *ack, int64_t at);

/*
 * Marks an entry as not delivered, also one that was revoked: it will be retried. Unknown entries
 * stay unknown. Returns 0 or -ENOMEM.
 */
int revocation_log_fail(struct revocation_log *log, const char *lease_id, const char *grant_id,
			enum revoke_state state, const char *error);

size_t revocation_log_len(const struct revocation_log *log);

/*
 * Borrowed entries, until the next change: those still owed, oldest first, and all, newest first.
 * Age is sent_at, then the order of insertion. The caller frees the array only. Return -ENOMEM or
 * 0.
 */
int revocation_log_pending(const struct revocation_log *log, const struct revoke_outcome ***ret,
			   size_t *ret_n);
int revocation_log_snapshot(const struct revocation_log *log, const struct revoke_outcome ***ret,
			    size_t *ret_n);

void revoke_report_clear(struct revoke_report *report);

#endif
