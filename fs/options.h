/*
 * The command line of cloopd: one struct for every command, the defaults included.
 *
 *	cloopd serve [--state-dir DIR] [--runtime-dir DIR] [--config-dir DIR] [--foreground]
 *	             [--no-allow-other] [MOUNTPOINT]
 *	cloopd stop [--state-dir DIR]
 *	cloopd --version | --help
 *
 * and what the keeper starts itself: `hub`, `hub-check-init`, `nudger`. A value is written
 * `--name VALUE` or `--name=VALUE`; `--` ends the options.
 *
 * Defaults, for root and for an ordinary user:
 *
 *	state dir    /var/lib/cloop   $XDG_STATE_HOME/cloop, else ~/.local/state/cloop
 *	config dir   /etc/cloop       $XDG_CONFIG_HOME/cloop, else ~/.config/cloop
 *	runtime dir  /run/cloop       $XDG_RUNTIME_DIR/cloopd, else /run/user/UID/cloopd
 *	mountpoint   /cloop           $XDG_RUNTIME_DIR/cloop, else /run/user/UID/cloop
 *
 * The user's runtime directory is not called like the mountpoint: what is below the mountpoint is
 * the tree and nothing else. An XDG variable that is not an absolute path is ignored, as the XDG
 * specification says.
 */
#ifndef CLOOP_FS_OPTIONS_H
#define CLOOP_FS_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/error.h"

enum options_command {
	COMMAND_SERVE,
	COMMAND_STOP,
	COMMAND_VERSION,
	COMMAND_HELP,
	COMMAND_HUB,
	COMMAND_HUB_CHECK_INIT,
	COMMAND_NUDGER,
};

struct options {
	enum options_command command;

	/* Owned. As given, or the default: not resolved, perhaps relative. */
	char *state_dir;
	char *runtime_dir;
	char *config_dir;
	char *mountpoint;
	bool mountpoint_is_default; /* then it is made when it is missing */

	bool foreground;
	bool allow_other; /* serve: wished for and possible; hub: the mount has it */

	/* Descriptors and pids of the internal commands; -1 and 0 when not given. */
	int fuse_fd;
	int area_fd;
	int keeper_fd;
	int nudger_fd;
	int socket_fd;
	pid_t nudger_pid;
};

/* Where the defaults come from: the process itself, or a test. */
struct options_environment {
	uid_t uid;
	const char *(*get)(const char *name); /* getenv() */
};

/*
 * Parses argv. Errors: EINVAL, a usage error (exit status 2); ENOENT, a default that cannot be had
 * because HOME is unset (exit status 1); ENOMEM. *ret is the caller's to clear.
 */
int options_parse(int argc, char *const *argv, const struct options_environment *env,
		  struct options *ret, struct error *err);

/* Accepts a zeroed struct. Fits __attribute__((cleanup)). */
void options_clear(struct options *o);

/* What --help prints. */
const char *options_help(void);

#endif
