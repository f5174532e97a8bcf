/* What the tables of objects and of their blocking files share. */
#ifndef CLOOP_FS_LIVE_H
#define CLOOP_FS_LIVE_H

#include "fs/node.h"

/* sessions.c */
int session_object(struct hub *hub, uint32_t serial, struct object_info *ret);
int session_name(struct hub *hub, uint32_t serial, struct buf *out);
int session_lookup(struct hub *hub, const char *name, enum node_kind kind, struct node *ret);

/* executors.c */
int executor_object(struct hub *hub, uint32_t serial, struct object_info *ret);
int executor_name(struct hub *hub, uint32_t serial, struct buf *out);
int executor_lookup(struct hub *hub, const char *name, enum node_kind kind, struct node *ret);

#endif
