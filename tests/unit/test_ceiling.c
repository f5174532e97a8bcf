#include "tests/unit/test.h"

#include <string.h>

#include "core/ceiling.h"

#define IMAGE "sha256:0a"
#define HOST "git.example.org:443"

static char *images[] = {(char *)IMAGE};
static char *hosts[] = {(char *)HOST, (char *)"b.example"};
static char *entrypoint[] = {(char *)"/bin/tool", (char *)"run"};
static struct spec_label variables[] = {{(char *)"A", (char *)"1"}, {(char *)"B", (char *)""}};

static struct ceiling make_ceiling(void)
{
	return (struct ceiling){
		.allowed_images = images,
		.n_allowed_images = 1,
		.allowed_network_hosts = hosts,
		.n_allowed_network_hosts = 2,
		.max_allowed_images = 1,
		.max_environment = 2,
		.max_arguments = 2,
		.max_allowed_hosts = 2,
		.max_string_bytes = 32,
		.max_input_bytes = 100,
		.limits = {10, 20, 30, 40, 50, 60, 2},
		.permit_gpu = true,
		.permit_network = true,
		.require_read_only_root = true,
	};
}

static struct isolated_spec make_spec(void)
{
	return (struct isolated_spec){
		.image_digest = IMAGE,
		.entrypoint = entrypoint,
		.n_entrypoint = 2,
		.environment = variables,
		.n_environment = 2,
		.read_only_root = true,
		.network = NETWORK_MODE_NONE,
		.no_new_privileges = true,
		.limits = {10, 20, 30, 40, 50, 60, 0},
	};
}

static void verdict(const struct ceiling *c, const struct isolated_spec *s, int code,
		    const char *field)
{
	struct error err = {0};
	int r = ceiling_check_spec(c, s, &err);

	if (r != -code)
		print_error("%s: %s (not %s)\n", err.field, err.reason, field);
	assert_int_equal(r, -code);
	assert_string_equal(err.field, field);
}

static void what_fits_is_allowed(void **state)
{
	struct ceiling c = make_ceiling();
	struct isolated_spec s = make_spec();

	(void)state;
	assert_int_equal(ceiling_check(&c, NULL), 0);
	verdict(&c, &s, 0, "");
	s.working_directory = "/";
	verdict(&c, &s, 0, "");
	s.n_environment = 0;
	s.network = NETWORK_MODE_ALLOWLIST;
	s.allowed_hosts = hosts;
	s.n_allowed_hosts = 2;
	s.allow_gpu = true;
	s.limits.gpu_device_count = 2;
	verdict(&c, &s, 0, "");
	c.require_read_only_root = false;
	s.read_only_root = false;
	verdict(&c, &s, 0, "");
}

static void a_ceiling_that_is_zero_denies(void **state)
{
	struct ceiling c = {0};
	struct isolated_spec s = make_spec();

	(void)state;
	assert_int_equal(ceiling_check(&c, NULL), 0);
	verdict(&c, &s, EACCES, "image_digest");
	assert_int_equal(ceiling_check_input(&c, 1, NULL), -EFBIG);
	assert_int_equal(ceiling_check_input(&c, 0, NULL), 0);
}

/* Each of these changes one thing in what would be allowed. */
static void privileges(void **state)
{
	struct ceiling c = make_ceiling();
	struct isolated_spec s;

	(void)state;
	s = make_spec();
	s.privileged = true;
	verdict(&c, &s, EACCES, "privileged");
	s = make_spec();
	s.n_host_mounts = 1;
	verdict(&c, &s, EACCES, "host_mounts");
	s = make_spec();
	s.expose_runtime_socket = true;
	verdict(&c, &s, EACCES, "expose_runtime_socket");
	s = make_spec();
	s.no_new_privileges = false;
	verdict(&c, &s, EACCES, "no_new_privileges");
	s = make_spec();
	s.read_only_root = false;
	verdict(&c, &s, EACCES, "read_only_root");
}

static void names_and_counts(void **state)
{
	struct ceiling c = make_ceiling();
	struct isolated_spec s = make_spec();
	char *blank[] = {(char *)""};
	char *wide[] = {(char *)"x", (char *)"123456789012345678901234567890123"};
	struct spec_label no_name = {(char *)"", (char *)"x"};
	struct spec_label pair = {(char *)"A=B", (char *)"x"};
	struct spec_label much = {(char *)"A", wide[1]};

	(void)state;
	s.image_digest = NULL;
	verdict(&c, &s, EINVAL, "image_digest");
	s.image_digest = "sha256:0A";
	verdict(&c, &s, EACCES, "image_digest");
	s.image_digest = wide[1];
	verdict(&c, &s, EACCES, "image_digest");

	s = make_spec();
	s.n_entrypoint = 0;
	verdict(&c, &s, EINVAL, "entrypoint");
	s.n_entrypoint = 1;
	s.entrypoint = blank;
	verdict(&c, &s, EINVAL, "entrypoint");
	s.n_entrypoint = 2;
	s.entrypoint = wide;
	verdict(&c, &s, EACCES, "entrypoint");
	s = make_spec();
	c.max_arguments = 1;
	verdict(&c, &s, EACCES, "entrypoint");

	c = make_ceiling();
	c.max_environment = 1;
	verdict(&c, &s, EACCES, "environment");
	s.n_environment = 1;
	s.environment = &no_name;
	verdict(&c, &s, EINVAL, "environment");
	s.environment = &pair;
	verdict(&c, &s, EINVAL, "environment");
	s.environment = &much;
	verdict(&c, &s, EACCES, "environment");
}

static void directories(void **state)
{
	static const struct {
		const char *dir;
		bool archive;
		int code;
	} rows[] = {
		{NULL, false, 0},
		{"", false, 0},
		{"/", false, 0},
		{"/workspace/source", false, EINVAL},
		{".", false, EINVAL},
		{"//", false, EINVAL},
		{"/workspace/source", true, 0},
		{"/workspace/source/a", true, 0},
		{"", true, EINVAL},
		{"/", true, EINVAL},
		{"/workspace/source/", true, EINVAL},
		{"/workspace/source/..", true, EINVAL},
		{"/workspace/source/./a", true, EINVAL},
		{"/workspace/sources", true, EINVAL},
		{"/workspace", true, EINVAL},
		{"workspace/source", true, EINVAL},
	};
	struct ceiling c = make_ceiling();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct isolated_spec s = make_spec();

		s.working_directory = rows[i].dir;
		s.workspace_archive = rows[i].archive;
		verdict(&c, &s, rows[i].code, rows[i].code ? "working_directory" : "");
	}
	c.max_string_bytes = 17;
	struct isolated_spec s = make_spec();
	s.workspace_archive = true;
	s.working_directory = "/workspace/source/a";
	verdict(&c, &s, EACCES, "working_directory");
}

static void networks(void **state)
{
	struct ceiling c = make_ceiling();
	struct isolated_spec s = make_spec();
	char *other_port[] = {(char *)"git.example.org:80"};
	char *other_case[] = {(char *)"B.example"};
	char *wildcard[] = {(char *)"*.example"};
	char *wide[] = {(char *)"abcdefghijklmnopqrstuvwxyz.example"};

	(void)state;
	s.network = NETWORK_MODE_UNKNOWN;
	verdict(&c, &s, EINVAL, "network");
	s.network = NETWORK_MODE_NONE;
	s.allowed_hosts = hosts;
	s.n_allowed_hosts = 1;
	verdict(&c, &s, EINVAL, "allowed_hosts");
	s.network = NETWORK_MODE_ALLOWLIST;
	verdict(&c, &s, 0, "");
	s.n_allowed_hosts = 0;
	verdict(&c, &s, EINVAL, "allowed_hosts");
	s.n_allowed_hosts = 1;
	s.allowed_hosts = other_port;
	verdict(&c, &s, EACCES, "allowed_hosts");
	s.allowed_hosts = other_case;
	verdict(&c, &s, EACCES, "allowed_hosts");
	s.allowed_hosts = wildcard;
	verdict(&c, &s, EINVAL, "allowed_hosts");
	s.allowed_hosts = wide;
	verdict(&c, &s, EACCES, "allowed_hosts");
	s.allowed_hosts = hosts;
	s.n_allowed_hosts = 2;
	c.max_allowed_hosts = 1;
	verdict(&c, &s, EACCES, "allowed_hosts");
	c.permit_network = false;
	verdict(&c, &s, EACCES, "network");
	assert_int_equal(network_mode_parse("allowlist"), NETWORK_MODE_ALLOWLIST);
	assert_int_equal(network_mode_parse("none"), NETWORK_MODE_NONE);
	assert_int_equal(network_mode_parse("None"), NETWORK_MODE_UNKNOWN);
	assert_int_equal(network_mode_parse(""), NETWORK_MODE_UNKNOWN);
	assert_string_equal(network_mode_name(NETWORK_MODE_NONE), "none");
}

static void every_limit_counts(void **state)
{
	static const char *const names[] = {
		"limits.cpu_millis", "limits.memory_bytes",   "limits.disk_bytes",
		"limits.pids",       "limits.execution_time", "limits.output_bytes",
	};
	struct ceiling c = make_ceiling();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct isolated_spec s = make_spec();
		uint64_t *limit = &s.limits.cpu_millis + i;

		*limit += 1;
		verdict(&c, &s, EACCES, names[i]);
		*limit = UINT64_MAX;
		verdict(&c, &s, EACCES, names[i]);
		*limit = 0;
		verdict(&c, &s, EINVAL, names[i]);
		*limit = 1;
		verdict(&c, &s, 0, "");
	}

	struct isolated_spec s = make_spec();
	s.limits.gpu_device_count = 1;
	verdict(&c, &s, EINVAL, "limits.gpu_device_count");
	s.allow_gpu = true;
	verdict(&c, &s, 0, "");
	s.limits.gpu_device_count = 3;
	verdict(&c, &s, EACCES, "limits.gpu_device_count");
	s.limits.gpu_device_count = 0;
	verdict(&c, &s, EINVAL, "limits.gpu_device_count");
	c.permit_gpu = false;
	verdict(&c, &s, EACCES, "allow_gpu");
}

static void hosts_are_spelled_in_one_way(void **state)
{
	static const char *const good[] = {
		"a",
		"git.example.org",
		"git.example.org:443",
		"A-b.example:1",
		"10.0.0.1",
		"10.0.0.1:65535",
		"[::1]",
		"[2001:db8::1]:8443",
		"xn--bcher-kva.example",
	};
	static const char *const bad[] = {
		"",
		"*",
		"*.example",
		"a.*",
		"a.",
		"a.:443",
		".a",
		"a..b",
		"a_b",
		"-a",
		"a-",
		"a-.b",
		"a.-b",
		"a:0",
		"a:",
		"a:00",
		"a:0443",
		"a:65536",
		"a:99999",
		"a:123456",
		"a:4x",
		"a:-1",
		"a:1:2",
		":443",
		"[a]",
		"[a.example]:443",
		"[::1",
		"::1",
		"[]",
		"[10.0.0.1]",
		"[fe80::1%eth0]",
		"[fe80::1%25eth0]:1",
		"[::1]x",
		"[::1]:0",
		"a b",
		" a",
		"a\n",
		"a/b",
		"https://a",
		"u@a",
		"b\xc3\xbc.example",
		"a%2e",
	};
	char label[65], name[255];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		if (!network_host_valid((struct text_view){good[i], strlen(good[i])}))
			print_error("refused: %s\n", good[i]);
		assert_true(network_host_valid((struct text_view){good[i], strlen(good[i])}));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (network_host_valid((struct text_view){bad[i], strlen(bad[i])}))
			print_error("accepted: %s\n", bad[i]);
		assert_false(network_host_valid((struct text_view){bad[i], strlen(bad[i])}));
	}
	assert_false(network_host_valid((struct text_view){"a\0b", 3}));
	assert_false(network_host_valid((struct text_view){"[::1\0]", 6}));
	memset(label, 'a', sizeof(label));
	assert_true(network_host_valid((struct text_view){label, 63}));
	assert_false(network_host_valid((struct text_view){label, 64}));
	memset(name, 'a', sizeof(name));
	for (size_t i = 50; i < 250; i += 51)
		name[i] = '.';
	assert_true(network_host_valid((struct text_view){name, 253}));
	assert_false(network_host_valid((struct text_view){name, 254}));
}

static void ceilings_that_make_no_sense(void **state)
{
	struct ceiling c = make_ceiling();
	char *blank[] = {(char *)""};
	char *wildcard[] = {(char *)"*"};
	struct error err;

	(void)state;
	c.max_allowed_images = 0;
	assert_int_equal(ceiling_check(&c, &err), -EINVAL);
	assert_string_equal(err.field, "allowed_images");
	c = make_ceiling();
	c.allowed_images = blank;
	assert_int_equal(ceiling_check(&c, &err), -EINVAL);
	assert_string_equal(err.field, "allowed_images");
	c = make_ceiling();
	c.max_allowed_hosts = 1;
	assert_int_equal(ceiling_check(&c, &err), -EINVAL);
	assert_string_equal(err.field, "allowed_network_hosts");
	c = make_ceiling();
	c.allowed_network_hosts = wildcard;
	c.n_allowed_network_hosts = 1;
	assert_int_equal(ceiling_check(&c, &err), -EINVAL);
	assert_string_equal(err.field, "allowed_network_hosts");
	assert_int_equal(ceiling_check_input(&c, 100, NULL), 0);
	assert_int_equal(ceiling_check_input(&c, 101, NULL), -EFBIG);
}

static void answers_of_a_runtime_are_not_believed(void **state)
{
	static const struct {
		int64_t exit_code;
		uint64_t output;
		struct isolated_usage usage;
		const char *field; /* NULL: it may be true */
	} rows[] = {
		{0, 0, {0}, NULL},
		{255, 60, {10, 20, 30, 50}, NULL},
		{-1, 0, {0}, "exit_code"},
		{256, 0, {0}, "exit_code"},
		{INT64_MIN, 0, {0}, "exit_code"},
		{0, 61, {0}, "output"},
		{0, 0, {11, 0, 0, 0}, "usage.cpu_millis"},
		{0, 0, {0, 21, 0, 0}, "usage.peak_memory"},
		{0, 0, {0, 0, 31, 0}, "usage.disk_written"},
		{0, 0, {0, 0, 0, 51}, "usage.duration"},
		{0, 0, {0, 0, 0, -1}, "usage.duration"},
	};
	struct isolated_spec s = make_spec();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = {0};
		int r = isolated_result_check(&s.limits, rows[i].exit_code, rows[i].output,
					      &rows[i].usage, &err);

		assert_int_equal(r, rows[i].field ? -EPROTO : 0);
		assert_string_equal(err.field, rows[i].field ? rows[i].field : "");
	}
}

static void digests_of_executions(void **state)
{
	char digest[EXECUTION_DIGEST_LEN + 1] = "untouched";
	char id[EXECUTION_ID_BYTES_MAX + 1];

	(void)state;
	memset(id, 'x', sizeof(id));
	assert_int_equal(execution_digest(id, 0, digest, NULL), -EINVAL);
	assert_int_equal(execution_digest(id, sizeof(id), digest, NULL), -EINVAL);
	assert_string_equal(digest, "untouched");
	/* printf 'TOS-AI-EXECUTION-ID-V1\0run-1' | sha256sum */
	assert_int_equal(execution_digest("run-1", 5, digest, NULL), 0);
	assert_string_equal(digest,
			    "sha256:"
			    "18e74196960d16933e9a2bcd3fe5983b463ca4b79646580de26b585c69fe5fe8");
	assert_int_equal(execution_digest(id, EXECUTION_ID_BYTES_MAX, digest, NULL), 0);
	assert_string_equal(digest,
			    "sha256:"
			    "c9da206714936462bc4797824ea94440bc9f5d11ffa9a17d05bb0bc87bc9242c");
	/* Any byte counts. */
	assert_int_equal(execution_digest("a\0b", 3, digest, NULL), 0);
	assert_string_equal(digest,
			    "sha256:"
			    "5eb3d9aa487473cb49aaeedcada84ba992754d684ad8db75d08159a981682f0c");
}

static void backends_are_bounded(void **state)
{
	(void)state;
	assert_int_equal(isolated_max_active_check(0, NULL), -EINVAL);
	assert_int_equal(isolated_max_active_check(1, NULL), 0);
	assert_int_equal(isolated_max_active_check(256, NULL), 0);
	assert_int_equal(isolated_max_active_check(257, NULL), -EINVAL);
	assert_int_equal(isolated_max_active_check(-1, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_allowed),
		cmocka_unit_test(a_ceiling_that_is_zero_denies),
		cmocka_unit_test(privileges),
		cmocka_unit_test(names_and_counts),
		cmocka_unit_test(directories),
		cmocka_unit_test(networks),
		cmocka_unit_test(every_limit_counts),
		cmocka_unit_test(hosts_are_spelled_in_one_way),
		cmocka_unit_test(ceilings_that_make_no_sense),
		cmocka_unit_test(answers_of_a_runtime_are_not_believed),
		cmocka_unit_test(digests_of_executions),
		cmocka_unit_test(backends_are_bounded),
	};

	return cmocka_run_group_tests_name("ceiling", tests, NULL, NULL);
}
