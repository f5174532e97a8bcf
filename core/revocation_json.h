/*
 * What is shown of a revocation, and what a driver that is elsewhere reports: the reference's
 * RevokeOutcome, RevokeReport and RevokeRequest as JSON, with its names, in its order, what is
 * empty left out. Instants are nanoseconds of real time.
 *
 * A report comes from where hostile code runs. It is bounded and holds names only: something that
 * looks like a variable with its value is refused, for it would put a withdrawn credential into a
 * log.
 */
#ifndef CLOOP_CORE_REVOCATION_JSON_H
#define CLOOP_CORE_REVOCATION_JSON_H

#include <jansson.h>

#include "core/revocation_log.h"

/* One workload and one lease have few of either; this only ends absurd reports. */
#define REVOKE_REPORT_ITEMS_MAX 1024
/* A name of a variable or a handle. */
#define REVOKE_REPORT_NAME_BYTES_MAX 256
/* A sentence. */
#define REVOKE_REPORT_ERROR_BYTES_MAX 512

/* NULL when out of memory. */
json_t *revoke_outcome_to_json(const struct revoke_outcome *o);
json_t *revoke_report_to_json(const struct revoke_report *r);

/*
 * The request for a peer. An action that is not set is left out: whoever reads it then takes it for
 * a scrub. NULL when out of memory.
 */
json_t *revoke_request_to_json(const struct revoke_request *q);

/*
 * Reads what a peer sends: fields that are not known are passed over, a word that is no action is
 * none, and control characters in the error become '?'. EINVAL with the field for a wrong type or
 * what exceeds a bound. The caller clears *ret with revoke_report_clear().
 */
int revoke_report_from_json(json_t *value, const char *path, struct revoke_report *ret,
			    struct error *err);

/* The same for a request. The strings are borrowed from `value`. EINVAL also without a lease. */
int revoke_request_from_json(json_t *value, const char *path, struct revoke_request *ret,
			     struct error *err);

#endif
