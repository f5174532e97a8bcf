/* One session as the client sees it: its files, its shim's socket, its end. */
#include "drivers/shim/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"

static struct client_bucket *bucket_of(struct shim_client *c, uint64_t serial)
{
	return &c->buckets[serial % CLIENT_BUCKETS];
}

struct client_session *client_session_find(struct shim_client *c, uint64_t serial,
					   uint32_t attempt)
{
	struct client_session *s;

	LIST_FOREACH(s, bucket_of(c, serial), bucket)
		if (s->serial == serial && s->attempt == attempt)
			return s;
	return NULL;
}

struct client_session *client_session_new(struct shim_client *c, uint64_t serial, uint32_t attempt)
{
	struct client_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->client = c;
	s->serial = serial;
	s->attempt = attempt;
	s->phase = CLIENT_LAUNCHING;
	s->record_fd = -1;
	TAILQ_INIT(&s->signals);
	LIST_INSERT_HEAD(bucket_of(c, serial), s, bucket);
	c->n_launching++;
	return s;
}

/* Leaves whatever list its phase has it in. */
static void leave_phase(struct client_session *s)
{
	struct shim_client *c = s->client;

	if (s->phase == CLIENT_UNRESOLVED)
		TAILQ_REMOVE(&c->unresolved, s, entry);
	if (s->phase == CLIENT_LAUNCHING) {
		c->n_launching--;
		if (s->record_fd >= 0)
			TAILQ_REMOVE(&c->waiting, s, entry);
		s->record_fd = close_fd(s->record_fd);
	}
}

void client_session_free(struct client_session *s, bool tell)
{
	struct client_signals signals = TAILQ_HEAD_INITIALIZER(signals);
	struct client_signal *w;

	leave_phase(s);
	LIST_REMOVE(s, bucket);
	s->watch = client_watch_free(s->watch);
	TAILQ_CONCAT(&signals, &s->signals, entry);
	free(s);
	while ((w = TAILQ_FIRST(&signals))) {
		TAILQ_REMOVE(&signals, w, entry);
		if (tell)
			w->done(w->arg, 0);
		free(w);
	}
}

void client_session_say_started(struct client_session *s, const struct shim_started *started)
{
	struct shim_client *c = s->client;

	if (s->started)
		return;
	s->started = true;
	c->ops.started(c->user, s->serial, s->attempt, started);
}

void client_session_say_failed(struct client_session *s, const struct error *err)
{
	struct shim_client *c = s->client;
	uint64_t serial = s->serial;
	uint32_t attempt = s->attempt;

	client_session_free(s, true);
	c->ops.failed(c->user, serial, attempt, err);
}

void client_session_say_lost(struct client_session *s)
{
	struct shim_client *c = s->client;
	uint64_t serial = s->serial;
	uint32_t attempt = s->attempt;
	struct session_started started;
	uint8_t boot_id[BOOT_ID_BYTES];
	struct error err;
	AUTO_CLOSE int dir = session_dir_open(c->config.sessions_fd, serial);

	(void)error_set(&err, EIO, "its supervisor was killed; what it ran was ended");
	if (dir >= 0 && session_started_read(dir, serial, attempt, &started) == 0 &&
	    boot_id_read(boot_id) == 0 && memcmp(boot_id, started.boot_id, sizeof(boot_id)) != 0)
		(void)error_set(&err, EIO, "the machine was restarted while it ran");
	client_session_free(s, true);
	c->ops.lost(c->user, serial, attempt, &err);
}

static void say_exited(struct client_session *s, const struct shim_exit *exit)
{
	struct shim_client *c = s->client;
	uint64_t serial = s->serial;
	uint32_t attempt = s->attempt;

	client_session_free(s, true);
	c->ops.exited(c->user, serial, attempt, exit);
}

int client_session_look(int sessions_fd, uint64_t serial, uint32_t attempt,
			enum shim_adoption *ret, struct session_started *ret_started,
			struct shim_exit *ret_exit)
{
	AUTO_CLOSE int dir = session_dir_open(sessions_fd, serial);

	if (dir == -ENOENT) {
		*ret = SHIM_ADOPT_NEVER;
		return 0;
	}
	if (dir < 0)
		return dir;
	/* The lock before the records: who holds it may be about to write them. */
	int locked = session_dir_locked(dir);
	if (locked < 0)
		return locked;
	int r = session_started_read(dir, serial, attempt, ret_started);
	if (r == -ENOENT) {
		*ret = SHIM_ADOPT_NEVER;
		return 0;
	}
	/* A record that was being written when the machine went down. */
	if (r < 0 && r != -EBADMSG)
		return r;
	r = session_exit_read(dir, serial, attempt, ret_exit);
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return r;
	if (r == 0)
		*ret = SHIM_ADOPT_FINISHED;
	else
		*ret = locked ? SHIM_ADOPT_RUNNING : SHIM_ADOPT_LOST;
	return 0;
}

static void on_shim_message(struct client_session *s, const struct shim_message *m)
{
	struct client_signal *w;
	struct error err;

	switch ((enum shim_message_type)m->header.type) {
	case SHIM_STARTED:
		client_session_say_started(s, &m->body.started);
		break;
	case SHIM_FAILED:
		(void)shim_failure_error(&m->body.failure, &err);
		client_session_say_failed(s, &err);
		break;
	case SHIM_EXITED:
		say_exited(s, &m->body.exit);
		break;
	case SHIM_SIGNALLED:
		TAILQ_FOREACH(w, &s->signals, entry)
			if (memcmp(w->request.key, m->body.signalled.key, SHIM_KEY_BYTES) == 0)
				break;
		if (!w)
			break;
		TAILQ_REMOVE(&s->signals, w, entry);
		s->n_signals--;
		w->done(w->arg, m->body.signalled.error);
		free(w);
		break;
	default:
		break;
	}
}

static void on_shim(void *owner, int events)
{
	struct client_session *s = owner;
	struct shim_client *c = s->client;
	uint64_t serial = s->serial;
	uint32_t attempt = s->attempt;

	(void)events;
	/* A message may end the session: it is looked up anew each time. */
	for (int i = 0; i < CLIENT_MESSAGES_A_TURN; i++) {
		struct shim_message m;

		s = client_session_find(c, serial, attempt);
		if (!s || s->phase != CLIENT_CONNECTED)
			return;
		int r = shim_message_recv(s->watch->fd, &m, NULL);
		if (r == -EAGAIN)
			return;
		if (r <= 0) {
			/* A shim of another version: its files still say how it ends. */
			client_session_resolve(s, r == -EPROTO ? CLIENT_FOREIGN_MS : 0);
			return;
		}
		/* The shim of a later attempt: ours ended without a record. */
		if (m.header.serial != serial || m.header.attempt != attempt) {
			client_session_reap(s);
			return;
		}
		on_shim_message(s, &m);
	}
}

void client_session_resolve(struct client_session *s, uint64_t delay_ms)
{
	struct shim_client *c = s->client;

	leave_phase(s);
	s->watch = client_watch_free(s->watch);
	s->phase = CLIENT_UNRESOLVED;
	TAILQ_INSERT_TAIL(&c->unresolved, s, entry);
	if (delay_ms == 0 || !uv_is_active((uv_handle_t *)&c->resolve_timer))
		(void)uv_timer_start(&c->resolve_timer, client_resolve_timer, delay_ms, 0);
}

void client_session_reap(struct client_session *s)
{
	struct shim_client *c = s->client;
	struct shim_message m;

	leave_phase(s);
	s->watch = client_watch_free(s->watch);
	s->phase = CLIENT_REAPING;
	if (!c->ready)
		return;
	shim_message_init(&m, SHIM_REAP, s->serial, s->attempt);
	if (shim_message_send(c->launcher->fd, &m, -1) < 0)
		client_session_resolve(s, CLIENT_RETRY_MS);
}

void client_session_connect(struct client_session *s)
{
	struct shim_client *c = s->client;
	char name[SESSION_NAME_MAX];
	struct client_signal *w;

	session_dir_name(s->serial, name);
	AUTO_CLOSE int fd = client_connect(c->config.runtime_fd, SHIM_SOCKETS_DIR, name);
	if (fd < 0 || client_watch_new(c->loop, fd, on_shim, s, &s->watch) < 0) {
		client_session_resolve(s, CLIENT_RETRY_MS);
		return;
	}
	(void)take_fd(&fd);
	leave_phase(s);
	s->phase = CLIENT_CONNECTED;
	TAILQ_FOREACH(w, &s->signals, entry) {
		struct shim_message m;

		shim_message_init(&m, SHIM_SIGNAL, s->serial, s->attempt);
		m.body.signal = w->request;
		if (shim_message_send(s->watch->fd, &m, -1) < 0) {
			client_session_resolve(s, CLIENT_RETRY_MS);
			return;
		}
	}
}

/* A folder that is not as a shim makes it; anything else that reading says may pass. */
static bool is_tampering(int r)
{
	return r == -ELOOP || r == -ENOTDIR || r == -EPERM;
}

static void resolve(struct client_session *s)
{
	struct shim_client *c = s->client;
	struct session_started started;
	enum shim_adoption adoption;
	struct shim_exit exit;
	struct error err;

	int r = client_session_look(c->config.sessions_fd, s->serial, s->attempt, &adoption,
				    &started, &exit);
	if (r < 0 && !is_tampering(r)) {
		client_session_resolve(s, CLIENT_RETRY_MS);
		return;
	}
	if (r < 0)
		adoption = SHIM_ADOPT_LOST;
	switch (adoption) {
	case SHIM_ADOPT_RUNNING:
		client_session_connect(s);
		break;
	case SHIM_ADOPT_FINISHED:
		say_exited(s, &exit);
		break;
	case SHIM_ADOPT_LOST:
		client_session_reap(s);
		break;
	case SHIM_ADOPT_NEVER:
		(void)error_set(&err, ECANCELED, "its start failed, and nothing was executed");
		client_session_say_failed(s, &err);
		break;
	}
}

void client_resolve_timer(uv_timer_t *timer)
{
	struct shim_client *c = timer->data;
	struct client_session *s;

	/* Those that have to be looked at again come behind the last of this round. */
	struct client_session *last = TAILQ_LAST(&c->unresolved, client_queue);
	while ((s = TAILQ_FIRST(&c->unresolved))) {
		bool end = s == last;

		resolve(s);
		if (end)
			break;
	}
}
