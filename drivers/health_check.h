/*
 * An executor's health_check (core/executor_config.h) as a program to run (drivers/shim/run.h), and
 * what its end says. For the drivers that run it on this host. Nothing here does I/O.
 */
#ifndef CLOOP_DRIVERS_HEALTH_CHECK_H
#define CLOOP_DRIVERS_HEALTH_CHECK_H

#include "core/error.h"
#include "core/executor.h"
#include "core/executor_config.h"
#include "drivers/shim/run.h"

/* Of its output, for the sentence that says what is wrong. */
#define HEALTH_CHECK_OUTPUT_BYTES 4096

/* How long it may run: its own time, never longer than the probe's. */
int64_t health_check_timeout_ms(const struct executor_health_check *check, int64_t probe_ms);

/* The program as the hub's own user. Everything is borrowed: argv of the check, env of the caller. */
struct run_command health_check_command(const struct executor_health_check *check, char *const *env,
					int64_t timeout_ms);

/*
 * What its end says of the executor: 0 when it exited with 0. Else EIO with how it ended and the first
 * line of what it said, ETIMEDOUT, or the errno with which it could not be run. As for run_done_fn,
 * result or failure is NULL.
 */
int health_check_verdict(const struct run_result *result, const struct error *failure,
			 int64_t timeout_ms, struct error *err);

#endif
