/*
 * How the area lies in memory, for the files that work in it: area.c (header, requests, attaching)
 * and area_blob.c (chunks and what is made of them).
 */
#ifndef CLOOP_FS_AREA_INTERNAL_H
#define CLOOP_FS_AREA_INTERNAL_H

#include "fs/area.h"

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

/* Uids whose shares of chunks and handles are counted; a hash table in the process's own heap. */
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
static inline void publish64(uint64_t *word, uint64_t value)
{
	AREA_PUBLISH_HOOK();
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	AREA_PUBLISH_HOOK();
}

static inline void publish32(uint32_t *word, uint32_t value)
{
	AREA_PUBLISH_HOOK();
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	AREA_PUBLISH_HOOK();
}

static inline size_t chunks_for(size_t len)
{
	return (len + AREA_CHUNK - 1) / AREA_CHUNK;
}

/* fh = sequence * AREA_HANDLES + index, so that a lookup is one comparison. */
static inline uint32_t handle_index(uint64_t fh)
{
	return (uint32_t)(fh % AREA_HANDLES);
}

/* What a uid holds of chunks and handles; NULL when out of memory. */
struct share *area_share_of(struct area *a, uid_t uid);

#endif
