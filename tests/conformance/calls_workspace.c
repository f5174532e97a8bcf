/* Workspaces and how they are fetched. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/gitplan.h"
#include "core/strlist.h"
#include "core/workspace.h"
#include "core/workspace_access.h"
#include "tests/conformance/calls.h"

/* For calls that give no verdict on what cannot be read: then it is the zero workspace. */
static void read_workspace(json_t *value, struct workspace *ret)
{
	*ret = (struct workspace){0};
	if (value)
		(void)workspace_from_json(value, "workspace", ret, NULL);
}

static json_t *validate_call(json_t *input)
{
	struct workspace w = {0};
	struct error err = {0};
	int r = workspace_from_json(input, "workspace", &w, &err);

	if (r == 0)
		r = workspace_validate(&w, "workspace", &err);
	workspace_clear(&w);
	return verdict_to_json(r, &err);
}

static json_t *predicates_call(json_t *input)
{
	struct workspace w;

	read_workspace(input, &w);
	json_t *answer = verdict_workspace_predicates(&w);
	workspace_clear(&w);
	return answer;
}

static json_t *derivations_call(json_t *input)
{
	struct workspace w;

	read_workspace(input, &w);
	json_t *answer = verdict_workspace_derivations(&w);
	workspace_clear(&w);
	return answer;
}

static json_t *plan_call(json_t *input)
{
	struct git_plan plan = {0};
	struct workspace w = {0};
	struct error err = {0};
	int r = workspace_from_json(json_object_get(input, "workspace"), "workspace", &w, &err);

	if (r == 0)
		r = git_plan_make(&w, get_text(input, "dir"), &plan, &err);
	workspace_clear(&w);
	if (r < 0)
		return verdict_to_json(r, &err);
	json_t *answer = json_pack("{s:b, s:o}", "ok", 1, "steps", git_plan_to_json(&plan));
	git_plan_clear(&plan);
	return answer;
}

static json_t *access_call(json_t *input)
{
	struct workspace w;

	read_workspace(json_object_get(input, "workspace"), &w);
	json_t *answer = NULL;
	if (workspace_apply_access(&w, get_text(input, "access_repo")) == 0)
		answer = json_pack("{s:o}", "workspace", workspace_to_json(&w));
	workspace_clear(&w);
	return answer;
}

static struct git_credential read_credential(json_t *value)
{
	return (struct git_credential){get_text(value, "username"), get_text(value, "password")};
}

static json_t *credential_call(json_t *input)
{
	struct git_credential c = read_credential(input);
	AUTO_FREE char *header = git_credential_header(&c);
	char **secrets;
	size_t n;

	if (git_credential_secrets(&c, &secrets, &n) < 0)
		return NULL;
	json_t *answer =
		json_pack("{s:s, s:b, s:o}", "authorization", header, "empty",
			  git_credential_is_empty(&c), "secrets", strlist_to_json(secrets, n));
	git_secrets_free(secrets, n);
	return answer;
}

static json_t *base_env_call(json_t *input)
{
	(void)input;
	return json_pack("{s:o}", "env",
			 strlist_to_json((char *const *)git_base_env(), GIT_BASE_ENV_LEN));
}

static json_t *credential_env_call(json_t *input)
{
	struct git_credential c = read_credential(json_object_get(input, "credential"));
	struct error err = {0};
	struct workspace w;
	char **env = NULL;
	size_t n = 0;

	read_workspace(json_object_get(input, "workspace"), &w);
	int r = git_credential_env(&w, &c, &env, &n, &err);
	workspace_clear(&w);
	if (r < 0)
		return json_pack("{s:b}", "ok", 0);
	json_t *answer = json_pack("{s:o, s:b}", "env", strlist_to_json(env, n), "ok", 1);
	git_secrets_free(env, n);
	return answer;
}

const struct call workspace_calls[] = {
	{"Workspace.Validate", validate_call},
	{"Workspace.Predicates", predicates_call},
	{"Workspace.Derivations", derivations_call},
	{"Workspace.GitPlan", plan_call},
	{"WorkspaceAccess.Apply", access_call},
	{"GitCredential", credential_call},
	{"GitEnv/GitBaseEnv", base_env_call},
	{"GitEnv/GitCredentialEnv", credential_env_call},
	{NULL, NULL},
};
