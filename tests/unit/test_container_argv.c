/* What a container runtime is called with: tables over everything that is asked for. */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "drivers/container/argv.h"
#include "drivers/shim/session_dir.h"

static char *const base_env[] = {(char *)(uintptr_t) "PATH=/bin", (char *)(uintptr_t) "HOME=/root"};

struct built {
	struct container_config config;
	struct spec *spec;
	struct container_command command;
};

static void built_clear(struct built *b)
{
	container_command_clear(&b->command);
	container_config_clear(&b->config);
	b->spec = spec_free(b->spec);
}

/* Builds from JSON; returns what container_command_build() does. */
static int build_plan(const char *config, const char *spec, const struct container_plan *more,
		      struct built *ret, struct error *err)
{
	AUTO_JSON json_t *options = json_loads(config, 0, NULL);
	struct container_plan plan = *more;

	*ret = (struct built){0};
	assert_non_null(options);
	assert_int_equal(container_config_load(options, &ret->config, err), 0);
	assert_int_equal(spec_parse(spec, strlen(spec), &ret->spec, err), 0);
	plan.config = &ret->config;
	plan.spec = ret->spec;
	plan.name = "cloop-1";
	plan.executor = "box";
	plan.handle = "s-1.1";
	plan.base_env = base_env;
	plan.n_base_env = ARRAY_SIZE(base_env);
	return container_command_build(&plan, &ret->command, err);
}

static void build(const char *config, const char *spec, struct built *ret)
{
	const struct container_plan plan = {.group = true, .own_memory = true};
	struct error err;

	assert_int_equal(build_plan(config, spec, &plan, ret, &err), 0);
	assert_int_equal(container_command_set_image(&ret->command, "IMAGE", &err), 0);
}

static char *join(char *const *list)
{
	struct buf b = BUF_INIT(1 << 20);

	for (size_t i = 0; list && list[i]; i++)
		buf_printf(&b, "%s%s", i ? " " : "", list[i]);
	if (b.len == 0)
		buf_puts(&b, "");
	return buf_take(&b);
}

#define SANDBOX                                                                                    \
	"--pull=never --rm --name=cloop-1 --label=cloop.managed=true --label=cloop.executor=box "  \
	"--label=cloop.handle=s-1.1 --cap-drop=all --security-opt=no-new-privileges --read-only "  \
	"--tmpfs=/tmp:rw,nosuid,nodev,exec,size=512m "
#define SUPERVISED                                                                                 \
	"--cidfile container.id --cgroup-parent group --detach --log-driver=passthrough "          \
	"--conmon-pidfile monitor.pid --pidfile init.pid --cgroups=no-conmon --http-proxy=false "  \
	"--read-only-tmpfs=false --image-volume=ignore "
#define WORK "--volume :/workspace:rw,bind,nosuid,nodev "
#define USER "--user user --workdir=/workspace "

static void whole_commands(void **state)
{
	static const struct {
		const char *config, *spec, *argv, *env, *env_file;
	} cases[] = {
		{"{}", "{\"argv\":[\"echo\",\"hi there\",\"\"]}",
		 "podman --log-level=error run " SANDBOX "--network=none " USER "--pids-limit=1024 " SUPERVISED
			 WORK "IMAGE echo hi there ",
		 "PATH=/bin HOME=/root", ""},
		{"{\"oci_runtime\":\"kata-qemu\",\"network\":\"agents\",\"cpus\":1.5,\"memory\":\"2g\","
		 "\"pids_limit\":-1,\"extra_args\":[\"--hostname=x\"],\"runtime_env\":{\"HOME\":\"/h\",\"A\":\"b\"}}",
		 "{\"argv\":[\"a\"],\"env\":[\"TOKEN=secret\",\"PATH=/evil\"]}",
		 "podman --log-level=error --runtime=kata-qemu run " SANDBOX "--network=agents " USER
		 "--cpus=1.500 --pids-limit=-1 " SUPERVISED WORK
		 "--env TOKEN --env-file env --hostname=x IMAGE a",
		 "PATH=/bin A=b HOME=/h TOKEN=secret", "PATH=/evil\n"},
		{"{\"network\":\"agents\"}", "{\"argv\":[\"a\"],\"disable_network\":true,\"env\":[]}",
		 "podman --log-level=error run " SANDBOX "--network=none " USER "--pids-limit=1024 " SUPERVISED
			 WORK "IMAGE a",
		 "PATH=/bin HOME=/root", ""},
		{"{\"cpus\":8,\"memory\":\"2g\",\"selinux_label\":\"Z\"}",
		 "{\"argv\":[\"a\"],\"work_dir\":\"/w\",\"resource_limits\":{\"cpu_millis\":5,\"memory_mb\":64,"
		 "\"pids\":32},\"mounts\":[{\"source\":\"s\",\"target\":\"/t\",\"read_only\":true}],"
		 "\"host_mounts\":[{\"name\":\"n\",\"source\":\"/hs\",\"target\":\"/ht\"}]}",
		 "podman --log-level=error run " SANDBOX "--network=none " USER "--pids-limit=32 " SUPERVISED
		 "--volume :/workspace:rw,bind,nosuid,nodev,Z --volume :/t:ro,bind,nosuid,nodev,Z "
		 "--volume :/ht:rw,bind,nosuid,nodev IMAGE a",
		 "PATH=/bin HOME=/root", ""},
		{"{\"runtime\":\"docker\",\"oci_runtime\":\"runsc\"}", "{\"argv\":[\"a\"]}",
		 "docker run --runtime=runsc " SANDBOX "--network=none " USER "--pids-limit=1024 "
		 "--cidfile container.id --cgroup-parent group --log-driver=none --attach=stdout "
		 "--attach=stderr --volume :/workspace:rw IMAGE a",
		 "PATH=/bin HOME=/root", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(built_clear) struct built b;

		build(cases[i].config, cases[i].spec, &b);
		AUTO_FREE char *argv = join(b.command.argv), *env = join(b.command.env);
		assert_string_equal(argv, cases[i].argv);
		assert_string_equal(env, cases[i].env);
		assert_string_equal(b.command.env_file, cases[i].env_file);
	}
}

static void edits_point_where_they_should(void **state)
{
	static const struct {
		enum launch_edit_kind kind;
		const char *before, *at;
	} want[] = {
		{LAUNCH_EDIT_USER, "--user", "user"},
		{LAUNCH_EDIT_FILE, "--cidfile", SHIM_CONTAINER_ID},
		{LAUNCH_EDIT_GROUP, "--cgroup-parent", "group"},
		{LAUNCH_EDIT_FILE, "--conmon-pidfile", SHIM_CONTAINER_MONITOR_PID},
		{LAUNCH_EDIT_FILE, "--pidfile", SHIM_CONTAINER_INIT_PID},
		{LAUNCH_EDIT_WORK, "--volume", ":/workspace:rw,bind,nosuid,nodev"},
		{LAUNCH_EDIT_BELOW, "--volume", ":/t:rw,bind,nosuid,nodev"},
		{LAUNCH_EDIT_HOST, "--volume", ":/ht:ro,bind,nosuid,nodev"},
		{LAUNCH_EDIT_HOST, "--volume", ":/run/secrets/x:ro,bind,nosuid,nodev"},
		{LAUNCH_EDIT_ENV_FILE, "--env-file", "env"},
	};
	const struct container_plan plan = {
		.group = true, .secrets_source = "/dev/shm/s", .secrets_target = "/run/secrets/x"};
	CLEANUP(built_clear) struct built b;
	struct error err;

	(void)state;
	assert_int_equal(build_plan("{}",
				    "{\"argv\":[\"--user\",\"user\"],\"env\":[\"PATH=x\"],\"work_dir\":\"/w\","
				    "\"mounts\":[{\"source\":\"s\",\"target\":\"/t\"}],\"host_mounts\":"
				    "[{\"source\":\"/hs\",\"target\":\"/ht\",\"read_only\":true}]}",
				    &plan, &b, &err),
			 0);
	assert_int_equal(b.command.n_edits, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		const struct launch_edit *e = &b.command.edits[i];

		assert_int_equal(e->kind, want[i].kind);
		assert_string_equal(b.command.argv[e->arg - 1], want[i].before);
		assert_string_equal(b.command.argv[e->arg], want[i].at);
	}
	AUTO_FREE char *paths = join(b.command.paths);
	assert_string_equal(paths, "s /hs /dev/shm/s");
	AUTO_FREE char *remove = join(b.command.remove);
	assert_string_equal(remove, "podman rm --force --ignore --time=0 cloop-1");
}

/* Whatever a spec says, the options before the image are the driver's own. */
static void a_spec_adds_no_option(void **state)
{
	static const char *const specs[] = {
		"{\"argv\":[\"--privileged\"]}",
		"{\"argv\":[\"a\",\"--volume=/:/host\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"--privileged=1\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"FOO*=1\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"CONTAINERS_CONF=/evil\",\"LD_PRELOAD=/evil\",\"DOCKER_HOST=x\"]}",
		"{\"argv\":[\"a\"],\"labels\":{\"--privileged\":\"x\"}}",
	};
	static const char *const refused[] = {"--privileged", "--volume=/", "CONTAINERS_CONF", "LD_PRELOAD",
					      "DOCKER_HOST", "FOO"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		CLEANUP(built_clear) struct built b;

		build("{}", specs[i], &b);
		assert_string_equal(b.command.argv[b.command.image_arg], "IMAGE");
		for (size_t j = 0; j < b.command.image_arg; j++)
			for (size_t k = 0; k < ARRAY_SIZE(refused); k++)
				assert_null(strstr(b.command.argv[j], refused[k]));
		/* Neither in the runtime's own environment. */
		for (size_t j = 0; j < b.command.n_env; j++)
			for (size_t k = 2; k < ARRAY_SIZE(refused); k++)
				assert_null(strstr(b.command.env[j], refused[k]));
	}
}

static void no_value_is_in_argv(void **state)
{
	CLEANUP(built_clear) struct built b;

	(void)state;
	build("{\"runtime_env\":{\"X\":\"canary1\"}}",
	      "{\"argv\":[\"a\"],\"env\":[\"A=canary2\",\"PATH=canary3\",\"a-b=canary4\",\"M=canary5\\nx\"]}", &b);
	for (size_t i = 0; b.command.argv[i]; i++)
		assert_null(strstr(b.command.argv[i], "canary"));
	for (size_t i = 0; b.command.remove[i]; i++)
		assert_null(strstr(b.command.remove[i], "canary"));
	assert_string_equal(b.command.env_file, "PATH=canary3\na-b=canary4\n");
	/* Values of the spec come behind the runtime's own, so that they can be dropped. */
	assert_int_equal(b.command.n_runtime_env, 3);
	assert_string_equal(b.command.env[3], "A=canary2");
	assert_string_equal(b.command.env[4], "M=canary5\nx");
}

static void variables_that_cannot_be_given(void **state)
{
	static const char *const specs[] = {
		"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"PATH=x\\ny\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"PATH=x\\ry\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"#B=x\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"B C=x\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"A=1\",\" B=x\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"X-Y=1\\nPATH=2\"]}",
	};
	const struct container_plan plan = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		CLEANUP(built_clear) struct built b;
		struct error err;

		assert_int_equal(build_plan("{}", specs[i], &plan, &b, &err), -EINVAL);
		assert_string_equal(err.field, "env[1]");
		assert_null(b.command.argv);
	}
}

/* A name that the operator gave to the runtime is the runtime's, whatever it is. */
static void names_of_the_runtime(void **state)
{
	static const char *const names[] = {"PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "GODEBUG",
					    "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINER_HOST",
					    "CONTAINERS_REGISTRIES_CONF", "DOCKER_HOST", "DOCKER_CONFIG",
					    "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "TMPDIR", "NOTIFY_SOCKET",
					    "LISTEN_FDS", "_CONTAINERS_USERNS_CONFIGURED", "STORAGE_DRIVER",
					    "GLIBC_TUNABLES", "SSL_CERT_FILE", "https_proxy", "REGISTRY_AUTH_FILE",
					    "DBUS_SESSION_BUS_ADDRESS", "BUILDAH_ISOLATION", "BASH_ENV"};
	CLEANUP(built_clear) struct built b;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(container_variable_is_runtimes(names[i]));
	assert_false(container_variable_is_runtimes("TOKEN"));
	assert_false(container_variable_is_runtimes("path"));
	build("{\"runtime_env\":{\"FROM_OPERATOR\":\"1\"}}",
	      "{\"argv\":[\"a\"],\"env\":[\"FROM_OPERATOR=2\"]}", &b);
	assert_string_equal(b.command.env_file, "FROM_OPERATOR=2\n");
	assert_int_equal(b.command.n_env, b.command.n_runtime_env);
}

static void limits_and_who_enforces_them(void **state)
{
	static const struct {
		struct container_plan plan;
		const char *has, *has_not;
	} cases[] = {
		{{.group = true, .own_memory = true}, "--pids-limit=9", "--memory"},
		{{.group = true}, "--memory=64m --memory-swap=64m", "--userns"},
		{{.rootless = true}, "--userns=keep-id", "--cgroup-parent"},
		{{.rootless = true}, "--memory=64m", "no-conmon"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(built_clear) struct built b;
		struct error err;

		assert_int_equal(build_plan("{}",
					    "{\"argv\":[\"a\"],\"resource_limits\":{\"memory_mb\":64,\"pids\":9}}",
					    &cases[i].plan, &b, &err),
				 0);
		AUTO_FREE char *argv = join(b.command.argv);
		assert_non_null(strstr(argv, cases[i].has));
		assert_null(strstr(argv, cases[i].has_not));
	}
}

/* The most that a spec can ask for fits what the shim takes. */
static void the_largest_spec_fits(void **state)
{
	struct buf spec = BUF_INIT(1 << 20);
	const struct container_plan plan = {
		.group = true, .secrets_source = "/s", .secrets_target = "/t"};
	CLEANUP(built_clear) struct built b;
	struct error err;

	(void)state;
	buf_puts(&spec, "{\"argv\":[\"a\"],\"work_dir\":\"/w\",\"env\":[\"PATH=x\"],\"mounts\":[");
	for (int i = 0; i < MAX_SPEC_MOUNTS; i++)
		buf_printf(&spec, "%s{\"source\":\"s%d\",\"target\":\"/m%d\"}", i ? "," : "", i, i);
	buf_puts(&spec, "],\"host_mounts\":[");
	for (int i = 0; i < MAX_HOST_MOUNTS; i++)
		buf_printf(&spec, "%s{\"source\":\"/s%d\",\"target\":\"/h%d\"}", i ? "," : "", i, i);
	buf_puts(&spec, "]}");
	assert_int_equal(build_plan("{}", spec.data, &plan, &b, &err), 0);
	assert_true(b.command.n_edits <= LAUNCH_EDITS_MAX);
	assert_true(b.command.n_paths <= LAUNCH_PATHS_MAX);
	buf_free(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_commands),
		cmocka_unit_test(edits_point_where_they_should),
		cmocka_unit_test(a_spec_adds_no_option),
		cmocka_unit_test(no_value_is_in_argv),
		cmocka_unit_test(variables_that_cannot_be_given),
		cmocka_unit_test(names_of_the_runtime),
		cmocka_unit_test(limits_and_who_enforces_them),
		cmocka_unit_test(the_largest_spec_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
