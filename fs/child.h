/*
 * Processes that the keeper starts. Each is known by its pidfd, so that a signal never reaches a
 * process that got the number afterwards; nothing here waits longer than it is told to.
 *
 * A child gets the standard descriptors, the ones that the command names (under the same numbers)
 * and no other: all descriptors of the keeper are close-on-exec. Signals are unblocked and have
 * their default action, whatever the keeper inherited or did.
 */
#ifndef CLOOP_FS_CHILD_H
#define CLOOP_FS_CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

/* The most descriptors that a command hands on: those of struct hub_options. */
#define CHILD_FDS_MAX 4

/* Room for "signal 11 (Segmentation fault)". */
#define CHILD_END_MAX 96

/* The exit status of a command that could not be executed, as shells have it. */
#define CHILD_EXIT_CANNOT_EXECUTE 127

/* oom_score_adj stays as the keeper has it. */
#define CHILD_OOM_KEEP INT_MIN

struct child {
	pid_t pid; /* 0: there is none */
	int pidfd; /* -1: there is none */
	int64_t started_ms;
};

#define CHILD_NONE ((struct child){.pidfd = -1})

struct child_command {
	/*
	 * What is executed: the open file, or -1 and the file at the path (sought in PATH when it
	 * has no slash). The path names it in sentences too.
	 */
	int exe_fd;
	const char *path;
	char *const *argv;
	int fds[CHILD_FDS_MAX];
	size_t n_fds;
	int output_fd;           /* becomes stdout and stderr; -1: the keeper's own */
	int death_signal;        /* when the keeper dies; 0: none */
	int oom_score_adj;       /* or CHILD_OOM_KEEP */
	bool raise_files;        /* soft limit of open files up to the hard one */
	const char *environment; /* one more "NAME=VALUE", or NULL */
};

/* How a process ended. */
struct child_end {
	bool by_signal;
	int value; /* exit status or signal */
};

/* CLOCK_BOOTTIME in milliseconds: what started_ms and all deadlines of the keeper count in. */
int64_t child_now_ms(void);

/*
 * Starts the command in *c, which must be empty. A command that cannot be executed ends with
 * status 127 after a sentence on its stderr. Errors: EAGAIN, ENOMEM, EMFILE.
 */
int child_start(struct child *c, const struct child_command *command, struct error *err);

/*
 * Forks without executing; returns 0 in the child (which must _exit()), its pid in the parent.
 * For a call that may never return.
 */
pid_t child_fork(struct child *c, struct error *err);

/* Whether it ended; then *c is empty again. Does not wait. */
bool child_reap(struct child *c, struct child_end *ret);

/* The same, waiting at most so long. */
bool child_wait(struct child *c, int timeout_ms, struct child_end *ret);

/* Sends a signal; nothing happens when there is no process. */
void child_kill(const struct child *c, int signal);

/*
 * Gives up a process: SIGKILL, and no more waiting. One that hangs in the kernel is left to be
 * reaped by init.
 */
void child_abandon(struct child *c);

/* "exit status 3", "signal 9 (Killed)". */
void child_describe(struct child_end end, char buf[static CHILD_END_MAX]);

#endif
