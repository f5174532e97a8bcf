/*
 * The tree: the low-level FUSE operations, over the node tables. Every operation that has no place
 * in the tree has a fixed errno here.
 */
#ifndef CLOOP_FS_TREE_H
#define CLOOP_FS_TREE_H

#include <fuse_lowlevel.h>

extern const struct fuse_lowlevel_ops tree_ops;

#endif
