/*
 * What a process of this host can be given: the rules of the localprocess driver, without I/O but for
 * reading /etc/passwd.
 */
#ifndef CLOOP_DRIVERS_LOCALPROCESS_LOCALPROCESS_H
#define CLOOP_DRIVERS_LOCALPROCESS_LOCALPROCESS_H

#include <stddef.h>
#include <sys/types.h>

#include "core/capabilities.h"
#include "core/error.h"
#include "core/spec.h"

/* What the driver offers; abilities: enum shim_ability of the launcher. */
struct capabilities localprocess_capabilities(unsigned abilities);

/*
 * Refuses what a plain process cannot be given: EOPNOTSUPP naming the field, EINVAL for a relative
 * work_dir. A field that is not refused is honoured.
 */
int localprocess_check(const struct spec *spec, unsigned abilities, struct error *err);

/* A complete environment: "K=V", ends with NULL. */
struct localprocess_environment {
	char **list;
	size_t n;
};

/*
 * The environment of a workload that runs as uid. A spec with `env` gets exactly that. Without: the
 * hub's own environment without CLOOP_* when uid is the hub's own, else a minimal one (PATH, LANG,
 * and HOME, USER and LOGNAME as /etc/passwd has them).
 */
int localprocess_environment(const struct spec *spec, uid_t uid, struct localprocess_environment *ret,
			     struct error *err);
/* PATH, LANG, and HOME, USER and LOGNAME as /etc/passwd has them for uid. */
int localprocess_minimal_environment(uid_t uid, struct localprocess_environment *ret,
				     struct error *err);
void localprocess_environment_clear(struct localprocess_environment *env);

#endif
