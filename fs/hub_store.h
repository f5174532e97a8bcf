/* The store at the start of a hub: opened, and brought in order before anybody reads. */
#ifndef CLOOP_FS_HUB_STORE_H
#define CLOOP_FS_HUB_STORE_H

#include "core/error.h"

struct hub;

/*
 * Opens hub->store. In one commit: the built-in executor, once in the store's life; journal rows of
 * requests that can never come again are dropped; and the first hub of a mount prunes the events.
 * wake is called from the writer thread. May block.
 */
int hub_store_begin(struct hub *hub, void (*wake)(void *user), void *user, struct error *err);

#endif
