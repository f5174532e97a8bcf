/* Requests that change the registry, for the tables that have such files. */
#ifndef CLOOP_FS_REGISTRY_CHANGE_H
#define CLOOP_FS_REGISTRY_CHANGE_H

#include "core/registry.h"

struct change;

/*
 * Attaches a registry change to a request, to be completed by the caller. NULL: out of memory, and
 * the request was refused.
 */
struct registry_change *registry_change_begin(struct change *c, enum registry_change_kind kind,
					      int64_t serial, const char *name);

/* Commits it, and ends the request. */
void registry_change_commit(struct change *c);

#endif
