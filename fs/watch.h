/*
 * Watching: what the hub tells the nudger, and how it answers the nudger's calls.
 *
 * FUSE does not tell inotify about changes that the server made. So after a change the nudger makes
 * a no-op system call on that path through the mount, which the hub answers without doing anything
 * and which makes the kernel notify. Only what somebody watches is nudged, and never often: see
 * fs/watch_table.h. Where the kernel notifies by itself (a user's own write, mkdir or rmdir),
 *nothing is nudged.
 *
 * The nudger is recognised, never by what it says:
 *
 *	a hub that runs as root		uid 0, the group NUDGE_GROUP, and the thread belongs to the
 *					process that the keeper named
 *	an ordinary user's hub		that uid, and the same of the thread
 *
 * The process is held by a pidfd, so the number is its own, and it must be a child of the keeper. A
 * nudge that was unanswered when a hub died is still the nudger's when it is replayed: a thread
 *that is killed in a call stays until the call is answered, and so does its process. Whatever the
 *nudger asks for has no effect but the one that this hub told it to have; a request with its group
 *that is not the nudger's is refused.
 *
 * After a restart of the hub the marks are reported again, and the inodes are the same. What the
 *dead hub had not announced is announced then: files of live objects, and of sessions that ended
 *within WATCH_CATCH_UP_MS, as if they had changed; and sessions that came after the last one that
 *was announced (area_header.sessions_told).
 *
 * Everything here runs on the loop thread, and is nothing while hub->watch is NULL.
 */
#ifndef CLOOP_FS_WATCH_H
#define CLOOP_FS_WATCH_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/buf.h"
#include "core/error.h"
#include "fs/node.h"

struct change;
struct hub;
struct watch;

/* A hub is back long before; sessions that ended earlier were announced by the one that died. */
#define WATCH_CATCH_UP_MS 60000

/* Finished sessions looked at after a restart: each may be read from the store. */
#define WATCH_CATCH_UP_MAX 1024

int watch_new(struct hub *hub, struct watch **ret, struct error *err);
struct watch *watch_free(struct watch *w);

/* The nudger was started again: its pid and the socket to it (taken; -1: none). */
void watch_set_nudger(struct hub *hub, pid_t pid, int fd);

/* --- what happened -------------------------------------------------------------------------- */

/* A file's content changed. */
void watch_modified(struct hub *hub, struct node node);

/*
 * Something in an object changed: each of its files that shows something else than before is
 * announced.
 */
void watch_modified_all(struct hub *hub, struct node dir);

/* An object (or a link) appeared in, or went from, a directory. */
void watch_created(struct hub *hub, struct node dir, const char *name, struct node child);
void watch_deleted(struct hub *hub, struct node dir, const char *name, struct node child);

/* A session's output has grown (fs/logs.h: logs_announce()). */
void watch_grown(struct hub *hub, uint32_t serial);

/* Somebody looked the node up: it is of interest for a while. */
void watch_looked_up(struct hub *hub, struct node node);

/*
 * From here until it is called with NULL, what is reported above is due to this request, and the
 * kernel notifies of the file that was written, or the name that was made or removed, by itself.
 */
void watch_kernel_tells(struct hub *hub, const struct change *c);

/* --- the nudger's requests ------------------------------------------------------------------ */

/* Whether LOOKUP must answer "absent", so that the nudger's mkdir of that name reaches us. */
bool watch_hides(struct hub *hub, fuse_req_t req, struct node node);

/* Whether LOOKUP must answer with *ret, so that the nudger's rmdir of what is gone reaches us. */
bool watch_shows(struct hub *hub, fuse_req_t req, struct node parent, const char *name,
		 struct fuse_entry_param *ret);

/* Answers the nudger's mkdir or symlink, rmdir or unlink. Returns false when it is somebody else's.
 */
bool watch_nudged(struct hub *hub, fuse_req_t req, fuse_ino_t parent, const char *name, bool made);

/*
 * Answers the nudger's open: for writing, whatever the mode, and without a handle, so that nothing
 * can be read or written. Returns false when it is somebody else's.
 */
bool watch_opened(struct hub *hub, fuse_req_t req, struct node node, struct fuse_file_info *fi);

/* Answers FALLOCATE: nobody but the nudger allocates here. */
void watch_allocate(struct hub *hub, fuse_req_t req, struct node node);

/* One line for /status. */
void watch_status(struct hub *hub, struct buf *out);

#endif
