#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "core/owner.h"
#include "fs/area.h"
#include "fs/caller.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/follow.h"
#include "fs/node.h"
#include "fs/read.h"
#include "fs/transaction.h"
#include "fs/watch.h"
#include "fs/wire.h"

/* What never changes is kept by the kernel for a second; everything else is asked for each time. */
#define FIXED_TIMEOUT 1.0

/* Everything that the kernel offers as parallel background requests, so that held reads of one user
 * do not use up what all share (32 blocked aio reads would be enough by default). */
#define MAX_BACKGROUND 65535

static struct hub *hub_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void op_init(void *user, struct fuse_conn_info *conn)
{
	(void)user;
	conn->want &= ~(unsigned)(FUSE_CAP_ASYNC_DIO | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
				  FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
				  FUSE_CAP_WRITEBACK_CACHE);
	conn->max_write = AREA_MAX_WRITE;
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = MAX_BACKGROUND;
	conn->max_readahead = AREA_MAX_WRITE;
}

/* --- names and attributes ------------------------------------------------------------------- */

/* Finds a name in a directory. */
static int find(struct hub *hub, struct node parent, const char *name, struct node *ret,
		bool *ret_fixed_name)
{
	const struct node_dir *dir = node_dir(parent.kind);

	if (parent.file != 0 || !dir)
		return -ENOTDIR;
	uint8_t row = node_find(dir, name);
	if (row) {
		*ret = node_row(parent, row);
		*ret_fixed_name = !dir->files[row - 1].absent;
		return 0;
	}
	*ret_fixed_name = false;
	return dir->lookup ? dir->lookup(hub, parent.serial, name, ret) : -ENOENT;
}

static bool is_clone(struct node node)
{
	const struct node_file *file = node_file(node);

	return file && (file->type == FILE_TRANSACTION || file->clone);
}

/*
 * How long the kernel may find a name without asking. A name that is known is no promise for the
 * attributes: with default_permissions the kernel asks for them before it opens the file; without, it
 * would go by an old size (sendfile(2) does), unless the name has to be looked up.
 */
static double name_timeout(const struct hub *hub, struct node node, bool fixed_name)
{
	return fixed_name && (hub->options->allow_other || node_fixed(node)) ? FIXED_TIMEOUT : 0;
}

static int entry_of(struct hub *hub, struct node node, uid_t uid, bool fixed_name,
		    struct fuse_entry_param *ret)
{
	struct fuse_entry_param e = {.generation = 1};

	int r = node_attr(hub, node, uid, &e.attr);
	if (r < 0)
		return r;
	if (is_clone(node)) {
		/* Another inode for each opener: nobody queues behind somebody else's WRITE. */
		node.nonce = ++hub->nonce;
		fixed_name = false;
	}
	e.ino = node_id(node);
	e.entry_timeout = name_timeout(hub, node, fixed_name);
	e.attr_timeout = node_fixed(node) ? FIXED_TIMEOUT : 0;
	*ret = e;
	return 0;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct hub *hub = hub_of(req);
	struct node dir, node;
	struct fuse_entry_param e;
	bool fixed_name;

	if (!node_parse(parent, &dir)) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	/* The kernel lets longer ones through than statfs(2) says. */
	if (strlen(name) > NAME_MAX) {
		(void)fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	int r = find(hub, dir, name, &node, &fixed_name);
	if (r == 0 && watch_hides(hub, req, node))
		r = -ENOENT;
	if (r == 0)
		r = entry_of(hub, node, fuse_req_ctx(req)->uid, fixed_name, &e);
	if (r < 0) {
		if (watch_shows(hub, req, dir, name, &e))
			(void)fuse_reply_entry(req, &e);
		else
			(void)fuse_reply_err(req, r == -ESTALE ? ENOENT : -r);
		return;
	}
	watch_looked_up(hub, node);
	(void)fuse_reply_entry(req, &e);
}

/*
 * On a descriptor (the kernel asks so for the end to seek to), a file that is served from its handle
 * has the size of what the handle holds, and one that blocks that of what there is by now.
 */
static void size_of_handle(struct hub *hub, struct node node, uint64_t fh, struct stat *st)
{
	const struct node_file *file = node_file(node);
	const struct area_handle *h = area_handle_get(hub->area, fh);
	uint64_t size;

	if (!file || !h)
		return;
	const struct view v = {.hub = hub, .node = node, .uid = h->uid, .on_handle = true};
	if (h->text_valid)
		size = h->text.len;
	else if (!file->stream || file->size(&v, &size) < 0)
		return;
	st->st_size = (off_t)size;
	st->st_blocks = (blkcnt_t)((size + 511) / 512);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct hub *hub = hub_of(req);
	struct node node;
	struct stat st;

	if (!node_parse(ino, &node)) {
		(void)fuse_reply_err(req, ESTALE);
		return;
	}
	int r = node_attr(hub, node, fuse_req_ctx(req)->uid, &st);
	if (r == -ENOENT || r == -ESTALE) {
		/*
		 * Removed while open: fstat says so with a link count of 0. (It comes without a
		 * handle. A path does not come here: the object's name is looked up first.)
		 */
		st = (struct stat){.st_ino = node_inode(node), .st_mode = node_type(node)};
		(void)fuse_reply_attr(req, &st, 0);
		return;
	}
	if (r < 0) {
		(void)fuse_reply_err(req, -r);
		return;
	}
	if (fi)
		size_of_handle(hub, node, fi->fh, &st);
	/* Nobody ever looks the root up. */
	if (ino == FUSE_ROOT_ID)
		watch_looked_up(hub, node);
	(void)fuse_reply_attr(req, &st, node_fixed(node) ? FIXED_TIMEOUT : 0);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	struct node node;
	const struct node_file *file;

	(void)attr;
	/* truncate(2) of a file that takes writes means nothing, as O_TRUNC does. */
	if (!node_parse(ino, &node) || !(file = node_file(node)) || !(file->mode & 0222) ||
	    (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_CTIME |
			FUSE_SET_ATTR_MTIME_NOW)) ||
	    !(to_set & FUSE_SET_ATTR_SIZE)) {
		(void)fuse_reply_err(req, EPERM);
		return;
	}
	op_getattr(req, ino, fi);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct hub *hub = hub_of(req);
	AUTO_BUF struct buf target = BUF_INIT(4096);
	struct node node;

	int r = node_parse(ino, &node) ? node_render(hub, node, fuse_req_ctx(req)->uid, &target) : -ENOENT;
	if (r < 0)
		(void)fuse_reply_err(req, -r);
	else
		(void)fuse_reply_readlink(req, target.data);
}

/* --- open files ----------------------------------------------------------------------------- */

/* Keeps who opened the file. A failure leaves the handle to be dropped. */
static int set_caller(struct hub *hub, fuse_req_t req, struct area_handle *h, bool for_writing)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct caller caller;

	h->uid = ctx->uid;
	h->gid = ctx->gid;
	h->pid = (uint32_t)ctx->pid;
	if (!for_writing)
		return 0;
	/* Unreadable: the file opens (its answer can be read), but its WRITEs are refused. */
	if (caller_read(&hub->home, ctx->pid, ctx->uid, ctx->gid, &caller) < 0)
		return 0;
	h->trusted = caller.trusted;
	h->n_groups = (uint32_t)caller.n_groups;
	int r = 0;
	if (caller.n_groups <= AREA_GROUPS_INLINE) {
		for (size_t i = 0; i < caller.n_groups; i++)
			h->groups[i] = caller.groups[i];
	} else {
		r = area_blob_set(hub->area, &h->more_groups, h->uid, caller.groups,
				  caller.n_groups * sizeof(uint32_t));
	}
	caller_clear(&caller);
	return r;
}

/* Renders what the handle will serve. Transactions read as the caller's latest answer. */
static int set_text(struct hub *hub, struct node node, struct area_handle *h)
{
	AUTO_BUF struct buf text = BUF_INIT(NODE_TEXT_MAX);

	if (node_file(node)->type == FILE_TRANSACTION) {
		const struct area_mailbox *m = area_mailbox_get(hub->area, h->uid, node_inode(node));

		if (m && m->text.len > 0) {
			AUTO_FREE char *data = malloc(m->text.len);

			if (!data)
				return -ENOMEM;
			buf_append(&text, data, area_blob_read(hub->area, &m->text, 0, data, m->text.len));
		}
	} else {
		int r = node_render(hub, node, h->uid, &text);

		if (r < 0)
			return r;
	}
	if (text.failed)
		return text.failed;
	int r = area_blob_set(hub->area, &h->text, h->uid, text.data, text.len);
	if (r < 0)
		return r;
	h->text_valid = 1;
	return 0;
}

static int open_node(struct hub *hub, fuse_req_t req, struct node node, int flags,
		     struct area_handle **ret)
{
	const struct node_file *file = node_file(node);
	bool reads = (flags & O_ACCMODE) != O_WRONLY, writes = (flags & O_ACCMODE) != O_RDONLY;

	if (!file)
		return -EISDIR;
	/* default_permissions judges owners; what no one may do is refused here as well. */
	if ((writes && !(file->mode & 0222)) || (reads && !(file->mode & 0444)))
		return -EACCES;
	struct area_handle *h = area_handle_new(hub->area, node_id(node), fuse_req_ctx(req)->uid);
	if (!h)
		return -EDQUOT;
	h->flags = (uint32_t)flags;
	int r = set_caller(hub, req, h, writes);
	if (r == 0 && file->type != FILE_LOG && file->type != FILE_STREAM && file->type != FILE_WAIT &&
	    reads)
		r = set_text(hub, node, h);
	if (r < 0) {
		area_handle_drop(hub->area, h);
		return r;
	}
	*ret = h;
	return 0;
}

/* What can be incomplete when it is closed; closing anything else need not come to us. */
static bool takes_documents(const struct node_file *file)
{
	return file->type == FILE_TRANSACTION || file->type == FILE_DOCUMENT;
}

/* Whether the object that the node belongs to was removed. */
static bool is_stale(struct hub *hub, struct node node)
{
	const struct node_dir *dir = node_dir(node.kind);
	struct object_info info;

	return dir->object && dir->object(hub, node.serial, &info) < 0;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct hub *hub = hub_of(req);
	struct area_handle *h = NULL;
	struct node node;

	if (!node_parse(ino, &node) || is_stale(hub, node)) {
		(void)fuse_reply_err(req, ESTALE);
		return;
	}
	if (watch_opened(hub, req, node, fi))
		return;
	if (wire_replaying(hub->wire))
		h = area_handle_of_open(hub->area, wire_unique(hub->wire));
	bool made = !h;
	if (made) {
		int r = open_node(hub, req, node, fi->flags, &h);

		if (r < 0) {
			(void)fuse_reply_err(req, -r);
			return;
		}
		area_handle_publish(hub->area, h, wire_unique(hub->wire));
	}
	fi->fh = h->fh;
	fi->direct_io = 1;
	fi->keep_cache = 0;
	fi->noflush = !(takes_documents(node_file(node)) && (fi->flags & O_ACCMODE) != O_RDONLY);
	/*
	 * ENOENT: the opener is gone, and no RELEASE will come. Of a handle that an earlier hub made
	 * it says that this hub had answered before it died: it is in use.
	 */
	if (fuse_reply_open(req, fi) == -ENOENT && made)
		area_handle_drop(hub->area, h);
}

/* The handle and node of a request on an open file; replies and returns false when there is none. */
static bool handle_of(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi,
		      struct node *node, struct area_handle **ret)
{
	struct hub *hub = hub_of(req);
	struct area_handle *h = fi ? area_handle_get(hub->area, fi->fh) : NULL;

	if (!h || !node_parse(ino, node)) {
		(void)fuse_reply_err(req, EBADF);
		return false;
	}
	if (is_stale(hub, *node)) {
		(void)fuse_reply_err(req, ESTALE);
		return false;
	}
	*ret = h;
	return true;
}

/*
 * Whether a READ may not fill the kernel's cache, as one without an owner does. For sendfile(2), a file
 * that blocks would end where it ends at this moment; and an answer begins where the document ended,
 * not at the beginning of a page. Who copies in that way (busybox) goes on with read(2) after an error.
 */
static bool is_uncached(struct node node, const struct area_handle *h)
{
	switch (node_file(node)->type) {
	case FILE_STREAM:
	case FILE_WAIT:
		return true;
	case FILE_TRANSACTION:
	case FILE_DOCUMENT:
		return h->doc_state != DOCUMENT_NONE;
	default:
		/* One inode for all callers, each of whom reads something else. */
		return node_file(node)->per_caller;
	}
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct area_handle *h;
	struct node node;

	if (!handle_of(req, ino, fi, &node, &h))
		return;
	if (fi->lock_owner == 0 && is_uncached(node, h)) {
		(void)fuse_reply_err(req, EINVAL);
		return;
	}
	if (size > AREA_MAX_WRITE)
		size = AREA_MAX_WRITE;
	switch (node_file(node)->type) {
	case FILE_TRANSACTION:
	case FILE_DOCUMENT:
		transaction_read(hub_of(req), req, h, size, (uint64_t)off);
		break;
	case FILE_LOG:
		read_log(hub_of(req), req, node, size, (uint64_t)off);
		break;
	case FILE_STREAM:
	case FILE_WAIT:
		follow_read(hub_of(req), req, node, h, size, (uint64_t)off, fi->flags);
		break;
	default:
		read_text(hub_of(req), req, h, size, (uint64_t)off);
		break;
	}
}

static bool takes_writes(const struct node_file *file)
{
	return takes_documents(file) || file->type == FILE_CONTROL;
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	struct area_handle *h;
	struct node node;

	(void)off;
	if (!handle_of(req, ino, fi, &node, &h))
		return;
	if (!takes_writes(node_file(node))) {
		(void)fuse_reply_err(req, EBADF);
		return;
	}
	transaction_write(hub_of(req), req, node, h, data, size);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct hub *hub = hub_of(req);
	struct area_handle *h = area_handle_get(hub->area, fi->fh);
	struct node node;

	/* closing what was removed meanwhile is no error */
	if (!h || !node_parse(ino, &node))
		(void)fuse_reply_err(req, 0);
	else
		transaction_flush(hub, req, node, h);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct hub *hub = hub_of(req);
	struct area_handle *h = area_handle_get(hub->area, fi->fh);
	struct node node;

	if (h && node_parse(ino, &node)) {
		transaction_release(hub, node, h);
		follow_release(hub, h);
		area_handle_drop(hub->area, h);
	}
	(void)fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	(void)fuse_reply_err(req, 0); /* acknowledged is durable already */
}

static void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		    struct fuse_pollhandle *ph)
{
	struct area_handle *h;
	struct node node;

	/* Woken by its number (fs/wire.h), which also the next hub knows. */
	if (ph)
		fuse_pollhandle_destroy(ph);
	if (!handle_of(req, ino, fi, &node, &h))
		return;
	enum file_type type = node_file(node)->type;
	if (type == FILE_STREAM || type == FILE_WAIT)
		follow_poll(hub_of(req), req, node, h);
	else
		(void)fuse_reply_poll(req, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
			 struct fuse_file_info *fi)
{
	struct node node;

	(void)mode;
	(void)off;
	(void)len;
	(void)fi;
	if (node_parse(ino, &node))
		watch_allocate(hub_of(req), req, node);
	else
		(void)fuse_reply_err(req, ESTALE);
}

/* --- directories ---------------------------------------------------------------------------- */

struct listing {
	fuse_req_t req;
	char *data;
	size_t size, used;
};

static bool emit(void *user, const char *name, struct node node, mode_t type, uint64_t next)
{
	struct listing *l = user;
	const struct stat st = {.st_ino = node_inode(node), .st_mode = type};
	size_t n = fuse_add_direntry(l->req, l->data + l->used, l->size - l->used, name, &st, (off_t)next);

	if (n > l->size - l->used)
		return false;
	l->used += n;
	return true;
}

/*
 * Positions: 0 and 1 are "." and "..", then the rows, then the children. Children count from 0 in
 * their own numbering, so a position stays right when the directory changes.
 */
static int list_dir(struct hub *hub, struct node dir, uint64_t pos, struct listing *l)
{
	const struct node_dir *table = node_dir(dir.kind);
	uint64_t rows_end = 2 + table->n_files;

	if (pos == 0) {
		if (!emit(l, ".", dir, S_IFDIR, 1))
			return 0;
		pos = 1;
	}
	if (pos == 1) {
		if (!emit(l, "..", node_parent(hub, dir), S_IFDIR, 2))
			return 0;
		pos = 2;
	}
	for (; !table->hidden_rows && pos < rows_end; pos++) {
		struct node node = node_row(dir, (uint8_t)(pos - 1));

		/* A link that has no target is not there. */
		if (table->files[pos - 2].absent && table->files[pos - 2].absent(hub, dir.serial))
			continue;
		if (!emit(l, table->files[pos - 2].name, node, node_type(node), pos + 1))
			return 0;
	}
	if (!table->list)
		return 0;
	return table->list(hub, dir.serial, pos < rows_end ? 0 : pos - rows_end, rows_end, emit, l);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	struct hub *hub = hub_of(req);
	AUTO_FREE char *data = malloc(size);
	struct listing l = {.req = req, .data = data, .size = size};
	struct node node;

	(void)fi;
	if (!data) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	if (!node_parse(ino, &node) || node.file != 0) {
		(void)fuse_reply_err(req, ENOTDIR);
		return;
	}
	if (is_stale(hub, node)) {
		(void)fuse_reply_err(req, ESTALE);
		return;
	}
	int r = list_dir(hub, node, (uint64_t)off, &l);
	if (r < 0)
		(void)fuse_reply_err(req, -r);
	else
		(void)fuse_reply_buf(req, data, l.used);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node node;

	if (!node_parse(ino, &node) || node.file != 0) {
		(void)fuse_reply_err(req, ENOTDIR);
		return;
	}
	fi->fh = 0;
	(void)fuse_reply_open(req, fi);
}

static void change_entry(fuse_req_t req, fuse_ino_t parent, const char *name, enum change_op op)
{
	struct hub *hub = hub_of(req);
	struct node dir;
	void (*action)(struct change *, const char *) = NULL;

	if (node_parse(parent, &dir) && dir.file == 0)
		action = op == CHANGE_MKDIR ? node_dir(dir.kind)->mkdir : node_dir(dir.kind)->rmdir;
	struct change *c = change_new(hub, req, op, dir);
	if (!c)
		return;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	if (!action) {
		c->uid = fuse_req_ctx(req)->uid;
		(void)error_set(&c->err, EPERM, "nothing can be %s here",
				op == CHANGE_MKDIR ? "made" : "removed");
		error_remedy(&c->err, op == CHANGE_MKDIR ? "mkdir executors/ID or projects/NAME"
							 : "rmdir executors/ID, sessions/ID or projects/NAME");
		change_refuse(c);
		return;
	}
	if (change_caller_of_request(c) < 0)
		change_refuse(c);
	else if (!change_replayed(c))
		action(c, name);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)mode;
	if (!watch_nudged(hub_of(req), req, parent, name, true))
		change_entry(req, parent, name, CHANGE_MKDIR);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (!watch_nudged(hub_of(req), req, parent, name, false))
		change_entry(req, parent, name, CHANGE_RMDIR);
}

/* --- what the tree does not do -------------------------------------------------------------- */

static void refuse_entry(fuse_req_t req, fuse_ino_t parent, const char *name, const char *reason,
			 const char *remedy)
{
	struct node dir = {.kind = NODE_ROOT};
	struct error err;

	(void)node_parse(parent, &dir);
	(void)error_set(&err, EPERM, "%s", reason);
	error_remedy(&err, "%s", remedy);
	error_record(hub_of(req), fuse_req_ctx(req)->uid, dir, name, &err);
	(void)fuse_reply_err(req, EPERM);
}

static const char fixed_files[] = "the files of this tree are fixed";
static const char fixed_remedy[] = "write to the files that are there; executors and projects are made with mkdir";

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (watch_nudged(hub_of(req), req, parent, name, false))
		return;
	refuse_entry(req, parent, name, "no file of this tree can be removed by itself",
		     "remove the object's directory with rmdir");
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	(void)mode;
	(void)rdev;
	refuse_entry(req, parent, name, fixed_files, fixed_remedy);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	(void)mode;
	(void)fi;
	refuse_entry(req, parent, name, fixed_files, fixed_remedy);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	if (watch_nudged(hub_of(req), req, parent, name, true))
		return;
	refuse_entry(req, parent, name, fixed_files, fixed_remedy);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned flags)
{
	(void)new_parent;
	(void)new_name;
	(void)flags;
	refuse_entry(req, parent, name, "nothing in this tree can be renamed",
		     "make a new object and remove the old one");
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	(void)ino;
	refuse_entry(req, new_parent, new_name, fixed_files, fixed_remedy);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
			size_t size, int flags)
{
	(void)ino;
	(void)name;
	(void)value;
	(void)size;
	(void)flags;
	(void)fuse_reply_err(req, EOPNOTSUPP);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	/* The room that logs and the store have: what `df` of a control plane is asked for. */
	struct hub *hub = hub_of(req);
	struct statvfs st = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = NAME_MAX};
	struct statvfs disk;

	(void)ino;
	if (statvfs(hub->options->state_dir, &disk) == 0) {
		st.f_bsize = disk.f_bsize;
		st.f_frsize = disk.f_frsize;
		st.f_blocks = disk.f_blocks;
		st.f_bfree = disk.f_bfree;
		st.f_bavail = disk.f_bavail;
	}
	(void)fuse_reply_statfs(req, &st);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	(void)ino;
	(void)count;
	fuse_reply_none(req);
}

const struct fuse_lowlevel_ops tree_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.create = op_create,
	.poll = op_poll,
	.fallocate = op_fallocate,
};
