#include "tests/unit/test.h"

#include <string.h>

#include "core/policy.h"

static void it_only_tightens(void **state)
{
	struct host_policy p = {0};

	(void)state;
	assert_true(host_policy_allows(&p));
	host_policy_apply(&p, true);
	assert_true(host_policy_allows(&p));
	host_policy_apply(&p, false);
	host_policy_apply(&p, true);
	assert_false(host_policy_allows(&p));
	assert_false(host_policy_set(&p, true));
	assert_true(host_policy_set(&p, true));
	assert_true(host_policy_allows(&p));
}

static void a_denial_names_the_way_out(void **state)
{
	char *ids[] = {(char *)"edge-1", (char *)"kata-2"};
	struct error err;
	char text[1024];

	(void)state;
	assert_int_equal(host_execution_deny("hub-local", "/srv/shop", NULL, ids, 2, &err),
			 -EACCES);
	assert_int_equal(err.kind, ERROR_HOST_EXECUTION_DENIED);
	assert_non_null(strstr(err.remedy, "edge-1, kata-2"));
	error_sentence(&err, text, sizeof(text));
	assert_non_null(strstr(text, "hub-local"));
	assert_non_null(strstr(text, "/srv/shop"));
	assert_non_null(strstr(text, "executors.allow_host_process"));
	assert_null(strstr(text, "mkdir"));

	assert_int_equal(host_execution_deny("hub-local", "", "cannot build", NULL, 0, &err),
			 -EACCES);
	assert_non_null(strstr(err.reason, "cannot build"));
	assert_null(strstr(err.reason, "project"));
	assert_non_null(strstr(err.remedy, "mkdir /cloop/executors/<id>"));
	assert_non_null(strstr(err.remedy, "executors.allow_host_process"));
}

static void many_alternatives_fit(void **state)
{
	char long_id[64];
	char *ids[300];
	struct error err;

	(void)state;
	memset(long_id, 'e', sizeof(long_id) - 1);
	long_id[sizeof(long_id) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = long_id;
	host_execution_deny("e", "", NULL, ids, ARRAY_SIZE(ids), &err);
	assert_non_null(strstr(err.remedy, " and 299 more"));
	assert_non_null(strstr(err.remedy, "and restart"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_only_tightens),
		cmocka_unit_test(a_denial_names_the_way_out),
		cmocka_unit_test(many_alternatives_fit),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
