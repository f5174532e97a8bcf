/*
 * The journal of answered requests: what makes a replayed request run exactly once.
 *
 * A state-changing request is recorded in the transaction that makes its change, with its answer.
 * A new hub that is handed an unanswered request looks here: recorded means committed, so it
 * repeats the answer; absent means that it never happened, so it executes it. A row is dropped by a
 * later transaction, after its reply was written.
 */
#ifndef CLOOP_CORE_STORE_JOURNAL_H
#define CLOOP_CORE_STORE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct store_tx;

struct journal_entry {
	uint64_t mount_id;
	uint64_t unique; /* of the FUSE request, without its top bit */
	uint32_t op;     /* the FUSE operation */
	uint64_t node;
	int32_t code; /* the answer's errno, positive; 0 for success */
	char *answer; /* what a read of the handle gives afterwards; "" when nothing */
};

void journal_entry_clear(struct journal_entry *entry);

/* -EEXIST when the request is recorded already. */
int journal_insert(struct store_tx *tx, const struct journal_entry *entry, struct error *err);

/* 0, or -ENOENT when the request was never committed. Clear *ret afterwards. */
int journal_get(struct store_tx *tx, uint64_t mount_id, uint64_t unique, struct journal_entry *ret,
		struct error *err);

/* Drops the rows of replies that were written; those that are not there do not matter. */
int journal_delete(struct store_tx *tx, uint64_t mount_id, const uint64_t *uniques, size_t n,
		   struct error *err);

/*
 * For the start of a hub: drops the rows of this mount whose requests are not among those that are
 * still unanswered. Somebody else answered them (with EIO, while there was no hub), or the hub died
 * before it dropped them; either way they can never come again. Returns how many.
 */
int journal_keep(struct store_tx *tx, uint64_t mount_id, const uint64_t *uniques, size_t n,
		 struct error *err);

/* Drops what belongs to other mounts: their requests can never come again. Returns how many. */
int journal_purge(struct store_tx *tx, uint64_t mount_id, struct error *err);

#endif
