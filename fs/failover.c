#include "fs/failover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/candidates.h"
#include "core/failover.h"
#include "core/fleet.h"
#include "core/policy.h"
#include "core/requirements.h"
#include "fs/attempts.h"
#include "fs/context.h"
#include "fs/supervise.h"
#include "fs/watch.h"

/* --- where to ------------------------------------------------------------------------------- */

/* What a stored session needs of a node. */
static int requirements_of(const struct dispatch_placing *placing, struct requirements *ret,
			   struct error *err)
{
	const char *text = placing->session->requirements;

	if (text && text[0])
		return requirements_parse(text, strlen(text), ret, err);
	spec_sandbox_requirements(placing->spec, ret);
	return 0;
}

static int check(const struct executor *e, const struct dispatch_placing *placing, struct error *err)
{
	const struct executor_launch launch = {
		.executor = e->record.name,
		.handle = "",
		.spec = placing->spec,
		.config = &e->config,
		.uid = placing->session->uid,
		.gid = placing->session->gid,
		.groups = placing->groups,
		.n_groups = placing->n_groups,
	};

	return e->driver->ops->check(e->driver, &launch, err);
}

int failover_place(void *user, const struct dispatch_placing *placing, struct executor **ret,
		   struct error *err)
{
	struct hub *hub = user;
	AUTO_REQUIREMENTS struct requirements req = {0};
	AUTO_CANDIDATES struct candidates c = {0};
	bool host_allowed = host_policy_allows(fleet_host_policy(hub->fleet));
	size_t at;

	if (candidates_gather(hub->fleet, &c) < 0)
		return error_oom(err);
	int r = requirements_of(placing, &req, err);
	if (r < 0)
		return r;
	for (;;) {
		struct error refused;

		r = failover_choose(c.list, c.n, &req, host_allowed, placing->avoid, &at, NULL, err);
		if (r < 0)
			return r;
		if (check(c.executors[at], placing, &refused) == 0) {
			*ret = c.executors[at];
			return 0;
		}
		/* The next best; when there is none, why the last of them would not do. */
		c.list[at] = c.list[--c.n];
		c.executors[at] = c.executors[c.n];
		if (c.n == 0) {
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

void failover_moved(void *user, const struct session *s, int64_t from, int64_t to)
{
	struct hub *hub = user;
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

void failover_attempted(void *user, const struct session *s)
{
	struct hub *hub = user;
	const struct node dir = {.kind = NODE_ATTEMPTS, .serial = (uint32_t)s->serial};
	struct node attempt;
	char name[24];

	if (attempt_node(hub, (uint32_t)s->serial, s->attempt, &attempt) < 0)
		return;
	(void)snprintf(name, sizeof(name), "%" PRId64, s->attempt);
	watch_created(hub, dir, name, attempt);
}

void failover_changed(struct hub *hub, const struct session *s)
{
	struct node attempt;

	if (attempt_node(hub, (uint32_t)s->serial, s->attempt, &attempt) == 0)
		watch_modified_all(hub, attempt);
}

/* --- what the supervisor tells -------------------------------------------------------------- */

static void on_unreachable(void *user, uint32_t executor_serial)
{
	struct hub *hub = user;

	dispatch_executor_lost(hub->dispatch, executor_serial);
}

static void on_fit(void *user, uint32_t executor_serial)
{
	struct hub *hub = user;

	(void)executor_serial;
	dispatch_executor_fit(hub->dispatch);
}

void failover_attach(struct hub *hub)
{
	static const struct supervisor_events events = {.unreachable = on_unreachable, .fit = on_fit};

	supervise_listen(hub, &events, hub);
}
