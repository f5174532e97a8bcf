/* Shared by dispatch.c (asking and answering) and dispatch_live.c (what happens to a session). */
#ifndef CLOOP_CORE_DISPATCH_INTERNAL_H
#define CLOOP_CORE_DISPATCH_INTERNAL_H

#include "core/buf.h"
#include "core/dispatch.h"
#include "core/store/store.h"

enum phase {
	PHASE_COMMITTING = 1, /* its row is being written; nobody sees it yet */
	PHASE_LAUNCHING,      /* the driver was asked, or is not ready to be */
	PHASE_RUNNING,
	PHASE_MENDING,        /* lost; its log is being made whole */
	PHASE_FINISHED,       /* its end is being written */
	PHASE_TAKING_BACK,    /* could not be started: its row is being removed */
};

struct start_waiter {
	struct start_waiter *next;
	dispatch_started_fn *done;
	void *user;
};

struct queued_signal {
	struct queued_signal *next;
	struct signal_key key;
	enum signal_kind signal;
	executor_signal_fn *done;
	void *user;
};

/* A session that is not yet finished on the disk. */
struct live {
	struct session row;
	struct spec *spec; /* until it is launched */
	enum phase phase;
	bool visible;  /* committed: the tree shows it */
	bool finished; /* not in flight any more */
	bool answered; /* whoever asked for it was answered */
	bool adopted;  /* of an earlier hub */
	bool started_told; /* its start is on its way to the events, or there */
	bool unwritten;  /* its end could not be committed yet: tried again */
	bool unresolved; /* its driver could not tell yet: asked again */
	struct start_waiter *waiters; /* the one who asked first comes first */
	struct queued_signal *signals; /* came before it ran, or while it is mended */
	char *lost_reason;             /* PHASE_MENDING */
	struct error start_error;      /* PHASE_TAKING_BACK */
	struct live *prev, *next;
};

/* A finished session that somebody looked at. */
#define SESSION_CACHE 256

struct dispatch {
	struct store *store;
	struct fleet *fleet;
	const struct dispatch_hooks *hooks;
	void *user;
	char *boot_id;

	void *by_serial, *by_name; /* tsearch trees of struct live */
	struct live *first, *last; /* in order of serial */
	size_t n_live;
	int64_t last_serial;
	int64_t changed_ns;
	struct dispatch_limits limits;

	struct session cache[SESSION_CACHE]; /* by serial; serial 0: empty */
	/* By hash of the name: the serial of one that was put there. */
	int64_t cache_names[SESSION_CACHE];
};

struct row_op {
	struct store_op op; /* first */
	struct dispatch *dispatch;
	struct live *live;
};

struct live *live_get(struct dispatch *d, int64_t serial);

/* Takes a session out of memory; from now on the store tells of it. */
void live_drop(struct dispatch *d, struct live *l);

/* Asks the driver to launch it, when the driver is ready. */
void live_launch(struct dispatch *d, struct live *l);

/* It runs: in memory now, on the disk soon. */
void live_running(struct dispatch *d, struct live *l, const struct executor_started *started);

/* It ended: in memory now, on the disk soon, and again until that works. */
void live_finish(struct dispatch *d, struct live *l, const struct executor_exit *ended);

/* Finds out from the driver what became of it. */
void live_resolve(struct dispatch *d, struct live *l);

/* Its executor is gone: it cannot be found. */
void live_orphaned(struct dispatch *d, struct live *l);

/* Sends the signals that came before it ran. */
void live_send_signals(struct dispatch *d, struct live *l);

/* Tells those who wait to signal it that it has ended (err NULL), or never ran. */
void live_answer_signals(struct live *l, const struct error *err);

/* Tells those who wait for a start that it has happened. */
void dispatch_answer_resolved(struct live *l);

void dispatch_say(struct dispatch *d, const struct live *l, const char *what, const char *detail);

const struct session *session_cache_get(struct dispatch *d, uint32_t serial);
int session_cache_find(struct dispatch *d, const char *name, uint32_t *ret);
void session_cache_clear(struct dispatch *d);

#endif
