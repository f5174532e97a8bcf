#include "drivers/shim/client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/owner.h"

/* The keeper starts a dead launcher again at once; later tries are for when it cannot. */
#define CONNECT_FIRST_MS 20U
#define CONNECT_LAST_MS 1000U
/* Records wait when the kernel holds too many descriptors of ours in flight. */
#define SEND_RETRY_MS 10

/* --- descriptors that the loop watches --- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct client_watch *w = poll->data;

	/* An error shows when the socket is read. */
	if (w->owner)
		w->on_event(w->owner, status < 0 ? UV_READABLE : events);
}

static void on_watch_closed(uv_handle_t *handle)
{
	struct client_watch *w = handle->data;

	(void)close_fd(w->fd);
	free(w);
}

int client_watch_new(uv_loop_t *loop, int fd, void (*on_event)(void *, int), void *owner,
		     struct client_watch **ret)
{
	struct client_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	int r = uv_poll_init(loop, &w->poll, fd);
	if (r < 0) {
		free(w);
		return r;
	}
	w->poll.data = w;
	w->fd = fd;
	w->on_event = on_event;
	w->owner = owner;
	r = uv_poll_start(&w->poll, UV_READABLE, on_poll);
	if (r < 0) {
		w->fd = -1;
		(void)client_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

int client_watch_events(struct client_watch *w, int events)
{
	return uv_poll_start(&w->poll, events, on_poll);
}

struct client_watch *client_watch_free(struct client_watch *w)
{
	if (w) {
		w->owner = NULL;
		uv_close((uv_handle_t *)&w->poll, on_watch_closed);
	}
	return NULL;
}

int client_connect(int dir_fd, const char *dir_name, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s%s%s",
		       dir_fd, dir_name, dir_name[0] ? "/" : "", name);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	int r = shim_peer_check(fd);
	return r < 0 ? r : take_fd(&fd);
}

/* --- the launcher --- */

static void on_connect_timer(uv_timer_t *timer);
static void connect_later(struct shim_client *c);

/* Launches that had no answer are the caller's to find out about. */
static void on_launcher_gone(struct shim_client *c)
{
	bool was_ready = c->ready;

	c->launcher = client_watch_free(c->launcher);
	c->ready = false;
	client_run_drop_unsent(c);
	client_ping_end_all(c, true);
	for (size_t i = 0; i < CLIENT_BUCKETS; i++) {
		struct client_session *s = LIST_FIRST(&c->buckets[i]);

		while (s) {
			struct client_session *next = LIST_NEXT(s, bucket);

			if (s->phase == CLIENT_LAUNCHING)
				client_session_free(s, false);
			s = next;
		}
	}
	connect_later(c);
	if (was_ready)
		c->ops.disconnected(c->user);
	else if (c->hangups < SHIM_CLIENT_HANGUPS_MAX && ++c->hangups == SHIM_CLIENT_HANGUPS_MAX)
		c->ops.refused(c->user);
}

/* Sends waiting launches until one does not go: *ret_error says why, 0 when all went. */
static bool send_launches(struct shim_client *c, int *ret_error)
{
	struct client_session *s;

	*ret_error = 0;
	while ((s = TAILQ_FIRST(&c->waiting))) {
		struct shim_message m;

		shim_message_init(&m, SHIM_LAUNCH, s->serial, s->attempt);
		*ret_error = shim_message_send(c->launcher->fd, &m, s->record_fd);
		if (*ret_error < 0)
			return true;
		TAILQ_REMOVE(&c->waiting, s, entry);
		s->record_fd = close_fd(s->record_fd);
	}
	return false;
}

/* Sends as much of what waits as goes. False when the launcher is gone. */
static bool send_waiting(struct shim_client *c)
{
	int r;
	bool waits = send_launches(c, &r) || client_run_send(c, &r) || client_ping_send(c, &r);

	if (r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM) {
		(void)uv_timer_start(&c->connect_timer, on_connect_timer, SEND_RETRY_MS, 0);
		waits = false;
	} else if (r < 0 && r != -EAGAIN) {
		on_launcher_gone(c);
		return false;
	}
	(void)client_watch_events(c->launcher, UV_READABLE | (waits ? UV_WRITABLE : 0));
	return true;
}

static void on_ready(struct shim_client *c, unsigned abilities)
{
	c->ready = true;
	c->connect_tries = c->hangups = 0;
	for (size_t i = 0; i < CLIENT_BUCKETS; i++) {
		struct client_session *s = LIST_FIRST(&c->buckets[i]);

		while (s) {
			struct client_session *next = LIST_NEXT(s, bucket);

			if (s->phase == CLIENT_REAPING)
				client_session_reap(s);
			s = next;
		}
	}
	c->ops.ready(c->user, abilities);
}

static void on_launch_failed(struct client_session *s, const struct shim_failure *failure)
{
	struct error err;

	/* Started before, by whomever; or the shim died and may have started it. The files know. */
	if (failure->step == SHIM_STEP_ALREADY ||
	    (failure->step == SHIM_STEP_SHIM && failure->error == ECHILD)) {
		client_session_resolve(s, 0);
		return;
	}
	(void)shim_failure_error(failure, &err);
	client_session_say_failed(s, &err);
}

static void on_launcher_message(struct shim_client *c, const struct shim_message *m)
{
	struct client_session *s = client_session_find(c, m->header.serial, m->header.attempt);

	switch ((enum shim_message_type)m->header.type) {
	case SHIM_HELLO:
		if (!c->ready && m->body.hello.epoch == c->config.epoch)
			on_ready(c, m->body.hello.abilities);
		break;
	case SHIM_STARTED:
		if (s && s->phase == CLIENT_LAUNCHING) {
			/* First, so that the callback may signal it. */
			client_session_connect(s);
			client_session_say_started(s, &m->body.started);
		}
		break;
	case SHIM_FAILED:
		if (s && s->phase == CLIENT_LAUNCHING)
			on_launch_failed(s, &m->body.failure);
		break;
	case SHIM_REAPED:
		if (!s || s->phase != CLIENT_REAPING)
			break;
		if (m->body.reply.error == 0)
			client_session_say_lost(s);
		else
			client_session_resolve(s, CLIENT_RETRY_MS);
		break;
	case SHIM_PONG:
		client_ping_answered(c, m->header.serial);
		break;
	default:
		break;
	}
}

static void on_launcher(void *owner, int events)
{
	struct shim_client *c = owner;
	struct client_watch *launcher = c->launcher;

	if ((events & UV_WRITABLE) != 0 && !send_waiting(c))
		return;
	for (int i = 0; i < CLIENT_MESSAGES_A_TURN; i++) {
		struct shim_message m;
		int r = shim_message_recv(c->launcher->fd, &m, NULL);

		if (r == -EAGAIN)
			return;
		if (r <= 0) {
			on_launcher_gone(c);
			return;
		}
		on_launcher_message(c, &m);
		if (c->launcher != launcher)
			return;
	}
}

static void connect_launcher(struct shim_client *c)
{
	AUTO_CLOSE int fd = client_connect(c->config.runtime_fd, "", SHIM_LAUNCHER_SOCKET);
	struct shim_message m;

	shim_message_init(&m, SHIM_HELLO, 0, 0);
	m.body.hello.epoch = c->config.epoch;
	if (fd < 0 || shim_message_send(fd, &m, -1) < 0 ||
	    client_watch_new(c->loop, fd, on_launcher, c, &c->launcher) < 0) {
		connect_later(c);
		return;
	}
	(void)take_fd(&fd);
}

static void on_connect_timer(uv_timer_t *timer)
{
	struct shim_client *c = timer->data;

	if (!c->launcher)
		connect_launcher(c);
	else
		(void)send_waiting(c);
}

static void connect_later(struct shim_client *c)
{
	uint64_t delay = CONNECT_FIRST_MS << (c->connect_tries < 6 ? c->connect_tries : 6);

	c->connect_tries++;
	(void)uv_timer_start(&c->connect_timer, on_connect_timer,
			     delay < CONNECT_LAST_MS ? delay : CONNECT_LAST_MS, 0);
}

/* --- the public calls --- */

int shim_client_new(uv_loop_t *loop, const struct shim_client_config *config,
		    const struct shim_client_ops *ops, void *user, struct shim_client **ret,
		    struct error *err)
{
	struct shim_client *c = calloc(1, sizeof(*c));

	if (!c)
		return error_oom(err);
	c->loop = loop;
	c->config = *config;
	c->ops = *ops;
	c->user = user;
	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->unresolved);
	TAILQ_INIT(&c->runs);
	TAILQ_INIT(&c->pings);
	/* These cannot fail. */
	(void)uv_timer_init(loop, &c->connect_timer);
	(void)uv_timer_init(loop, &c->resolve_timer);
	c->connect_timer.data = c->resolve_timer.data = c;
	c->n_open = 2;
	(void)uv_timer_start(&c->connect_timer, on_connect_timer, 0, 0);
	*ret = c;
	return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct shim_client *c = handle->data;

	if (--c->n_open == 0)
		free(c);
}

struct shim_client *shim_client_free(struct shim_client *c)
{
	if (!c)
		return NULL;
	c->launcher = client_watch_free(c->launcher);
	for (size_t i = 0; i < CLIENT_BUCKETS; i++)
		while (!LIST_EMPTY(&c->buckets[i]))
			client_session_free(LIST_FIRST(&c->buckets[i]), false);
	client_run_free_all(c);
	client_ping_end_all(c, false);
	uv_close((uv_handle_t *)&c->connect_timer, on_timer_closed);
	uv_close((uv_handle_t *)&c->resolve_timer, on_timer_closed);
	return NULL;
}

int shim_client_launch(struct shim_client *c, const struct launch_request *request,
		       struct error *err)
{
	AUTO_CLOSE int record = -1;

	if (!c->ready) {
		int r = error_set(err, EAGAIN, "the launcher is not there at the moment");
		error_remedy(err, "try again; the service starts it anew");
		return r;
	}
	if (c->n_launching >= SHIM_CLIENT_LAUNCHES_MAX)
		return error_set(err, EAGAIN, "%d launches are waiting already",
				 SHIM_CLIENT_LAUNCHES_MAX);
	if (client_session_find(c, request->serial, request->attempt))
		return error_set(err, EEXIST, "the session is launched already");
	int r = launch_record_encode(request, &record, err);
	if (r < 0)
		return r;
	struct client_session *s = client_session_new(c, request->serial, request->attempt);
	if (!s)
		return error_oom(err);
	s->record_fd = take_fd(&record);
	TAILQ_INSERT_TAIL(&c->waiting, s, entry);
	/* Sent from the loop, so that nothing is said from within this call; all of a turn at
	 * once. */
	r = client_watch_events(c->launcher, UV_READABLE | UV_WRITABLE);
	if (r < 0) {
		client_session_free(s, false);
		return error_set(err, -r, "cannot reach the launcher: %s", uv_strerror(r));
	}
	return 0;
}

int shim_client_adopt(struct shim_client *c, uint64_t serial, uint32_t attempt,
		      enum shim_adoption *ret, struct session_started *ret_started,
		      struct error *err)
{
	struct session_started started = {0};
	enum shim_adoption adoption;
	struct shim_exit exit;

	if (client_session_find(c, serial, attempt))
		return error_set(err, EEXIST, "the session is adopted already");
	int r = client_session_look(c->config.sessions_fd, serial, attempt, &adoption, &started,
				    &exit);
	if (r < 0)
		return error_set(err, -r, "the session's folder cannot be read: %s",
				 strerrordesc_np(-r));
	if (adoption != SHIM_ADOPT_NEVER) {
		struct client_session *s = client_session_new(c, serial, attempt);

		if (!s)
			return error_oom(err);
		client_session_resolve(s, 0);
	}
	*ret = adoption;
	if (ret_started)
		*ret_started = started;
	return 0;
}

static void send_signal(struct client_session *s, const struct client_signal *signal)
{
	struct shim_message m;

	shim_message_init(&m, SHIM_SIGNAL, s->serial, s->attempt);
	m.body.signal = signal->request;
	/* A shim that is gone or does not read: connect again, and send all again; keys make that
	 * harmless. */
	if (shim_message_send(s->watch->fd, &m, -1) < 0)
		client_session_resolve(s, CLIENT_RETRY_MS);
}

/*
 * Whether a shim has the session that is being launched. Then its socket takes signals, however long the
 * workload needs to come up.
 */
static bool is_claimed(const struct client_session *s)
{
	struct session_started started;
	enum shim_adoption adoption;
	struct shim_exit exit;

	return s->record_fd < 0 &&
	       client_session_look(s->client->config.sessions_fd, s->serial, s->attempt, &adoption,
				   &started, &exit) == 0 &&
	       adoption == SHIM_ADOPT_RUNNING;
}

int shim_client_signal(struct shim_client *c, uint64_t serial, uint32_t attempt,
		       const uint8_t key[static SHIM_KEY_BYTES], enum shim_signal signal,
		       void (*done)(void *arg, int error), void *arg, struct error *err)
{
	struct client_session *s = client_session_find(c, serial, attempt);

	if (!s)
		return error_set(err, ENOENT, "the session does not run");
	if (s->phase == CLIENT_LAUNCHING && !is_claimed(s))
		return error_set(err, EAGAIN, "the session is being started");
	if (s->n_signals >= SHIM_CLIENT_SIGNALS_MAX)
		return error_set(err, EAGAIN, "%d signals wait already", SHIM_CLIENT_SIGNALS_MAX);
	struct client_signal *w = calloc(1, sizeof(*w));
	if (!w)
		return error_oom(err);
	memcpy(w->request.key, key, SHIM_KEY_BYTES);
	w->request.signal = signal;
	w->done = done;
	w->arg = arg;
	TAILQ_INSERT_TAIL(&s->signals, w, entry);
	s->n_signals++;
	if (s->phase == CLIENT_LAUNCHING)
		client_session_resolve(s, 0); /* connects, and sends them */
	else if (s->phase == CLIENT_CONNECTED)
		send_signal(s, w);
	return 0;
}
