/*
 * Starting a workload: from the document that was written to a start file to its answer.
 */
#ifndef CLOOP_FS_START_H
#define CLOOP_FS_START_H

#include <stddef.h>

struct change;
struct executor;

/* Runs the document that asks executor for a launch, and ends the change. */
void start_execute(struct change *c, struct executor *executor, const char *text, size_t len);

#endif
