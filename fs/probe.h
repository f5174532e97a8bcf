/*
 * executors/<id>/probe: asks for a probe now, and shows the last one.
 *
 * The write is held until the probe's result is committed; what is wrong with the executor is its
 * errno. Nothing is journalled: one that is replayed after a hub's death asks again, which has no
 * effect but on health.
 */
#ifndef CLOOP_FS_PROBE_H
#define CLOOP_FS_PROBE_H

#include "fs/node.h"

int probe_render(const struct view *v, struct buf *out);
void probe_command(struct change *c, const char *command);

/* When health, or the last probe, changed. */
int64_t probe_changed(const struct view *v);

#endif
