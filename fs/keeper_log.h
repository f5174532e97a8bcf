/*
 * Where the keeper and its children log to: stderr, one line an event.
 *
 * In the foreground, and where stderr is the journal's, that is all. A daemon that was started
 * without either has <state-dir>/cloopd.log as its stderr, and its children too. They write to it
 * themselves (O_APPEND), so that nobody waits for the keeper; a file that grew too large is copied
 * to cloopd.log.1 and emptied in place, which keeps everybody's descriptor right.
 */
#ifndef CLOOP_FS_KEEPER_LOG_H
#define CLOOP_FS_KEEPER_LOG_H

#include <stdbool.h>

#include "core/error.h"

#define KEEPER_LOG_NAME "cloopd.log"

/* A size that an editor still opens; with cloopd.log.1 twice that is kept. */
#define KEEPER_LOG_MAX_BYTES (8 * 1024 * 1024)

/* One line, longer ones are cut: "cloopd: …", with the time in front when `stamped`. */
void keeper_log_line(int fd, bool stamped, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* "cloopd: <sentence>" on stderr: how a process ends that could not do what it was called for. */
void keeper_log_error(const struct error *err);

/* Opens (and makes) the log file. */
int keeper_log_open(int state_fd, int *ret_fd, struct error *err);

/* Copies and empties a file above the maximum. */
void keeper_log_rotate(int state_fd, int log_fd);

/* Whether stderr is what JOURNAL_STREAM (its value, or NULL) says: a journal connection. */
bool keeper_log_is_journal(const char *journal_stream);

#endif
