/* What the files of the client share. */
#ifndef CLOOP_DRIVERS_SHIM_CLIENT_INTERNAL_H
#define CLOOP_DRIVERS_SHIM_CLIENT_INTERNAL_H

#include <sys/queue.h>

#include "drivers/shim/client.h"

/* A session's place is its serial modulo this; a hub runs some thousands at most. */
#define CLIENT_BUCKETS 4096U
/* Messages taken in one turn of the loop from one socket, so that others get theirs. */
#define CLIENT_MESSAGES_A_TURN 64
/* A shim that is about to answer, a socket that is about to go, a peer without room. */
#define CLIENT_RETRY_MS 20
/* A shim that cannot be understood. */
#define CLIENT_FOREIGN_MS 1000

/* A descriptor that the loop watches; freed by the loop after client_watch_free(). */
struct client_watch {
	uv_poll_t poll;
	int fd;
	void (*on_event)(void *owner, int events);
	void *owner; /* NULL: being closed */
};

int client_watch_new(uv_loop_t *loop, int fd, void (*on_event)(void *, int), void *owner,
		     struct client_watch **ret);
int client_watch_events(struct client_watch *w, int events);
struct client_watch *client_watch_free(struct client_watch *w);

enum client_phase {
	CLIENT_LAUNCHING,  /* LAUNCH sent, or waiting to be */
	CLIENT_UNRESOLVED, /* its files have to be looked at */
	CLIENT_CONNECTED,  /* to its shim */
	CLIENT_REAPING,    /* lost: the launcher ends what is left */
};

struct client_signal {
	TAILQ_ENTRY(client_signal) entry;
	struct shim_signal_request request;
	void (*done)(void *arg, int error);
	void *arg;
};

struct client_session {
	LIST_ENTRY(client_session) bucket;
	/* In c->waiting while LAUNCHING and record_fd is open, in c->unresolved while
	 * UNRESOLVED. */
	TAILQ_ENTRY(client_session) entry;
	struct shim_client *client;
	uint64_t serial;
	uint32_t attempt;
	enum client_phase phase;
	bool started; /* was said */
	int record_fd;
	struct client_watch *watch;
	size_t n_signals;
	TAILQ_HEAD(client_signals, client_signal) signals;
};

LIST_HEAD(client_bucket, client_session);
TAILQ_HEAD(client_queue, client_session);

struct client_ping {
	TAILQ_ENTRY(client_ping) entry;
	uint64_t id;
	bool sent;
	shim_ping_fn *done;
	void *user;
};
TAILQ_HEAD(client_pings, client_ping);

struct client_run; /* run.c */
TAILQ_HEAD(client_runs, client_run);

struct shim_client {
	uv_loop_t *loop;
	struct shim_client_config config;
	struct shim_client_ops ops;
	void *user;
	struct client_watch *launcher; /* NULL: not connected */
	bool ready;
	size_t n_launching;
	unsigned connect_tries;
	unsigned hangups; /* connections in a row that were not answered */
	uv_timer_t connect_timer;
	uv_timer_t resolve_timer;
	int n_open; /* timers that are not closed yet */
	struct client_queue waiting;
	struct client_queue unresolved;
	struct client_bucket buckets[CLIENT_BUCKETS];
	struct client_runs runs;
	size_t n_runs;
	size_t n_runs_ending; /* of these, whose end is being told */
	uint64_t last_run;
	struct client_pings pings;
	size_t n_pings;
	uint64_t last_ping;
};

/* client_session.c */
struct client_session *client_session_find(struct shim_client *c, uint64_t serial,
					   uint32_t attempt);
/* NULL when out of memory. In phase LAUNCHING, in no list. */
struct client_session *client_session_new(struct shim_client *c, uint64_t serial, uint32_t attempt);
/* Out of all lists; signals that wait are answered with 0 when tell. */
void client_session_free(struct client_session *s, bool tell);
/* Its files will be looked at after delay_ms. */
void client_session_resolve(struct client_session *s, uint64_t delay_ms);
void client_session_connect(struct client_session *s);
/* It is lost: asks the launcher to end what is left; now, or when it is ready. */
void client_session_reap(struct client_session *s);
void client_session_say_started(struct client_session *s, const struct shim_started *started);
void client_session_say_failed(struct client_session *s, const struct error *err);
void client_session_say_lost(struct client_session *s);
/* What the files say. ret_started and ret_exit are filled as far as there is something. */
int client_session_look(int sessions_fd, uint64_t serial, uint32_t attempt, enum shim_adoption *ret,
			struct session_started *ret_started, struct shim_exit *ret_exit);
void client_resolve_timer(uv_timer_t *timer);

/* run.c */
/* Sends those that wait to the launcher. True when it has no room, or is gone: *ret_error. */
bool client_run_send(struct shim_client *c, int *ret_error);
/* The launcher is gone: those that were not sent are told so from the loop. */
void client_run_drop_unsent(struct shim_client *c);
/* Ends all; nothing is said. */
void client_run_free_all(struct shim_client *c);

/* ping.c */
/* As client_run_send(). */
bool client_ping_send(struct shim_client *c, int *ret_error);
void client_ping_answered(struct shim_client *c, uint64_t id);
/* The launcher is gone: all are told so when tell, and forgotten. */
void client_ping_end_all(struct shim_client *c, bool tell);

/* client.c: connects to a name in a directory: a descriptor or a negative errno. */
int client_connect(int dir_fd, const char *dir_name, const char *name);

#endif
