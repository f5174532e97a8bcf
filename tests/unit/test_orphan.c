/* Which folder without a row is left, ended or removed. */
#include "tests/unit/test.h"

#include "core/orphan.h"

static void doubt_counts_as_alive(void **state)
{
	static const struct {
		struct orphan orphan;
		int64_t now, grace;
		enum orphan_verdict verdict;
	} cases[] = {
		{{.held = true, .dated = true, .since_ns = 100}, 700, 600, ORPHAN_KILL},
		{{.held = false, .dated = true, .since_ns = 100}, 700, 600, ORPHAN_REMOVE},
		{{.held = true, .dated = true, .since_ns = 101}, 700, 600, ORPHAN_LEAVE},
		{{.held = false, .dated = true, .since_ns = 101}, 700, 600, ORPHAN_LEAVE},
		{{.held = true, .dated = false, .since_ns = 1}, 70000, 600, ORPHAN_LEAVE},
		{{.held = false, .dated = false, .since_ns = 1}, 70000, 600, ORPHAN_LEAVE},
		{{.held = true, .dated = true, .since_ns = 0}, 70000, 600, ORPHAN_LEAVE},
		{{.held = true, .dated = true, .since_ns = -5}, 70000, 600, ORPHAN_LEAVE},
		{{.held = true, .dated = true, .since_ns = 80000}, 70000, 600, ORPHAN_LEAVE},
		{{.held = false, .dated = true, .since_ns = 1}, 70000, 0, ORPHAN_LEAVE},
		{{.held = false, .dated = true, .since_ns = 1}, 70000, -1, ORPHAN_LEAVE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (orphan_judge(&cases[i].orphan, cases[i].now, cases[i].grace) != cases[i].verdict)
			fail_msg("case %zu", i);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubt_counts_as_alive),
	};

	return cmocka_run_group_tests_name("orphan", tests, NULL, NULL);
}
