/*
 * What the container driver can do for an executor with a given config, and what it refuses.
 * Nothing is dropped or clamped. abilities: enum shim_ability, what the launcher can enforce.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_CHECK_H
#define CLOOP_DRIVERS_CONTAINER_CHECK_H

#include "core/capabilities.h"
#include "core/error.h"
#include "core/spec.h"
#include "drivers/container/config.h"

struct capabilities container_capabilities(const struct container_config *config,
					   unsigned abilities);

/* EOPNOTSUPP, EINVAL or EACCES with the field. */
int container_check(const struct container_config *config, const struct spec *spec,
		    unsigned abilities, struct error *err);

/* The image that a spec runs in: its own, else the executor's; "" when neither has one. */
const char *container_image(const struct container_config *config, const struct spec *spec);

#endif
