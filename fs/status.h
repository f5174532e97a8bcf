/* The root's file `status`. */
#ifndef CLOOP_FS_STATUS_H
#define CLOOP_FS_STATUS_H

#include <stdint.h>

#include "core/buf.h"
#include "fs/node.h"

int status_render(const struct view *v, struct buf *out);

/* Also when `events` has changed last. */
int64_t status_changed(const struct view *v);

#endif
