#include "tests/unit/test.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/nudge_protocol.h"
#include "fs/nudger_marks.h"

static const struct marks_of of = {.dev = 0x27, .mount_id = 0x2a};

/* --- texts ---------------------------------------------------------------------------------- */

static void lines_say_what_is_marked(void **state)
{
	static const struct {
		const char *line;
		uint64_t inode; /* 0: none */
		bool everything;
	} cases[] = {
		{"inotify wd:4 ino:300000001080000 sdev:27 mask:2 ignored_mask:0 fhandle-bytes:c "
		 "fhandle-type:81 f_handle:000000030700080101000000\n",
		 0x300000001080000, false},
		{"inotify wd:1 ino:1 sdev:27 mask:fff ignored_mask:0 \n", 1, false},
		{"fanotify ino:70000000a030000 sdev:27 mflags:0 mask:2 ignored_mask:0 "
		 "fhandle-bytes:c\n",
		 0x70000000a030000, false},
		/* other file systems */
		{"inotify wd:1 ino:5 sdev:28 mask:2\n", 0, false},
		{"inotify wd:1 ino:5 sdev:270 mask:2\n", 0, false},
		{"inotify wd:1 ino:5 sdev:2 mask:27\n", 0, false},
		/* the mount, the file system, and others */
		{"fanotify mnt_id:2a mflags:0 mask:2 ignored_mask:0\n", 0, true},
		{"fanotify mnt_id:2b mflags:0 mask:2 ignored_mask:0\n", 0, false},
		{"fanotify sdev:27 mflags:0 mask:2 ignored_mask:0\n", 0, true},
		{"fanotify sdev:28 mflags:0 mask:2 ignored_mask:0\n", 0, false},
		/* what else stands in fdinfo */
		{"pos:\t0\n", 0, false},
		{"mnt_id:\t42\n", 0, false},
		{"ino:\t1039\n", 0, false},
		{"fanotify flags:10 event-flags:0\n", 0, false},
		{"\n", 0, false},
		/* what is not as it should be */
		{"inotify\n", 0, false},
		{"inotify wd:1 sdev:27\n", 0, false},
		{"inotify wd:1 ino: sdev:27\n", 0, false},
		{"inotify wd:1 ino:zz sdev:27\n", 0, false},
		{"inotify wd:1 ino:10000000000000000 sdev:27\n", 0, false},
		{"inotify wd:1 ino:5 sdev:\n", 0, false},
		{"xinotify wd:1 ino:5 sdev:27\n", 0, false},
		{"inotifyx wd:1 ino:5 sdev:27\n", 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct marks m = {0};
		size_t len = strlen(cases[i].line);

		assert_int_equal(marks_parse(&m, &of, cases[i].line, len, 10), len);
		assert_int_equal(m.n, cases[i].inode != 0);
		if (m.n > 0)
			assert_int_equal(m.inodes[0], cases[i].inode);
		assert_int_equal(m.everything, cases[i].everything);
		marks_clear(&m);
	}
}

static void an_unknown_mount_is_not_watched_as_a_whole(void **state)
{
	const struct marks_of unknown = {.dev = 0x27};
	static const char line[] = "fanotify mnt_id:0 mflags:0 mask:2 ignored_mask:0\n";
	struct marks m = {0};

	(void)state;
	(void)marks_parse(&m, &unknown, line, strlen(line), 10);
	assert_false(m.everything);
}

static void a_text_may_be_cut_anywhere(void **state)
{
	static const char text[] = "pos:\t0\ninotify wd:2 ino:abc sdev:27 mask:2\nrest\n"
				   "inotify wd:1 ino:def sdev:27 mask:2\n";
	size_t len = sizeof(text) - 1;

	(void)state;
	for (size_t cut = 0; cut <= len; cut++) {
		struct marks m = {0};
		size_t used = marks_parse(&m, &of, text, cut, 10);

		assert_true(used <= cut);
		used += marks_parse(&m, &of, text + used, len - used, 10);
		assert_int_equal(used, len);
		assert_int_equal(m.n, 2);
		assert_int_equal(m.inodes[0], 0xabc);
		assert_int_equal(m.inodes[1], 0xdef);
		marks_clear(&m);
	}
}

static void a_long_line_is_passed_over(void **state)
{
	static char text[8192];
	struct marks m = {0};

	(void)state;
	(void)snprintf(text, sizeof(text),
		       "inotify wd:1 ino:5 sdev:27 %04000d\ninotify wd:1 ino:6 sdev:27\n", 0);
	(void)marks_parse(&m, &of, text, strlen(text), 10);
	assert_int_equal(m.n, 1);
	assert_int_equal(m.inodes[0], 6);
	marks_clear(&m);
}

static void no_more_are_added_than_there_is_room(void **state)
{
	static const char text[] = "inotify wd:1 ino:1 sdev:27 \ninotify wd:2 ino:2 sdev:27 \n"
				   "inotify wd:3 ino:3 sdev:27 \nfanotify sdev:27 \n";
	struct marks m = {0};

	(void)state;
	assert_int_equal(marks_parse(&m, &of, text, strlen(text), 2), strlen(text));
	assert_int_equal(m.n, 2);
	assert_true(m.everything);
	assert_int_equal(marks_parse(&m, &of, text, strlen(text), 0), strlen(text));
	assert_int_equal(m.n, 2);
	marks_clear(&m);
}

static void marks_are_a_set(void **state)
{
	static const char text[] = "inotify wd:1 ino:9 sdev:27 \ninotify wd:2 ino:2 sdev:27 \n"
				   "inotify wd:3 ino:9 sdev:27 \ninotify wd:4 ino:2 sdev:27 \n";
	struct marks a = {0}, b = {0};

	(void)state;
	marks_finish(&a);
	assert_false(marks_have(&a, 2));
	assert_true(marks_equal(&a, &b));
	(void)marks_parse(&a, &of, text, strlen(text), 10);
	marks_finish(&a);
	assert_int_equal(a.n, 2);
	assert_true(marks_have(&a, 2) && marks_have(&a, 9));
	assert_false(marks_have(&a, 3));
	assert_false(marks_equal(&a, &b));
	(void)marks_parse(&b, &of, text, 56, 10);
	marks_finish(&b);
	assert_true(marks_equal(&a, &b));
	b.everything = true;
	assert_false(marks_equal(&a, &b));
	marks_clear(&a);
	marks_clear(&b);
}

/* --- a /proc of our own --------------------------------------------------------------------- */

static char place[] = "/tmp/cloop-marks-XXXXXX";

static int make_place(void **state)
{
	(void)state;
	memcpy(place + strlen(place) - 6, "XXXXXX", 6);
	return mkdtemp(place) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_place(void **state)
{
	(void)state;
	return nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_process(const char *pid)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", place, pid);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/%s/fd", place, pid);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/%s/fdinfo", place, pid);
	assert_int_equal(mkdir(path, 0755), 0);
}

static FILE *make_fd(const char *pid, const char *fd, const char *target)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s/fd/%s", place, pid, fd);
	assert_int_equal(symlink(target, path), 0);
	(void)snprintf(path, sizeof(path), "%s/%s/fdinfo/%s", place, pid, fd);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	return f;
}

static void make_marks(const char *pid, const char *fd, const char *target, unsigned first,
		       unsigned n)
{
	FILE *f = make_fd(pid, fd, target);

	(void)fprintf(f, "pos:\t0\nflags:\t00\nmnt_id:\t17\nino:\t1039\n");
	for (unsigned i = first; i < first + n; i++)
		(void)fprintf(
			f, "inotify wd:%x ino:%x sdev:27 mask:fce ignored_mask:0 fhandle-bytes:c\n",
			i, i);
	assert_int_equal(fclose(f), 0);
}

static void scan(struct marks *ret, pid_t except)
{
	AUTO_CLOSE int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(marks_scan(ret, &of, fd, except), 0);
}

static void every_process_is_looked_at(void **state)
{
	struct marks m = {0};

	(void)state;
	make_process("10");
	make_marks("10", "3", "anon_inode:inotify", 100, 2);
	make_marks("10", "4", "anon_inode:[eventpoll]", 200, 1);
	make_marks("10", "5", "/tmp/anon_inode:inotify", 300, 1);
	make_process("11");
	make_marks("11", "7", "anon_inode:inotify", 101, 2);
	make_process("12"); /* the one that asks */
	make_marks("12", "3", "anon_inode:inotify", 400, 1);
	make_process("self");
	make_marks("self", "3", "anon_inode:inotify", 500, 1);
	make_process("13"); /* gone while it is looked at */
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/13/fdinfo", place);
	assert_int_equal(rmdir(path), 0);
	(void)snprintf(path, sizeof(path), "%s/13/fd/3", place);
	assert_int_equal(symlink("anon_inode:inotify", path), 0);

	scan(&m, 12);
	assert_int_equal(m.n, 3);
	for (uint64_t i = 100; i <= 102; i++)
		assert_true(marks_have(&m, i));
	marks_clear(&m);
}

static void long_lists_come_in_pieces(void **state)
{
	struct marks m = {0};

	(void)state;
	make_process("10");
	make_marks("10", "3", "anon_inode:inotify", 1, 5000);
	scan(&m, 0);
	assert_int_equal(m.n, 5000);
	marks_clear(&m);
}

static void a_line_without_end_ends_the_list(void **state)
{
	struct marks m = {0};

	(void)state;
	make_process("10");
	FILE *f = make_fd("10", "3", "anon_inode:inotify");
	for (int i = 0; i < 100000; i++)
		(void)fputc('x', f);
	(void)fprintf(f, "\ninotify wd:1 ino:5 sdev:27 \n");
	assert_int_equal(fclose(f), 0);
	scan(&m, 0);
	assert_int_equal(m.n, 0);
	marks_clear(&m);
}

static void one_user_leaves_room_for_others(void **state)
{
	struct marks m = {0};
	char path[128];

	(void)state;
	make_process("10");
	make_process("11");
	make_process("12");
	make_marks("10", "3", "anon_inode:inotify", 1, 50000);
	make_marks("11", "3", "anon_inode:inotify", 100001, 50000);
	make_marks("12", "3", "anon_inode:inotify", 900001, 10);
	if (geteuid() == 0)
		for (int i = 10; i <= 11; i++) {
			(void)snprintf(path, sizeof(path), "%s/%d", place, i);
			assert_int_equal(chown(path, 64001, 64001), 0);
		}
	scan(&m, 0);
	if (geteuid() == 0)
		assert_int_equal(m.n, NUDGE_MARKS_PER_UID + 10);
	assert_true(marks_have(&m, 900001));
	marks_clear(&m);
}

/* --- the real one --------------------------------------------------------------------------- */

static void marks_of_the_kernel_are_found(void **state)
{
	AUTO_CLOSE int watcher = inotify_init1(IN_CLOEXEC),
		       proc_fd = open("/proc", O_RDONLY | O_CLOEXEC);
	struct marks m = {0};
	struct stat st;

	(void)state;
	assert_true(watcher >= 0 && proc_fd >= 0);
	assert_true(inotify_add_watch(watcher, place, IN_MODIFY) >= 0);
	assert_int_equal(stat(place, &st), 0);
	const struct marks_of real = {.dev = (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev)};
	assert_int_equal(marks_scan(&m, &real, proc_fd, 0), 0);
	assert_true(marks_have(&m, st.st_ino));
	marks_clear(&m);
	assert_int_equal(marks_scan(&m, &real, proc_fd, getpid()), 0);
	assert_false(marks_have(&m, st.st_ino));
	marks_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_say_what_is_marked),
		cmocka_unit_test(an_unknown_mount_is_not_watched_as_a_whole),
		cmocka_unit_test(a_text_may_be_cut_anywhere),
		cmocka_unit_test(a_long_line_is_passed_over),
		cmocka_unit_test(no_more_are_added_than_there_is_room),
		cmocka_unit_test(marks_are_a_set),
		cmocka_unit_test_setup_teardown(every_process_is_looked_at, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(long_lists_come_in_pieces, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(a_line_without_end_ends_the_list, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(one_user_leaves_room_for_others, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(marks_of_the_kernel_are_found, make_place,
						remove_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
