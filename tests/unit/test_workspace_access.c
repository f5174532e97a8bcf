#include "tests/unit/test.h"

#include <string.h>

#include "core/workspace_access.h"

static void routing(void **state)
{
	struct workspace w = {
		.kind = WORKSPACE_GIT, .repo = strdup("https://h/a/b"), .ref = strdup("main")};

	(void)state;
	assert_int_equal(workspace_apply_access(&w, NULL), 0);
	assert_int_equal(workspace_apply_access(&w, " "), 0);
	assert_string_equal(w.repo, "https://h/a/b");
	assert_int_equal(workspace_apply_access(&w, "https://proxy:8443/s/1"), 0);
	assert_string_equal(w.repo, "https://proxy:8443/s/1");
	assert_string_equal(w.ref, "main");
	workspace_clear(&w);
}

static void two_faults_read_differently(void **state)
{
	struct workspace w = {.kind = WORKSPACE_GIT,
			      .repo = (char *)"https://h/team/app",
			      .credential_grant = (char *)"ci"};
	struct grant_denial d = {.fault = GRANT_FAULT_NONE_EXISTS,
				 .workspace = &w,
				 .executor_id = "edge-1",
				 .project_path = "/srv/shop"};
	struct error err;

	(void)state;
	assert_int_equal(workspace_grant_deny(&d, &err), -ENOKEY);
	assert_int_equal(err.kind, ERROR_WORKSPACE_GRANT_MISSING);
	assert_string_equal(err.reason, "no grant can authenticate the fetch of https://h/team/app "
					"on executor edge-1 for project /srv/shop");
	assert_non_null(strstr(err.remedy, "team/app"));
	d.fault = GRANT_FAULT_EXCLUDES;
	assert_int_equal(workspace_grant_deny(&d, &err), -EKEYREJECTED);
	assert_non_null(strstr(err.reason, "the grant ci does not cover https://h/team/app"));
	d.executor_id = d.project_path = NULL;
	assert_int_equal(workspace_grant_deny(&d, &err), -EKEYREJECTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(routing),
		cmocka_unit_test(two_faults_read_differently),
	};

	return cmocka_run_group_tests_name("workspace_access", tests, NULL, NULL);
}
