#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/secret.h"
#include "core/strlist.h"

static struct secret_file file(const char *dir, const char *name, int64_t mode, size_t len)
{
	return (struct secret_file){
		.dir = (char *)dir, .name = (char *)name, .mode = mode, .content_len = len};
}

static char long_name[SECRET_NAME_BYTES_MAX + 2];

static void files_one_by_one(void **state)
{
	static const struct {
		const char *dir, *name;
		int64_t mode;
		size_t len;
		const char *field; /* NULL: accepted */
	} rows[] = {
		{"/run/l", "token", 0, 10, NULL},
		{"/run/l", "token", 0600, 0, NULL},
		{"/run/l", "token", 0400, 1, NULL},
		{"/run/l", "token", 0700, MAX_SECRET_FILE_BYTES, NULL},
		{"/run/l", "..token", 0, 1, NULL},
		{"/run/l", ".token", 0, 1, NULL},
		{"/run/l", "to ken", 0, 1, NULL},
		{"/run/l", "token", 0, MAX_SECRET_FILE_BYTES + 1, "f[0].content"},
		{"/run/l", "token", 0640, 1, "f[0].mode"},
		{"/run/l", "token", 0604, 1, "f[0].mode"},
		{"/run/l", "token", 0601, 1, "f[0].mode"},
		{"/run/l", "token", 01600, 1, "f[0].mode"},
		{"/run/l", "token", 04700, 1, "f[0].mode"},
		{"/run/l", "token", 0100600, 1, "f[0].mode"},
		{"/run/l", "token", -1, 1, "f[0].mode"},
		{"/run/l", "", 0, 1, "f[0].name"},
		{"/run/l", " \t", 0, 1, "f[0].name"},
		{"/run/l", ".", 0, 1, "f[0].name"},
		{"/run/l", "..", 0, 1, "f[0].name"},
		{"/run/l", "a/b", 0, 1, "f[0].name"},
		{"/run/l", "/a", 0, 1, "f[0].name"},
		{"/run/l", "a/", 0, 1, "f[0].name"},
		{"/run/l", "a\\b", 0, 1, "f[0].name"},
		{"/run/l", long_name, 0, 1, "f[0].name"},
		{"", "a", 0, 1, "f[0].dir"},
		{"run/l", "a", 0, 1, "f[0].dir"},
		{"/run/../l", "a", 0, 1, "f[0].dir"},
		{"/run/l/", "a", 0, 1, "f[0].dir"},
		{"/", "a", 0, 1, "f[0].dir"},
		{NULL, NULL, 0, 1, "f[0].dir"},
	};

	(void)state;
	memset(long_name, 'n', sizeof(long_name) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct secret_file f = file(rows[i].dir, rows[i].name, rows[i].mode, rows[i].len);
		struct error err = {0};
		int r = secret_files_validate(&f, 1, "f", &err);

		assert_int_equal(r, rows[i].field ? -EINVAL : 0);
		if (rows[i].field) {
			assert_string_equal(err.field, rows[i].field);
			assert_int_equal(err.kind, ERROR_INVALID_SPEC);
		}
	}
}

static void one_path_once(void **state)
{
	struct secret_file f[] = {file("/d", "a", 0, 1), file("/d", "b", 0, 1),
				  file("/e", "a", 0, 1), file("/d", "a", 0, 1)};
	struct error err;

	(void)state;
	assert_int_equal(secret_files_validate(f, 3, "secret_files", &err), 0);
	assert_int_equal(secret_files_validate(f, 4, "secret_files", &err), -EINVAL);
	assert_string_equal(err.field, "secret_files[3]");
}

static void paths_modes_and_directories(void **state)
{
	struct secret_file f[] = {file("/z", "a", 0, 1), file("/a", "b", 0400, 1),
				  file("/z", "c", 0, 1), file("", "d", 0, 1)};
	char **dirs = NULL;
	size_t n = 0;

	(void)state;
	AUTO_FREE char *path = secret_file_path(&f[0]);
	AUTO_FREE char *bare = secret_file_path(&f[3]);
	assert_string_equal(path, "/z/a");
	assert_string_equal(bare, "d");
	assert_int_equal(secret_file_mode(&f[0]), 0600);
	assert_int_equal(secret_file_mode(&f[1]), 0400);
	assert_int_equal(secret_files_dirs(f, 3, &dirs, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(dirs[0], "/z");
	assert_string_equal(dirs[1], "/a");
	strlist_free(dirs, n);
	assert_int_equal(secret_files_dirs(NULL, 0, &dirs, &n), 0);
	assert_int_equal(n, 0);
	assert_null(dirs);
}

static void a_description_has_no_content(void **state)
{
	unsigned char content[] = "hunter2hunter2";
	struct secret_file f = file("/run/l", "tok", 0, sizeof(content) - 1);

	(void)state;
	f.content = content;
	AUTO_FREE char *text = secret_file_describe(&f);
	assert_string_equal(text, "/run/l/tok (mode 0600, 14 bytes)");
}

static void revocable(void **state)
{
	char *key[] = {(char *)"T", NULL};
	struct secret_binding b = {.lease_id = (char *)"L"};

	(void)state;
	assert_false(secret_binding_revocable(&b));
	b.dir = (char *)"/d";
	assert_false(secret_binding_revocable(&b));
	b.egress = true;
	assert_true(secret_binding_revocable(&b));
	b.egress = false;
	b.env_keys = key;
	b.n_env_keys = 1;
	assert_true(secret_binding_revocable(&b));
	b.lease_id = (char *)" ";
	assert_false(secret_binding_revocable(&b));
	b.lease_id = NULL;
	assert_false(secret_binding_revocable(&b));
}

static void describing(void **state)
{
	struct secret_binding b[] = {
		{.lease_id = (char *)"L",
		 .secret_name = (char *)"ci",
		 .kind = (char *)"github_pat"},
		{.lease_id = (char *)"L", .kind = (char *)"kubeconfig"},
		{.lease_id = (char *)"L", .secret_name = (char *)"prod"},
		{.lease_id = (char *)"L7"},
	};

	(void)state;
	AUTO_FREE char *text = secret_bindings_describe(b, ARRAY_SIZE(b));
	assert_string_equal(text, "ci (github_pat), kubeconfig, prod, L7");
	AUTO_FREE char *none = secret_bindings_describe(NULL, 0);
	assert_string_equal(none, "");
}

static void env_keys(void **state)
{
	char *one[] = {(char *)"B", (char *)"A", NULL}, *two[] = {(char *)"A", (char *)"C", NULL};
	struct secret_binding b[] = {{.env_keys = one, .n_env_keys = 2},
				     {.env_keys = two, .n_env_keys = 2}};
	char **keys = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(secret_bindings_env_keys(b, 2, &keys, &n), 0);
	assert_int_equal(n, 3);
	assert_string_equal(keys[0], "A");
	assert_string_equal(keys[1], "B");
	assert_string_equal(keys[2], "C");
	strlist_free(keys, n);
}

static void a_binding_holds_no_value(void **state)
{
	char *keys[] = {(char *)"A", (char *)"TOKEN=hunter2hunter2", NULL};
	struct secret_binding b = {.lease_id = (char *)"L", .env_keys = keys, .n_env_keys = 2};
	struct error err;
	char sentence[512];

	(void)state;
	assert_int_equal(secret_bindings_validate(&b, 1, "secrets", &err), -EINVAL);
	assert_string_equal(err.field, "secrets[0].env_keys[1]");
	error_sentence(&err, sentence, sizeof(sentence));
	assert_null(strstr(sentence, "hunter2"));
}

static char long_id[SECRET_ID_BYTES_MAX + 2], long_path[SECRET_PATH_BYTES_MAX + 2];

static void bindings_are_bounded(void **state)
{
	static char *many[SECRET_BINDING_ITEMS_MAX + 1];
	static struct secret_binding list[SECRET_BINDINGS_MAX + 1];
	char *one_path[] = {long_path};
	const struct {
		struct secret_binding b;
		const char *field;
	} rows[] = {
		{{.lease_id = long_id}, "s[0].lease_id"},
		{{.grant_id = long_id}, "s[0].grant_id"},
		{{.secret_name = long_id}, "s[0].secret_name"},
		{{.kind = long_id}, "s[0].kind"},
		{{.dir = long_path}, "s[0].dir"},
		{{.files = one_path, .n_files = 1}, "s[0].files[0]"},
		{{.files = many, .n_files = SECRET_BINDING_ITEMS_MAX + 1}, "s[0].files"},
		{{.env_keys = many, .n_env_keys = SECRET_BINDING_ITEMS_MAX + 1}, "s[0].env_keys"},
	};
	struct error err;

	(void)state;
	memset(long_id, 'i', sizeof(long_id) - 1);
	memset(long_path, 'p', sizeof(long_path) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (char *)"x";
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(secret_bindings_validate(&rows[i].b, 1, "s", &err), -EINVAL);
		assert_string_equal(err.field, rows[i].field);
	}
	assert_int_equal(secret_bindings_validate(list, SECRET_BINDINGS_MAX, "s", &err), 0);
	assert_int_equal(secret_bindings_validate(list, SECRET_BINDINGS_MAX + 1, "s", &err),
			 -EINVAL);
}

static void copies_are_deep(void **state)
{
	char *keys[] = {(char *)"A", NULL};
	struct secret_binding b = {
		.lease_id = (char *)"L", .env_keys = keys, .n_env_keys = 1, .expires_at_ns = 7};
	struct secret_binding copy;

	(void)state;
	assert_int_equal(secret_binding_copy(&copy, &b), 0);
	assert_string_equal(copy.lease_id, "L");
	assert_string_equal(copy.grant_id, "");
	assert_ptr_not_equal(copy.env_keys[0], keys[0]);
	assert_string_equal(copy.env_keys[0], "A");
	assert_int_equal(copy.expires_at_ns, 7);
	secret_binding_clear(&copy);
	assert_null(copy.lease_id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_one_by_one),
		cmocka_unit_test(one_path_once),
		cmocka_unit_test(paths_modes_and_directories),
		cmocka_unit_test(a_description_has_no_content),
		cmocka_unit_test(revocable),
		cmocka_unit_test(describing),
		cmocka_unit_test(env_keys),
		cmocka_unit_test(a_binding_holds_no_value),
		cmocka_unit_test(bindings_are_bounded),
		cmocka_unit_test(copies_are_deep),
	};

	return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
