/*
 * How the files that a workload changed get back to the hub.
 *
 *   none    nothing is returned ("" in a spec; the word "none" is refused)
 *   push    the sandbox pushes its branch to the workspace's own origin
 *   bundle  the sandbox makes a git bundle, which travels back over the executor's transport
 *
 * A write-back names no remote and holds no credential: a push goes to the workspace's own repo
 * with the grant that the workspace names.
 *
 * Source of the rules: the reference's WriteBack, ValidateWriteBackBranch and ValidateCommitSHA.
 */
#ifndef CLOOP_CORE_WRITEBACK_H
#define CLOOP_CORE_WRITEBACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* The reference's bounds; lengths are bytes. */
#define MAX_WRITEBACK_BRANCH_LEN 200
#define MAX_WRITEBACK_MESSAGE_LEN 4096
#define DEFAULT_WRITEBACK_BUNDLE_BYTES (INT64_C(32) << 20)
#define MAX_WRITEBACK_BUNDLE_BYTES (INT64_C(128) << 20)
#define MAX_WRITEBACK_COMMITS 1000

/* Every branch a sandbox may write back to lives under this: the hub overwrites the ref. */
#define WRITEBACK_BRANCH_PREFIX "cloop/"

#define COMMIT_SHA_LEN 40

enum writeback_mode {
	WRITEBACK_NONE = 0,
	WRITEBACK_PUSH,
	WRITEBACK_BUNDLE,
	WRITEBACK_UNKNOWN, /* a word that is none of the others; never valid */
};

struct writeback {
	enum writeback_mode mode;
	char *branch;
	char *message;            /* "": one is generated */
	int64_t max_bundle_bytes; /* 0: DEFAULT_WRITEBACK_BUNDLE_BYTES */
};

/* The word ("" for none), and back. */
const char *writeback_mode_name(enum writeback_mode mode);
enum writeback_mode writeback_mode_parse(const char *word);

/* EINVAL, ERROR_INVALID_SPEC; path names the write-back in errors. */
int writeback_validate(const struct writeback *w, const char *path, struct error *err);

bool writeback_is_zero(const struct writeback *w);

/* The largest bundle to accept, never above MAX_WRITEBACK_BUNDLE_BYTES. */
int64_t writeback_bundle_cap(const struct writeback *w);

/* "push cloop/t-1", "bundle cloop/t-1 (at most 33554432 bytes)", "none". Caller frees. */
char *writeback_describe(const struct writeback *w);

/*
 * Checks a branch name as git would, and stricter: it lives under WRITEBACK_BRANCH_PREFIX and does
 * not begin with a dash. Surrounding white space is ignored. The bytes may hold NUL (refused).
 * EINVAL; the name is not quoted.
 */
int writeback_check_branch(const char *branch, size_t len, struct error *err);

/* Checks a full object name: 40 lower-case hexadecimal digits and nothing else. EINVAL. */
int commit_sha_check(const char *sha, size_t len, struct error *err);

/*
 * At most the first twelve bytes, as git abbreviates; what is shorter comes back unchanged, and a
 * code point of something that is no object name is not split. Caller frees.
 */
#define COMMIT_SHA_SHORT_LEN 12
char *commit_sha_short(const char *sha);

/* Reads structure and types; the values are left as written. */
int writeback_from_json(json_t *value, const char *path, struct writeback *ret, struct error *err);
json_t *writeback_to_json(const struct writeback *w);
void writeback_clear(struct writeback *w);

#endif
