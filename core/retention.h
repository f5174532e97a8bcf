/*
 * Retention: which finished sessions are forgotten, and forgetting them, a few at a time.
 *
 * A session goes when it ended long enough ago, or when there are too many finished ones; the one that
 * ended first goes first. A session that has only just ended is left alone by both, as somebody may
 * still be told of its end. Finding out reads an index: as many entries as are to be kept, at most.
 *
 * Functions run on the writer.
 */
#ifndef CLOOP_CORE_RETENTION_H
#define CLOOP_CORE_RETENTION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

struct store_tx;

/* So many in one commit: others wait behind it for some milliseconds at most. */
#define RETENTION_BATCH 64

/* How long a session is left alone after its end. */
#define RETENTION_SETTLE_NS (INT64_C(10) * 1000000000)

struct retention_rule {
	int64_t now_ns;
	int64_t age_ns; /* ended longer ago: goes */
	int64_t count;  /* more finished ones: the oldest go */
	uid_t uid;      /* who is named in the events */
};

struct retention_batch {
	struct retention_gone {
		int64_t serial;
		char *name;
	} gone[RETENTION_BATCH];
	size_t n;
};

/*
 * Forgets up to RETENTION_BATCH sessions in one transaction: rows, folders to be removed (session_doom()),
 * and an event each. A full batch says that there may be more.
 */
int retention_apply(struct store_tx *tx, const struct retention_rule *rule, struct retention_batch *ret,
		    struct error *err);

void retention_batch_clear(struct retention_batch *b);

#endif
