/* A disk that fails, a database that is held or taken away: named, undone, and over when it is
 * over. */
#include "tests/unit/store_help.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/store/internal.h"
#include "core/store/query.h"
#include "tests/unit/store_vfs.h"

static struct store *open_shim(const char *db)
{
	struct store_options opts = help_options();
	struct store *s = NULL;
	struct error err = {0};

	opts.vfs = VFS_NAME;
	if (store_open(db, &opts, &s, &err) < 0)
		fail_msg("%s: %s", error_name(err.code), err.reason);
	return s;
}

/* The files as a process that dies now leaves them, in another directory. */
static void copy_files(const char *from, const char *to)
{
	static const char *const suffixes[] = {"", "-wal"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		char path[256];
		size_t len;

		(void)snprintf(path, sizeof(path), "%s%s", from, suffixes[i]);
		AUTO_FREE char *data = help_slurp(path, &len);
		(void)snprintf(path, sizeof(path), "%s%s", to, suffixes[i]);
		if (data)
			help_spew(path, data, len);
	}
}

static int64_t after_crash(const char *db, const char *key)
{
	struct help_dir copy;

	help_dir_init(&copy, NULL);
	copy_files(db, copy.db);
	struct store *s = help_open(copy.db);
	int64_t value = help_get(store_reader(s), key);
	s = store_free(s);
	help_dir_clean(&copy);
	return value;
}

static const struct {
	const char *what;
	enum vfs_call call;
	int code;
	int skip;
	int expected;
} commit_faults[] = {
	{"disk full at the first write", VFS_WRITE, ENOSPC, 0, ENOSPC},
	{"disk full in the middle", VFS_WRITE, ENOSPC, 2, ENOSPC},
	{"disk full at the last write", VFS_WRITE, ENOSPC, 3, ENOSPC},
	{"quota", VFS_WRITE, EDQUOT, 1, EDQUOT},
	{"gone read-only", VFS_WRITE, EROFS, 0, EROFS},
	{"write error", VFS_WRITE, EIO, 1, EIO},
	{"disk full at the sync", VFS_SYNC, ENOSPC, 0, ENOSPC},
	{"error at the sync", VFS_SYNC, EIO, 0, EIO},
};

static void a_failed_commit_leaves_nothing(void **state)
{
	struct help_dir *dir = *state;
	struct help_pair before = {"before", 1}, during = {"during", 2}, after = {"after", 3};
	AUTO_STORE struct store *s = open_shim(dir->db);

	for (size_t i = 0; i < ARRAY_SIZE(commit_faults); i++) {
		struct error err;
		struct store_stats stats;

		print_message("# %s\n", commit_faults[i].what);
		assert_int_equal(help_run(s, help_set, &before, NULL), 0);
		vfs_fail(commit_faults[i].call, VFS_WAL, commit_faults[i].code,
			 commit_faults[i].skip);
		assert_int_equal(help_run(s, help_set, &during, &err), -commit_faults[i].expected);
		assert_true(vfs_failures() > 0);
		assert_non_null(strstr(err.reason, dir->db));
		assert_true(err.remedy[0] != '\0');
		assert_int_equal(help_get(store_reader(s), "during"), -1);
		/* A process that is killed now must not bring it back either. */
		assert_int_equal(after_crash(dir->db, "during"), -1);
		assert_int_equal(after_crash(dir->db, "before"), 1);
		/* The store recovers by itself when the disk does. */
		vfs_heal();
		after.value = (int64_t)i;
		assert_int_equal(help_run(s, help_set, &after, NULL), 0);
		assert_int_equal(help_get(store_reader(s), "after"), (int64_t)i);
		assert_int_equal(help_get(store_reader(s), "during"), -1);
		assert_int_equal(after_crash(dir->db, "during"), -1);
		store_get_stats(s, &stats);
		assert_int_equal(stats.failed, i + 1);
		assert_true(store_tx_idle(store_reader(s)));
	}
}

static void a_commit_that_cannot_be_taken_back_is_admitted(void **state)
{
	struct help_dir *dir = *state;
	struct help_pair pair = {"during", 2}, other = {"other", 3};
	struct error err;
	AUTO_STORE struct store *s = open_shim(dir->db);

	vfs_fail(VFS_SYNC, VFS_WAL, EIO, 0);
	vfs_fail(VFS_TRUNCATE, VFS_WAL, EIO, 0);
	assert_int_equal(help_run(s, help_set, &pair, &err), -EIO);
	assert_non_null(strstr(err.remedy, "restart"));
	vfs_heal();
	/* As soon as the disk works again it is taken back, even if nothing else is committed. */
	assert_int_equal(help_run(s, help_refuse, &other, &err), -EPERM);
	assert_int_equal(after_crash(dir->db, "during"), -1);
	assert_int_equal(help_run(s, help_set, &other, NULL), 0);
	assert_int_equal(help_get(store_reader(s), "other"), 3);
	assert_int_equal(help_get(store_reader(s), "during"), -1);
}

/* The log empty, in the middle, and started over after a checkpoint: always the right place is cut.
 */
static void a_failed_commit_is_cut_off_wherever_the_log_is(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	struct store *s = NULL;
	int64_t kept = -1;
	int failed = 0;

	opts.vfs = VFS_NAME;
	opts.wal_pages = 6;
	assert_int_equal(store_open(dir->db, &opts, &s, NULL), 0);
	for (int64_t i = 0; i < 40; i++) {
		struct help_pair good = {"good", i}, bad = {"bad", i};

		/* A log that starts over syncs its header first: then it is the second one that
		 * counts. */
		vfs_fail(VFS_SYNC, VFS_WAL, EIO, i % 2 ? 0 : 1);
		int r = help_run(s, help_set, &bad, NULL);
		if (r == 0)
			kept = i;
		else
			failed++;
		assert_int_equal(after_crash(dir->db, "bad"), kept);
		assert_int_equal(after_crash(dir->db, "good"), i - 1);
		vfs_heal();
		for (int64_t n = 0; n <= i % 3; n++)
			assert_int_equal(help_run(s, help_set, &good, NULL), 0);
		assert_int_equal(after_crash(dir->db, "good"), i);
		assert_int_equal(after_crash(dir->db, "bad"), kept);
	}
	assert_true(failed > 20);
	s = store_free(s);
}

#define BATCH 5

static void a_failed_batch_fails_as_a_whole(void **state)
{
	static const char *const keys[BATCH] = {"a", "b", "c", "d", "e"};
	struct help_dir *dir = *state;
	struct help_pair pairs[BATCH];
	struct help_op ops[BATCH];
	int counter = 0;
	AUTO_STORE struct store *s = open_shim(dir->db);

	vfs_fail(VFS_WRITE, VFS_WAL, ENOSPC, 0);
	for (int i = 0; i < BATCH; i++) {
		pairs[i] = (struct help_pair){keys[i], i};
		help_submit(s, &ops[i], i == 2 ? help_refuse : help_set, &pairs[i], &counter);
	}
	store_flush(s);
	for (int i = 0; i < BATCH; i++) {
		/* The refusal may have been alone in its transaction. */
		if (i != 2)
			assert_int_equal(ops[i].result, -ENOSPC);
		assert_true(ops[i].result < 0);
		assert_int_equal(ops[i].order, i + 1);
		assert_int_equal(help_get(store_reader(s), keys[i]), -1);
	}
	vfs_heal();
	for (int i = 0; i < BATCH; i++)
		assert_int_equal(help_run(s, help_set, &pairs[i], NULL), 0);
}

/* A row that does not fit into the page cache reaches the log before the commit. */
static int set_large(struct store_tx *tx, void *arg, struct error *err)
{
	struct error ignored;
	int r = help_set(tx, arg, err);

	/* The large one fails, and this operation does not care: nothing of it may be kept. */
	if (r == 0)
		(void)store_exec(tx, "INSERT INTO meta VALUES ('large', zeroblob(7000000))",
				 "be changed", &ignored);
	return r;
}

static void a_transaction_that_sqlite_gave_up_is_not_half_kept(void **state)
{
	struct help_dir *dir = *state;
	struct help_pair pair = {"a", 1}, next = {"b", 2};
	struct error err;
	AUTO_STORE struct store *s = open_shim(dir->db);

	vfs_fail(VFS_WRITE, VFS_WAL, ENOSPC, 0);
	assert_int_equal(help_run(s, set_large, &pair, &err), -ENOSPC);
	assert_non_null(strstr(err.reason, dir->db));
	vfs_heal();
	assert_int_equal(help_get(store_reader(s), "a"), -1);
	assert_int_equal(help_run(s, set_large, &pair, NULL), 0);
	assert_int_equal(help_run(s, help_set, &next, NULL), 0);
	assert_int_equal(help_get(store_reader(s), "a"), 1);
}

static void a_failing_checkpoint_costs_nothing(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	struct store *s = NULL;
	struct store_stats stats;

	opts.vfs = VFS_NAME;
	opts.wal_pages = 4;
	assert_int_equal(store_open(dir->db, &opts, &s, NULL), 0);
	vfs_fail(VFS_WRITE, VFS_DB, ENOSPC, 0);
	vfs_fail(VFS_SYNC, VFS_DB, EIO, 0);
	for (int64_t i = 0; i < 50; i++)
		assert_int_equal(help_run(s, help_set, &(struct help_pair){"n", i}, NULL), 0);
	assert_true(vfs_failures() > 0);
	vfs_heal();
	for (int64_t i = 50; i < 100; i++)
		assert_int_equal(help_run(s, help_set, &(struct help_pair){"n", i}, NULL), 0);
	store_get_stats(s, &stats);
	assert_in_range(stats.wal_pages, 0, 4 * STORE_WAL_TRUNCATE_TIMES);
	assert_int_equal(help_get(store_reader(s), "n"), 99);
	assert_int_equal(after_crash(dir->db, "n"), 99);
	s = store_free(s);
}

static void a_failing_disk_at_the_end_loses_nothing(void **state)
{
	struct help_dir *dir = *state;
	struct store *s = open_shim(dir->db);

	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	vfs_fail(VFS_WRITE, VFS_DB, EIO, 0);
	vfs_fail(VFS_SYNC, VFS_DB, EIO, 0);
	vfs_fail(VFS_DELETE, VFS_WAL, EIO, 0);
	s = store_free(s);
	vfs_heal();
	s = open_shim(dir->db);
	assert_int_equal(help_get(store_reader(s), "a"), 1);
	s = store_free(s);
}

static void a_reader_that_fails_says_so(void **state)
{
	struct help_dir *dir = *state;
	struct error err = {0};
	int64_t value = 5;
	struct store *s = open_shim(dir->db);

	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	s = store_free(s);
	s = open_shim(dir->db);
	vfs_fail(VFS_READ, VFS_DB, EIO, 0);
	assert_int_equal(store_last_serial(store_reader(s), "session", &value, &err), -EIO);
	assert_int_equal(value, 5);
	assert_non_null(strstr(err.reason, dir->db));
	vfs_heal();
	assert_int_equal(store_last_serial(store_reader(s), "session", &value, &err), 0);
	s = store_free(s);
}

static void a_database_that_is_held_is_busy_and_then_not(void **state)
{
	struct help_dir *dir = *state;
	struct help_op ops[3];
	struct help_pair pairs[3] = {{"a", 1}, {"b", 2}, {"c", 3}};
	sqlite3 *other = NULL;
	int counter = 0;
	AUTO_STORE struct store *s = help_open(dir->db);

	assert_int_equal(sqlite3_open(dir->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	for (int i = 0; i < 3; i++)
		help_submit(s, &ops[i], help_set, &pairs[i], &counter);
	store_flush(s);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ops[i].result, -EBUSY);
		assert_non_null(strstr(ops[i].error.reason, dir->db));
	}
	assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(help_run(s, help_set, &pairs[i], NULL), 0);
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

static void a_database_that_is_taken_away_takes_no_change(void **state)
{
	struct help_dir *dir = *state;
	struct error err;
	char aside[192];
	AUTO_STORE struct store *s = help_open(dir->db);

	(void)snprintf(aside, sizeof(aside), "%s.aside", dir->db);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	assert_int_equal(rename(dir->db, aside), 0);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 2}, &err), -EIO);
	assert_non_null(strstr(err.reason, "removed or replaced"));
	assert_int_equal(rename(aside, dir->db), 0);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 3}, NULL), 0);
	assert_int_equal(help_get(store_reader(s), "a"), 3);
}

/* What the loop does: it dispatches when it is woken, and never otherwise. */
struct loop {
	atomic_int wakes;
	int done;
};

static void loop_wake(void *user)
{
	struct loop *l = user;

	atomic_fetch_add(&l->wakes, 1);
}

static void no_wake_up_is_lost(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	struct loop loop = {0};
	static struct help_op ops[300];
	static struct help_pair pair = {"a", 1};
	struct store *s = NULL;
	int counter = 0, submitted = 0;

	opts.vfs = VFS_NAME;
	opts.wake = loop_wake;
	opts.user = &loop;
	assert_int_equal(store_open(dir->db, &opts, &s, NULL), 0);
	while (counter < (int)ARRAY_SIZE(ops)) {
		/* Failures come and go meanwhile. */
		if (submitted < (int)ARRAY_SIZE(ops)) {
			if (submitted % 40 == 10)
				vfs_fail(VFS_WRITE, VFS_WAL, ENOSPC, 0);
			if (submitted % 40 == 30)
				vfs_heal();
			help_submit(s, &ops[submitted++], help_set, &pair, &counter);
		}
		if (atomic_load(&loop.wakes) > 0) {
			atomic_fetch_sub(&loop.wakes, 1);
			store_dispatch(s);
		}
	}
	for (int i = 0; i < (int)ARRAY_SIZE(ops); i++) {
		assert_int_equal(ops[i].order, i + 1);
		assert_true(ops[i].result == 0 || ops[i].result == -ENOSPC);
	}
	vfs_heal();
	assert_int_equal(help_run(s, help_set, &pair, NULL), 0);
	s = store_free(s);
}

static int group_setup(void **state)
{
	(void)state;
	vfs_install();
	return 0;
}

static int remove_healed(void **state)
{
	vfs_heal();
	return help_dir_remove(state);
}

#define FAULT_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, remove_healed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAULT_TEST(a_failed_commit_leaves_nothing),
		FAULT_TEST(a_commit_that_cannot_be_taken_back_is_admitted),
		FAULT_TEST(a_failed_commit_is_cut_off_wherever_the_log_is),
		FAULT_TEST(a_failed_batch_fails_as_a_whole),
		FAULT_TEST(a_transaction_that_sqlite_gave_up_is_not_half_kept),
		FAULT_TEST(a_failing_checkpoint_costs_nothing),
		FAULT_TEST(a_failing_disk_at_the_end_loses_nothing),
		FAULT_TEST(a_reader_that_fails_says_so),
		FAULT_TEST(a_database_that_is_held_is_busy_and_then_not),
		FAULT_TEST(a_database_that_is_taken_away_takes_no_change),
		FAULT_TEST(no_wake_up_is_lost),
	};

	return cmocka_run_group_tests_name("store_fault", tests, group_setup, NULL);
}
