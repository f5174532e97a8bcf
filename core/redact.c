#include "core/redact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"

/* What a byte of the text is. */
enum {
	PLAIN = 0,
	MASK_BEGIN, /* first byte of what one marker replaces */
	MASK_REST,
};

static void mask(unsigned char *map, size_t from, size_t to)
{
	map[from] = MASK_BEGIN;
	memset(map + from + 1, MASK_REST, to - from - 1);
}

/* Masks an occurrence, or what an earlier value left of it. */
static void claim(unsigned char *map, size_t from, size_t to)
{
	size_t start = from;

	while (start < to) {
		size_t end = start;

		while (end < to && map[end] == PLAIN)
			end++;
		if (end - start >= REDACT_MIN_BYTES)
			mask(map, start, end);
		start = end + 1;
	}
}

int redact_text(const char *text, size_t len, const struct text_view *secrets, size_t n, char **ret,
		size_t *ret_len)
{
	static const char marker[] = REDACT_MARKER;
	AUTO_FREE unsigned char *map = calloc(1, len + 1);
	size_t size = 0, used = 0;

	if (!map)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *at = text;

		if (secrets[i].len < REDACT_MIN_BYTES)
			continue;
		while ((at = memmem(at, len - (size_t)(at - text), secrets[i].data,
				    secrets[i].len)) != NULL) {
			size_t from = (size_t)(at - text);

			claim(map, from, from + secrets[i].len);
			at += secrets[i].len;
		}
	}
	for (size_t i = 0; i < len; i++)
		size += map[i] == PLAIN ? 1 : map[i] == MASK_BEGIN ? sizeof(marker) - 1 : 0;
	char *out = malloc(size + 1);
	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		if (map[i] == PLAIN) {
			out[used++] = text[i];
		} else if (map[i] == MASK_BEGIN) {
			memcpy(out + used, marker, sizeof(marker) - 1);
			used += sizeof(marker) - 1;
		}
	}
	out[used] = '\0';
	*ret = out;
	*ret_len = used;
	return 0;
}
