#include "tests/unit/test.h"

#include <math.h>

#include "core/clock.h"
#include "core/supervisor_config.h"

#define S CLOCK_NS_PER_S

static void delays_double_up_to_the_maximum(void **state)
{
	static const struct {
		int64_t base, max, failures, delay;
	} rows[] = {
		{5 * S, 300 * S, 0, 5 * S},
		{5 * S, 300 * S, 1, 5 * S},
		{5 * S, 300 * S, 2, 10 * S},
		{5 * S, 300 * S, 5, 80 * S},
		{5 * S, 300 * S, 6, 160 * S},
		{5 * S, 300 * S, 7, 300 * S},
		{5 * S, 300 * S, 34, 300 * S},
		{5 * S, 300 * S, INT64_MAX, 300 * S},
		{5 * S, 300 * S, -1, 5 * S},
		{5 * S, 1 * S, 4, 5 * S},
		{0, 0, 9, 5 * S},
		{1, INT64_MAX, INT64_MAX, INT64_MAX},
		{INT64_MAX, 0, 2, INT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct supervisor_config c = {.backoff_base_ns = rows[i].base,
					      .backoff_max_ns = rows[i].max};

		assert_true(supervisor_backoff_ns(&c, rows[i].failures) == rows[i].delay);
	}
}

static void jitter(void **state)
{
	(void)state;
	assert_int_equal(supervisor_jitter_ns(30 * S, 0.2, 0.5), 30 * S);
	assert_int_equal(supervisor_jitter_ns(5 * S, 0.0, 0.9), 5 * S);
	assert_int_equal(supervisor_jitter_ns(5 * S, -1, 0.9), 5 * S);
	assert_int_equal(supervisor_jitter_ns(5 * S, (double)NAN, 0.9), 5 * S);
	assert_in_range(supervisor_jitter_ns(30 * S, 0.2, 0.0), 24 * S - 2, 24 * S + 2);
	assert_in_range(supervisor_jitter_ns(30 * S, 0.2, 0.999999), 35999988000 - 2,
			35999988000 + 2);
	/* Clamped to 0.9. */
	assert_in_range(supervisor_jitter_ns(10 * S, 5, 0.0), S - 2, S + 2);
	assert_int_equal(supervisor_jitter_ns(INT64_MAX, 0.9, 0.999), INT64_MAX);
	assert_int_equal(supervisor_jitter_ns(0, 0.9, 0.999), 0);
}

static void configurations(void **state)
{
	struct supervisor_config d = supervisor_config_default();
	struct supervisor_config z = supervisor_config_normalize((struct supervisor_config){0});
	struct supervisor_config n = supervisor_config_normalize(
		(struct supervisor_config){-1, -1, -1, -1, -0.5, -3, {-1, -1}});
	struct supervisor_config same = supervisor_config_normalize(d);

	(void)state;
	assert_int_equal(d.interval_ns, 30 * S);
	assert_int_equal(d.probe_timeout_ns, 10 * S);
	assert_int_equal(d.backoff_base_ns, 5 * S);
	assert_int_equal(d.backoff_max_ns, 300 * S);
	assert_int_equal(d.max_concurrent_probes, 8);
	assert_int_equal(d.policy.unreachable_after, 3);
	assert_int_equal(same.backoff_max_ns, d.backoff_max_ns);
	assert_true(same.jitter_fraction > 0.19 && same.jitter_fraction < 0.21);

	assert_int_equal(z.interval_ns, 30 * S);
	assert_int_equal(z.backoff_max_ns, z.backoff_base_ns);
	assert_true(z.jitter_fraction <= 0);
	assert_int_equal(z.policy.degrade_after, 1);
	assert_int_equal(z.policy.unreachable_after, 1);
	assert_int_equal(n.backoff_max_ns, 5 * S);
	assert_int_equal(n.max_concurrent_probes, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_double_up_to_the_maximum),
		cmocka_unit_test(jitter),
		cmocka_unit_test(configurations),
	};

	return cmocka_run_group_tests_name("supervisor_config", tests, NULL, NULL);
}
