#include "tests/unit/test.h"

#include <string.h>

#include "core/buf.h"
#include "core/error.h"
#include "core/text.h"

static void utf8_is_recognised(void **state)
{
	static const struct {
		const char *bytes;
		size_t n, want;
		bool partial;
	} cases[] = {
		{"a", 1, 1, false},
		{"\xc3\xa9", 2, 2, false},
		{"\xe2\x82\xac", 3, 3, false},
		{"\xf0\x9f\x98\x80", 4, 4, false},
		{"\xc3", 1, 0, true},
		{"\xe2\x82", 2, 0, true},
		{"\xf0\x9f\x98", 3, 0, true},
		{"\xc0\x80", 2, 0, false},          /* overlong */
		{"\xe0\x80\x80", 3, 0, false},      /* overlong */
		{"\xed\xa0\x80", 3, 0, false},      /* surrogate */
		{"\xf4\x90\x80\x80", 4, 0, false},  /* above U+10FFFF */
		{"\xf0\x80\x80\x80", 4, 0, false},  /* overlong */
		{"\x80", 1, 0, false},
		{"\xff", 1, 0, false},
		{"\xe2" "a", 2, 0, false},
		{"", 0, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool partial = true;
		size_t got = text_utf8_length((const unsigned char *)cases[i].bytes, cases[i].n,
					      &partial);

		assert_int_equal(got, cases[i].want);
		assert_int_equal(partial, cases[i].partial);
	}
}

static void trimming_knows_unicode_space(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"", ""},
		{" \t\r\n\v\f", ""},
		{"  a b  ", "a b"},
		{"\xc2\xa0" "a" "\xe3\x80\x80", "a"},
		{"\xe2\x80\xa8" "a" "\xc2\x85", "a"},
		{"\xe2\x80\x8b" "a", "\xe2\x80\x8b" "a"}, /* zero width space is no white space */
		{"a\xa0", "a\xa0"},                       /* not UTF-8: left alone */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *got = text_trim_dup(cases[i].in);

		assert_string_equal(got, cases[i].want);
	}
}

static struct text_view view(const char *s)
{
	return (struct text_view){s, strlen(s)};
}

static void case_does_not_matter(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{"", "", true},
		{"linux", "LINUX", true},
		{"linux", "linu", false},
		{"linu", "linux", false},
		{"\xe2\x84\xaavm", "KVM", true}, /* Kelvin sign */
		{"\xc5\xbfun", "SUN", true},     /* long s */
		{"\xc4\xb0", "i", false},        /* the dotted I folds to itself only */
		{"\xc4\xb0", "\xc4\xb0", true},
		{"\xc3\x84\xc3\x9e", "\xc3\xa4\xc3\xbe", true},
		{"\xc3\x97", "\xc3\xb7", false}, /* times is no capital of divided by */
		{"\xff", "\xff", true},
		{"\xff", "\xfe", false},
		{"[", "{", false},
		{"@", "`", false},
	};
	static const struct {
		const char *text, *prefix;
		size_t len;
	} starts[] = {
		{"kata-qemu", "kata", 4},
		{"KATA", "kata", 4},
		{"kat", "kata", 0},
		{"", "kata", 0},
		{"\xe2\x84\xaa" "ata", "kata", 6},
		{"\xc4\xb0x", "i", 2},
		{"\xc5\xbfx", "s", 0}, /* the long s is lower case already */
		{"\xff", "k", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(text_equal_fold(view(cases[i].a), view(cases[i].b)),
				 cases[i].same);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		assert_int_equal(text_lower_prefix(view(starts[i].text), starts[i].prefix),
				 starts[i].len);
	assert_false(text_equal_fold((struct text_view){"a\0b", 3}, view("a")));
}

static void errors_keep_their_contract(void **state)
{
	struct error err;
	char sentence[64], big[2 * ERROR_REASON_MAX];

	(void)state;
	assert_int_equal(error_set(&err, EINVAL, "bad %s", "a\nb\x7f"), -EINVAL);
	assert_string_equal(err.reason, "bad a?b?");
	assert_string_equal(err.field, "");
	error_field(&err, "argv[%d]", 3);
	error_remedy(&err, "shorten it");
	size_t n = error_sentence(&err, sentence, sizeof(sentence));
	assert_int_equal(n, strlen(sentence));
	assert_string_equal(sentence, "argv[3]: bad a?b?; shorten it");

	/* Wrapping an error into itself. */
	assert_int_equal(error_set_kind(&err, EIO, ERROR_NO_DEFAULT, "outer: %s", err.reason), -EIO);
	assert_string_equal(err.reason, "outer: bad a?b?");
	assert_int_equal(err.kind, ERROR_NO_DEFAULT);
	assert_string_equal(err.remedy, "");

	/* A long reason ends in an ellipsis and never splits a code point. */
	memset(big, 0, sizeof(big));
	for (size_t i = 0; i + 2 < sizeof(big); i += 2)
		memcpy(big + i, "\xc3\xa9", 2);
	(void)error_set(&err, EINVAL, "x%s", big);
	assert_true(strlen(err.reason) < ERROR_REASON_MAX);
	assert_true(text_utf8_valid(err.reason, strlen(err.reason)));
	assert_string_equal(err.reason + strlen(err.reason) - 3, "\xe2\x80\xa6");

	assert_int_equal(error_set(NULL, EPERM, "nobody listens"), -EPERM);
	assert_string_equal(error_name(EKEYREVOKED), "EKEYREVOKED");
}

static void buffers_stop_at_their_maximum(void **state)
{
	AUTO_BUF struct buf b = BUF_INIT(8);

	(void)state;
	buf_printf(&b, "%d", 1234);
	buf_puts(&b, "5678");
	assert_int_equal(b.failed, 0);
	assert_string_equal(b.data, "12345678");
	buf_puts(&b, "9");
	assert_int_equal(b.failed, -EFBIG);
	buf_reset(&b);
	buf_puts(&b, "");
	assert_int_equal(b.failed, 0);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.data, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_is_recognised),
		cmocka_unit_test(trimming_knows_unicode_space),
		cmocka_unit_test(case_does_not_matter),
		cmocka_unit_test(errors_keep_their_contract),
		cmocka_unit_test(buffers_stop_at_their_maximum),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
