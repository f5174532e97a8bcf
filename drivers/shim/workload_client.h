/* What workload.c and workload_client.c share: the new process before it executes anything. */
#ifndef CLOOP_DRIVERS_SHIM_WORKLOAD_CLIENT_H
#define CLOOP_DRIVERS_SHIM_WORKLOAD_CLIENT_H

#include "drivers/shim/workload.h"

/* Reports what failed, and ends the process. */
__attribute__((noreturn)) void workload_fail(const struct workload_plan *p, enum shim_step step,
					     int error, const char *path);

/* Whether what fd (or the path, when fd is AT_FDCWD) names is on the forbidden device. Asks no
 * server. */
int workload_on_device(int fd, const char *path, uint64_t device);

/* Opens and checks what the sandbox is given, and completes the client's arguments. */
void workload_client_prepare(const struct workload_plan *p);

#endif
