/*
 * Between text and values, with a library that does not look after its memory.
 *
 * Reading: jansson does not expect to be refused memory while it collects a token: it leaves out
 * the byte, and when that was the closing quote, reads and writes past the end. So it is never
 * refused any: a reserve that was taken before serves what malloc() does not, and the text ends
 * there and then.
 *
 * Writing: it goes on after a key that did not fit in. So the buffer is ours, and remembers.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"

/* So little is still read after the end of memory. */
#define CHUNK_BYTES 64
/*
 * What the parser can ask for until it sees the end: the values of one chunk, and for each byte of
 * the text what the largest token, array and object are when they double (4, 8 and 13 bytes).
 * Hardly ever touched.
 */
#define RESERVE_BYTES ((size_t)16 * 1024)
#define RESERVE_BYTES_PER_BYTE 32

struct reading {
	const char *text;
	size_t left;
	char *reserve;
	size_t size, used;
	bool refused; /* the reserve is in use: whatever is read is thrown away */
};

/* What this thread reads at the moment: the library's allocator has no argument for it. */
static _Thread_local struct reading *reading;

static void *get_memory(size_t size)
{
	void *p = malloc(size);
	struct reading *r = reading;

	if (p || !r)
		return p;
	size_t aligned = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);

	r->refused = true;
	if (aligned < size || aligned > r->size - r->used)
		return NULL;
	p = r->reserve + r->used;
	r->used += aligned;
	return p;
}

static void put_memory(void *p)
{
	/* Nothing of the reserve outlives the reading. */
	if (reading && (uintptr_t)p - (uintptr_t)reading->reserve < reading->size)
		return;
	free(p);
}

/* Before there are threads. */
static void __attribute__((constructor)) take_allocator(void)
{
	json_set_alloc_funcs(get_memory, put_memory);
}

static size_t next_chunk(void *buffer, size_t size, void *data)
{
	struct reading *r = data;
	size_t n = r->left < size ? r->left : size;

	if (n > CHUNK_BYTES)
		n = CHUNK_BYTES;
	if (r->refused || n == 0)
		return 0;
	memcpy(buffer, r->text, n);
	r->text += n;
	r->left -= n;
	return n;
}

int json_read(const char *text, size_t len, size_t flags, json_t **ret, json_error_t *je)
{
	struct reading r = {.text = text, .left = len};

	if (len > (SIZE_MAX - RESERVE_BYTES) / RESERVE_BYTES_PER_BYTE)
		return -ENOMEM;
	r.size = RESERVE_BYTES + len * RESERVE_BYTES_PER_BYTE;
	AUTO_FREE char *reserve = r.reserve = malloc(r.size);
	if (!reserve)
		return -ENOMEM;
	reading = &r;
	json_t *value = json_load_callback(next_chunk, &r, flags, je);
	if (r.refused)
		json_decref(value);
	reading = NULL;
	if (r.refused)
		return -ENOMEM;
	if (!value)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int append(const char *text, size_t len, void *data)
{
	struct buf *out = data;

	buf_append(out, text, len);
	return out->failed;
}

char *json_write(const json_t *value, size_t flags)
{
	AUTO_BUF struct buf out = BUF_INIT(SIZE_MAX / 2);

	if (json_dump_callback(value, append, &out, flags) < 0 || out.failed)
		return NULL;
	return buf_take(&out);
}

char *json_text(const json_t *value)
{
	return json_write(value, JSON_COMPACT | JSON_ENCODE_ANY);
}
