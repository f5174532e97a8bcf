#include "core/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/pathname.h"
#include "core/sorted.h"
#include "core/strlist.h"

struct binding {
	char *path;
	char *id;
};

struct registry {
	const struct host_policy *policy;
	struct registry_entry *entries; /* by id */
	size_t n, cap;
	char *default_id;         /* NULL: none */
	struct binding *bindings; /* in no order */
	size_t n_bindings, cap_bindings;
	const char *(*lookup)(void *context, const char *project_path);
	void *context;
};

struct registry *registry_new(const struct host_policy *policy)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (r)
		r->policy = policy;
	return r;
}

struct registry *registry_free(struct registry *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->n; i++)
		free(r->entries[i].id);
	for (size_t i = 0; i < r->n_bindings; i++) {
		free(r->bindings[i].path);
		free(r->bindings[i].id);
	}
	free(r->entries);
	free(r->bindings);
	free(r->default_id);
	free(r);
	return NULL;
}

static int compare_id(const void *item, const void *id)
{
	const struct registry_entry *e = item;

	return strcmp(e->id, id);
}

/* Where the id is, or would be. */
static size_t position(const struct registry *r, const char *id)
{
	return sorted_place(r->entries, r->n, sizeof(r->entries[0]), id, compare_id);
}

const struct registry_entry *registry_find(const struct registry *r, const char *id)
{
	size_t i = position(r, id);

	return i < r->n && strcmp(r->entries[i].id, id) == 0 ? &r->entries[i] : NULL;
}

size_t registry_len(const struct registry *r)
{
	return r->n;
}

const struct registry_entry *registry_at(const struct registry *r, size_t i)
{
	return i < r->n ? &r->entries[i] : NULL;
}

static int deny(const struct registry *r, const char *id, const char *project_path,
		struct error *err)
{
	char **ids = NULL;
	size_t n = 0;

	/* Without memory for the alternatives the refusal stands all the same. */
	(void)registry_isolated_ids(r, &ids, &n);
	int e = host_execution_deny(id, project_path, NULL, ids, n, err);
	strlist_free(ids, n);
	return e;
}

static bool is_denied(const struct registry *r, enum isolation isolation)
{
	return !host_policy_allows(r->policy) && !isolation_isolates_from_host(isolation);
}

int registry_register(struct registry *r, const char *id, enum isolation isolation, void *executor,
		      struct error *err)
{
	if (text_trimmed(id).len == 0) {
		int e = error_set(err, EINVAL, "an executor needs an id");
		error_field(err, "id");
		return e;
	}
	if (is_denied(r, isolation))
		return deny(r, id, NULL, err);
	if (registry_find(r, id))
		return error_set_kind(err, EEXIST, ERROR_ALREADY_REGISTERED,
				      "executor %s is already registered", id);
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 16;
		struct registry_entry *grown = reallocarray(r->entries, cap, sizeof(*grown));

		if (!grown)
			return error_oom(err);
		r->entries = grown;
		r->cap = cap;
	}
	AUTO_FREE char *copy = strdup(id);
	AUTO_FREE char *as_default = r->default_id ? NULL : strdup(id);
	if (!copy || (!r->default_id && !as_default))
		return error_oom(err);

	size_t at = position(r, id);
	sorted_open_gap(r->entries, r->n, sizeof(r->entries[0]), at);
	r->entries[at] = (struct registry_entry){
		.id = take_ptr(copy), .isolation = isolation, .executor = executor};
	r->n++;
	if (as_default)
		r->default_id = take_ptr(as_default);
	return 0;
}

int registry_ensure(struct registry *r, const char *id, enum isolation isolation, void *executor,
		    struct error *err)
{
	return registry_find(r, id) ? 0 : registry_register(r, id, isolation, executor, err);
}

void registry_unregister(struct registry *r, const char *id)
{
	size_t at = position(r, id);

	if (at == r->n || strcmp(r->entries[at].id, id) != 0)
		return;

	bool was_default = r->default_id && strcmp(r->default_id, id) == 0;
	char *gone = r->entries[at].id;
	sorted_close_gap(r->entries, r->n, sizeof(r->entries[0]), at);
	r->n--;
	if (was_default) {
		free(r->default_id);
		/* Without memory there is no default, which refuses instead of choosing. */
		r->default_id = r->n > 0 ? strdup(r->entries[0].id) : NULL;
	}
	free(gone);
}

static int refuse_unknown(const char *id, struct error *err)
{
	int e = error_set_kind(err, ENOENT, ERROR_EXECUTOR_NOT_FOUND,
			       "executor %s is not registered", id);

	error_remedy(err, "ls /cloop/executors lists them");
	return e;
}

int registry_get(const struct registry *r, const char *id, const struct registry_entry **ret,
		 struct error *err)
{
	const struct registry_entry *entry = registry_find(r, id);

	if (!entry)
		return refuse_unknown(id, err);
	*ret = entry;
	return 0;
}

int registry_set_default(struct registry *r, const char *id, struct error *err)
{
	if (!registry_find(r, id))
		return refuse_unknown(id, err);
	char *copy = strdup(id);
	if (!copy)
		return error_oom(err);
	free(r->default_id);
	r->default_id = copy;
	return 0;
}

const char *registry_default_id(const struct registry *r)
{
	return text_or_empty(r->default_id);
}

int registry_refuse_default(struct error *err)
{
	int e = error_set_kind(err, ENXIO, ERROR_NO_DEFAULT, "there is no default executor");

	error_remedy(err, "write the id of one to /cloop/default_id");
	return e;
}

int registry_refuse_binding(const char *id, struct error *err)
{
	int e = error_set_kind(err, ENOENT, ERROR_EXECUTOR_NOT_FOUND,
			       "the project is bound to executor %s, which is not registered", id);

	error_remedy(err, "register it, or write another id to the project's binding");
	return e;
}

int registry_get_default(const struct registry *r, const struct registry_entry **ret,
			 struct error *err)
{
	const struct registry_entry *entry = r->default_id ? registry_find(r, r->default_id) : NULL;

	if (!entry)
		return registry_refuse_default(err);
	*ret = entry;
	return 0;
}

int registry_isolated_ids(const struct registry *r, char ***ret, size_t *ret_n)
{
	char **ids = calloc(r->n + 1, sizeof(*ids));
	size_t n = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++) {
		if (!isolation_isolates_from_host(r->entries[i].isolation))
			continue;
		ids[n] = strdup(r->entries[i].id);
		if (!ids[n]) {
			strlist_free(ids, n);
			return -ENOMEM;
		}
		n++;
	}
	*ret = ids;
	*ret_n = n;
	return 0;
}

/* The path that a binding is kept under; NULL when out of memory. */
static char *canonical(const char *path)
{
	AUTO_FREE char *rooted = NULL;

	if (path[0] == '/')
		return pathname_clean(path, strlen(path));
	if (asprintf(&rooted, "/%s", path) < 0) {
		rooted = NULL;
		return NULL;
	}
	return pathname_clean(rooted, strlen(rooted));
}

static size_t find_binding(const struct registry *r, const char *path)
{
	size_t i = 0;

	while (i < r->n_bindings && strcmp(r->bindings[i].path, path) != 0)
		i++;
	return i;
}

static void remove_binding(struct registry *r, const char *path)
{
	size_t at = find_binding(r, path);

	if (at == r->n_bindings)
		return;
	free(r->bindings[at].path);
	free(r->bindings[at].id);
	r->bindings[at] = r->bindings[--r->n_bindings];
}

static int add_binding(struct registry *r, char **path, const char *id)
{
	AUTO_FREE char *copy = strdup(id);
	size_t at = find_binding(r, *path);

	if (!copy)
		return -ENOMEM;
	if (at < r->n_bindings) {
		free(r->bindings[at].id);
		r->bindings[at].id = take_ptr(copy);
		return 0;
	}
	if (r->n_bindings == r->cap_bindings) {
		size_t cap = r->cap_bindings ? r->cap_bindings * 2 : 16;
		struct binding *grown = reallocarray(r->bindings, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		r->bindings = grown;
		r->cap_bindings = cap;
	}
	r->bindings[r->n_bindings++] =
		(struct binding){.path = take_ptr(*path), .id = take_ptr(copy)};
	return 0;
}

int registry_bind(struct registry *r, const char *project_path, const char *id, struct error *err)
{
	if (text_trimmed(project_path).len == 0) {
		int e = error_set(err, EINVAL, "must name the directory of the project");
		error_field(err, "path");
		return e;
	}
	AUTO_FREE char *path = canonical(project_path);
	if (!path)
		return error_oom(err);
	if (!id[0]) {
		remove_binding(r, path);
		return 0;
	}
	return add_binding(r, &path, id) < 0 ? error_oom(err) : 0;
}

int registry_unbind(struct registry *r, const char *project_path, struct error *err)
{
	return registry_bind(r, project_path, "", err);
}

void registry_set_binding_lookup(struct registry *r,
				 const char *(*lookup)(void *context, const char *project_path),
				 void *context)
{
	r->lookup = lookup;
	r->context = context;
}

/* *ret is NULL when there is none. Returns 0 or -ENOMEM: then nothing may be assumed. */
static int find_bound_id(const struct registry *r, const char *project_path, const char **ret)
{
	*ret = NULL;
	if (text_trimmed(project_path).len == 0)
		return 0;
	AUTO_FREE char *path = canonical(project_path);
	if (!path)
		return -ENOMEM;
	size_t at = find_binding(r, path);
	if (at < r->n_bindings)
		*ret = r->bindings[at].id;
	else if (r->lookup)
		*ret = r->lookup(r->context, path);
	if (*ret && !(*ret)[0])
		*ret = NULL;
	return 0;
}

const char *registry_binding(const struct registry *r, const char *project_path)
{
	const char *id;

	return find_bound_id(r, project_path, &id) < 0 ? NULL : id;
}

int registry_resolve_binding(const struct registry *r, const char *project_path,
			     const struct registry_entry **ret, struct error *err)
{
	const char *id;

	if (find_bound_id(r, project_path, &id) < 0)
		return error_oom(err);
	if (!id)
		return registry_get_default(r, ret, err);
	const struct registry_entry *entry = registry_find(r, id);
	if (!entry)
		return registry_refuse_binding(id, err);
	*ret = entry;
	return 0;
}

int registry_resolve(const struct registry *r, const char *project_path,
		     const struct registry_entry **ret, struct error *err)
{
	const struct registry_entry *entry;
	int e = registry_resolve_binding(r, project_path, &entry, err);

	if (e < 0)
		return e;
	if (is_denied(r, entry->isolation))
		return deny(r, entry->id, project_path, err);
	*ret = entry;
	return 0;
}
