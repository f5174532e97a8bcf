/*
 * Nodes: what a file of the tree is, as data.
 *
 * A directory is a static table, one row a file: name, mode, how it renders, how it takes a write,
 * and one sentence of documentation. Lookup, attributes, listing, open, read, write, poll, the
 * manual pages and the README in the mount all come from these rows; adding a file is adding a row
 * and a function.
 *
 * A node id is computed, not allocated: it packs the kind of directory, the serial of the object,
 * the row's index in that kind's table, and for clone files a nonce. It means the same thing to the
 * next hub process, so there is no inode table and FORGET is nothing.
 */
#ifndef CLOOP_FS_NODE_H
#define CLOOP_FS_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "core/buf.h"
#include "core/error.h"

struct area_handle;
struct change;
struct hub;

/* The kinds of directory. The numbers are part of node ids: never renumber, only append. */
enum node_kind {
	NODE_NONE = 0,
	NODE_ROOT,
	NODE_EXECUTORS,
	NODE_EXECUTOR,          /* serial: the executor's */
	NODE_EXECUTOR_SESSIONS, /* serial: the executor's */
	NODE_EXECUTOR_SESSION,  /* one link in there; serial: the session's */
	NODE_SESSIONS,
	NODE_SESSION, /* serial: the session's */
	NODE_LIVE,
	NODE_LIVE_EXECUTORS,
	NODE_LIVE_EXECUTOR,
	NODE_LIVE_SESSIONS,
	NODE_LIVE_SESSION,
	NODE_POLICY,
	NODE_ATTEMPTS, /* serial: the session's */
	NODE_ATTEMPT,  /* serial: the attempt's own */
	NODE_PROJECTS,
	NODE_PROJECT,          /* serial: the project's */
	NODE_PROJECT_SESSIONS, /* serial: the project's */
	NODE_PROJECT_SESSION,  /* one link in there; serial: the session's */
	NODE_CHECK,
	NODE_KINDS,
};

/* file 0 is the directory itself, file n the n-th row of its table. */
struct node {
	enum node_kind kind;
	uint32_t serial;
	uint8_t file;
	uint16_t nonce;
};

/* The root directory is FUSE's 1. */
uint64_t node_id(struct node node);

/* Returns false for an id that no hub ever gave out. */
bool node_parse(uint64_t id, struct node *ret);

/* The id without its nonce: st_ino. */
uint64_t node_inode(struct node node);

enum file_type {
	FILE_TEXT,        /* rendered at open; size true */
	FILE_CONTROL,     /* each WRITE is one command; reads as its current value */
	FILE_TRANSACTION, /* a document in, an answer out; a clone: each LOOKUP is another inode */
	FILE_DOCUMENT,    /* a transaction that reads as the last accepted document */
	FILE_LOG,         /* bytes of a growing file */
	FILE_STREAM,      /* blocks for more; shown as a link into /.live */
	FILE_WAIT,        /* blocks until the condition holds; shown as a link into /.live */
	FILE_LINK,        /* a symbolic link */
	FILE_DIR,         /* a directory of the table `child` */
};

/* Whose a file is. Run by an ordinary user, everything belongs to that user. */
enum node_owner {
	OWNER_ROOT,    /* root:root */
	OWNER_CLOOP,   /* root:cloop */
	OWNER_ADMIN,   /* root:cloop-admin */
	OWNER_SESSION, /* the uid that started it : cloop-admin */
};

/* What a row's function looks at. */
struct view {
	struct hub *hub;
	struct node node;
	uid_t uid; /* the caller's */
	bool on_handle; /* asked about an open descriptor */
};

/* A read that can be answered at once, or not yet. */
struct stream_result {
	size_t len;  /* bytes put into the buffer */
	bool at_end; /* len is 0 because there can be no more */
};

struct node_file {
	const char *name;
	enum file_type type;
	mode_t mode; /* permission bits */
	enum node_owner owner;
	bool fixed; /* name and attributes never change while the object exists */
	bool clone;      /* each LOOKUP gives another inode: a WRITE may be held for long */
	bool per_caller; /* reads differently for each uid */
	enum node_kind child;

	/*
	 * Text, control, document: the content. Link, stream, wait: the target. Returns 0 or a
	 * negative errno; what it appended is then ignored.
	 */
	int (*render)(const struct view *v, struct buf *out);

	/* Control: one command without its newline, NUL-terminated. Must end with change_*(). */
	void (*command)(struct change *c, const char *word);

	/* Transaction, document: one complete document. Must end with change_*(). */
	void (*execute)(struct change *c, const char *text, size_t len);

	/* Log: the size, and bytes from an offset. */
	int (*size)(const struct view *v, uint64_t *ret);
	ssize_t (*pread)(const struct view *v, void *data, size_t len, uint64_t off);

	/*
	 * Log whose bytes are those of a file: the descriptor, which is borrowed until the loop
	 * runs on, and *len cut to what there is at the offset. NULL, or a negative result: only
	 * pread can tell.
	 */
	int (*file)(const struct view *v, uint64_t off, size_t *len);

	/*
	 * Stream, wait: bytes from an offset of what is there now. Returns 0, -EAGAIN when the reader
	 * has to wait for the object to change, or another negative errno.
	 */
	int (*stream)(const struct view *v, struct area_handle *h, void *data, size_t len,
		      uint64_t off, struct stream_result *ret);

	/* When the content changed last, where that is not when the object did; 0: as the object. */
	int64_t (*changed)(const struct view *v);

	/* A link that may have no target: whether it has none now, and is not there. */
	bool (*absent)(struct hub *hub, uint32_t serial);

	/* One sentence for README, docs/tree.md and cloop(7). */
	const char *doc;
};

/* What every file of an object shares. */
struct object_info {
	uid_t uid;          /* OWNER_SESSION */
	int64_t changed_ns; /* mtime and ctime of the files that can change */
	int64_t created_ns; /* of those that cannot */
};

/* Called for each entry of a listing; returns false when the buffer is full. */
typedef bool node_emit_fn(void *user, const char *name, struct node node, mode_t type, uint64_t next);

struct node_dir {
	enum node_kind kind;
	const char *path; /* "/executors/<id>", for the documentation */
	const char *doc;
	mode_t mode;
	enum node_owner owner;
	bool hidden_rows; /* resolves names but lists nothing */
	bool growing;     /* entries come and go: its own times change */
	const struct node_file *files;
	size_t n_files;

	/* Whether the object of this serial exists, and what it is. NULL: always, with no owner. */
	int (*object)(struct hub *hub, uint32_t serial, struct object_info *ret);

	/* The name that stands for <…> in path. NULL: path holds none. */
	int (*name)(struct hub *hub, uint32_t serial, struct buf *out);

	/* The same where path holds more than one: the nth, from 0. */
	int (*nth_name)(struct hub *hub, uint32_t serial, unsigned nth, struct buf *out);

	/* Dynamic children. NULL: none. -ENOENT when there is none of that name. */
	int (*lookup)(struct hub *hub, uint32_t serial, const char *name, struct node *ret);

	/*
	 * Lists children whose position is at or behind `from` (0 is the first), in a stable order,
	 * each with `base` + the position behind it.
	 */
	int (*list)(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
		    node_emit_fn *emit, void *user);

	void (*mkdir)(struct change *c, const char *name);
	void (*rmdir)(struct change *c, const char *name);
};

/* The table of a kind; NULL when there is none. */
const struct node_dir *node_dir(enum node_kind kind);

/* The row of a file node; NULL for a directory or when the index is out of the table. */
const struct node_file *node_file(struct node node);

/* The row of that name; 0 when there is none, else its index + 1. */
uint8_t node_find(const struct node_dir *dir, const char *name);

/* A file of the root by name. */
struct node root_node(const char *name);

/* The node of a row: its own, or the directory that it stands for. */
struct node node_row(struct node dir, uint8_t row);

/* The file type bits (S_IFMT). */
mode_t node_type(struct node node);

/* The directory that a directory is in. */
struct node node_parent(struct hub *hub, struct node dir);

/* The path below the mount, without a leading slash ("" for the root). */
int node_path(struct hub *hub, struct node node, struct buf *out);

/* Fills attributes. Returns 0, -ENOENT or -ESTALE when the object is gone. */
int node_attr(struct hub *hub, struct node node, uid_t uid, struct stat *ret);

/* Whether the kernel may keep the attributes, and the name, for a second. */
bool node_fixed(struct node node);

/* Renders a file into out; 0 or a negative errno. */
int node_render(struct hub *hub, struct node node, uid_t uid, struct buf *out);

/* No text of the tree is longer. */
#define NODE_TEXT_MAX (4 * 1024 * 1024)

#endif
