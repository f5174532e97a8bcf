/*
 * The hub's own settings: the document hub.json in the configuration directory.
 *
 *	{
 *	  "executors":  {"allow_host_process": true},
 *	  "supervisor": {"interval": "30s", "probe_timeout": "10s", "backoff_base": "5s",
 *	                 "backoff_max": "5m", "jitter_fraction": 0.2, "max_concurrent_probes": 8,
 *	                 "degrade_after": 1, "unreachable_after": 3},
 *	  "failover":   {"max_attempts": 2},
 *	  "retention":  {"age": "30d", "count": 100000},
 *	  "log_quota_bytes": 1073741824,
 *	  "disk_floor_bytes": 1073741824
 *	}
 *
 * These are also the defaults, but for allow_host_process: saying true is more than saying nothing
 * (core/policy.h). Every key may be left out; an unknown one is refused with its path. Nothing is
 * clamped: what is out of bounds is refused. Adding a setting is adding a row to the table in
 * hub_config.c.
 *
 * Source: the reference's SupervisorConfig and configuration keys (failover.max_attempts up to 10).
 */
#ifndef CLOOP_CORE_HUB_CONFIG_H
#define CLOOP_CORE_HUB_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/supervisor_config.h"

#define HUB_CONFIG_NAME "hub.json"

/* Many times what all keys with comments of blanks need. */
#define HUB_CONFIG_BYTES_MAX 65536

/* executors.allow_host_process */
enum host_process {
	HOST_PROCESS_UNSAID = 0,
	HOST_PROCESS_ALLOWED,
	HOST_PROCESS_FORBIDDEN,
};

struct hub_config {
	enum host_process host_process;
	struct supervisor_config supervisor;
	int64_t failover_max_attempts; /* re-dispatches of one session */
	int64_t log_quota_bytes;       /* of sessions whose executor says none */
	int64_t retention_age_ns;      /* finished sessions go when they ended so long ago */
	int64_t retention_count;       /* and when there are more of them, the oldest first */
	int64_t disk_floor_bytes;      /* with less free in the state directory nothing is started */
};

struct hub_config hub_config_default(void);

/* Parses and checks a document. EINVAL with the field, and nearly always a remedy. */
int hub_config_parse(const char *text, size_t len, struct hub_config *ret, struct error *err);

#endif
