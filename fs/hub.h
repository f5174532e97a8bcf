/*
 * The hub process: one event loop that serves the mount and owns all domain state. It may be killed
 * at any instant; the keeper starts the next one with the same descriptors.
 */
#ifndef CLOOP_FS_HUB_H
#define CLOOP_FS_HUB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the keeper hands to a hub: open descriptors and absolute paths. All borrowed. */
struct hub_options {
	int fuse_fd;   /* the mount's /dev/fuse, O_NONBLOCK */
	int area_fd;   /* fs/area.h */
	int keeper_fd; /* SOCK_SEQPACKET to the keeper: struct keeper_message */
	int nudger_fd; /* SOCK_DGRAM to the nudger: fs/nudger.h; -1 when there is none */
	const char *mountpoint;
	const char *state_dir;
	const char *runtime_dir;
	const char *config_dir;
	bool allow_other; /* mounted with allow_other,default_permissions */
	pid_t nudger_pid; /* 0 when there is none */
};

/* What a hub tells the keeper and is told. One message a datagram. */
enum keeper_message_type {
	KEEPER_HUB_READY = 1, /* hub → keeper: serving; text empty */
	KEEPER_HUB_REFUSED,   /* hub → keeper: cannot serve with this state; text says why. Then it exits */
	KEEPER_STOP,          /* keeper → hub: end the blocked readers with end of file, finish, exit */
	KEEPER_NUDGER,        /* keeper → hub: the nudger was started again; value is its pid, and its
	                         socket comes along as SCM_RIGHTS */
};

#define KEEPER_TEXT_MAX 768

struct keeper_message {
	uint32_t type;
	int32_t value;
	char text[KEEPER_TEXT_MAX];
};

/* How a hub exits. Anything else, and every signal, is a death: the keeper starts another. */
enum hub_exit {
	HUB_EXIT_STOPPED = 0,    /* told to stop */
	HUB_EXIT_UNMOUNTED = 3,  /* the mount is gone (umount, abort) */
	HUB_EXIT_REFUSED = 78,   /* KEEPER_HUB_REFUSED was sent: a restart would not help by itself */
};

/* Runs until told to stop. Returns the exit status. */
int hub_run(const struct hub_options *options);

/*
 * Whether this binary would answer the area's stored INIT as the running mount was answered. An
 * upgrade is refused when not. Replies nothing to the kernel. Returns 0, or 1 with a sentence on
 * stderr.
 */
int hub_check_init(const struct hub_options *options);

#endif
