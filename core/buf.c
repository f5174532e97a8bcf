#include "core/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` bytes and a NUL. */
static int reserve(struct buf *b, size_t more)
{
	if (b->failed)
		return b->failed;
	if (more > b->max || b->len > b->max - more)
		return b->failed = -EFBIG;

	size_t need = b->len + more + 1;
	if (need <= b->cap)
		return 0;

	size_t cap = b->cap ? b->cap : 64;
	while (cap < need)
		cap *= 2;
	if (cap > b->max + 1)
		cap = b->max + 1;

	char *data = realloc(b->data, cap);
	if (!data)
		return b->failed = -ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
	if (reserve(b, len) < 0)
		return;
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || reserve(b, (size_t)n) < 0)
		return;

	va_start(ap, fmt);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = 0;
	if (b->data)
		b->data[0] = '\0';
}

char *buf_take(struct buf *b)
{
	char *data = b->data;

	b->data = NULL;
	b->len = b->cap = 0;
	b->failed = 0;
	return data;
}

void buf_free(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
	b->failed = 0;
}
