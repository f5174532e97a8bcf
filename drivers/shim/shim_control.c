/*
 * A session's control socket. Signals are applied once: the key of a signal is put into the
 * session's `signals` file (a ring of SHIM_KEYS_MAX entries) before the signal is applied, and a
 * key that is there is acknowledged and not applied. The file is for the shim that wrote it and for
 * people; it needs no sync, since the session does not outlive the page cache.
 */
#include "drivers/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/session_dir.h"

#define BACKLOG 8

struct key_entry {
	uint8_t key[SHIM_KEY_BYTES];
	int64_t applied_at_ns;
	uint32_t signal;
	uint32_t attempt;
};

void shim_control_unlink(const struct shim_host *host, uint64_t serial)
{
	char name[SESSION_NAME_MAX];

	session_dir_name(serial, name);
	(void)unlinkat(host->sockets_fd, name, 0);
}

int shim_control_listen(struct shim *shim)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[SESSION_NAME_MAX];
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* We hold the session's lock, so a name that is there is of a dead shim. */
	shim_control_unlink(shim->host, shim->s.serial);
	session_dir_name(shim->s.serial, name);
	/* The runtime directory's own path may be longer than an address can be. */
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
		       shim->host->sockets_fd, name);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	shim->s.listen_fd = take_fd(&fd);
	return 0;
}

void shim_message_started(const struct shim_session *s, struct shim_message *ret)
{
	shim_message_init(ret, SHIM_STARTED, s->serial, s->attempt);
	ret->body.started = s->started;
}

/* A hub that does not keep up is cut off; it finds out the rest from the files. */
static void tell_hub(struct shim_session *s, size_t hub, const struct shim_message *m)
{
	if (s->hub_fd[hub] >= 0 && shim_message_send(s->hub_fd[hub], m, -1) < 0)
		s->hub_fd[hub] = close_fd(s->hub_fd[hub]);
}

void shim_control_tell(struct shim *shim, const struct shim_message *m)
{
	for (size_t i = 0; i < SHIM_HUBS_MAX; i++)
		tell_hub(&shim->s, i, m);
}

void shim_control_accept(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	AUTO_CLOSE int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct shim_message m;

	if (fd < 0 || shim_peer_check(fd) < 0)
		return;
	/* The newest is first; the oldest falls off. */
	(void)close_fd(s->hub_fd[SHIM_HUBS_MAX - 1]);
	memmove(&s->hub_fd[1], &s->hub_fd[0], (SHIM_HUBS_MAX - 1) * sizeof(s->hub_fd[0]));
	s->hub_fd[0] = take_fd(&fd);

	if (s->phase == SHIM_PHASE_RECORDING) {
		shim_message_init(&m, SHIM_EXITED, s->serial, s->attempt);
		m.body.exit = s->exit;
		tell_hub(s, 0, &m);
	} else if (s->phase == SHIM_PHASE_RUNNING ||
		   (s->phase == SHIM_PHASE_ENDING && !s->failed)) {
		shim_message_started(s, &m);
		tell_hub(s, 0, &m);
	}
}

static bool key_known(const struct shim *shim, const uint8_t *key)
{
	uint32_t n = shim->s.n_keys < SHIM_KEYS_MAX ? shim->s.n_keys : SHIM_KEYS_MAX;

	for (uint32_t i = 0; i < n; i++)
		if (memcmp(shim->keys[i], key, SHIM_KEY_BYTES) == 0)
			return true;
	return false;
}

/* Puts the key into memory, which is what counts, and into the file, as far as the disk lets us. */
static void record_key(struct shim *shim, const struct shim_signal_request *q)
{
	struct shim_session *s = &shim->s;
	uint32_t slot = s->n_keys++ % SHIM_KEYS_MAX;
	struct key_entry entry = {
		.applied_at_ns = clock_now_ns(),
		.signal = q->signal,
		.attempt = s->attempt,
	};

	memcpy(shim->keys[slot], q->key, SHIM_KEY_BYTES);
	memcpy(entry.key, q->key, SHIM_KEY_BYTES);
	if (s->signals_fd < 0)
		s->signals_fd = openat(s->dir_fd, "signals",
				       O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->signals_fd >= 0)
		(void)!pwrite(s->signals_fd, &entry, sizeof(entry), (off_t)(slot * sizeof(entry)));
}

static int apply(struct shim *shim, const struct shim_signal_request *q)
{
	struct shim_session *s = &shim->s;

	if (q->signal < SHIM_SIGNAL_INTERRUPT || q->signal > SHIM_SIGNAL_KILL)
		return EINVAL;
	if (key_known(shim, q->key))
		return 0;
	record_key(shim, q);
	(void)fault_point("shim.signal_recorded");
	/* One that is ending already is where the signal wants it. */
	if (s->phase != SHIM_PHASE_LAUNCHING && s->phase != SHIM_PHASE_RUNNING)
		return 0;
	if (s->container.on) {
		static const int signals[] = {[SHIM_SIGNAL_INTERRUPT] = SIGINT,
					      [SHIM_SIGNAL_TERMINATE] = SIGTERM,
					      [SHIM_SIGNAL_KILL] = SIGKILL};

		shim_container_signal(shim, signals[q->signal]);
		(void)fault_point("shim.signal_applied");
		return 0;
	}
	switch ((enum shim_signal)q->signal) {
	case SHIM_SIGNAL_INTERRUPT:
		shim_signal_all(shim, SIGINT);
		break;
	case SHIM_SIGNAL_TERMINATE:
		shim_signal_all(shim, SIGTERM);
		break;
	case SHIM_SIGNAL_KILL:
		(void)shim_kill_all(shim);
		break;
	}
	(void)fault_point("shim.signal_applied");
	return 0;
}

void shim_control_read(struct shim *shim, size_t hub)
{
	struct shim_session *s = &shim->s;
	struct shim_message m, answer;
	int r = shim_message_recv(s->hub_fd[hub], &m, NULL);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || m.header.type != SHIM_SIGNAL || m.header.serial != s->serial ||
	    m.header.attempt != s->attempt) {
		s->hub_fd[hub] = close_fd(s->hub_fd[hub]);
		return;
	}
	shim_message_init(&answer, SHIM_SIGNALLED, s->serial, s->attempt);
	memcpy(answer.body.signalled.key, m.body.signal.key, SHIM_KEY_BYTES);
	answer.body.signalled.error = apply(shim, &m.body.signal);
	tell_hub(s, hub, &answer);
}
