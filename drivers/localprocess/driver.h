/*
 * The localprocess driver: workloads as processes of this host, under a shim each. One object
 * serves every executor of the kind; it speaks to the launcher through drivers/driver.h.
 */
#ifndef CLOOP_DRIVERS_LOCALPROCESS_DRIVER_H
#define CLOOP_DRIVERS_LOCALPROCESS_DRIVER_H

#include "core/error.h"
#include "core/executor.h"
#include "drivers/driver.h"

struct localprocess;

/* shims is borrowed and outlives the driver. */
int localprocess_new(struct driver_shims *shims, struct localprocess **ret, struct error *err);
struct localprocess *localprocess_free(struct localprocess *l);

struct driver *localprocess_driver(struct localprocess *l);

#endif
