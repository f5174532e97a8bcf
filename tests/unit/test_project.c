#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/project.h"
#include "core/spec.h"
#include "core/store/event.h"
#include "tests/unit/store_help.h"

static void paths_are_cleaned_or_refused(void **state)
{
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{"", ""},
		{"/", "/"},
		{"/a", "/a"},
		{"/a/", "/a"},
		{"//a///b/./c/../d", "/a/b/d"},
		{"/..", "/"},
		{"/a/../../b", "/b"},
		{"/ a ", "/ a "},
		{"/\xc3\xa9", "/\xc3\xa9"},
		{"a", NULL},
		{"./a", NULL},
		{" /a", NULL},
		{"/\xff", NULL},
		{"/a\tb", NULL},
		{"/a\x7f", NULL},
	};
	char longest[SPEC_PATH_BYTES_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *path = NULL;
		struct error err = {0};

		int r = project_path_clean(cases[i].in, &path, &err);
		assert_int_equal(r, cases[i].want ? 0 : -EINVAL);
		if (cases[i].want)
			assert_string_equal(path, cases[i].want);
		else
			assert_string_equal(err.field, "path");
	}
	AUTO_FREE char *path = NULL;
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[SPEC_PATH_BYTES_MAX + 1] = '\0';
	assert_int_equal(project_path_clean(longest, &path, NULL), -EINVAL);
	longest[SPEC_PATH_BYTES_MAX] = '\0';
	assert_int_equal(project_path_clean(longest, &path, NULL), 0);
}

static int apply(struct store_tx *tx, void *change, struct error *err)
{
	return project_change_apply(tx, change, err);
}

/* Applies a change as the daemon does: in the store, then in memory. */
static int make(struct store *s, struct projects *p, enum project_change_kind kind, const char *name,
		const char *text, struct error *err)
{
	const struct project *project = projects_find(p, name);
	struct project_change c = {.kind = kind, .uid = 7, .at_ns = 1000};

	c.serial = kind == PROJECT_ADD ? projects_next_serial(p) : project ? project->serial : 999;
	c.name = strdup(name);
	c.text = strdup(text);
	int r = help_run(s, apply, &c, err);
	if (r >= 0)
		projects_changed(p, &c);
	project_change_clear(&c);
	return r;
}

static void changes_are_in_the_store_and_in_memory(void **state)
{
	const struct help_dir *dir = *state;
	struct store *s = help_open(dir->db);
	struct projects *p = projects_new();
	struct error err;
	char events[4096];
	size_t n = 0;

	assert_int_equal(projects_load(p, store_reader(s), NULL), 0);
	assert_int_equal(projects_changed_ns(p), 0);
	assert_int_equal(make(s, p, PROJECT_ADD, "b", "", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_ADD, "a", "", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_ADD, "c", "", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_ADD, "a", "", &err), -EEXIST);
	assert_int_equal(make(s, p, PROJECT_PATH, "a", "/x", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_PATH, "b", "/x", &err), -EEXIST);
	assert_string_equal(err.field, "path");
	assert_int_equal(make(s, p, PROJECT_PATH, "b", "", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_PATH, "c", "", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_BIND, "b", "gone", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_REQUIRE, "b", "{\"arch\":\"x\"}", NULL), 0);
	assert_int_equal(make(s, p, PROJECT_BIND, "nobody", "x", NULL), -ENOENT);
	assert_int_equal(make(s, p, PROJECT_REMOVE, "nobody", "", NULL), -ENOENT);
	assert_int_equal(make(s, p, PROJECT_REMOVE, "c", "", NULL), 0);
	assert_null(projects_find(p, "c"));

	for (int again = 0; again < 2; again++) {
		const struct project *a = projects_find(p, "a"), *b = projects_find(p, "b");

		assert_int_equal(b->serial, 1);
		assert_int_equal(a->serial, 2);
		assert_ptr_equal(projects_get(p, 1), b);
		assert_null(projects_get(p, 3));
		assert_ptr_equal(projects_from(p, 0), b);
		assert_ptr_equal(projects_from(p, 2), a);
		assert_null(projects_from(p, 3));
		assert_string_equal(a->path, "/x");
		assert_string_equal(a->binding, "");
		assert_string_equal(a->requirements, "{}");
		assert_string_equal(b->path, "");
		assert_string_equal(b->binding, "gone");
		assert_string_equal(b->requirements, "{\"arch\":\"x\"}");
		assert_int_equal(projects_changed_ns(p), 1000);
		p = projects_free(p);
		p = projects_new();
		assert_int_equal(projects_load(p, store_reader(s), NULL), 0);
	}
	/* A serial is never given out twice, also when the last one is gone, or was never made. */
	assert_int_equal(projects_next_serial(p), 4);
	assert_int_equal(event_read(store_reader(s), 0, events, sizeof(events) - 1, &n, NULL), 0);
	events[n] = '\0';
	unsigned lines = 0;
	for (const char *e = events; (e = strchr(e, '\n')); e++)
		lines++;
	assert_int_equal(lines, 9);
	assert_non_null(strstr(events, "\"type\":\"config.project_binding\",\"uid\":7,\"project\":\"b\","
				       "\"executor_id\":\"gone\"}"));
	p = projects_free(p);
	s = store_free(s);
}

static void what_memory_knows_alone_outlives_a_change(void **state)
{
	const struct help_dir *dir = *state;
	struct store *s = help_open(dir->db);
	struct projects *p = projects_new();

	assert_int_equal(projects_load(p, store_reader(s), NULL), 0);
	assert_int_equal(make(s, p, PROJECT_ADD, "a", "", NULL), 0);
	struct project *a = projects_find(p, "a");
	a->sessions_ns = 77;
	a->removing = true;
	assert_int_equal(make(s, p, PROJECT_PATH, "a", "/x", NULL), 0);
	assert_ptr_equal(projects_find(p, "a"), a);
	assert_string_equal(a->path, "/x");
	assert_int_equal(a->sessions_ns, 77);
	assert_true(a->removing);
	p = projects_free(p);
	s = store_free(s);
}

static void many_are_found_by_name_and_by_serial(void **state)
{
	const struct help_dir *dir = *state;
	struct store *s = help_open(dir->db);
	struct projects *p = projects_new();
	char name[16];

	assert_int_equal(projects_load(p, store_reader(s), NULL), 0);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "p%d", i * 37 % 100);
		assert_int_equal(make(s, p, PROJECT_ADD, name, "", NULL), 0);
	}
	for (int i = 0; i < 100; i += 2) {
		(void)snprintf(name, sizeof(name), "p%d", i * 37 % 100);
		assert_int_equal(make(s, p, PROJECT_REMOVE, name, "", NULL), 0);
	}
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "p%d", i * 37 % 100);
		const struct project *found = projects_get(p, i + 1);

		assert_int_equal(found != NULL, i % 2);
		assert_ptr_equal(projects_find(p, name), found);
	}
	p = projects_free(p);
	s = store_free(s);
}

int main(void)
{
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, help_dir_make, help_dir_remove)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_cleaned_or_refused),
		WITH_DIR(changes_are_in_the_store_and_in_memory),
		WITH_DIR(what_memory_knows_alone_outlives_a_change),
		WITH_DIR(many_are_found_by_name_and_by_serial),
	};

	return cmocka_run_group_tests_name("project", tests, NULL, NULL);
}
