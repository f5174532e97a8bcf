/*
 * The area: memory that the keeper owns and every hub process shares, so that a hub may die at any
 * instant and the next one goes on where it stopped.
 *
 * It holds what cannot be computed again: the requests that the kernel handed over and nobody
 * answered yet, the INIT exchange, and what open descriptors must remember (who opened them, the
 * bytes of an unfinished document, the text that is being read). Everything else is in the database
 * or computed.
 *
 * It is one sparse memfd of fixed size: pages that nobody touched cost nothing. Only one process at
 * a time changes it (the hub; the keeper, when no hub runs), so there are no locks; but that process
 * may be killed between any two instructions. Therefore every change is published by one aligned
 * store of a word, after everything that it stands for was written (area_publish_*), and whatever
 * was not published yet is free again for the next process. Free lists live in the process's own
 * heap and are rebuilt by area_attach().
 *
 * Contents are not trusted across builds: the header carries a layout number, and a binary that
 * knows another one refuses to attach.
 */
#ifndef CLOOP_FS_AREA_H
#define CLOOP_FS_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

/* Raised with every change of a structure below. */
#define AREA_LAYOUT 3

/* The largest WRITE that INIT agrees on, and room for the headers of any request. */
#define AREA_MAX_WRITE (128 * 1024)
#define AREA_MAX_REQUEST (AREA_MAX_WRITE + 4096)

/* INIT and its reply are some hundred bytes at most. */
#define AREA_INIT_MAX 512

/*
 * Unanswered requests, in three sizes. Nearly all are small; the count of small ones bounds the
 * blocked readers (10,000 must be fine).
 */
#define AREA_SMALL_SIZE 640 /* RENAME2 with two names of 255 bytes fits */
#define AREA_SMALL_COUNT 32768
#define AREA_MEDIUM_SIZE 8192
#define AREA_MEDIUM_COUNT 1024
#define AREA_LARGE_COUNT 96
#define AREA_SLOTS (AREA_SMALL_COUNT + AREA_MEDIUM_COUNT + AREA_LARGE_COUNT)

/* Open descriptors, and how many of them one uid other than 0 may hold. */
#define AREA_HANDLES 65536
#define AREA_HANDLES_PER_UID (AREA_HANDLES / 4)
#define AREA_HANDLES_RESERVE (AREA_HANDLES / 16)

/* Bytes of documents and rendered texts, in chunks. */
#define AREA_CHUNK 4096
#define AREA_CHUNKS 32768 /* 128 MiB */

/*
 * What one uid other than 0 may hold of the chunks, so that one user cannot starve the rest; and what
 * only uid 0 may take, so that an administrator can always look.
 */
#define AREA_CHUNKS_PER_UID (AREA_CHUNKS / 4)
#define AREA_CHUNKS_RESERVE (AREA_CHUNKS / 16)

/* Latest error and latest answers, one a (uid, node); the least recently written one makes room. */
#define AREA_MAILBOXES 1024

/* Groups kept inline with a handle; a longer list is kept in a blob. */
#define AREA_GROUPS_INLINE 16

/* A chain of chunks. head 0 means empty (chunk 0 is never given out). */
struct area_blob {
	uint32_t head;
	uint32_t len;
};

/* A request that was read and not answered. */
struct area_slot {
	uint64_t unique; /* 0: free. Published last. */
	uint32_t len;
	uint32_t refused; /* errno: it was refused, and is being answered so. Published */
};

struct area_handle {
	uint64_t fh; /* 0: free. Published last. Unique for the mount's life */
	uint64_t node;
	uint64_t open_unique; /* the OPEN that made it: a replayed OPEN finds its handle again */

	/* The caller at OPEN. */
	uint32_t uid, gid;
	uint32_t pid;
	uint32_t flags; /* of open(2) */
	uint32_t trusted; /* the caller is visible, in our own pid and user namespace */
	uint32_t n_groups;
	uint32_t groups[AREA_GROUPS_INLINE];
	struct area_blob more_groups;

	/*
	 * A document that is being written. A WRITE is appended exactly once: its bytes go behind
	 * doc.len, then pending_len, then pending_unique (the commit point), then doc.len. A
	 * replayed WRITE whose unique is pending_unique is in the document already.
	 */
	struct area_blob doc;
	uint32_t pending_len;
	uint32_t doc_state; /* enum document_state of fs/transaction.h */
	uint64_t pending_unique;

	/* The text that READ serves: rendered at OPEN, or the answer of a transaction. */
	struct area_blob text;
	uint64_t text_base;      /* the file offset at which text begins */
	uint32_t text_base_set;  /* an answer begins at the offset of the first READ after it */
	uint32_t text_valid;

	/* A poll that waits for a wake-up. */
	uint64_t poll_kh;
	uint32_t poll_set;

	/* The errno of a document that was refused before its end. */
	uint32_t doc_errno;

	/* Stream, wait: the offset behind the last READ, which is what poll asks about. */
	uint64_t read_off;

	/* Where a rendered stream stands (fs/follow.c), before and after the last READ. */
	uint64_t cursor[2][4];
};

struct area_mailbox {
	uint64_t stamp; /* 0: free. Published last; larger is more recent */
	uint64_t node;  /* AREA_MAILBOX_ERROR, or the transaction's node without its nonce */
	uint32_t uid;
	uint32_t pad;
	struct area_blob text;
};

#define AREA_MAILBOX_ERROR 0

struct area_header {
	uint32_t magic;
	uint32_t layout;
	uint64_t size;
	uint64_t mount_id;    /* random; a journal row belongs to one mount */
	uint64_t mount_dev;   /* st_dev of the mount */
	uint64_t next_fh;
	uint64_t next_stamp;
	uint64_t hub_epoch;   /* raised by each hub: the launcher tells their requests apart */
	int64_t served_ns;    /* real time at which the first hub began to serve */
	uint64_t sessions_told; /* serial up to which new sessions were announced (fs/watch.h) */

	/* When an event was told, a session and an executor came or went last: for their mtimes. */
	int64_t events_ns, sessions_ns, executors_ns;

	uint32_t init_len;    /* 0: the kernel's INIT was not seen yet. Published last */
	uint32_t init_reply_len;
	uint32_t init_answered; /* the kernel has the reply. Published */
	uint32_t launcher_abilities; /* what it said last (drivers/localprocess/driver.h) */
	char init[AREA_INIT_MAX];
	char init_reply[AREA_INIT_MAX];
};

struct area; /* a process's own view: mapping and free lists */

/* Makes a new, empty area; returns its descriptor, close-on-exec. */
int area_create(uint64_t mount_id, uint64_t mount_dev, int *ret_fd, struct error *err);

/*
 * Maps the area and rebuilds the free lists; finishes or forgets what a dead process left half done.
 * The descriptor stays the caller's. Errors: EPROTO for another layout.
 */
int area_attach(int fd, struct area **ret, struct error *err);
struct area *area_free(struct area *a);

struct area_header *area_header(struct area *a);

/*
 * A copy of the header, without attaching: who else has the area is not disturbed. Errors: EPROTO
 * for what is not an area of this layout.
 */
int area_peek(int fd, struct area_header *ret, struct error *err);

/*
 * Another area with the same header and nothing else, in which somebody may try what an attach
 * would find while the area itself is in use. Returns its descriptor, close-on-exec.
 */
int area_create_like(int fd, int *ret_fd, struct error *err);

/* --- requests ------------------------------------------------------------------------------- */

/* The buffer of AREA_MAX_REQUEST bytes that read(2) fills. */
void *area_staging(struct area *a);

/* Forgets what is in the staging buffer; must be called before each read. */
void area_staging_clear(struct area *a);

/*
 * Whether a request of any size can be kept. When not, reading must stop until one was answered:
 * area_request_done() may then make room.
 */
bool area_can_take(const struct area *a);

/*
 * Keeps the len bytes in the staging buffer as an unanswered request. Returns a copy that stays
 * valid until area_request_done(unique).
 */
void *area_request_keep(struct area *a, uint64_t unique, uint32_t len);

/* The request was answered. Unknown uniques are ignored. */
void area_request_done(struct area *a, uint64_t unique);

/*
 * A request is about to be answered with this errno, and must not be executed by a later process:
 * what was in its way may be gone by then, but its caller may have been told already.
 */
void area_request_refuse(struct area *a, uint64_t unique, int code);

/* The errno of a request that was refused, 0 when it was not. */
int area_request_refused(const struct area *a, uint64_t unique);

/*
 * Keeps only the first len bytes of a request, in a small slot if there is one: the rest is safe
 * somewhere else. Its memory moves.
 */
void area_request_shrink(struct area *a, uint64_t unique, uint32_t len);

/* A kept request, NULL when there is none of that unique. */
void *area_request_get(struct area *a, uint64_t unique, uint32_t *ret_len);

/*
 * All unanswered requests of an earlier process in ascending order of unique; *ret is an array that
 * the caller frees. Returns their number, or -ENOMEM.
 */
ssize_t area_requests(struct area *a, uint64_t **ret);

/* --- blobs ---------------------------------------------------------------------------------- */

/*
 * Stores len bytes into *blob, replacing (and freeing) what it held. On failure (-ENOSPC: pool or
 * the uid's share exhausted) the blob is unchanged. Never more than UINT32_MAX bytes.
 */
int area_blob_set(struct area *a, struct area_blob *blob, uid_t uid, const void *data, size_t len);

/* Copies at most len bytes from offset off; returns the number copied. */
size_t area_blob_read(const struct area *a, const struct area_blob *blob, size_t off, void *data,
		      size_t len);

void area_blob_clear(struct area *a, struct area_blob *blob, uid_t uid);

/* --- handles -------------------------------------------------------------------------------- */

/*
 * A new handle of a uid, zeroed but for fh, node and uid, not published. NULL when all are in use, or
 * the uid's share is.
 */
struct area_handle *area_handle_new(struct area *a, uint64_t node, uid_t uid);

/* Makes a handle survive this process. */
void area_handle_publish(struct area *a, struct area_handle *h, uint64_t open_unique);

/* By number; NULL when there is none. */
struct area_handle *area_handle_get(struct area *a, uint64_t fh);

/* The handle that an OPEN of an earlier process made, NULL when it did not come so far. */
struct area_handle *area_handle_of_open(struct area *a, uint64_t open_unique);

/* Frees a handle and everything that it holds. */
void area_handle_drop(struct area *a, struct area_handle *h);

/* Calls fn for every open handle. */
void area_handle_each(struct area *a, void (*fn)(struct area_handle *h, void *user), void *user);

size_t area_handle_count(const struct area *a);

/*
 * Appends the bytes of the WRITE `unique` to the handle's document, once. Returns 0, or -ENOSPC.
 */
int area_document_append(struct area *a, struct area_handle *h, uint64_t unique, const void *data,
			 size_t len);

/* --- mailboxes ------------------------------------------------------------------------------ */

/* Replaces the text of (uid, node). A text that does not fit is dropped: the old one goes too. */
void area_mailbox_put(struct area *a, uid_t uid, uint64_t node, const void *text, size_t len);

/* The box of (uid, node), NULL when there is none. */
const struct area_mailbox *area_mailbox_get(const struct area *a, uid_t uid, uint64_t node);

#endif
