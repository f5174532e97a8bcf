#include "fs/transaction.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "core/owner.h"
#include "core/text.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/context.h"

/* What of a WRITE is before its bytes. */
#define WRITE_HEAD ((uint32_t)(sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in)))

/*
 * WRITEs that wait for a commit or a launch. Each keeps a slot of the area and a document: all of
 * them together, and those of one uid, leave room for everybody else's requests.
 */
#define HELD_MAX 3072
#define HELD_PER_UID 1024

/* --- the end of a document ------------------------------------------------------------------ */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

enum scan_result scanner_feed(struct scanner *s, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = data[i];

		if (s->ended || !s->begun) {
			if (is_space(c))
				continue;
			if (s->ended || c != '{')
				return SCAN_GARBAGE;
			s->begun = true;
			s->depth = 1;
		} else if (s->in_string) {
			if (s->escaped)
				s->escaped = false;
			else if (c == '\\')
				s->escaped = true;
			else if (c == '"')
				s->in_string = false;
		} else if (c == '"') {
			s->in_string = true;
		} else if (c == '{' || c == '[') {
			s->depth++;
		} else if (c == '}' || c == ']') {
			s->ended = --s->depth == 0;
		}
	}
	return s->ended ? SCAN_COMPLETE : SCAN_MORE;
}

/*
 * The scanner's state after the document so far. It is not kept in the area: it follows from the
 * bytes, and is computed again only for a WRITE that does not follow its predecessor in this
 * process.
 */
static struct scanner scanner_of(struct hub *hub, const struct area_handle *h, uint32_t upto)
{
	struct scanner s = {0};
	char chunk[4096];

	for (uint32_t off = 0; off < upto;) {
		size_t want = upto - off < sizeof(chunk) ? upto - off : sizeof(chunk);
		size_t n = area_blob_read(hub->area, &h->doc, off, chunk, want);

		if (n == 0)
			break;
		(void)scanner_feed(&s, chunk, n);
		off += (uint32_t)n;
	}
	return s;
}

/*
 * Scanner states of handles whose documents grow in this process, so that each byte is scanned
 * once. A small direct-mapped cache: a miss costs a scan from the beginning, nothing else.
 */
#define SCANNERS 256

struct scanner_entry {
	uint64_t fh;
	uint32_t len;
	struct scanner state;
};

static struct scanner_entry *scanner_entry(struct hub *hub, uint64_t fh)
{
	return &hub->scanners[fh % SCANNERS];
}

int transaction_init(struct hub *hub)
{
	hub->scanners = calloc(SCANNERS, sizeof(*hub->scanners));
	return hub->scanners ? 0 : -ENOMEM;
}

/* --- writing -------------------------------------------------------------------------------- */

static void refuse_text(struct change *c, int code, const char *reason, const char *remedy)
{
	(void)error_set(&c->err, code, "%s", reason);
	error_remedy(&c->err, "%s", remedy);
	change_refuse(c);
}

static void document_reset(struct hub *hub, struct area_handle *h)
{
	area_blob_clear(hub->area, &h->doc, h->uid);
	h->pending_unique = 0;
	h->pending_len = 0;
}

/* The document is complete: runs it. */
static void run_document(struct hub *hub, struct change *c, struct area_handle *h)
{
	AUTO_FREE char *text = malloc((size_t)h->doc.len + 1);

	if (!text) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	size_t len = area_blob_read(hub->area, &h->doc, 0, text, h->doc.len);
	text[len] = '\0';
	h->doc_state = DOCUMENT_RUNNING;
	(void)fault_point("document.complete");
	node_file(c->node)->execute(c, text, len);
}

/* A new document begins on this descriptor: what was read back from the last one is forgotten. */
static void begin_document(struct hub *hub, struct area_handle *h)
{
	document_reset(hub, h);
	area_blob_clear(hub->area, &h->text, h->uid);
	h->text_valid = 0;
	h->text_base_set = 0;
	h->doc_state = DOCUMENT_OPEN;
	*scanner_entry(hub, h->fh) = (struct scanner_entry){.fh = h->fh};
}

/* The document is refused before its end. */
static void break_document(struct hub *hub, struct change *c, struct area_handle *h, int code,
			   const char *reason, const char *remedy)
{
	h->doc_errno = (uint32_t)code;
	h->doc_state = DOCUMENT_BROKEN;
	document_reset(hub, h);
	refuse_text(c, code, reason, remedy);
}

/*
 * More of a document that was refused: a writer that goes on must not start what is left of its text,
 * and is told why once more, as write(2) shows only the last errno of its parts.
 */
static void refuse_rest(struct hub *hub, struct change *c, const struct area_handle *h)
{
	char *text = malloc((size_t)h->text.len + 1);

	if (text)
		text[area_blob_read(hub->area, &h->text, 0, text, h->text.len)] = '\0';
	c->answer = text;
	change_refuse_again(c, h->doc_errno ? (int)h->doc_errno : EINVAL);
}

static bool all_space(const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_space(data[i]))
			return false;
	return true;
}

static void write_document(struct hub *hub, struct change *c, struct area_handle *h,
			   const char *data, size_t len)
{
	bool again = h->pending_unique == c->unique; /* a replayed WRITE that is in the document */

	if (!again && h->doc_state == DOCUMENT_BROKEN && !all_space(data, len)) {
		refuse_rest(hub, c, h);
		return;
	}
	if (!again && h->doc_state != DOCUMENT_OPEN) {
		if (all_space(data, len)) {
			change_finish(c);
			return;
		}
		if (h->doc_state == DOCUMENT_RUNNING || (h->doc_state == DOCUMENT_ANSWERED && !h->text_base_set)) {
			refuse_text(c, EINVAL, "text follows the end of the JSON document",
				    "write one document, and read its answer before the next");
			return;
		}
		begin_document(hub, h);
	}
	if (!again && len > DOCUMENT_MAX - h->doc.len) {
		break_document(hub, c, h, EFBIG, "the document is larger than 1 MiB", "write a smaller one");
		return;
	}

	struct scanner_entry *entry = scanner_entry(hub, h->fh);
	struct scanner state;
	if (!again && entry->fh == h->fh && entry->len == h->doc.len)
		state = entry->state;
	else
		state = scanner_of(hub, h, h->doc.len);
	/* Of a WRITE that is in the document already, only the head may have been kept. */
	enum scan_result scan = scanner_feed(&state, data, again ? 0 : len);
	if (scan == SCAN_GARBAGE) {
		break_document(hub, c, h, EINVAL,
			       state.begun ? "text follows the end of the JSON document" : "not a JSON object",
			       "write one JSON object");
		return;
	}
	if (area_document_append(hub->area, h, c->unique, data, len) < 0) {
		break_document(hub, c, h, ENOSPC, "too many unfinished documents are open",
			       "close descriptors that are not needed");
		return;
	}
	(void)fault_point("document.appended");
	*entry = (struct scanner_entry){.fh = h->fh, .len = h->doc.len, .state = state};
	/* It may be held for long; its bytes are in the document. */
	area_request_shrink(hub->area, c->unique, WRITE_HEAD);
	if (scan == SCAN_COMPLETE)
		run_document(hub, c, h);
	else
		change_finish(c);
}

static void write_command(struct change *c, const char *data, size_t len)
{
	char word[COMMAND_MAX + 1];

	if (len > COMMAND_MAX) {
		refuse_text(c, EFBIG, "a command is at most 4096 bytes", "write one short line");
		return;
	}
	if (len > 0 && data[len - 1] == '\n')
		len--;
	if (memchr(data, '\n', len)) {
		refuse_text(c, EINVAL, "text follows the first line", "write one command at a time");
		return;
	}
	if (memchr(data, '\0', len)) {
		refuse_text(c, EINVAL, "a command has no NUL bytes", "write plain text");
		return;
	}
	memcpy(word, data, len);
	word[len] = '\0';
	node_file(c->node)->command(c, word);
}

void transaction_write(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h,
		       const char *data, size_t len)
{
	struct change *c = change_new(hub, req, CHANGE_WRITE, node);

	if (!c)
		return;
	c->write_size = len;
	if (change_caller_of_handle(c, h) < 0) {
		change_refuse(c);
		return;
	}
	if (fuse_req_ctx(req)->uid != h->uid) {
		c->uid = fuse_req_ctx(req)->uid;
		refuse_text(c, EPERM, "the descriptor was opened by another user",
			    "open the file in the program that writes");
		return;
	}
	if (len == 0) {
		change_finish(c);
		return;
	}
	if (change_replayed(c))
		return;
	if (!c->replayed && (hub->n_changes > HELD_MAX || change_count(hub, h->uid) > HELD_PER_UID)) {
		refuse_text(c, EBUSY, "too many requests of this user wait to be carried out",
			    "try again when some of them have been answered");
		return;
	}
	if (node_file(node)->type == FILE_CONTROL)
		write_command(c, data, len);
	else
		write_document(hub, c, h, data, len);
}

/* --- flush, release, read ------------------------------------------------------------------- */

static const char incomplete[] = "the JSON document is incomplete";

static void record_incomplete(struct hub *hub, struct node node, const struct area_handle *h)
{
	struct error err;

	(void)error_set(&err, EINVAL, "%s", incomplete);
	error_remedy(&err, "write all of it before closing the file");
	error_record(hub, h->uid, node, NULL, &err);
}

static bool is_incomplete(const struct area_handle *h)
{
	return h->doc_state == DOCUMENT_OPEN && h->doc.len > 0;
}

void transaction_flush(struct hub *hub, fuse_req_t req, struct node node, struct area_handle *h)
{
	if (is_incomplete(h)) {
		record_incomplete(hub, node, h);
		(void)fuse_reply_err(req, EINVAL);
	} else {
		(void)fuse_reply_err(req, 0);
	}
}

void transaction_release(struct hub *hub, struct node node, struct area_handle *h)
{
	if (is_incomplete(h))
		record_incomplete(hub, node, h);
}

void transaction_answered(struct hub *hub, uint64_t fh, struct node node, uid_t uid,
			  const char *answer)
{
	struct area_handle *h = area_handle_get(hub->area, fh);

	AUTO_BUF struct buf text = BUF_INIT(NODE_TEXT_MAX);
	if (answer)
		buf_printf(&text, "%s\n", answer);
	if (text.failed)
		buf_reset(&text);
	if (answer)
		area_mailbox_put(hub->area, uid, node_inode(node), text.data, text.len);
	if (!h || (h->doc_state != DOCUMENT_RUNNING && h->doc_state != DOCUMENT_BROKEN))
		return;
	(void)fault_point("document.answer");
	h->text_base_set = 0;
	h->text_valid = area_blob_set(hub->area, &h->text, h->uid, text.data, text.len) == 0;
	if (h->doc_state == DOCUMENT_RUNNING)
		h->doc_state = DOCUMENT_ANSWERED;
}

void transaction_read(struct hub *hub, fuse_req_t req, struct area_handle *h, size_t len,
		      uint64_t off)
{
	AUTO_FREE char *data = malloc(len ? len : 1);

	if (!data) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	/* The descriptor's offset stands behind what was written: the answer begins there. */
	if (!h->text_base_set) {
		h->text_base = h->doc_state == DOCUMENT_NONE ? 0 : off;
		h->text_base_set = 1;
	}
	size_t n = 0;
	if (off >= h->text_base)
		n = area_blob_read(hub->area, &h->text, off - h->text_base, data, len);
	(void)fuse_reply_buf(req, data, n);
}

size_t transaction_size(struct hub *hub, struct node node, uid_t uid)
{
	const struct area_mailbox *m = area_mailbox_get(hub->area, uid, node_inode(node));

	return m ? m->text.len : 0;
}
