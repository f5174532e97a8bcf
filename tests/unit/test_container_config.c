/* The container driver's keys, its capabilities, its refusals, and what an inspection says. */
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/json.h"
#include "drivers/container/build.h"
#include "drivers/container/check.h"
#include "drivers/container/config.h"
#include "drivers/container/image.h"
#include "drivers/container/internal.h"
#include "drivers/shim/protocol.h"

static int load(const char *text, struct container_config *ret, struct error *err)
{
	AUTO_JSON json_t *options = json_loads(text, 0, NULL);

	assert_non_null(options);
	return container_config_load(options, ret, err);
}

static void configs_are_read_and_written_back(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"{}", "{\"runtime\":\"podman\"}"},
		{"{\"runtime\":\"docker\",\"network\":\"none\",\"pids_limit\":1024}", "{\"runtime\":\"docker\"}"},
		{"{\"memory\":\"512m\"}", "{\"runtime\":\"podman\",\"memory\":512}"},
		{"{\"memory\":\"2g\"}", "{\"runtime\":\"podman\",\"memory\":2048}"},
		{"{\"memory\":\"2048k\"}", "{\"runtime\":\"podman\",\"memory\":2}"},
		{"{\"memory\":\"7\"}", "{\"runtime\":\"podman\",\"memory\":7}"},
		{"{\"memory\":7}", "{\"runtime\":\"podman\",\"memory\":7}"},
		{"{\"cpus\":2}", "{\"runtime\":\"podman\",\"cpus\":2}"},
		{"{\"cpus\":0.5}", "{\"runtime\":\"podman\",\"cpus\":0.5}"},
		{"{\"pids_limit\":-1,\"network\":\"agents\",\"selinux_label\":\"z\"}",
		 "{\"runtime\":\"podman\",\"pids_limit\":-1,\"network\":\"agents\",\"selinux_label\":\"z\"}"},
		{"{\"orphan_grace_period_seconds\":0}", "{\"runtime\":\"podman\"}"},
		{"{\"orphan_grace_period_seconds\":5}",
		 "{\"runtime\":\"podman\",\"orphan_grace_period_seconds\":5}"},
		{"{\"runtime_env\":{\"B\":\"2\",\"A\":\"\"},\"oci_runtime\":\"kata-qemu\"}",
		 "{\"runtime\":\"podman\",\"runtime_env\":{\"A\":\"\",\"B\":\"2\"},\"oci_runtime\":\"kata-qemu\"}"},
		{"{\"image\":\"docker.io/a/b:1\",\"image_policy\":{\"require_digest\":false,\"repos\":[],"
		 "\"registries\":[\"quay.io\",\"docker.io\",\"quay.io\"]}}",
		 "{\"runtime\":\"podman\",\"image\":\"docker.io/a/b:1\",\"image_policy\":{\"registries\":"
		 "[\"docker.io\",\"quay.io\"]}}"},
		{"{\"extra_args\":[\"--hostname=x\",\"--init\"]}",
		 "{\"runtime\":\"podman\",\"extra_args\":[\"--hostname=x\",\"--init\"]}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_CONTAINER_CONFIG struct container_config c = {0}, again = {0};
		struct error err;

		assert_int_equal(load(cases[i].in, &c, &err), 0);
		AUTO_JSON json_t *o = container_config_to_json(&c);
		AUTO_FREE char *text = json_text(o);
		assert_string_equal(text, cases[i].want);
		/* The canonical form is accepted again and stays the same. */
		assert_int_equal(container_config_load(o, &again, &err), 0);
		AUTO_JSON json_t *p = container_config_to_json(&again);
		assert_true(json_equal(o, p));
	}
}

static void configs_are_refused(void **state)
{
	static const struct {
		const char *in, *field;
	} cases[] = {
		{"{\"runtime\":\"crio\"}", "runtime"},
		{"{\"runtime\":\"/usr/bin/podman\"}", "runtime"},
		{"{\"runtime\":3}", "runtime"},
		{"{\"oci_runtime\":\"/usr/bin/runc\"}", "oci_runtime"},
		{"{\"oci_runtime\":\"-x\"}", "oci_runtime"},
		{"{\"oci_runtime\":\"a b\"}", "oci_runtime"},
		{"{\"oci_runtime\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
		 "oci_runtime"},
		{"{\"network\":\"host\"}", "network"},
		{"{\"network\":\"HOST\"}", "network"},
		{"{\"network\":\"container:x\"}", "network"},
		{"{\"network\":\"ns:/proc/1/ns/net\"}", "network"},
		{"{\"network\":\"slirp4netns:allow_host_loopback=true\"}", "network"},
		{"{\"network\":\"none,host\"}", "network"},
		{"{\"network\":\"\"}", "network"},
		{"{\"cpus\":0}", "cpus"},
		{"{\"cpus\":-1}", "cpus"},
		{"{\"cpus\":\"2\"}", "cpus"},
		{"{\"memory\":\"2gb\"}", "memory"},
		{"{\"memory\":\"1k\"}", "memory"},
		{"{\"memory\":\"-1m\"}", "memory"},
		{"{\"memory\":\"\"}", "memory"},
		{"{\"memory\":0}", "memory"},
		{"{\"memory\":1.5}", "memory"},
		{"{\"memory\":\"99999999999999999999g\"}", "memory"},
		{"{\"pids_limit\":0}", "pids_limit"},
		{"{\"pids_limit\":-2}", "pids_limit"},
		{"{\"pids_limit\":4194305}", "pids_limit"},
		{"{\"orphan_grace_period_seconds\":604801}", "orphan_grace_period_seconds"},
		{"{\"orphan_grace_period_seconds\":-1}", "orphan_grace_period_seconds"},
		{"{\"selinux_label\":\"disable\"}", "selinux_label"},
		{"{\"runtime_env\":{\"A B\":\"x\"}}", "runtime_env.A B"},
		{"{\"runtime_env\":{\"A\":1}}", "runtime_env.A"},
		{"{\"image\":\"-x\"}", "image"},
		{"{\"image\":\"a:1\",\"image_policy\":{\"registries\":[\"quay.io\"]}}", "image"},
		{"{\"image_policy\":{\"require_signature\":true}}", NULL},
		{"{\"image_policy\":{\"registries\":[\"\"]}}", "image_policy"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_CONTAINER_CONFIG struct container_config c = {0};
		struct error err;

		assert_true(load(cases[i].in, &c, &err) < 0);
		if (cases[i].field)
			assert_string_equal(err.field, cases[i].field);
		assert_null(c.network);
	}
}

/* Every spelling of what opens the sandbox, and what is no option at all. */
static void extra_args_are_refused(void **state)
{
	static const char *const args[] = {
		"--privileged", "--privileged=true", "--Privileged", "--cap-add=all", "--security-opt=seccomp=x",
		"--volume=/:/h", "--mount=type=bind", "--tmpfs=/x", "--device=/dev/kvm", "--network=host",
		"--net=host", "--user=0", "--user=root", "--userns=host", "--entrypoint=sh", "--env=A=b",
		"--env-file=/x", "--env-host", "--pid=host", "--ipc=host", "--uts=host", "--cgroupns=host",
		"--cgroup-parent=/", "--group-add=0", "--rootfs", "--read-only=false", "--pull=always",
		"--volumes-from=x", "--runtime=x", "--secret=x", "--publish=80:80", "--init-path=/x",
		"--annotation=a=b", "--sysctl=a=b", "--label=cloop.managed=false", "--name=x", "--memory=1g",
		"--pids-limit=-1", "--ulimit=nofile=1", "--restart=always", "--pod=x", "--systemd=always",
		"--hooks-dir=/x", "--url=unix:///x", "--root=/x", "--hostname=/run/podman/podman.sock",
		"-v/:/h", "-v", "-it", "-e", "-u0", "x", "", "--", "---privileged", "-", " --privileged",
		"--hostname=a\nb", "--cpu-profile=/x", "--memory-profile=/x", "--timeout=2", "--trace", "--noout",
		"--help", "--HOSTNAME=x", "--hostname x", "--init --privileged",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(args); i++) {
		AUTO_CONTAINER_CONFIG struct container_config c = {0};
		AUTO_JSON json_t *options = json_pack("{s:[s,s]}", "extra_args", "--hostname=x", args[i]);
		struct error err;

		assert_int_equal(container_config_load(options, &c, &err), -EINVAL);
		assert_string_equal(err.field, "extra_args[1]");
	}
}

static void capabilities_tell_the_truth(void **state)
{
	static const struct {
		const char *config;
		unsigned abilities;
		enum isolation isolation;
		bool virtualized, network, limits;
	} cases[] = {
		{"{}", ~0U, ISOLATION_CONTAINER, false, false, true},
		{"{\"network\":\"agents\"}", ~0U, ISOLATION_CONTAINER, false, true, true},
		{"{\"oci_runtime\":\"runc\"}", SHIM_CAN_PIDS, ISOLATION_CONTAINER, false, false, false},
		{"{\"oci_runtime\":\"runsc\"}", 0, ISOLATION_CONTAINER, false, false, false},
		{"{\"oci_runtime\":\"kata\"}", ~0U, ISOLATION_VM, true, false, true},
		{"{\"oci_runtime\":\"kata-qemu\"}", ~0U, ISOLATION_VM, true, false, true},
		{"{\"oci_runtime\":\"io.containerd.kata.v2\"}", ~0U, ISOLATION_VM, true, false, true},
		{"{\"oci_runtime\":\"katana\"}", ~0U, ISOLATION_CONTAINER, false, false, true},
		{"{\"oci_runtime\":\"kata_qemu\"}", ~0U, ISOLATION_CONTAINER, false, false, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_CONTAINER_CONFIG struct container_config c = {0};
		struct error err;

		assert_int_equal(load(cases[i].config, &c, &err), 0);
		struct capabilities caps = container_capabilities(&c, cases[i].abilities);
		assert_int_equal(caps.isolation, cases[i].isolation);
		assert_int_equal(caps.virtualized, cases[i].virtualized);
		assert_int_equal(caps.network_egress, cases[i].network);
		assert_int_equal(caps.supports_resource_limits, cases[i].limits);
		assert_false(caps.supports_write_back);
	}
}

static void specs_are_checked(void **state)
{
	static const char policy[] =
		"{\"image_policy\":{\"registries\":[\"quay.io\",\"localhost:5000\"],"
		"\"repos\":[\"quay.io/team/*\",\"localhost:5000/x\"],\"require_digest\":true}}";
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const struct {
		const char *config, *spec, *field;
		int want;
		unsigned abilities;
	} cases[] = {
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\"}", "", 0, ~0U},
		{"{\"image\":\"x:1\"}", "{\"argv\":[\"a\"]}", "", 0, ~0U},
		{"{}", "{\"argv\":[\"a\"]}", "image", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"resource_limits\":{\"disk_mb\":1}}",
		 "resource_limits.disk_mb", -EOPNOTSUPP, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"resource_limits\":{\"memory_mb\":1}}",
		 "resource_limits.memory_mb", -EOPNOTSUPP, SHIM_CAN_PIDS},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"resource_limits\":{\"cpu_millis\":1}}",
		 "resource_limits.cpu_millis", -EOPNOTSUPP, 0},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"mounts\":[{\"source\":\"s\",\"target\":\"/workspace\"}]}",
		 "mounts[0].target", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"mounts\":[{\"source\":\"s\",\"target\":\"/proc/sys\"}]}",
		 "mounts[0].target", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"mounts\":[{\"source\":\"s\",\"target\":\"/workspace/a\"}]}",
		 "", 0, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"x\",\"host_mounts\":[{\"source\":\"/s\",\"target\":\"/dev\"}]}",
		 "host_mounts[0].target", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"A\"}", "image", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"a@sha256:12\"}", "image", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"a@md5:" HEX "\"}", "image", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"a:\"}", "image", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"a//b\"}", "image", -EINVAL, ~0U},
		{"{}", "{\"argv\":[\"a\"],\"image\":\"a/\"}", "image", -EINVAL, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"quay.io/team/a@sha256:" HEX "\"}", "", 0, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"localhost:5000/x@sha256:" HEX "\"}", "", 0, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"quay.io/team/a:1\"}", "image", -EACCES, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"quay.io/teams/a@sha256:" HEX "\"}", "image", -EACCES, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"localhost:5000/xy@sha256:" HEX "\"}", "image", -EACCES, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"docker.io/team/a@sha256:" HEX "\"}", "image", -EACCES, ~0U},
		{policy, "{\"argv\":[\"a\"],\"image\":\"team/a@sha256:" HEX "\"}", "image", -EACCES, ~0U},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_CONTAINER_CONFIG struct container_config c = {0};
		AUTO_SPEC struct spec *spec = NULL;
		struct error err = {0};

		assert_int_equal(load(cases[i].config, &c, &err), 0);
		assert_int_equal(spec_parse(cases[i].spec, strlen(cases[i].spec), &spec, &err), 0);
		assert_int_equal(container_check(&c, spec, cases[i].abilities, &err), cases[i].want);
		if (cases[i].want < 0)
			assert_string_equal(err.field, cases[i].field);
	}
}

static void inspections_are_read(void **state)
{
	static const struct {
		const char *text, *reference;
		int want;
		const char *image, *listed;
	} cases[] = {
		{"[{\"Id\":\"" HEX "\"}]", "a:1", 0, HEX, ""},
		{"[{\"Id\":\"sha256:" HEX "\",\"RepoDigests\":[]}]", "a:1", 0, "sha256:" HEX, ""},
		{"[{\"Id\":\"" HEX "\",\"RepoDigests\":[\"b@sha256:" HEX "\",\"r.io/a@sha256:" HEX "\"]}]",
		 "r.io/a:1", 0, "r.io/a@sha256:" HEX, ""},
		{"[{\"Id\":\"" HEX "\",\"RepoDigests\":[\"localhost/a@sha256:" HEX "\"]}]", "a", 0,
		 "localhost/a@sha256:" HEX, ""},
		/* What somebody put there to be taken for something else. */
		{"[{\"Id\":\"" HEX "\",\"RepoDigests\":[\"--privileged\",\"-v@sha256:" HEX "\",7]}]", "a", 0, HEX, ""},
		{"[{\"Id\":\"" HEX "\",\"GraphDriver\":{\"Name\":\"overlay\",\"Data\":{\"UpperDir\":"
		 "\"/s/overlay/abc/diff\"}}}]",
		 "a", 0, HEX, "/s/overlay-images/images.json"},
		{"[{\"Id\":\"" HEX "\",\"GraphDriver\":{\"Name\":\"../x\",\"Data\":{\"UpperDir\":\"/s/../x/d\"}}}]", "a",
		 0, HEX, ""},
		{"[{\"Id\":\"" HEX "\",\"Config\":{\"Entrypoint\":null}}]", "a", 0, HEX, ""},
		{"[{\"Id\":\"" HEX "\",\"Config\":{\"Entrypoint\":[\"/bin/sh\"]}}]", "a", -EINVAL, "", ""},
		{"[{\"Id\":\"" HEX "\",\"Config\":{\"Entrypoint\":\"/bin/sh\"}}]", "a", -EINVAL, "", ""},
		{"[{\"Id\":\"--privileged\"}]", "a", -EIO, "", ""},
		{"[]", "a", -EIO, "", ""},
		{"", "a", -EIO, "", ""},
		{"[{\"Id\":\"" HEX "\"},{\"Id\":\"" HEX "\"}]", "a", -EIO, "", ""},
		{"{\"Id\":\"" HEX "\"}", "a", -EIO, "", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct container_image_facts f = {0};
		struct error err;

		assert_int_equal(container_image_parse(cases[i].text, strlen(cases[i].text),
						       cases[i].reference, &f, &err),
				 cases[i].want);
		if (cases[i].want == 0) {
			assert_string_equal(f.image, cases[i].image);
			assert_string_equal(f.listed, cases[i].listed);
		} else {
			assert_null(f.image);
			assert_string_equal(err.field, "image");
		}
		container_image_facts_clear(&f);
	}
}

/* --- setup commands --- */

#define COMMANDS(...) ((char *[]){__VA_ARGS__})
#define TEXT(s) ((char *)(uintptr_t)(s))

static void a_build_file_has_no_other_lines(void **state)
{
	static char *const commands[] = {TEXT("echo hi"), TEXT("a\\\nUSER root"), TEXT("x\r\nFROM evil"),
					 TEXT("<<EOF"), TEXT("\"]\nCOPY / /"), TEXT("\xc3\xa9 $HOME ${X}"), TEXT("")};
	AUTO_FREE char *file = container_build_file("r/a@sha256:" HEX, commands, ARRAY_SIZE(commands));
	size_t lines = 0;

	(void)state;
	assert_non_null(file);
	for (char *p = file; *p;) {
		size_t len = strcspn(p, "\n");

		const char *begins = lines == 0	  ? "FROM r/a@sha256:"
				     : lines == 1 ? "LABEL cloop.managed=true"
						  : "RUN [\"/bin/sh\",\"-c\",\"";

		assert_memory_equal(p, begins, strlen(begins));
		for (size_t i = 0; i < len; i++)
			assert_true(p[i] >= ' ' && p[i] < 127);
		p += len + 1;
		lines++;
	}
	assert_int_equal(lines, 2 + ARRAY_SIZE(commands));
}

static void a_tag_names_base_and_commands(void **state)
{
	char **const lists[] = {COMMANDS(TEXT("a"), TEXT("b")), COMMANDS(TEXT("b"), TEXT("a")),
				COMMANDS(TEXT("ab"), TEXT("")), COMMANDS(TEXT(""), TEXT("ab"))};
	AUTO_CONTAINER_CONFIG struct container_config c = {0};
	char *tags[ARRAY_SIZE(lists)];
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		tags[i] = container_build_tag("base", lists[i], 2);
		assert_int_equal(container_image_check(&c, tags[i], &err), 0);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(tags[i], tags[j]);
	}
	AUTO_FREE char *other = container_build_tag("base2", lists[0], 2);
	AUTO_FREE char *same = container_build_tag("base", lists[0], 2);
	assert_string_not_equal(other, tags[0]);
	assert_string_equal(same, tags[0]);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(tags[i]);
}

/* --- sweeping --- */

struct swept {
	struct container_sweep sweep;
	char names[256];
};

static bool has_session(void *user, const char *name)
{
	(void)user;
	return strcmp(name, "tracked") == 0;
}

static void note(void *user, const char *name)
{
	struct swept *s = user;

	(void)strcat(s->names, name);
	(void)strcat(s->names, " ");
}

#define LABELS "\"Labels\":{\"cloop.managed\":\"true\",\"cloop.executor\":\"box\",\"cloop.handle\":\"s.1\"}"
#define LISTED(name, state, created, labels)                                                       \
	"[{\"Names\":[\"" name "\"],\"State\":\"" state "\",\"Created\":" created "," labels "}]"

static void only_certain_orphans_go(void **state)
{
	static const struct {
		const char *text;
		int64_t grace_s;
		const char *want;
	} cases[] = {
		{LISTED("a", "exited", "999", LABELS), 600, "a "},
		{LISTED("a", "running", "399", LABELS), 600, "a "},
		{LISTED("a", "created", "399", LABELS), 600, "a "},
		{LISTED("a", "running", "400", LABELS), 600, ""},
		{LISTED("a", "running", "999", LABELS), 600, ""},
		{LISTED("a", "running", "1001", LABELS), 600, ""}, /* from the future */
		{LISTED("a", "running", "0", LABELS), 600, ""},
		{LISTED("a", "running", "-5", LABELS), 600, ""},
		{LISTED("a", "running", "\"399\"", LABELS), 600, ""},
		{LISTED("a", "running", "399", LABELS), 0, ""},
		{LISTED("tracked", "exited", "1", LABELS), 600, ""},
		{LISTED("tracked", "running", "1", LABELS), 600, ""},
		{LISTED("", "exited", "1", LABELS), 600, ""},
		{LISTED("a", "exited", "1", "\"Labels\":{}"), 600, ""},
		{LISTED("a", "exited", "1", "\"Labels\":null"), 600, ""},
		{LISTED("a", "exited", "1", "\"Labels\":{\"cloop.managed\":\"true\",\"cloop.executor\":\"box\"}"),
		 600, ""},
		{LISTED("a", "exited", "1",
			"\"Labels\":{\"cloop.managed\":\"true\",\"cloop.executor\":\"other\",\"cloop.handle\":\"s\"}"),
		 600, ""},
		{LISTED("a", "exited", "1",
			"\"Labels\":{\"cloop.managed\":\"false\",\"cloop.executor\":\"box\",\"cloop.handle\":\"s\"}"),
		 600, ""},
		{"[7,null,{},{\"Names\":7},{\"Names\":[7]}]", 600, ""},
		{"[]", 600, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct swept s = {.sweep = {.executor = "box", .now_s = 1000, .tracks = has_session}};

		s.sweep.grace_s = cases[i].grace_s;
		s.sweep.user = &s;
		assert_true(container_sweep(&s.sweep, cases[i].text, strlen(cases[i].text), note) >= 0);
		assert_string_equal(s.names, cases[i].want);
	}
}

static void what_is_no_list_removes_nothing(void **state)
{
	static const char *const texts[] = {"", "null", "{}", "[", LISTED("a", "exited", "1", LABELS) "x"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct swept s = {.sweep = {.executor = "box", .now_s = 1000, .grace_s = 1, .tracks = has_session}};

		s.sweep.user = &s;
		assert_int_equal(container_sweep(&s.sweep, texts[i], strlen(texts[i]), note), -EBADMSG);
		assert_string_equal(s.names, "");
	}
}

static void names_lead_back(void **state)
{
	static const struct {
		const char *name;
		bool ours;
	} cases[] = {
		{"cloop-fe00-1a-0000002a.3", true}, {"cloop-fe00-1a-0000002a", false},
		{"cloop-fe00-1a-2a.3", false},	   {"cloop-fe00-1b-0000002a.3", false},
		{"cloop-fe00-1a-0000002a.3x", false}, {"cloop-fe00-1a-0000002a.03", false},
		{"x", false},			   {"", false},
	};
	struct container c = {.instance = "fe00-1a"};
	char name[CONTAINER_ID_MAX];
	uint32_t serial, attempt;

	(void)state;
	container_name(&c, 42, 3, name);
	assert_string_equal(name, cases[0].name);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(container_name_parse(&c, cases[i].name, &serial, &attempt), cases[i].ours);
		if (cases[i].ours) {
			assert_int_equal(serial, 42);
			assert_int_equal(attempt, 3);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configs_are_read_and_written_back),
		cmocka_unit_test(configs_are_refused),
		cmocka_unit_test(extra_args_are_refused),
		cmocka_unit_test(capabilities_tell_the_truth),
		cmocka_unit_test(specs_are_checked),
		cmocka_unit_test(inspections_are_read),
		cmocka_unit_test(a_build_file_has_no_other_lines),
		cmocka_unit_test(a_tag_names_base_and_commands),
		cmocka_unit_test(only_certain_orphans_go),
		cmocka_unit_test(what_is_no_list_removes_nothing),
		cmocka_unit_test(names_lead_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
