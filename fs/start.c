#include "fs/start.h"

#include <errno.h>
#include <stdlib.h>

#include "core/dispatch.h"
#include "core/json.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/context.h"

/* {"session":"s-…","handle":{…}}; NULL when out of memory. */
static char *answer_text(const struct session *s)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "session", s->name) < 0 ||
	    json_put_new(o, "handle", session_handle_json(s)) < 0)
		return NULL;
	return json_text(o);
}

static int apply_take_back(struct store_tx *tx, struct change *c, struct error *err)
{
	return dispatch_apply_take_back(tx, (uint32_t)(uintptr_t)c->data, err);
}

static void taken_back(struct change *c)
{
	dispatch_taken_back(c->hub->dispatch, (uint32_t)(uintptr_t)c->data);
}

/* Its row could not be removed: the session stays, and says that it was not started. */
static void not_taken_back(struct change *c)
{
	dispatch_give_up(c->hub->dispatch, (uint32_t)(uintptr_t)c->data, &c->err);
}

static void started(void *user, const struct session *s, const struct error *err, uint32_t committed)
{
	struct change *c = user;

	if (!err) {
		uint32_t serial = (uint32_t)s->serial;
		struct hub *hub = c->hub;

		/* The row and the shim's record are on the disk: nothing is left to commit. */
		c->answer = answer_text(s);
		change_finish(c);
		dispatch_answered(hub->dispatch, serial);
		return;
	}
	c->err = *err;
	if (!committed) {
		change_refuse(c);
		return;
	}
	c->data = (void *)(uintptr_t)committed;
	c->apply = apply_take_back;
	c->committed = taken_back;
	c->undo = not_taken_back;
	change_commit_refusal(c);
}

void start_execute(struct change *c, struct executor *executor, const char *text, size_t len)
{
	AUTO_SPEC struct spec *spec = NULL;
	struct dispatch *d = c->hub->dispatch;
	const uint64_t mount = area_header(c->hub->area)->mount_id, unique = c->unique & INT64_MAX;

	if (c->replayed && dispatch_resume(d, mount, unique, started, c))
		return;
	if (spec_parse(text, len, &spec, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	if (spec->n_host_mounts > 0 && !c->is_admin) {
		(void)error_set(&c->err, EPERM, "paths of the host are mounted for administrators only");
		error_field(&c->err, "host_mounts");
		error_remedy(&c->err, "ask a member of cloop-admin");
		change_refuse(c);
		return;
	}
	if (spec->n_secrets > 0) {
		/* Nothing here leases secrets, so nothing can back a binding. */
		(void)error_set(&c->err, ENOKEY, "no live lease backs this binding");
		error_field(&c->err, "secrets[0].lease_id");
		error_remedy(&c->err, "leave secrets out");
		change_refuse(c);
		return;
	}
	struct dispatch_start start = {
		.executor = executor,
		.spec = spec,
		.uid = c->uid,
		.gid = c->gid,
		.groups = c->groups,
		.n_groups = c->n_groups,
		.origin_mount = mount,
		.origin_unique = unique,
	};
	int r = dispatch_start(d, &start, started, c, &c->err);
	spec = start.spec;
	if (r < 0)
		change_refuse(c);
}
