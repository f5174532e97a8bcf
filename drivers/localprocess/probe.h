/*
 * Whether this host can run workloads: probes and preflights of executors of the kind localprocess.
 *
 * A probe asks whether the launcher is at work; where the config has a health_check, that program is
 * run instead, through the launcher, as the hub's own user and with a minimal environment. A preflight
 * also looks at the control groups, the user, the sessions directory and its disk, and the groups that
 * the tree gives files to, and runs a program.
 */
#ifndef CLOOP_DRIVERS_LOCALPROCESS_PROBE_H
#define CLOOP_DRIVERS_LOCALPROCESS_PROBE_H

#include <uv.h>

#include "core/executor.h"
#include "core/executor_config.h"
#include "drivers/shim/client.h"

struct host_probes;

struct host_probes_options {
	uv_loop_t *loop;
	struct shim_client *client;
	int sessions_fd;
	const uint32_t *abilities; /* what the launcher said it can do: enum shim_ability */
};

/* Everything in options is borrowed. NULL when out of memory. */
struct host_probes *host_probes_new(const struct host_probes_options *options);
/* Before its client. Nothing is said any more; the memory goes with what the loop still runs. */
struct host_probes *host_probes_free(struct host_probes *h);

/* As driver_ops.probe and .preflight. */
int host_probe(struct host_probes *h, const struct executor_probe *probe, executor_probe_fn *done,
	       void *user, struct error *err);
int host_preflight(struct host_probes *h, const struct executor_probe *probe,
		   executor_preflight_fn *done, void *user, struct error *err);

#endif
