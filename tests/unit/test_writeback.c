#include "tests/unit/test.h"

#include <string.h>

#include "core/writeback.h"

#define SHA "0123456789abcdef0123456789abcdef01234567"

static char at_limit[MAX_WRITEBACK_BRANCH_LEN + 1], over[MAX_WRITEBACK_BRANCH_LEN + 2];

static void branches(void **state)
{
	static const struct {
		const char *branch;
		size_t len; /* 0: strlen */
		bool ok;
	} rows[] = {
		{"cloop/task-7-fix-timeout", 0, true},
		{"cloop/@", 0, true},
		{"cloop/-x", 0, true},
		{"cloop/a.lock/b", 0, true},
		{"cloop/a.b", 0, true},
		{"cloop/a/b/c", 0, true},
		{"cloop/\xc3\xa9", 0, true},
		{"cloop/a\xc2\x80"
		 "b",
		 0, true},
		{"cloop/x\n", 0, true},
		{" cloop/x", 0, true},
		{"\xe3\x80\x80"
		 "cloop/x\xc2\x85",
		 0, true},
		{"cloop/refs/heads/x", 0, true},
		{"cloop/a@b", 0, true},
		{"cloop/a{b", 0, true},
		{at_limit, 0, true},
		{over, 0, false},
		{"", 0, false},
		{" \n", 0, false},
		{"-cloop/x", 0, false},
		{"cloop", 0, false},
		{"cloop/", 0, false},
		{"/cloop/x", 0, false},
		{"Cloop/x", 0, false},
		{"main", 0, false},
		{"refs/heads/cloop/x", 0, false},
		{"cloop/x/", 0, false},
		{"cloop//x", 0, false},
		{"cloop/x.", 0, false},
		{"cloop/x.lock", 0, false},
		{"cloop/.x", 0, false},
		{"cloop/a/.x", 0, false},
		{"cloop/a..b", 0, false},
		{"cloop/..", 0, false},
		{"cloop/a@{1}", 0, false},
		{"cloop/a b", 0, false},
		{"cloop/a\tb", 0, false},
		{"cloop/a\x7f"
		 "b",
		 0, false},
		{"cloop/a\0b", 9, false},
		{"cloop/a~b", 0, false},
		{"cloop/a^b", 0, false},
		{"cloop/a:b", 0, false},
		{"cloop/a?b", 0, false},
		{"cloop/a*b", 0, false},
		{"cloop/a[b", 0, false},
		{"cloop/a\\b", 0, false},
	};

	(void)state;
	memset(at_limit, 'a', sizeof(at_limit) - 1);
	memcpy(at_limit, "cloop/", 6);
	memset(over, 'a', sizeof(over) - 1);
	memcpy(over, "cloop/", 6);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = rows[i].len ? rows[i].len : strlen(rows[i].branch);
		struct error err = {0};

		assert_int_equal(writeback_check_branch(rows[i].branch, len, &err),
				 rows[i].ok ? 0 : -EINVAL);
		assert_int_equal(err.reason[0] != '\0', !rows[i].ok);
	}
}

static void shas(void **state)
{
	static const char *const bad[] = {
		"",
		"0123456789abcdef",
		(SHA "0"),
		"0123456789ABCDEF0123456789ABCDEF01234567",
		(SHA "\n"),
		(" " SHA),
		"g123456789abcdef0123456789abcdef01234567",
	};

	(void)state;
	assert_int_equal(commit_sha_check(SHA, 40, NULL), 0);
	assert_int_equal(commit_sha_check("0000000000000000000000000000000000000000", 40, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(commit_sha_check(bad[i], strlen(bad[i]), NULL), -EINVAL);
	assert_int_equal(commit_sha_check("0123456789abcdef0123456789abcdef0123456\0", 40, NULL),
			 -EINVAL);
}

static void abbreviations(void **state)
{
	static const struct {
		const char *sha, *brief;
	} rows[] = {
		{SHA, "0123456789ab"},
		{"abcdef0123456", "abcdef012345"},
		{"abcdef012345", "abcdef012345"},
		{"abc", "abc"},
		{"", ""},
		{"01234567890\xc3\xa9x", "01234567890"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *brief = commit_sha_short(rows[i].sha);

		assert_string_equal(brief, rows[i].brief);
	}
}

static void validation(void **state)
{
	static char message[MAX_WRITEBACK_MESSAGE_LEN + 2];
	static const struct {
		struct writeback w;
		const char *field;
	} rows[] = {
		{{0}, NULL},
		{{WRITEBACK_NONE, (char *)" ", (char *)"\t", 0}, NULL},
		{{WRITEBACK_NONE, (char *)"cloop/x", NULL, 0}, "wb.branch"},
		{{WRITEBACK_NONE, NULL, (char *)"m", 0}, "wb.message"},
		{{WRITEBACK_NONE, NULL, NULL, 1}, "wb.max_bundle_bytes"},
		{{WRITEBACK_NONE, NULL, NULL, -1}, "wb.max_bundle_bytes"},
		{{WRITEBACK_UNKNOWN, (char *)"cloop/x", NULL, 0}, "wb.mode"},
		{{WRITEBACK_PUSH, (char *)"cloop/x", NULL, 0}, NULL},
		{{WRITEBACK_PUSH, (char *)" cloop/x ", (char *)"a\nb", 0}, NULL},
		{{WRITEBACK_PUSH, NULL, NULL, 0}, "wb.branch"},
		{{WRITEBACK_PUSH, (char *)"main", NULL, 0}, "wb.branch"},
		{{WRITEBACK_PUSH, (char *)"cloop/x", NULL, 1}, "wb.max_bundle_bytes"},
		{{WRITEBACK_PUSH, (char *)"cloop/x", message, 0}, "wb.message"},
		{{WRITEBACK_BUNDLE, (char *)"cloop/x", NULL, 0}, NULL},
		{{WRITEBACK_BUNDLE, (char *)"cloop/x", message + 1, 1}, NULL},
		{{WRITEBACK_BUNDLE, (char *)"cloop/x", NULL, MAX_WRITEBACK_BUNDLE_BYTES}, NULL},
		{{WRITEBACK_BUNDLE, (char *)"cloop/x", NULL, MAX_WRITEBACK_BUNDLE_BYTES + 1},
		 "wb.max_bundle_bytes"},
		{{WRITEBACK_BUNDLE, (char *)"cloop/x", NULL, -1}, "wb.max_bundle_bytes"},
	};

	(void)state;
	memset(message, 'm', sizeof(message) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = {0};
		int r = writeback_validate(&rows[i].w, "wb", &err);

		assert_int_equal(r, rows[i].field ? -EINVAL : 0);
		if (rows[i].field) {
			assert_int_equal(err.kind, ERROR_INVALID_SPEC);
			assert_string_equal(err.field, rows[i].field);
		}
	}
}

static void words_and_caps(void **state)
{
	(void)state;
	assert_int_equal(writeback_mode_parse("push"), WRITEBACK_PUSH);
	assert_int_equal(writeback_mode_parse("none"), WRITEBACK_UNKNOWN);
	assert_int_equal(writeback_mode_parse("Push"), WRITEBACK_UNKNOWN);
	assert_int_equal(writeback_bundle_cap(&(struct writeback){0}), 32 << 20);
	assert_int_equal(writeback_bundle_cap(&(struct writeback){.max_bundle_bytes = -5}),
			 32 << 20);
	assert_int_equal(writeback_bundle_cap(&(struct writeback){.max_bundle_bytes = 5}), 5);
	assert_int_equal(writeback_bundle_cap(&(struct writeback){.max_bundle_bytes = INT64_MAX}),
			 128 << 20);

	AUTO_FREE char *push = writeback_describe(
		&(struct writeback){.mode = WRITEBACK_PUSH, .branch = (char *)" cloop/x "});
	assert_string_equal(push, "push cloop/x");
	AUTO_FREE char *none = writeback_describe(&(struct writeback){0});
	assert_string_equal(none, "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(branches),       cmocka_unit_test(shas),
		cmocka_unit_test(abbreviations),  cmocka_unit_test(validation),
		cmocka_unit_test(words_and_caps),
	};

	return cmocka_run_group_tests_name("writeback", tests, NULL, NULL);
}
