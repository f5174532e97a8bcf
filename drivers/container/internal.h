/* What the files of the container driver share. */
#ifndef CLOOP_DRIVERS_CONTAINER_INTERNAL_H
#define CLOOP_DRIVERS_CONTAINER_INTERNAL_H

#include <sys/queue.h>

#include "core/executor.h"
#include "drivers/container/build.h"
#include "drivers/container/driver.h"
#include "drivers/container/image.h"
#include "drivers/shim/run.h"

#define CONTAINER_BASE_ENV_MAX 8
#define CONTAINER_BUCKETS 256U
/* "cloop-<instance>-<serial in hex>.<attempt>" */
#define CONTAINER_ID_MAX 96

struct tracked;
struct probing;

struct container {
	struct driver driver; /* first: driver_ops are given this */
	struct driver_shims *shims;
	gid_t gid_admin;
	char instance[40]; /* tells the containers of daemons apart that share a runtime */
	char *base_env[CONTAINER_BASE_ENV_MAX];
	size_t n_base_env;
	struct container_images *images;
	struct container_builds *builds;
	LIST_HEAD(tracked_list, tracked) tracked[CONTAINER_BUCKETS];
	LIST_HEAD(probing_list, probing) probing;
};

/* Whether an attempt is one of a session that this driver launches, supervises or removes. */
bool container_tracks(struct container *c, uint32_t serial, uint32_t attempt);

void container_name(const struct container *c, uint32_t serial, uint32_t attempt,
		    char ret[static CONTAINER_ID_MAX]);
/* The way back; false for the name of a container of something else. */
bool container_name_parse(const struct container *c, const char *name, uint32_t *ret_serial,
			  uint32_t *ret_attempt);

/* The last line that a program wrote, printable. */
void container_last_line(const char *text, char *ret, size_t size);

/* probe.c: driver_ops.probe and .preflight. */
int container_probe(struct driver *d, const struct executor_probe *probe, executor_probe_fn *done,
		    void *user, struct error *err);
int container_preflight(struct driver *d, const struct executor_probe *probe,
			executor_preflight_fn *done, void *user, struct error *err);
/* Nothing more is said of those that are under way. */
void container_probes_free(struct container *c);

/*
 * sweep.c: what of the containers that a runtime lists is to be removed, as space-separated names.
 * text: the output of `ps --all --format json` (podman) for one executor's label. tracks() says
 * which have a session.
 *
 * One that has ended goes at once. One that runs goes when it has all our labels, no session, and is
 * older than the grace by the runtime's own clock. Whatever is not certain stays.
 */
struct container_sweep {
	const char *executor;
	int64_t grace_s, now_s;
	bool (*tracks)(void *user, const char *name);
	void *user;
};

/* Calls remove() for each; returns how many containers there are, -EBADMSG for no such list, or -ENOMEM. */
int container_sweep(const struct container_sweep *sweep, const char *text, size_t len,
		    void (*remove)(void *user, const char *name));

#endif
