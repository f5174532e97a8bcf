/*
 * Writes a session's log from the workload's pipes. Used inside the shim: libc only, no malloc, no
 * stdio.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_WRITER_H
#define CLOOP_DRIVERS_SHIM_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum log_stream { LOG_STDOUT = 1, LOG_STDERR = 2, LOG_MARKER = 3 };

/* State of one session's log, embedded by the caller. */
struct log_writer {
	int log_fd;
	uint64_t quota_bytes;
	uint64_t log_bytes;     /* total bytes that the workload wrote */
	uint64_t dropped_bytes; /* of those, in neither log nor tail */
};

/* Creates the log in dirfd (O_EXCL), or continues an existing one
 * after a marker line. */
int log_writer_open(struct log_writer *w, int dirfd, uint64_t quota_bytes, bool append);

/*
 * Moves what the pipe holds (at most max bytes) into the log. Returns bytes moved, 0 at end of file,
 * -EAGAIN when empty. A full disk or the quota is not an error.
 */
ssize_t log_writer_pump(struct log_writer *w, enum log_stream stream, int pipe_fd, size_t max);

/* One marker line "[cloop] …\n". */
int log_writer_marker(struct log_writer *w, const char *text);

/* fdatasync of everything. */
int log_writer_sync(struct log_writer *w);

void log_writer_close(struct log_writer *w);

#endif
