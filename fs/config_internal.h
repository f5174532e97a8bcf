/* Shared by config_dir.c (when to look) and config_executors.c (what follows from it). */
#ifndef CLOOP_FS_CONFIG_INTERNAL_H
#define CLOOP_FS_CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "fs/config_scan.h"

struct hub;

struct config_dir {
	struct hub *hub;
	int inotify_fd;                 /* -1: none to be had, so that only time tells */
	int watch_top, watch_executors; /* -1: nothing to watch */
	uv_poll_t poll;
	uv_timer_t timer;
	int64_t noticed_ns; /* the first change that was not looked at; 0: none */
	uv_work_t work;
	bool looking; /* a look is under way: the snapshot is the pool's */
	bool again;   /* something changed meanwhile */
	unsigned seconds; /* since the last look */
	unsigned n_ops;   /* changes being committed */
	struct config_snapshot snapshot;

	/* What was said of files that are no executor's, to say it once. */
	char **complaints;
	size_t n_complaints;
};

/* Decides about every executor that has, or had, a file. */
void config_executors_reconcile(struct config_dir *cd);

/* One of the changes has been committed, or failed: when it was the last one, goes on. */
void config_dir_op_done(struct config_dir *cd, bool failed);

/* Unregisters an executor whose file is gone, as nothing is in flight on it. */
void config_executor_leaves(struct config_dir *cd, int64_t serial);

#endif
