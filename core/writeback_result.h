/*
 * What comes back about a write-back: metadata only, and hostile.
 *
 * A sandbox whose only way out is its output prints one line, the sentinel, with the result as
 * JSON. The workload shares that output and can print lines of its own, but not after it has ended:
 * the last well-formed line is taken. It says where to look, never what is true.
 *
 * Source: the reference's WriteBackResult, MarshalWriteBackSentinel and ScanWriteBackSentinel. The
 * bytes of the line are those of the reference: field order, what is empty left out, and its JSON
 * escapes (<, >, & and the two line separators as \uXXXX).
 */
#ifndef CLOOP_CORE_WRITEBACK_RESULT_H
#define CLOOP_CORE_WRITEBACK_RESULT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

#define WRITEBACK_SENTINEL "##cloop-writeback-v1##"
/* The JSON after the prefix. A longer line is not written, and passed over when read. */
#define MAX_WRITEBACK_SENTINEL_BYTES 8192

struct writeback_result {
	char *mode; /* as reported: check it with writeback_mode_parse() */
	char *branch;
	char *commit_sha;
	char *base_sha;
	bool pushed;
	int64_t bundle_bytes;
	char *bundle_sha256;
	int64_t commits;
	int64_t files_changed;
	bool skipped; /* there was nothing to write back: an outcome, not a failure */
	char *skip_reason;
	char *error; /* already redacted */
};

/* Whether there is a commit that the hub can act on. NULL is none. */
bool writeback_result_delivered(const struct writeback_result *r);

/* For a log or an event row. Caller frees; NULL when out of memory. */
char *writeback_result_describe(const struct writeback_result *r);

/*
 * The line to print, without a newline. Errors: EFBIG when its JSON is larger than
 * MAX_WRITEBACK_SENTINEL_BYTES. Caller frees *ret.
 */
int writeback_sentinel_make(const struct writeback_result *r, char **ret, struct error *err);

/*
 * Finds the last well-formed sentinel line. Returns 1 and fills *ret, 0 when there is none, or
 * -ENOMEM. White space before the prefix and around the JSON is allowed.
 */
int writeback_sentinel_scan(const char *output, size_t len, struct writeback_result *ret);

/* The reference's object, empty fields left out. NULL when out of memory. */
json_t *writeback_result_to_json(const struct writeback_result *r);

/*
 * Reads it as the reference does, for what a peer sends: unknown fields are passed over, wrong
 * types refused with EINVAL.
 */
int writeback_result_from_json(json_t *value, struct writeback_result *ret, struct error *err);

void writeback_result_clear(struct writeback_result *r);
#define AUTO_WRITEBACK_RESULT CLEANUP(writeback_result_clear)

#endif
