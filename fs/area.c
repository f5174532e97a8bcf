#include "fs/area.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/owner.h"

#define AREA_MAGIC 0x636c6f70 /* "clop" */
#define PAGE 4096
#define ROUND(x) (((size_t)(x) + PAGE - 1) / PAGE * PAGE)

/* Where each part lies. Compact arrays first: scanning them does not touch the bulk. */
#define OFF_HEADER 0
#define OFF_SLOTS ROUND(sizeof(struct area_header))
#define OFF_NEXT (OFF_SLOTS + ROUND(sizeof(struct area_slot) * AREA_SLOTS))
#define OFF_MAILBOXES (OFF_NEXT + ROUND(sizeof(uint32_t) * AREA_CHUNKS))
#define OFF_OPEN (OFF_MAILBOXES + ROUND(sizeof(struct area_mailbox) * AREA_MAILBOXES))
#define OFF_HANDLES (OFF_OPEN + ROUND(sizeof(uint64_t) * AREA_HANDLES))
#define OFF_STAGING (OFF_HANDLES + ROUND(sizeof(struct area_handle) * AREA_HANDLES))
#define OFF_SMALL (OFF_STAGING + ROUND(AREA_MAX_REQUEST))
#define OFF_MEDIUM (OFF_SMALL + ROUND((size_t)AREA_SMALL_SIZE * AREA_SMALL_COUNT))
#define OFF_LARGE (OFF_MEDIUM + ROUND((size_t)AREA_MEDIUM_SIZE * AREA_MEDIUM_COUNT))
#define OFF_CHUNKS (OFF_LARGE + ROUND((size_t)AREA_MAX_REQUEST * AREA_LARGE_COUNT))
#define AREA_SIZE (OFF_CHUNKS + (size_t)AREA_CHUNK * AREA_CHUNKS)

/* More opens than a mount lives to see; a sequence number times AREA_HANDLES fits 64 bits. */
#define FH_SEQUENCE_MAX (UINT64_C(1) << 47)

/* Uids whose share of the chunks is counted; a hash table in the process's own heap. */
#define SHARE_BUCKETS 1024

enum slot_class { CLASS_SMALL, CLASS_MEDIUM, CLASS_LARGE, N_CLASSES };

struct share {
	uint32_t uid;
	uint32_t chunks;
	uint32_t handles;
	struct share *next;
};

struct area {
	char *base;
	struct area_header *header;
	struct area_slot *slots;
	uint32_t *next; /* chunk → following chunk; 0 ends the chain */
	struct area_mailbox *mailboxes;
	uint64_t *open; /* handle index → fh, 0 when free */
	struct area_handle *handles;

	uint32_t *free_slots[N_CLASSES];
	uint32_t n_free_slots[N_CLASSES];
	uint32_t *free_chunks;
	uint32_t n_free_chunks;
	uint32_t *free_handles;
	uint32_t n_free_handles;

	/* unique → slot index + 1, open addressing; twice as many places as slots. */
	uint32_t *by_unique;
	struct share *shares[SHARE_BUCKETS];
};

#define BY_UNIQUE_SIZE 131072u
_Static_assert(BY_UNIQUE_SIZE >= 2 * AREA_SLOTS, "the table of requests stays half empty");
_Static_assert(sizeof(struct area_header) <= 4096, "the header fits a page");
_Static_assert(AREA_CHUNKS < UINT32_MAX, "chunk numbers fit");

/* What its test does before and after each word that publishes something: the places to die. */
#ifndef AREA_PUBLISH_HOOK
#define AREA_PUBLISH_HOOK() ((void)0)
#endif

/* Everything written before is visible (and in program order) before the word that publishes it. */
static void publish64(uint64_t *word, uint64_t value)
{
	AREA_PUBLISH_HOOK();
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	AREA_PUBLISH_HOOK();
}

static void publish32(uint32_t *word, uint32_t value)
{
	AREA_PUBLISH_HOOK();
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	AREA_PUBLISH_HOOK();
}

int area_create(uint64_t mount_id, uint64_t mount_dev, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create("cloop-area", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return error_set(err, errno, "cannot create the shared area: %s", strerror(errno));
	if (ftruncate(fd, (off_t)AREA_SIZE) < 0)
		return error_set(err, errno, "cannot size the shared area: %s", strerror(errno));

	struct area_header *h = mmap(NULL, ROUND(sizeof(*h)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return error_set(err, errno, "cannot map the shared area: %s", strerror(errno));
	h->layout = AREA_LAYOUT;
	h->size = AREA_SIZE;
	h->mount_id = mount_id;
	h->mount_dev = mount_dev;
	h->next_fh = 1;
	h->next_stamp = 1;
	publish32(&h->magic, AREA_MAGIC);
	(void)munmap(h, ROUND(sizeof(*h)));

	*ret_fd = take_fd(&fd);
	return 0;
}

/* Whether the header is one that this build can work with. */
static int check_header(const struct area_header *h, struct error *err)
{
	if (h->magic != AREA_MAGIC || h->layout != AREA_LAYOUT || h->size != AREA_SIZE)
		return error_set(err, EPROTO,
				 "the running mount has shared area layout %u, this binary %u",
				 h->layout, AREA_LAYOUT);
	if (h->init_len > AREA_INIT_MAX || h->init_reply_len > AREA_INIT_MAX || h->next_fh == 0 ||
	    h->next_fh > FH_SEQUENCE_MAX)
		return error_set(err, EPROTO, "the shared area is damaged");
	return 0;
}

int area_peek(int fd, struct area_header *ret, struct error *err)
{
	struct area_header h;
	ssize_t n = pread(fd, &h, sizeof(h), 0);

	if (n < 0)
		return error_set(err, errno, "cannot read the shared area: %s", strerror(errno));
	if (n != sizeof(h))
		return error_set(err, EPROTO, "the shared area is shorter than its header");
	int r = check_header(&h, err);
	if (r == 0)
		*ret = h;
	return r;
}

int area_create_like(int fd, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int copy = -1;
	struct area_header h;
	int r = area_peek(fd, &h, err);

	if (r == 0)
		r = area_create(h.mount_id, h.mount_dev, &copy, err);
	if (r < 0)
		return r;
	if (pwrite(copy, &h, sizeof(h), 0) != sizeof(h))
		return error_set(err, EIO, "cannot copy the shared area's header");
	*ret_fd = take_fd(&copy);
	return 0;
}

struct area *area_free(struct area *a)
{
	if (!a)
		return NULL;
	if (a->base)
		(void)munmap(a->base, AREA_SIZE);
	for (int c = 0; c < N_CLASSES; c++)
		free(a->free_slots[c]);
	free(a->free_chunks);
	free(a->free_handles);
	free(a->by_unique);
	for (size_t i = 0; i < SHARE_BUCKETS; i++)
		while (a->shares[i]) {
			struct share *s = a->shares[i];

			a->shares[i] = s->next;
			free(s);
		}
	free(a);
	return NULL;
}

OWNER_DEFINE(struct area, area, area_free);

struct area_header *area_header(struct area *a)
{
	return a->header;
}

/* --- requests ------------------------------------------------------------------------------- */

static enum slot_class class_of_slot(uint32_t i)
{
	if (i < AREA_SMALL_COUNT)
		return CLASS_SMALL;
	return i < AREA_SMALL_COUNT + AREA_MEDIUM_COUNT ? CLASS_MEDIUM : CLASS_LARGE;
}

static size_t slot_capacity(uint32_t i)
{
	static const size_t sizes[N_CLASSES] = {AREA_SMALL_SIZE, AREA_MEDIUM_SIZE, AREA_MAX_REQUEST};

	return sizes[class_of_slot(i)];
}

static char *slot_data(const struct area *a, uint32_t i)
{
	switch (class_of_slot(i)) {
	case CLASS_SMALL:
		return a->base + OFF_SMALL + (size_t)i * AREA_SMALL_SIZE;
	case CLASS_MEDIUM:
		return a->base + OFF_MEDIUM + (size_t)(i - AREA_SMALL_COUNT) * AREA_MEDIUM_SIZE;
	default:
		return a->base + OFF_LARGE +
		       (size_t)(i - AREA_SMALL_COUNT - AREA_MEDIUM_COUNT) * AREA_MAX_REQUEST;
	}
}

static uint32_t hash_unique(uint64_t unique)
{
	return (uint32_t)((unique * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (BY_UNIQUE_SIZE - 1);
}

static void index_add(struct area *a, uint32_t slot)
{
	uint32_t i = hash_unique(a->slots[slot].unique);

	while (a->by_unique[i])
		i = (i + 1) & (BY_UNIQUE_SIZE - 1);
	a->by_unique[i] = slot + 1;
}

/* The place of a unique in by_unique, or BY_UNIQUE_SIZE. */
static uint32_t index_find(const struct area *a, uint64_t unique)
{
	uint32_t i = hash_unique(unique);

	while (a->by_unique[i]) {
		if (a->slots[a->by_unique[i] - 1].unique == unique)
			return i;
		i = (i + 1) & (BY_UNIQUE_SIZE - 1);
	}
	return BY_UNIQUE_SIZE;
}

/* Empties a place, moving later entries of the same run up (no tombstones). */
static void index_remove(struct area *a, uint32_t i)
{
	uint32_t hole = i;

	for (;;) {
		i = (i + 1) & (BY_UNIQUE_SIZE - 1);
		if (!a->by_unique[i])
			break;
		uint32_t home = hash_unique(a->slots[a->by_unique[i] - 1].unique);
		if (((i - home) & (BY_UNIQUE_SIZE - 1)) >= ((i - hole) & (BY_UNIQUE_SIZE - 1))) {
			a->by_unique[hole] = a->by_unique[i];
			hole = i;
		}
	}
	a->by_unique[hole] = 0;
}

void *area_staging(struct area *a)
{
	return a->base + OFF_STAGING;
}

void area_staging_clear(struct area *a)
{
	struct fuse_in_header *in = area_staging(a);

	publish32(&in->len, 0);
}

bool area_can_take(const struct area *a)
{
	return a->n_free_slots[CLASS_LARGE] > 0;
}

void *area_request_keep(struct area *a, uint64_t unique, uint32_t len)
{
	enum slot_class c = len <= AREA_SMALL_SIZE    ? CLASS_SMALL
			    : len <= AREA_MEDIUM_SIZE ? CLASS_MEDIUM
						      : CLASS_LARGE;

	while (c < CLASS_LARGE && a->n_free_slots[c] == 0)
		c++;
	/* The caller asked area_can_take() before it read, so the large class has one. */
	uint32_t i = a->free_slots[c][--a->n_free_slots[c]];
	char *data = slot_data(a, i);

	memcpy(data, area_staging(a), len);
	a->slots[i].len = len;
	a->slots[i].refused = 0;
	publish64(&a->slots[i].unique, unique);
	area_staging_clear(a);
	index_add(a, i);
	return data;
}

void area_request_done(struct area *a, uint64_t unique)
{
	uint32_t at = index_find(a, unique);

	if (at == BY_UNIQUE_SIZE)
		return;
	uint32_t slot = a->by_unique[at] - 1;
	enum slot_class c = class_of_slot(slot);

	index_remove(a, at);
	publish64(&a->slots[slot].unique, 0);
	a->free_slots[c][a->n_free_slots[c]++] = slot;
}

void area_request_refuse(struct area *a, uint64_t unique, int code)
{
	uint32_t at = index_find(a, unique);

	if (at != BY_UNIQUE_SIZE)
		publish32(&a->slots[a->by_unique[at] - 1].refused, (uint32_t)code);
}

int area_request_refused(const struct area *a, uint64_t unique)
{
	uint32_t at = index_find(a, unique);

	return at == BY_UNIQUE_SIZE ? 0 : (int)a->slots[a->by_unique[at] - 1].refused;
}

void area_request_shrink(struct area *a, uint64_t unique, uint32_t len)
{
	uint32_t at = index_find(a, unique);

	if (at == BY_UNIQUE_SIZE)
		return;
	uint32_t old = a->by_unique[at] - 1;
	if (class_of_slot(old) == CLASS_SMALL || a->n_free_slots[CLASS_SMALL] == 0 ||
	    len > AREA_SMALL_SIZE || len > a->slots[old].len)
		return;
	uint32_t slot = a->free_slots[CLASS_SMALL][--a->n_free_slots[CLASS_SMALL]];

	memcpy(slot_data(a, slot), slot_data(a, old), len);
	a->slots[slot].len = len;
	a->slots[slot].refused = a->slots[old].refused;
	/* Killed between these, the request is there twice; the next process takes one of them. */
	publish64(&a->slots[slot].unique, unique);
	publish64(&a->slots[old].unique, 0);
	a->by_unique[at] = slot + 1;
	a->free_slots[class_of_slot(old)][a->n_free_slots[class_of_slot(old)]++] = old;
}

void *area_request_get(struct area *a, uint64_t unique, uint32_t *ret_len)
{
	uint32_t at = index_find(a, unique);

	if (at == BY_UNIQUE_SIZE)
		return NULL;
	uint32_t slot = a->by_unique[at] - 1;

	*ret_len = a->slots[slot].len;
	return slot_data(a, slot);
}

static int compare_u64(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

ssize_t area_requests(struct area *a, uint64_t **ret)
{
	size_t n = 0;
	uint64_t *list = calloc(AREA_SLOTS, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < AREA_SLOTS; i++)
		if (a->slots[i].unique)
			list[n++] = a->slots[i].unique;
	qsort(list, n, sizeof(*list), compare_u64);
	*ret = list;
	return (ssize_t)n;
}

/* --- blobs ---------------------------------------------------------------------------------- */

static char *chunk_data(const struct area *a, uint32_t chunk)
{
	return a->base + OFF_CHUNKS + (size_t)chunk * AREA_CHUNK;
}

static size_t chunks_for(size_t len)
{
	return (len + AREA_CHUNK - 1) / AREA_CHUNK;
}

static struct share *share_of(struct area *a, uid_t uid)
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
	struct share *s = share_of(a, uid);

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
	struct share *s = share_of(a, uid);

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

/* fh = sequence * AREA_HANDLES + index, so that a lookup is one comparison. */
static uint32_t handle_index(uint64_t fh)
{
	return (uint32_t)(fh % AREA_HANDLES);
}

struct area_handle *area_handle_new(struct area *a, uint64_t node, uid_t uid)
{
	struct share *share = share_of(a, uid);

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

	publish64(&a->open[i], 0);
	struct share *share = share_of(a, h->uid);
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
	 * The previous WRITE was answered, or this one would not be here. Forgotten first: its length
	 * would otherwise be taken for the document's when this append is cut short.
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
		if (a->mailboxes[i].stamp && a->mailboxes[i].uid == uid && a->mailboxes[i].node == node)
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

/* --- attaching ------------------------------------------------------------------------------ */

/* Marks the chunks of a blob as used; a chain that does not hold its bytes empties the blob. */
static void adopt_blob(struct area *a, unsigned char *used, struct area_blob *blob, uid_t uid)
{
	size_t need = chunks_for(blob->len);
	uint32_t c = blob->head, last = 0;
	size_t n = 0;

	for (; c > 0 && c < AREA_CHUNKS && !used[c] && n < need; n++) {
		used[c] = 1;
		last = c;
		c = a->next[c];
	}
	if (n < need || need == 0) {
		/* Give back what was marked: the blob was never published whole. */
		for (uint32_t m = blob->head; n > 0; n--, m = a->next[m])
			used[m] = 0;
		blob->len = 0;
		blob->head = 0;
		return;
	}
	a->next[last] = 0;
	struct share *s = share_of(a, uid);
	if (s)
		s->chunks += (uint32_t)need;
}

static void adopt_handle(struct area *a, unsigned char *used, struct area_handle *h)
{
	struct share *share = share_of(a, h->uid);

	if (share)
		share->handles++;
	if (h->pending_unique)
		h->doc.len = h->pending_len;
	adopt_blob(a, used, &h->more_groups, h->uid);
	/* Whose groups are not known has none, and no say. */
	if (h->n_groups > AREA_GROUPS_INLINE &&
	    h->more_groups.len != (uint64_t)h->n_groups * sizeof(h->groups[0])) {
		h->n_groups = 0;
		h->trusted = 0;
	}
	adopt_blob(a, used, &h->doc, h->uid);
	adopt_blob(a, used, &h->text, h->uid);
}

/*
 * A request that was read but not kept yet, when the other process died. One that was kept leaves
 * the staging buffer too: found there by a third process, after the second has answered it, it would
 * be done twice. INIT stays for the hub, which keeps it elsewhere.
 */
static void adopt_staging(struct area *a)
{
	const struct fuse_in_header *in = area_staging(a);

	if (in->len < sizeof(*in) || in->len > AREA_MAX_REQUEST || in->unique == 0)
		return;
	if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET ||
	    in->opcode == FUSE_INTERRUPT || in->opcode == FUSE_INIT)
		return;
	if (index_find(a, in->unique) == BY_UNIQUE_SIZE && area_can_take(a))
		(void)area_request_keep(a, in->unique, in->len);
	else
		area_staging_clear(a);
}

/* Whether the handle was published, by a process that had given its number out. */
static bool handle_is_whole(const struct area *a, uint32_t i)
{
	uint64_t fh = a->open[i], sequence = fh / AREA_HANDLES;

	return a->handles[i].fh == fh && handle_index(fh) == i && sequence > 0 &&
	       sequence < a->header->next_fh;
}

static int build_lists(struct area *a)
{
	static const uint32_t counts[N_CLASSES] = {AREA_SMALL_COUNT, AREA_MEDIUM_COUNT, AREA_LARGE_COUNT};
	AUTO_FREE unsigned char *used = calloc(AREA_CHUNKS, 1);

	for (int c = 0; c < N_CLASSES; c++)
		a->free_slots[c] = calloc(counts[c], sizeof(uint32_t));
	a->free_chunks = calloc(AREA_CHUNKS, sizeof(uint32_t));
	a->free_handles = calloc(AREA_HANDLES, sizeof(uint32_t));
	a->by_unique = calloc(BY_UNIQUE_SIZE, sizeof(uint32_t));
	if (!used || !a->free_slots[CLASS_SMALL] || !a->free_slots[CLASS_MEDIUM] ||
	    !a->free_slots[CLASS_LARGE] || !a->free_chunks || !a->free_handles || !a->by_unique)
		return -ENOMEM;

	for (uint32_t i = AREA_SLOTS; i-- > 0;) {
		struct area_slot *s = &a->slots[i];
		enum slot_class c = class_of_slot(i);

		if (s->unique && s->len >= sizeof(struct fuse_in_header) && s->len <= slot_capacity(i) &&
		    index_find(a, s->unique) == BY_UNIQUE_SIZE) {
			index_add(a, i);
		} else {
			s->unique = 0;
			a->free_slots[c][a->n_free_slots[c]++] = i;
		}
	}
	used[0] = 1;
	for (uint32_t i = AREA_HANDLES; i-- > 0;) {
		if (handle_is_whole(a, i)) {
			adopt_handle(a, used, &a->handles[i]);
		} else {
			a->open[i] = 0;
			a->free_handles[a->n_free_handles++] = i;
		}
	}
	for (uint32_t i = 0; i < AREA_MAILBOXES; i++) {
		struct area_mailbox *m = &a->mailboxes[i];

		if (m->stamp)
			adopt_blob(a, used, &m->text, m->uid);
		else
			m->text = (struct area_blob){0};
	}
	for (uint32_t i = AREA_CHUNKS; i-- > 0;)
		if (!used[i])
			a->free_chunks[a->n_free_chunks++] = i;
	return 0;
}

int area_attach(int fd, struct area **ret, struct error *err)
{
	CLEANUP(owner_areap) struct area *a = calloc(1, sizeof(*a));

	if (!a)
		return error_oom(err);
	/* Memory behind the end of the file is a SIGBUS. */
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "cannot look at the shared area: %s", strerror(errno));
	if (st.st_size < (off_t)AREA_SIZE)
		return error_set(err, EPROTO, "the shared area has %lld bytes, this binary needs %zu",
				 (long long)st.st_size, AREA_SIZE);
	char *base = mmap(NULL, AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return error_set(err, errno, "cannot map the shared area: %s", strerror(errno));
	a->base = base;
	a->header = (struct area_header *)base;
	int r = check_header(a->header, err);
	if (r < 0)
		return r;
	a->slots = (struct area_slot *)(base + OFF_SLOTS);
	a->next = (uint32_t *)(base + OFF_NEXT);
	a->mailboxes = (struct area_mailbox *)(base + OFF_MAILBOXES);
	a->open = (uint64_t *)(base + OFF_OPEN);
	a->handles = (struct area_handle *)(base + OFF_HANDLES);

	/*
	 * The kernel copies a request into the staging buffer while a fatal signal may be pending;
	 * a page that is not there yet would then fail the copy, and the caller would see EIO.
	 */
	if (madvise(base + OFF_STAGING, ROUND(AREA_MAX_REQUEST), MADV_POPULATE_WRITE) < 0)
		for (size_t i = 0; i < ROUND(AREA_MAX_REQUEST); i += PAGE) {
			volatile char *p = base + OFF_STAGING + i;

			*p = *p;
		}

	if (build_lists(a) < 0)
		return error_oom(err);
	adopt_staging(a);
	*ret = take_ptr(a);
	return 0;
}
