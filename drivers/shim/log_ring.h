/*
 * The writer's half of log.tail: a ring with the last of what came after the log had ended. Its
 * blocks are allocated when the session starts, so that it works on a full disk. libc only, no
 * allocation. A ring without a file counts what it is given as lost.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_RING_H
#define CLOOP_DRIVERS_SHIM_LOG_RING_H

#include "drivers/shim/log_format.h"

struct log_ring {
	int fd; /* -1: there is none */
	struct log_tail_header header;
};

/*
 * Creates log.tail in dirfd. On a disk with no room for the capacity that goes with the quota the
 * ring is smaller, down to LOG_TAIL_MIN_BYTES. Errors: EEXIST, ENOSPC, EDQUOT, those of open(2);
 * then nothing is left behind.
 */
int log_ring_create(struct log_ring *ring, int dirfd, uint64_t quota_bytes);

/* Opens the log.tail that is there and goes on with it. ENOENT; EUCLEAN when it is damaged. */
int log_ring_open(struct log_ring *ring, int dirfd);

/* Whether anything was ever given to it. */
bool log_ring_used(const struct log_ring *ring);

/* Adds n bytes, of which the ring keeps what it has room for. */
void log_ring_store(struct log_ring *ring, enum log_stream stream, const char *data, size_t n,
		    int64_t time_ns, uint16_t attempt);

/* Closes the file, and removes it from dirfd when it was never used. */
void log_ring_close(struct log_ring *ring, int dirfd);

#endif
