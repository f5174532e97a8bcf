/* READs that never wait: each answers the one that is being handled, well or not. */
#ifndef CLOOP_FS_READ_H
#define CLOOP_FS_READ_H

#include <fuse_lowlevel.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/node.h"

struct area_handle;
struct hub;

/* Of a FILE_LOG: spliced from the file that it lies in, or copied. */
void read_log(struct hub *hub, fuse_req_t req, struct node node, size_t size, uint64_t off);

/* Of what was rendered when it was opened. */
void read_text(struct hub *hub, fuse_req_t req, const struct area_handle *h, size_t size,
	       uint64_t off);

#endif
