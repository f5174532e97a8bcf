/*
 * How often executors are probed: the arithmetic of the supervisor, without a clock.
 *
 * Source: the reference's SupervisorConfig and DefaultSupervisorConfig. A configuration that is
 * zero is usable but not the default: its longest delay is the shortest one, it has no jitter and
 * both thresholds are 1.
 */
#ifndef CLOOP_CORE_SUPERVISOR_CONFIG_H
#define CLOOP_CORE_SUPERVISOR_CONFIG_H

#include <stdint.h>

#include "core/health.h"

/* More jitter could make a delay vanish. */
#define SUPERVISOR_JITTER_MAX 0.9

struct supervisor_config {
	int64_t interval_ns;      /* between probes of a healthy node */
	int64_t probe_timeout_ns; /* of one probe */
	int64_t backoff_base_ns;  /* after the first failure */
	int64_t backoff_max_ns;
	double jitter_fraction; /* 0.2 is ±20 % */
	int64_t max_concurrent_probes;
	struct health_policy policy;
};

/* 30 s, 10 s, 5 s up to 300 s, 20 %, 8 at once, thresholds 1 and 3. */
struct supervisor_config supervisor_config_default(void);

/* Replaces what is not positive, and clamps. */
struct supervisor_config supervisor_config_normalize(struct supervisor_config config);

/* The delay after n failures in a row: base·2^(n-1), at most the maximum. */
int64_t supervisor_backoff_ns(const struct supervisor_config *config, int64_t failures);

/* A delay with jitter; random is in [0,1), 0.5 leaves the delay as it is. */
int64_t supervisor_jitter_ns(int64_t delay_ns, double fraction, double random);

#endif
