/*
 * Helper programs: how the hub runs something and hears how it ended, without a fork of its own.
 * Runs on the loop's thread; nothing waits.
 *
 * A program runs as the user that the command says, with a session and a control group of its own,
 * no_new_privs, /dev/null as standard input, no descriptor but its streams, exactly the environment
 * that is given, and never from or on the mount's own device (shim_client_config.forbidden_dev).
 * argv[0] without a slash is sought in the PATH of env. No shell is involved.
 *
 * It is over when its main process has ended and everything that it started has been killed: also
 * what went into a session of its own or forked twice. So it is at its time limit, when it is
 * cancelled, when this client is freed or the hub dies in whatever way, and when the launcher goes.
 * What has to outlive that is a session (client.h).
 */
#ifndef CLOOP_DRIVERS_SHIM_RUN_H
#define CLOOP_DRIVERS_SHIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "drivers/shim/protocol.h"

struct shim_client;

/* Programs at once, a client. Each is some processes and four descriptors of the hub. */
#define SHIM_CLIENT_RUNS_MAX 256
/* What may be kept of one stream; longer output is for on_output. */
#define RUN_OUTPUT_MAX_BYTES ((size_t)4 << 20)
/* A day: a program that needs longer is a workload. */
#define RUN_TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)

/* Bytes as they come, stdout and stderr apart, before done. Also those beyond output_max_bytes. */
typedef void run_output_fn(void *user, enum shim_stream stream, const char *bytes, size_t len);

/* Everything is borrowed for the duration of the call. */
struct run_command {
	char *const *argv; /* ends with NULL */
	char *const *env;  /* the whole environment, ends with NULL; NULL: none */
	const char *cwd;   /* absolute; NULL: "/" */
	uid_t uid;
	gid_t gid;
	const uint32_t *groups;
	size_t n_groups;
	int64_t timeout_ms; /* 1 to RUN_TIMEOUT_MAX_MS */
	/* Kept of each stream, at most RUN_OUTPUT_MAX_BYTES; what is more is read and forgotten. */
	size_t output_max_bytes;
	run_output_fn *on_output; /* may be NULL */
};

struct run_result {
	bool timed_out; /* its time was up; signal is then SIGKILL */
	int exit_code;  /* -1 when a signal ended it */
	int signal;     /* 0 when it exited */
	/* Borrowed, with a NUL behind len bytes, which may themselves hold anything. */
	const char *out, *err;
	size_t out_len, err_len;
	bool truncated; /* there was more of either than output_max_bytes */
};

/*
 * Once for each run that was begun and not cancelled, from the loop: the result with err NULL, or
 * NULL with what went wrong: it could not be executed (the sentences and errnos of
 * shim_failure_error(), as ENOENT and EACCES), EAGAIN (too many at once), EIO (launcher or runner
 * was killed meanwhile; nothing of it runs any more).
 */
typedef void run_done_fn(void *user, const struct run_result *result, const struct error *err);

/*
 * Begins to run a program. *ret_id (may be NULL) is for shim_client_run_cancel(). Errors, after which
 * nothing is said: EAGAIN (the launcher is not there, or too many run), EINVAL and E2BIG for a command
 * that cannot be one, with the field.
 */
int shim_client_run(struct shim_client *c, const struct run_command *command, run_done_fn *done,
		    void *user, uint64_t *ret_id, struct error *err);

/* Ends it; nothing is said of it any more. An id that is over is ignored. */
void shim_client_run_cancel(struct shim_client *c, uint64_t id);

#endif
