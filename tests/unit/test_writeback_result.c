#include "tests/unit/test.h"

#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/writeback_result.h"

#define SHA "0123456789abcdef0123456789abcdef01234567"
#define P WRITEBACK_SENTINEL

static void lines(void **state)
{
	static const struct {
		struct writeback_result r;
		const char *line;
	} rows[] = {
		{{0}, P " {}"},
		{{.mode = (char *)"push",
		  .branch = (char *)"cloop/t-1",
		  .commit_sha = (char *)SHA,
		  .pushed = true,
		  .commits = 1,
		  .files_changed = 3},
		 P " {\"mode\":\"push\",\"branch\":\"cloop/t-1\",\"commit_sha\":\"" SHA
		   "\",\"pushed\":true,\"commits\":1,\"files_changed\":3}"},
		{{.bundle_bytes = 7,
		  .bundle_sha256 = (char *)"d",
		  .base_sha = (char *)"b",
		  .skipped = true,
		  .skip_reason = (char *)"clean",
		  .error = (char *)"boom"},
		 P
		 " {\"base_sha\":\"b\",\"bundle_bytes\":7,\"bundle_sha256\":\"d\",\"skipped\":true,"
		 "\"skip_reason\":\"clean\",\"error\":\"boom\"}"},
		{{.error = (char *)"a\"b\\c/"
				   "d\n\r\t\b\f\x01\x1f\x7f<>&\xe2\x80\xa8\xe2\x80\xa9\xc3\xa9"},
		 P
		 " {\"error\":\"a\\\"b\\\\c/d\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\\u003c\\u003e\\u0026"
		 "\\u2028\\u2029\xc3\xa9\"}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *line = NULL;

		assert_int_equal(writeback_sentinel_make(&rows[i].r, &line, NULL), 0);
		assert_string_equal(line, rows[i].line);

		/* What is written is read back. */
		AUTO_WRITEBACK_RESULT struct writeback_result back = {0};
		assert_int_equal(writeback_sentinel_scan(line, strlen(line), &back), 1);
		AUTO_JSON json_t *a = writeback_result_to_json(&back);
		AUTO_JSON json_t *b = writeback_result_to_json(&rows[i].r);
		assert_true(json_equal(a, b));
	}
}

static char *repeat(size_t n)
{
	char *s = malloc(n + 1);

	memset(s, 'x', n);
	s[n] = '\0';
	return s;
}

static void a_line_is_bounded(void **state)
{
	/* {"error":"…"} */
	AUTO_FREE char *fits = repeat(MAX_WRITEBACK_SENTINEL_BYTES - 12);
	AUTO_FREE char *over = repeat(MAX_WRITEBACK_SENTINEL_BYTES - 11);
	AUTO_FREE char *line = NULL;
	AUTO_FREE char *none = NULL;
	struct error err;

	(void)state;
	assert_int_equal(
		writeback_sentinel_make(&(struct writeback_result){.error = fits}, &line, NULL), 0);
	assert_int_equal(strlen(line), strlen(P) + 1 + MAX_WRITEBACK_SENTINEL_BYTES);
	assert_int_equal(
		writeback_sentinel_make(&(struct writeback_result){.error = over}, &none, &err),
		-EFBIG);
	assert_null(none);

	AUTO_WRITEBACK_RESULT struct writeback_result r = {0};
	assert_int_equal(writeback_sentinel_scan(line, strlen(line), &r), 1);
	struct buf b = BUF_INIT(1 << 16);
	buf_printf(&b, P " {\"mode\":\"push\"}\n" P " {\"error\":\"%s\"}\n", over);
	AUTO_WRITEBACK_RESULT struct writeback_result earlier = {0};
	assert_int_equal(writeback_sentinel_scan(b.data, b.len, &earlier), 1);
	assert_string_equal(earlier.mode, "push");
	buf_free(&b);
}

static void scanning(void **state)
{
	static const struct {
		const char *output;
		const char *branch; /* NULL: nothing found; "" found without a branch */
	} rows[] = {
		{"", NULL},
		{"hello\nworld\n", NULL},
		{P, NULL},
		{P " ", NULL},
		{P " {\"branch\":\"cloop/a\"}", "cloop/a"},
		{P " {\"branch\":\"cloop/a\"}\n", "cloop/a"},
		{P " {\"branch\":\"cloop/a\"}\r\nmore\n", "cloop/a"},
		{P "\t{\"branch\":\"cloop/a\"}", "cloop/a"},
		{P "{\"branch\":\"cloop/a\"}", "cloop/a"},
		{"  \t" P "  {\"branch\":\"cloop/a\"}  ", "cloop/a"},
		{"x" P " {\"branch\":\"cloop/a\"}", NULL},
		{"#" P " {\"branch\":\"cloop/a\"}", NULL},
		{"##CLOOP-writeback-v1## {\"branch\":\"cloop/a\"}", NULL},
		{P " {\"branch\":\"cloop/a\"}\n" P " {\"branch\":\"cloop/b\"}", "cloop/b"},
		{P " {\"branch\":\"cloop/a\"}\n" P " {\"branch\":", "cloop/a"},
		{P " {\"branch\":\"cloop/a\"}\n" P " {\"branch\":1}\n" P " [1]\n" P " \"x\"\n" P
		   " 7\n",
		 "cloop/a"},
		{P " {\"branch\":\"cloop/a\"} x", NULL},
		{P " {\"branch\":\"cloop/a\"}{}", NULL},
		{P " {\"branch\":\"cloop/a\",\"commits\":1.5}", NULL},
		{P " {\"branch\":\"cloop/a\",\"commits\":\"1\"}", NULL},
		{P " {\"branch\":\"cloop/a\",\"pushed\":1}", NULL},
		{P " {\"branch\":\"cloop/a\",\"commits\":99999999999999999999}", NULL},
		{P " {\"branch\":\"cloop/a\\u0000b\"}", NULL},
		{P " {\"branch\":\"cloop/a\",\"unknown\":[1]}", "cloop/a"},
		{P " {\"Branch\":\"cloop/a\",\"mode\":null}", "cloop/a"},
		{P " {\"branch\":\"cloop/a\",\"branch\":\"cloop/b\"}", "cloop/b"},
		/* A NUL belongs to no document; the escape of one is passed over with its field. */
		{P " {\"branch\":\"cloop/a\",\"x\":\"\\u0000\"}", "cloop/a"},
		/* Names in any case, also in letters that only fold to ASCII. */
		{P " {\"BRANC\x48\":\"cloop/a\",\"s\xe2\x84\xaa"
		   "ipped\":1}",
		 NULL},
		{P " {}", ""},
		{P " null", ""},
		{"\n\n\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_WRITEBACK_RESULT struct writeback_result r = {0};
		int found = writeback_sentinel_scan(rows[i].output, strlen(rows[i].output), &r);

		if (found != (rows[i].branch != NULL))
			print_error("%s\n", rows[i].output);
		assert_int_equal(found, rows[i].branch != NULL);
		assert_string_equal(r.branch ? r.branch : "", rows[i].branch ? rows[i].branch : "");
	}
	assert_int_equal(writeback_sentinel_scan(NULL, 0, NULL), 0);
}

static void bytes_that_are_no_text(void **state)
{
	static const char output[] =
		"\0\xff\n" P " {\"branch\":\"cloop/a\"}\n\0" P " {\"error\":\"\xff\"}\n";
	AUTO_WRITEBACK_RESULT struct writeback_result r = {0};

	(void)state;
	assert_int_equal(writeback_sentinel_scan(output, sizeof(output) - 1, &r), 1);
	assert_string_equal(r.branch, "cloop/a");

	/* A NUL after a word or a number ends nothing. */
	static const char *const broken[] = {P " null\0", P " {\"commits\":1\0}",
					     P " {\"pushed\":true\0}"};
	static const size_t lengths[] = {sizeof(P " null\0") - 1,
					 sizeof(P " {\"commits\":1\0}") - 1,
					 sizeof(P " {\"pushed\":true\0}") - 1};
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
		assert_int_equal(writeback_sentinel_scan(broken[i], lengths[i], &r), 0);
}

static void delivery(void **state)
{
	struct writeback_result r = {.branch = (char *)"cloop/a", .commit_sha = (char *)SHA};

	(void)state;
	assert_false(writeback_result_delivered(NULL));
	assert_true(writeback_result_delivered(&r));
	r.skipped = true;
	assert_false(writeback_result_delivered(&r));
	r.skipped = false;
	r.error = (char *)"x";
	assert_false(writeback_result_delivered(&r));
	r.error = NULL;
	r.branch = (char *)"";
	assert_false(writeback_result_delivered(&r));
	r.branch = (char *)"cloop/a";
	r.commit_sha = NULL;
	assert_false(writeback_result_delivered(&r));
}

static void descriptions(void **state)
{
	static const struct {
		struct writeback_result r;
		const char *text;
	} rows[] = {
		{{0}, "no write-back"},
		{{.error = (char *)"a\nb"}, "write-back failed: a?b"},
		{{.skipped = true}, "nothing to write back"},
		{{.skipped = true, .skip_reason = (char *)"clean"}, "nothing to write back: clean"},
		{{.mode = (char *)"push",
		  .branch = (char *)"cloop/a",
		  .commit_sha = (char *)SHA,
		  .commits = 2,
		  .files_changed = 5},
		 "push cloop/a at 0123456789ab (2 commits, 5 files)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *text = writeback_result_describe(&rows[i].r);

		assert_string_equal(text, rows[i].text);
	}
	AUTO_FREE char *none = writeback_result_describe(NULL);
	assert_string_equal(none, "no write-back");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),    cmocka_unit_test(a_line_is_bounded),
		cmocka_unit_test(scanning), cmocka_unit_test(bytes_that_are_no_text),
		cmocka_unit_test(delivery), cmocka_unit_test(descriptions),
	};

	return cmocka_run_group_tests_name("writeback_result", tests, NULL, NULL);
}
