/*
 * What the hub does in the folders of sessions, elsewhere than in its loop: removes those of
 * sessions that were forgotten, and makes the logs whole of those that were lost.
 *
 * A folder that is to go is noted in the store with the end of the row (session_doom()); so one that
 * cannot be removed now, or whose removal a dead hub left, is found again.
 */
#ifndef CLOOP_FS_SESSION_FOLDERS_H
#define CLOOP_FS_SESSION_FOLDERS_H

#include <stdint.h>

struct hub;

/* Owned by the process; the first two are set by it. */
struct session_folders {
	struct hub *hub;
	int sessions_fd;      /* borrowed */
	unsigned n_removals;  /* under way */
	unsigned forget_in;   /* ticks until forgotten folders are looked for */
	int64_t forget_after; /* the serial after which the next look begins */
};

/* As dispatch_hooks.forget and dispatch_hooks.mend. */
void session_folders_forget(struct session_folders *f, uint32_t serial);
void session_folders_mend(struct session_folders *f, uint32_t serial, uint64_t log_quota_bytes);

/* Once a second or so. */
void session_folders_tick(struct session_folders *f);

#endif
