/*
 * Executors: the interface that every driver implements, and what fleet and dispatch know of a
 * configured instance.
 *
 * A driver (one object a kind) starts workloads somewhere, signals them, and reports how they ended.
 * Everything here runs on the loop thread; a call that can block starts the work and reports through
 * struct executor_events. The caller of a launch does not own the workload: it outlives the hub.
 */
#ifndef CLOOP_CORE_EXECUTOR_H
#define CLOOP_CORE_EXECUTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/capabilities.h"
#include "core/error.h"
#include "core/label.h"
#include "core/session.h"
#include "core/workload_signal.h"
#include "core/spec.h"

struct driver;
struct executor;
struct executor_config;
struct json_object;

/* What is launched, and as whom. Everything is borrowed for the duration of the call. */
struct executor_launch {
	uint32_t serial; /* the session's */
	uint32_t attempt;
	const char *executor; /* its id */
	const char *handle;   /* "<session>.<attempt>"; "" for check() */
	const struct spec *spec;
	const struct executor_config *config; /* of the executor, as it is now */
	uid_t uid;
	gid_t gid;
	const uint32_t *groups;
	size_t n_groups;
	uint64_t log_quota_bytes;
};

struct executor_started {
	int64_t pid; /* on the executor; 0 where there is none */
	int64_t started_at_ns;
	int64_t deadline_ns; /* 0: none */
	const char *image;   /* resolved; "" where there is none. Borrowed */
};

/* How a workload ended. */
struct executor_exit {
	enum session_cause cause;
	int exit_code; /* valid for CAUSE_EXIT; -1 otherwise */
	int signal;    /* of CAUSE_SIGNAL */
	int64_t started_at_ns; /* 0 when it is not known */
	int64_t finished_at_ns;
	int64_t pid;
	uint64_t log_bytes;         /* what the workload wrote */
	uint64_t log_dropped_bytes; /* of these, in neither log nor log.tail */
	const char *reason;         /* a sentence for CAUSE_START and CAUSE_LOST, else "". Borrowed */
};

/* Reports of a driver. */
struct executor_events {
	/*
	 * The driver can launch and adopt. Called again after its connection was lost and made
	 * again: launches that were not answered must then be resolved with adopt().
	 */
	void (*ready)(void *user, struct driver *driver);
	/*
	 * It is not known when the driver will be ready again, if at all: nobody should wait for a
	 * launch that was asked for already. It stays pending.
	 */
	void (*stalled)(void *user, struct driver *driver);
	/*
	 * Exactly one of these answers each launch, unless the connection is lost. A session that
	 * was adopted and runs is `started` as well.
	 */
	void (*started)(void *user, uint32_t serial, const struct executor_started *started);
	void (*failed)(void *user, uint32_t serial, const struct error *err);
	/* Once for each session that was started or adopted; also without `started` before. */
	void (*ended)(void *user, uint32_t serial, const struct executor_exit *exit);
};

typedef void executor_signal_fn(void *user, int result, const struct error *err);

/* Whose fitness is asked for. Everything is borrowed for the duration of the call. */
struct executor_probe {
	int64_t serial; /* of the executor */
	const char *id;
	const struct executor_config *config;
	int64_t timeout_ms; /* for all of it */
};

/* err is NULL when the executor is fit, else what is wrong with it. */
typedef void executor_probe_fn(void *user, const struct error *err);

/*
 * report: a line "ok|warn|fail name: detail" for each thing that was looked at; err is NULL. Or no
 * report and what kept it from being made.
 */
typedef void executor_preflight_fn(void *user, const char *report, const struct error *err);

/* The longest report; a line is a sentence. */
#define PREFLIGHT_REPORT_BYTES_MAX 16384

struct driver_ops {
	const char *kind;
	/*
	 * The driver's own keys of an executor's config, which is being read: asks for every key that
	 * it knows with the json_object_* readers of core/json.h, and checks them; what nobody asked
	 * for is refused afterwards. *ret_options becomes a new object of these keys in canonical
	 * form (a fixed order, nothing that is not said), or stays NULL when there are none. That
	 * form must be accepted again, and is what capabilities, check and launch find in
	 * executor_config.options. No I/O: whether it works is for a preflight. Runs in any thread.
	 * Errors: EINVAL with the field. NULL: the driver has no keys of its own.
	 */
	int (*config_check)(struct driver *d, struct json_object *config, json_t **ret_options,
			    struct error *err);
	/* What the driver offers now to an executor with this config. */
	void (*capabilities)(struct driver *d, const struct executor_config *config,
			     struct capabilities *ret);
	/* Refuses what the driver cannot honour, by capability, naming the field. */
	int (*check)(struct driver *d, const struct executor_launch *launch, struct error *err);
	/* 0: an event follows. */
	int (*launch)(struct driver *d, const struct executor_launch *launch, struct error *err);
	/*
	 * Finds a session that an earlier hub, or an earlier connection, launched. *ret is false when
	 * it never ran, and never will by an earlier request; else events follow: started, failed or
	 * ended as for a launch. config: of the executor, as it is now. Errors: it cannot be told now,
	 * ask again.
	 */
	int (*adopt)(struct driver *d, uint32_t serial, uint32_t attempt,
		     const struct executor_config *config, bool *ret_found, struct error *err);
	/*
	 * Delivers a signal once for each key: a key that was seen before is acknowledged and not
	 * applied again.
	 */
	int (*signal)(struct driver *d, uint32_t serial, uint32_t attempt, const struct signal_key *key,
		      enum signal_kind signal, executor_signal_fn *done, void *user,
		      struct error *err);
	/*
	 * Asks whether the executor can take work, and runs its health_check where there is one. done()
	 * follows once, never from within the call, and about when its time is up at the latest, as far
	 * as the driver can help it. An error instead is the answer. NULL: executors of this kind are not
	 * probed.
	 */
	int (*probe)(struct driver *d, const struct executor_probe *probe, executor_probe_fn *done,
		     void *user, struct error *err);
	/*
	 * Looks at everything that a workload would need and reports on each. As probe otherwise. NULL:
	 * there is nothing to look at.
	 */
	int (*preflight)(struct driver *d, const struct executor_probe *probe,
			 executor_preflight_fn *done, void *user, struct error *err);
};

struct driver {
	const struct driver_ops *ops;
	bool ready;
};

#endif
