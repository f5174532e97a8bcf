#include "tests/unit/test.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "fs/mountinfo.h"
#include "fs/place.h"

static char base[] = "/tmp/cloop-place.XXXXXX";

static int make_base(void **state)
{
	(void)state;
	return mkdtemp(base) && chdir(base) == 0 && mkdir("dir", 0700) == 0 &&
			       mkdir("dir/sub", 0700) == 0 && symlink("dir/sub", "link") == 0 &&
			       symlink("nowhere/below", "dangling") == 0
		       ? 0
		       : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_base(void **state)
{
	(void)state;
	return chdir("/") < 0 ? -1 : nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void paths_are_resolved_as_far_as_they_exist(void **state)
{
	/* Relative to the base, as are the results that do not begin with a slash. */
	static const struct {
		const char *path, *result;
	} cases[] = {
		{"dir", "dir"},
		{"./dir//sub///", "dir/sub"},
		{"link", "dir/sub"},
		{"link/..", "dir"},
		{"link/new/deep", "dir/sub/new/deep"},
		{"new", "new"},
		{"new//deep/./er/", "new/deep/er"},
		{"new/.", "new"},
		{"dangling", "dangling"},
		{"/", "/"},
		{"//", "/"},
		{"/no-such-dir", "/no-such-dir"},
		{"/no-such-dir/x", "/no-such-dir/x"},
		{"new/..", NULL},
		{"new/../../x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *got = NULL;
		AUTO_FREE char *want = NULL;
		struct error err;
		int r = place_resolve(cases[i].path, &got, &err);

		if (!cases[i].result) {
			assert_int_equal(r, -EINVAL);
			assert_null(got);
			continue;
		}
		assert_int_equal(r, 0);
		assert_true(asprintf(&want, "%s%s%s", cases[i].result[0] == '/' ? "" : base,
				     cases[i].result[0] == '/' ? "" : "/", cases[i].result) > 0);
		assert_string_equal(got, want);
	}
}

static void a_mountpoint_is_absolute_and_has_a_name(void **state)
{
	AUTO_FREE char *got = NULL;
	char path[128], want[128];
	struct error err;

	(void)state;
	assert_int_equal(place_resolve_mountpoint("dir", &got, &err), -EINVAL);
	assert_int_equal(place_resolve_mountpoint("/tmp/..", &got, &err), -EINVAL);
	assert_int_equal(place_resolve_mountpoint("/tmp/.", &got, &err), -EINVAL);
	assert_null(got);
	(void)snprintf(path, sizeof(path), "%s/link/", base);
	(void)snprintf(want, sizeof(want), "%s/dir/sub", base);
	assert_int_equal(place_resolve_mountpoint(path, &got, &err), 0);
	assert_string_equal(got, want);
}

static void inside_is_by_whole_names(void **state)
{
	(void)state;
	assert_true(place_is_inside("/a", "/a"));
	assert_true(place_is_inside("/a/b", "/a"));
	assert_true(place_is_inside("/a", "/"));
	assert_false(place_is_inside("/ab", "/a"));
	assert_false(place_is_inside("/a", "/a/b"));
	assert_false(place_is_inside("/", "/a"));
}

static void a_lock_is_held_by_one_process(void **state)
{
	AUTO_CLOSE int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd = -1;
	char who[32];
	struct error err;
	pid_t holder = -1;
	int status;

	(void)state;
	assert_int_equal(place_lock_holder(dir, base, &holder, &err), 0);
	assert_int_equal(holder, 0);
	assert_int_equal(place_lock(PLACE_STATE, dir, base, &fd, &err), 0);
	(void)snprintf(who, sizeof(who), "with pid %d", getpid());
	pid_t child = fork();
	if (child == 0) {
		int other = -1;
		bool right = place_lock_holder(dir, base, &holder, &err) == 0 &&
			     holder == getppid() &&
			     place_lock(PLACE_STATE, dir, base, &other, &err) == -EBUSY &&
			     strstr(err.reason, who);

		/* Closing what was inherited does not open the lock. */
		(void)close(fd);
		right = right && place_lock(PLACE_STATE, dir, base, &other, &err) == -EBUSY;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void mounts_are_found_by_exact_path(void **state)
{
	static const char text[] =
		"22 27 0:21 / /proc rw,relatime - proc proc rw\n"
		"junk\n"
		"\n"
		"30 27 x / /cloop rw - bad bad rw\n"
		"31 27 0:31 / /cloop rw,nosuid shared:1 master:2 - fuse.cloop cloop rw,user_id=0\n"
		"32 27 8:17 / /with\\040space\\134\\011 rw - ext4 /dev/sd\\040b rw\n"
		"33 31 259:70000 / /cloop rw - tmpfs none rw\n"
		"34 31 0:9 / /short rw";
	static const struct {
		const char *path, *type, *source;
		unsigned maj, min;
	} cases[] = {
		{"/cloop", "tmpfs", "none", 259, 70000},
		{"/proc", "proc", "proc", 0, 21},
		{"/with space\\\t", "ext4", "/dev/sd b", 8, 17},
		{"/clo", NULL, NULL, 0, 0},
		{"/cloop/", NULL, NULL, 0, 0},
		{"/short", NULL, NULL, 0, 0},
		{"", NULL, NULL, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FCLOSE FILE *f = fmemopen((void *)(uintptr_t)text, sizeof(text) - 1, "r");
		struct mountinfo m = {0};

		assert_non_null(f);
		assert_int_equal(mountinfo_find_in(f, cases[i].path, &m, NULL),
				 cases[i].type != NULL);
		if (!cases[i].type)
			continue;
		assert_string_equal(m.type, cases[i].type);
		assert_string_equal(m.source, cases[i].source);
		assert_int_equal(m.dev, makedev(cases[i].maj, cases[i].min));
	}
}

static void the_proc_mount_is_what_stat_says(void **state)
{
	struct mountinfo m;
	struct stat st;

	(void)state;
	assert_int_equal(stat("/proc", &st), 0);
	assert_int_equal(mountinfo_find("/proc", &m, NULL), 1);
	assert_int_equal(m.dev, st.st_dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_resolved_as_far_as_they_exist),
		cmocka_unit_test(a_mountpoint_is_absolute_and_has_a_name),
		cmocka_unit_test(inside_is_by_whole_names),
		cmocka_unit_test(a_lock_is_held_by_one_process),
		cmocka_unit_test(mounts_are_found_by_exact_path),
		cmocka_unit_test(the_proc_mount_is_what_stat_says),
	};

	return cmocka_run_group_tests(tests, make_base, remove_base);
}
