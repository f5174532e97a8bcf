/*
 * Watching: what the hub tells the nudger, and how it recognises the nudger's calls.
 *
 * FUSE does not tell inotify about changes that the server made. So after a change the nudger makes
 * a no-op system call on that path through the mount, which the hub answers without doing anything
 * and which makes the kernel notify. Only what somebody watches is nudged, and never often.
 */
#ifndef CLOOP_FS_WATCH_H
#define CLOOP_FS_WATCH_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "fs/node.h"

struct hub;
struct watch;

int watch_new(struct hub *hub, struct watch **ret, struct error *err);
struct watch *watch_free(struct watch *w);

/* A file's content changed, or that of every file of an object that can change; an object appeared in, or went from, a directory. */
void watch_modified(struct hub *hub, struct node node);
void watch_modified_all(struct hub *hub, struct node dir);
void watch_created(struct hub *hub, struct node dir, const char *name, struct node child);
void watch_deleted(struct hub *hub, struct node dir, const char *name);

/* Somebody looked the node up: it is of interest for a while. */
void watch_looked_up(struct hub *hub, struct node node);

/* The nudger was started again: its pid and the socket to it (taken; -1: none). */
void watch_set_nudger(struct hub *hub, pid_t pid, int fd);

/* Whether the request comes from the nudger. */
bool watch_is_nudger(struct hub *hub, fuse_req_t req);

/* Whether LOOKUP must answer "absent", so that the nudger's mkdir of that name reaches us. */
bool watch_hides(struct hub *hub, fuse_req_t req, struct node node);

/* Answers the nudger's mkdir or rmdir. Returns false when it is somebody else's. */
bool watch_nudged(struct hub *hub, fuse_req_t req, fuse_ino_t parent, const char *name, bool made);

#endif
