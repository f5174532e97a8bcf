/*
 * One look at the configuration directory: everything that is there, read and parsed.
 *
 * Runs on any thread and touches nothing of the hub; the loop decides what follows from it
 * (fs/config_dir.h). It also lays the inotify watches, before it reads, so that no change is missed.
 */
#ifndef CLOOP_FS_CONFIG_SCAN_H
#define CLOOP_FS_CONFIG_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/executor_config.h"
#include "core/hub_config.h"

struct driver;

#define CONFIG_EXECUTORS_DIR "executors.d"

/* A document holds at most some hundred names. */
#define CONFIG_EXECUTOR_BYTES_MAX 65536

/* Entries looked at: a fleet is ten thousand. */
#define CONFIG_ENTRIES_MAX 16384

/* A name that a person reads in a sentence. */
#define CONFIG_NAME_SHOWN_MAX 80

/* One file of executors.d. */
struct config_entry {
	char *id;   /* the name without .json; NULL when that is no name of an executor */
	char *file; /* "executors.d/x.json", fit to be shown */
	int result; /* of reading and parsing it: 0, or err */
	struct error err;
	struct executor_config config; /* with result 0 */
	char *text;                    /* the same, canonical */
};

struct config_snapshot {
	/* hub.json: 0, -ENOENT when there is none, or what is wrong with it. */
	int hub_result;
	struct error hub_err;
	char *hub_text; /* as it is; "" when there is none; NULL when it could not be read */
	struct hub_config hub;

	/* executors.d: 0, also when there is none; else nothing can be said of its entries. */
	int dir_result;
	struct error dir_err;
	struct config_entry *entries; /* sorted by file */
	size_t n;

	/* inotify watch descriptors, -1 where there is none. */
	int watch_top, watch_executors;
};

/*
 * Looks. inotify_fd -1: lays no watches. only_hub: leaves executors.d aside. Everything that goes
 * wrong is in *ret.
 */
void config_scan(const char *config_dir, struct driver *const *drivers, int inotify_fd, bool only_hub,
		 struct config_snapshot *ret);

void config_snapshot_clear(struct config_snapshot *s);

/* Whether a file of that name in executors.d is meant: not hidden, no backup of an editor, .json. */
bool config_name_is_meant(const char *name);

#endif
