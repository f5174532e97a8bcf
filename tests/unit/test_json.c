#include "tests/unit/test.h"

#include <string.h>

#include "core/json.h"

static json_t *parse(const char *text)
{
	json_t *value = NULL;

	assert_int_equal(json_parse(text, strlen(text), &value, NULL), 0);
	return value;
}

static void documents_are_strict(void **state)
{
	static const char *const bad[] = {
		"", "{", "{} x", "{\"a\":1,\"a\":2}", "{\"a\":\"\\u0000\"}", "[1,]", "{'a':1}", "nul",
		"{\"a\":\"\xff\"}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *value = NULL;
		struct error err;

		assert_int_equal(json_parse(bad[i], strlen(bad[i]), &value, &err), -EINVAL);
		assert_null(value);
		assert_true(err.reason[0] != '\0');
	}
}

static void a_nul_ends_nothing(void **state)
{
	/* The parser alone would pass over a NUL that follows a number or a word. */
	static const char number[] = "{\"a\":1\0}", word[] = "{\"a\":true\0}", end[] = "{}\0";
	json_t *value = NULL;

	(void)state;
	assert_int_equal(json_parse(number, sizeof(number) - 1, &value, NULL), -EINVAL);
	assert_int_equal(json_parse(word, sizeof(word) - 1, &value, NULL), -EINVAL);
	assert_int_equal(json_parse(end, sizeof(end) - 1, &value, NULL), -EINVAL);
	assert_int_equal(json_parse(NULL, 0, &value, NULL), -EINVAL);
	assert_null(value);
}

static void fields_have_types_and_paths(void **state)
{
	AUTO_JSON json_t *v = parse("{\"s\":\"x\",\"n\":7,\"b\":true,\"z\":null,\"t\":\"soon\"}");
	struct json_object o;
	struct error err;
	const char *s = NULL;
	int64_t n = 0, t = 0;
	bool b = false;

	(void)state;
	assert_int_equal(json_object_begin(&o, v, "top", &err), 0);
	assert_int_equal(json_object_string(&o, "s", &s, &err), 1);
	assert_string_equal(s, "x");
	assert_int_equal(json_object_int64(&o, "n", &n, &err), 1);
	assert_int_equal(n, 7);
	assert_int_equal(json_object_end(&o, &err), -EINVAL);
	assert_string_equal(err.field, "top.b");
	assert_int_equal(json_object_bool(&o, "b", &b, &err), 1);
	assert_true(b);
	assert_int_equal(json_object_string(&o, "z", &s, &err), 0);
	assert_int_equal(json_object_time(&o, "t", &t, &err), -EINVAL);
	assert_string_equal(err.field, "top.t");
	assert_int_equal(json_object_end(&o, &err), 0);
	assert_int_equal(json_object_int64(&o, "s", &n, &err), -EINVAL);
	assert_string_equal(err.reason, "must be a whole number, not a string");
}

static void what_another_parser_let_through(void **state)
{
	static const char text[] = "{\"s\":\"a\\u0000b\"}";
	AUTO_JSON json_t *v = json_loadb(text, sizeof(text) - 1, JSON_ALLOW_NUL, NULL);
	struct json_object o;
	const char *s = NULL;
	struct error err;

	(void)state;
	assert_int_equal(json_object_begin(&o, NULL, "top", &err), -EINVAL);
	assert_string_equal(err.field, "top");
	assert_int_equal(json_object_begin(&o, v, "top", &err), 0);
	assert_int_equal(json_object_string(&o, "s", &s, &err), -EINVAL);
	assert_string_equal(err.field, "top.s");
	assert_null(s);
}

static void empty_values_are_left_out(void **state)
{
	AUTO_JSON json_t *v = json_object();

	(void)state;
	assert_int_equal(json_put_string_if(v, "a", ""), 0);
	assert_int_equal(json_put_int_if(v, "b", 0), 0);
	assert_int_equal(json_put_bool_if(v, "c", false), 0);
	assert_int_equal(json_put_time_if(v, "d", 0), 0);
	assert_int_equal(json_put_string(v, "e", "/x\xc3\xa9"), 0);
	assert_int_equal(json_put_time_if(v, "f", 1), 0);

	AUTO_FREE char *text = json_text(v);
	assert_string_equal(text, "{\"e\":\"/x\xc3\xa9\",\"f\":\"1970-01-01T00:00:00.000000001Z\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_are_strict),
		cmocka_unit_test(a_nul_ends_nothing),
		cmocka_unit_test(fields_have_types_and_paths),
		cmocka_unit_test(what_another_parser_let_through),
		cmocka_unit_test(empty_values_are_left_out),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
