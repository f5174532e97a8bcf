/*
 * A file system with as little in it as libfuse allows, to compare with.
 *
 *	empty_fuse MOUNTPOINT
 *
 * /file is empty: reads give nothing, writes go nowhere. /dir/id/file is the same file below a
 * directory whose name the kernel asks for each time, as cloop's objects have it. Serves in the
 * foreground with one thread until it is unmounted or ended.
 */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/owner.h"

enum inode { INODE_ROOT = FUSE_ROOT_ID, INODE_FILE, INODE_DIR, INODE_ID, INODE_DEEP };

static struct stat attr_of(fuse_ino_t ino)
{
	bool file = ino == INODE_FILE || ino == INODE_DEEP;

	return (struct stat){.st_ino = ino,
			     .st_mode = file ? S_IFREG | 0666 : S_IFDIR | 0755,
			     .st_nlink = file ? 1 : 2};
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	static const struct {
		fuse_ino_t parent;
		const char *name;
		fuse_ino_t ino;
		double timeout;
	} names[] = {
		{INODE_ROOT, "file", INODE_FILE, 1.0},
		{INODE_ROOT, "dir", INODE_DIR, 1.0},
		{INODE_DIR, "id", INODE_ID, 0},
		{INODE_ID, "file", INODE_DEEP, 1.0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i].parent != parent || strcmp(names[i].name, name) != 0)
			continue;
		const struct fuse_entry_param e = {.ino = names[i].ino,
						   .generation = 1,
						   .attr = attr_of(names[i].ino),
						   .attr_timeout = names[i].timeout,
						   .entry_timeout = names[i].timeout};

		(void)fuse_reply_entry(req, &e);
		return;
	}
	(void)fuse_reply_err(req, ENOENT);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	const struct stat st = attr_of(ino);

	(void)fi;
	(void)fuse_reply_attr(req, &st, ino == INODE_ID ? 0 : 1.0);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	(void)attr;
	(void)to_set;
	op_getattr(req, ino, fi);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fi->direct_io = 1;
	(void)fuse_reply_open(req, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	(void)ino;
	(void)size;
	(void)off;
	(void)fi;
	(void)fuse_reply_buf(req, NULL, 0);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	(void)ino;
	(void)data;
	(void)off;
	(void)fi;
	(void)fuse_reply_write(req, size);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	(void)fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = op_lookup,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_flush,
};

int main(int argc, char **argv)
{
	char *names[] = {argv[0], (char *)"-odefault_permissions,allow_other", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(2, names);
	int r = 1;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: %s MOUNTPOINT\n", argv[0]);
		return 2;
	}
	struct fuse_session *session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (session && fuse_set_signal_handlers(session) == 0 &&
	    fuse_session_mount(session, argv[1]) == 0) {
		r = fuse_session_loop(session) < 0;
		fuse_session_unmount(session);
	}
	if (session)
		fuse_session_destroy(session);
	fuse_opt_free_args(&args);
	return r;
}
