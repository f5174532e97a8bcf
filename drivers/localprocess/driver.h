/*
 * The localprocess driver: workloads as processes of this host, under a shim each. One object
 * serves every executor of the kind; it speaks to the launcher through drivers/shim/client.h.
 */
#ifndef CLOOP_DRIVERS_LOCALPROCESS_DRIVER_H
#define CLOOP_DRIVERS_LOCALPROCESS_DRIVER_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/error.h"
#include "core/executor.h"

struct localprocess;

/* Apart from the bits of enum shim_ability. */
#define LOCALPROCESS_ABILITIES_KNOWN (UINT32_C(1) << 31)

struct localprocess_options {
	uv_loop_t *loop;
	int sessions_fd, runtime_fd; /* borrowed */
	uint64_t epoch;              /* grows with each hub process */
	dev_t forbidden_dev;         /* the mount's own st_dev: nothing runs in it or from it */
	/*
	 * What the launcher said it can do, for hubs to come, with LOCALPROCESS_ABILITIES_KNOWN, or 0;
	 * borrowed. What was said before counts until it is said again.
	 */
	uint32_t *abilities;
	const struct executor_events *events;
	void *user;
};

/* Begins to connect to the launcher; events->ready says when it is there. */
int localprocess_new(const struct localprocess_options *options, struct localprocess **ret,
		     struct error *err);
struct localprocess *localprocess_free(struct localprocess *l);

struct driver *localprocess_driver(struct localprocess *l);

#endif
