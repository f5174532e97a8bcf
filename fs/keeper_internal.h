/*
 * What the parts of the keeper share: its state, and who does what.
 *
 *	keeper.c        the loop, the signals, the end
 *	keeper_setup.c  everything before the loop
 *	keeper_hub.c    the hub's life: start, death, outage, upgrade
 *	keeper_helper.c the launcher and the nudger
 *	keeper_stop.c   the steps of stopping; `cloopd stop`
 */
#ifndef CLOOP_FS_KEEPER_INTERNAL_H
#define CLOOP_FS_KEEPER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/owner.h"
#include "fs/child.h"
#include "fs/keeper.h"
#include "fs/notify.h"
#include "fs/options.h"

#define KEEPER_NEVER INT64_MAX

enum keeper_phase {
	PHASE_RUNNING,
	PHASE_STOP_HUB,
	PHASE_STOP_CHILDREN,
	PHASE_STOP_MOUNT,
	PHASE_DONE,
};

/* A helper process that is started again when it ends. */
struct keeper_helper {
	const char *name;
	struct child child;
	unsigned failures; /* since it last lived for a minute */
	int64_t start_at;  /* when to start the next one */
};

struct keeper {
	/* Owned, resolved. */
	char *state_dir;
	char *runtime_dir;
	char *config_dir;
	char *mountpoint;
	char *program;  /* the path that the keeper was started from */
	char *launcher; /* the path of cloop-launcher */
	bool allow_other;
	int oom_score_adj; /* before the keeper lowered its own: for its children */

	int program_fd; /* the file at `program` that was accepted last */
	int state_fd;
	int runtime_fd;
	int state_lock_fd;
	int runtime_lock_fd;
	int signal_fd;
	int caller_fd; /* the process that waits for READY; -1: none, or it was told */
	int log_fd;    /* the log file, whose lines carry the time; -1: stderr is the log */
	struct notify notify;

	int fuse_fd;
	int area_fd;
	dev_t mount_dev;
	bool unmounted; /* somebody else did it */
	struct fallback *fallback;
	bool may_serve;  /* INIT was answered */
	bool own_failed; /* said already that the area cannot be attached */

	struct child hub;
	int hub_fd; /* SOCK_SEQPACKET to it */
	bool hub_ready;
	bool ever_ready;
	bool hub_refused;
	bool hub_replaced; /* told to end for an upgrade */
	bool outage;       /* said already that requests are answered EIO */
	unsigned outage_tries;
	int64_t ready_since;
	int64_t hub_at;      /* when to start the next one */
	int64_t hub_kill_at; /* when to end the present one by force */
	int64_t patience_ms;
	int64_t answer_at;                 /* from then on requests are answered EIO, hub or not */
	int64_t deaths[KEEPER_DEATHS_MAX]; /* a ring: when the last ones were */
	unsigned n_deaths;

	struct child check; /* hub-check-init of the file next_fd */
	int next_fd;
	int64_t check_until;

	struct keeper_helper run_launcher;
	int launcher_fd; /* its listening socket */
	struct keeper_helper run_nudger;
	int nudger_fd; /* the hubs' end of its pair */

	enum keeper_phase phase;
	int64_t phase_until;
	bool phase_forced;  /* SIGKILL was sent in this phase */
	bool hub_abandoned; /* it may still have the area */
	struct child unmounter;
	int64_t unmount_at;
	int exit_status;

	int64_t rotate_at;
	int64_t wake_at; /* the nearest deadline that this turn of the loop met */
};

/* One line in the log. */
#define keeper_say(k, ...)                                                                         \
	keeper_log_line((k)->log_fd >= 0 ? (k)->log_fd : STDERR_FILENO, (k)->log_fd >= 0,          \
			__VA_ARGS__)

/* The same of an error. */
void keeper_say_error(const struct keeper *k, const struct error *err);

/* A line that the caller of a daemon must see too: why it will not serve. */
void keeper_say_refusal(const struct keeper *k, const char *text);

/* Whether a deadline has come; otherwise the loop wakes up for it. */
bool keeper_is_due(struct keeper *k, int64_t deadline, int64_t now);

/* Tells the service manager how things are. */
void keeper_report(const struct keeper *k);

/* --- keeper_setup.c --- */

/* Fills in everything up to the mount and the area. On failure keeper_teardown() undoes it. */
int keeper_setup(struct keeper *k, const struct options *o, struct error *err);
void keeper_teardown(struct keeper *k);

/* The caller of a daemon learns that the tree can be used; its stdout and stderr are given back. */
void keeper_release_caller(struct keeper *k);

/* Opens the file at the program's path. */
int keeper_open_program(const struct keeper *k, int *ret_fd, struct error *err);

/* --- keeper_hub.c --- */

/* Starts a hub when it is time, and looks at the deadlines of the present one. */
void keeper_hub_step(struct keeper *k, int64_t now);
void keeper_hub_ended(struct keeper *k, struct child_end end, int64_t now);
void keeper_hub_messages(struct keeper *k, int64_t now);
void keeper_hub_tell_nudger(struct keeper *k);
void keeper_hub_tell_stop(struct keeper *k);

/* Whether the keeper answers requests now; takes the area when it should have it. */
bool keeper_answers(struct keeper *k, int64_t now);

void keeper_upgrade_begin(struct keeper *k, int64_t now);
void keeper_upgrade_ended(struct keeper *k, struct child_end end, int64_t now);

/* --- keeper_helper.c --- */

void keeper_helper_step(struct keeper *k, int64_t now);
void keeper_helper_ended(struct keeper *k, struct keeper_helper *h, struct child_end end,
			 int64_t now);

/* --- keeper_stop.c --- */

/* Begins to stop; nothing when it does already. */
void keeper_stop_begin(struct keeper *k, int exit_status, int64_t now);
void keeper_stop_step(struct keeper *k, int64_t now);

#endif
