/*
 * The hub's side of launcher and shims: launches workloads, finds those that run, signals them and
 * hears of their end. Runs on the loop's thread; nothing waits, and the only files that are read
 * are records of a few hundred bytes.
 *
 * One client serves one launcher. It connects by itself, and again when the launcher dies, and says
 * `ready` each time. Launches that had no answer by then are forgotten by the client: after `ready`
 * the caller adopts their sessions to learn what became of them. Sessions that run do not depend on
 * the launcher.
 *
 * For each session that was launched and not forgotten, or adopted with another answer than NEVER,
 * the client says exactly one of `exited`, `lost` and `failed`, as long as it lives, and `started`
 * at most once before it. Callbacks come from the loop, never from within a call of these
 * functions; they may call any of them but shim_client_free().
 */
#ifndef CLOOP_DRIVERS_SHIM_CLIENT_H
#define CLOOP_DRIVERS_SHIM_CLIENT_H

#include <stdint.h>
#include <uv.h>

#include "core/error.h"
#include "drivers/shim/protocol.h"
#include "drivers/shim/record.h"
#include "drivers/shim/run.h" /* helper programs go through the same client */
#include "drivers/shim/session_dir.h" /* shim_session_remove() */

/* Launches without an answer. The launcher takes them one by one; more than this is a flood. */
#define SHIM_CLIENT_LAUNCHES_MAX 4096
/* Signals without an answer, a session. */
#define SHIM_CLIENT_SIGNALS_MAX 64

struct shim_client;

struct shim_client_config {
	int sessions_fd; /* the sessions directory; borrowed, must outlive the client */
	int runtime_fd;  /* the runtime directory; the same */
	uint64_t epoch;  /* grows with each hub process */
	dev_t forbidden_dev; /* the mount's own st_dev, for helper programs (run.h); 0: none */
};

struct shim_client_ops {
	/* The launcher answered HELLO: no earlier launch is on its way. abilities: enum
	 * shim_ability. */
	void (*ready)(void *user, unsigned abilities);
	void (*started)(void *user, uint64_t serial, uint32_t attempt,
			const struct shim_started *started);
	/* It never ran, and nothing is left of it. */
	void (*failed)(void *user, uint64_t serial, uint32_t attempt, const struct error *err);
	/* The log is on disk, and so is the exit record unless the disk refuses it (shim.h). The
	 * folder may be removed. */
	void (*exited)(void *user, uint64_t serial, uint32_t attempt, const struct shim_exit *exit);
	/* Its shim was killed, or the machine went down, or its folder was tampered with; nothing
	 * of it runs any more. */
	void (*lost)(void *user, uint64_t serial, uint32_t attempt, const struct error *err);
	/* The launcher is gone, `ready` will be said again. */
	void (*disconnected)(void *user);
	/*
	 * SHIM_CLIENT_HANGUPS_MAX launchers in a row hung up instead of answering HELLO: one of
	 * another protocol, or one that does not come up. Said once until `ready`; the client goes
	 * on trying.
	 */
	void (*refused)(void *user);
};

/* A launcher that is killed just then hangs up as well, but hardly so often. */
#define SHIM_CLIENT_HANGUPS_MAX 5

enum shim_adoption {
	SHIM_ADOPT_NEVER,    /* never ran: may be launched. Nothing will be said. */
	SHIM_ADOPT_RUNNING,  /* a shim handles it; `started` follows when it runs, or `failed` */
	SHIM_ADOPT_FINISHED, /* `exited` follows */
	SHIM_ADOPT_LOST,     /* `lost` follows, when what is left of it has been ended */
};

/* Begins connecting. user is handed to the callbacks. Errors: ENOMEM, what libuv says. */
int shim_client_new(uv_loop_t *loop, const struct shim_client_config *config,
		    const struct shim_client_ops *ops, void *user, struct shim_client **ret,
		    struct error *err);

/* Closes everything; nothing is said any more, not even to waiting signals. The memory goes when
 * the loop has run its close callbacks. */
struct shim_client *shim_client_free(struct shim_client *c);

/*
 * Launches; `started` or `failed` follows. Errors: EAGAIN (not ready, or too many at once), EEXIST
 * (the client has this session already), and those of launch_record_encode().
 */
int shim_client_launch(struct shim_client *c, const struct launch_request *request,
		       struct error *err);

/*
 * Finds out what became of an attempt, and takes it over. started (may be NULL) is the record, or
 * all zero when there is none. Errors: EEXIST (the client has it already), EBADMSG and others when
 * the folder cannot be read.
 */
int shim_client_adopt(struct shim_client *c, uint64_t serial, uint32_t attempt,
		      enum shim_adoption *ret, struct session_started *ret_started,
		      struct error *err);

/*
 * Signals all processes of a session. done(arg, 0) when it was applied, had been applied with the
 * same key before, or the session ended; done(arg, errno) when it was refused. Errors: ENOENT (the
 * client has no such session), EAGAIN (no shim has it yet, or too many signals wait). One that a shim
 * has is signalled also while its workload does not come up.
 */
int shim_client_signal(struct shim_client *c, uint64_t serial, uint32_t attempt,
		       const uint8_t key[static SHIM_KEY_BYTES], enum shim_signal signal,
		       void (*done)(void *arg, int error), void *arg, struct error *err);

/* Questions without an answer: every executor of a large fleet at once. */
#define SHIM_CLIENT_PINGS_MAX 16384

typedef void shim_ping_fn(void *user, const struct error *err);

/*
 * Asks whether the launcher is at work. done(user, NULL) when it answers, done(user, err) when it goes
 * away instead: from the loop, and as late as it likes when it hangs. Errors: EAGAIN (it is not there,
 * or too many wait).
 */
int shim_client_ping(struct shim_client *c, shim_ping_fn *done, void *user, struct error *err);

/* The sentence for a failed launch. Returns -errno. */
int shim_failure_error(const struct shim_failure *failure, struct error *err);

#endif
