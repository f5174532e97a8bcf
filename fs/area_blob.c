#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/area_internal.h"

/* --- blobs ---------------------------------------------------------------------------------- */

static char *chunk_data(const struct area *a, uint32_t chunk)
{
	return a->base + OFF_CHUNKS + (size_t)chunk * AREA_CHUNK;
}

struct share *area_share_of(struct area *a, uid_t uid)
{
	struct share **bucket = &a->shares[uid % SHARE_BUCKETS];

	for (struct share *s = *bucket; s; s = s->next)
		if (s->uid == uid)
			return s;
	struct share *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->uid = uid;
	s->next = *bucket;
	*bucket = s;
	return s;
}

/* Takes n chunks off the pool for uid, chained in front of nothing. */
static int chunks_take(struct area *a, uid_t uid, size_t n, uint32_t *ret_head, uint32_t *ret_tail)
{
	struct share *s = area_share_of(a, uid);

	if (!s)
		return -ENOSPC;
	size_t reserve = uid == 0 ? 0 : AREA_CHUNKS_RESERVE;
	if (n + reserve > a->n_free_chunks || (uid != 0 && s->chunks + n > AREA_CHUNKS_PER_UID))
		return -ENOSPC;

	uint32_t head = 0, tail = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t chunk = a->free_chunks[--a->n_free_chunks];

		a->next[chunk] = head;
		head = chunk;
		if (i == 0)
			tail = chunk;
	}
	s->chunks += (uint32_t)n;
	*ret_head = head;
	*ret_tail = tail;
	return 0;
}

static void chunks_give_back(struct area *a, uid_t uid, uint32_t head)
{
	struct share *s = area_share_of(a, uid);

	while (head) {
		uint32_t next = a->next[head];

		a->free_chunks[a->n_free_chunks++] = head;
		if (s && s->chunks > 0)
			s->chunks--;
		head = next;
	}
}

int area_blob_set(struct area *a, struct area_blob *blob, uid_t uid, const void *data, size_t len)
{
	uint32_t head = 0, tail = 0, old = blob->head;

	if (len > 0) {
		if (len > UINT32_MAX)
			return -ENOSPC;
		int r = chunks_take(a, uid, chunks_for(len), &head, &tail);
		if (r < 0)
			return r;
		const char *from = data;
		size_t left = len;
		for (uint32_t c = head; left > 0; c = a->next[c]) {
			size_t n = left < AREA_CHUNK ? left : AREA_CHUNK;

			memcpy(chunk_data(a, c), from, n);
			from += n;
			left -= n;
		}
	}
	/* Killed between these, the blob is empty: never new bytes with an old length. */
	publish32(&blob->len, 0);
	publish32(&blob->head, head);
	publish32(&blob->len, (uint32_t)len);
	chunks_give_back(a, uid, old);
	return 0;
}

size_t area_blob_read(const struct area *a, const struct area_blob *blob, size_t off, void *data,
		      size_t len)
{
	if (off >= blob->len)
		return 0;
	if (len > blob->len - off)
		len = blob->len - off;

	uint32_t c = blob->head;
	for (size_t skip = off / AREA_CHUNK; skip > 0; skip--)
		c = a->next[c];
	size_t at = off % AREA_CHUNK, done = 0;
	while (done < len) {
		size_t n = AREA_CHUNK - at;

		if (n > len - done)
			n = len - done;
		memcpy((char *)data + done, chunk_data(a, c) + at, n);
		done += n;
		at = 0;
		c = a->next[c];
	}
	return len;
}

void area_blob_clear(struct area *a, struct area_blob *blob, uid_t uid)
{
	uint32_t head = blob->head;

	publish32(&blob->len, 0);
	publish32(&blob->head, 0);
	chunks_give_back(a, uid, head);
}

/* --- handles -------------------------------------------------------------------------------- */

struct area_handle *area_handle_new(struct area *a, uint64_t node, uid_t uid)
{
	struct share *share = area_share_of(a, uid);
	uint32_t reserve = uid == 0 ? 0 : AREA_HANDLES_RESERVE;

	if (!share || a->n_free_handles <= reserve ||
	    (uid != 0 && share->handles >= AREA_HANDLES_PER_UID))
		return NULL;
	share->handles++;
	uint32_t i = a->free_handles[--a->n_free_handles];
	struct area_handle *h = &a->handles[i];
	uint64_t sequence = a->header->next_fh;

	publish64(&a->header->next_fh, sequence + 1);
	memset(h, 0, sizeof(*h));
	h->fh = sequence * AREA_HANDLES + i;
	h->node = node;
	h->uid = uid;
	return h;
}

void area_handle_publish(struct area *a, struct area_handle *h, uint64_t open_unique)
{
	h->open_unique = open_unique;
	publish64(&a->open[handle_index(h->fh)], h->fh);
}

struct area_handle *area_handle_get(struct area *a, uint64_t fh)
{
	uint32_t i = handle_index(fh);

	return fh != 0 && a->open[i] == fh ? &a->handles[i] : NULL;
}

struct area_handle *area_handle_of_open(struct area *a, uint64_t open_unique)
{
	for (uint32_t i = 0; i < AREA_HANDLES; i++)
		if (a->open[i] && a->handles[i].open_unique == open_unique)
			return &a->handles[i];
	return NULL;
}

void area_handle_drop(struct area *a, struct area_handle *h)
{
	uint32_t i = handle_index(h->fh);

	struct share *share = area_share_of(a, h->uid);

	publish64(&a->open[i], 0);
	if (share && share->handles > 0)
		share->handles--;
	chunks_give_back(a, h->uid, h->more_groups.head);
	chunks_give_back(a, h->uid, h->doc.head);
	chunks_give_back(a, h->uid, h->text.head);
	h->fh = 0;
	a->free_handles[a->n_free_handles++] = i;
}

void area_handle_each(struct area *a, void (*fn)(struct area_handle *h, void *user), void *user)
{
	for (uint32_t i = 0; i < AREA_HANDLES; i++)
		if (a->open[i])
			fn(&a->handles[i], user);
}

size_t area_handle_count(const struct area *a)
{
	return AREA_HANDLES - a->n_free_handles;
}

int area_document_append(struct area *a, struct area_handle *h, uint64_t unique, const void *data,
			 size_t len)
{
	if (h->pending_unique == unique)
		return 0;
	if (len > UINT32_MAX - h->doc.len)
		return -ENOSPC;
	/*
	 * The previous WRITE was answered, or this one would not be here. Forgotten first: its
	 * length would otherwise be taken for the document's when this append is cut short.
	 */
	publish64(&h->pending_unique, 0);

	size_t have = chunks_for(h->doc.len), need = chunks_for(h->doc.len + len);
	uint32_t last = h->doc.head;
	for (size_t i = 1; i < have; i++)
		last = a->next[last];
	if (need > have) {
		uint32_t head, tail;
		int r = chunks_take(a, h->uid, need - have, &head, &tail);

		if (r < 0)
			return r;
		/*
		 * A chain that is longer than the document is harmless: the next process frees the
		 * chunks behind the last used one, and this one uses them now.
		 */
		if (have == 0)
			publish32(&h->doc.head, head);
		else
			publish32(&a->next[last], head);
		if (have == 0)
			last = head;
	}

	const char *from = data;
	size_t left = len, at = h->doc.len % AREA_CHUNK;
	uint32_t c = last;
	if (have > 0 && at == 0) {
		c = a->next[last];
	}
	while (left > 0) {
		size_t n = AREA_CHUNK - at;

		if (n > left)
			n = left;
		memcpy(chunk_data(a, c) + at, from, n);
		from += n;
		left -= n;
		at = 0;
		if (left > 0)
			c = a->next[c];
	}
	publish32(&h->pending_len, h->doc.len + (uint32_t)len);
	publish64(&h->pending_unique, unique);
	publish32(&h->doc.len, h->pending_len);
	return 0;
}

/* --- mailboxes ------------------------------------------------------------------------------ */

static struct area_mailbox *mailbox_find(const struct area *a, uid_t uid, uint64_t node)
{
	for (size_t i = 0; i < AREA_MAILBOXES; i++)
		if (a->mailboxes[i].stamp && a->mailboxes[i].uid == uid &&
		    a->mailboxes[i].node == node)
			return &a->mailboxes[i];
	return NULL;
}

void area_mailbox_put(struct area *a, uid_t uid, uint64_t node, const void *text, size_t len)
{
	struct area_mailbox *m = mailbox_find(a, uid, node);
	uint64_t stamp = a->header->next_stamp;

	if (!m) {
		m = &a->mailboxes[0];
		for (size_t i = 0; i < AREA_MAILBOXES && m->stamp; i++)
			if (a->mailboxes[i].stamp < m->stamp)
				m = &a->mailboxes[i];
		if (m->stamp) {
			uid_t owner = m->uid;

			publish64(&m->stamp, 0);
			area_blob_clear(a, &m->text, owner);
		}
		m->uid = uid;
		m->node = node;
	}
	publish64(&a->header->next_stamp, stamp + 1);
	if (area_blob_set(a, &m->text, uid, text, len) < 0)
		area_blob_clear(a, &m->text, uid);
	publish64(&m->stamp, stamp);
}

const struct area_mailbox *area_mailbox_get(const struct area *a, uid_t uid, uint64_t node)
{
	return mailbox_find(a, uid, node);
}
