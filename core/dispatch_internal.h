/*
 * Shared by dispatch.c (asking and answering), dispatch_live.c (what happens to a session),
 * dispatch_attempt.c (its way away from an executor) and dispatch_place.c (its way to another one).
 */
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
	PHASE_CLAIMING,       /* its executor is being given up */
	PHASE_FENCING,        /* what its earlier attempt left is being ended */
	PHASE_UNPLACED,       /* waits for an executor, or for an operator */
	PHASE_PLACING,        /* an executor was chosen, and is being written down */
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

	int64_t counted; /* the executor that it is in flight on; 0: none */

	/* Its way to another executor (dispatch_attempt.c). */
	enum phase before;    /* PHASE_CLAIMING: what it goes back to when the claim fails */
	char *from;           /* the executor that was given up; NULL: never */
	int64_t from_serial;  /* 0 when it needs no end there any more */
	int64_t from_attempt;
	bool giving_up;       /* ends as failed when it is fenced; row.error says why */
	bool quarantined;     /* waits for an operator */
	bool claim_lost;      /* somebody else moves it */
	bool start_known, end_known; /* reported while it was claimed, or not yet written */
	struct executor_started start;
	struct executor_exit end;
	char *end_reason;     /* what end.reason points to */
	bool end_unwritten;   /* could not be committed yet: tried again */
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
	int64_t max_attempts; /* failover.max_attempts */
	int64_t place_after;  /* the session that a tick placed last; they take turns */
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

/* dispatch_name.c: an automatic name. */
void dispatch_make_name(char buf[static SESSION_ID_MAX + 1]);

struct live *live_get(struct dispatch *d, int64_t serial);

/* Takes a session out of memory; from now on the store tells of it. */
void live_drop(struct dispatch *d, struct live *l);

/* Asks the driver to launch it, when the driver is ready. */
void live_launch(struct dispatch *d, struct live *l);

/* It runs: in memory now, on the disk soon. */
void live_running(struct dispatch *d, struct live *l, const struct executor_started *started);

/* It ended: in memory now, on the disk soon, and again until that works. */
void live_finish(struct dispatch *d, struct live *l, const struct executor_exit *ended);

/* executor_events.stalled: those who wait have their session, and it says what becomes of it. */
void live_stalled(void *user, struct driver *driver);

/* Finds out from the driver what became of it. */
void live_resolve(struct dispatch *d, struct live *l);

/* Its executor is gone: it cannot be found. */
void live_orphaned(struct dispatch *d, struct live *l);

/* Sends the signals that came before it ran. */
void live_send_signals(struct dispatch *d, struct live *l);

/* Tells those who wait to signal it that it has ended (err NULL), or never ran. */
void live_answer_signals(struct live *l, const struct error *err);

/* What a session becomes by that end, and the sentence for it; the caller frees it. */
enum session_state executor_exit_state(const struct executor_exit *ended);
char *executor_exit_text(const struct executor_exit *ended);

/* Makes it in flight on that executor (0: on none) and no other. */
void live_count(struct dispatch *d, struct live *l, int64_t executor_serial);

/* --- dispatch_attempt.c --- */

/* After a start of the hub: where a session that was on its way to another executor goes on. */
int live_recover(struct dispatch *d, struct live *l, struct error *err);

/* What its driver reports of a session in PHASE_CLAIMING or PHASE_FENCING. True: it was for that. */
bool live_moving_started(struct dispatch *d, struct live *l, const struct executor_started *started);
bool live_moving_failed(struct dispatch *d, struct live *l, const struct error *err);
bool live_moving_ended(struct dispatch *d, struct live *l, const struct executor_exit *ended);

/* Goes on with ending what the earlier attempt left. The driver is ready. */
void live_fence(struct dispatch *d, struct live *l);

/* Once a second: what could not be done before. */
void live_moving_tick(struct dispatch *d);

/* --- dispatch_place.c --- */

/* Looks for an executor for a session that has none. */
void live_place(struct dispatch *d, struct live *l);

/* Looks for one for some of those that wait, taking turns. */
void live_place_waiting(struct dispatch *d);

/* It has none for now. */
void live_wait_for_executor(struct dispatch *d, struct live *l);

/* Whether it was signalled on its way: then it has ended, with that. */
bool live_ended_by_signal(struct dispatch *d, struct live *l);

/* A signal to a session that no driver has: its end. */
void live_signal_unplaced(struct dispatch *d, struct live *l, enum signal_kind signal);

/* Makes it in flight elsewhere, and lets the lists know. */
void live_count_as(struct dispatch *d, struct live *l, int64_t executor_serial);

/* Replaces one of its texts by a copy; without memory the old one stays. */
void live_set_text(char **place_of, const char *text);

/* Numbers of supplementary groups out of the row's text; the caller frees them. */
size_t dispatch_parse_groups(const char *text, uint32_t **ret);

/* Tells those who wait for a start that it has happened. */
void dispatch_answer_resolved(struct live *l);

void dispatch_say(struct dispatch *d, const struct live *l, const char *what, const char *detail);

const struct session *session_cache_get(struct dispatch *d, uint32_t serial);
int session_cache_find(struct dispatch *d, const char *name, uint32_t *ret);
void session_cache_clear(struct dispatch *d);

#endif
