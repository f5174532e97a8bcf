/*
 * What becomes of a session's folder that no row is known of: the database went back in time, say, or
 * somebody brought folders along. Pure; doubt counts as alive.
 *
 * Source: the reference's sweep of orphans, with its grace.
 */
#ifndef CLOOP_CORE_ORPHAN_H
#define CLOOP_CORE_ORPHAN_H

#include <stdbool.h>
#include <stdint.h>

/* How long something may be there that no row is known of. */
#define ORPHAN_GRACE_NS (INT64_C(600) * 1000000000)

struct orphan {
	bool held;        /* a supervisor has it: it runs, starts or ends */
	bool dated;       /* since_ns is known for certain */
	int64_t since_ns; /* when it was started */
};

enum orphan_verdict {
	ORPHAN_LEAVE,  /* young, or in doubt */
	ORPHAN_KILL,   /* what runs is ended; the folder goes a later time */
	ORPHAN_REMOVE, /* nothing of it runs */
};

/* A grace of 0 leaves everything. */
enum orphan_verdict orphan_judge(const struct orphan *orphan, int64_t now_ns, int64_t grace_ns);

#endif
