/*
 * The host policy on the disk: that workloads without a boundary are forbidden, and who said so.
 *
 * What an operator wrote into policy/host_execution outlives every restart, until the configuration
 * says true in so many words. What the configuration forbids is forbidden for the life of the mount:
 * a hub that takes over goes on forbidding it, whatever the file says then.
 *
 * Functions run on the writer.
 */
#ifndef CLOOP_CORE_POLICY_RECORD_H
#define CLOOP_CORE_POLICY_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/hub_config.h"

struct store_tx;

enum policy_origin {
	POLICY_ALLOWED = 0,
	POLICY_FORBIDDEN_BY_FILE,
	POLICY_FORBIDDEN_BY_HAND,
};

struct policy_record {
	enum policy_origin origin;
	int64_t since_ns; /* when it was forbidden; 0: it is allowed */
};

/*
 * For the start of a hub: what holds, given what the configuration says. mount_id is that of the
 * present mount; the first hub of a mount is the one that may loosen.
 */
int policy_record_begin(struct store_tx *tx, uint64_t mount_id, enum host_process configured,
			int64_t now_ns, struct policy_record *ret, struct error *err);

/* Forbids. A denial by hand is not turned into one by the file. */
int policy_record_forbid(struct store_tx *tx, enum policy_origin by, int64_t now_ns,
			 struct error *err);

#endif
