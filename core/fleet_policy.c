#include "core/fleet_policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy.h"

static enum isolation isolation_of(struct driver *driver, const struct executor_config *config)
{
	struct capabilities caps = {0};

	if (!driver)
		return ISOLATION_UNDECLARED;
	driver->ops->capabilities(driver, config, &caps);
	return caps.isolation;
}

enum isolation executor_isolation(const struct executor *e)
{
	return isolation_of(e->driver, &e->config);
}

static int deny(struct fleet *fleet, const char *id, const char *project_path, struct error *err)
{
	const struct executor *e;
	AUTO_FREE char **ids = NULL;
	size_t n = 0, len = 0;

	while (fleet_at(fleet, len))
		len++;
	ids = calloc(len + 1, sizeof(*ids));
	/* Without memory for the alternatives the refusal stands all the same. */
	for (size_t i = 0; ids && (e = fleet_at(fleet, i)); i++)
		if (isolation_isolates_from_host(executor_isolation(e)))
			ids[n++] = e->record.name;
	return host_execution_deny(id, project_path, NULL, ids, n, err);
}

int fleet_check_host(struct fleet *fleet, const struct executor *e, const char *project_path,
		     struct error *err)
{
	if (host_policy_allows(fleet_host_policy(fleet)) ||
	    isolation_isolates_from_host(executor_isolation(e)))
		return 0;
	return deny(fleet, e->record.name, project_path, err);
}

static int check_kind(const struct executor *e, const struct executor_config *config,
		      struct error *err)
{
	if (!e->record.kind[0] || strcmp(e->record.kind, config->kind) == 0 || e->inflight == 0)
		return 0;
	int r = error_set(err, EBUSY, "the kind cannot change while %llu sessions run",
			  (unsigned long long)e->inflight);
	error_field(err, "kind");
	error_remedy(err, "echo drain > executors/%s/state, and wait for drained", e->record.name);
	return r;
}

int fleet_check_config(struct fleet *fleet, const char *id, const struct executor *e,
		       const struct executor_config *config, struct error *err)
{
	int r = e ? check_kind(e, config, err) : 0;

	if (r < 0 || host_policy_allows(fleet_host_policy(fleet)))
		return r;
	if (isolation_isolates_from_host(isolation_of(fleet_driver(fleet, config->kind), config)))
		return 0;
	/* Nobody is evicted: what is on the host already may be configured there. */
	if (e && e->record.config[0] && !isolation_isolates_from_host(executor_isolation(e)))
		return 0;
	return deny(fleet, id, NULL, err);
}
