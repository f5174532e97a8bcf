/*
 * The reader of a session's log, inside the hub. The files are described in log_format.h, their
 * writer in log_writer.h; the two share nothing but the files, and the reader may look while the
 * writer writes, and after it died.
 *
 * One reader serves any number of readers of one session: it holds three or four descriptors and
 * no position. It never blocks but for the page cache. It sees the log as it was at the last look
 * and looks again by itself when asked for what it does not know yet. Files that are not there
 * (yet) are an empty log.
 *
 * Views, all of bytes: the log (straight from the file), stdout and stderr (through the index),
 * log.tail. And lines: each record as one line of JSON, the reference's LogLine
 *
 *   {"handle_id":"<session>.<attempt>","stream":"stdout","text":"…","time":"…","seq":1}
 *
 * with stream "combined" for marker lines. Rendering is a function of the files alone: the same
 * bytes come however and whenever they are read. Bytes that are not UTF-8 become U+FFFD, one each
 * as the reference's JSON encoder does it. A code point is never split: the incomplete end of a
 * record goes to the next record of its stream. When the log is complete (the caller knows that
 * the workload has ended, and says so) the incomplete ends follow as lines of their own, then what
 * log.tail holds, as stream "combined"; a gap in seq shows that bytes are missing between.
 *
 * Nothing that the files say is trusted: a damaged index gives EIO where it is damaged, and no
 * more. Errors: those of open(2) and read(2); EIO for damage; ENOMEM.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_READER_H
#define CLOOP_DRIVERS_SHIM_LOG_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/owner.h"

struct log_reader;

enum log_view {
	LOG_VIEW_LOG,
	LOG_VIEW_STDOUT,
	LOG_VIEW_STDERR,
	LOG_VIEW_TAIL,
};

/* What there is of a log. */
struct log_sizes {
	uint64_t log_bytes;
	uint64_t stdout_bytes;
	uint64_t stderr_bytes;
	uint64_t tail_bytes;
	uint64_t dropped_bytes; /* in neither log nor log.tail */
	uint64_t records;
	int64_t time_ns;  /* of the last record, or of the last byte in log.tail; 0: nothing yet */
	uint16_t attempt; /* the latest with output; 0: nothing yet */
	bool ended;       /* the log has its last line, and the rest goes to log.tail */
};

/* The longest session id that is rendered, in bytes. */
#define LOG_SESSION_MAX_BYTES 256

/*
 * A place in the rendered lines. All zero is the beginning. The three numbers can be stored and
 * used by another process; they are only good for the session that they come from.
 */
struct log_cursor {
	uint64_t offset; /* of the next byte, in the rendered text */
	uint64_t record; /* whose line that byte is in */
	uint64_t skip;   /* bytes of that line before it */
};

/*
 * Opens the log in dirfd, which is borrowed for the call; -1: there is no folder, which is an empty
 * log. The caller frees *ret.
 */
int log_reader_open(int dirfd, struct log_reader **ret, struct error *err);
struct log_reader *log_reader_free(struct log_reader *r);

OWNER_DEFINE(struct log_reader, log_reader, log_reader_free);
#define AUTO_LOG_READER CLEANUP(owner_log_readerp)

/*
 * Says that no more will be written: the workload has ended and its writer is gone. To be said
 * once, before lines are read to their end.
 */
void log_reader_complete(struct log_reader *r);

/* Looks at the files and says what there is. */
int log_reader_sizes(struct log_reader *r, struct log_sizes *ret, struct error *err);

/*
 * Reads up to len bytes at an offset of a view. Returns the bytes read: fewer than len only where
 * the view ends now, or where the index is damaged (EIO from there on).
 *
 * log.tail moves while the workload runs: offset 0 is the oldest byte that is still there, bytes
 * that are overwritten meanwhile are left out. A read from 0 with room for LOG_TAIL_MAX_BYTES is a
 * snapshot of the whole; that is how to read it.
 */
ssize_t log_reader_pread(struct log_reader *r, enum log_view view, void *buf, size_t len,
			 uint64_t offset, struct error *err);

/* How many of len bytes there are at an offset of the log. Looks when it does not know. */
ssize_t log_reader_span(struct log_reader *r, size_t len, uint64_t offset, struct error *err);

/*
 * The descriptor of the log file, to be spliced from, as far as log_reader_span() says; -1 while
 * there is none. The reader owns it.
 */
int log_reader_log_fd(const struct log_reader *r);

/* The range of an attempt in the log, its marker line included; empty when it has no output. */
int log_reader_attempt(struct log_reader *r, unsigned int attempt, uint64_t *ret_from,
		       uint64_t *ret_to, struct error *err);

/*
 * Reads up to len bytes of the lines from the cursor on, and moves it. Returns 0 when there is no
 * more now; after log_reader_complete(), no more ever. EINVAL for a cursor that cannot be.
 */
ssize_t log_reader_lines(struct log_reader *r, const char *session, struct log_cursor *cursor,
			 void *buf, size_t len, struct error *err);

/*
 * Moves a cursor to an offset of the rendered text, forward from where it is, or from the
 * beginning when that is later; it stops at the end of what there is. This costs the rendering of
 * all that is passed, so it is done in steps of about budget_bytes of log: returns 1 when done, 0
 * when it wants to be called again. With offset UINT64_MAX it finds the size of the rendered text.
 */
int log_reader_lines_seek(struct log_reader *r, const char *session, struct log_cursor *cursor,
			  uint64_t offset, uint64_t budget_bytes, struct error *err);

#endif
