/*
 * The set of registered executors and the rule for which one a project runs on.
 *
 * A project runs on the executor it is bound to (here first, then through the lookup), and on the
 * default only without a binding. A binding to an executor that is not registered is an error and
 * never a fallback: a project pinned to an isolated executor must not end up on the host because
 * that executor went away. Where the policy forbids host execution, an executor that declares no
 * isolation is refused at registration and at resolution; undeclared counts as none.
 *
 * Paths of projects are absolute and cleaned, symbolic links are not resolved. One that is relative
 * is taken from the root, which is where a hub works.
 *
 * Belongs to one owner; no locks. The executor itself is opaque and borrowed.
 *
 * Errors: EEXIST ERROR_ALREADY_REGISTERED, ENOENT ERROR_EXECUTOR_NOT_FOUND, ENXIO ERROR_NO_DEFAULT,
 * EACCES ERROR_HOST_EXECUTION_DENIED, EINVAL for a blank id or path.
 *
 * Source: the reference's Registry.
 */
#ifndef CLOOP_CORE_REGISTRY_H
#define CLOOP_CORE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/capabilities.h"
#include "core/error.h"
#include "core/owner.h"
#include "core/policy.h"

struct registry;

struct registry_entry {
	char *id;
	enum isolation isolation;
	void *executor;
};

/* The policy is borrowed and read at every decision. NULL when out of memory. */
struct registry *registry_new(const struct host_policy *policy);
struct registry *registry_free(struct registry *registry);
OWNER_DEFINE(struct registry, registry, registry_free);
#define AUTO_REGISTRY CLEANUP(owner_registryp)

/* The first one registered becomes the default. */
int registry_register(struct registry *registry, const char *id, enum isolation isolation,
		      void *executor, struct error *err);

/* Does nothing when the id is there. */
int registry_ensure(struct registry *registry, const char *id, enum isolation isolation,
		    void *executor, struct error *err);

/* The lowest remaining id becomes the default if it was this one. Unknown ids: nothing. */
void registry_unregister(struct registry *registry, const char *id);

/* NULL when there is none. Borrowed until the next change. */
const struct registry_entry *registry_find(const struct registry *registry, const char *id);

/* Entries in the order of their ids. */
size_t registry_len(const struct registry *registry);
const struct registry_entry *registry_at(const struct registry *registry, size_t i);

int registry_get(const struct registry *registry, const char *id, const struct registry_entry **ret,
		 struct error *err);
int registry_set_default(struct registry *registry, const char *id, struct error *err);

/* "" when there is none. */
const char *registry_default_id(const struct registry *registry);
int registry_get_default(const struct registry *registry, const struct registry_entry **ret,
			 struct error *err);

/* The ids of executors that isolate, sorted. Free with strlist_free(). Returns 0 or -ENOMEM. */
int registry_isolated_ids(const struct registry *registry, char ***ret, size_t *ret_n);

/* Binds a project to an id, registered or not; an empty id unbinds it. */
int registry_bind(struct registry *registry, const char *project_path, const char *id,
		  struct error *err);
int registry_unbind(struct registry *registry, const char *project_path, struct error *err);

/*
 * Where bindings come from that are not held here. Returns the id, borrowed until the next call, or
 * NULL. The path is cleaned.
 */
void registry_set_binding_lookup(struct registry *registry,
				 const char *(*lookup)(void *context, const char *project_path),
				 void *context);

/*
 * The id that a project is bound to, NULL when it is not (or memory ran out). Borrowed until the
 * next call. For display: what runs where is registry_resolve()'s to say.
 */
const char *registry_binding(const struct registry *registry, const char *project_path);

/* The refusals: of a binding to an executor that is not registered, and where there is no default. */
int registry_refuse_binding(const char *id, struct error *err);
int registry_refuse_default(struct error *err);

/* The executor for a project; a blank path has no binding. resolve_binding leaves the policy out.
 */
int registry_resolve(const struct registry *registry, const char *project_path,
		     const struct registry_entry **ret, struct error *err);
int registry_resolve_binding(const struct registry *registry, const char *project_path,
			     const struct registry_entry **ret, struct error *err);

#endif
