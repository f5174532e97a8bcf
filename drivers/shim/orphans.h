/* Looking for the folders of sessions, for whoever knows which of them should be there. */
#ifndef CLOOP_DRIVERS_SHIM_ORPHANS_H
#define CLOOP_DRIVERS_SHIM_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/shim/session_dir.h"

/*
 * The serials of the folders in one shard (0 to SESSION_SHARDS - 1), in an array that the caller frees.
 * Names that no session has are passed over. Reads directories: not for the loop's thread. Returns 0,
 * also when there is no such shard, or a negative errno.
 */
int shim_shard_list(int sessions_fd, unsigned shard, uint64_t **ret, size_t *ret_n);

struct shim_folder {
	bool held;        /* somebody has the lock */
	uint32_t attempt; /* the last that was started; 0: none was */
	int64_t claimed_at_ns; /* when; 0: its record is none, or of another boot while it is held */
};

/* What a folder says. -ENOENT when there is none. */
int shim_folder_look(int sessions_fd, uint64_t serial, struct shim_folder *ret);

#endif
