/*
 * What the parts of watching share.
 *
 *	watch.c          what happened; the timer
 *	watch_nudger.c   the socket: orders and reports
 *	watch_requests.c the nudger's requests
 *	watch_gone.c     what the kernel keeps of directories that went
 */
#ifndef CLOOP_FS_WATCH_INTERNAL_H
#define CLOOP_FS_WATCH_INTERNAL_H

#include <uv.h>

#include "fs/nudge_protocol.h"
#include "fs/watch.h"
#include "fs/watch_table.h"

struct watch {
	struct hub *hub;
	struct watch_table *table;
	uv_timer_t timer;

	/* The nudger: 0 and -1 when there is none. */
	pid_t pid;
	int pidfd;
	int fd;
	uv_poll_t poll;
	bool poll_ready; /* initialised, with this number of a descriptor */

	uint64_t number; /* of this hub */
	bool hello_due;
	bool everything;
	bool scan_waits;      /* for scan_due_ms */
	int64_t scan_due_ms;
	int64_t scan_delay_ms;
	int64_t scanned_ms; /* when the last scan that was asked for was reported */
	uint64_t scan_asked, scanned; /* the latest ones */

	/* An order that the socket had no room for; nothing is sent before it. */
	struct nudge_order unsent;
	size_t unsent_len;

	uint64_t n_told; /* calls that succeeded */

	struct watch_gone *gone;

	const struct change *telling;
	bool caught_up; /* what an earlier hub left unannounced is known */
	uint32_t last_session;
};

/* --- watch.c --- */

/* Does what can be done now, and sets the timer for the rest. */
void watch_pump(struct watch *w);

/* The marks changed, or were reported for the first time. */
void watch_marks_changed(struct watch *w);

/* A scan was reported, of that number at least; so many changes in doubt became certain. */
void watch_scanned(struct watch *w, uint64_t number, size_t n_certain);

/* --- watch_gone.c --- */

/* NULL: out of memory. Freed when the loop has run out. */
struct watch_gone *watch_gone_new(struct hub *hub);
struct watch_gone *watch_gone_free(struct watch_gone *g);

/* The kernel removes that directory, or is about to, for it was answered so. */
void watch_gone_add(struct watch *w, struct node dir);

/* --- watch_nudger.c --- */

/* Sends what waited. Returns false when the socket has no room. */
bool watch_send_waiting(struct watch *w);

/* Sends an order, or keeps it for later. */
void watch_send(struct watch *w, enum nudge_type type, uint64_t number, struct node node,
		const char *path);

#endif
