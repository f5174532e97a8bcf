#include "fs/change.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/json.h"
#include "core/store/journal.h"
#include "core/text.h"
#include "fs/area.h"
#include "fs/caller.h"
#include "fs/context.h"
#include "fs/transaction.h"
#include "fs/watch.h"
#include "fs/wire.h"

struct change *change_new(struct hub *hub, fuse_req_t req, enum change_op op, struct node node)
{
	struct change *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	c->hub = hub;
	c->req = req;
	c->op = op;
	c->node = node;
	c->unique = wire_unique(hub->wire);
	c->replayed = wire_replaying(hub->wire);
	c->counted_uid = fuse_req_ctx(req)->uid;
	hub->n_changes++;
	hub->n_changes_of[c->counted_uid % HUB_UID_COUNTERS]++;
	return c;
}

unsigned change_count(const struct hub *hub, uid_t uid)
{
	return hub->n_changes_of[uid % HUB_UID_COUNTERS];
}

static void change_free(struct change *c)
{
	c->hub->n_changes--;
	c->hub->n_changes_of[c->counted_uid % HUB_UID_COUNTERS]--;
	if (c->data && c->data_free)
		c->data_free(c->data);
	free(c->groups);
	free(c->answer);
	free(c);
}

static void judge_admin(struct change *c)
{
	const struct hub *hub = c->hub;

	c->is_admin = c->uid == 0 || c->uid == hub->uid;
	if (hub->gid_admin == 0)
		return;
	if (c->gid == hub->gid_admin)
		c->is_admin = true;
	for (size_t i = 0; i < c->n_groups; i++)
		if (c->groups[i] == hub->gid_admin)
			c->is_admin = true;
}

int change_caller_of_handle(struct change *c, const struct area_handle *h)
{
	c->uid = h->uid;
	c->gid = h->gid;
	c->fh = h->fh;
	if (h->n_groups > 0) {
		c->groups = calloc(h->n_groups, sizeof(*c->groups));
		if (!c->groups)
			return error_oom(&c->err);
		c->n_groups = h->n_groups;
		if (h->n_groups <= AREA_GROUPS_INLINE)
			memcpy(c->groups, h->groups, h->n_groups * sizeof(*c->groups));
		else
			(void)area_blob_read(c->hub->area, &h->more_groups, 0, c->groups,
					     h->n_groups * sizeof(*c->groups));
	}
	judge_admin(c);
	if (!h->trusted) {
		int r = error_set(&c->err, EPERM, "the caller lives in another pid or user namespace "
						  "than the daemon, which cannot tell who it is");
		error_remedy(&c->err, "call from the host's own namespaces");
		return r;
	}
	return 0;
}

int change_caller_of_request(struct change *c)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(c->req);
	struct caller caller;

	c->uid = ctx->uid;
	c->gid = ctx->gid;
	/*
	 * A replayed request may come from a thread that is gone meanwhile; the kernel judged its
	 * right to make or remove the entry when it was new.
	 */
	if (caller_read(&c->hub->home, ctx->pid, ctx->uid, ctx->gid, &caller) < 0) {
		if (c->replayed && ctx->pid > 0)
			return 0;
		return error_set(&c->err, EPERM, "the caller cannot be seen from the daemon's pid namespace");
	}
	c->groups = caller.groups;
	c->n_groups = caller.n_groups;
	judge_admin(c);
	if (!caller.trusted)
		return error_set(&c->err, EPERM, "the caller lives in another pid or user namespace than "
						 "the daemon, which cannot tell who it is");
	return 0;
}

/* --- answers -------------------------------------------------------------------------------- */

static void reply_success(struct change *c)
{
	metrics_answered(c->hub, c, 0);
	switch (c->op) {
	case CHANGE_WRITE: {
		const struct node_file *file = node_file(c->node);

		if (file->type == FILE_TRANSACTION || file->type == FILE_DOCUMENT)
			transaction_answered(c->hub, c->fh, c->node, c->uid, c->answer);
		(void)fuse_reply_write(c->req, c->write_size);
		break;
	}
	case CHANGE_MKDIR: {
		struct fuse_entry_param e = {.ino = node_id(c->made), .generation = 1};

		if (node_attr(c->hub, c->made, c->uid, &e.attr) < 0)
			(void)fuse_reply_err(c->req, ENOENT); /* removed again meanwhile */
		else
			(void)fuse_reply_entry(c->req, &e);
		break;
	}
	case CHANGE_RMDIR:
		(void)fuse_reply_err(c->req, 0);
		break;
	}
}

/* What is read back after a refusal, unless it brings an answer of its own. */
static void refusal_answer(struct change *c)
{
	AUTO_BUF struct buf path = BUF_INIT(4096);

	if (c->answer)
		return;
	(void)node_path(c->hub, c->node, &path);
	c->answer = error_json(path.data ? path.data : "", &c->err, clock_now_ns());
}

static void reply_failure(struct change *c)
{
	const struct node_file *file = node_file(c->node);

	metrics_answered(c->hub, c, c->err.code);
	error_record(c->hub, c->uid, c->node, c->name, &c->err);
	if (c->op == CHANGE_WRITE && (file->type == FILE_TRANSACTION || file->type == FILE_DOCUMENT)) {
		refusal_answer(c);
		transaction_answered(c->hub, c->fh, c->node, c->uid, c->answer);
	}
	/* From here on the caller may know: no later hub may try again. */
	area_request_refuse(c->hub->area, c->unique, c->err.code);
	(void)fuse_reply_err(c->req, c->err.code);
}

void change_refuse(struct change *c)
{
	reply_failure(c);
	change_free(c);
}

/* The error that a recorded refusal was made of. */
static void recall_refusal(struct change *c, int code)
{
	AUTO_JSON json_t *answer = NULL;
	struct json_object o;
	const char *reason = "refused, as an earlier part was", *field = "", *remedy = "";

	if (c->answer && json_parse(c->answer, strlen(c->answer), &answer, NULL) == 0 &&
	    json_object_begin(&o, answer, "", NULL) == 0) {
		(void)json_object_string(&o, "reason", &reason, NULL);
		(void)json_object_string(&o, "field", &field, NULL);
		(void)json_object_string(&o, "remedy", &remedy, NULL);
	}
	(void)error_set(&c->err, code, "%s", reason);
	error_field(&c->err, "%s", field);
	error_remedy(&c->err, "%s", remedy);
}

void change_refuse_again(struct change *c, int code)
{
	recall_refusal(c, code);
	change_refuse(c);
}

void change_finish(struct change *c)
{
	reply_success(c);
	change_free(c);
}

/* --- commits -------------------------------------------------------------------------------- */

/*
 * The row names the FUSE operation, and of a MKDIR the node that it made (an answer has to name it
 * again), else the node that was changed.
 */
static int journal(struct store_tx *tx, struct change *c, int code, struct error *err)
{
	const struct journal_entry entry = {
		.mount_id = area_header(c->hub->area)->mount_id,
		.unique = c->unique & INT64_MAX,
		.op = c->op,
		.node = c->op == CHANGE_MKDIR ? node_id(c->made) : node_inode(c->node),
		.code = code,
		.answer = c->answer,
	};

	return journal_insert(tx, &entry, err);
}

/* On the writer thread, as what the operation is made of. */
static int apply_and_record(struct store_tx *tx, struct change *c, int code, struct error *err)
{
	int r = fault_point("change.apply");

	if (r < 0)
		return error_set(err, -r, "a test makes this change fail");
	r = c->apply ? c->apply(tx, c, err) : 0;
	if (r >= 0)
		r = journal(tx, c, code, err);
	(void)fault_point("change.applied");
	return r;
}

static int apply_change(struct store_tx *tx, struct store_op *op, struct error *err)
{
	return apply_and_record(tx, (struct change *)op, 0, err);
}

static void change_committed(struct store_op *op, int result, const struct error *err)
{
	struct change *c = (struct change *)op;

	if (result < 0) {
		c->err = *err;
		if (c->undo)
			c->undo(c);
		change_refuse(c);
		return;
	}
	(void)fault_point("change.committed");
	watch_kernel_tells(c->hub, c);
	if (c->committed)
		c->committed(c);
	watch_kernel_tells(c->hub, NULL);
	(void)fault_point("change.told");
	reply_success(c);
	prune_add(c->hub, c->unique);
	change_free(c);
}

void change_commit(struct change *c)
{
	c->store.apply = apply_change;
	c->store.done = change_committed;
	store_submit(c->hub->store, &c->store);
}

static int apply_refusal(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct change *c = (struct change *)op;

	return apply_and_record(tx, c, c->err.code, err);
}

static void refusal_committed(struct store_op *op, int result, const struct error *err)
{
	struct change *c = (struct change *)op;

	(void)err;
	(void)fault_point("change.committed");
	/* The refusal stands whether or not it could be recorded. */
	if (result >= 0 && c->committed)
		c->committed(c);
	else if (result < 0 && c->undo)
		c->undo(c);
	reply_failure(c);
	if (result >= 0)
		prune_add(c->hub, c->unique);
	change_free(c);
}

void change_commit_refusal(struct change *c)
{
	refusal_answer(c);
	c->store.apply = apply_refusal;
	c->store.done = refusal_committed;
	store_submit(c->hub->store, &c->store);
}

bool change_replayed(struct change *c)
{
	struct journal_entry entry = {0};

	if (!c->replayed)
		return false;
	int refused = area_request_refused(c->hub->area, c->unique);
	if (refused) {
		/* Its sentence was kept before this was noted. */
		(void)fuse_reply_err(c->req, refused);
		change_free(c);
		return true;
	}
	/* One that is not there is no error of the request: c->err stays as it is. */
	int r = journal_get(store_reader(c->hub->store), area_header(c->hub->area)->mount_id,
			    c->unique & INT64_MAX, &entry, NULL);
	if (r == -ENOENT)
		return false;
	if (r < 0) {
		/* It cannot be told whether it was executed: it is not executed again. */
		(void)error_set(&c->err, EIO, "the journal cannot be read to find out whether this was done");
		reply_failure(c);
		change_free(c);
		return true;
	}
	if (entry.answer[0])
		c->answer = take_ptr(entry.answer);
	if (c->op == CHANGE_MKDIR)
		(void)node_parse(entry.node, &c->made);
	if (entry.code) {
		recall_refusal(c, entry.code);
		reply_failure(c);
	} else {
		reply_success(c);
	}
	prune_add(c->hub, c->unique);
	journal_entry_clear(&entry);
	change_free(c);
	return true;
}

/* --- pruning -------------------------------------------------------------------------------- */

/* Rows beyond this are removed at once; fewer wait a moment for company. */
#define PRUNE_BATCH 64
#define PRUNE_DELAY_MS 500

struct prune {
	struct store_op op;
	struct hub *hub;
	uv_timer_t timer;
	uint64_t *waiting, *sent;
	size_t n_waiting, cap, n_sent;
	bool busy;
};

static void prune_send(struct prune *p);

static int apply_prune(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct prune *p = (const struct prune *)op;

	(void)fault_point("prune.apply");
	return journal_delete(tx, area_header(p->hub->area)->mount_id, p->sent, p->n_sent, err);
}

static void pruned(struct store_op *op, int result, const struct error *err)
{
	struct prune *p = (struct prune *)op;

	(void)result; /* rows that stay are removed with the next mount */
	(void)err;
	free(p->sent);
	p->sent = NULL;
	p->n_sent = 0;
	p->busy = false;
	if (p->n_waiting >= PRUNE_BATCH)
		prune_send(p);
}

static void prune_send(struct prune *p)
{
	if (p->busy || p->n_waiting == 0)
		return;
	p->sent = p->waiting;
	p->n_sent = p->n_waiting;
	p->waiting = NULL;
	p->n_waiting = p->cap = 0;
	p->busy = true;
	p->op.apply = apply_prune;
	p->op.done = pruned;
	store_submit(p->hub->store, &p->op);
}

static void prune_timer(uv_timer_t *timer)
{
	prune_send(timer->data);
}

int prune_new(struct hub *hub, struct prune **ret, struct error *err)
{
	struct prune *p = calloc(1, sizeof(*p));

	if (!p)
		return error_oom(err);
	p->hub = hub;
	(void)uv_timer_init(&hub->loop, &p->timer);
	p->timer.data = p;
	*ret = p;
	return 0;
}

struct prune *prune_free(struct prune *p)
{
	if (!p)
		return NULL;
	free(p->waiting);
	free(p->sent);
	free(p);
	return NULL;
}

void prune_add(struct hub *hub, uint64_t unique)
{
	struct prune *p = hub->prune;

	if (p->n_waiting == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : PRUNE_BATCH;
		uint64_t *list = reallocarray(p->waiting, cap, sizeof(*list));

		if (!list)
			return; /* the row goes with the next mount */
		p->waiting = list;
		p->cap = cap;
	}
	p->waiting[p->n_waiting++] = unique & INT64_MAX;
	if (p->n_waiting >= PRUNE_BATCH)
		prune_send(p);
	else if (!uv_is_active((uv_handle_t *)&p->timer))
		(void)uv_timer_start(&p->timer, prune_timer, PRUNE_DELAY_MS, 0);
}

/* --- refusals ------------------------------------------------------------------------------- */

static int put_or_null(json_t *o, const char *name, const char *value)
{
	return json_put_new(o, name, value[0] ? json_string(value) : json_null());
}

char *error_json(const char *file, const struct error *err, int64_t at_ns)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || put_or_null(o, "file", file) < 0 ||
	    json_put_string(o, "errno", error_name(err->code)) < 0 ||
	    put_or_null(o, "reason", err->reason) < 0 || put_or_null(o, "field", err->field) < 0 ||
	    put_or_null(o, "remedy", err->remedy) < 0 || json_put_time_if(o, "at", at_ns) < 0)
		return NULL;
	return json_text(o);
}

void error_record(struct hub *hub, uid_t uid, struct node file, const char *name,
		  const struct error *err)
{
	AUTO_BUF struct buf path = BUF_INIT(4096);

	(void)node_path(hub, file, &path);
	if (name && name[0]) {
		/* A name is the caller's own bytes: only what is UTF-8 can stand in JSON. */
		buf_printf(&path, "%s%s", path.len > 0 ? "/" : "",
			   text_utf8_valid(name, strlen(name)) ? name : "?");
	}
	AUTO_FREE char *text = error_json(path.data ? path.data : "", err, clock_now_ns());
	if (text)
		area_mailbox_put(hub->area, uid, AREA_MAILBOX_ERROR, text, strlen(text));
}
