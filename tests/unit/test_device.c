#include "tests/unit/test.h"

#include <string.h>

#include "core/device.h"

static void names(void **state)
{
	static const struct {
		const char *path, *name;
	} rows[] = {
		{"/srv/projects/shop", "shop-4e4ff75c"},
		{"/srv/projects/shop/", "shop-4e4ff75c"},
		{"/srv/./projects//x/../shop", "shop-4e4ff75c"},
		{"a/b/../c", "a/b/../c"},
		{"", ""},
		{" /srv/x", " /srv/x"},
		{"/srv/+++", "project-3694cfe8"},
		{"/", "project-8a5edab2"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *name = device_work_dir(rows[i].path);

		assert_string_equal(name, rows[i].name);
	}
}

static void bases(void **state)
{
	static const struct {
		const char *path, *base; /* with the dash before the hash */
	} rows[] = {
		{"/a/my.app v2", "my-app-v2-"},
		{"/a/-x-", "x-"},
		{"/a/_x_", "_x_-"},
		{"/a/n\xc3\xa9on", "n-on-"},
		{"/a/0123456789012345678901234567890123456789012345678901234567890",
		 "012345678901234567890123456789012345678901234567-"},
		{"/a/01234567890123456789012345678901234567890123456++tail",
		 "01234567890123456789012345678901234567890123456-"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *name = device_work_dir(rows[i].path);
		size_t n = strlen(rows[i].base);

		assert_int_equal(strlen(name), n + 8);
		assert_memory_equal(name, rows[i].base, n);
	}
}

static void one_base_name_twice(void **state)
{
	AUTO_FREE char *a = device_work_dir("/one/api");
	AUTO_FREE char *b = device_work_dir("/two/api");

	(void)state;
	assert_string_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(bases),
		cmocka_unit_test(one_base_name_twice),
	};

	return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
