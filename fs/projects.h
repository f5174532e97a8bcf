/*
 * Projects: the tables (projects.c), where their work goes (project_start.c), and what other tables
 * and the hub know of them.
 */
#ifndef CLOOP_FS_PROJECTS_H
#define CLOOP_FS_PROJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "fs/node.h"

struct change;
struct hub;
struct project;

/* The project that a change is about; NULL when it is gone, and the change was refused. */
struct project *project_of_change(struct change *c);

/* The row `executor`: where work would go now. */
bool project_executor_absent(struct hub *hub, uint32_t serial);
int project_render_executor(const struct view *v, struct buf *out);

/* The row `start`. */
void project_execute_start(struct change *c, const char *text, size_t len);

/* A session of a project came, or was forgotten: its directory of links has changed. 0: no project. */
void projects_session_created(struct hub *hub, int64_t project_serial, uint32_t serial,
			      const char *name);
void projects_session_removed(struct hub *hub, int64_t project_serial, uint32_t serial,
			      const char *name);

/* A session's link to its project; there is none when it has no project, or that was removed. */
bool projects_session_has_none(struct hub *hub, uint32_t session_serial);
int projects_session_link(struct hub *hub, uint32_t session_serial, struct buf *out);

#endif
