#include "tests/unit/test.h"

#include "core/clock.h"

static void instants_round_trip(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} cases[] = {
		{"1970-01-01T00:00:00.000000001Z", 1},
		{"1969-12-31T23:59:59.999999999Z", -1},
		{"2026-11-29T21:05:12.500000000Z", INT64_C(1795986312500000000)},
		{"2024-02-29T00:00:00.000000000Z", INT64_C(1709164800000000000)},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[CLOCK_RFC3339_MAX];
		int64_t ns = 0;

		clock_format(cases[i].ns, text);
		assert_string_equal(text, cases[i].text);
		assert_int_equal(clock_parse(cases[i].text, &ns), 0);
		assert_true(ns == cases[i].ns);
	}
}

static void other_spellings_are_read(void **state)
{
	int64_t a = 0, b = 0;

	(void)state;
	assert_int_equal(clock_parse("2026-01-01T02:00:00+02:00", &a), 0);
	assert_int_equal(clock_parse("2026-01-01T00:00:00Z", &b), 0);
	assert_true(a == b);
	assert_int_equal(clock_parse("2026-01-01T00:00:00.1234567891Z", &a), 0);
	assert_true(a == b + 123456789);
}

static void nonsense_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"2026-01-01",
		"2026-01-01 00:00:00Z",
		"2026-13-01T00:00:00Z",
		"2026-02-29T00:00:00Z",
		"2026-01-01T24:00:00Z",
		"2026-01-01T00:00:00",
		"2026-01-01T00:00:00.Z",
		"2026-01-01T00:00:00Zx",
		"9999-01-01T00:00:00Z",
		"0001-01-01T00:00:00Z",
		"-026-01-01T00:00:00Z",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int64_t ns = 42;

		assert_int_equal(clock_parse(bad[i], &ns), -EINVAL);
		assert_true(ns == 42);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instants_round_trip),
		cmocka_unit_test(other_spellings_are_read),
		cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
