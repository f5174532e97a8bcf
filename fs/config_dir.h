/*
 * The configuration directory: hub.json (fs/settings.h), and executors.d, whose files are executors.
 *
 * It is looked at when the hub begins, before anything is served, and whenever something in it
 * changes: inotify says so, and what it cannot see (a directory that is not there yet, another
 * machine's change on a network file system) is found by looking now and then. A look is made on
 * libuv's pool (fs/config_scan.h); what follows from it is decided in the loop and committed like
 * every other change of the fleet. While that is under way nothing else is decided.
 *
 * A file executors.d/ID.json is the executor ID:
 *
 *	a new file	it is registered, or shown unconfigured with its config_error
 *	it changes	the new version is in force; one that is wrong leaves the earlier one, and its
 *			error in config_error and the events
 *	it goes		the executor is cordoned, and unregistered when nothing is in flight on it; a
 *			file that comes back before that lets it work again
 *	ID was made	with mkdir: an error in the config_error of that one, and nothing else
 *
 * Which executors are leaving is not stored: it is those that came from a file that is not there.
 * A directory that cannot be read says nothing about any executor.
 */
#ifndef CLOOP_FS_CONFIG_DIR_H
#define CLOOP_FS_CONFIG_DIR_H

#include <stdint.h>

#include "core/error.h"

struct config_dir;
struct hub;

/* Looks, and commits what follows. May block. */
int config_dir_new(struct hub *hub, struct error *err);
struct config_dir *config_dir_free(struct config_dir *cd);

/* Something changed that may let a file be taken which could not before: looks soon. */
void config_dir_look(struct hub *hub);

/* Fewer, or more, sessions are in flight on an executor. */
void config_dir_inflight(struct hub *hub, int64_t executor_serial);

/* Once a second. */
void config_dir_tick(struct hub *hub);

#endif
