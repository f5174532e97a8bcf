/*
 * Placement as files: what the tree asks of core/candidates.h.
 */
#ifndef CLOOP_FS_PLACING_H
#define CLOOP_FS_PLACING_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

struct change;
struct executor;
struct hub;
struct requirements;
struct spec;

/* Whether workloads may run on executors that do not isolate. */
bool placing_host_allowed(const struct hub *hub);

/*
 * Chooses for the requirements. A refusal becomes the answer of the change:
 * {"constraint","considered","rejections"}.
 *
 * With a spec (may be NULL) the driver of who is chosen has its say as well; when it refuses, the next
 * best is asked. When all of them do, it is the best one's refusal.
 */
int placing_select(struct change *c, const struct requirements *req, const struct spec *spec,
		   struct executor **ret, struct error *err);

/* /start: places a spec and starts it. /place: says where it would go. */
void placing_execute_start(struct change *c, const char *text, size_t len);
void placing_execute_place(struct change *c, const char *text, size_t len);

#endif
