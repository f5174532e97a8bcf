#include "fs/node.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <string.h>

#include "core/clock.h"
#include "core/owner.h"
#include "fs/attempts.h"
#include "fs/context.h"
#include "fs/tables.h"
#include "fs/transaction.h"

#define KIND_SHIFT 56
#define SERIAL_SHIFT 24
#define FILE_SHIFT 16

uint64_t node_id(struct node node)
{
	if (node.kind == NODE_ROOT && node.file == 0)
		return FUSE_ROOT_ID;
	return (uint64_t)node.kind << KIND_SHIFT | (uint64_t)node.serial << SERIAL_SHIFT |
	       (uint64_t)node.file << FILE_SHIFT | node.nonce;
}

uint64_t node_inode(struct node node)
{
	node.nonce = 0;
	return node_id(node);
}

bool node_parse(uint64_t id, struct node *ret)
{
	if (id == FUSE_ROOT_ID) {
		*ret = (struct node){.kind = NODE_ROOT};
		return true;
	}
	uint64_t kind = id >> KIND_SHIFT;
	if (kind <= NODE_NONE || kind >= NODE_KINDS)
		return false;
	*ret = (struct node){
		.kind = (enum node_kind)kind,
		.serial = (uint32_t)(id >> SERIAL_SHIFT),
		.file = (uint8_t)(id >> FILE_SHIFT),
		.nonce = (uint16_t)id,
	};
	const struct node_dir *dir = node_dir(ret->kind);
	return dir && ret->file <= dir->n_files;
}

const struct node_dir *node_dir(enum node_kind kind)
{
	static const struct node_dir *const dirs[NODE_KINDS] = {
		[NODE_ROOT] = &root_dir,
		[NODE_EXECUTORS] = &executors_dir,
		[NODE_EXECUTOR] = &executor_dir,
		[NODE_EXECUTOR_SESSIONS] = &executor_sessions_dir,
		[NODE_EXECUTOR_SESSION] = &executor_session_dir,
		[NODE_SESSIONS] = &sessions_dir,
		[NODE_SESSION] = &session_dir,
		[NODE_LIVE] = &live_dir,
		[NODE_LIVE_EXECUTORS] = &live_executors_dir,
		[NODE_LIVE_EXECUTOR] = &live_executor_dir,
		[NODE_LIVE_SESSIONS] = &live_sessions_dir,
		[NODE_LIVE_SESSION] = &live_session_dir,
		[NODE_POLICY] = &policy_dir,
		[NODE_ATTEMPTS] = &attempts_dir,
		[NODE_ATTEMPT] = &attempt_dir,
		[NODE_PROJECTS] = &projects_dir,
		[NODE_PROJECT] = &project_dir,
		[NODE_PROJECT_SESSIONS] = &project_sessions_dir,
		[NODE_PROJECT_SESSION] = &project_session_dir,
		[NODE_CHECK] = &check_dir,
	};

	return kind < NODE_KINDS ? dirs[kind] : NULL;
}

const struct node_file *node_file(struct node node)
{
	const struct node_dir *dir = node_dir(node.kind);

	if (!dir || node.file == 0 || node.file > dir->n_files)
		return NULL;
	return &dir->files[node.file - 1];
}

uint8_t node_find(const struct node_dir *dir, const char *name)
{
	for (size_t i = 0; i < dir->n_files; i++)
		if (strcmp(dir->files[i].name, name) == 0)
			return (uint8_t)(i + 1);
	return 0;
}

static mode_t type_bits(const struct node_file *file, bool live)
{
	switch (file->type) {
	case FILE_LINK:
		return S_IFLNK;
	case FILE_STREAM:
	case FILE_WAIT:
		return live ? S_IFREG : S_IFLNK;
	default:
		return S_IFREG;
	}
}

/* The blocking files are links in the object's own directory and files below /.live. */
static bool is_live(enum node_kind kind)
{
	return kind == NODE_LIVE_EXECUTOR || kind == NODE_LIVE_SESSION;
}

static void set_owner(struct hub *hub, enum node_owner owner, const struct object_info *info,
		      struct stat *st)
{
	if (hub->uid != 0) {
		st->st_uid = hub->uid;
		st->st_gid = hub->gid;
		return;
	}
	switch (owner) {
	case OWNER_ROOT:
		break;
	case OWNER_CLOOP:
		st->st_gid = hub->gid_cloop;
		break;
	case OWNER_ADMIN:
		st->st_gid = hub->gid_admin;
		break;
	case OWNER_SESSION:
		st->st_uid = info->uid;
		st->st_gid = hub->gid_admin;
		break;
	}
}

static void set_times(struct stat *st, int64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / CLOCK_NS_PER_S),
			      .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};

	st->st_atim = st->st_mtim = st->st_ctim = ts;
}

static int file_size(struct hub *hub, struct node node, const struct node_file *file, uid_t uid,
		     uint64_t *ret)
{
	const struct view v = {.hub = hub, .node = node, .uid = uid};

	if (file->size)
		return file->size(&v, ret);
	if (file->type == FILE_TRANSACTION) {
		*ret = transaction_size(hub, node, uid);
		return 0;
	}
	if (!file->render) {
		*ret = 0;
		return 0;
	}
	AUTO_BUF struct buf out = BUF_INIT(NODE_TEXT_MAX);
	int r = file->render(&v, &out);
	if (r == 0)
		*ret = out.len;
	return r;
}

int node_attr(struct hub *hub, struct node node, uid_t uid, struct stat *ret)
{
	const struct node_dir *dir = node_dir(node.kind);
	const struct node_file *file = node_file(node);
	struct object_info info = {.changed_ns = hub->started_ns, .created_ns = hub->started_ns};
	struct stat st = {.st_ino = node_inode(node), .st_blksize = 4096};
	int r = 0;

	if (!dir || (node.file != 0 && !file))
		return -ENOENT;
	if (dir->object)
		r = dir->object(hub, node.serial, &info);
	if (r < 0)
		return r;

	if (!file) {
		st.st_mode = S_IFDIR | dir->mode;
		/* Not counted: 2 would say that there is no directory below. */
		st.st_nlink = 1;
		set_owner(hub, dir->owner, &info, &st);
		set_times(&st, dir->growing ? info.changed_ns : info.created_ns);
		*ret = st;
		return 0;
	}

	uint64_t size = 0;
	bool live = is_live(node.kind);
	st.st_mode = type_bits(file, live);
	st.st_nlink = 1;
	if (S_ISLNK(st.st_mode)) {
		st.st_mode |= 0777;
		AUTO_BUF struct buf out = BUF_INIT(NODE_TEXT_MAX);
		r = node_render(hub, node, uid, &out);
		size = out.len;
	} else {
		st.st_mode |= file->mode;
		r = file_size(hub, node, file, uid, &size);
	}
	if (r < 0)
		return r;
	st.st_size = (off_t)size;
	st.st_blocks = (blkcnt_t)((size + 511) / 512);
	set_owner(hub, file->owner, &info, &st);
	const struct view v = {.hub = hub, .node = node, .uid = uid};
	int64_t changed = file->changed ? file->changed(&v) : 0;
	set_times(&st, changed ? changed : file->fixed ? info.created_ns : info.changed_ns);
	*ret = st;
	return 0;
}

bool node_fixed(struct node node)
{
	const struct node_file *file = node_file(node);

	return file ? file->fixed : !node_dir(node.kind)->growing;
}

struct node root_node(const char *name)
{
	return (struct node){.kind = NODE_ROOT, .file = node_find(&root_dir, name)};
}

struct node node_row(struct node dir, uint8_t row)
{
	const struct node_file *file = &node_dir(dir.kind)->files[row - 1];

	if (file->type == FILE_DIR)
		return (struct node){.kind = file->child, .serial = dir.serial};
	return (struct node){.kind = dir.kind, .serial = dir.serial, .file = row};
}

mode_t node_type(struct node node)
{
	const struct node_file *file = node_file(node);

	return file ? type_bits(file, is_live(node.kind)) : S_IFDIR;
}

int node_render(struct hub *hub, struct node node, uid_t uid, struct buf *out)
{
	const struct node_file *file = node_file(node);
	const struct view v = {.hub = hub, .node = node, .uid = uid};

	if (!file || !file->render)
		return -EINVAL;
	int r = file->render(&v, out);
	return r < 0 ? r : out->failed;
}

struct node node_parent(struct hub *hub, struct node dir)
{
	switch (dir.kind) {
	case NODE_EXECUTOR:
		return (struct node){.kind = NODE_EXECUTORS};
	case NODE_EXECUTOR_SESSIONS:
		return (struct node){.kind = NODE_EXECUTOR, .serial = dir.serial};
	case NODE_SESSION:
		return (struct node){.kind = NODE_SESSIONS};
	case NODE_ATTEMPTS:
		return (struct node){.kind = NODE_SESSION, .serial = dir.serial};
	case NODE_ATTEMPT:
		return attempt_parent(hub, dir.serial);
	case NODE_PROJECT:
		return (struct node){.kind = NODE_PROJECTS};
	case NODE_PROJECT_SESSIONS:
		return (struct node){.kind = NODE_PROJECT, .serial = dir.serial};
	default:
		return (struct node){.kind = NODE_ROOT};
	}
}

int node_path(struct hub *hub, struct node node, struct buf *out)
{
	const struct node_dir *dir = node_dir(node.kind);
	const struct node_file *file = node_file(node);
	unsigned nth = 0;

	if (!dir)
		return -ENOENT;
	for (const char *p = dir->path + 1; dir->path[0] && *p; p++) {
		if (*p != '<') {
			buf_append(out, p, 1);
			continue;
		}
		int r = dir->nth_name ? dir->nth_name(hub, node.serial, nth++, out)
				      : dir->name(hub, node.serial, out);
		if (r < 0)
			return r;
		p = strchr(p, '>');
	}
	if (file)
		buf_printf(out, "%s%s", out->len > 0 ? "/" : "", file->name);
	return out->failed;
}
