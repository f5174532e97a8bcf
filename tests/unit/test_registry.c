#include "tests/unit/test.h"

#include <string.h>

#include "core/registry.h"
#include "core/strlist.h"

static int add(struct registry *r, const char *id, enum isolation isolation)
{
	return registry_register(r, id, isolation, NULL, NULL);
}

static const char *resolved(const struct registry *r, const char *path)
{
	const struct registry_entry *entry = NULL;
	struct error err;
	int e = registry_resolve(r, path, &entry, &err);

	return e < 0 ? error_name(-e) : entry->id;
}

static void registering(void **state)
{
	struct host_policy policy = {0};
	AUTO_REGISTRY struct registry *r = registry_new(&policy);
	struct error err;
	int executor, other;

	(void)state;
	assert_string_equal(registry_default_id(r), "");
	assert_string_equal(resolved(r, "/p"), "ENXIO");
	assert_int_equal(registry_register(r, " ", ISOLATION_VM, NULL, &err), -EINVAL);
	assert_int_equal(registry_register(r, "b", ISOLATION_VM, &executor, &err), 0);
	assert_int_equal(add(r, "a", ISOLATION_VM), 0);
	assert_string_equal(registry_default_id(r), "b");
	assert_int_equal(registry_register(r, "a", ISOLATION_VM, NULL, &err), -EEXIST);
	assert_int_equal(err.kind, ERROR_ALREADY_REGISTERED);
	assert_int_equal(registry_ensure(r, "b", ISOLATION_NONE, &other, &err), 0);
	assert_ptr_equal(registry_find(r, "b")->executor, &executor);
	assert_int_equal(registry_find(r, "b")->isolation, ISOLATION_VM);
	assert_int_equal(registry_ensure(r, "c", ISOLATION_VM, NULL, &err), 0);
	assert_int_equal(registry_len(r), 3);
	assert_string_equal(registry_at(r, 0)->id, "a");
	assert_string_equal(registry_at(r, 2)->id, "c");
	assert_null(registry_at(r, 3));

	const struct registry_entry *entry;
	assert_int_equal(registry_get(r, "x", &entry, &err), -ENOENT);
	assert_int_equal(err.kind, ERROR_EXECUTOR_NOT_FOUND);
	assert_int_equal(registry_get(r, "c", &entry, &err), 0);
}

static void defaults(void **state)
{
	struct host_policy policy = {0};
	AUTO_REGISTRY struct registry *r = registry_new(&policy);

	(void)state;
	add(r, "m", ISOLATION_VM);
	add(r, "z", ISOLATION_VM);
	add(r, "a", ISOLATION_VM);
	registry_unregister(r, "x");
	assert_string_equal(registry_default_id(r), "m");
	assert_int_equal(registry_set_default(r, "x", NULL), -ENOENT);
	assert_int_equal(registry_set_default(r, "z", NULL), 0);
	registry_unregister(r, "m");
	assert_string_equal(registry_default_id(r), "z");
	registry_unregister(r, "z");
	assert_string_equal(registry_default_id(r), "a");
	registry_unregister(r, "a");
	assert_string_equal(registry_default_id(r), "");
	assert_string_equal(resolved(r, "/p"), "ENXIO");
	add(r, "n", ISOLATION_VM);
	assert_string_equal(registry_default_id(r), "n");
}

static const char *lookup(void *context, const char *path)
{
	return strcmp(path, "/stored") == 0 ? context : strcmp(path, "/blank") == 0 ? "" : NULL;
}

static void bindings(void **state)
{
	struct host_policy policy = {0};
	AUTO_REGISTRY struct registry *r = registry_new(&policy);
	char stored[] = "b";

	(void)state;
	add(r, "a", ISOLATION_VM);
	add(r, "b", ISOLATION_VM);
	assert_int_equal(registry_bind(r, "/srv//p/../q/", "b", NULL), 0);
	assert_string_equal(registry_binding(r, "/srv/q"), "b");
	assert_string_equal(resolved(r, "/srv/./q"), "b");
	assert_string_equal(resolved(r, "/srv/other"), "a");
	assert_string_equal(resolved(r, ""), "a");
	assert_int_equal(registry_bind(r, "rel/./p", "b", NULL), 0);
	assert_string_equal(resolved(r, "rel/p/"), "b");
	assert_string_equal(resolved(r, "/rel/p"), "b");
	assert_string_equal(resolved(r, "../rel/p"), "b");
	assert_int_equal(registry_unbind(r, "./rel/p", NULL), 0);
	assert_string_equal(resolved(r, "/rel/p"), "a");
	assert_int_equal(registry_bind(r, " ", "b", NULL), -EINVAL);
	assert_int_equal(registry_bind(r, "", "b", NULL), -EINVAL);

	/* Bound to what is not there: an error, never the default. */
	assert_int_equal(registry_bind(r, "/srv/q", "gone", NULL), 0);
	assert_string_equal(resolved(r, "/srv/q"), "ENOENT");
	add(r, "gone", ISOLATION_VM);
	assert_string_equal(resolved(r, "/srv/q"), "gone");
	registry_unregister(r, "gone");
	assert_string_equal(resolved(r, "/srv/q"), "ENOENT");
	assert_int_equal(registry_bind(r, "/srv/q/", "", NULL), 0);
	assert_null(registry_binding(r, "/srv/q"));
	assert_string_equal(resolved(r, "/srv/q"), "a");

	registry_set_binding_lookup(r, lookup, stored);
	assert_string_equal(resolved(r, "/stored/"), "b");
	assert_string_equal(resolved(r, "/blank"), "a");
	assert_int_equal(registry_bind(r, "/stored", "a", NULL), 0);
	assert_string_equal(resolved(r, "/stored"), "a");
	assert_int_equal(registry_unbind(r, "/stored", NULL), 0);
	assert_string_equal(resolved(r, "/stored"), "b");
	registry_set_binding_lookup(r, NULL, NULL);
	assert_string_equal(resolved(r, "/stored"), "a");
}

static void the_policy(void **state)
{
	struct host_policy policy = {0};
	AUTO_REGISTRY struct registry *r = registry_new(&policy);
	const struct registry_entry *entry;
	struct error err;
	char **ids;
	size_t n;

	(void)state;
	add(r, "host", ISOLATION_NONE);
	add(r, "vague", ISOLATION_UNDECLARED);
	add(r, "edge", ISOLATION_REMOTE);
	add(r, "box", ISOLATION_CONTAINER);
	assert_string_equal(resolved(r, "/p"), "host");
	host_policy_apply(&policy, false);
	assert_int_equal(registry_resolve(r, "/p", &entry, &err), -EACCES);
	assert_int_equal(err.kind, ERROR_HOST_EXECUTION_DENIED);
	assert_non_null(strstr(err.remedy, "box, edge"));
	/* For display it is still shown. */
	assert_int_equal(registry_resolve_binding(r, "/p", &entry, &err), 0);
	assert_string_equal(entry->id, "host");
	assert_int_equal(registry_bind(r, "/p", "vague", NULL), 0);
	assert_string_equal(resolved(r, "/p"), "EACCES");
	assert_int_equal(registry_bind(r, "/p", "box", NULL), 0);
	assert_string_equal(resolved(r, "/p"), "box");
	/* Not registered is not found, not denied. */
	assert_int_equal(registry_bind(r, "/p", "gone", NULL), 0);
	assert_string_equal(resolved(r, "/p"), "ENOENT");
	assert_int_equal(add(r, "host2", ISOLATION_NONE), -EACCES);
	assert_int_equal(add(r, "vague2", ISOLATION_UNDECLARED), -EACCES);
	assert_int_equal(add(r, "vm", ISOLATION_VM), 0);
	assert_int_equal(registry_isolated_ids(r, &ids, &n), 0);
	assert_int_equal(n, 3);
	assert_string_equal(ids[0], "box");
	assert_string_equal(ids[2], "vm");
	strlist_free(ids, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registering),
		cmocka_unit_test(defaults),
		cmocka_unit_test(bindings),
		cmocka_unit_test(the_policy),
	};

	return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
