/*
 * The runner: one process a helper program that the hub has run (run.h), as long as that. It is the
 * subreaper of all that the program starts, keeps its time, and ends it when the hub or the launcher
 * goes. libc only.
 *
 * A program is over when its main process has ended *and* nothing that it started runs any more:
 * what is left is killed. A process that cannot die (stuck in the kernel) keeps it from being over;
 * the runner goes on trying, also when nobody waits for it any more.
 *
 * Nothing is on disk. When a runner is killed, its launcher ends what it leaves by the control
 * group; a launcher that is started later ends the groups that it finds. Without control groups the
 * main process still dies with its runner.
 */
#ifndef CLOOP_DRIVERS_SHIM_RUNNER_H
#define CLOOP_DRIVERS_SHIM_RUNNER_H

#include "drivers/shim/shim.h"

/* The "attempt" in the name of a helper program's control group: sessions count from 1. */
#define RUNNER_ATTEMPT 0U

/*
 * Runs in a freshly forked process. control_fd: its end of the hub's socket pair, with the record in
 * it. group names the control group; no other on this machine has it.
 */
__attribute__((noreturn)) void runner_run(const struct shim_host *host, int control_fd,
					  uint64_t group);

#endif
