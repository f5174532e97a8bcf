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

bool start_resumed(struct change *c)
{
	return c->replayed &&
	       dispatch_resume(c->hub->dispatch, area_header(c->hub->area)->mount_id,
			       c->unique & INT64_MAX, started, c);
}

int start_check_rights(const struct change *c, const struct spec *spec, const char *path,
		       struct error *err)
{
	const char *dot = path[0] ? "." : "";
	int r = 0;

	if (spec->n_host_mounts > 0 && !c->is_admin) {
		r = error_set(err, EPERM, "paths of the host are mounted for administrators only");
		error_field(err, "%s%shost_mounts", path, dot);
		error_remedy(err, "ask a member of cloop-admin");
	} else if (spec->n_secrets > 0) {
		/* Nothing here leases secrets, so nothing can back a binding. */
		r = error_set(err, ENOKEY, "no live lease backs this binding");
		error_field(err, "%s%ssecrets[0].lease_id", path, dot);
		error_remedy(err, "leave secrets out");
	}
	return r;
}

void start_launch(struct change *c, struct dispatch_start *start)
{
	start->start_file = node_inode(c->node);
	start->uid = c->uid;
	start->gid = c->gid;
	start->groups = c->groups;
	start->n_groups = c->n_groups;
	start->origin_mount = area_header(c->hub->area)->mount_id;
	start->origin_unique = c->unique & INT64_MAX;
	if (dispatch_start(c->hub->dispatch, start, started, c, &c->err) < 0)
		change_refuse(c);
}

void start_execute(struct change *c, struct executor *executor, const char *text, size_t len)
{
	AUTO_SPEC struct spec *spec = NULL;

	if (start_resumed(c))
		return;
	if (spec_parse(text, len, &spec, &c->err) < 0 ||
	    start_check_rights(c, spec, "", &c->err) < 0) {
		change_refuse(c);
		return;
	}
	struct dispatch_start start = {.executor = executor, .spec = spec};
	start_launch(c, &start);
	spec = start.spec;
}
