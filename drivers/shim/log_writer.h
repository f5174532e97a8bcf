/*
 * The writer of a session's log. It lives in the shim: libc only, no allocation, no stdio; one
 * thread. The files are described in log_format.h.
 *
 * The workload is never blocked or killed by its log. Up to the quota its output goes to `log`,
 * without a copy through this process where splice(2) can do it. At the quota, on a full disk, or
 * when the disk fails, `log` ends with one marker line that says why, and everything later goes to
 * the ring `log.tail`; what is in neither is counted. Space for that marker and for the ring is
 * allocated ahead, so that both work on a full disk. A log that has ended does not resume, also
 * when space comes back: the marker is its last line.
 *
 * What is on disk for one session is at most the quota, the ring (log_tail_capacity()), and an
 * index of LOG_INDEX_SPARE_BYTES and LOG_INDEX_SHARE times the quota: output in such small pieces
 * that the index would be larger ends the log as the quota does.
 *
 * The caller ignores SIGXFSZ (a file size limit is then one more full disk), and gives the reading
 * end of a pipe that is O_NONBLOCK; any other descriptor that can be read works too, slower.
 *
 * Functions return 0, or a negative errno. Source: design of the log; the chunk size is the
 * reference's.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_WRITER_H
#define CLOOP_DRIVERS_SHIM_LOG_WRITER_H

#include <sys/types.h>

#include "drivers/shim/log_format.h"
#include "drivers/shim/log_ring.h"

/* The longest marker line, with its newline and the one that may precede it. */
#define LOG_MARKER_MAX_BYTES 256

/*
 * The part of the quota that output does not get: the last marker line goes there. So `log` holds
 * quota - LOG_END_MAX_BYTES of output when the quota ends it.
 */
#define LOG_END_MAX_BYTES 128

/* What one call of log_writer_pump() moves at most: it keeps the caller's loop responsive. */
#define LOG_PUMP_MAX_BYTES (UINT64_C(1) << 20)

/* The bound of the index. A program that writes byte by byte needs 48 bytes of it for each. */
#define LOG_INDEX_SHARE 4
#define LOG_INDEX_SPARE_BYTES (UINT64_C(1) << 20)

struct log_writer {
	uint64_t log_bytes;     /* what the workload wrote, in all attempts */
	uint64_t dropped_bytes; /* of these, in neither log nor log.tail (log_tail_dropped()) */

	/* Private. */
	int dir_fd;
	int log_fd;
	int index_fd;
	struct log_ring ring;
	uint64_t quota_bytes;
	uint64_t log_end; /* positions behind the last record */
	uint64_t out_end;
	uint64_t err_end;
	uint64_t records;
	uint64_t log_allocated; /* bytes of each file that are allocated ahead */
	uint64_t index_allocated;
	uint64_t log_flushed; /* bytes of the log that are on their way to the disk */
	int64_t time_ns;
	uint16_t attempt;
	uint8_t stream;   /* as in the index header on disk */
	bool ended;       /* the log has its last marker */
	bool no_allocate; /* the file system cannot allocate ahead */
	bool no_splice;   /* ... or not splice */
};

/*
 * Opens the log of a session in dirfd, which is borrowed for the call. append: false creates the
 * files (EEXIST when there are any; on an error nothing is left behind); true continues those that
 * are there, as the next attempt, with the marker line "[cloop] attempt N" between. What a writer
 * that died left half done is repaired first (log_writer_repair()). Names are never followed
 * through symbolic links. Errors: EINVAL (quota), EUCLEAN (no regular file, or an index with more
 * damage than a crash can do), ENOSPC and EDQUOT when there is no room for even the smallest ring,
 * those of open(2).
 */
int log_writer_open(struct log_writer *w, int dirfd, uint64_t quota_bytes, bool append);

/*
 * The same for a caller that counts the attempts itself: 1 creates, a higher number continues (or
 * creates, when no earlier attempt came to have a log). EINVAL when the log already has it.
 */
int log_writer_open_attempt(struct log_writer *w, int dirfd, uint64_t quota_bytes,
			    unsigned int attempt);

/*
 * Makes the log of a writer that died whole: records that are torn are cut off; bytes that had no
 * record yet get one, of the stream they came from. A marker line is added unless marker is NULL.
 * No log at all is fine.
 */
int log_writer_repair(int dirfd, uint64_t quota_bytes, const char *marker);

/*
 * Moves what the pipe holds into the log, at most max bytes (and LOG_PUMP_MAX_BYTES) of it. stream
 * is LOG_STDOUT or LOG_STDERR. Returns the bytes moved, 0 at end of file, -EAGAIN when the pipe is
 * empty, EINVAL, or the errno of read(2). A full or broken disk is no error here.
 *
 * What one call moves becomes records of its own. A loop that rests for some 50 us after a call
 * that moved much has fewer and fuller ones, and costs half: the pipe fills meanwhile.
 */
ssize_t log_writer_pump(struct log_writer *w, enum log_stream stream, int pipe_fd, size_t max);

/* The same for bytes in memory. */
void log_writer_write(struct log_writer *w, enum log_stream stream, const void *data, size_t len);

/*
 * Adds the line "[cloop] text". It begins on a line of its own; control characters become '?'; a
 * longer one is cut to LOG_MARKER_MAX_BYTES. Returns 0: as with output, there is always a place.
 */
int log_writer_marker(struct log_writer *w, const char *text);

/*
 * Waits until everything so far is on the disk, the names of the files included. An empty log
 * needs no disk: files that are lost, or have nothing in them, say the same.
 */
int log_writer_sync(struct log_writer *w);

/* Gives back what was allocated ahead, removes a ring that was not used. Accepts one that failed to
 * open, or is closed. */
void log_writer_close(struct log_writer *w);

#endif
