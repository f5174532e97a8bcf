/* Opening: what is refused and left alone, what is checked, and how a schema moves forward. */
#include "tests/unit/store_help.h"

#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/store/internal.h"
#include "core/store/query.h"

static void sql(const char *db, const char *text)
{
	sqlite3 *raw = NULL;

	assert_int_equal(sqlite3_open(db, &raw), SQLITE_OK);
	if (sqlite3_exec(raw, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(raw));
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
}

static void make(const char *db, int rows)
{
	struct store *s = help_open(db);
	char key[16];

	for (int i = 0; i < rows; i++) {
		(void)snprintf(key, sizeof(key), "key%d", i);
		assert_int_equal(help_run(s, help_set, &(struct help_pair){key, i}, NULL), 0);
	}
	s = store_free(s);
}

static void is_private(void **state)
{
	struct help_dir *dir = *state;
	struct stat st;
	mode_t before = umask(0);
	struct store *s = help_open(dir->db);
	static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};

	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	(void)umask(before);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		char path[192];

		(void)snprintf(path, sizeof(path), "%s%s", dir->db, suffixes[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	s = store_free(s);
}

/* Each makes one kind of wrong file out of a good one. */
static void damage_header(const char *db)
{
	AUTO_CLOSE int fd = open(db, O_RDWR | O_CLOEXEC);

	assert_int_equal(pwrite(fd, "SQLite format 4", 15, 0), 15);
}

static void damage_page_size(const char *db)
{
	AUTO_CLOSE int fd = open(db, O_RDWR | O_CLOEXEC);

	assert_int_equal(pwrite(fd, "\x00\x03", 2, 16), 2);
}

/* The root page of a table, and the schema with it. */
static void damage_first_page(const char *db)
{
	AUTO_CLOSE int fd = open(db, O_RDWR | O_CLOEXEC);
	char junk[512];

	memset(junk, 0xa5, sizeof(junk));
	assert_int_equal(pwrite(fd, junk, sizeof(junk), 100), sizeof(junk));
}

static void damage_inner_page(const char *db)
{
	AUTO_CLOSE int fd = open(db, O_RDWR | O_CLOEXEC);
	char junk[4096];

	memset(junk, 0xa5, sizeof(junk));
	assert_int_equal(pwrite(fd, junk, sizeof(junk), 4096L * 2), sizeof(junk));
}

static void cut_at_a_page(const char *db)
{
	struct stat st;

	assert_int_equal(stat(db, &st), 0);
	assert_int_equal(truncate(db, st.st_size - 4096), 0);
}

static void cut_in_a_page(const char *db)
{
	struct stat st;

	assert_int_equal(stat(db, &st), 0);
	assert_int_equal(truncate(db, st.st_size - 1000), 0);
}

static void cut_in_the_header(const char *db)
{
	assert_int_equal(truncate(db, 50), 0);
}

static void replace_by_text(const char *db)
{
	help_spew(db, "{\"not\":\"a database\"}\n", 21);
}

static void set_newer(const char *db)
{
	sql(db, "PRAGMA user_version = 99");
}

static void set_negative(const char *db)
{
	sql(db, "PRAGMA user_version = -1");
}

static void set_foreign(const char *db)
{
	sql(db, "PRAGMA application_id = 12345");
}

static void drop_table(const char *db)
{
	sql(db, "DROP TABLE journal");
}

static void change_table(const char *db)
{
	sql(db, "ALTER TABLE journal ADD COLUMN surprise TEXT");
}

static const struct {
	const char *what;
	void (*spoil)(const char *db);
	int code;
	const char *word;
} refusals[] = {
	{"header", damage_header, EUCLEAN, "not an SQLite database"},
	{"page size", damage_page_size, EUCLEAN, "page size"},
	{"first page", damage_first_page, EUCLEAN, "damaged"},
	{"inner page", damage_inner_page, EUCLEAN, "damaged"},
	{"cut at a page", cut_at_a_page, EUCLEAN, "cut short"},
	{"cut in a page", cut_in_a_page, EUCLEAN, "cut short"},
	{"cut in the header", cut_in_the_header, EUCLEAN, "not an SQLite database"},
	{"text", replace_by_text, EUCLEAN, "not an SQLite database"},
	{"newer schema", set_newer, EOPNOTSUPP, "schema version 99"},
	{"impossible schema", set_negative, EOPNOTSUPP, "schema version -1"},
	{"another program's", set_foreign, EINVAL, "another program"},
	{"table missing", drop_table, EUCLEAN, "table journal"},
	{"table changed", change_table, EUCLEAN, "table journal"},
};

static void what_is_wrong_is_refused_and_left_alone(void **state)
{
	struct store_options opts = help_options();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct help_dir dir;
		size_t len;

		print_message("# %s\n", refusals[i].what);
		help_dir_init(&dir, NULL);
		make(dir.db, 50);
		refusals[i].spoil(dir.db);
		AUTO_FREE char *before = help_slurp(dir.db, &len);
		help_refused(dir.db, &opts, refusals[i].code, refusals[i].word);
		help_same(dir.db, before, len);
		/* And again: a refusal leaves nothing that changes the verdict. */
		help_refused(dir.db, &opts, refusals[i].code, refusals[i].word);
		help_same(dir.db, before, len);
		help_dir_clean(&dir);
	}
}

/* A newer database whose newest part is still in its log: refusing must not write it back. */
static void a_refusal_leaves_the_log_alone(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	char wal[192], live_wal[224], live[192];
	sqlite3 *raw = NULL;
	size_t len, wal_len;

	make(dir->db, 5);
	(void)snprintf(wal, sizeof(wal), "%s-wal", dir->db);
	(void)snprintf(live, sizeof(live), "%s.live", dir->db);
	(void)snprintf(live_wal, sizeof(live_wal), "%s-wal", live);
	assert_int_equal(rename(dir->db, live), 0);
	assert_int_equal(sqlite3_open(live, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, "PRAGMA user_version = 99", NULL, NULL, NULL),
			 SQLITE_OK);
	AUTO_FREE char *before = help_slurp(live, &len);
	AUTO_FREE char *wal_before = help_slurp(live_wal, &wal_len);
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);
	help_spew(dir->db, before, len);
	help_spew(wal, wal_before, wal_len);

	help_refused(dir->db, &opts, EOPNOTSUPP, "schema version 99");
	help_same(dir->db, before, len);
	help_same(wal, wal_before, wal_len);

	/* Without its database the log is not thrown away either. */
	assert_int_equal(unlink(dir->db), 0);
	help_refused(dir->db, &opts, EUCLEAN, "write-ahead log");
	help_same(wal, wal_before, wal_len);
	assert_int_equal(access(dir->db, F_OK), -1);
}

static void only_a_plain_file_will_do(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	char target[192], nowhere[192];

	assert_int_equal(mkfifo(dir->db, 0600), 0);
	help_refused(dir->db, &opts, EINVAL, "not a plain file");
	assert_int_equal(unlink(dir->db), 0);

	(void)snprintf(target, sizeof(target), "%s.target", dir->db);
	make(target, 1);
	assert_int_equal(symlink(target, dir->db), 0);
	help_refused(dir->db, &opts, EINVAL, "not a plain file");
	assert_int_equal(unlink(dir->db), 0);

	assert_int_equal(mkdir(dir->db, 0700), 0);
	help_refused(dir->db, &opts, EINVAL, "not a plain file");
	assert_int_equal(rmdir(dir->db), 0);

	(void)snprintf(nowhere, sizeof(nowhere), "%s/nowhere/state.db", dir->path);
	help_refused(nowhere, &opts, ENOENT, "No such file");
}

static void one_process_at_a_time(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	struct store *s = help_open(dir->db);
	sqlite3 *raw = NULL;

	help_refused(dir->db, &opts, EBUSY, "another cloopd");
	/* The refusal did not drop the locks of the first one. */
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	s = store_free(s);

	assert_int_equal(sqlite3_open(dir->db, &raw), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	help_refused(dir->db, &opts, EBUSY, "locked");
	assert_int_equal(sqlite3_exec(raw, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(raw,
				      "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;"
				      "UPDATE meta SET value = 2; COMMIT;",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	help_refused(dir->db, &opts, EBUSY, "locked");
	assert_int_equal(sqlite3_close(raw), SQLITE_OK);

	s = help_open(dir->db);
	assert_int_equal(help_get(store_reader(s), "a"), 2);
	s = store_free(s);
}

static bool opened_checked(const char *db, const char *boot)
{
	struct store_options opts = help_options();
	struct store *s = NULL;
	struct store_stats stats;
	struct error err = {0};

	opts.boot_id = boot;
	opts.check_bytes = -1;
	if (store_open(db, &opts, &s, &err) != 0)
		fail_msg("%s", err.reason);
	store_get_stats(s, &stats);
	s = store_free(s);
	return stats.checked;
}

/* Opens the store in a child that is killed while it has it open. */
static void open_and_die(const char *db)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *s = help_open(db);

		_exit(help_run(s, help_set, &(struct help_pair){"dead", 1}, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_large_database_is_checked_when_it_may_be_damaged(void **state)
{
	struct help_dir *dir = *state;
	char lock[192];
	struct store *s;
	struct store_stats stats;

	(void)snprintf(lock, sizeof(lock), "%s.lock", dir->db);
	make(dir->db, 3);
	assert_false(opened_checked(dir->db, "boot-1"));
	assert_true(opened_checked(dir->db, "boot-2"));
	assert_false(opened_checked(dir->db, "boot-2"));

	/* Killed in this boot: what it wrote is in the page cache, and sound. */
	make(dir->db, 3);
	open_and_die(dir->db);
	assert_false(opened_checked(dir->db, "boot-1"));
	open_and_die(dir->db);
	assert_true(opened_checked(dir->db, "boot-2"));

	/* Somebody touched it since it was closed, or it is another file, or nobody knows. */
	sql(dir->db, "UPDATE meta SET value = 9");
	assert_true(opened_checked(dir->db, "boot-2"));
	help_spew(lock, "nonsense", 8);
	assert_true(opened_checked(dir->db, "boot-2"));
	assert_int_equal(unlink(lock), 0);
	assert_true(opened_checked(dir->db, "boot-2"));

	/* A small one always is. */
	s = help_open(dir->db);
	store_get_stats(s, &stats);
	assert_true(stats.checked);
	s = store_free(s);
	s = help_open(dir->db);
	store_get_stats(s, &stats);
	assert_true(stats.checked);
	s = store_free(s);
}

static void damage_met_at_work_is_remembered(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	struct store *s = NULL;
	struct error err;
	int64_t root;
	char junk[4096];

	opts.check_bytes = -1;
	make(dir->db, 3);
	open_and_die(dir->db);
	s = help_open(dir->db);
	assert_int_equal(store_get_int(store_reader(s),
				       "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'",
				       "be read", &root, &err),
			 0);
	s = store_free(s);
	open_and_die(dir->db);
	memset(junk, 0xa5, sizeof(junk));
	{
		char wal[192];
		AUTO_CLOSE int fd = open(dir->db, O_RDWR | O_CLOEXEC);

		/* The page is in the log, too: what the log has is what counts. */
		(void)snprintf(wal, sizeof(wal), "%s-wal", dir->db);
		sql(dir->db, "PRAGMA wal_checkpoint(TRUNCATE)");
		assert_int_equal(pwrite(fd, junk, sizeof(junk), (root - 1) * 4096), sizeof(junk));
	}
	/* Known as open in this boot, so nobody looks. */
	assert_int_equal(store_open(dir->db, &opts, &s, &err), 0);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, &err), -EIO);
	assert_non_null(strstr(err.reason, dir->db));
	s = store_free(s);
	help_refused(dir->db, &opts, EUCLEAN, "damaged");
}

static const struct store_migration steps[] = {
	{1, "one", "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1);"},
	{2, "two", "ALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT 'y';"},
	{3, "three", "CREATE TABLE b (z); INSERT INTO b SELECT x FROM a;"},
};
static const struct store_migration broken_steps[] = {
	{1, "one", "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1);"},
	{2, "two", "ALTER TABLE a ADD COLUMN y TEXT NOT NULL DEFAULT 'y';"},
	{3, "three", "CREATE TABLE b (z); INSERT INTO nowhere SELECT x FROM a;"},
};

static int64_t ask(struct store *s, const char *text)
{
	int64_t value = -1;

	(void)store_get_int(store_reader(s), text, "be read", &value, NULL);
	return value;
}

static void a_schema_moves_forward_step_by_step(void **state)
{
	struct help_dir *dir = *state;
	struct store_options opts = help_options();
	struct store_schema schema = {steps, 1};
	struct store *s = NULL;
	struct error err;

	opts.schema = &schema;
	assert_int_equal(store_open(dir->db, &opts, &s, &err), 0);
	s = store_free(s);

	/* The second step holds, the third leaves nothing of itself. */
	schema = (struct store_schema){broken_steps, 3};
	assert_int_equal(store_open(dir->db, &opts, &s, &err), -EIO);
	assert_non_null(strstr(err.reason, "schema version 3 (three)"));
	schema = (struct store_schema){steps, 2};
	assert_int_equal(store_open(dir->db, &opts, &s, &err), 0);
	assert_int_equal(ask(s, "SELECT count(*) FROM sqlite_schema WHERE name = 'b'"), 0);
	s = store_free(s);

	schema.n = 3;
	assert_int_equal(store_open(dir->db, &opts, &s, &err), 0);
	assert_int_equal(ask(s, "SELECT z FROM b"), 1);
	assert_int_equal(ask(s, "SELECT count(*) FROM migration WHERE build = '" CLOOP_VERSION
				"' AND applied_at > 0"),
			 3);
	assert_int_equal(ask(s, "PRAGMA user_version"), 3);
	s = store_free(s);

	schema.n = 2;
	help_refused(dir->db, &opts, EOPNOTSUPP, "versions up to 2");
}

/* Runs fn in a child with a small file system of its own; skips when that is not allowed. */
static void in_small_fs(void (*fn)(const char *dir), const char *dir, const char *size)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", dir, "tmpfs", 0, size) < 0)
			_exit(77);
		fn(dir);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static void fill(const char *path)
{
	char block[4096] = {1};
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	while (write(fd, block, sizeof(block)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

static void on_a_full_disk(const char *dir)
{
	struct store_options opts = help_options();
	struct error err;
	char db[160], filler[160];
	static struct help_op ops[100];
	static struct help_pair b = {"b", 2};
	int counter = 0;

	(void)snprintf(db, sizeof(db), "%s/state.db", dir);
	(void)snprintf(filler, sizeof(filler), "%s/filler", dir);
	fill(filler);
	help_refused(db, &opts, ENOSPC, "No space left");
	assert_int_equal(unlink(filler), 0);

	struct store *s = help_open(db);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	fill(filler);
	/* The log has some room left in its last page of memory, then no more. */
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		help_submit(s, &ops[i], help_set, &b, &counter);
	store_flush(s);
	while (help_run(s, help_set, &b, &err) == 0)
		;
	assert_int_equal(err.code, ENOSPC);
	assert_non_null(strstr(err.reason, db));
	assert_int_equal(help_get(store_reader(s), "a"), 1);
	assert_int_equal(unlink(filler), 0);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 3}, NULL), 0);
	assert_int_equal(help_get(store_reader(s), "a"), 3);
	s = store_free(s);

	fill(filler);
	help_refused(db, &opts, ENOSPC, "No space left");
	assert_int_equal(unlink(filler), 0);
	s = help_open(db);
	assert_int_equal(help_get(store_reader(s), "a"), 3);
	s = store_free(s);
}

static void a_full_disk_is_named_and_got_over(void **state)
{
	struct help_dir *dir = *state;

	in_small_fs(on_a_full_disk, dir->path, "size=512k");
}

static void on_a_read_only_disk(const char *dir)
{
	struct store_options opts = help_options();
	char db[160];
	size_t len;

	(void)snprintf(db, sizeof(db), "%s/state.db", dir);
	make(db, 3);
	AUTO_FREE char *before = help_slurp(db, &len);
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	help_refused(db, &opts, EROFS, "Read-only");
	help_same(db, before, len);
	assert_int_equal(mount("none", dir, NULL, MS_REMOUNT, NULL), 0);
	struct store *s = help_open(db);
	assert_int_equal(help_get(store_reader(s), "key1"), 1);
	s = store_free(s);
}

static void a_read_only_disk_is_named(void **state)
{
	struct help_dir *dir = *state;

	in_small_fs(on_a_read_only_disk, dir->path, "size=4m");
}

#define OPEN_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OPEN_TEST(is_private),
		OPEN_TEST(what_is_wrong_is_refused_and_left_alone),
		OPEN_TEST(a_refusal_leaves_the_log_alone),
		OPEN_TEST(only_a_plain_file_will_do),
		OPEN_TEST(one_process_at_a_time),
		OPEN_TEST(a_large_database_is_checked_when_it_may_be_damaged),
		OPEN_TEST(damage_met_at_work_is_remembered),
		OPEN_TEST(a_schema_moves_forward_step_by_step),
		OPEN_TEST(a_full_disk_is_named_and_got_over),
		OPEN_TEST(a_read_only_disk_is_named),
	};

	return cmocka_run_group_tests_name("store_open", tests, NULL, NULL);
}
