/*
 * /check: dry runs. A document is held against the rules and nothing changes; the write fails with
 * the errno of the real thing, and the answer has the form of core/verdict.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/candidates.h"
#include "core/dispatch.h"
#include "core/gitplan.h"
#include "core/json.h"
#include "core/requirements.h"
#include "core/spec.h"
#include "core/verdict.h"
#include "core/workspace.h"
#include "core/writeback.h"
#include "core/writeback_inspect.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/placing.h"
#include "fs/start.h"
#include "fs/tables.h"

/* Ends the change with this answer, which is taken: success, or the refusal in c->err. */
static void conclude(struct change *c, int r, json_t *answer)
{
	AUTO_JSON json_t *owned = answer;

	c->answer = owned ? json_text(owned) : NULL;
	if (!c->answer) {
		(void)error_oom(&c->err);
		r = -ENOMEM;
	}
	if (r < 0)
		change_refuse(c);
	else
		change_finish(c);
}

/* The verdict of a refusal, with the field and the sentence; NULL when out of memory. */
static json_t *refusal(int r, const struct error *err)
{
	AUTO_JSON json_t *o = verdict_to_json(r, err);

	return o && verdict_put_error(o, err) == 0 ? take_ptr(o) : NULL;
}

/* Takes `more`, and returns `o` with all that is in it; NULL when out of memory. */
static json_t *with(json_t *o, json_t *more)
{
	AUTO_JSON json_t *owned = o;
	AUTO_JSON json_t *added = more;

	return owned && added && json_object_update(owned, added) == 0 ? take_ptr(owned) : NULL;
}

/* --- spec ----------------------------------------------------------------------------------- */

static json_t *demands(const struct spec *spec)
{
	AUTO_JSON json_t *o = verdict_to_json(0, NULL);

	if (!o || json_put_new(o, "requirements", verdict_sandbox_requirements(spec)) < 0)
		return NULL;
	return take_ptr(o);
}

static void execute_spec(struct change *c, const char *text, size_t len)
{
	AUTO_SPEC struct spec *spec = NULL;
	struct error *err = &c->err;

	int r = spec_parse(text, len, &spec, err);
	if (r == 0)
		r = dispatch_check_id(spec, err);
	if (r == 0)
		r = start_check_rights(c, spec, "", err);
	if (r < 0) {
		conclude(c, r, refusal(r, err));
		return;
	}
	conclude(c, 0, demands(spec));
}

/* --- requirements --------------------------------------------------------------------------- */

static json_t *selection(struct hub *hub, const struct requirements *req, const struct executor *chosen,
			 const struct placement_refusal *refused, const struct error *err)
{
	AUTO_JSON json_t *o = json_object();
	bool host_allowed = placing_host_allowed(hub);

	if (!o || json_put_new(o, "selected", chosen ? json_string(chosen->record.name) : json_null()) < 0)
		return NULL;
	/* None: it is the drivers that refuse. */
	if (refused->constraint != CONSTRAINT_NONE &&
	    json_put_string(o, "constraint", constraint_name(refused->constraint)) < 0)
		return NULL;
	if (!chosen && verdict_put_error(o, err) < 0)
		return NULL;
	AUTO_JSON json_t *survey = fleet_survey(hub->fleet, req, host_allowed);
	size_t considered = json_array_size(json_object_get(survey, "candidates")) +
			    json_array_size(json_object_get(survey, "rejections"));
	if (json_put_int(o, "considered", (int64_t)considered) < 0)
		return NULL;
	AUTO_JSON json_t *answer = with(take_ptr(o), take_ptr(survey));
	if (!answer || json_put_new(answer, "requirements", requirements_to_json(req)) < 0)
		return NULL;
	return take_ptr(answer);
}

static void execute_requirements(struct change *c, const char *text, size_t len)
{
	AUTO_PLACEMENT_REQUEST struct placement_request request = {0};
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refused = {0};
	struct executor *chosen = NULL;
	struct hub *hub = c->hub;

	int r = placement_request_parse(text, len, PLACEMENT_REQUEST_CHECK, &request, &c->err);
	if (r < 0) {
		conclude(c, r, refusal(r, &c->err));
		return;
	}
	r = fleet_select(hub->fleet, &request.requirements, placing_host_allowed(hub), &chosen, &refused,
			 &c->err);
	if (r == 0 && request.spec)
		r = placing_select(c, &request.requirements, request.spec, &chosen, &c->err);
	conclude(c, r, selection(hub, &request.requirements, r < 0 ? NULL : chosen, &refused, &c->err));
}

/* --- workspace ------------------------------------------------------------------------------ */

/* Where a plan fetches to, when nobody says where. */
#define PLAN_DIR "/workspace"

/* A document is {"workspace":…,"dir":…}, or the workspace itself. */
static int read_workspace(json_t *value, struct workspace *ret, const char **ret_dir, struct error *err)
{
	struct json_object o;
	json_t *workspace;

	*ret_dir = PLAN_DIR;
	if (!json_object_get(value, "workspace"))
		return workspace_from_json(value, "", ret, err);
	int r = json_object_begin(&o, value, "", err);
	if (r < 0)
		return r;
	workspace = json_object_field(&o, "workspace");
	if ((r = json_object_string(&o, "dir", ret_dir, err)) < 0 || (r = json_object_end(&o, err)) < 0)
		return r;
	return workspace_from_json(workspace, "workspace", ret, err);
}

static json_t *workspace_verdict(const struct workspace *w, const struct git_plan *plan)
{
	AUTO_JSON json_t *o = with(verdict_to_json(0, NULL), verdict_workspace_predicates(w));
	AUTO_JSON json_t *answer = with(take_ptr(o), verdict_workspace_derivations(w));

	if (answer && plan && json_put_new(answer, "steps", git_plan_to_json(plan)) < 0)
		return NULL;
	return take_ptr(answer);
}

static void execute_workspace(struct change *c, const char *text, size_t len)
{
	AUTO_JSON json_t *value = NULL;
	struct workspace w = {0};
	struct git_plan plan = {0};
	const char *dir = PLAN_DIR;
	json_t *answer;

	int r = json_parse(text, len, &value, &c->err);
	if (r == 0)
		r = read_workspace(value, &w, &dir, &c->err);
	if (r == 0)
		r = workspace_validate(&w, json_object_get(value, "workspace") ? "workspace" : "", &c->err);
	bool planned = r == 0 && w.kind == WORKSPACE_GIT;
	if (planned)
		r = git_plan_make(&w, dir, &plan, &c->err);
	answer = r < 0 ? refusal(r, &c->err) : workspace_verdict(&w, planned ? &plan : NULL);
	git_plan_clear(&plan);
	workspace_clear(&w);
	conclude(c, r, answer);
}

/* --- writeback ------------------------------------------------------------------------------ */

static json_t *writeback_verdict(json_t *value, int *ret_r, struct error *err)
{
	struct writeback w = {0};
	json_t *answer = NULL;

	int r = writeback_from_json(value, "", &w, err);
	if (r == 0)
		r = writeback_validate(&w, "", err);
	if (r < 0) {
		answer = refusal(r, err);
	} else {
		AUTO_JSON json_t *o = verdict_to_json(0, NULL);

		if (o && json_put_int(o, "cap", writeback_bundle_cap(&w)) == 0)
			answer = take_ptr(o);
	}
	writeback_clear(&w);
	*ret_r = r;
	return answer;
}

/* Strings are borrowed from the document. */
static int read_entry(json_t *value, size_t i, struct bundle_entry *ret, struct error *err)
{
	const char *path = "", *mode = "", *target = "";
	struct json_object o;
	char at[32];

	(void)snprintf(at, sizeof(at), "entries[%zu]", i);
	int r = json_object_begin(&o, value, at, err);
	if (r < 0 || (r = json_object_string(&o, "path", &path, err)) < 0 ||
	    (r = json_object_string(&o, "mode", &mode, err)) < 0 ||
	    (r = json_object_string(&o, "link_target", &target, err)) < 0 ||
	    (r = json_object_end(&o, err)) < 0)
		return r;
	*ret = (struct bundle_entry){.path = path,
				     .path_len = strlen(path),
				     .mode = mode,
				     .link_target = target,
				     .link_target_len = strlen(target)};
	return 0;
}

static json_t *inspection(json_t *value, int *ret_r, struct error *err)
{
	struct writeback_rejection rejection = {0};
	const char *branch = "", *sha = "";
	json_t *list = NULL;
	struct json_object o;

	int r = json_object_begin(&o, value, "", err);
	if (r < 0 || (r = json_object_string(&o, "branch", &branch, err)) < 0 ||
	    (r = json_object_string(&o, "commit_sha", &sha, err)) < 0 ||
	    (r = json_object_array(&o, "entries", &list, err)) < 0 || (r = json_object_end(&o, err)) < 0) {
		*ret_r = r;
		return refusal(r, err);
	}
	size_t n = json_array_size(list);
	AUTO_FREE struct bundle_entry *entries = calloc(n + 1, sizeof(*entries));
	r = entries ? 0 : error_oom(err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = read_entry(json_array_get(list, i), i, &entries[i], err);
	if (r < 0) {
		*ret_r = r;
		return refusal(r, err);
	}
	*ret_r = writeback_inspect(branch, sha, entries, n, &rejection, err);
	return verdict_inspection(*ret_r, &rejection, err);
}

static void execute_writeback(struct change *c, const char *text, size_t len)
{
	AUTO_JSON json_t *value = NULL;
	json_t *answer;

	int r = json_parse(text, len, &value, &c->err);
	if (r < 0)
		answer = refusal(r, &c->err);
	else if (json_object_get(value, "entries"))
		answer = inspection(value, &r, &c->err);
	else
		answer = writeback_verdict(value, &r, &c->err);
	conclude(c, r, answer);
}

/* --- table ---------------------------------------------------------------------------------- */

static const struct node_file check_files[] = {
	{.name = "spec", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = execute_spec,
	 .doc = "Write a spec: reads as {\"ok\",\"requirements\"}, what it demands of an executor; or as the "
		"field and the error."},
	{.name = "requirements", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = execute_requirements,
	 .doc = "Write requirements, or {\"spec\",\"requirements\"}: reads as {\"selected\",\"considered\","
		"\"candidates\",\"rejections\",\"requirements\"}, the candidates with the best first; with "
		"\"constraint\" when none fits."},
	{.name = "workspace", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = execute_workspace,
	 .doc = "Write a workspace, or {\"workspace\",\"dir\"}: reads as what is derived from it, and the git "
		"commands that would fetch it."},
	{.name = "writeback", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = execute_writeback,
	 .doc = "Write a write_back: reads as {\"ok\",\"cap\"}; or {\"branch\",\"commit_sha\",\"entries\"}, "
		"entries being {\"path\",\"mode\",\"link_target\"}: reads as the verdict on what a sandbox "
		"returned, EBADMSG when it is rejected."},
};

const struct node_dir check_dir = {
	.kind = NODE_CHECK,
	.path = "/check",
	.doc = "Dry runs, which change nothing. A write fails as the real thing would, and the answer is the "
	       "verdict all the same.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.files = check_files,
	.n_files = ARRAY_SIZE(check_files),
};
