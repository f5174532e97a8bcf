#include "tests/unit/test.h"

#include <string.h>

#include "core/gitplan.h"

#define REPO "https://git.example.org/team/app.git"

static void check_step(const struct git_step *step, const char *name, const char *command)
{
	char joined[512] = "";

	assert_string_equal(step->name, name);
	assert_null(step->argv[step->n_argv]);
	for (size_t i = 0; i < step->n_argv; i++) {
		strncat(joined, i > 0 ? "|" : "", sizeof(joined) - strlen(joined) - 1);
		strncat(joined, step->argv[i], sizeof(joined) - strlen(joined) - 1);
	}
	assert_string_equal(joined, command);
	assert_int_equal(step->authenticated, strcmp(name, "fetch") == 0);
}

static void plans(void **state)
{
	static const struct {
		const char *ref;
		int64_t depth;
		const char *fetch;
	} rows[] = {
		{"main", 1, "git|-C|/w|fetch|--no-tags|--prune|--depth|1|--|origin|main"},
		{" main ", 0, "git|-C|/w|fetch|--no-tags|--prune|--|origin|main"},
		{"", 0, "git|-C|/w|fetch|--no-tags|--prune|--|origin|HEAD"},
		{" ", 100000, "git|-C|/w|fetch|--no-tags|--prune|--depth|100000|--|origin|HEAD"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct workspace w = {.kind = WORKSPACE_GIT,
				      .repo = (char *)" " REPO " ",
				      .ref = (char *)rows[i].ref,
				      .depth = rows[i].depth};
		struct git_plan plan;

		assert_int_equal(git_plan_make(&w, "/w", &plan, NULL), 0);
		check_step(&plan.steps[0], "init", "git|init|--quiet|--|/w");
		check_step(&plan.steps[1], "remote", "git|-C|/w|remote|add|origin|--|" REPO);
		check_step(&plan.steps[2], "fetch", rows[i].fetch);
		check_step(&plan.steps[3], "checkout",
			   "git|-C|/w|checkout|--quiet|--detach|FETCH_HEAD");
		git_plan_clear(&plan);
	}
}

static void no_plan(void **state)
{
	struct git_plan plan;
	struct error err;

	(void)state;
	assert_int_equal(
		git_plan_make(&(struct workspace){.kind = WORKSPACE_NONE}, "/w", &plan, &err),
		-EINVAL);
	assert_string_equal(err.field, "workspace.kind");
	assert_int_equal(
		git_plan_make(&(struct workspace){.kind = WORKSPACE_GIT}, "/w", &plan, &err),
		-EINVAL);
	assert_string_equal(err.field, "workspace.repo");
	assert_int_equal(
		git_plan_make(&(struct workspace){.kind = WORKSPACE_GIT, .repo = (char *)REPO}, " ",
			      &plan, &err),
		-EINVAL);
	assert_int_equal(git_plan_make(&(struct workspace){.kind = WORKSPACE_GIT,
							   .repo = (char *)REPO,
							   .ref = (char *)"--upload-pack=x"},
				       "/w", &plan, &err),
			 -EINVAL);
}

static void base_environment(void **state)
{
	static const char *const want[] = {
		"GIT_TERMINAL_PROMPT=0",       "GIT_ASKPASS=/nonexistent",
		"SSH_ASKPASS=/nonexistent",    "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_HTTP_USER_AGENT=cloop-workspace",
	};
	const char *const *env = git_base_env();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(env[i], want[i]);
	assert_null(env[GIT_BASE_ENV_LEN]);
}

static void headers(void **state)
{
	static const struct {
		const char *user, *password, *header;
	} rows[] = {
		{NULL, "tok-12345678", "Basic eC1hY2Nlc3MtdG9rZW46dG9rLTEyMzQ1Njc4"},
		{" ", "tok-12345678", "Basic eC1hY2Nlc3MtdG9rZW46dG9rLTEyMzQ1Njc4"},
		{"u", "p:\xc3\xa4:q", "Basic dTpwOsOkOnE="},
		{"u", " ", "Basic dTog"},
		{"bot", "", ""},
		{"bot", NULL, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct git_credential c = {rows[i].user, rows[i].password};
		AUTO_FREE char *header = git_credential_header(&c);
		char **secrets;
		size_t n;

		assert_string_equal(header, rows[i].header);
		assert_int_equal(git_credential_is_empty(&c), header[0] == '\0');
		assert_int_equal(git_credential_secrets(&c, &secrets, &n), 0);
		assert_int_equal(n, header[0] ? 3 : 0);
		if (n > 0) {
			assert_string_equal(secrets[0], rows[i].password);
			assert_string_equal(secrets[1], header + 6);
			assert_string_equal(secrets[2], header);
		}
		git_secrets_free(secrets, n);
	}
}

static void credential_environment(void **state)
{
	static const char *const want[] = {
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=http.https://git.example.org:8443/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Basic eC1hY2Nlc3MtdG9rZW46dG9rLTEyMzQ1Njc4",
		"GIT_CONFIG_KEY_1=credential.helper",
		"GIT_CONFIG_VALUE_1=",
	};
	struct workspace w = {.kind = WORKSPACE_GIT,
			      .repo = (char *)"https://git.example.org:8443/team/app.git"};
	struct git_credential c = {.password = "tok-12345678"};
	char **env;
	size_t n;

	(void)state;
	assert_int_equal(git_credential_env(&w, &c, &env, &n, NULL), 0);
	assert_int_equal(n, ARRAY_SIZE(want));
	for (size_t i = 0; i < n; i++)
		assert_string_equal(env[i], want[i]);
	assert_null(env[n]);
	git_secrets_free(env, n);

	c.password = "";
	assert_int_equal(git_credential_env(&(struct workspace){0}, &c, &env, &n, NULL), 0);
	assert_int_equal(n, 0);
}

static void a_credential_is_bound_to_https_or_to_nothing(void **state)
{
	static const char *const repos[] = {
		"",
		"http://git.example.org/a/b",
		"git@git.example.org:a/b",
		"https:///a/b",
		"https://git.example.org\\@evil.example/a/b",
		"//git.example.org/a/b",
	};
	struct git_credential c = {.password = "hunter2hunter2"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(repos); i++) {
		struct workspace w = {.kind = WORKSPACE_GIT, .repo = (char *)repos[i]};
		struct error err;
		char sentence[512];
		char **env = NULL;
		size_t n = 7;

		assert_int_equal(git_credential_env(&w, &c, &env, &n, &err), -EINVAL);
		assert_int_equal(n, 7);
		error_sentence(&err, sentence, sizeof(sentence));
		assert_null(strstr(sentence, "hunter2"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans),
		cmocka_unit_test(no_plan),
		cmocka_unit_test(base_environment),
		cmocka_unit_test(headers),
		cmocka_unit_test(credential_environment),
		cmocka_unit_test(a_credential_is_bound_to_https_or_to_nothing),
	};

	return cmocka_run_group_tests_name("gitplan", tests, NULL, NULL);
}
