/* What a local process can be given, and the environment that it gets. */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/spec.h"
#include "drivers/localprocess/localprocess.h"
#include "drivers/shim/protocol.h"

#define ALL (SHIM_CAN_CPU | SHIM_CAN_MEMORY | SHIM_CAN_PIDS | SHIM_CAN_KILL | SHIM_CAN_SETUID)
#define SHA "0123456789abcdef0123456789abcdef01234567"

static struct spec *parse(const char *fields)
{
	struct spec *spec = NULL;
	char text[1024];
	struct error err;

	(void)snprintf(text, sizeof(text), "{\"argv\":[\"true\"]%s%s}", fields[0] ? "," : "",
		       fields);
	if (spec_parse(text, strlen(text), &spec, &err) < 0)
		fail_msg("%s: %s: %s", text, err.field, err.reason);
	return spec;
}

static const struct check {
	const char *fields;
	unsigned abilities;
	int error;
	const char *field;
} checks[] = {
	{"", 0, 0, ""},
	{"\"work_dir\":\"/tmp\",\"timeout_minutes\":5,\"labels\":{\"a\":\"b\"}", 0, 0, ""},
	{"\"workspace\":{\"kind\":\"bind\"},\"work_dir\":\"/tmp\"", 0, 0, ""},
	{"\"image\":\"x\"", ALL, EOPNOTSUPP, "image"},
	{"\"setup_commands\":[\"x\"]", ALL, EOPNOTSUPP, "setup_commands"},
	{"\"mounts\":[{\"source\":\"a\",\"target\":\"/a\"}]", ALL, EOPNOTSUPP, "mounts"},
	{"\"host_mounts\":[{\"name\":\"n\",\"source\":\"/a\",\"target\":\"/b\"}]", ALL, EOPNOTSUPP,
	 "host_mounts"},
	{"\"disable_network\":true", ALL, EOPNOTSUPP, "disable_network"},
	{"\"workspace\":{\"kind\":\"none\"}", ALL, EOPNOTSUPP, "workspace.kind"},
	{"\"workspace\":{\"kind\":\"git\",\"repo\":\"https://h/a/b\",\"ref\":\"" SHA "\"}", ALL,
	 EOPNOTSUPP, "workspace.kind"},
	{"\"resource_limits\":{\"disk_mb\":1}", ALL, EOPNOTSUPP, "resource_limits.disk_mb"},
	{"\"resource_limits\":{\"cpu_millis\":1,\"memory_mb\":1,\"pids\":1}", ALL, 0, ""},
	{"\"resource_limits\":{\"cpu_millis\":1}", ALL & ~SHIM_CAN_CPU, EOPNOTSUPP,
	 "resource_limits.cpu_millis"},
	{"\"resource_limits\":{\"memory_mb\":1}", ALL & ~SHIM_CAN_MEMORY, EOPNOTSUPP,
	 "resource_limits.memory_mb"},
	{"\"resource_limits\":{\"pids\":1}", ALL & ~SHIM_CAN_PIDS, EOPNOTSUPP,
	 "resource_limits.pids"},
	{"\"resource_limits\":{\"pids\":1}", SHIM_CAN_PIDS, 0, ""},
};

static void test_check(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		AUTO_SPEC struct spec *spec = parse(checks[i].fields);
		struct error err = {0};
		int r = localprocess_check(spec, checks[i].abilities, &err);

		if (r != -checks[i].error)
			fail_msg("%s: %d", checks[i].fields, r);
		assert_string_equal(err.field, checks[i].field);
		if (r < 0) {
			assert_true(err.reason[0] != '\0' && err.remedy[0] != '\0');
			assert_int_equal(err.kind, ERROR_UNSUPPORTED);
		}
	}
	/* A path that only a program can put there. */
	AUTO_SPEC struct spec *spec = parse("");
	struct error err;
	free(spec->work_dir);
	spec->work_dir = strdup("relative");
	assert_int_equal(localprocess_check(spec, ALL, &err), -EINVAL);
	assert_string_equal(err.field, "work_dir");
}

static void test_capabilities(void **state)
{
	(void)state;
	struct capabilities c = localprocess_capabilities(ALL);
	assert_int_equal(c.isolation, ISOLATION_NONE);
	assert_true(c.shares_host_filesystem && c.secret_files_from_host_path);
	assert_true(c.supports_stream && c.supports_signal && c.supports_resource_limits);
	assert_true(c.network_egress);
	assert_false(c.filtered_egress || c.virtualized || c.supports_image_override ||
		     c.supports_sandbox_build || c.supports_sandbox_mounts ||
		     c.supports_host_mounts || c.supports_write_back ||
		     c.supports_workspace_provisioning);
	assert_string_equal(c.platform, "linux");

	/* Limits only when all three are enforced. */
	static const unsigned missing[] = {SHIM_CAN_CPU, SHIM_CAN_MEMORY, SHIM_CAN_PIDS};
	for (size_t i = 0; i < ARRAY_SIZE(missing); i++)
		assert_false(localprocess_capabilities(ALL & ~missing[i]).supports_resource_limits);
	/* Signals reach every descendant also without groups. */
	assert_true(localprocess_capabilities(0).supports_signal);
}

static const char *value(const struct localprocess_environment *env, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->list[i], name, len) == 0 && env->list[i][len] == '=')
			return env->list[i] + len + 1;
	return NULL;
}

static void test_environment(void **state)
{
	AUTO_SPEC struct spec *given = parse("\"env\":[\"A=1\",\"CLOOP_X=2\"]");
	AUTO_SPEC struct spec *empty = parse("\"env\":[]");
	AUTO_SPEC struct spec *none = parse("");
	struct localprocess_environment env;
	uid_t own = geteuid(), other = own == 0 ? 65534 : 0;

	(void)state;
	assert_int_equal(setenv("CLOOP_MASTER_KEY", "secret", 1), 0);
	assert_int_equal(setenv("INHERITED", "yes", 1), 0);

	/* What a spec says, and no more, whoever runs it. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			localprocess_environment(given, i == 0 ? own : other, &env, NULL), 0);
		assert_int_equal(env.n, 2);
		assert_string_equal(env.list[0], "A=1");
		assert_null(env.list[2]);
		localprocess_environment_clear(&env);
		assert_int_equal(
			localprocess_environment(empty, i == 0 ? own : other, &env, NULL), 0);
		assert_int_equal(env.n, 0);
		assert_null(env.list[0]);
		localprocess_environment_clear(&env);
	}

	/* The hub's own, without what is the hub's alone. */
	assert_int_equal(localprocess_environment(none, own, &env, NULL), 0);
	assert_string_equal(value(&env, "INHERITED"), "yes");
	assert_null(value(&env, "CLOOP_MASTER_KEY"));
	localprocess_environment_clear(&env);

	/* Nothing of the hub's for anybody else. */
	assert_int_equal(localprocess_environment(none, other, &env, NULL), 0);
	assert_null(value(&env, "INHERITED"));
	assert_null(value(&env, "CLOOP_MASTER_KEY"));
	assert_string_equal(value(&env, "PATH"), "/usr/local/bin:/usr/bin:/bin");
	assert_string_equal(value(&env, "LANG"), "C.UTF-8");
	assert_non_null(value(&env, "HOME"));
	if (other == 0) {
		assert_string_equal(value(&env, "HOME"), "/root");
		assert_string_equal(value(&env, "USER"), "root");
		assert_string_equal(value(&env, "LOGNAME"), "root");
	}
	localprocess_environment_clear(&env);

	/* One that has no account still has a home to go to. */
	assert_int_equal(localprocess_environment(none, 3999999999U, &env, NULL), 0);
	assert_string_equal(value(&env, "HOME"), "/");
	assert_null(value(&env, "USER"));
	localprocess_environment_clear(&env);
	assert_int_equal(unsetenv("CLOOP_MASTER_KEY"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
