/*
 * Starting a workload: from the document that was written to a start file to its answer. The start
 * files differ in how an executor is found; what happens to the request is the same for all.
 */
#ifndef CLOOP_FS_START_H
#define CLOOP_FS_START_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

struct change;
struct dispatch_start;
struct executor;
struct spec;

/* Runs the document that asks executor for a launch, and ends the change. */
void start_execute(struct change *c, struct executor *executor, const char *text, size_t len);

/*
 * First of all, before anything is parsed: whether the request is a replayed one whose session was
 * written by an earlier hub. Then it is answered by that session, and the change is ended.
 */
bool start_resumed(struct change *c);

/*
 * Whether this caller may start that spec: EPERM for paths of the host, ENOKEY for a secret without
 * a lease. path is where the spec stands in the document.
 */
int start_check_rights(const struct change *c, const struct spec *spec, const char *path,
		       struct error *err);

/*
 * Asks for the launch and ends the change. Of start, what the request itself knows is filled in
 * here: who asks, through which file, and with which request. The spec in it is taken on success.
 */
void start_launch(struct change *c, struct dispatch_start *start);

#endif
