#include "core/redact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"

static size_t count(const char *text, size_t len, struct text_view secret)
{
	const char *end = text + len, *at = text;
	size_t n = 0;

	while ((at = memmem(at, (size_t)(end - at), secret.data, secret.len)) != NULL) {
		at += secret.len;
		n++;
	}
	return n;
}

/* A copy of text with every occurrence of one value masked; NULL when out of memory. */
static char *mask(const char *text, size_t len, struct text_view secret, size_t n, size_t *ret_len)
{
	static const char marker[] = REDACT_MARKER;
	size_t size = len - n * secret.len + n * (sizeof(marker) - 1);
	const char *end = text + len, *at = text, *found;
	char *out = malloc(size + 1), *to = out;

	if (!out)
		return NULL;
	while ((found = memmem(at, (size_t)(end - at), secret.data, secret.len)) != NULL) {
		to = mempcpy(to, at, (size_t)(found - at));
		to = mempcpy(to, marker, sizeof(marker) - 1);
		at = found + secret.len;
	}
	to = mempcpy(to, at, (size_t)(end - at));
	*to = '\0';
	*ret_len = size;
	return out;
}

static void wipe(char *text, size_t len)
{
	if (text)
		explicit_bzero(text, len);
	free(text);
}

int redact_text(const char *text, size_t len, const struct text_view *secrets, size_t n, char **ret,
		size_t *ret_len)
{
	size_t used = len;
	char *out = malloc(len + 1);

	if (!out)
		return -ENOMEM;
	memcpy(out, text, len);
	out[len] = '\0';
	for (size_t i = 0; i < n; i++) {
		size_t found =
			secrets[i].len >= REDACT_MIN_BYTES ? count(out, used, secrets[i]) : 0;
		size_t next_len;

		if (found == 0)
			continue;
		char *next = mask(out, used, secrets[i], found, &next_len);
		wipe(out, used);
		if (!next)
			return -ENOMEM;
		out = next;
		used = next_len;
	}
	*ret = out;
	*ret_len = used;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct text_view *x = a, *y = b;

	if (x->len != y->len)
		return x->len > y->len ? -1 : 1;
	return x->len > 0 ? memcmp(x->data, y->data, x->len) : 0;
}

void redact_sort(struct text_view *secrets, size_t n)
{
	if (n > 1)
		qsort(secrets, n, sizeof(*secrets), compare);
}
