#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/requirements.h"

static void documents_are_read_and_written_back(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"{}", "{}"},
		{" {\"executor_id\": null, \"labels\": {}, \"harnesses\": [], \"min_memory_mb\": 0} ", "{}"},
		{"{\"labels\":{\"z\":\"1\",\"a\":\"2\"},\"executor_id\":\"n\"}",
		 "{\"executor_id\":\"n\",\"labels\":{\"a\":\"2\",\"z\":\"1\"}}"},
		{"{\"harnesses\":[\"b\",\"a\"],\"min_memory_mb\":1024,\"arch\":\"amd64\",\"platform\":\"linux\"}",
		 "{\"harnesses\":[\"b\",\"a\"],\"platform\":\"linux\",\"arch\":\"amd64\",\"min_memory_mb\":1024}"},
		{"{\"allowed_isolations\":[\"vm\",\"container\",\"vm\"]}",
		 "{\"allowed_isolations\":[\"container\",\"vm\"]}"},
		{"{\"require_isolation\":true,\"require_signal\":false}", "{\"require_isolation\":true}"},
		{"{\"ignore_capacity\":true,\"forbid_degraded\":true}",
		 "{\"forbid_degraded\":true,\"ignore_capacity\":true}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_REQUIREMENTS struct requirements q = {0}, again = {0};
		struct error err;

		assert_int_equal(requirements_parse(cases[i].in, strlen(cases[i].in), &q, &err), 0);
		AUTO_FREE char *text = requirements_text(&q);
		assert_string_equal(text, cases[i].want);
		assert_int_equal(requirements_is_zero(&q), strcmp(text, "{}") == 0);
		assert_int_equal(requirements_parse(text, strlen(text), &again, &err), 0);
		AUTO_FREE char *second = requirements_text(&again);
		assert_string_equal(second, text);
	}
}

static void every_flag_is_a_field(void **state)
{
	static const char *const flags[] = {
		"require_isolation", "require_virtualization", "require_container_runtime",
		"require_network_egress", "require_resource_limits", "require_image_override",
		"require_sandbox_build", "require_sandbox_mounts", "require_host_mounts",
		"require_workspace_provisioning", "require_host_filesystem_workspace",
		"require_write_back", "require_secret_files", "require_revocation", "require_stream",
		"require_signal", "forbid_degraded", "ignore_capacity",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		AUTO_REQUIREMENTS struct requirements q = {0};
		char in[64];

		(void)snprintf(in, sizeof(in), "{\"%s\":true}", flags[i]);
		assert_int_equal(requirements_parse(in, strlen(in), &q, NULL), 0);
		AUTO_FREE char *text = requirements_text(&q);
		assert_string_equal(text, in);
	}
}

static void wrong_documents_name_the_field(void **state)
{
	static const struct {
		const char *in, *field;
	} cases[] = {
		{"[]", ""},
		{"{\"require_isolated\":true}", "require_isolated"},
		{"{\"RequireIsolation\":true}", "RequireIsolation"},
		{"{\"require_isolation\":1}", "require_isolation"},
		{"{\"labels\":{\"a\":1}}", "labels.a"},
		{"{\"labels\":{\"\":\"x\"}}", "labels"},
		{"{\"harnesses\":\"x\"}", "harnesses"},
		{"{\"harnesses\":[\"x\",7]}", "harnesses[1]"},
		{"{\"harnesses\":[\"x\",\" \"]}", "harnesses[1]"},
		{"{\"allowed_isolations\":[\"vm\",\"jail\"]}", "allowed_isolations[1]"},
		{"{\"allowed_isolations\":[\"\"]}", "allowed_isolations[0]"},
		{"{\"min_memory_mb\":-1}", "min_memory_mb"},
		{"{\"min_memory_mb\":1.5}", "min_memory_mb"},
		{"{\"arch\":{}}", "arch"},
		{"{\"arch\":\"a\",\"arch\":\"b\"}", ""},
		{"{\"executor_id\":\"a\\u0000b\"}", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct requirements q = {.min_memory_mb = 42};
		struct error err = {0};

		assert_int_equal(requirements_parse(cases[i].in, strlen(cases[i].in), &q, &err), -EINVAL);
		if (strncmp(err.field, cases[i].field, strlen(cases[i].field)) != 0)
			fail_msg("%s: %s", cases[i].in, err.field);
		assert_int_equal(q.min_memory_mb, 42);
	}
}

static void requests_have_three_forms(void **state)
{
#define SPEC "{\"argv\":[\"x\"],\"image\":\"i\"}"
	static const struct {
		const char *in;
		enum placement_request_form form;
		bool spec;
		const char *want;
	} cases[] = {
		{"{}", PLACEMENT_REQUEST_WHOLE, false, "{}"},
		{"{\"spec\":null,\"requirements\":{\"arch\":\"a\"}}", PLACEMENT_REQUEST_WHOLE, false,
		 "{\"arch\":\"a\"}"},
		{"{\"spec\":" SPEC "}", PLACEMENT_REQUEST_WHOLE, true, "{\"require_image_override\":true}"},
		{"{\"spec\":" SPEC ",\"requirements\":{\"arch\":\"a\",\"require_signal\":true}}",
		 PLACEMENT_REQUEST_START, true,
		 "{\"arch\":\"a\",\"require_image_override\":true,\"require_signal\":true}"},
		{SPEC, PLACEMENT_REQUEST_START, true, "{\"require_image_override\":true}"},
		{"{\"argv\":[\"x\"]}", PLACEMENT_REQUEST_START, true, "{}"},
		{"{\"arch\":\"a\"}", PLACEMENT_REQUEST_CHECK, false, "{\"arch\":\"a\"}"},
		{"{\"spec\":" SPEC "}", PLACEMENT_REQUEST_CHECK, true, "{\"require_image_override\":true}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_PLACEMENT_REQUEST struct placement_request q = {0};
		struct error err;

		assert_int_equal(placement_request_parse(cases[i].in, strlen(cases[i].in), cases[i].form, &q,
							 &err),
				 0);
		assert_int_equal(q.spec != NULL, cases[i].spec);
		AUTO_FREE char *text = requirements_text(&q.requirements);
		assert_string_equal(text, cases[i].want);
	}
}

static void wrong_requests_name_the_field(void **state)
{
	static const struct {
		const char *in;
		enum placement_request_form form;
		const char *field;
		enum error_kind kind;
	} cases[] = {
		{"{\"arch\":\"a\"}", PLACEMENT_REQUEST_WHOLE, "arch", ERROR_KIND_NONE},
		{SPEC, PLACEMENT_REQUEST_WHOLE, "argv", ERROR_KIND_NONE},
		{"{\"spec\":" SPEC ",\"requirement\":{}}", PLACEMENT_REQUEST_START, "requirement",
		 ERROR_KIND_NONE},
		{"{\"requirements\":{}}", PLACEMENT_REQUEST_START, "spec", ERROR_KIND_NONE},
		{"{\"spec\":null}", PLACEMENT_REQUEST_START, "spec", ERROR_KIND_NONE},
		{"{\"spec\":{\"argv\":[]}}", PLACEMENT_REQUEST_START, "spec.argv", ERROR_INVALID_SPEC},
		{"{\"spec\":{\"argv\":[\"x\"],\"mounts\":[{\"sorce\":\"a\"}]}}", PLACEMENT_REQUEST_WHOLE,
		 "spec.mounts[0].sorce", ERROR_INVALID_SPEC},
		{"{\"argv\":[\"x\"],\"work_dir\":\"x\"}", PLACEMENT_REQUEST_START, "work_dir",
		 ERROR_INVALID_SPEC},
		{"{\"requirements\":{\"labels\":[]}}", PLACEMENT_REQUEST_WHOLE, "requirements.labels",
		 ERROR_KIND_NONE},
		{"{\"requirements\":{\"min_memory_mb\":-1}}", PLACEMENT_REQUEST_CHECK,
		 "requirements.min_memory_mb", ERROR_KIND_NONE},
		{"{\"requirements\":[]}", PLACEMENT_REQUEST_WHOLE, "requirements", ERROR_KIND_NONE},
		{"[]", PLACEMENT_REQUEST_CHECK, "", ERROR_KIND_NONE},
		{"{\"arch\":\"a\",\"argv\":[\"x\"]}", PLACEMENT_REQUEST_CHECK, "argv", ERROR_KIND_NONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct placement_request q = {.whole = true};
		struct error err = {0};

		assert_int_equal(placement_request_parse(cases[i].in, strlen(cases[i].in), cases[i].form, &q,
							 &err),
				 -EINVAL);
		if (strcmp(err.field, cases[i].field) != 0 || err.kind != cases[i].kind)
			fail_msg("%s: %s: %s", cases[i].in, err.field, err.reason);
		assert_true(q.whole && !q.spec);
	}
}

static void needs_are_what_holds_anywhere(void **state)
{
	static const char in[] = "{\"executor_id\":\"n\",\"labels\":{\"a\":\"b\"},\"harnesses\":[\"h\"],"
				 "\"arch\":\"x\",\"min_memory_mb\":7,\"allowed_isolations\":[\"vm\"],"
				 "\"require_signal\":true,\"ignore_capacity\":true}";
	AUTO_REQUIREMENTS struct requirements q = {0};
	struct requirements needs;

	(void)state;
	assert_int_equal(requirements_parse(in, strlen(in), &q, NULL), 0);
	requirements_needs(&q, &needs);
	AUTO_FREE char *text = requirements_text(&needs);
	assert_string_equal(text, "{\"allowed_isolations\":[\"vm\"],\"require_signal\":true}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_are_read_and_written_back),
		cmocka_unit_test(every_flag_is_a_field),
		cmocka_unit_test(wrong_documents_name_the_field),
		cmocka_unit_test(requests_have_three_forms),
		cmocka_unit_test(wrong_requests_name_the_field),
		cmocka_unit_test(needs_are_what_holds_anywhere),
	};

	return cmocka_run_group_tests_name("requirements", tests, NULL, NULL);
}
