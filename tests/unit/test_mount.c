#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/mount.h"

struct row {
	const char *source, *target;
	const char *field; /* NULL: accepted */
};

static char long_path[MOUNT_PATH_BYTES_MAX + 2];

static void spec_mounts(void **state)
{
	static const struct row rows[] = {
		{"a", "/m", NULL},
		{".", "/m", NULL},
		{"a/b", "/m/n", NULL},
		{" a ", "\t/m\n", NULL},
		{"\xc2\xa0"
		 "a",
		 "/m\xe3\x80\x80", NULL},
		{"a b", "/m n", NULL},
		{"...", "/...", NULL},
		{"\xc3\xa9", "/\xc3\xa9", NULL},
		{"", "/m", "m[0].source"},
		{"  ", "/m", "m[0].source"},
		{"/a", "/m", "m[0].source"},
		{" /a", "/m", "m[0].source"},
		{"..", "/m", "m[0].source"},
		{"../a", "/m", "m[0].source"},
		{"a/../b", "/m", "m[0].source"},
		{"a/..", "/m", "m[0].source"},
		{"a/", "/m", "m[0].source"},
		{"./a", "/m", "m[0].source"},
		{"a//b", "/m", "m[0].source"},
		{"a:ro", "/m", "m[0].source"},
		{"a\\b", "/m", "m[0].source"},
		{"a\nb", "/m", "m[0].source"},
		{"a\rb", "/m", "m[0].source"},
		{long_path, "/m", "m[0].source"},
		{"a", "", "m[0].target"},
		{"a", "m", "m[0].target"},
		{"a", "/", "m[0].target"},
		{"a", "/m/", "m[0].target"},
		{"a", "/m/../n", "m[0].target"},
		{"a", "/..", "m[0].target"},
		{"a", "//m", "m[0].target"},
		{"a", "/m:rw", "m[0].target"},
		{"a", "/m\\n", "m[0].target"},
		{"a", "/m\nn", "m[0].target"},
		{NULL, NULL, "m[0].source"},
	};

	(void)state;
	memset(long_path, 'a', sizeof(long_path) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct spec_mount m = {(char *)rows[i].source, (char *)rows[i].target, false};
		struct error err = {0};
		int r = spec_mounts_validate(&m, 1, "m", &err);

		if (!rows[i].field) {
			assert_int_equal(r, 0);
			continue;
		}
		assert_int_equal(r, -EINVAL);
		assert_int_equal(err.kind, ERROR_INVALID_SPEC);
		assert_string_equal(err.field, rows[i].field);
	}
}

static void host_mounts(void **state)
{
	static const struct row rows[] = {
		{"/s", "/m", NULL},
		{" /s ", " /m ", NULL},
		{"/", "/m", NULL},
		{"/s/..a", "/m/a..", NULL},
		{"s", "/m", "m[0].source"},
		{"", "/m", "m[0].source"},
		{"/s/", "/m", "m[0].source"},
		{"/s/../t", "/m", "m[0].source"},
		{"/s:/t", "/m", "m[0].source"},
		{"/s\\t", "/m", "m[0].source"},
		{"/s\nt", "/m", "m[0].source"},
		{"/s", "m", "m[0].target"},
		{"/s", "/", "m[0].target"},
		{"/s", "/m//n", "m[0].target"},
		{"/s", "/m:ro", "m[0].target"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct host_mount m = {NULL, (char *)rows[i].source, (char *)rows[i].target, false};
		struct error err = {0};
		int r = host_mounts_validate(&m, 1, "m", &err);

		assert_int_equal(r, rows[i].field ? -EINVAL : 0);
		if (rows[i].field)
			assert_string_equal(err.field, rows[i].field);
	}
}

static void one_target_once(void **state)
{
	struct spec_mount s[] = {{(char *)"a", (char *)"/m", false},
				 {(char *)"b", (char *)"/m/b", false},
				 {(char *)"c", (char *)" /m ", true}};
	struct host_mount h[] = {{(char *)"x", (char *)"/a", (char *)"/m", false},
				 {(char *)"x", (char *)"/b", (char *)"/m\n", false}};
	struct error err;

	(void)state;
	assert_int_equal(spec_mounts_validate(s, 2, "mounts", &err), 0);
	assert_int_equal(spec_mounts_validate(s, 3, "mounts", &err), -EINVAL);
	assert_string_equal(err.field, "mounts[2].target");
	assert_string_equal(err.reason, "is also the target of entry 0");
	assert_int_equal(host_mounts_validate(h, 2, "host_mounts", &err), -EINVAL);
	assert_string_equal(err.field, "host_mounts[1].target");
}

static void lists_are_bounded(void **state)
{
	struct spec_mount s[MAX_SPEC_MOUNTS + 1];
	struct host_mount h[MAX_HOST_MOUNTS + 1];
	char targets[MAX_HOST_MOUNTS + 1][16];
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(h); i++) {
		(void)snprintf(targets[i], sizeof(targets[i]), "/m/%zu", i);
		h[i] = (struct host_mount){(char *)"", (char *)"/s", targets[i], true};
		if (i < ARRAY_SIZE(s))
			s[i] = (struct spec_mount){(char *)"a", targets[i], true};
	}
	assert_int_equal(spec_mounts_validate(s, MAX_SPEC_MOUNTS, "mounts", &err), 0);
	assert_int_equal(spec_mounts_validate(s, MAX_SPEC_MOUNTS + 1, "mounts", &err), -EINVAL);
	assert_string_equal(err.field, "mounts");
	assert_int_equal(host_mounts_validate(h, MAX_HOST_MOUNTS, "h", &err), 0);
	assert_int_equal(host_mounts_validate(h, MAX_HOST_MOUNTS + 1, "h", &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_mounts),
		cmocka_unit_test(host_mounts),
		cmocka_unit_test(one_target_once),
		cmocka_unit_test(lists_are_bounded),
	};

	return cmocka_run_group_tests_name("mount", tests, NULL, NULL);
}
