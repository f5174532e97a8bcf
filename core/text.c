#include "core/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void text_ellipsis(char *buf, size_t size)
{
	static const char dots[] = "\xe2\x80\xa6";

	if (size < sizeof(dots)) {
		if (size > 0)
			buf[size - 1] = '\0';
		return;
	}
	size_t end = size - sizeof(dots);
	while (end > 0 && ((unsigned char)buf[end] & 0xc0) == 0x80)
		end--;
	memcpy(buf + end, dots, sizeof(dots));
}

void text_one_line(char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f)
			*s = '?';
	}
}

size_t text_utf8_length(const unsigned char *s, size_t n, bool *ret_partial)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t need;

	if (ret_partial)
		*ret_partial = false;
	if (n == 0)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		need = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		need = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		need = 4;
	else
		return 0;
	/* Only the second byte has a narrower range: overlong forms, surrogates, the upper end. */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < need; i++) {
		if (i == n) {
			if (ret_partial)
				*ret_partial = true;
			return 0;
		}
		if (s[i] < low || s[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return need;
}

bool text_utf8_valid(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;

	for (size_t i = 0; i < n;) {
		size_t len = text_utf8_length(p + i, n - i, NULL);

		if (len == 0)
			return false;
		i += len;
	}
	return true;
}

/* What a byte that begins no code point is taken for: above all of them, so equal to itself only.
 */
#define MALFORMED 0x110000U

/* The code point at the start of v, which is not empty; *ret_len is its length, at least 1. */
static uint32_t decode(struct text_view v, size_t *ret_len)
{
	const unsigned char *s = (const unsigned char *)v.data;
	size_t len = text_utf8_length(s, v.len, NULL);
	uint32_t cp = MALFORMED + s[0];

	*ret_len = len > 0 ? len : 1;
	if (len == 1)
		return s[0];
	if (len > 1)
		cp = s[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++)
		cp = cp << 6 | (s[i] & 0x3fU);
	return cp;
}

static uint32_t lower(uint32_t cp)
{
	if ((cp >= 'A' && cp <= 'Z') || (cp >= 0xc0 && cp <= 0xde && cp != 0xd7))
		return cp + 0x20;
	if (cp == 0x212a) /* Kelvin sign */
		return 'k';
	return cp == 0x130 ? 'i' : cp; /* capital I with a dot */
}

/* What is equal when case does not matter. The dotted I is no form of i, the long s one of s. */
static uint32_t fold(uint32_t cp)
{
	if (cp == 0x130)
		return cp;
	return cp == 0x17f ? 's' : lower(cp);
}

bool text_equal_fold(struct text_view a, struct text_view b)
{
	while (a.len > 0 && b.len > 0) {
		size_t na, nb;

		if (fold(decode(a, &na)) != fold(decode(b, &nb)))
			return false;
		a = (struct text_view){a.data + na, a.len - na};
		b = (struct text_view){b.data + nb, b.len - nb};
	}
	return a.len == b.len;
}

size_t text_lower_prefix(struct text_view v, const char *prefix)
{
	size_t used = 0;

	for (; *prefix; prefix++) {
		size_t n;

		if (used == v.len)
			return 0;
		if (lower(decode((struct text_view){v.data + used, v.len - used}, &n)) !=
		    (unsigned char)*prefix)
			return 0;
		used += n;
	}
	return used;
}

/* Length of the white space code point at s, 0 when there is none (Unicode White_Space). */
static size_t space_length(const unsigned char *s, size_t n)
{
	size_t len = text_utf8_length(s, n, NULL);
	uint32_t cp;

	switch (len) {
	case 1:
		return s[0] == ' ' || (s[0] >= '\t' && s[0] <= '\r') ? 1 : 0;
	case 2:
		cp = ((uint32_t)(s[0] & 0x1f) << 6) | (s[1] & 0x3f);
		return cp == 0x85 || cp == 0xa0 ? 2 : 0;
	case 3:
		cp = ((uint32_t)(s[0] & 0x0f) << 12) | ((uint32_t)(s[1] & 0x3f) << 6) |
		     (s[2] & 0x3f);
		return cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 ||
				       cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000
			       ? 3
			       : 0;
	default:
		return 0;
	}
}

struct text_view text_trim(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t start = 0, end = len, n;

	while (start < end && (n = space_length(p + start, end - start)) > 0)
		start += n;
	for (;;) {
		/* White space is one to three bytes long: try each length that ends here. */
		size_t cut = 0;

		for (size_t k = 1; k <= 3 && k <= end - start && cut == 0; k++)
			if (space_length(p + end - k, k) == k)
				cut = k;
		if (cut == 0)
			break;
		end -= cut;
	}
	return (struct text_view){.data = s + start, .len = end - start};
}

char *text_trim_dup(const char *s)
{
	struct text_view v = text_trim(s, strlen(s));

	return strndup(v.data, v.len);
}
