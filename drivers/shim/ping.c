/* Whether the launcher is at work. */
#include "drivers/shim/client_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "core/owner.h"

int shim_client_ping(struct shim_client *c, shim_ping_fn *done, void *user, struct error *err)
{
	if (!c->ready)
		return error_set(err, EAGAIN, "the launcher is not there");
	if (c->n_pings >= SHIM_CLIENT_PINGS_MAX)
		return error_set(err, EAGAIN, "the launcher does not answer: %d questions wait already",
				 SHIM_CLIENT_PINGS_MAX);
	struct client_ping *p = calloc(1, sizeof(*p));
	if (!p)
		return error_oom(err);
	*p = (struct client_ping){.id = ++c->last_ping, .done = done, .user = user};
	/* Sent from the loop, all of a turn at once. */
	int r = client_watch_events(c->launcher, UV_READABLE | UV_WRITABLE);
	if (r < 0) {
		free(p);
		return error_set(err, -r, "cannot reach the launcher: %s", uv_strerror(r));
	}
	TAILQ_INSERT_TAIL(&c->pings, p, entry);
	c->n_pings++;
	return 0;
}

bool client_ping_send(struct shim_client *c, int *ret_error)
{
	struct shim_message m;

	*ret_error = 0;
	for (struct client_ping *p = TAILQ_FIRST(&c->pings); p; p = TAILQ_NEXT(p, entry)) {
		if (p->sent)
			continue;
		shim_message_init(&m, SHIM_PING, p->id, 0);
		*ret_error = shim_message_send(c->launcher->fd, &m, -1);
		if (*ret_error < 0)
			return true;
		p->sent = true;
	}
	return false;
}

/* Out of the list first: the callback may ask again. */
static void end(struct shim_client *c, struct client_ping *p, bool tell, const struct error *err)
{
	TAILQ_REMOVE(&c->pings, p, entry);
	c->n_pings--;
	if (tell)
		p->done(p->user, err);
	free(p);
}

void client_ping_answered(struct shim_client *c, uint64_t id)
{
	for (struct client_ping *p = TAILQ_FIRST(&c->pings); p; p = TAILQ_NEXT(p, entry)) {
		if (p->id != id)
			continue;
		end(c, p, true, NULL);
		return;
	}
}

void client_ping_end_all(struct shim_client *c, bool tell)
{
	struct client_ping *p;
	struct error err;

	(void)error_set(&err, EIO, "the launcher went away instead of an answer");
	while ((p = TAILQ_FIRST(&c->pings)))
		end(c, p, tell, &err);
}
