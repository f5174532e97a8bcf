/*
 * Termination requests in terms of intent (the reference's Signal): what an OS signal would be on
 * this host, a container or a remote device may express in another way.
 */
#ifndef CLOOP_CORE_WORKLOAD_SIGNAL_H
#define CLOOP_CORE_WORKLOAD_SIGNAL_H

#include <stdint.h>

#include "core/error.h"

enum signal_kind {
	SIGNAL_INTERRUPT = 1, /* stop gracefully (SIGINT) */
	SIGNAL_TERMINATE,     /* stop (SIGTERM) */
	SIGNAL_KILL,          /* stop now, unconditionally */
};

/* Identifies one request to signal: the mount, and the request's number in it. */
struct signal_key {
	uint64_t mount_id;
	uint64_t unique;
};

/* "interrupt", "terminate" or "kill". */
const char *signal_name(enum signal_kind signal);

/* EINVAL with ERROR_INVALID_SIGNAL for any other word. */
int signal_parse(const char *word, enum signal_kind *ret, struct error *err);

#endif
