/*
 * What the tree shows of a session: pure renderings of its row.
 */
#ifndef CLOOP_CORE_SESSION_VIEW_H
#define CLOOP_CORE_SESSION_VIEW_H

#include <jansson.h>

#include "core/session.h"

/* "<session>.<attempt>": a session's name has at most 64 bytes, an attempt ten digits. */
#define SESSION_HANDLE_ID_MAX 80

/* The reference's Handle.ID. */
void session_handle_id(const struct session *s, char buf[static SESSION_HANDLE_ID_MAX]);

/* The reference's Handle; the caller owns it. NULL when out of memory. */
json_t *session_handle_json(const struct session *s);

/*
 * The reference's Status, and after it cause, signal, log_bytes and log_dropped_bytes. The caller
 * owns it. NULL when out of memory.
 */
json_t *session_status_json(const struct session *s);

/*
 * What `wait` prints for a finished session: the exit code; 128+n by signal; 137 after a timeout or
 * out of memory; 255 when it failed.
 */
int session_wait_code(const struct session *s);

#endif
