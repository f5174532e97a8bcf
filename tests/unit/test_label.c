#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/json.h"
#include "core/label.h"

static char key_fits[LABEL_KEY_BYTES_MAX + 1], key_over[LABEL_KEY_BYTES_MAX + 2];
static char value_fits[LABEL_VALUE_BYTES_MAX + 1], value_over[LABEL_VALUE_BYTES_MAX + 2];

static void bounds(void **state)
{
	static const struct {
		const char *key, *value;
		bool ok;
	} rows[] = {
		{"k", "v", true},         {"k", "", true},          {"k", "a\nb=c", true},
		{key_fits, "v", true},    {"k", value_fits, true},  {"cloop.session", "x", true},
		{key_over, "v", false},   {"k", value_over, false}, {"", "v", false},
		{"\xc2\xa0", "v", false}, {"a=b", "v", false},      {"a\tb", "v", false},
		{"a\x7f", "v", false},
	};

	(void)state;
	memset(key_fits, 'k', sizeof(key_fits) - 1);
	memset(key_over, 'k', sizeof(key_over) - 1);
	memset(value_fits, 'v', sizeof(value_fits) - 1);
	memset(value_over, 'v', sizeof(value_over) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct spec_label l = {(char *)rows[i].key, (char *)rows[i].value};

		assert_int_equal(labels_validate(&l, 1, "labels", NULL), rows[i].ok ? 0 : -EINVAL);
	}
}

static void a_list_is_bounded_and_sorted(void **state)
{
	AUTO_JSON json_t *o = json_object();
	struct spec_label *labels;
	char key[32];
	size_t n;

	(void)state;
	for (int i = 0; i <= LABELS_MAX; i++) {
		(void)snprintf(key, sizeof(key), "k%d", (i * 37) % (LABELS_MAX + 1));
		json_object_set_new(o, key, json_string(key));
	}
	assert_int_equal(labels_from_json(o, "labels", &labels, &n, NULL), 0);
	assert_int_equal(n, LABELS_MAX + 1);
	for (size_t i = 1; i < n; i++)
		assert_true(strcmp(labels[i - 1].key, labels[i].key) < 0);
	assert_string_equal(labels_get(labels, n, "k100"), "k100");
	assert_null(labels_get(labels, n, "k"));
	assert_int_equal(labels_validate(labels, n, "labels", NULL), -EINVAL);
	assert_int_equal(labels_validate(labels, LABELS_MAX, "labels", NULL), 0);
	labels_free(labels, n);
}

static void a_nul_is_refused(void **state)
{
	static const char text[] = "{\"a\":\"b\\u0000c\"}";
	AUTO_JSON json_t *o = json_loadb(text, sizeof(text) - 1, JSON_ALLOW_NUL, NULL);
	struct spec_label *labels = NULL;
	struct error err;
	size_t n = 0;

	(void)state;
	assert_int_equal(labels_from_json(o, "labels", &labels, &n, &err), -EINVAL);
	assert_string_equal(err.field, "labels.a");
	assert_null(labels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),
		cmocka_unit_test(a_list_is_bounded_and_sorted),
		cmocka_unit_test(a_nul_is_refused),
	};

	return cmocka_run_group_tests_name("label", tests, NULL, NULL);
}
