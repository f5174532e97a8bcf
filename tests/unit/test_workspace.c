#include "tests/unit/test.h"

#include <string.h>

#include "core/json.h"
#include "core/repourl.h"
#include "core/workspace.h"

#define REPO "https://git.example.org/team/app.git"

/* {"repo":"https://…"} with repeated bytes where a length matters. */
static char repo_at_limit[MAX_WORKSPACE_REPO_LEN + 1], repo_over[MAX_WORKSPACE_REPO_LEN + 2];
static char ref_at_limit[MAX_WORKSPACE_REF_LEN + 1], ref_over[MAX_WORKSPACE_REF_LEN + 2];
static char grant_at_limit[MAX_WORKSPACE_GRANT_LEN + 1], grant_over[MAX_WORKSPACE_GRANT_LEN + 2];

static void fill(char *buf, size_t size, const char *prefix)
{
	memset(buf, 'a', size - 1);
	memcpy(buf, prefix, strlen(prefix));
}

static int fill_all(void **state)
{
	(void)state;
	fill(repo_at_limit, sizeof(repo_at_limit), "https://h/");
	fill(repo_over, sizeof(repo_over), "https://h/");
	fill(ref_at_limit, sizeof(ref_at_limit), "");
	fill(ref_over, sizeof(ref_over), "");
	fill(grant_at_limit, sizeof(grant_at_limit), "");
	fill(grant_over, sizeof(grant_over), "");
	return 0;
}

static void check(const struct workspace *w, const char *field)
{
	struct error err = {0};
	int r = workspace_validate(w, "workspace", &err);

	if (!field) {
		if (r != 0)
			print_error("%s: %s\n", err.field, err.reason);
		assert_int_equal(r, 0);
		return;
	}
	assert_int_equal(r, -EINVAL);
	assert_int_equal(err.kind, ERROR_INVALID_SPEC);
	assert_string_equal(err.field, field);
}

static void repos(void **state)
{
	static const char *const good[] = {
		REPO,
		"https://git.example.org/team/app",
		"https://git.example.org/g/s/app.git",
		"https://git.example.org:8443/team/app.git",
		"https://git.example.org:/team/app.git",
		"https://[2001:db8::1]/team/app",
		"https://[::1]:8443/team/app",
		"HTTPS://git.example.org/team/app",
		" https://git.example.org/team/app\n",
		"https://git.example.org/team/a%20b",
		"https://git.example.org/~user/app",
		"https://git.example.org/team/\xc3\xa9",
		repo_at_limit,
	};
	static const char *const bad[] = {
		"",
		" ",
		repo_over,
		"http://git.example.org/team/app",
		"git://git.example.org/team/app",
		"ssh://git@git.example.org/team/app",
		"git@git.example.org:team/app.git",
		"file:///srv/app.git",
		"/srv/app.git",
		"app",
		"//git.example.org/a/b",
		"https:git.example.org/a/b",
		"https:///a/b",
		"https://",
		"https://git.example.org",
		"https://git.example.org/",
		"https://git.example.org//",
		"https://user@git.example.org/a/b",
		"https://user:pass@git.example.org/a/b",
		"https://@git.example.org/a/b",
		"https://:@git.example.org/a/b",
		"https://a@b@git.example.org/a/b",
		"https://git.example.org/a/b?x=1",
		"https://git.example.org/a/b?",
		"https://git.example.org/a/b#f",
		"https://git.example.org/a/b#",
		"https://git.example.org/a b",
		"https://git.example.org/a\tb",
		"https://git.example.org/a\nb",
		"https://git.example.org/a\x7f"
		"b",
		"https://git.example.org/a%zz",
		"https://git.example.org/a%2",
		"https://git.example.org/a\\b",
		"https://git.example.org\\@evil.example/a/b",
		"https://git.example.org:80x/a/b",
		"https://git.example.org:80:90/a/b",
		"https://:443/a/b",
		"https://[::1/a/b",
		"https://[]/a/b",
		"https://[::1]x/a/b",
		"https://exa mple/a/b",
		"https://exa%6dple/a/b",
		"https://exa\"mple/a/b",
		"--upload-pack=x",
		"ext::sh -c x",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		check(&(struct workspace){.kind = WORKSPACE_GIT, .repo = (char *)good[i]}, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check(&(struct workspace){.kind = WORKSPACE_GIT, .repo = (char *)bad[i]},
		      "workspace.repo");
	check(&(struct workspace){.kind = WORKSPACE_GIT}, "workspace.repo");
}

static void refs(void **state)
{
	static const char *const good[] = {
		"",
		" ",
		"main",
		" main ",
		"refs/heads/main",
		"v1.2",
		"feature/x-y_z",
		"HEAD",
		"@",
		"0123456789abcdef0123456789abcdef01234567",
		"\xc3\xa9",
		ref_at_limit,
	};
	static const char *const bad[] = {
		ref_over,
		"-main",
		" -main",
		"--upload-pack=x",
		"+main",
		"^main",
		"a b",
		"a\tb",
		"a\nb",
		"a\x7f"
		"b",
		"a:b",
		"a..b",
		"a~1",
		"a^",
		"a*",
		"a?",
		"a[b",
		"a\\b",
		"a@{1}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		check(&(struct workspace){.kind = WORKSPACE_GIT,
					  .repo = (char *)REPO,
					  .ref = (char *)good[i]},
		      NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check(&(struct workspace){.kind = WORKSPACE_GIT,
					  .repo = (char *)REPO,
					  .ref = (char *)bad[i]},
		      "workspace.ref");
}

static void grants_and_numbers(void **state)
{
	static const char *const good[] = {"",          " ",   "github-ci",
					   "a_b.c:d-9", " x ", grant_at_limit};
	static const char *const bad[] = {"a b", "a/b", "a=b", "\xc3\xa9", "a\nb", grant_over};
	struct workspace w = {.kind = WORKSPACE_GIT, .repo = (char *)REPO};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		w.credential_grant = (char *)good[i];
		check(&w, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		w.credential_grant = (char *)bad[i];
		check(&w, "workspace.credential_grant");
	}
	w.credential_grant = NULL;
	w.depth = MAX_WORKSPACE_DEPTH;
	check(&w, NULL);
	w.depth = MAX_WORKSPACE_DEPTH + 1;
	check(&w, "workspace.depth");
	w.depth = -1;
	check(&w, "workspace.depth");
	w.depth = 0;
	w.size_limit_mb = WORKSPACE_SIZE_MB_MAX;
	check(&w, NULL);
	w.size_limit_mb = -1;
	check(&w, "workspace.size_limit_mb");
}

static void git_fields_are_for_git(void **state)
{
	static const enum workspace_kind kinds[] = {WORKSPACE_UNSPECIFIED, WORKSPACE_BIND,
						    WORKSPACE_NONE};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		check(&(struct workspace){.kind = kinds[i]}, NULL);
		check(&(struct workspace){.kind = kinds[i], .size_limit_mb = 5}, NULL);
		check(&(struct workspace){.kind = kinds[i], .repo = (char *)" "}, NULL);
		check(&(struct workspace){.kind = kinds[i], .repo = (char *)REPO},
		      "workspace.repo");
		check(&(struct workspace){.kind = kinds[i], .ref = (char *)"main"},
		      "workspace.ref");
		check(&(struct workspace){.kind = kinds[i], .depth = 1}, "workspace.depth");
		check(&(struct workspace){.kind = kinds[i], .credential_grant = (char *)"g"},
		      "workspace.credential_grant");
	}
	check(&(struct workspace){.kind = WORKSPACE_UNKNOWN}, "workspace.kind");
}

static void kinds_are_spelled_exactly(void **state)
{
	(void)state;
	assert_int_equal(workspace_kind_parse("git"), WORKSPACE_GIT);
	assert_int_equal(workspace_kind_parse(""), WORKSPACE_UNSPECIFIED);
	assert_int_equal(workspace_kind_parse("Git"), WORKSPACE_UNKNOWN);
	assert_int_equal(workspace_kind_parse("git "), WORKSPACE_UNKNOWN);
	assert_int_equal(workspace_kind_parse("unspecified"), WORKSPACE_UNKNOWN);
	assert_string_equal(workspace_kind_name(WORKSPACE_NONE), "none");
}

static void predicates(void **state)
{
	struct workspace w = {.kind = WORKSPACE_GIT, .repo = (char *)REPO};

	(void)state;
	assert_true(workspace_needs_provisioning(&w));
	assert_false(workspace_requires_credential(&w));
	w.credential_grant = (char *)" ";
	assert_false(workspace_requires_credential(&w));
	w.credential_grant = (char *)"g";
	assert_true(workspace_requires_credential(&w));
	w.kind = WORKSPACE_BIND;
	assert_false(workspace_needs_provisioning(&w));
	assert_false(workspace_requires_credential(&w));
	assert_false(workspace_is_zero(&w));
	assert_true(workspace_is_zero(&(struct workspace){.repo = (char *)""}));
	assert_false(workspace_is_zero(&(struct workspace){.kind = WORKSPACE_NONE}));
}

static void derivations(void **state)
{
	static const struct {
		const char *repo, *base, *host, *path; /* NULL: there is none */
	} rows[] = {
		{REPO, "https://git.example.org/", "git.example.org", "team/app"},
		{REPO "/", "https://git.example.org/", "git.example.org", "team/app"},
		{" " REPO "\n", "https://git.example.org/", "git.example.org", "team/app"},
		{"https://h//team/app//", "https://h/", "h", "team/app"},
		{"HTTPS://Git.Example.org:8443/Team/App", "https://Git.Example.org:8443/",
		 "Git.Example.org:8443", "Team/App"},
		{"https://h/team/app.git.git", "https://h/", "h", "team/app.git"},
		{"https://h/team/.git", "https://h/", "h", NULL},
		{"https://h/team/app/x", "https://h/", "h", NULL},
		{"https://h/app", "https://h/", "h", NULL},
		{"https://h/", "https://h/", "h", NULL},
		{"https://h", "https://h/", "h", NULL},
		{"https://h/team//app", "https://h/", "h", NULL},
		{"https://h/team/a%70p", "https://h/", "h", "team/app"},
		{"https://h/team%2Fapp", "https://h/", "h", "team/app"},
		{"https://h/team/a%2Fpp", "https://h/", "h", NULL},
		{"https://h/team/app%00", "https://h/", "h", NULL},
		{"https://h/team/%0aapp", "https://h/", "h", NULL},
		{"https://h/../app", "https://h/", "h", NULL},
		{"https://h/team/%2e%2e", "https://h/", "h", NULL},
		{"https://u:p@h/team/app", "https://h/", "h", "team/app"},
		{"http://h/team/app", NULL, "h", "team/app"},
		{"git@h:team/app", NULL, "", NULL},
		/* Without a slash after the scheme nothing is a path. */
		{"h:team/app.git", NULL, "", NULL},
		{"github.com:team/app", NULL, "", NULL},
		{"https:team/app", NULL, "", NULL},
		{"https:", NULL, "", NULL},
		{"", NULL, "", NULL},
		{NULL, NULL, "", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct workspace w = {.kind = WORKSPACE_GIT, .repo = (char *)rows[i].repo};
		AUTO_FREE char *base = NULL;
		AUTO_FREE char *path = NULL;
		AUTO_FREE char *host = workspace_host(&w);

		assert_int_equal(workspace_base_url(&w, &base), 0);
		assert_int_equal(workspace_repo_path(&w, &path), 0);
		assert_string_equal(base ? base : "-", rows[i].base ? rows[i].base : "-");
		assert_string_equal(host, rows[i].host);
		assert_string_equal(path ? path : "-", rows[i].path ? rows[i].path : "-");
	}
}

static void descriptions(void **state)
{
	struct workspace w = {.kind = WORKSPACE_GIT,
			      .repo = (char *)REPO,
			      .ref = (char *)"main",
			      .depth = 3,
			      .credential_grant = (char *)"ci"};

	(void)state;
	AUTO_FREE char *git = workspace_describe(&w);
	assert_string_equal(git, "git " REPO "@main depth 3 grant ci");
	AUTO_FREE char *bind = workspace_describe(&(struct workspace){.kind = WORKSPACE_BIND});
	assert_string_equal(bind, "bind");
	AUTO_FREE char *zero = workspace_describe(&(struct workspace){0});
	assert_string_equal(zero, "unspecified");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repos),
		cmocka_unit_test(refs),
		cmocka_unit_test(grants_and_numbers),
		cmocka_unit_test(git_fields_are_for_git),
		cmocka_unit_test(kinds_are_spelled_exactly),
		cmocka_unit_test(predicates),
		cmocka_unit_test(derivations),
		cmocka_unit_test(descriptions),
	};

	return cmocka_run_group_tests_name("workspace", tests, fill_all, NULL);
}
