/*
 * The container driver: workloads in containers of podman, each under a shim of this host
 * that is the container's supervisor. One object serves every executor of the kind; what an executor
 * wants is in its config (drivers/container/config.h).
 *
 * A launch finds out which image the reference stands for (image.h) and then starts the runtime's
 * client with what argv.h says. The session ends when the container is gone; one whose shim was
 * killed ends when the runtime has removed the container.
 *
 * Who runs in it: the user who starts it, who must own work_dir. For root and members of the
 * administrators' group it is the directory's owner. Without a work_dir the session has a directory of
 * its own, which goes with it; root's then belongs to CONTAINER_NOBODY. Nothing runs as uid 0.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_DRIVER_H
#define CLOOP_DRIVERS_CONTAINER_DRIVER_H

#include <sys/types.h>

#include "core/error.h"
#include "core/executor.h"
#include "drivers/driver.h"

/* The kernel's overflow id, which owns nothing. */
#define CONTAINER_NOBODY 65534

struct container;

/* shims is borrowed and outlives the driver. gid_admin: 0 when there is no such group. */
int container_new(struct driver_shims *shims, gid_t gid_admin, struct container **ret,
		  struct error *err);
struct container *container_free(struct container *c);

struct driver *container_driver(struct container *c);

#endif
