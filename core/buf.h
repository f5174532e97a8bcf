/*
 * A growing byte buffer that is created with its maximum.
 *
 * Appending past the maximum, or when memory runs out, sets a sticky error and appends nothing
 * more, so that a renderer appends freely and asks once at the end.
 */
#ifndef CLOOP_CORE_BUF_H
#define CLOOP_CORE_BUF_H

#include <stddef.h>

struct buf {
	char *data; /* NUL-terminated whenever not NULL */
	size_t len;
	size_t cap;
	size_t max; /* bytes, without the NUL */
	int failed; /* 0, -ENOMEM, or -EFBIG when the maximum was reached */
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

void buf_append(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Forgets the content and the error, keeps the memory. */
void buf_reset(struct buf *b);

/* Hands the memory to the caller (NULL when nothing was appended) and resets the buffer. */
char *buf_take(struct buf *b);

/* Frees the memory; the buffer can be used again. Fits __attribute__((cleanup)). */
void buf_free(struct buf *b);

#define AUTO_BUF __attribute__((cleanup(buf_free)))

#endif
