#include "tests/unit/test.h"

#include <string.h>

#include "core/capabilities.h"
#include "core/json.h"

static json_t *parse(const char *text)
{
	json_t *value = NULL;

	assert_int_equal(json_parse(text, strlen(text), &value, NULL), 0);
	return value;
}

static void order_and_omission(void **state)
{
	struct capabilities c = {.isolation = ISOLATION_CONTAINER, .supports_signal = true};

	(void)state;
	AUTO_JSON json_t *v = capabilities_to_json(&c);
	AUTO_FREE char *text = json_text(v);
	assert_string_equal(text,
			    "{\"isolation\":\"container\",\"supports_stream\":false,"
			    "\"supports_signal\":true,\"supports_resource_limits\":false,"
			    "\"shares_host_filesystem\":false,\"network_egress\":false,"
			    "\"filtered_egress\":false,\"supports_image_override\":false,"
			    "\"supports_sandbox_build\":false,"
			    "\"supports_workspace_provisioning\":false,"
			    "\"supports_write_back\":false,\"supports_sandbox_mounts\":false,"
			    "\"supports_host_mounts\":false,\"supports_secret_files\":false}");

	c.virtualized = c.secret_files_from_host_path = true;
	c.max_concurrent = 4;
	c.platform = "linux";
	c.arch = "amd64";
	AUTO_JSON json_t *full = capabilities_to_json(&c);
	struct capabilities back;
	assert_int_equal(capabilities_from_json(full, "", &back, NULL), 0);
	assert_true(back.virtualized && back.secret_files_from_host_path && back.supports_signal);
	assert_false(back.supports_stream);
	assert_int_equal(back.isolation, ISOLATION_CONTAINER);
	assert_int_equal(back.max_concurrent, 4);
	assert_string_equal(back.arch, "amd64");
}

static void isolation(void **state)
{
	(void)state;
	assert_true(isolation_isolates_from_host(ISOLATION_CONTAINER));
	assert_true(isolation_isolates_from_host(ISOLATION_VM));
	assert_true(isolation_isolates_from_host(ISOLATION_REMOTE));
	assert_false(isolation_isolates_from_host(ISOLATION_NONE));
	assert_false(isolation_isolates_from_host(ISOLATION_UNDECLARED));
	assert_false(isolation_isolates_from_host(isolation_parse("hypervisor")));
	assert_false(isolation_isolates_from_host(isolation_parse("Container")));
	assert_int_equal(isolation_parse(""), ISOLATION_UNDECLARED);
}

static void kata_and_nothing_else(void **state)
{
	static const char *const yes[] = {
		"kata",
		"KATA-QEMU",
		" kata\n",
		"katacontainers",
		"kata-",
		"kata.",
		"kata-fc",
		"io.containerd.kata.v2",
		"IO.CONTAINERD.KATA.V2",
		"a.kata.",
		".kata.",
		/* Lower case takes the Kelvin sign for a k, and a dotted capital I for an i. */
		"\xe2\x84\xaa"
		"ata",
		"KATACONTA\xc4\xb0NERS",
		"x.\xe2\x84\xaa"
		"ATA.v2",
	};
	static const char *const no[] = {
		"",
		" ",
		"katana",
		"kata2",
		"kata_qemu",
		"io.containerd.kata",
		"runc",
		"runsc",
		"my-kata",
		"xkata.v2",
		"katacontainers-x",
		"ka ta",
		"kata qemu",
		".kata",
		"kat\xc3\xa4",
		"kata\xe2\x84\xaa",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(runtime_is_virtualized(yes[i]));
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(runtime_is_virtualized(no[i]));
	assert_false(runtime_is_virtualized(NULL));
	/* A NUL is a character like any other: no name ends there. */
	assert_false(runtime_view_is_virtualized((struct text_view){"kata\0x", 6}));
	assert_false(runtime_view_is_virtualized((struct text_view){"kata\0", 5}));
	assert_true(runtime_view_is_virtualized((struct text_view){"kata-\0", 6}));
}

static void requirements(void **state)
{
	AUTO_JSON json_t *v =
		parse("{\"executor_id\":\"e\",\"labels\":{\"b\":\"2\",\"a\":\"1\"},"
		      "\"harnesses\":[\"x\"],\"platform\":\"linux\",\"arch\":null,"
		      "\"min_memory_mb\":512,\"allowed_isolations\":[\"vm\",\"remote\"],"
		      "\"require_stream\":true,\"forbid_degraded\":true}");
	AUTO_REQUIREMENTS struct requirements q = {0};

	(void)state;
	assert_int_equal(requirements_from_json(v, "", &q, NULL), 0);
	assert_string_equal(q.executor_id, "e");
	assert_int_equal(q.n_labels, 2);
	assert_string_equal(q.labels[0].key, "a");
	assert_string_equal(q.harnesses[0], "x");
	assert_string_equal(q.arch, "");
	assert_int_equal(q.min_memory_mb, 512);
	assert_int_equal(q.allowed_isolations, 1U << ISOLATION_VM | 1U << ISOLATION_REMOTE);
	assert_true(q.require_stream && q.forbid_degraded);
	assert_false(q.require_signal);

	requirements_add_flags(
		&q, &(struct requirements){.require_signal = true, .require_write_back = true});
	assert_true(q.require_stream && q.require_signal && q.require_write_back);

	AUTO_JSON json_t *back = requirements_to_json(&q);
	AUTO_FREE char *text = json_text(back);
	assert_string_equal(text,
			    "{\"executor_id\":\"e\",\"labels\":{\"a\":\"1\",\"b\":\"2\"},"
			    "\"harnesses\":[\"x\"],\"platform\":\"linux\","
			    "\"min_memory_mb\":512,\"allowed_isolations\":[\"vm\",\"remote\"],"
			    "\"require_write_back\":true,\"require_stream\":true,"
			    "\"require_signal\":true,\"forbid_degraded\":true}");
}

static void requirements_are_strict(void **state)
{
	static const struct {
		const char *text, *field;
	} rows[] = {
		{"[]", "requirements"},
		{"{\"require_x\":true}", "requirements.require_x"},
		{"{\"require_stream\":1}", "requirements.require_stream"},
		{"{\"harnesses\":[1]}", "requirements.harnesses[0]"},
		{"{\"labels\":[]}", "requirements.labels"},
		{"{\"labels\":{\"a\":1}}", "requirements.labels.a"},
		{"{\"labels\":{\" \":\"1\"}}", "requirements.labels"},
		{"{\"allowed_isolations\":[\"vm\",\"VM\"]}", "requirements.allowed_isolations[1]"},
		{"{\"allowed_isolations\":[1]}", "requirements.allowed_isolations[0]"},
		{"{\"min_memory_mb\":1.5}", "requirements.min_memory_mb"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON json_t *v = parse(rows[i].text);
		struct requirements q = {.min_memory_mb = 7};
		struct error err;

		assert_int_equal(requirements_from_json(v, "requirements", &q, &err), -EINVAL);
		assert_string_equal(err.field, rows[i].field);
		assert_int_equal(err.kind, ERROR_KIND_NONE);
		assert_int_equal(q.min_memory_mb, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_and_omission),      cmocka_unit_test(isolation),
		cmocka_unit_test(kata_and_nothing_else),   cmocka_unit_test(requirements),
		cmocka_unit_test(requirements_are_strict),
	};

	return cmocka_run_group_tests_name("capabilities", tests, NULL, NULL);
}
