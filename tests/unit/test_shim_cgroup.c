/* Control groups against trees that are made of plain files: what is read, written and refused. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/shim/cgroup.h"
#include "tests/unit/tree_remove.h"

#define LEAF "0000000000000001.1"
#define INSTANCE "cloop/i"

static char root[64];

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	(void)snprintf(root, sizeof(root), "%s/cloop-cg-XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return tree_remove(root);
}

/* Makes directories on the way. */
static void put(const char *name, const char *text)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static const char *get(const char *name)
{
	static char text[256];
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return NULL;
	text[n] = '\0';
	return text;
}

/* A v2 tree as the kernel would show it when the instance and one leaf are there. */
static void make_v2(const char *controllers)
{
	static const char *const dirs[] = {"", "cloop/", INSTANCE "/"};
	static const char *const leaves[] = {INSTANCE "/probe/", INSTANCE "/" LEAF "/"};
	static const char *const files[] = {"cgroup.procs", "cgroup.kill", "cgroup.freeze",
					    "cpu.max",      "memory.max",  "memory.swap.max",
					    "pids.max"};
	char name[128];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(name, sizeof(name), "%scgroup.controllers", dirs[i]);
		put(name, controllers);
		(void)snprintf(name, sizeof(name), "%scgroup.subtree_control", dirs[i]);
		put(name, "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++)
		for (size_t n = 0; n < ARRAY_SIZE(files); n++) {
			(void)snprintf(name, sizeof(name), "%s%s", leaves[i], files[n]);
			put(name, "");
		}
	put(INSTANCE "/" LEAF "/cgroup.events", "populated 0\nfrozen 1\n");
	put(INSTANCE "/" LEAF "/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n");
}

static void make_v1(void)
{
	static const struct {
		const char *controller;
		const char *files[4];
	} all[] = {{"memory", {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "tasks"}},
		   {"pids", {"pids.max", "tasks"}},
		   {"cpu", {"cpu.cfs_quota_us", "cpu.cfs_period_us", "tasks"}},
		   {"freezer", {"freezer.state", "tasks"}}};
	static const char *const leaves[] = {"probe", LEAF};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (size_t l = 0; l < ARRAY_SIZE(leaves); l++)
			for (size_t n = 0; n < 4 && all[i].files[n]; n++) {
				char name[128];

				(void)snprintf(name, sizeof(name), "%s/" INSTANCE "/%s/%s",
					       all[i].controller, leaves[l], all[i].files[n]);
				put(name, "");
			}
	put("memory/" INSTANCE "/" LEAF "/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
}

static struct cgroup_tree open_tree(void)
{
	struct cgroup_tree t;

	assert_int_equal(cgroup_tree_open(&t, root, "cloop", "i"), 0);
	return t;
}

static const unsigned limits_all = SHIM_CAN_CPU | SHIM_CAN_MEMORY | SHIM_CAN_PIDS;

static void test_v2(void **state)
{
	const struct cgroup_limits limits = {.cpu_millis = 1500, .memory_mb = 64, .pids = 7};
	struct cgroup g;
	const char *file = "untouched";

	(void)state;
	make_v2("cpuset cpu io memory pids\n");
	struct cgroup_tree t = open_tree();
	assert_int_equal(t.abilities, limits_all | SHIM_CAN_KILL);
	assert_int_equal(t.v2_limits, limits_all);
	assert_int_equal(cgroup_create(&t, LEAF, &limits, &g, &file), 0);
	assert_string_equal(file, "untouched");
	assert_string_equal(get(INSTANCE "/" LEAF "/cpu.max"), "150000 100000");
	assert_string_equal(get(INSTANCE "/" LEAF "/memory.max"), "67108864");
	assert_string_equal(get(INSTANCE "/" LEAF "/memory.swap.max"), "0");
	assert_string_equal(get(INSTANCE "/" LEAF "/pids.max"), "7");
	/* Passed on at every level above. */
	assert_non_null(strchr(get("cgroup.subtree_control"), '+'));
	assert_non_null(strchr(get("cloop/cgroup.subtree_control"), '+'));

	assert_int_equal(cgroup_join_self(&g, false), 0);
	assert_string_equal(get(INSTANCE "/" LEAF "/cgroup.procs"), "0");
	assert_int_equal(cgroup_oom_kills(&t, &g), 3);
	assert_int_equal(cgroup_populated(&g), 0);
	put(INSTANCE "/" LEAF "/cgroup.events", "populated 1\nfrozen 0\n");
	assert_int_equal(cgroup_populated(&g), 1);
	assert_int_equal(cgroup_kill(&g), 0);
	assert_string_equal(get(INSTANCE "/" LEAF "/cgroup.kill"), "1");
	cgroup_close(&g);
	cgroup_tree_close(&t);
}

/* A kernel without cgroup.kill: frozen, killed one by one, let go. */
static void test_v2_without_kill(void **state)
{
	const struct cgroup_limits none = {0};
	char path[128];
	struct cgroup g;

	(void)state;
	make_v2("");
	struct cgroup_tree t = open_tree();
	assert_int_equal(cgroup_create(&t, LEAF, &none, &g, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/" INSTANCE "/" LEAF "/cgroup.kill", root);
	assert_int_equal(unlink(path), 0);
	/* Not in this group, whatever the file says: not signalled. */
	(void)snprintf(path, sizeof(path), "%d\n1\n-1\n0\nx\n", getpid());
	put(INSTANCE "/" LEAF "/cgroup.procs", path);
	assert_int_equal(cgroup_kill(&g), 0);
	assert_string_equal(get(INSTANCE "/" LEAF "/cgroup.freeze"), "0");
	cgroup_close(&g);
	cgroup_tree_close(&t);
}

static void test_missing_controllers(void **state)
{
	static const struct {
		const char *controllers;
		unsigned abilities;
	} cases[] = {{"", 0},
		     {"cpuset io\n", 0},
		     {"cpu\n", SHIM_CAN_CPU},
		     {"memory pids", SHIM_CAN_MEMORY | SHIM_CAN_PIDS},
		     /* Whole words only. */
		     {"memoryx cpuset xpids", 0}};
	static const struct {
		struct cgroup_limits limits;
		unsigned needs;
		const char *names;
	} wishes[] = {{{.cpu_millis = 1}, SHIM_CAN_CPU, "cpu"},
		      {{.memory_mb = 1}, SHIM_CAN_MEMORY, "memory"},
		      {{.pids = 1}, SHIM_CAN_PIDS, "pids"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_v2(cases[i].controllers);
		struct cgroup_tree t = open_tree();
		assert_int_equal(t.abilities & limits_all, cases[i].abilities);
		for (size_t w = 0; w < ARRAY_SIZE(wishes); w++) {
			const char *file = NULL;
			struct cgroup g;
			int r = cgroup_create(&t, LEAF, &wishes[w].limits, &g, &file);

			if ((cases[i].abilities & wishes[w].needs) != 0) {
				assert_int_equal(r, 0);
				cgroup_close(&g);
			} else {
				assert_int_equal(r, -EOPNOTSUPP);
				assert_string_equal(file, wishes[w].names);
			}
		}
		cgroup_tree_close(&t);
	}
}

/* The file that refuses is named; what is optional may be missing. */
static void test_refusing_files(void **state)
{
	const struct cgroup_limits limits = {.cpu_millis = 9, .memory_mb = 1, .pids = 1};
	static const char *const files[] = {"cpu.max", "memory.max", "pids.max"};
	char path[128];
	struct cgroup g;

	(void)state;
	make_v2("cpu memory pids");
	struct cgroup_tree t = open_tree();
	(void)snprintf(path, sizeof(path), "%s/" INSTANCE "/" LEAF "/memory.swap.max", root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(cgroup_create(&t, LEAF, &limits, &g, NULL), 0);
	assert_string_equal(get(INSTANCE "/" LEAF "/cpu.max"), "9000 1000000");
	cgroup_close(&g);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const char *file = NULL;

		(void)snprintf(path, sizeof(path), "%s/" INSTANCE "/" LEAF "/%s", root, files[i]);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(cgroup_create(&t, LEAF, &limits, &g, &file), -ENOENT);
		assert_string_equal(file, files[i]);
		(void)snprintf(path, sizeof(path), INSTANCE "/" LEAF "/%s", files[i]);
		put(path, "");
	}
	cgroup_tree_close(&t);
}

static void test_v1(void **state)
{
	const struct cgroup_limits limits = {.cpu_millis = 250, .memory_mb = 2, .pids = 3};
	const struct cgroup_limits pids_only = {.pids = 9};
	struct cgroup g;

	(void)state;
	make_v1();
	struct cgroup_tree t = open_tree();
	assert_int_equal(t.abilities, limits_all | SHIM_CAN_KILL);
	assert_int_equal(t.v2_limits, 0);
	assert_int_equal(cgroup_create(&t, LEAF, &limits, &g, NULL), 0);
	assert_string_equal(get("memory/" INSTANCE "/" LEAF "/memory.limit_in_bytes"), "2097152");
	assert_string_equal(get("memory/" INSTANCE "/" LEAF "/memory.memsw.limit_in_bytes"), "2097152");
	assert_string_equal(get("pids/" INSTANCE "/" LEAF "/pids.max"), "3");
	assert_string_equal(get("cpu/" INSTANCE "/" LEAF "/cpu.cfs_quota_us"), "25000");
	assert_string_equal(get("cpu/" INSTANCE "/" LEAF "/cpu.cfs_period_us"), "100000");
	assert_int_equal(cgroup_oom_kills(&t, &g), 4);
	assert_int_equal(cgroup_join_self(&g, false), 0);
	assert_string_equal(get("memory/" INSTANCE "/" LEAF "/tasks"), "0");
	assert_string_equal(get("freezer/" INSTANCE "/" LEAF "/tasks"), "0");
	cgroup_close(&g);

	/* Only the groups that are needed. */
	put("cpu/" INSTANCE "/" LEAF "/tasks", "");
	assert_int_equal(cgroup_create(&t, LEAF, &pids_only, &g, NULL), 0);
	assert_int_equal(g.v1_fd[CGROUP_V1_CPU], -1);
	assert_int_equal(cgroup_join_self(&g, false), 0);
	assert_string_equal(get("cpu/" INSTANCE "/" LEAF "/tasks"), "");
	cgroup_close(&g);
	cgroup_tree_close(&t);
}

static void test_limits_that_do_not_fit(void **state)
{
	static const struct cgroup_limits cases[] = {
		{.cpu_millis = INT64_MAX}, {.memory_mb = INT64_MAX},
		{.memory_mb = (INT64_C(1) << 40) + 1}};
	struct cgroup g;

	(void)state;
	make_v2("cpu memory pids");
	struct cgroup_tree t = open_tree();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(cgroup_create(&t, LEAF, &cases[i], &g, NULL), -EINVAL);
	cgroup_tree_close(&t);
}

static void test_no_groups(void **state)
{
	struct cgroup g;

	(void)state;
	struct cgroup_tree t = open_tree();
	assert_int_equal(t.abilities, 0);
	assert_false(cgroup_tree_usable(&t));
	assert_int_equal(cgroup_open(&t, LEAF, &g), -ENOENT);
	cgroup_tree_close(&t);
	assert_int_equal(cgroup_tree_open(&t, "/nonexistent/root", "cloop", "i"), -ENOENT);
}

static void test_parents(void **state)
{
	static const char *const bad[] = {"",     "/",    "/a",  "..",   "a/..",  "a/../b", ".",
					  "a//b", "a/",   ".a",  "a/.b", "a/b/c/d/e/f/g/h/i"};
	struct cgroup_tree t;
	char path[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (cgroup_tree_open(&t, root, bad[i], "i") != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
	/* Nothing is made, and nothing followed, through a link. */
	put("cgroup.controllers", "");
	(void)snprintf(path, sizeof(path), "%s/cloop", root);
	assert_int_equal(symlink("/", path), 0);
	assert_int_equal(cgroup_tree_open(&t, root, "cloop", "i"), 0);
	assert_false(cgroup_tree_usable(&t));
	cgroup_tree_close(&t);

	assert_int_equal(cgroup_tree_open(&t, root, "a.slice/b", "i"), 0);
	(void)snprintf(path, sizeof(path), "%s/a.slice/b/i", root);
	assert_int_equal(access(path, F_OK), 0);
	cgroup_tree_remove(&t, "a.slice/b", "i");
	(void)snprintf(path, sizeof(path), "%s/a.slice", root);
	assert_int_equal(access(path, F_OK), -1);
	cgroup_tree_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_v2, setup, teardown),
		cmocka_unit_test_setup_teardown(test_v2_without_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(test_missing_controllers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusing_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_v1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits_that_do_not_fit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_groups, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parents, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
