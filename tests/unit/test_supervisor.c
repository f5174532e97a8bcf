/* The schedule of probes, with a clock and random numbers that the tests set. */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/owner.h"
#include "core/supervisor.h"

#define S CLOCK_NS_PER_S

/* 0.5 leaves a delay as it is. */
static double chance = 0.5;

static double next_random(void *user)
{
	(void)user;
	return chance;
}

OWNER_DEFINE(struct supervisor, supervisor, supervisor_free);
#define AUTO_SUPERVISOR CLEANUP(owner_supervisorp)

/* A minute, 5 s up to 40 s, 20 %, two at once. */
static const struct supervisor_config settings = {
	.interval_ns = 60 * S,
	.probe_timeout_ns = 10 * S,
	.backoff_base_ns = 5 * S,
	.backoff_max_ns = 40 * S,
	.jitter_fraction = 0.2,
	.max_concurrent_probes = 2,
	.policy = {1, 3},
};

static struct supervisor *make(void)
{
	chance = 0.5;
	struct supervisor *s = supervisor_new(&settings, next_random, NULL);

	assert_non_null(s);
	return s;
}

static void expect_next(struct supervisor *s, int64_t now, int64_t serial)
{
	int64_t got = -1;

	assert_true(supervisor_next(s, now, &got));
	assert_int_equal(got, serial);
}

static void expect_nobody(struct supervisor *s, int64_t now)
{
	int64_t got = -1;

	assert_false(supervisor_next(s, now, &got));
	assert_int_equal(got, -1);
}

static void healthy_every_interval_failing_with_backoff(void **state)
{
	static const struct {
		int64_t failures, delay;
	} cases[] = {{0, 60}, {1, 5}, {2, 10}, {3, 20}, {4, 40}, {5, 40}, {1000000, 40}, {0, 60}};
	AUTO_SUPERVISOR struct supervisor *s = make();
	int64_t now = 1000 * S;

	(void)state;
	assert_int_equal(supervisor_wait_ns(s, now), -1);
	assert_int_equal(supervisor_watch(s, 7, 0, -1, now), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(supervisor_wait_ns(s, now), 0);
		expect_next(s, now, 7);
		/* It is probed: not again meanwhile, however long that takes. */
		expect_nobody(s, now + 1000 * S);
		assert_int_equal(supervisor_wait_ns(s, now + 1000 * S), -1);
		now += 3 * S;
		supervisor_done(s, 7, cases[i].failures, now);
		assert_int_equal(supervisor_wait_ns(s, now), cases[i].delay * S);
		expect_nobody(s, now + cases[i].delay * S - 1);
		now += cases[i].delay * S;
	}
}

static void every_delay_has_its_jitter(void **state)
{
	AUTO_SUPERVISOR struct supervisor *s = make();

	(void)state;
	for (int64_t serial = 1; serial <= 2; serial++) {
		assert_int_equal(supervisor_watch(s, serial, 0, -1, 0), 0);
		expect_next(s, 0, serial);
		chance = serial == 1 ? 0 : 0.999999;
		supervisor_done(s, serial, 0, 0);
		supervisor_forget(s, serial == 1 ? 0 : 1);
		int64_t wait = supervisor_wait_ns(s, 0);
		assert_in_range(wait, serial == 1 ? 48 * S : 71 * S, serial == 1 ? 48 * S : 72 * S);
	}
}

static void a_restart_goes_on_where_it_was(void **state)
{
	static const struct {
		int64_t failures, ago, wait;
	} cases[] = {
		{0, -1, 0},   /* never probed */
		{0, 0, 60},   /* just now */
		{0, 20, 40},  {0, 60, 0}, {0, 100000, 0},
		{2, 0, 10},   {2, 4, 6},  {2, 11, 0},
		{9, 39, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_SUPERVISOR struct supervisor *s = make();
		int64_t ago = cases[i].ago < 0 ? -1 : cases[i].ago * S;

		assert_int_equal(supervisor_watch(s, 1, cases[i].failures, ago, 500 * S), 0);
		assert_int_equal(supervisor_wait_ns(s, 500 * S), cases[i].wait * S);
		/* Told again, as after a change of its labels: it keeps its place. */
		assert_int_equal(supervisor_watch(s, 1, 0, -1, 500 * S), 0);
		assert_int_equal(supervisor_wait_ns(s, 500 * S), cases[i].wait * S);
		assert_int_equal(supervisor_count(s), 1);
	}
}

static void so_many_at_once_in_the_order_of_their_time(void **state)
{
	AUTO_SUPERVISOR struct supervisor *s = make();

	(void)state;
	/* Due at 40, 30, 20, 10 and 30 seconds. */
	static const int64_t ago[] = {20, 30, 40, 50, 30};
	for (int64_t i = 0; i < 5; i++)
		assert_int_equal(supervisor_watch(s, i + 1, 0, ago[i] * S, 0), 0);
	assert_int_equal(supervisor_wait_ns(s, 0), 10 * S);
	expect_next(s, 100 * S, 4);
	expect_next(s, 100 * S, 3);
	expect_nobody(s, 100 * S);
	assert_int_equal(supervisor_wait_ns(s, 100 * S), -1);
	supervisor_done(s, 3, 0, 101 * S);
	expect_next(s, 101 * S, 2);
	expect_nobody(s, 101 * S);
	/* An end that nobody waits for frees nothing. */
	supervisor_done(s, 3, 0, 101 * S);
	expect_nobody(s, 101 * S);
	supervisor_done(s, 4, 0, 102 * S);
	expect_next(s, 102 * S, 5);
	supervisor_done(s, 5, 0, 103 * S);
	supervisor_done(s, 2, 0, 103 * S);
	expect_next(s, 103 * S, 1);
	supervisor_done(s, 1, 0, 103 * S);
	assert_int_equal(supervisor_wait_ns(s, 103 * S), 58 * S); /* the third */
}

static void who_is_asked_for_comes_first(void **state)
{
	AUTO_SUPERVISOR struct supervisor *s = make();

	(void)state;
	for (int64_t i = 1; i <= 4; i++)
		assert_int_equal(supervisor_watch(s, i, 0, i == 4 ? 0 : -1, 0), 0);
	assert_false(supervisor_hurry(s, 99));
	assert_true(supervisor_hurry(s, 4)); /* due in a minute */
	expect_next(s, 0, 4);
	/* Asked for while it is probed: once more, and once is enough. */
	assert_true(supervisor_hurry(s, 4));
	assert_true(supervisor_hurry(s, 4));
	expect_next(s, 0, 1);
	supervisor_done(s, 4, 0, S);
	expect_next(s, S, 4);
	supervisor_done(s, 4, 0, S);
	expect_next(s, S, 2);
	supervisor_done(s, 1, 0, S);
	expect_next(s, S, 3);
}

static void who_goes_is_not_probed_again(void **state)
{
	AUTO_SUPERVISOR struct supervisor *s = make();

	(void)state;
	for (int64_t i = 1; i <= 4; i++)
		assert_int_equal(supervisor_watch(s, i, 0, -1, 0), 0);
	expect_next(s, 0, 1);
	expect_next(s, 0, 2);
	supervisor_forget(s, 1);
	supervisor_forget(s, 3);
	supervisor_forget(s, 3);
	assert_false(supervisor_watches(s, 1));
	/* Its probe still runs, and counts. */
	expect_nobody(s, 0);
	supervisor_done(s, 1, 3, S);
	expect_next(s, S, 4);
	supervisor_done(s, 2, 0, S);
	supervisor_done(s, 4, 0, S);
	assert_int_equal(supervisor_wait_ns(s, S), 60 * S);
	assert_int_equal(supervisor_count(s), 2);
	/* It comes again while a probe of it runs: not twice at once. */
	expect_next(s, 61 * S, 2);
	supervisor_forget(s, 2);
	assert_int_equal(supervisor_watch(s, 2, 0, -1, 61 * S), 0);
	expect_next(s, 61 * S, 4);
	supervisor_done(s, 4, 0, 61 * S);
	expect_nobody(s, 61 * S);
	supervisor_done(s, 2, 1, 61 * S);
	assert_int_equal(supervisor_wait_ns(s, 61 * S), 5 * S);
}

static void other_settings_shorten_what_is_waited_for(void **state)
{
	AUTO_SUPERVISOR struct supervisor *s = make();
	struct supervisor_config other = settings;

	(void)state;
	assert_int_equal(supervisor_watch(s, 1, 0, 0, 0), 0);
	assert_int_equal(supervisor_watch(s, 2, 4, 0, 0), 0);
	other.interval_ns = 7 * S;
	other.backoff_max_ns = 6 * S;
	supervisor_configure(s, &other, 0);
	assert_int_equal(supervisor_wait_ns(s, 0), 6 * S);
	expect_next(s, 6 * S, 2);
	assert_int_equal(supervisor_wait_ns(s, 6 * S), S);
	/* Longer ones hold from the next probe on. */
	supervisor_configure(s, &settings, 6 * S);
	assert_int_equal(supervisor_wait_ns(s, 6 * S), S);
	other.max_concurrent_probes = 1;
	supervisor_configure(s, &other, 6 * S);
	expect_nobody(s, 7 * S);
}

static void thousands_keep_their_order(void **state)
{
	enum { N = 5000 };
	AUTO_SUPERVISOR struct supervisor *s = NULL;
	struct supervisor_config config = settings;
	int64_t now = 0, last = -1, serial;
	size_t n = 0;

	(void)state;
	config.max_concurrent_probes = N;
	chance = 0.5;
	s = supervisor_new(&config, next_random, NULL);
	assert_non_null(s);
	for (int64_t i = 0; i < N; i++)
		assert_int_equal(supervisor_watch(s, i * 7919 % N + 1, 0, i * 7 % (60 * S), 0), 0);
	for (int64_t i = 0; i < N; i += 3)
		supervisor_forget(s, i + 1);
	while (supervisor_count(s) > n) {
		int64_t wait = supervisor_wait_ns(s, now);

		assert_true(wait >= 0);
		now += wait;
		assert_true(now >= last);
		last = now;
		assert_true(supervisor_next(s, now, &serial));
		assert_true((serial - 1) % 3 != 0);
		n++;
	}
	assert_int_equal(n, N - (N + 2) / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_every_interval_failing_with_backoff),
		cmocka_unit_test(every_delay_has_its_jitter),
		cmocka_unit_test(a_restart_goes_on_where_it_was),
		cmocka_unit_test(so_many_at_once_in_the_order_of_their_time),
		cmocka_unit_test(who_is_asked_for_comes_first),
		cmocka_unit_test(who_goes_is_not_probed_again),
		cmocka_unit_test(other_settings_shorten_what_is_waited_for),
		cmocka_unit_test(thousands_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
