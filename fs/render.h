/*
 * How files read: the pieces that renderers end with.
 */
#ifndef CLOOP_FS_RENDER_H
#define CLOOP_FS_RENDER_H

#include <jansson.h>

struct buf;
struct view;

/* A line. Returns what the buffer says. */
int render_line(struct buf *out, const char *text);

/* JSON in a line. Takes the value; NULL is -ENOMEM. */
int render_json(struct buf *out, json_t *value);

/* A link to the session of the node, from two directories below the root. */
int render_session_link(const struct view *v, struct buf *out);

#endif
