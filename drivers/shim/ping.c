/* Whether the launcher is at work. */
#include "drivers/shim/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"

int shim_client_ping(struct shim_client *c, shim_ping_fn *done, void *user, struct error *err)
{
	struct shim_message m;

	if (!c->ready)
		return error_set(err, EAGAIN, "the launcher is not there");
	if (c->n_pings >= SHIM_CLIENT_PINGS_MAX)
		return error_set(err, EAGAIN, "the launcher does not answer: %d questions wait already",
				 SHIM_CLIENT_PINGS_MAX);
	struct client_ping *p = calloc(1, sizeof(*p));
	if (!p)
		return error_oom(err);
	*p = (struct client_ping){.id = ++c->last_ping, .done = done, .user = user};
	shim_message_init(&m, SHIM_PING, p->id, 0);
	int r = shim_message_send(c->launcher->fd, &m, -1);
	if (r < 0) {
		free(p);
		return error_set(err, EAGAIN, "the launcher does not take questions: %s",
				 strerrordesc_np(-r));
	}
	TAILQ_INSERT_TAIL(&c->pings, p, entry);
	c->n_pings++;
	return 0;
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
	/* Answers come in the order of the questions. */
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
