#include "fs/placing.h"

#include "core/candidates.h"
#include "core/dispatch.h"
#include "core/json.h"
#include "core/policy.h"
#include "core/requirements.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/start.h"

bool placing_host_allowed(const struct hub *hub)
{
	return host_policy_allows(fleet_host_policy(hub->fleet));
}

static int check(const struct change *c, const struct spec *spec, const struct executor *e,
		 struct error *err)
{
	const struct executor_launch launch = {
		.executor = e->record.name,
		.handle = "",
		.spec = spec,
		.config = &e->config,
		.uid = c->uid,
		.gid = c->gid,
		.groups = c->groups,
		.n_groups = c->n_groups,
	};

	return e->driver->ops->check(e->driver, &launch, err);
}

int placing_select(struct change *c, const struct requirements *req, const struct spec *spec,
		   struct executor **ret, struct error *err)
{
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
	AUTO_CANDIDATES struct candidates all = {0};
	struct error first = {0}, refused;
	bool host_allowed = placing_host_allowed(c->hub);
	size_t at;
	int r;

	if (candidates_gather(c->hub->fleet, &all) < 0)
		return error_oom(err);
	while ((r = placement_select(all.list, all.n, req, host_allowed, &at, &refusal, err)) == 0) {
		struct executor *e = all.executors[at];

		if (!spec || check(c, spec, e, &refused) == 0) {
			*ret = e;
			return 0;
		}
		if (!first.code)
			first = refused;
		all.n--;
		all.list[at] = all.list[all.n];
		all.executors[at] = all.executors[all.n];
	}
	if (first.code) {
		if (err)
			*err = first;
		return -first.code;
	}
	AUTO_JSON json_t *answer =
		refusal.constraint == CONSTRAINT_NONE ? NULL : placement_refusal_to_json(&refusal);
	if (answer)
		c->answer = json_text(answer);
	return r;
}

struct chooser {
	struct change *c;
	const struct requirements *req;
	const struct spec *spec;
};

static int choose(void *user, struct executor **ret, struct error *err)
{
	const struct chooser *chooser = user;

	return placing_select(chooser->c, chooser->req, chooser->spec, ret, err);
}

void placing_execute_start(struct change *c, const char *text, size_t len)
{
	AUTO_PLACEMENT_REQUEST struct placement_request request = {0};

	if (start_resumed(c))
		return;
	if (placement_request_parse(text, len, PLACEMENT_REQUEST_START, &request, &c->err) < 0 ||
	    start_check_rights(c, request.spec, request.whole ? "spec" : "", &c->err) < 0) {
		change_refuse(c);
		return;
	}
	AUTO_FREE char *requirements = requirements_text(&request.requirements);
	if (!requirements) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	struct chooser chooser = {.c = c, .req = &request.requirements, .spec = request.spec};
	struct dispatch_start start = {
		.choose = choose,
		.choose_user = &chooser,
		.spec = request.spec,
		.requirements = requirements,
		.same_requirements = true,
	};
	start_launch(c, &start);
	request.spec = start.spec;
}

void placing_execute_place(struct change *c, const char *text, size_t len)
{
	AUTO_PLACEMENT_REQUEST struct placement_request request = {0};
	struct executor *chosen;

	if (placement_request_parse(text, len, PLACEMENT_REQUEST_WHOLE, &request, &c->err) < 0 ||
	    placing_select(c, &request.requirements, request.spec, &chosen, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	AUTO_JSON json_t *answer = json_object();
	if (answer && json_put_string(answer, "selected", chosen->record.name) == 0)
		c->answer = json_text(answer);
	if (!c->answer) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	change_finish(c);
}
