/*
 * Which executor a project's work goes to, and starting it there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/candidates.h"
#include "core/dispatch.h"
#include "core/fleet_policy.h"
#include "core/project.h"
#include "core/registry.h"
#include "core/requirements.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/placing.h"
#include "fs/projects.h"
#include "fs/start.h"

/* --- which executor ------------------------------------------------------------------------- */

/* Those of the document; the row holds nothing that does not parse. */
static int read_requirements(const struct project *p, struct requirements *ret, struct error *err)
{
	return requirements_parse(p->requirements, strlen(p->requirements), ret, err);
}

static int resolve_binding(struct hub *hub, const struct project *p, struct executor **ret,
			   struct error *err)
{
	struct executor *e = fleet_find(hub->fleet, p->binding);

	if (!e || !e->driver || e->removing)
		return registry_refuse_binding(p->binding, err);
	*ret = e;
	return 0;
}

static int resolve_default(struct hub *hub, struct executor **ret, struct error *err)
{
	struct executor *e = fleet_default(hub->fleet);

	if (!e || !e->driver || e->removing)
		return registry_refuse_default(err);
	*ret = e;
	return 0;
}

/* Where work would go now, for display: what the policy says of it is asked when it starts. */
static int resolve(struct hub *hub, const struct project *p, struct executor **ret)
{
	AUTO_REQUIREMENTS struct requirements q = {0};

	if (p->binding[0])
		return resolve_binding(hub, p, ret, NULL);
	int r = read_requirements(p, &q, NULL);
	if (r < 0)
		return r;
	if (requirements_is_zero(&q))
		return resolve_default(hub, ret, NULL);
	return fleet_select(hub->fleet, &q, placing_host_allowed(hub), ret, NULL, NULL);
}

bool project_executor_absent(struct hub *hub, uint32_t serial)
{
	const struct project *p = projects_get(hub->projects, serial);
	struct executor *e;

	return !p || resolve(hub, p, &e) < 0;
}

int project_render_executor(const struct view *v, struct buf *out)
{
	const struct project *p = projects_get(v->hub->projects, v->node.serial);
	struct executor *e;

	if (!p)
		return -ESTALE;
	if (resolve(v->hub, p, &e) < 0)
		return -ENOENT;
	buf_printf(out, "../../executors/%s", e->record.name);
	return out->failed;
}

/* --- start ---------------------------------------------------------------------------------- */

struct chooser {
	struct change *c;
	const struct project *project;
	const struct requirements *req;
	const struct spec *spec;
	bool selects; /* among all: the project has requirements, and no binding */
};

static int choose(void *user, struct executor **ret, struct error *err)
{
	const struct chooser *chooser = user;
	const struct project *p = chooser->project;
	struct hub *hub = chooser->c->hub;
	struct executor *e = NULL;

	if (chooser->selects)
		return placing_select(chooser->c, chooser->req, chooser->spec, ret, err);
	int r = p->binding[0] ? resolve_binding(hub, p, &e, err) : resolve_default(hub, &e, err);
	/* Before what it lacks: who does not isolate is not to be used at all then. */
	if (r == 0)
		r = fleet_check_host(hub->fleet, e, p->path, err);
	if (r == 0 && p->binding[0])
		r = fleet_check_bound(hub->fleet, e, chooser->req, placing_host_allowed(hub), p->path, NULL,
				      err);
	if (r == 0)
		*ret = e;
	return r;
}

/*
 * What is asked of the executor: with a binding, which is the choice of a node, only what holds
 * wherever the work runs, pinned to it; else all of it. *ret_own: the project has requirements.
 */
static int gather_requirements(const struct project *p, const struct spec *spec,
			       struct requirements *ret, bool *ret_own, struct error *err)
{
	AUTO_REQUIREMENTS struct requirements own = {0};
	struct requirements implied;

	int r = read_requirements(p, &own, err);
	if (r < 0)
		return r;
	*ret_own = !requirements_is_zero(&own);
	if (p->binding[0]) {
		requirements_needs(&own, ret);
		ret->executor_id = strdup(p->binding);
		if (!ret->executor_id)
			return error_oom(err);
	} else {
		*ret = own;
		own = (struct requirements){0};
	}
	spec_sandbox_requirements(spec, &implied);
	requirements_add_flags(ret, &implied);
	return 0;
}

static int read_spec(const struct change *c, const struct project *p, const char *text, size_t len,
		     struct spec **ret, struct error *err)
{
	AUTO_SPEC struct spec *spec = NULL;

	int r = spec_parse(text, len, &spec, err);
	if (r == 0)
		r = start_check_rights(c, spec, "", err);
	if (r < 0)
		return r;
	if (!spec->work_dir[0]) {
		char *path = strdup(p->path);

		if (!path)
			return error_oom(err);
		free(spec->work_dir);
		spec->work_dir = path;
	}
	*ret = take_ptr(spec);
	return 0;
}

static int refuse_removal(const struct project *p, struct error *err)
{
	return p->removing ? error_set(err, EBUSY, "project %s is being removed", p->name) : 0;
}

void project_execute_start(struct change *c, const char *text, size_t len)
{
	AUTO_REQUIREMENTS struct requirements req = {0};
	AUTO_FREE char *requirements = NULL;
	AUTO_SPEC struct spec *spec = NULL;
	bool own = false;

	if (start_resumed(c))
		return;
	struct project *p = project_of_change(c);
	if (!p)
		return;
	if (refuse_removal(p, &c->err) < 0 || read_spec(c, p, text, len, &spec, &c->err) < 0 ||
	    gather_requirements(p, spec, &req, &own, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	requirements = requirements_text(&req);
	if (!requirements) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	struct chooser chooser = {
		.c = c, .project = p, .req = &req, .spec = spec, .selects = own && !p->binding[0]};
	struct dispatch_start start = {
		.choose = choose,
		.choose_user = &chooser,
		.spec = spec,
		.requirements = requirements,
		.project_serial = p->serial,
		.project_path = p->path,
	};
	start_launch(c, &start);
	spec = start.spec;
}
