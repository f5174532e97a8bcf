/* Nodes of attempts, whose serials are those of rows. */
#ifndef CLOOP_FS_ATTEMPTS_H
#define CLOOP_FS_ATTEMPTS_H

#include "fs/node.h"

/* The directory of attempts that one is in. */
struct node attempt_parent(struct hub *hub, uint32_t serial);

/* The directory of a session's n-th attempt: 0, -ENOENT, or what the store failed with. */
int attempt_node(struct hub *hub, uint32_t session, int64_t attempt, struct node *ret);

#endif
