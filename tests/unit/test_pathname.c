#include "tests/unit/test.h"

#include <string.h>

#include "core/pathname.h"

static void cleaning(void **state)
{
	static const struct {
		const char *path, *clean;
	} rows[] = {
		{"", "."},           {".", "."},
		{"/", "/"},          {"//", "/"},
		{"a", "a"},          {"a/", "a"},
		{"a//b", "a/b"},     {"./a", "a"},
		{"a/.", "a"},        {"a/..", "."},
		{"a/../..", ".."},   {"..", ".."},
		{"../a", "../a"},    {"../../a", "../../a"},
		{"../a/..", ".."},   {"/..", "/"},
		{"/../a", "/a"},     {"/a/b/../c", "/a/c"},
		{"/a/../..", "/"},   {"a/b/../../..", ".."},
		{"...", "..."},      {"a/.../b", "a/.../b"},
		{"/a/./b/", "/a/b"}, {"a/../../b/..", ".."},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = strlen(rows[i].path);
		AUTO_FREE char *clean = pathname_clean(rows[i].path, len);

		assert_string_equal(clean, rows[i].clean);
		assert_int_equal(pathname_is_clean(rows[i].path, len),
				 strcmp(rows[i].path, rows[i].clean) == 0);
		assert_true(pathname_is_clean(clean, strlen(clean)));
	}
}

static void joining(void **state)
{
	static const struct {
		const char *dir, *name, *path;
	} rows[] = {
		{"", "", ""},         {"", "n", "n"},   {"/d", "", "/d"},     {"/d", "n", "/d/n"},
		{"/d/", "n", "/d/n"}, {"/", "n", "/n"}, {"/d", "../n", "/n"}, {"d", "..", "."},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *path = pathname_join(rows[i].dir, rows[i].name);

		assert_string_equal(path, rows[i].path);
	}
}

static void dotdot_is_an_element(void **state)
{
	(void)state;
	assert_true(pathname_has_dotdot("..", 2));
	assert_true(pathname_has_dotdot("a/../b", 6));
	assert_true(pathname_has_dotdot("a/..", 4));
	assert_false(pathname_has_dotdot("a..b", 4));
	assert_false(pathname_has_dotdot(".../a", 5));
	assert_false(pathname_has_dotdot("", 0));
}

static void below_is_by_elements(void **state)
{
	(void)state;
	assert_true(pathname_is_below("/a/b", "/a/b"));
	assert_true(pathname_is_below("/a/b/c", "/a/b"));
	assert_false(pathname_is_below("/a/bc", "/a/b"));
	assert_false(pathname_is_below("/a", "/a/b"));
}

static void elements_keep_the_empty_ones(void **state)
{
	static const char *const want[] = {"", "a", "", "b", ""};
	const char *path = "/a//b/", *element;
	size_t pos = 0, len, n = 0;

	(void)state;
	while (pathname_element(path, strlen(path), &pos, &element, &len)) {
		assert_true(n < ARRAY_SIZE(want));
		assert_int_equal(len, strlen(want[n]));
		assert_memory_equal(element, want[n], len);
		n++;
	}
	assert_int_equal(n, ARRAY_SIZE(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cleaning),
		cmocka_unit_test(joining),
		cmocka_unit_test(dotdot_is_an_element),
		cmocka_unit_test(below_is_by_elements),
		cmocka_unit_test(elements_keep_the_empty_ones),
	};

	return cmocka_run_group_tests_name("pathname", tests, NULL, NULL);
}
