#include "fs/failover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/failover.h"
#include "core/fleet.h"
#include "core/json.h"
#include "core/placement.h"
#include "fs/attempts.h"
#include "fs/context.h"
#include "fs/watch.h"

/* --- where to ------------------------------------------------------------------------------- */

/* What a stored session needs of a node; the texts of `document` are borrowed by nothing. */
static int requirements_of(const struct dispatch_placing *placing, struct requirements *ret,
			   struct error *err)
{
	const char *text = placing->session->requirements;

	if (!text || !text[0]) {
		spec_sandbox_requirements(placing->spec, ret);
		return 0;
	}
	AUTO_JSON json_t *document = NULL;
	int r = json_parse(text, strlen(text), &document, err);
	return r < 0 ? r : requirements_from_json(document, "", ret, err);
}

static int check(const struct executor *e, const struct dispatch_placing *placing, struct error *err)
{
	const struct executor_launch launch = {
		.spec = placing->spec,
		.uid = placing->session->uid,
		.gid = placing->session->gid,
		.groups = placing->groups,
		.n_groups = placing->n_groups,
	};

	return e->driver->ops->check(e->driver, &launch, err);
}

static size_t gather(struct fleet *fleet, struct candidate *list, struct executor **executors)
{
	struct executor *e;
	size_t n = 0;

	for (size_t i = 0; (e = fleet_at(fleet, i)); i++) {
		if (!e->driver || e->removing)
			continue;
		struct candidate *c = &list[n];

		*c = (struct candidate){
			.executor_id = e->record.name,
			.state = node_state_parse(e->record.health.state),
			.labels = e->config.labels,
			.n_labels = e->config.n_labels,
			.in_flight = (int64_t)e->inflight,
			.in_flight_known = true,
		};
		e->driver->ops->capabilities(e->driver, &c->capabilities);
		c->capabilities.max_concurrent = e->config.max_concurrent;
		executors[n++] = e;
	}
	return n;
}

int failover_place(struct hub *hub, const struct dispatch_placing *placing, struct executor **ret,
		   struct error *err)
{
	AUTO_REQUIREMENTS struct requirements req = {0};
	size_t n = 0, at;

	while (fleet_at(hub->fleet, n))
		n++;
	AUTO_FREE struct candidate *list = calloc(n + 1, sizeof(*list));
	AUTO_FREE struct executor **executors = calloc(n + 1, sizeof(struct executor *));
	if (!list || !executors)
		return error_oom(err);
	int r = requirements_of(placing, &req, err);
	if (r < 0)
		return r;
	n = gather(hub->fleet, list, executors);
	for (;;) {
		struct error refused;

		r = failover_choose(list, n, &req, true, placing->avoid, &at, NULL, err);
		if (r < 0)
			return r;
		if (check(executors[at], placing, &refused) == 0) {
			*ret = executors[at];
			return 0;
		}
		/* The next best; when there is none, why the last of them would not do. */
		list[at] = list[--n];
		executors[at] = executors[n];
		if (n == 0) {
			*err = refused;
			return -err->code;
		}
	}
}

/* --- names ---------------------------------------------------------------------------------- */

static void link_of(const struct session *s, int64_t executor_serial, struct node *ret_dir,
		    struct node *ret_link)
{
	*ret_dir = (struct node){.kind = NODE_EXECUTOR_SESSIONS, .serial = (uint32_t)executor_serial};
	*ret_link = (struct node){
		.kind = NODE_EXECUTOR_SESSION, .serial = (uint32_t)s->serial, .file = 1};
}

void failover_moved(struct hub *hub, const struct session *s, int64_t from, int64_t to)
{
	struct node dir, link;

	if (from) {
		link_of(s, from, &dir, &link);
		watch_deleted(hub, dir, s->name, link);
	}
	if (to) {
		link_of(s, to, &dir, &link);
		watch_created(hub, dir, s->name, link);
	}
}

void failover_attempted(struct hub *hub, const struct session *s)
{
	const struct node dir = {.kind = NODE_ATTEMPTS, .serial = (uint32_t)s->serial};
	struct node attempt;
	char name[24];

	if (attempt_node(hub, (uint32_t)s->serial, s->attempt, &attempt) < 0)
		return;
	(void)snprintf(name, sizeof(name), "%" PRId64, s->attempt);
	watch_created(hub, dir, name, attempt);
}

/*
 * A test says which executors cannot be reached: those that have a file of their name in the
 * directory CLOOP_UNREACHABLE.
 */
void failover_tick(struct hub *hub)
{
#ifdef CLOOP_TEST_HOOKS
	const char *dir = getenv("CLOOP_UNREACHABLE");
	struct executor *e;

	for (size_t i = 0; dir && (e = fleet_at(hub->fleet, i)); i++) {
		enum node_state state = node_state_parse(e->record.health.state), now = state;
		char path[512];

		(void)snprintf(path, sizeof(path), "%s/%s", dir, e->record.name);
		if (access(path, F_OK) == 0 && node_state_schedulable(state))
			now = NODE_UNREACHABLE;
		else if (access(path, F_OK) < 0 && state == NODE_UNREACHABLE)
			now = NODE_READY;
		if (now != state) {
			free(e->record.health.state);
			e->record.health.state = strdup(node_state_name(now));
		}
	}
#else
	(void)hub;
#endif
}
