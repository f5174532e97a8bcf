#include "tests/unit/test.h"

#include <string.h>

#include "core/redact.h"

static struct text_view view(const char *s)
{
	return (struct text_view){s, s ? strlen(s) : 0};
}

static void masking(void **state)
{
	static const struct {
		const char *text, *secrets[3], *want;
	} rows[] = {
		{"bad token tok-12345678 given", {"tok-12345678"}, "bad token [redacted] given"},
		{"plain", {"tok-12345678"}, "plain"},
		{"", {"tok-12345678"}, ""},
		{"tok-12345678", {"tok-12345678"}, "[redacted]"},
		{"tok-12345678tok-12345678", {"tok-12345678"}, "[redacted][redacted]"},
		{"a=secret-one b=secret-two",
		 {"secret-one", "secret-two"},
		 "a=[redacted] b=[redacted]"},
		{"short 1234567", {"1234567"}, "short 1234567"},
		{"eight 12345678", {"12345678"}, "eight [redacted]"},
		{"anything", {""}, "anything"},
		{"x", {NULL}, "x"},
		/* Overlapping occurrences of itself: found from the left. */
		{"abababababab", {"abababab"}, "[redacted]abab"},
		/* One after the other, in what the one before left. */
		{"tok-12345678", {"tok-12345678", "redacted"}, "[[redacted]]"},
		{"redacted tok-12345678", {"redacted", "tok-12345678"}, "[redacted] [redacted]"},
		{"abcdefghijklmnop",
		 {"abcdefgh", "efghijklmnop", "ijklmnop"},
		 "[redacted][redacted]"},
		/* The header after its own token. */
		{"Basic dG9rOnRvaw== end",
		 {"dG9rOnRvaw==", "Basic dG9rOnRvaw=="},
		 "Basic [redacted] end"},
		{"Basic dG9rOnRvaw== end",
		 {"Basic dG9rOnRvaw==", "dG9rOnRvaw=="},
		 "[redacted] end"},
		/* The order is the caller's: see sorted(). */
		{"k=prefix-00-and-a-long-tail",
		 {"prefix-00", "prefix-00-and-a-long-tail"},
		 "k=[redacted]-and-a-long-tail"},
		{"\xc3\xa9 s\xc3\xa9"
		 "cret-\xc3\xa9",
		 {"s\xc3\xa9"
		  "cret-\xc3\xa9"},
		 "\xc3\xa9 [redacted]"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct text_view secrets[3];
		AUTO_FREE char *got = NULL;
		size_t len = 0;

		for (size_t k = 0; k < 3; k++)
			secrets[k] = view(rows[i].secrets[k]);
		assert_int_equal(
			redact_text(rows[i].text, strlen(rows[i].text), secrets, 3, &got, &len), 0);
		assert_string_equal(got, rows[i].want);
		assert_int_equal(len, strlen(rows[i].want));
	}
}

static void sorted(void **state)
{
	static const char text[] = "k=prefix-00-and-a-long-tail b=prefix-00 c=suffix-0";
	struct text_view secrets[] = {
		view("prefix-00"), view(NULL), view("suffix-0"), view("prefix-00-and-a-long-tail"),
		view("other-00"),
	};
	AUTO_FREE char *got = NULL;
	size_t len = 0;

	(void)state;
	redact_sort(secrets, ARRAY_SIZE(secrets));
	assert_int_equal(secrets[0].len, strlen("prefix-00-and-a-long-tail"));
	assert_int_equal(secrets[1].len, strlen("prefix-00"));
	assert_string_equal(secrets[2].data, "other-00");
	assert_string_equal(secrets[3].data, "suffix-0");
	assert_int_equal(secrets[4].len, 0);
	assert_int_equal(
		redact_text(text, sizeof(text) - 1, secrets, ARRAY_SIZE(secrets), &got, &len), 0);
	assert_string_equal(got, "k=[redacted] b=[redacted] c=[redacted]");
	redact_sort(NULL, 0);
}

static void any_bytes(void **state)
{
	static const char text[] = "\0\xff tok-12345678\0z";
	struct text_view secret = view("tok-12345678");
	AUTO_FREE char *got = NULL;
	size_t len = 0;

	(void)state;
	assert_int_equal(redact_text(text, sizeof(text) - 1, &secret, 1, &got, &len), 0);
	assert_int_equal(len, sizeof("\0\xff [redacted]\0z") - 1);
	assert_memory_equal(got, "\0\xff [redacted]\0z", len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masking),
		cmocka_unit_test(sorted),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
