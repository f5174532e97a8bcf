/*
 * The event log: the file /cloop/events as rows, one JSON object a line.
 *
 * Each row knows the byte offset of its line, so the file is served by byte range, and grows in the
 * very transaction that it tells about. Lines begin {"seq":N,"at":"…", seq from 1 without end.
 * Pruning drops the oldest lines and happens only at start, before anybody reads: then offset 0 is
 * the first line that is left.
 */
#ifndef CLOOP_CORE_STORE_EVENT_H
#define CLOOP_CORE_STORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct store_tx;

/* What pruning leaves: about 300,000 lines. */
#define EVENT_LOG_BYTES_MAX (INT64_C(64) << 20)

/* A line with an error sentence, a reason and names fits many times. */
#define EVENT_LINE_MAX 65536

/* Rows that one transaction prunes: some ten milliseconds. */
#define EVENT_PRUNE_ROWS 10000

struct event_place {
	int64_t seq;
	int64_t offset_bytes; /* of the line in the file */
	int64_t length_bytes; /* with the newline */
};

/*
 * Appends one event. `object` is the text of a JSON object on one line (json_text()); seq and at_ns
 * are put before its fields. ret may be NULL. Errors: EINVAL when it is not an object on one line,
 * EFBIG above EVENT_LINE_MAX.
 */
int event_append(struct store_tx *tx, int64_t at_ns, const char *object, struct event_place *ret,
		 struct error *err);

/* The size of the file in bytes. */
int event_size(struct store_tx *tx, int64_t *ret_bytes, struct error *err);

/*
 * Copies the bytes from offset on, at most `size` of them: what a read of the file gives. *ret_len
 * is short only at the end of the file. `size` is bounded by what the caller lets a read ask for.
 */
int event_read(struct store_tx *tx, int64_t offset, char *buf, size_t size, size_t *ret_len,
	       struct error *err);

/*
 * Drops oldest lines so that the file has at most max_bytes, at most EVENT_PRUNE_ROWS of them.
 * Returns how many; the caller repeats until 0.
 */
int event_prune(struct store_tx *tx, int64_t max_bytes, struct error *err);

#endif
