/*
 * What the drivers share that run their workloads under shims of this host: one connection to the
 * launcher, and the way from what a shim says to what a driver reports.
 *
 * A driver_shims belongs to the hub and outlives its drivers. Each session is of the driver that
 * launched or adopted it; what is said of it goes to that driver's driver_shim_ops, or, where that is
 * NULL, straight on to the executor_events. Runs on the loop's thread.
 */
#ifndef CLOOP_DRIVERS_DRIVER_H
#define CLOOP_DRIVERS_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/error.h"
#include "core/executor.h"
#include "drivers/shim/client.h"

/* Apart from the bits of enum shim_ability. */
#define DRIVER_ABILITIES_KNOWN (UINT32_C(1) << 31)

/* Drivers of one hub that use shims. */
#define DRIVER_SHIMS_DRIVERS_MAX 8

struct driver_shims;

struct driver_shims_options {
	uv_loop_t *loop;
	int sessions_fd, runtime_fd; /* borrowed */
	uint64_t epoch;              /* grows with each hub process */
	dev_t forbidden_dev;         /* the mount's own st_dev: nothing runs in it or from it */
	/*
	 * What the launcher said it can do, for hubs to come, with DRIVER_ABILITIES_KNOWN, or 0;
	 * borrowed. What was said before counts until it is said again.
	 */
	uint32_t *abilities;
	/* One line for the daemon's log. */
	void (*log)(void *user, const char *line);
	const struct executor_events *events;
	void *user;
};

/* What a driver wants to hear itself; any may be NULL. */
struct driver_shim_ops {
	void (*started)(struct driver *d, uint32_t serial, uint32_t attempt,
			const struct shim_started *started);
	void (*failed)(struct driver *d, uint32_t serial, uint32_t attempt, const struct error *err);
	void (*exited)(struct driver *d, uint32_t serial, uint32_t attempt,
		       const struct shim_exit *exit);
	void (*lost)(struct driver *d, uint32_t serial, uint32_t attempt, const struct error *err);
};

/* Begins to connect to the launcher; events->ready is said of each driver when it is there. */
int driver_shims_new(const struct driver_shims_options *options, struct driver_shims **ret,
		     struct error *err);
struct driver_shims *driver_shims_free(struct driver_shims *s);

/* Before the loop runs. ops may be NULL. */
void driver_shims_add(struct driver_shims *s, struct driver *d, const struct driver_shim_ops *ops);

/* The options, and the connection, of which drivers use what is not below. Borrowed. */
const struct driver_shims_options *driver_shims_options(const struct driver_shims *s);
struct shim_client *driver_shims_client(struct driver_shims *s);

/* enum shim_ability; everything, before a launcher has ever said what it can do. */
unsigned driver_shims_abilities(const struct driver_shims *s);

/* EHOSTUNREACH while the launcher hangs up instead of answering: for driver_ops.check. */
int driver_shims_check(const struct driver_shims *s, struct error *err);

/* timeout_minutes of a spec. */
int64_t driver_timeout_ms(int64_t minutes);

/* As driver_ops.launch, .adopt and .signal. */
int driver_shims_launch(struct driver_shims *s, struct driver *d,
			const struct launch_request *request, struct error *err);
int driver_shims_adopt(struct driver_shims *s, struct driver *d, uint32_t serial, uint32_t attempt,
		       bool *ret_found, struct error *err);
int driver_shims_signal(struct driver_shims *s, uint32_t serial, uint32_t attempt,
			const struct signal_key *key, enum signal_kind signal,
			executor_signal_fn *done, void *user, struct error *err);

/* Pass on what a driver heard. failed, exited and lost end a session. */
void driver_shims_say_started(struct driver_shims *s, uint32_t serial,
			      const struct shim_started *started, const char *image);
void driver_shims_say_failed(struct driver_shims *s, uint32_t serial, const struct error *err);
void driver_shims_say_exited(struct driver_shims *s, uint32_t serial, const struct shim_exit *exit);
void driver_shims_say_lost(struct driver_shims *s, uint32_t serial, const struct error *err);

#endif
