/*
 * Session logs as the tree needs them: readers that are kept open for a while, and the growth of
 * the logs that somebody waits for.
 */
#ifndef CLOOP_FS_LOGS_H
#define CLOOP_FS_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct hub;
struct log_reader;
struct logs;

/* Readers kept open (four descriptors each at most). */
#define LOGS_OPEN_MAX 128

int logs_new(struct hub *hub, int sessions_fd, struct logs **ret, struct error *err);
struct logs *logs_free(struct logs *l);

/* The reader of a session's log; valid until the loop runs on. NULL: -errno in *ret_error. */
struct log_reader *logs_get(struct hub *hub, uint32_t serial, int *ret_error);

/* Forgets the reader of a session that was removed. */
void logs_forget(struct hub *hub, uint32_t serial);

/*
 * Counts one more, or one less, that waits for a session's output. While there are any, every growth
 * wakes the session's followers. Returns false when the log cannot be watched (it does not exist
 * any more).
 */
bool logs_watch(struct hub *hub, uint32_t serial);
void logs_unwatch(struct hub *hub, uint32_t serial);

/*
 * Whether each growth of a session's output is to be reported to watch_grown(); saying the same again
 * changes nothing. A log that is not there yet is not watched: to be said again when the session
 * changed.
 */
void logs_announce(struct hub *hub, uint32_t serial, bool on);

/* When output was written last, in real time; 0: never, or nobody knows. */
int64_t logs_changed_ns(struct hub *hub, uint32_t serial);

#endif
