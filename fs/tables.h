/* The directories of the tree. Each table stands in the file that is named beside it. */
#ifndef CLOOP_FS_TABLES_H
#define CLOOP_FS_TABLES_H

#include "fs/node.h"

extern const struct node_dir root_dir;              /* root.c */
extern const struct node_dir executors_dir;         /* executors.c */
extern const struct node_dir executor_dir;          /* executors.c */
extern const struct node_dir executor_sessions_dir; /* executors.c */
extern const struct node_dir executor_session_dir;  /* executors.c */
extern const struct node_dir sessions_dir;          /* sessions.c */
extern const struct node_dir session_dir;           /* sessions.c */
extern const struct node_dir attempts_dir;          /* attempts.c */
extern const struct node_dir attempt_dir;           /* attempts.c */
extern const struct node_dir live_dir;              /* live.c */
extern const struct node_dir live_executors_dir;    /* live.c */
extern const struct node_dir live_executor_dir;     /* live.c */
extern const struct node_dir live_sessions_dir;     /* live.c */
extern const struct node_dir live_session_dir;      /* live.c */
extern const struct node_dir policy_dir;            /* policy.c */
extern const struct node_dir projects_dir;          /* projects.c */
extern const struct node_dir project_dir;           /* projects.c */
extern const struct node_dir project_sessions_dir;  /* projects.c */
extern const struct node_dir project_session_dir;   /* projects.c */
extern const struct node_dir check_dir;             /* check.c */

#endif
