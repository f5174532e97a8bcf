/*
 * Which image a reference stands for.
 *
 * A start runs a digest, not a name that may mean something else a moment later. The runtime is asked
 * once (`image inspect`); the answer counts as long as the file in which the storage lists its images
 * is the same one, unchanged. So a start costs no second call of the runtime, and one after a change
 * of the storage does.
 *
 * Runs on the loop's thread; files are looked at in libuv's pool.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_IMAGE_H
#define CLOOP_DRIVERS_CONTAINER_IMAGE_H

#include "core/error.h"
#include "drivers/container/config.h"
#include "drivers/driver.h"

/* Answers that are kept; the oldest makes room. */
#define CONTAINER_IMAGES_MAX 256

struct container_images;

/* shims is borrowed. NULL when out of memory. */
struct container_images *container_images_new(struct driver_shims *shims);
/* Nothing is said any more. */
struct container_images *container_images_free(struct container_images *images);

/* What to run: "registry/name@sha256:…", or the image's id where it has no digest. NULL with err. */
typedef void container_image_fn(void *user, const char *image, const struct error *err);

/*
 * Finds out; done() follows, perhaps before this returns. env: the runtime's own, ends with NULL.
 * Errors of done(): ENOENT (no such image here; nothing is pulled), EINVAL (it has an ENTRYPOINT, to
 * which argv would be added), EIO (what the runtime says). Errors here: ENOMEM, EAGAIN.
 */
int container_images_resolve(struct container_images *images, const struct container_config *config,
			     char *const *env, const char *reference, container_image_fn *done,
			     void *user, struct error *err);

/* What an inspection says; parsed strictly, for it may hold anything. For tests as well. */
struct container_image_facts {
	char *image;  /* what to run */
	char *listed; /* the file that lists the images, "" when it is not known */
};

int container_image_parse(const char *text, size_t len, const char *reference,
			  struct container_image_facts *ret, struct error *err);
void container_image_facts_clear(struct container_image_facts *f);

#endif
