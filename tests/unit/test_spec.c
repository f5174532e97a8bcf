#include "tests/unit/test.h"

#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/spec.h"
#include "core/strlist.h"

#define SHA "0123456789abcdef0123456789abcdef01234567"
#define GIT "\"workspace\":{\"kind\":\"git\",\"repo\":\"https://h/a/b\",\"ref\":\"" SHA "\"}"

static struct spec *parse(const char *text)
{
	struct spec *spec = NULL;
	struct error err = {0};
	int r = spec_parse(text, strlen(text), &spec, &err);

	if (r < 0)
		print_error("%s\n-> %s: %s\n", text, err.field, err.reason);
	assert_int_equal(r, 0);
	return spec;
}

static void refused(const char *text, const char *field)
{
	struct spec *spec = NULL;
	struct error err = {0};
	int r = spec_parse(text, strlen(text), &spec, &err);

	if (r != -EINVAL || strcmp(err.field, field) != 0)
		print_error("%.200s\n-> %d %s: %s\n", text, r, err.field, err.reason);
	assert_int_equal(r, -EINVAL);
	assert_null(spec);
	assert_int_equal(err.kind, ERROR_INVALID_SPEC);
	assert_string_equal(err.field, field);
	assert_true(err.reason[0] != '\0');
}

static void canonical_text(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"{\"argv\":[\"a\"]}", "{\"work_dir\":\"\",\"argv\":[\"a\"]}"},
		{" { \"argv\" : [ \"a\" ] , \"work_dir\" : \"/w\" } \n",
		 "{\"work_dir\":\"/w\",\"argv\":[\"a\"]}"},
		{"{\"argv\":[\"a\"],\"env\":[]}",
		 "{\"work_dir\":\"\",\"argv\":[\"a\"],\"env\":[]}"},
		{"{\"argv\":[\"a\"],\"env\":null,\"labels\":{},\"workspace\":null,\"mounts\":[],"
		 "\"write_back\":{},\"resource_limits\":{\"pids\":0},\"image\":null,\"secrets\":[]"
		 "}",
		 "{\"work_dir\":\"\",\"argv\":[\"a\"]}"},
		{"{\"labels\":{\"b\":\"2\",\"a\":\"1\",\"B\":\"\"},\"argv\":[\"a\"]}",
		 "{\"work_dir\":\"\",\"argv\":[\"a\"],\"labels\":{\"B\":\"\",\"a\":\"1\",\"b\":"
		 "\"2\"}}"},
		{"{\"argv\":[\"a\"],\"mounts\":[{\"target\":\" /m \",\"source\":\" s\"}],"
		 "\"image\":\" img \"}",
		 "{\"work_dir\":\"\",\"argv\":[\"a\"],\"image\":\"img\","
		 "\"mounts\":[{\"source\":\"s\",\"target\":\"/m\"}]}"},
		{"{\"argv\":[\"\\u00e9\\/\"]}", "{\"work_dir\":\"\",\"argv\":[\"\xc3\xa9/\"]}"},
		{"{\"write_back\":{\"mode\":\"bundle\",\"branch\":\"cloop/x \",\"message\":\" m\","
		 "\"max_bundle_bytes\":5}," GIT ",\"secrets\":[{\"lease_id\":\"l\",\"egress\":true,"
		 "\"expires_at\":\"2026-01-02T03:04:05+01:00\",\"files\":[\"/"
		 "f\"],\"env_keys\":[\"K\"]}],"
		 "\"sandbox_hash\":\"h\",\"host_mounts\":[{\"source\":\"/s\",\"target\":\"/t\","
		 "\"read_only\":true,\"name\":\"n\"}],\"setup_commands\":[\"c\"],"
		 "\"timeout_minutes\":3,\"resource_limits\":{\"pids\":4,\"disk_mb\":3,\"memory_"
		 "mb\":2,"
		 "\"cpu_millis\":1},\"env\":[\"K=\"],\"argv\":[\"a\",\"\"],\"work_dir\":\"/w\"}",
		 "{\"work_dir\":\"/w\",\"argv\":[\"a\",\"\"],\"env\":[\"K=\"],"
		 "\"resource_limits\":{\"cpu_millis\":1,\"memory_mb\":2,\"disk_mb\":3,\"pids\":4},"
		 "\"timeout_minutes\":3,\"setup_commands\":[\"c\"],"
		 "\"host_mounts\":[{\"name\":\"n\",\"source\":\"/s\",\"target\":\"/t\","
		 "\"read_only\":true}],\"sandbox_hash\":\"h\","
		 "\"secrets\":[{\"lease_id\":\"l\",\"env_keys\":[\"K\"],\"files\":[\"/f\"],"
		 "\"egress\":true,\"expires_at\":\"2026-01-02T02:04:05.000000000Z\"}]," GIT ","
		 "\"write_back\":{\"mode\":\"bundle\",\"branch\":\"cloop/x\",\"message\":\" m\","
		 "\"max_bundle_bytes\":5}}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_SPEC struct spec *spec = parse(rows[i].in);
		AUTO_FREE char *text = spec_text(spec);
		assert_string_equal(text, rows[i].out);

		AUTO_SPEC struct spec *again = parse(text);
		AUTO_FREE char *twice = spec_text(again);
		assert_string_equal(twice, text);
	}
}

static void inherit_is_not_empty(void **state)
{
	(void)state;
	AUTO_SPEC struct spec *none = parse("{\"argv\":[\"a\"]}");
	AUTO_SPEC struct spec *empty = parse("{\"argv\":[\"a\"],\"env\":[]}");
	assert_false(none->env_set);
	assert_true(empty->env_set);
	assert_int_equal(empty->n_env, 0);
}

static void strings_are_never_null(void **state)
{
	(void)state;
	AUTO_SPEC struct spec *s = parse("{\"argv\":[\"a\"],\"workspace\":{},\"write_back\":{}}");
	assert_string_equal(s->work_dir, "");
	assert_string_equal(s->image, "");
	assert_string_equal(s->sandbox_hash, "");
	assert_string_equal(s->workspace.repo, "");
	assert_string_equal(s->write_back.branch, "");
	assert_null(s->argv[s->n_argv]);
}

static void structure_is_strict(void **state)
{
	static const struct {
		const char *text, *field;
	} rows[] = {
		{"", ""},
		{"[]", ""},
		{"null", ""},
		{"{\"argv\":[\"a\"]", ""},
		{"{\"argv\":[\"a\"]}x", ""},
		{"{\"argv\":[\"a\"],\"argv\":[\"a\"]}", ""},
		{"{\"argv\":[\"a\\u0000\"]}", ""},
		{"{\"argv\":\"a\"}", "argv"},
		{"{\"argv\":[\"a\",1]}", "argv[1]"},
		{"{\"argv\":[\"a\",null]}", "argv[1]"},
		{"{\"argv\":[\"a\"],\"Env\":[]}", "Env"},
		{"{\"argv\":[\"a\"],\"env\":{}}", "env"},
		{"{\"argv\":[\"a\"],\"env\":[[]]}", "env[0]"},
		{"{\"argv\":[\"a\"],\"labels\":{\"k\":1}}", "labels.k"},
		{"{\"argv\":[\"a\"],\"labels\":[]}", "labels"},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"cpus\":1}}", "resource_limits.cpus"},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"pids\":\"1\"}}", "resource_limits.pids"},
		{"{\"argv\":[\"a\"],\"resource_limits\":[]}", "resource_limits"},
		{"{\"argv\":[\"a\"],\"timeout_minutes\":1.0}", "timeout_minutes"},
		{"{\"argv\":[\"a\"],\"timeout_minutes\":1e2}", "timeout_minutes"},
		{"{\"argv\":[\"a\"],\"timeout_minutes\":99999999999999999999}", ""},
		{"{\"argv\":[\"a\"],\"disable_network\":\"yes\"}", "disable_network"},
		{"{\"argv\":[\"a\"],\"mounts\":{}}", "mounts"},
		{"{\"argv\":[\"a\"],\"mounts\":[{\"source\":\"a\",\"target\":\"/m\"},"
		 "{\"sorce\":\"a\",\"target\":\"/n\"}]}",
		 "mounts[1].sorce"},
		{"{\"argv\":[\"a\"],\"mounts\":[1]}", "mounts[0]"},
		{"{\"argv\":[\"a\"],\"mounts\":[{\"name\":\"n\",\"source\":\"a\",\"target\":\"/"
		 "m\"}]}",
		 "mounts[0].name"},
		{"{\"argv\":[\"a\"],\"secrets\":[{\"lease_id\":\"l\",\"value\":\"v\"}]}",
		 "secrets[0].value"},
		{"{\"argv\":[\"a\"],\"secrets\":[{\"expires_at\":\"soon\"}]}",
		 "secrets[0].expires_at"},
		{"{\"argv\":[\"a\"],\"secret_files\":[]}", "secret_files"},
		{"{\"argv\":[\"a\"],\"secret_files\":null}", "secret_files"},
		{"{\"argv\":[\"a\"],\"SecretFiles\":[]}", "SecretFiles"},
		{"{\"argv\":[\"a\"],\"workspace\":{\"kind\":1}}", "workspace.kind"},
		{"{\"argv\":[\"a\"],\"workspace\":{\"token\":\"t\"}}", "workspace.token"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"remote\":\"r\"}}", "write_back.remote"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		refused(rows[i].text, rows[i].field);
}

static void rules(void **state)
{
	static const struct {
		const char *text, *field;
	} rows[] = {
		{"{}", "argv"},
		{"{\"argv\":[]}", "argv"},
		{"{\"argv\":null}", "argv"},
		{"{\"argv\":[\"\"]}", "argv[0]"},
		{"{\"argv\":[\" \\u3000\"]}", "argv[0]"},
		{"{\"argv\":[\"a\"],\"work_dir\":\"w\"}", "work_dir"},
		{"{\"argv\":[\"a\"],\"work_dir\":\" /w\"}", "work_dir"},
		{"{\"argv\":[\"a\"],\"env\":[\"\"]}", "env[0]"},
		{"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"B\"]}", "env[1]"},
		{"{\"argv\":[\"a\"],\"env\":[\"=1\"]}", "env[0]"},
		{"{\"argv\":[\"a\"],\"env\":[\"A=1\",\"B=\",\"A=1\"]}", "env[2]"},
		{"{\"argv\":[\"a\"],\"labels\":{\"\":\"v\"}}", "labels"},
		{"{\"argv\":[\"a\"],\"labels\":{\"a=b\":\"v\"}}", "labels.a=b"},
		{"{\"argv\":[\"a\"],\"labels\":{\"a\\nb\":\"v\"}}", "labels.a?b"},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"cpu_millis\":-1}}",
		 "resource_limits.cpu_millis"},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"memory_mb\":-1}}",
		 "resource_limits.memory_mb"},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"disk_mb\":9223372036854775807}}",
		 "resource_limits.disk_mb"},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"pids\":4194305}}",
		 "resource_limits.pids"},
		{"{\"argv\":[\"a\"],\"timeout_minutes\":-1}", "timeout_minutes"},
		{"{\"argv\":[\"a\"],\"timeout_minutes\":52560001}", "timeout_minutes"},
		{"{\"argv\":[\"a\"],\"image\":\"-x\"}", "image"},
		{"{\"argv\":[\"a\"],\"image\":\" -x\"}", "image"},
		{"{\"argv\":[\"a\"],\"image\":\"a b\"}", "image"},
		{"{\"argv\":[\"a\"],\"setup_commands\":[\"a\",\"\"]}", "setup_commands[1]"},
		{"{\"argv\":[\"a\"],\"setup_commands\":[\"a\\nb\"]}", "setup_commands[0]"},
		{"{\"argv\":[\"a\"],\"setup_commands\":[\"a\\r\"]}", "setup_commands[0]"},
		{"{\"argv\":[\"a\"],\"sandbox_hash\":\"a\\tb\"}", "sandbox_hash"},
		{"{\"argv\":[\"a\"],\"mounts\":[{\"source\":\"/etc\",\"target\":\"/m\"}]}",
		 "mounts[0].source"},
		{"{\"argv\":[\"a\"],\"host_mounts\":[{\"source\":\"a\",\"target\":\"/m\"}]}",
		 "host_mounts[0].source"},
		{"{\"argv\":[\"a\"],\"secrets\":[{\"env_keys\":[\"A=secret\"]}]}",
		 "secrets[0].env_keys[0]"},
		{"{\"argv\":[\"a\"],\"workspace\":{\"kind\":\"svn\"}}", "workspace.kind"},
		{"{\"argv\":[\"a\"],\"workspace\":{\"kind\":\"bind\",\"repo\":\"https://h/a/b\"}}",
		 "workspace.repo"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"none\"}}", "write_back.mode"},
		{"{\"argv\":[\"a\"],\"disable_network\":true," GIT "}", "disable_network"},
		{"{\"argv\":[\"a\"],\"disable_network\":true,"
		 "\"write_back\":{\"mode\":\"push\",\"branch\":\"cloop/x\"}}",
		 "write_back.mode"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"push\",\"branch\":\"cloop/x\"}}",
		 "write_back"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"bundle\",\"branch\":\"cloop/x\"},"
		 "\"workspace\":{\"kind\":\"bind\"}}",
		 "write_back"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"bundle\",\"branch\":\"cloop/x\"},"
		 "\"workspace\":{\"kind\":\"none\"}}",
		 "write_back"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"push\",\"branch\":\"cloop/x\"},"
		 "\"workspace\":{\"kind\":\"git\",\"repo\":\"https://h/a/b\",\"ref\":\"main\"}}",
		 "workspace.ref"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"push\",\"branch\":\"cloop/x\"},"
		 "\"workspace\":{\"kind\":\"git\",\"repo\":\"https://h/a/b\"}}",
		 "workspace.ref"},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"push\",\"branch\":\"main\"}," GIT
		 "}",
		 "write_back.branch"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		refused(rows[i].text, rows[i].field);
}

static void prefixes(void **state)
{
	AUTO_JSON json_t *v = NULL;
	static const char text[] =
		"{\"argv\":[\"a\"],\"mounts\":[{\"source\":\"..\",\"target\":\"/m\"}]}";
	struct spec *spec = NULL;
	struct error err;

	(void)state;
	assert_int_equal(json_parse(text, strlen(text), &v, NULL), 0);
	assert_int_equal(spec_from_json(v, "spec", &spec, &err), -EINVAL);
	assert_string_equal(err.field, "spec.mounts[0].source");
	json_object_del(v, "argv");
	assert_int_equal(spec_from_json(v, "spec", &spec, &err), -EINVAL);
	assert_string_equal(err.field, "spec.argv");
	json_object_set_new(v, "what", json_true());
	assert_int_equal(spec_from_json(v, "spec", &spec, &err), -EINVAL);
	assert_string_equal(err.field, "spec.what");
}

/* {"argv":["a","xxx…"],"env":["A=xxx…"]} */
static char *sized(size_t arg, size_t var)
{
	struct buf b = BUF_INIT(4 << 20);

	buf_puts(&b, "{\"argv\":[\"a\",\"");
	for (size_t i = 0; i < arg; i++)
		buf_append(&b, "x", 1);
	buf_puts(&b, "\"],\"env\":[\"A=");
	for (size_t i = 2; i < var; i++)
		buf_append(&b, "x", 1);
	buf_puts(&b, "\"]}");
	return buf_take(&b);
}

static void sizes(void **state)
{
	(void)state;
	AUTO_FREE char *fits = sized(SPEC_ARG_BYTES_MAX, SPEC_ARG_BYTES_MAX);
	AUTO_FREE char *arg = sized(SPEC_ARG_BYTES_MAX + 1, 2);
	AUTO_FREE char *var = sized(1, SPEC_ARG_BYTES_MAX + 1);
	AUTO_SPEC struct spec *spec = parse(fits);
	assert_int_equal(strlen(spec->argv[1]), SPEC_ARG_BYTES_MAX);
	refused(arg, "argv[1]");
	refused(var, "env[0]");

	/* Small arguments cost a pointer each: the document fits, the kernel would not take it. */
	struct buf b = BUF_INIT(SPEC_TEXT_BYTES_MAX);
	buf_puts(&b, "{\"argv\":[\"a\"");
	while (b.len + 8 < SPEC_TEXT_BYTES_MAX)
		buf_puts(&b, ",\"b\"");
	buf_puts(&b, "]}");
	assert_int_equal(b.failed, 0);
	AUTO_FREE char *many = buf_take(&b);
	refused(many, "argv");

	/* Too large as a document. */
	AUTO_FREE char *large = calloc(1, SPEC_TEXT_BYTES_MAX + 2);
	memset(large, ' ', SPEC_TEXT_BYTES_MAX + 1);
	struct spec *none = NULL;
	struct error err;
	assert_int_equal(spec_parse(large, SPEC_TEXT_BYTES_MAX + 1, &none, &err), -EFBIG);
}

static void values_of_variables_stay_secret(void **state)
{
	static const char *const texts[] = {
		"{\"argv\":[\"a\"],\"env\":[\"A=hunter2hunter2\",\"A=hunter2hunter2\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"=hunter2hunter2\"]}",
		"{\"argv\":[\"a\"],\"env\":[\"hunter2hunter2\"]}",
		"{\"argv\":[\"a\"],\"secrets\":[{\"env_keys\":[\"A=hunter2hunter2\"]}]}",
		"{\"argv\":[\"a\"],\"secret_files\":[{\"content\":\"hunter2hunter2\"}]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct spec *spec = NULL;
		struct error err;
		char sentence[1024];

		assert_int_equal(spec_parse(texts[i], strlen(texts[i]), &spec, &err), -EINVAL);
		error_sentence(&err, sentence, sizeof(sentence));
		assert_null(strstr(sentence, "hunter2"));
	}
}

static void requirements_of_specs(void **state)
{
	static const struct {
		const char *text;
		struct requirements want;
	} rows[] = {
		{"{\"argv\":[\"a\"]}", {0}},
		{"{\"argv\":[\"a\"],\"image\":\"i\"}", {.require_image_override = true}},
		{"{\"argv\":[\"a\"],\"image\":\" \"}", {0}},
		{"{\"argv\":[\"a\"],\"setup_commands\":[\"x\"]}", {.require_sandbox_build = true}},
		{"{\"argv\":[\"a\"],\"mounts\":[{\"source\":\"a\",\"target\":\"/m\"}]}",
		 {.require_sandbox_mounts = true}},
		{"{\"argv\":[\"a\"],\"host_mounts\":[{\"source\":\"/a\",\"target\":\"/m\"}]}",
		 {.require_host_mounts = true}},
		{"{\"argv\":[\"a\"],\"resource_limits\":{\"pids\":1}}",
		 {.require_resource_limits = true}},
		{"{\"argv\":[\"a\"],\"workspace\":{\"kind\":\"bind\"}}",
		 {.require_host_filesystem_workspace = true}},
		{"{\"argv\":[\"a\"],\"workspace\":{\"kind\":\"none\"}}", {0}},
		{"{\"argv\":[\"a\"]," GIT "}", {.require_workspace_provisioning = true}},
		{"{\"argv\":[\"a\"],\"write_back\":{\"mode\":\"push\",\"branch\":\"cloop/x\"}," GIT
		 "}",
		 {.require_workspace_provisioning = true, .require_write_back = true}},
		{"{\"argv\":[\"a\"],\"secrets\":[{\"lease_id\":\"l\",\"env_keys\":[\"T\"]}]}",
		 {.require_revocation = true}},
		{"{\"argv\":[\"a\"],\"secrets\":[{\"lease_id\":\"l\",\"files\":[\"/f\"]}]}",
		 {.require_revocation = true, .require_secret_files = true}},
		{"{\"argv\":[\"a\"],\"secrets\":[{\"lease_id\":\"\",\"files\":[\"/f\"]}]}",
		 {.require_secret_files = true}},
		{"{\"argv\":[\"a\"],\"disable_network\":true}", {0}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_SPEC struct spec *spec = parse(rows[i].text);
		struct requirements got;

		spec_sandbox_requirements(spec, &got);
		AUTO_JSON json_t *a = requirements_to_json(&got);
		AUTO_JSON json_t *b = requirements_to_json(&rows[i].want);
		assert_true(json_equal(a, b));
	}
}

static void revocable_secrets_are_counted(void **state)
{
	const struct secret_binding *found[2] = {NULL, NULL};

	(void)state;
	AUTO_SPEC struct spec *spec =
		parse("{\"argv\":[\"a\"],\"secrets\":[{\"lease_id\":\"1\",\"env_keys\":[\"T\"]},"
		      "{\"lease_id\":\"2\"},{\"lease_id\":\"3\",\"egress\":true},"
		      "{\"lease_id\":\"4\",\"files\":[\"/f\"]}]}");
	assert_int_equal(spec_revocable_secrets(spec, found, 2), 3);
	assert_string_equal(found[0]->lease_id, "1");
	assert_string_equal(found[1]->lease_id, "3");
}

#define DIR "/run/cloop/cloop-lease-aa11"

static struct spec *leased(void)
{
	struct spec *spec = parse("{\"argv\":[\"x\"],\"env\":[\"G=" DIR "/gitconfig\",\"D=" DIR
				  "\",\"P=/bin:" DIR "/x\",\"O=" DIR
				  "0/x\"],\"secrets\":[{\"lease_id\":\"l\",\"dir\":\"" DIR
				  "\",\"files\":[\"" DIR "/a\",\"/other\"]}]}");
	struct secret_file *f = calloc(1, sizeof(*f));

	f->dir = strdup(DIR);
	f->name = strdup("a");
	spec->secret_files = f;
	spec->n_secret_files = 1;
	return spec;
}

static void relocation(void **state)
{
	(void)state;
	AUTO_SPEC struct spec *spec = leased();
	assert_int_equal(spec_relocate_secrets(spec, " " DIR "\n", "/dev/shm/7", NULL), 0);
	assert_string_equal(spec->env[0], "G=/dev/shm/7/gitconfig");
	assert_string_equal(spec->env[1], "D=/dev/shm/7");
	assert_string_equal(spec->env[2], "P=/bin:" DIR "/x");
	assert_string_equal(spec->env[3], "O=" DIR "0/x");
	assert_string_equal(spec->secrets[0].dir, "/dev/shm/7");
	assert_string_equal(spec->secrets[0].files[0], "/dev/shm/7/a");
	assert_string_equal(spec->secrets[0].files[1], "/other");
	assert_string_equal(spec->secret_files[0].dir, "/dev/shm/7");
}

static void relocation_that_means_nothing(void **state)
{
	static const char *const pairs[][2] = {
		{"", "/x"}, {" ", "/x"},    {DIR, ""},    {DIR, " "},
		{DIR, DIR}, {DIR, " " DIR}, {"/n", "/x"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		AUTO_SPEC struct spec *spec = leased();
		AUTO_FREE char *before = spec_text(spec);

		assert_int_equal(spec_relocate_secrets(spec, pairs[i][0], pairs[i][1], NULL), 0);
		AUTO_FREE char *after = spec_text(spec);
		assert_string_equal(before, after);
	}
}

static void secret_files_are_never_written(void **state)
{
	(void)state;
	AUTO_SPEC struct spec *spec = leased();
	spec->secret_files[0].content = (unsigned char *)strdup("hunter2hunter2");
	spec->secret_files[0].content_len = 14;
	AUTO_FREE char *text = spec_text(spec);
	assert_null(strstr(text, "hunter2"));
	assert_null(strstr(text, "secret_files"));
	assert_true(spec_needs_secret_files(spec));
	assert_int_equal(spec_validate(spec, NULL), 0);
	spec->secret_files[0].mode = 0644;
	struct error err;
	assert_int_equal(spec_validate(spec, &err), -EINVAL);
	assert_string_equal(err.field, "secret_files[0].mode");
}

static void built_specs(void **state)
{
	(void)state;
	AUTO_SPEC struct spec *spec = spec_new();
	assert_int_equal(spec_validate(spec, NULL), -EINVAL);
	spec->argv = strlist_dup((char *[]){(char *)"a"}, 1);
	spec->n_argv = 1;
	assert_int_equal(spec_validate(spec, NULL), 0);
	/* A device gets a name below its own root. */
	free(spec->work_dir);
	spec->work_dir = strdup("shop-4e4ff75c");
	assert_int_equal(spec_validate(spec, NULL), 0);
	assert_null(spec_label(spec, "x"));
	assert_null(spec_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(canonical_text),
		cmocka_unit_test(inherit_is_not_empty),
		cmocka_unit_test(strings_are_never_null),
		cmocka_unit_test(structure_is_strict),
		cmocka_unit_test(rules),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(sizes),
		cmocka_unit_test(values_of_variables_stay_secret),
		cmocka_unit_test(requirements_of_specs),
		cmocka_unit_test(revocable_secrets_are_counted),
		cmocka_unit_test(relocation),
		cmocka_unit_test(relocation_that_means_nothing),
		cmocka_unit_test(secret_files_are_never_written),
		cmocka_unit_test(built_specs),
	};

	return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
