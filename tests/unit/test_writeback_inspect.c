#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/writeback_inspect.h"

static char at_limit[MAX_WRITEBACK_PATH_LEN + 1], over[MAX_WRITEBACK_PATH_LEN + 2];

static void paths(void **state)
{
	static const char *const good[] = {
		"a",
		"lib/util.c",
		"a b",
		".a",
		"a.",
		"a ",
		"...",
		"a..b",
		"..a/b",
		".github/x",
		".gitmodules",
		".gitignore",
		"vendor/x.git/config",
		"git",
		"git~2",
		"git~10",
		".git~2",
		".gitx",
		"x.git",
		"a:b",
		".git-x",
		".gi\xe2\x80\x8bt",
		"\xc3\xa9/\xe2\x98\x83",
		"a\xc2\x80",
		"-x",
		"a\xe2\x80\x8c"
		"b",
		"\xef\xbb\xbf"
		"a",
		".git_",
		"g\xc4\xb1t~1",
		at_limit,
	};
	static const char *const bad[] = {
		"",
		over,
		"/a",
		"/",
		"..",
		"../a",
		"a/..",
		"a/../b",
		"a/",
		"a//b",
		"./a",
		"a/.",
		".",
		"a\\b",
		"a\nb",
		"a\tb",
		"a\x7f",
		"\x01",
		".git",
		".git/config",
		"a/.git",
		"a/.git/hooks/x",
		".GIT/x",
		".Git",
		".git.",
		".git ",
		".git. .",
		".git /x",
		"git~1",
		"GIT~1/x",
		".git~1",
		"git~1.",
		"git~1 ",
		".git:x",
		".git::$INDEX_ALLOCATION/x",
		".git .:x",
		"git~1:x",
		"a/.git::$DATA",
		".g\xe2\x80\x8cit",
		"\xe2\x80\xaa.git",
		".git\xe2\x80\x8f",
		".g\xe2\x81\xaait/x",
		"\xef\xbb\xbf.git",
		".gi\xe2\x80\xaet\xef\xbb\xbf.",
		"g\xe2\x80\x8dit~1",
		/* A dotted capital I is an i in lower case. */
		".G\xc4\xb0T/config",
		"a/g\xc4\xb0t~1",
		".git\xe2\x80\x8c............................................................",
	};

	(void)state;
	memset(at_limit, 'a', sizeof(at_limit) - 1);
	memset(over, 'a', sizeof(over) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct error err = {0};
		int r = writeback_check_path(good[i], strlen(good[i]), &err);

		if (r != 0)
			print_error("%s: %s\n", good[i], err.reason);
		assert_int_equal(r, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = {0};
		int r = writeback_check_path(bad[i], strlen(bad[i]), &err);

		if (r != -EBADMSG)
			print_error("accepted: %s\n", bad[i]);
		assert_int_equal(r, -EBADMSG);
		assert_int_equal(err.kind, ERROR_WRITEBACK_REJECTED);
	}
	assert_int_equal(writeback_check_path("a\0b", 3, NULL), -EBADMSG);
}

static void the_order_of_blame(void **state)
{
	static const struct {
		const char *path, *reason;
	} rows[] = {
		{"/a\n", "control"}, {"/..\\", "backslash"}, {"/../", "absolute"},
		{"a/../", "\"..\""}, {".git/", "not clean"}, {".", "root"},
		{".git", ".git"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err;

		assert_int_equal(writeback_check_path(rows[i].path, strlen(rows[i].path), &err),
				 -EBADMSG);
		assert_non_null(strstr(err.reason, rows[i].reason));
	}
}

static void entries(void **state)
{
	static const struct {
		const char *path, *mode, *target;
		enum writeback_reason code; /* 0: accepted */
	} rows[] = {
		{"a/b.c", MODE_FILE, NULL, 0},
		{"a", MODE_EXEC, NULL, 0},
		{"a", MODE_TREE, NULL, 0},
		{"a", MODE_ABSENT, NULL, 0},
		{"a", MODE_FILE, "/etc/passwd", 0},
		{"m", MODE_SUBMODULE, NULL, WRITEBACK_REASON_MODE},
		{"a", "100664", NULL, WRITEBACK_REASON_MODE},
		{"a", "100600", NULL, WRITEBACK_REASON_MODE},
		{"a", "104755", NULL, WRITEBACK_REASON_MODE},
		{"a", "", NULL, WRITEBACK_REASON_MODE},
		{"a", "40000", NULL, WRITEBACK_REASON_MODE},
		{"a", " 100644", NULL, WRITEBACK_REASON_MODE},
		{".git/config", MODE_ABSENT, NULL, WRITEBACK_REASON_PATH},
		{"../m", MODE_SUBMODULE, NULL, WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "x", 0},
		{"l", MODE_SYMLINK, "a/../x", 0},
		{"l", MODE_SYMLINK, ".", 0},
		{"l", MODE_SYMLINK, "a/..", 0},
		{"l", MODE_SYMLINK, "a/", 0},
		{"docs/l", MODE_SYMLINK, "..", 0},
		{"docs/l", MODE_SYMLINK, "../src/x", 0},
		{"a/b/l", MODE_SYMLINK, "../../c", 0},
		{"l", MODE_SYMLINK, ".github", 0},
		{"l", MODE_SYMLINK, NULL, WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "/etc", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "/", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "..", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "../x", WRITEBACK_REASON_PATH},
		{"docs/l", MODE_SYMLINK, "../..", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "a/../../repo/x", WRITEBACK_REASON_PATH},
		{"docs/l", MODE_SYMLINK, "../../docs/x", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, ".git", WRITEBACK_REASON_PATH},
		{"docs/l", MODE_SYMLINK, "../.GIT/hooks", WRITEBACK_REASON_PATH},
		{"docs/l", MODE_SYMLINK, "../git~1", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "a\\b", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "..\\x", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, "a\nb", WRITEBACK_REASON_PATH},
		{"l", MODE_SYMLINK, over, WRITEBACK_REASON_PATH},
	};

	(void)state;
	memset(over, 'a', sizeof(over) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bundle_entry e = {
			.path = rows[i].path,
			.path_len = strlen(rows[i].path),
			.mode = rows[i].mode,
			.link_target = rows[i].target,
			.link_target_len = rows[i].target ? strlen(rows[i].target) : 0,
		};
		struct writeback_rejection rejection = {0};
		struct error err = {0};
		int r = writeback_check_entry(&e, &rejection, &err);

		if (r != (rows[i].code ? -EBADMSG : 0))
			print_error("%s %s -> %s\n", rows[i].path, rows[i].mode,
				    rows[i].target ? rows[i].target : "");
		assert_int_equal(r, rows[i].code ? -EBADMSG : 0);
		assert_int_equal(rejection.code, rows[i].code);
		if (rows[i].code)
			assert_ptr_equal(rejection.entry, &e);
		assert_ptr_equal(rejection.mode,
				 rows[i].code == WRITEBACK_REASON_MODE ? rows[i].mode : NULL);
	}
}

static void ranges(void **state)
{
	static struct bundle_entry many[MAX_WRITEBACK_FILES + 1];
	static char names[MAX_WRITEBACK_FILES + 1][8];
	struct writeback_rejection rejection = {0};
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		int n = snprintf(names[i], sizeof(names[i]), "f%zu", i);

		many[i] = (struct bundle_entry){names[i], (size_t)n, MODE_FILE, NULL, 0};
	}
	assert_int_equal(writeback_inspect("x", "y", NULL, 0, &rejection, &err), 0);
	assert_int_equal(writeback_inspect("x", "y", many, MAX_WRITEBACK_FILES, &rejection, &err),
			 0);
	assert_int_equal(
		writeback_inspect("x", "y", many, MAX_WRITEBACK_FILES + 1, &rejection, &err),
		-EBADMSG);
	assert_null(rejection.entry);
	assert_string_equal(rejection.branch, "x");
	assert_string_equal(rejection.commit_sha, "y");

	many[3].mode = MODE_SUBMODULE;
	many[4].path = ".git";
	many[4].path_len = 4;
	assert_int_equal(writeback_inspect("b", "c", many, 5, &rejection, &err), -EBADMSG);
	assert_ptr_equal(rejection.entry, &many[3]);
	assert_int_equal(rejection.code, WRITEBACK_REASON_MODE);
	assert_string_equal(rejection.branch, "b");
	/* The count comes first, whatever the entries are. */
	assert_int_equal(
		writeback_inspect("b", "c", many, MAX_WRITEBACK_FILES + 1, &rejection, &err),
		-EBADMSG);
	assert_null(rejection.entry);
}

static void a_long_path_leaves_room_for_the_reason(void **state)
{
	struct error err;

	(void)state;
	memset(over, 'a', sizeof(over) - 1);
	assert_int_equal(writeback_check_path(over, sizeof(over) - 1, &err), -EBADMSG);
	assert_memory_equal(err.reason, "the path is longer than 4096 bytes", 34);
	assert_true(strlen(err.reason) < 300);
}

static void reasons(void **state)
{
	static const char *const want[] = {
		"unspecified",      "bad_branch", "bad_commit", "empty_range",
		"unknown_base",     "fsck",       "ref_moved",  "not_descendant",
		"too_many_commits", "path",       "mode",
	};

	(void)state;
	assert_int_equal(ARRAY_SIZE(want), WRITEBACK_REASONS);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(writeback_reason_name((enum writeback_reason)i), want[i]);
	assert_string_equal(writeback_reason_name(WRITEBACK_REASONS), "unspecified");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(the_order_of_blame),
		cmocka_unit_test(entries),
		cmocka_unit_test(ranges),
		cmocka_unit_test(a_long_path_leaves_room_for_the_reason),
		cmocka_unit_test(reasons),
	};

	return cmocka_run_group_tests_name("writeback_inspect", tests, NULL, NULL);
}
