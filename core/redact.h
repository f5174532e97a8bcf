/*
 * Masking of secret values in text that leaves the place where they are known.
 *
 * Plain substrings, each replaced by REDACT_MARKER. Values below REDACT_MIN_BYTES are left alone:
 * masking them would tear harmless words apart and nobody would believe the marker any more. For
 * the same reason, where a longer value overlaps one that was masked before it, what remains of the
 * longer one is masked only if it is that long itself ("Basic " before a masked header stays).
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
 * Writes a masked copy of text. Values are sought in the order given, in the text as it is (a
 * marker is never taken for a value). *ret is NUL-terminated and the caller's, who frees it.
 * Returns 0 or -ENOMEM.
 */
int redact_text(const char *text, size_t len, const struct text_view *secrets, size_t n, char **ret,
		size_t *ret_len);

#endif
