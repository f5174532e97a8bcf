/*
 * What the two files of the log writer share: log_writer.c adds to a log, log_writer_open.c opens,
 * continues and repairs one.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_WRITER_PRIVATE_H
#define CLOOP_DRIVERS_SHIM_LOG_WRITER_PRIVATE_H

#include "drivers/shim/log_writer.h"

/* Brings w->time_ns to now, but never back. */
void log_writer_touch(struct log_writer *w);

/*
 * How many of n bytes the log has room for, with space for them, their records and the last marker
 * allocated. When none, *ret_cause is LOG_CAUSE_QUOTA, LOG_CAUSE_INDEX, or a positive errno.
 */
size_t log_writer_room(struct log_writer *w, size_t n, int *ret_cause);

#define LOG_CAUSE_QUOTA (-1)
#define LOG_CAUSE_INDEX (-2)

/*
 * Gives records to the n bytes of the log file behind the last record. Returns how many have one:
 * fewer with *ret_cause set to a positive errno when the index cannot be written.
 */
size_t log_writer_record(struct log_writer *w, enum log_stream stream, size_t n, uint8_t flags,
			 int *ret_cause);

/* Moves the n bytes behind the last record into the ring and cuts them off. */
void log_writer_salvage(struct log_writer *w, enum log_stream stream, size_t n);

/* Writes the last marker and gives back what was allocated for more. */
void log_writer_end(struct log_writer *w, int cause);

/* The marker line between two attempts. */
void log_writer_attempt_marker(struct log_writer *w);

/* Notes on disk whose bytes come next. */
void log_writer_note_stream(struct log_writer *w, enum log_stream stream);

/* Recounts log_bytes and dropped_bytes. */
void log_writer_count(struct log_writer *w);

/* Writes the index header. Returns 0 or a negative errno. */
int log_writer_header(struct log_writer *w);

#endif
