#include "fs/area.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/owner.h"
#include "fs/area_internal.h"

int area_create(uint64_t mount_id, uint64_t mount_dev, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = memfd_create("cloop-area", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return error_set(err, errno, "cannot create the shared area: %s", strerror(errno));
	if (ftruncate(fd, (off_t)AREA_SIZE) < 0)
		return error_set(err, errno, "cannot size the shared area: %s", strerror(errno));

	struct area_header *h =
		mmap(NULL, ROUND(sizeof(*h)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
	static const size_t sizes[N_CLASSES] = {AREA_SMALL_SIZE, AREA_MEDIUM_SIZE,
						AREA_MAX_REQUEST};

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
	struct share *s = area_share_of(a, uid);
	if (s)
		s->chunks += (uint32_t)need;
}

static void adopt_handle(struct area *a, unsigned char *used, struct area_handle *h)
{
	struct share *share = area_share_of(a, h->uid);

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
 * the staging buffer too: found there by a third process, after the second has answered it, it
 * would be done twice. INIT stays for the hub, which keeps it elsewhere.
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
	static const uint32_t counts[N_CLASSES] = {AREA_SMALL_COUNT, AREA_MEDIUM_COUNT,
						   AREA_LARGE_COUNT};
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

		if (s->unique && s->len >= sizeof(struct fuse_in_header) &&
		    s->len <= slot_capacity(i) && index_find(a, s->unique) == BY_UNIQUE_SIZE) {
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
		return error_set(err, EPROTO,
				 "the shared area has %lld bytes, this binary needs %zu",
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
