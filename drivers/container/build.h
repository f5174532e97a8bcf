/*
 * Images with a spec's setup commands baked in.
 *
 * One is made for each base digest and list of commands, and tagged with a name that is computed from
 * these: who asks for the same again finds it, also after a restart, and starts that ask at the same
 * time share one build. The build file has nothing but FROM, LABEL and RUN lines; a command is an
 * argument of /bin/sh, so that nothing in it can be read as another instruction. Commands run as the
 * image's root without the capabilities that a package manager does not need, and with the network
 * of the executor.
 *
 * What the commands say comes back as text, for the session's log.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_BUILD_H
#define CLOOP_DRIVERS_CONTAINER_BUILD_H

#include "core/error.h"
#include "core/spec.h"
#include "drivers/container/config.h"
#include "drivers/driver.h"

/* What of a build's output is kept for the log: its end. */
#define CONTAINER_BUILD_TEXT_MAX ((size_t)64 << 10)

struct container_builds;

/* shims is borrowed. NULL when out of memory. */
struct container_builds *container_builds_new(struct driver_shims *shims);
struct container_builds *container_builds_free(struct container_builds *builds);

/* text: what the build said so far; "" when there was nothing to build. Valid for the call. */
typedef void container_build_fn(void *user, const char *text, const struct error *err);

/* The tag for a base and a list of commands. The caller frees it; NULL when out of memory. */
char *container_build_tag(const char *base, char *const *commands, size_t n);

/* The build file. The caller frees it; NULL when out of memory. */
char *container_build_file(const char *base, char *const *commands, size_t n);

/*
 * Builds the image with this tag; done() follows, once. Errors of done(): EIO with the command's last
 * words, ETIMEDOUT.
 */
int container_builds_make(struct container_builds *builds, const struct container_config *config,
			  char *const *env, const char *base, const struct spec *spec, const char *tag,
			  container_build_fn *done, void *user, struct error *err);

#endif
