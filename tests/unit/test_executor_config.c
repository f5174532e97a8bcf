#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/executor.h"
#include "core/executor_config.h"
#include "core/json.h"
#include "core/owner.h"

/* A driver with two keys of its own: one is required, one has a default that is left out. */
static int check_keys(struct driver *d, struct json_object *config, json_t **ret_options,
		      struct error *err)
{
	AUTO_JSON json_t *options = json_object();
	const char *image = NULL;
	int64_t size = 0;

	(void)d;
	int r = json_object_string(config, "image", &image, err);
	if (r == 0) {
		r = error_set(err, EINVAL, "is missing");
		error_field(err, "image");
	}
	if (r >= 0)
		r = json_object_int64(config, "size", &size, err);
	if (r < 0)
		return r;
	if (!options || json_put_string(options, "image", image) < 0 ||
	    json_put_int_if(options, "size", size) < 0)
		return error_oom(err);
	*ret_options = take_ptr(options);
	return 0;
}

static int probe(struct driver *d, const struct executor_probe *p, executor_probe_fn *done, void *user,
		 struct error *err)
{
	(void)d;
	(void)p;
	(void)done;
	(void)user;
	return error_set(err, ENOSYS, "nobody asks");
}

static struct driver_ops plain_ops = {.kind = "x", .probe = probe};
static struct driver plain = {.ops = &plain_ops};
static struct driver_ops keyed_ops = {.kind = "keyed", .config_check = check_keys};
static struct driver keyed = {.ops = &keyed_ops};
static struct driver *const drivers[] = {&plain, &keyed, NULL};

static void configs_are_read_and_written_back(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"{\"kind\":\"x\"}", "{\"kind\":\"x\"}"},
		{" {\"max_concurrent\": 3, \"kind\": \"x\", \"labels\": {\"b\":\"2\",\"a\":\"1\"}} ",
		 "{\"kind\":\"x\",\"labels\":{\"a\":\"1\",\"b\":\"2\"},\"max_concurrent\":3}"},
		{"{\"kind\":\"x\",\"labels\":{},\"max_concurrent\":0,\"log_quota_bytes\":4096}",
		 "{\"kind\":\"x\",\"log_quota_bytes\":4096}"},
		{"{\"kind\":\"x\",\"labels\":null}", "{\"kind\":\"x\"}"},
		{"{\"memory_mb\":16,\"container_runtimes\":[\"kata\"],\"harnesses\":[\"b\",\"A\",\"b\"],"
		 "\"kind\":\"x\"}",
		 "{\"kind\":\"x\",\"harnesses\":[\"A\",\"b\"],\"container_runtimes\":[\"kata\"],"
		 "\"memory_mb\":16}"},
		{"{\"kind\":\"x\",\"harnesses\":[],\"container_runtimes\":null,\"memory_mb\":0}",
		 "{\"kind\":\"x\"}"},
		{"{\"kind\":\"x\",\"health_check\":{\"timeout_ms\":7,\"argv\":[\"/bin/sh\",\"-c\",\"\"]}}",
		 "{\"kind\":\"x\",\"health_check\":{\"argv\":[\"/bin/sh\",\"-c\",\"\"],\"timeout_ms\":7}}"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[\"true\"],\"timeout_ms\":null}}",
		 "{\"kind\":\"x\",\"health_check\":{\"argv\":[\"true\"]}}"},
		{"{\"kind\":\"x\",\"health_check\":null}", "{\"kind\":\"x\"}"},
		{"{\"size\":7,\"image\":\"i\",\"memory_mb\":1073741824,\"kind\":\"keyed\"}",
		 "{\"kind\":\"keyed\",\"memory_mb\":1073741824,\"image\":\"i\",\"size\":7}"},
		{"{\"size\":0,\"image\":\"i\",\"kind\":\"keyed\"}",
		 "{\"kind\":\"keyed\",\"image\":\"i\"}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_EXECUTOR_CONFIG struct executor_config c = {0}, again = {0};
		struct error err;

		assert_int_equal(executor_config_parse(cases[i].in, strlen(cases[i].in), drivers, &c, &err),
				 0);
		AUTO_FREE char *text = executor_config_text(&c);
		assert_string_equal(text, cases[i].want);
		assert_int_equal(executor_config_parse(text, strlen(text), drivers, &again, &err), 0);
		AUTO_FREE char *twice = executor_config_text(&again);
		assert_string_equal(twice, text);
	}
}

static void wrong_configs_name_the_field(void **state)
{
	static const struct {
		const char *in, *field;
	} cases[] = {
		{"{}", "kind"},
		{"{\"kind\":7}", "kind"},
		{"{\"kind\":\"y\"}", "kind"},
		{"{\"kind\":\"y\",\"odd\":1}", "kind"},
		{"{\"kind\":\"x\",\"health_check\":[]}", "health_check"},
		{"{\"kind\":\"x\",\"health_check\":{}}", "health_check.argv"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[]}}", "health_check.argv"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[\" \"]}}", "health_check.argv"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[1]}}", "health_check.argv[0]"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":\"/bin/true\"}}", "health_check.argv"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[\"a\"],\"timeout_ms\":0}}",
		 "health_check.timeout_ms"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[\"a\"],\"timeout_ms\":600001}}",
		 "health_check.timeout_ms"},
		{"{\"kind\":\"x\",\"health_check\":{\"argv\":[\"a\"],\"user\":\"x\"}}",
		 "health_check.user"},
		{"{\"kind\":\"keyed\",\"image\":\"i\",\"health_check\":{\"argv\":[\"a\"]}}",
		 "health_check"},
		{"{\"kind\":\"x\",\"max_concurrent\":-1}", "max_concurrent"},
		{"{\"kind\":\"x\",\"max_concurrent\":1000001}", "max_concurrent"},
		{"{\"kind\":\"x\",\"max_concurrent\":1.5}", "max_concurrent"},
		{"{\"kind\":\"x\",\"log_quota_bytes\":4095}", "log_quota_bytes"},
		{"{\"kind\":\"x\",\"log_quota_bytes\":1099511627777}", "log_quota_bytes"},
		{"{\"kind\":\"x\",\"labels\":[]}", "labels"},
		{"{\"kind\":\"x\",\"labels\":{\"a\":1}}", "labels.a"},
		{"{\"kind\":\"x\",\"harnesses\":\"a\"}", "harnesses"},
		{"{\"kind\":\"x\",\"harnesses\":[\"a\",7]}", "harnesses[1]"},
		{"{\"kind\":\"x\",\"harnesses\":[\"a\",\"\"]}", "harnesses[1]"},
		{"{\"kind\":\"x\",\"harnesses\":[\" a\"]}", "harnesses[0]"},
		{"{\"kind\":\"x\",\"container_runtimes\":[\"a\\nb\"]}", "container_runtimes[0]"},
		{"{\"kind\":\"x\",\"container_runtimes\":{}}", "container_runtimes"},
		{"{\"kind\":\"x\",\"memory_mb\":-1}", "memory_mb"},
		{"{\"kind\":\"x\",\"memory_mb\":1073741825}", "memory_mb"},
		{"{\"kind\":\"x\",\"memory_mb\":\"2g\"}", "memory_mb"},
		{"{\"kind\":\"x\",\"image\":\"y\"}", "image"},
		{"{\"kind\":\"keyed\"}", "image"},
		{"{\"kind\":\"keyed\",\"image\":\"y\",\"size\":\"big\"}", "size"},
		{"{\"kind\":\"keyed\",\"image\":\"y\",\"odd\":null}", "odd"},
		{"[]", ""},
		{"{\"kind\":\"x\",\"kind\":\"x\"}", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct executor_config c = {.max_concurrent = 42};
		struct error err;

		assert_int_equal(executor_config_parse(cases[i].in, strlen(cases[i].in), drivers, &c, &err),
				 -EINVAL);
		assert_string_equal(err.field, cases[i].field);
		assert_int_equal(c.max_concurrent, 42);
	}
}

static void an_unknown_kind_is_answered_with_those_that_there_are(void **state)
{
	static const char text[] = "{\"kind\":\"y\"}";
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0};
	struct error err;

	(void)state;
	assert_int_equal(executor_config_parse(text, strlen(text), drivers, &c, &err), -EINVAL);
	assert_string_equal(err.remedy, "write one of: x, keyed");
}

/* A list of n names of `bytes` bytes each, all different. */
static int parse_list(size_t n, size_t bytes)
{
	AUTO_JSON json_t *o = json_pack("{s:s,s:[]}", "kind", "x", "harnesses");
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0};
	char name[512];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%0*zu", (int)bytes, i);
		json_array_append_new(json_object_get(o, "harnesses"), json_string(name));
	}
	AUTO_FREE char *text = json_text(o);
	return executor_config_parse(text, strlen(text), drivers, &c, NULL);
}

static void lists_have_an_end(void **state)
{
	(void)state;
	assert_int_equal(parse_list(EXECUTOR_LIST_MAX, EXECUTOR_LIST_TEXT_BYTES_MAX), 0);
	assert_int_equal(parse_list(EXECUTOR_LIST_MAX + 1, 4), -EINVAL);
	assert_int_equal(parse_list(1, EXECUTOR_LIST_TEXT_BYTES_MAX + 1), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configs_are_read_and_written_back),
		cmocka_unit_test(wrong_configs_name_the_field),
		cmocka_unit_test(an_unknown_kind_is_answered_with_those_that_there_are),
		cmocka_unit_test(lists_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
