/* The documentation of the tree, out of its own tables. */
#ifndef CLOOP_FS_DOCS_H
#define CLOOP_FS_DOCS_H

#include "core/buf.h"

/* /cloop/README. */
void docs_readme(struct buf *out);

/* docs/tree.md. */
void docs_markdown(struct buf *out);

/* cloop(7), in mdoc. */
void docs_manual(struct buf *out);

#endif
