/*
 * Small operations on text that comes from outside.
 */
#ifndef CLOOP_CORE_TEXT_H
#define CLOOP_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Ends a buffer that was filled to its last byte with an ellipsis, never splitting a code point. */
void text_ellipsis(char *buf, size_t size);

/* Replaces every control character (below 0x20, and 0x7f) by '?'. */
void text_one_line(char *s);

/*
 * The length in bytes of the well-formed UTF-8 sequence at s (1 to 4), 0 when the bytes are not
 * one. Overlong forms, surrogates and values above U+10FFFF are malformed. When the n bytes are a
 * proper prefix of a well-formed sequence, *ret_partial is true.
 */
size_t text_utf8_length(const unsigned char *s, size_t n, bool *ret_partial);

/* Whether all n bytes are well-formed UTF-8. */
bool text_utf8_valid(const char *s, size_t n);

/*
 * A view of s without leading and trailing white space (ASCII white space, and what Unicode calls
 * so: the reference trims with strings.TrimSpace). Nothing is copied.
 */
struct text_view {
	const char *data;
	size_t len;
};
struct text_view text_trim(const char *s, size_t len);

/*
 * Whether two texts are the same when case does not matter, as the reference compares names
 * (strings.EqualFold), for the letters that names are made of: ASCII and Latin-1, with the Kelvin
 * sign and the long s, which fold to k and s. Everything else is compared as it is.
 */
bool text_equal_fold(struct text_view a, struct text_view b);

/*
 * The number of bytes at the start of v that are `prefix`, which is ASCII, when v is put in lower
 * case (as strings.ToLower does: the Kelvin sign becomes k, a dotted capital I becomes i); 0 when v
 * does not begin so.
 */
size_t text_lower_prefix(struct text_view v, const char *prefix);

/* A trimmed, NUL-terminated copy; NULL when out of memory. */
char *text_trim_dup(const char *s);

#endif
