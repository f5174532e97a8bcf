/*
 * Which running workloads hold the material of which lease, so that a revocation knows whom to
 * reach.
 *
 * A handle whose bindings nobody wrote down, or that cannot be read, is unresolved: it may hold any
 * lease. While there is one, lease_index_holds() answers true for every lease and a revocation must
 * report a failure, because "I do not know" has to reach the operator as something else than
 * "revoked". Only what is known is listed, so whoever enumerates leases also asks for the
 * unresolved handles.
 *
 * Only revocable bindings are kept: names and paths, no values. Belongs to one owner; no locks.
 *
 * Source: the reference's LeaseIndex.
 */
#ifndef CLOOP_CORE_LEASE_H
#define CLOOP_CORE_LEASE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/handle_record.h"
#include "core/owner.h"
#include "core/revocation.h"
#include "core/secret.h"

struct lease_index;

/* NULL when out of memory. */
struct lease_index *lease_index_new(void);
struct lease_index *lease_index_free(struct lease_index *index);
OWNER_DEFINE(struct lease_index, lease_index, lease_index_free);
#define AUTO_LEASE_INDEX CLEANUP(owner_lease_indexp)

/*
 * Records with what a handle was started, in place of what was known of it, and ends its being
 * unresolved, also when nothing is revocable; then what was known before is kept, since forgetting
 * a holder is the dangerous direction. Copies. Returns 0 or -ENOMEM, then nothing has changed.
 */
int lease_index_bind(struct lease_index *index, const char *handle_id,
		     const struct secret_binding *bindings, size_t n);

/*
 * Restores a handle from its record: binds it when the record's secrets are an answer, marks it
 * unresolved when nobody wrote them down. Returns 0 or -ENOMEM.
 */
int lease_index_adopt(struct lease_index *index, const struct handle_record *record);

/* Returns 0 or -ENOMEM. */
int lease_index_mark_unresolved(struct lease_index *index, const char *handle_id,
				const char *reason);

/* Forgets a handle that has ended. */
void lease_index_release(struct lease_index *index, const char *handle_id);

bool lease_index_holds(const struct lease_index *index, const char *lease_id);

/* What is known, sorted; the caller frees with strlist_free(). Return 0 or -ENOMEM. */
int lease_index_leases(const struct lease_index *index, char ***ret, size_t *ret_n);
int lease_index_unresolved(const struct lease_index *index, char ***ret, size_t *ret_n);

/* Why a handle is unresolved, NULL when it is not. Borrowed until the next change. */
const char *lease_index_unresolved_reason(const struct lease_index *index, const char *handle_id);

/*
 * 0 when every handle is accounted for; otherwise EUCLEAN, ERROR_BINDINGS_UNRESOLVED, naming the
 * first ones.
 */
int lease_index_unresolved_error(const struct lease_index *index, struct error *err);

/* A handle with the bindings that a request covers; borrowed until the next change. */
struct lease_holder {
	const char *handle_id;
	const struct secret_binding **bindings;
	size_t n_bindings;
};

/* By handle id. Free with lease_holders_free(). Returns 0 or -ENOMEM. */
int lease_index_holders(const struct lease_index *index, const struct revoke_request *request,
			struct lease_holder **ret, size_t *ret_n);
struct lease_holder *lease_holders_free(struct lease_holder *holders, size_t n);

#endif
