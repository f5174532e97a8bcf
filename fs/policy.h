/* /policy: what may run, as far as the hub decides it. */
#ifndef CLOOP_FS_POLICY_H
#define CLOOP_FS_POLICY_H

#include "fs/node.h"

/* The file host_execution. */
struct node policy_node(void);

#endif
