/*
 * The hub's own state: everything that the loop thread owns, in one place. Modules of fs/ take a
 * `struct hub *` and use the parts that they name in their includes.
 */
#ifndef CLOOP_FS_CONTEXT_H
#define CLOOP_FS_CONTEXT_H

#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "fs/caller.h"
#include "fs/hub.h"
#include "fs/metrics.h"

/* Counters of what uids hold, by uid modulo this. */
#define HUB_UID_COUNTERS 1024

struct hub {
	const struct hub_options *options;
	uv_loop_t loop;
	struct area *area;
	struct wire *wire;
	struct store *store;
	struct fleet *fleet;
	struct projects *projects;
	struct dispatch *dispatch;
	struct prune *prune;
	struct scanner_entry *scanners;
	unsigned n_changes, n_changes_of[HUB_UID_COUNTERS];
	uint16_t nonce; /* of the last clone handed out */
	struct follow *follow;
	struct logs *logs;
	struct watch *watch;
	struct supervise *supervise;
	struct metrics metrics;
	LIST_HEAD(preflights, preflight) preflights; /* under way */
	struct settings *settings;
	struct config_dir *config_dir;
	struct retention *retention;

	uid_t uid; /* who runs the hub; 0: workloads take their caller's ids */
	gid_t gid;
	gid_t gid_cloop, gid_admin; /* 0 when the group is missing (root's hub) */
	bool groups_missing;
	struct caller_home home;
	int64_t started_ns; /* of the mount: a hub that takes over changes nothing */

	bool stopping; /* blocked readers get end of file */
	bool exiting; /* hub_exit() was called */
	int exit_status;
};

/* An event was committed: /cloop/events has changed. */
void hub_event(struct hub *hub);

/* Ends the loop with that status as soon as the current callback returns. */
void hub_exit(struct hub *hub, int status);

/* One line on stderr. */
void hub_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
