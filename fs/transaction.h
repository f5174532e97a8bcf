/*
 * Writing: documents and commands.
 *
 * A transaction takes one JSON document in as many WRITEs as it takes, runs as soon as it is
 * complete (so that the error reaches write() itself), and then reads as the answer. Its end is
 * found by scanning each byte once. A control file takes one command a WRITE.
 */
#ifndef CLOOP_FS_TRANSACTION_H
#define CLOOP_FS_TRANSACTION_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/node.h"

struct area_handle;
struct hub;

/* A document is larger than this: EFBIG. */
#define DOCUMENT_MAX (1024 * 1024)

/* A control command, with its newline, is larger than this: EFBIG. */
#define COMMAND_MAX 4096

/* Kept in area_handle.doc_state. */
enum document_state {
	DOCUMENT_NONE = 0, /* nothing written, or the last answer was read */
	DOCUMENT_OPEN,     /* begun, not complete */
	DOCUMENT_RUNNING,  /* complete; its change is under way, or was when the hub died */
	DOCUMENT_ANSWERED, /* answered; more text than white space is refused until it is read */
	DOCUMENT_BROKEN,   /* refused before its end */
};

/* Finds the end of one JSON object without building anything. */
struct scanner {
	uint32_t depth;
	bool begun, in_string, escaped, ended;
};

enum scan_result {
	SCAN_MORE,     /* the object goes on behind these bytes */
	SCAN_COMPLETE, /* it ended, and only white space follows */
	SCAN_GARBAGE,  /* does not begin with an object, or text follows its end */
};

enum scan_result scanner_feed(struct scanner *s, const char *data, size_t len);

/* What a hub needs before the first WRITE. Returns 0 or -ENOMEM. */
int transaction_init(struct hub *hub);

/* A WRITE to a transaction, document or control file; replies. */
void transaction_write(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h,
		       const char *data, size_t len);

/* A FLUSH: EINVAL when the document is incomplete. Replies. */
void transaction_flush(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h);

/* The descriptor is closed: an incomplete document is discarded, and the error recorded. */
void transaction_release(struct hub *hub, struct node node, struct area_handle *h);

/* The answer, from its beginning at the first READ after the document. Replies. */
void transaction_read(struct hub *hub, fuse_req_t req, struct area_handle *h, size_t len,
		      uint64_t off);

/* Called when the change that a document caused has ended; answer may be NULL. */
void transaction_answered(struct hub *hub, uint64_t fh, struct node node, uid_t uid,
			  const char *answer);

/* The size of the latest answer to that uid. */
size_t transaction_size(struct hub *hub, struct node node, uid_t uid);

#endif
