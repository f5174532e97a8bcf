/*
 * Errors: one contract for the whole project.
 *
 * A function that can fail returns 0 (or a count) or a negative errno, and fills `struct error`
 * once, where the input is known: which field, what is wrong, and what to do about it. Callers
 * pass it on and do not rewrite it. A caller that does not care passes NULL. Results are left
 * untouched on failure.
 *
 * `kind` tells apart what one errno cannot: it is the reference's set of sentinel errors, which
 * callers branch on.
 *
 * No sentence may contain the value of an environment variable, of a secret, or of a credential.
 */
#ifndef CLOOP_CORE_ERROR_H
#define CLOOP_CORE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* Lengths include the terminating NUL. A longer text is cut at a UTF-8 boundary with an ellipsis. */
#define ERROR_REASON_MAX 512
#define ERROR_FIELD_MAX 128
#define ERROR_REMEDY_MAX 256

/* The reference's sentinel errors (`Variables`). ERROR_KIND_NONE: nothing more than the errno. */
enum error_kind {
	ERROR_KIND_NONE = 0,
	ERROR_HANDLE_NOT_FOUND,
	ERROR_EXECUTOR_NOT_FOUND,
	ERROR_ALREADY_REGISTERED,
	ERROR_NO_DEFAULT,
	ERROR_INVALID_SPEC,
	ERROR_INVALID_SIGNAL,
	ERROR_UNSUPPORTED,
	ERROR_HOST_EXECUTION_DENIED,
	ERROR_NO_PLACEMENT,
	ERROR_SESSION_CLAIM_LOST,
	ERROR_DRAIN_TIMEOUT,
	ERROR_BINDINGS_UNRESOLVED,
	ERROR_REVOCATION_UNSUPPORTED,
	ERROR_WORKSPACE_GRANT_MISSING,
	ERROR_WORKSPACE_UNAVAILABLE,
	ERROR_WRITEBACK_REJECTED,
	ERROR_WRITEBACK_UNAVAILABLE,
};

struct error {
	int code;                      /* positive errno; 0 when nothing failed */
	enum error_kind kind;
	char reason[ERROR_REASON_MAX]; /* one sentence, no newline */
	char field[ERROR_FIELD_MAX];   /* path of the offending field, "" when there is none */
	char remedy[ERROR_REMEDY_MAX]; /* what to do, "" when there is nothing specific */
};

/*
 * Fills err (when not NULL) with errno `code` (positive) and a formatted sentence, clearing kind,
 * field and remedy. Control characters in the sentence are replaced by '?', so that a hostile name
 * cannot break the one-line contract. Returns -code.
 */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Like error_set() with a sentinel. */
int error_set_kind(struct error *err, int code, enum error_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Adds the field path or the remedy to an error that was set. Accept NULL. */
void error_field(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void error_remedy(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The out-of-memory refusal: returns -ENOMEM. */
int error_oom(struct error *err);

/* The symbolic name of a positive errno ("EINVAL"), "E?" when unknown. Static storage. */
const char *error_name(int code);

/*
 * The sentence a person reads: "field: reason; remedy", parts that are empty left out. Writes at
 * most size bytes with a NUL; returns the length written.
 */
size_t error_sentence(const struct error *err, char *buf, size_t size);

#endif
