#include "core/gitplan.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/owner.h"
#include "core/strlist.h"

#define DEFAULT_USERNAME "x-access-token"

/* Enough for the longest command: git -C D fetch --no-tags --prune --depth N -- origin REF. */
#define STEP_ARGS_MAX 12

static int make_step(struct git_step *step, const char *name, bool authenticated,
		     const char *const *argv)
{
	size_t n = 0;

	while (argv[n])
		n++;
	char **copy = strlist_dup((char *const *)argv, n);
	if (!copy)
		return -ENOMEM;
	*step = (struct git_step){
		.name = name, .argv = copy, .n_argv = n, .authenticated = authenticated};
	return 0;
}

static int make_fetch(struct git_step *step, const char *dir, const char *ref, int64_t depth)
{
	const char *argv[STEP_ARGS_MAX] = {"git", "-C", dir, "fetch", "--no-tags", "--prune"};
	char number[32];
	size_t n = 6;

	if (depth > 0) {
		(void)snprintf(number, sizeof(number), "%" PRId64, depth);
		argv[n++] = "--depth";
		argv[n++] = number;
	}
	argv[n++] = "--";
	argv[n++] = "origin";
	argv[n++] = ref[0] ? ref : "HEAD";
	return make_step(step, "fetch", true, argv);
}

int git_plan_make(const struct workspace *w, const char *dir, struct git_plan *ret,
		  struct error *err)
{
	struct git_plan plan = {0};
	int r = workspace_validate(w, "workspace", err);

	if (r < 0)
		return r;
	if (w->kind != WORKSPACE_GIT)
		return field_refuse(err, "workspace", "kind",
				    "is not git: there is nothing to fetch");
	if (text_trimmed(dir).len == 0)
		return field_refuse(err, "work_dir", "", "must name the directory to fetch into");
	AUTO_FREE char *repo = text_trim_dup(text_or_empty(w->repo));
	AUTO_FREE char *ref = text_trim_dup(text_or_empty(w->ref));
	if (!repo || !ref)
		return error_oom(err);

	const char *init[] = {"git", "init", "--quiet", "--", dir, NULL};
	const char *remote[] = {"git", "-C", dir, "remote", "add", "origin", "--", repo, NULL};
	const char *checkout[] = {"git",     "-C",       dir,          "checkout",
				  "--quiet", "--detach", "FETCH_HEAD", NULL};

	if (make_step(&plan.steps[0], "init", false, init) < 0 ||
	    make_step(&plan.steps[1], "remote", false, remote) < 0 ||
	    make_fetch(&plan.steps[2], dir, ref, w->depth) < 0 ||
	    make_step(&plan.steps[3], "checkout", false, checkout) < 0) {
		git_plan_clear(&plan);
		return error_oom(err);
	}
	*ret = plan;
	return 0;
}

void git_plan_clear(struct git_plan *plan)
{
	for (size_t i = 0; i < GIT_STEPS; i++)
		strlist_free(plan->steps[i].argv, plan->steps[i].n_argv);
	*plan = (struct git_plan){0};
}

const char *const *git_base_env(void)
{
	static const char *const env[GIT_BASE_ENV_LEN + 1] = {
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=/nonexistent",
		"SSH_ASKPASS=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_HTTP_USER_AGENT=cloop-workspace",
		NULL,
	};

	return env;
}

bool git_credential_is_empty(const struct git_credential *c)
{
	return text_or_empty(c->password)[0] == '\0';
}

/* "prefix" + base64(user:password); the parts are wiped. */
static char *encode(const struct git_credential *c, const char *prefix)
{
	struct text_view user = text_trimmed(c->username);
	size_t prefix_len = strlen(prefix), plain_len;
	char *out = NULL, *plain = NULL;

	if (user.len == 0)
		user = (struct text_view){DEFAULT_USERNAME, sizeof(DEFAULT_USERNAME) - 1};
	if (asprintf(&plain, "%.*s:%s", (int)user.len, user.data, c->password) < 0)
		return NULL;
	plain_len = strlen(plain);
	if (plain_len <= INT32_MAX / 2)
		out = malloc(prefix_len + 4 * ((plain_len + 2) / 3) + 1);
	if (out) {
		memcpy(out, prefix, prefix_len);
		EVP_EncodeBlock((unsigned char *)out + prefix_len, (const unsigned char *)plain,
				(int)plain_len);
	}
	explicit_bzero(plain, plain_len);
	free(plain);
	return out;
}

char *git_credential_header(const struct git_credential *c)
{
	return git_credential_is_empty(c) ? strdup("") : encode(c, "Basic ");
}

char **git_secrets_free(char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		if (list[i])
			explicit_bzero(list[i], strlen(list[i]));
	return strlist_free(list, n);
}

int git_credential_secrets(const struct git_credential *c, char ***ret, size_t *ret_n)
{
	if (git_credential_is_empty(c)) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	char **list = calloc(4, sizeof(*list));
	if (!list)
		return -ENOMEM;
	list[0] = strdup(c->password);
	list[1] = encode(c, "");
	list[2] = encode(c, "Basic ");
	if (!list[0] || !list[1] || !list[2]) {
		git_secrets_free(list, 3);
		return -ENOMEM;
	}
	*ret = list;
	*ret_n = 3;
	return 0;
}

int git_credential_env(const struct workspace *w, const struct git_credential *c, char ***ret,
		       size_t *ret_n, struct error *err)
{
	AUTO_FREE char *base = NULL;
	char **list;

	if (git_credential_is_empty(c)) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	if (workspace_base_url(w, &base) < 0)
		return error_oom(err);
	if (!base)
		return field_refuse(err, "workspace", "repo",
				    "is no https URL, so a credential cannot be bound to it");
	list = calloc(6, sizeof(*list));
	if (!list)
		return error_oom(err);
	/*
	 * The empty helper keeps any other one from answering the challenge with a credential that
	 * no grant gave.
	 */
	list[0] = strdup("GIT_CONFIG_COUNT=2");
	if (asprintf(&list[1], "GIT_CONFIG_KEY_0=http.%s.extraHeader", base) < 0)
		list[1] = NULL;
	list[2] = encode(c, "GIT_CONFIG_VALUE_0=Authorization: Basic ");
	list[3] = strdup("GIT_CONFIG_KEY_1=credential.helper");
	list[4] = strdup("GIT_CONFIG_VALUE_1=");
	for (size_t i = 0; i < 5; i++) {
		if (!list[i]) {
			git_secrets_free(list, 5);
			return error_oom(err);
		}
	}
	*ret = list;
	*ret_n = 5;
	return 0;
}
