/*
 * Changes: every request that changes state, from the WRITE, MKDIR or RMDIR that asks for it to its
 * answer.
 *
 * A change is refused at once, answered at once when there is nothing to do, or committed: its
 * apply function runs inside a store transaction together with the journal row (mount id, unique,
 * operation, node, answer), and the request is answered after the commit. A replayed request that
 * is in the journal gets the recorded answer and is not executed; one that is not there was never
 * committed. The journal row is dropped with a later commit, after its reply was written.
 */
#ifndef CLOOP_FS_CHANGE_H
#define CLOOP_FS_CHANGE_H

#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/store/store.h"
#include "fs/node.h"

struct area_handle;
struct hub;

/* The FUSE operations that change something, by their numbers. */
enum change_op {
	CHANGE_WRITE = FUSE_WRITE,
	CHANGE_MKDIR = FUSE_MKDIR,
	CHANGE_RMDIR = FUSE_RMDIR,
};

struct change {
	struct store_op store; /* first: the store knows the change by it */
	struct hub *hub;
	fuse_req_t req;
	uint64_t unique;
	enum change_op op;
	struct node node; /* the file written to, or the directory that gains or loses an entry */
	char name[256];   /* MKDIR, RMDIR */

	/* The caller: at OPEN for a WRITE, of the request otherwise. */
	uid_t uid;
	gid_t gid;
	uint32_t *groups;
	size_t n_groups;
	bool is_admin; /* uid 0, the hub's own uid, or a member of cloop-admin */

	uint64_t fh;       /* WRITE: the handle, which may be gone when the change ends */
	size_t write_size; /* WRITE: the bytes that success acknowledges */
	bool replayed;
	uid_t counted_uid; /* of the request: whose count it is in */

	/*
	 * Set by whoever commits. apply runs on the writer thread inside the transaction and may
	 * only use what the change itself owns; committed runs on the loop after the commit, before
	 * the reply; undo runs on the loop instead when there was no commit.
	 */
	int (*apply)(struct store_tx *tx, struct change *c, struct error *err);
	void (*committed)(struct change *c);
	void (*undo)(struct change *c);
	void *data;
	void (*data_free)(void *data);

	char *answer;     /* transaction: JSON, owned */
	struct node made; /* MKDIR: the new directory, set before or by committed */
	struct error err;
};

/* Changes under way that uid asked for. Two uids may share a count, which makes it stricter. */
unsigned change_count(const struct hub *hub, uid_t uid);

/* Begins a change. NULL when out of memory (the request was answered then). */
struct change *change_new(struct hub *hub, fuse_req_t req, enum change_op op, struct node node);

/* Takes the caller's ids from the handle (as they were at OPEN), or from the request and /proc. */
int change_caller_of_handle(struct change *c, const struct area_handle *h);
int change_caller_of_request(struct change *c);

/*
 * For a replayed request: answers from the journal when it is there. Returns true when it did, and
 * the change is gone.
 */
bool change_replayed(struct change *c);

/* Each of these ends the change, now or later; c must not be used any more. */

/* Refuses with c->err: the sentence is kept for the caller, and the errno is the answer. */
void change_refuse(struct change *c);

/* The same as an earlier refusal: its errno, and in c->answer its object (perhaps NULL). */
void change_refuse_again(struct change *c, int code);

/* Answers success without a commit: the wanted state holds already. */
void change_finish(struct change *c);

/* Commits, then answers success; a commit that fails refuses. */
void change_commit(struct change *c);

/*
 * Refuses with c->err after a commit that records the refusal: for what has had an effect that was
 * taken back. apply may be NULL.
 */
void change_commit_refusal(struct change *c);

/*
 * The replies of these requests were written: their journal rows go with the next commit. Kept in
 * the hub; a list that is lost with it is caught up by the next mount.
 */
struct prune;
int prune_new(struct hub *hub, struct prune **ret, struct error *err);
struct prune *prune_free(struct prune *p);
void prune_add(struct hub *hub, uint64_t unique);

/*
 * Keeps a refusal for a uid: /cloop/error and /cloop/error.json. `file` is the node it is about.
 */
void error_record(struct hub *hub, uid_t uid, struct node file, const char *name,
		  const struct error *err);

/* The JSON object of a refusal: {"file","errno","reason","field","remedy","at"}. Owned by the caller. */
char *error_json(const char *file, const struct error *err, int64_t at_ns);

#endif
