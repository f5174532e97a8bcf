/*
 * The nudger's requests: who it is, and what it is answered.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/pidfd.h>

#include "fs/caller.h"
#include "fs/context.h"
#include "fs/watch_internal.h"
#include "fs/wire.h"

enum who {
	SOMEBODY,
	NUDGER,
	IMPOSTOR, /* has the nudger's group and is not the nudger */
};

/* Cheap for everybody else where there is a group to go by. */
static enum who who_asks(struct hub *hub, fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	const struct watch *w = hub->watch;
	enum who other = hub->uid == 0 ? IMPOSTOR : SOMEBODY;
	pid_t process, parent;

	if (ctx->uid != hub->uid || (hub->uid == 0 && ctx->gid != NUDGE_GROUP))
		return SOMEBODY;
	if (!w || w->pidfd < 0 || caller_process(ctx->pid, &process, &parent) < 0 ||
	    process != w->pid)
		return other;
	/* It was not reaped yet, so the number is still its own. */
	return pidfd_send_signal(w->pidfd, 0, NULL, 0) == 0 ? NUDGER : other;
}

/* Whether the call is about that name in that directory; *ret is what it stands for. */
static bool names(const struct watch_call *c, struct node parent, const char *name,
		  struct node *ret)
{
	if (c->name && node_id(parent) == node_id(c->dir) && strcmp(name, c->name) == 0) {
		*ret = c->node;
		return true;
	}
	if (c->row && node_id(parent) == node_id(c->node) &&
	    strcmp(name, node_dir(c->node.kind)->files[c->row - 1].name) == 0) {
		*ret = node_row(c->node, c->row);
		return true;
	}
	return false;
}

static bool makes(const struct watch_call *c)
{
	return c->type == NUDGE_MKDIR || c->type == NUDGE_SYMLINK;
}

static bool removes(const struct watch_call *c)
{
	return c->type == NUDGE_RMDIR || c->type == NUDGE_UNLINK;
}

bool watch_hides(struct hub *hub, fuse_req_t req, struct node node)
{
	for (size_t i = 0; hub->watch && i < NUDGE_WORKERS; i++) {
		const struct watch_call *c = watch_table_under_way(hub->watch->table, i);

		if (c && makes(c) && !c->answered && node_id(c->node) == node_id(node))
			return who_asks(hub, req) == NUDGER;
	}
	return false;
}

bool watch_shows(struct hub *hub, fuse_req_t req, struct node parent, const char *name,
		 struct fuse_entry_param *ret)
{
	struct node node;

	for (size_t i = 0; hub->watch && i < NUDGE_WORKERS; i++) {
		const struct watch_call *c = watch_table_under_way(hub->watch->table, i);

		if (!c || !removes(c) || c->answered || !names(c, parent, name, &node))
			continue;
		if (who_asks(hub, req) != NUDGER)
			return false;
		/* On its way through a directory the kernel would ask for its attributes. */
		*ret = (struct fuse_entry_param){
			.ino = node_id(node),
			.generation = 1,
			.attr = {.st_ino = node_inode(node), .st_mode = node_type(node) | 0700},
			.attr_timeout = 1.0,
		};
		return true;
	}
	return false;
}

static void reply_made(struct hub *hub, fuse_req_t req, struct watch_call *c)
{
	struct fuse_entry_param e = {.ino = node_id(c->node), .generation = 1};

	if (c->cancelled || node_attr(hub, c->node, hub->uid, &e.attr) < 0) {
		(void)fuse_reply_err(req, ENOENT); /* it went meanwhile */
		return;
	}
	c->answered = true;
	(void)fuse_reply_entry(req, &e);
}

bool watch_nudged(struct hub *hub, fuse_req_t req, fuse_ino_t parent, const char *name, bool made)
{
	enum who who = who_asks(hub, req);
	struct node dir, node;

	if (who == SOMEBODY)
		return false;
	for (size_t i = 0; who == NUDGER && node_parse(parent, &dir) && i < NUDGE_WORKERS; i++) {
		struct watch_call *c = watch_table_under_way(hub->watch->table, i);

		if (!c || c->answered || !(made ? makes(c) : removes(c)) ||
		    !names(c, dir, name, &node))
			continue;
		/* Of two names on the way to a file, only the last one is removed. */
		if (!made && c->row && node_id(node) == node_id(c->node))
			continue;
		if (made) {
			reply_made(hub, req, c);
		} else {
			c->answered = true;
			(void)fuse_reply_err(req, 0);
			if (c->type == NUDGE_RMDIR)
				watch_gone_add(hub->watch, node);
		}
		return true;
	}
	/* An order of an earlier hub, which has no effect any more; or not the nudger. */
	(void)fuse_reply_err(req, who == NUDGER ? (made ? EEXIST : ENOENT) : EPERM);
	return true;
}

/* Whether a file is being announced: before that, nobody need be asked who he is. */
static bool is_announced(struct hub *hub, struct node node)
{
	for (size_t i = 0; hub->watch && i < NUDGE_WORKERS; i++) {
		const struct watch_call *c = watch_table_under_way(hub->watch->table, i);

		if (c && c->type == NUDGE_MODIFY && node_id(c->node) == node_id(node))
			return true;
	}
	return false;
}

bool watch_opened(struct hub *hub, fuse_req_t req, struct node node, struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) != O_WRONLY ||
	    (hub->uid != 0 && !wire_replaying(hub->wire) && !is_announced(hub, node)))
		return false;
	enum who who = who_asks(hub, req);
	if (who == SOMEBODY)
		return false;
	if (who == IMPOSTOR) {
		(void)fuse_reply_err(req, EACCES);
		return true;
	}
	fi->fh = 0;
	fi->direct_io = 1;
	fi->keep_cache = 0;
	(void)fuse_reply_open(req, fi);
	return true;
}

void watch_allocate(struct hub *hub, fuse_req_t req, struct node node)
{
	struct object_info info;
	const struct node_dir *dir = node_dir(node.kind);

	if (who_asks(hub, req) != NUDGER)
		(void)fuse_reply_err(req, EOPNOTSUPP);
	else if (dir->object && dir->object(hub, node.serial, &info) < 0)
		(void)fuse_reply_err(req, ESTALE);
	else
		(void)fuse_reply_err(req, 0);
}
