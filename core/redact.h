/*
 * Masking of secret values in text that leaves the place where they are known.
 *
 * Plain substrings, each replaced by REDACT_MARKER. Values below REDACT_MIN_BYTES are left alone:
 * masking them would tear harmless words apart and nobody would believe the marker any more.
 *
 * One value is sought after the other, in the text that the one before left. So a value that holds
 * another one must come before it, or what surrounds the shorter one stays readable: whoever
 * gathers values of several origins calls redact_sort() first.
 *
 * Source: the reference's RedactSecrets.
 */
#ifndef CLOOP_CORE_REDACT_H
#define CLOOP_CORE_REDACT_H

#include <stddef.h>

#include "core/text.h"

#define REDACT_MARKER "[redacted]"
#define REDACT_MIN_BYTES 8

/*
 * Writes a masked copy of text. *ret is NUL-terminated and the caller's, who frees it. What was
 * used on the way is wiped. Returns 0 or -ENOMEM.
 */
int redact_text(const char *text, size_t len, const struct text_view *secrets, size_t n, char **ret,
		size_t *ret_len);

/* Puts the longest value first; values of one length are in the order of their bytes. */
void redact_sort(struct text_view *secrets, size_t n);

#endif
