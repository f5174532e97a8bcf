#include "core/supervisor_config.h"

#include "core/clock.h"

struct supervisor_config supervisor_config_default(void)
{
	return (struct supervisor_config){
		.interval_ns = 30 * CLOCK_NS_PER_S,
		.probe_timeout_ns = 10 * CLOCK_NS_PER_S,
		.backoff_base_ns = 5 * CLOCK_NS_PER_S,
		.backoff_max_ns = 300 * CLOCK_NS_PER_S,
		.jitter_fraction = 0.2,
		.max_concurrent_probes = 8,
		.policy = health_policy_default(),
	};
}

static int64_t positive_or(int64_t value, int64_t otherwise)
{
	return value > 0 ? value : otherwise;
}

/* Also turns a NaN into 0. */
static double clamp_jitter(double fraction)
{
	if (!(fraction > 0))
		return 0;
	return fraction > SUPERVISOR_JITTER_MAX ? SUPERVISOR_JITTER_MAX : fraction;
}

struct supervisor_config supervisor_config_normalize(struct supervisor_config c)
{
	struct supervisor_config d = supervisor_config_default();

	c.interval_ns = positive_or(c.interval_ns, d.interval_ns);
	c.probe_timeout_ns = positive_or(c.probe_timeout_ns, d.probe_timeout_ns);
	c.backoff_base_ns = positive_or(c.backoff_base_ns, d.backoff_base_ns);
	if (c.backoff_max_ns < c.backoff_base_ns)
		c.backoff_max_ns = c.backoff_base_ns;
	c.jitter_fraction = clamp_jitter(c.jitter_fraction);
	c.max_concurrent_probes = positive_or(c.max_concurrent_probes, d.max_concurrent_probes);
	c.policy = health_policy_clamp(c.policy);
	return c;
}

int64_t supervisor_backoff_ns(const struct supervisor_config *config, int64_t failures)
{
	struct supervisor_config c = supervisor_config_normalize(*config);
	int64_t delay = c.backoff_base_ns;

	for (int64_t n = 1; n < failures && delay < c.backoff_max_ns; n++)
		delay = delay > c.backoff_max_ns / 2 ? c.backoff_max_ns : delay * 2;
	return delay;
}

int64_t supervisor_jitter_ns(int64_t delay_ns, double fraction, double random)
{
	double factor = 1 + clamp_jitter(fraction) * (2 * random - 1);
	double delay = (double)delay_ns * factor;

	/* 2^63 as a double is the first value that does not fit. */
	if (delay >= 9223372036854775808.0)
		return INT64_MAX;
	return delay > 0 ? (int64_t)delay : 0;
}
