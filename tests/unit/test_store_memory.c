/*
 * Each allocation fails in turn, SQLite's and our own: a refusal, never a crash, never a half.
 *
 * Our own are caught by the linker (--wrap), SQLite's by its configuration.
 */
#include "tests/unit/store_help.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/executor_record.h"
#include "core/handle_row.h"
#include "core/session.h"
#include "core/store/event.h"
#include "core/store/internal.h"
#include "core/store/journal.h"
#include "core/store/meta.h"
#include "core/store/query.h"

/* Counts down to the failure; negative: none is planned. Both threads of a store allocate. */
static atomic_int countdown = -1;
static atomic_bool lasting; /* all that come after fail, too */
static atomic_bool fired;

static bool fails(void)
{
	int left = atomic_load(&countdown);

	if (left < 0)
		return false;
	if (left > 0) {
		atomic_fetch_sub(&countdown, 1);
		return false;
	}
	atomic_store(&fired, true);
	if (!atomic_load(&lasting))
		atomic_store(&countdown, -1);
	return true;
}

static void plan(int nth, bool all_after)
{
	atomic_store(&fired, false);
	atomic_store(&lasting, all_after);
	atomic_store(&countdown, nth);
}

/* Ends the plan; whether it was met. */
static bool plan_end(void)
{
	atomic_store(&countdown, -1);
	return atomic_load(&fired);
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return fails() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

static sqlite3_mem_methods real_mem;

static void *mem_malloc(int n)
{
	return fails() ? NULL : real_mem.xMalloc(n);
}

static void *mem_realloc(void *p, int n)
{
	return fails() ? NULL : real_mem.xRealloc(p, n);
}

static int install(void **state)
{
	sqlite3_mem_methods mem;

	(void)state;
	assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_mem), SQLITE_OK);
	mem = real_mem;
	mem.xMalloc = mem_malloc;
	mem.xRealloc = mem_realloc;
	assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &mem), SQLITE_OK);
	return 0;
}

/* More allocations than any of the cases makes. */
#define ALLOCATIONS_MAX 20000

/* Every one of the first, and then a sample: they go on like this, one SQL statement after another.
 */
static int next_nth(int nth)
{
	return nth < 400 ? nth + 1 : nth + 13;
}

static void opening_is_refused_or_works(void **state)
{
	struct help_dir *dir = *state;
	bool met = true;
	int refused = 0;

	for (int nth = 0; met; nth = next_nth(nth)) {
		struct store_options opts = help_options();
		struct store *s = NULL;
		struct error err = {0};

		assert_in_range(nth, 0, ALLOCATIONS_MAX);
		plan(nth, false);
		int r = store_open(dir->db, &opts, &s, &err);
		met = plan_end();
		if (r < 0) {
			/* Which of the file's parts could not be read does not matter. */
			if (r != -ENOMEM)
				fail_msg("%s", err.reason);
			assert_null(s);
			refused++;
		}
		s = store_free(s);
		/* Each of the first ones met a new file, all others one that was opened before. */
		if (nth == 40) {
			s = help_open(dir->db);
			assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL),
					 0);
			s = store_free(s);
		}
	}
	print_message("# %d refusals\n", refused);
	assert_true(refused > 100);
	struct store *s = help_open(dir->db);
	assert_int_equal(help_get(store_reader(s), "a"), 1);
	s = store_free(s);
}

static int apply_all(struct store_tx *tx, void *arg, struct error *err)
{
	int64_t n = *(int64_t *)arg;
	char name[24];

	(void)snprintf(name, sizeof(name), "s%d", (int)n);
	struct session session = {
		.serial = n, .name = name, .claim_token = name, .origin_unique = (uint64_t)n};
	struct executor_record executor = {
		.serial = n, .name = name, .source = EXECUTOR_SOURCE_FILE};
	struct handle_row handle = {.handle_id = name, .executor_id = name, .external_id = name};
	struct journal_entry entry = {.mount_id = 1, .unique = (uint64_t)n};
	const struct session_requeue requeue = {.new_token = "x"};
	int r = session_insert(tx, &session, err);

	if (r == 0)
		r = executor_record_insert(tx, &executor, err);
	if (r == 0)
		r = handle_row_put(tx, &handle, err);
	if (r == 0)
		r = journal_insert(tx, &entry, err);
	if (r == 0)
		r = session_set_pending(tx, n, name, &requeue, err);
	if (r == 0)
		r = meta_set_int(tx, "last", n, err);
	if (r == 0)
		r = event_append(tx, n, "{\"type\":\"x\"}", NULL, err);
	return r;
}

/* Whether all of the parts of one apply_all() are there; none of them must be there alone. */
static bool all_there(struct store *s, int64_t n)
{
	struct store_tx *tx = store_reader(s);
	struct session session = {0};
	struct executor_record executor = {0};
	struct journal_entry entry = {0};
	bool there = session_get(tx, n, &session, NULL) == 0;

	assert_int_equal(executor_record_get(tx, n, &executor, NULL) == 0, there);
	assert_int_equal(journal_get(tx, 1, (uint64_t)n, &entry, NULL) == 0, there);
	assert_int_equal(help_get(tx, "last") == n, there);
	if (there)
		assert_string_equal(session.claim_token, "x");
	session_clear(&session);
	executor_record_clear(&executor);
	journal_entry_clear(&entry);
	return there;
}

/* One line for each number, each where the one before ends. */
static void events_are_whole(const char *db, int64_t n)
{
	AUTO_STORE struct store *s = help_open(db);
	int64_t size, seq = 0;
	size_t len;

	assert_int_equal(event_size(store_reader(s), &size, NULL), 0);
	AUTO_FREE char *text = calloc(1, (size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(event_read(store_reader(s), 0, text, (size_t)size, &len, NULL), 0);
	assert_int_equal(len, size);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		int64_t got = 0;

		assert_int_equal(sscanf(line, "{\"seq\":%" SCNd64 ",", &got), 1);
		assert_int_equal(got, ++seq);
	}
	assert_int_equal(seq, n);
}

static void a_change_is_whole_or_refused(void **state)
{
	struct help_dir *dir = *state;
	bool met = true;
	int refused = 0;
	int64_t n = 1;

	for (int nth = 0; met; nth = next_nth(nth), n++) {
		/* A new store each time: statements are prepared, pages read. */
		struct store *s = help_open(dir->db);
		struct error err;

		assert_in_range(nth, 0, ALLOCATIONS_MAX);
		plan(nth, nth % 2);
		int r = help_run(s, apply_all, &n, &err);
		met = plan_end();
		assert_true(r == 0 || r == -ENOMEM);
		assert_int_equal(all_there(s, n), r == 0);
		refused += r < 0;
		/* It is over when it is over. */
		if (r < 0 && help_run(s, apply_all, &n, &err) != 0)
			fail_msg("after failure %d: %s", nth, err.reason);
		s = store_free(s);
	}
	print_message("# %d refusals\n", refused);
	assert_true(refused > 50);
	events_are_whole(dir->db, n - 1);
}

static bool see(void *user, int64_t serial, const char *name)
{
	(void)user;
	return serial > 0 && name;
}

/* Every way to read; each must refuse with ENOMEM or be right. */
static int read_all(struct store_tx *tx, int64_t n)
{
	AUTO_SESSION struct session session = {0};
	AUTO_SESSION_LIST struct session_list sessions = {0};
	AUTO_EXECUTOR_RECORD struct executor_record executor = {0};
	AUTO_EXECUTOR_RECORD_LIST struct executor_record_list executors = {0};
	AUTO_HANDLE_ROW_LIST struct handle_row_list handles = {0};
	struct journal_entry entry = {0};
	AUTO_FREE char *text = NULL;
	int64_t number;
	char buf[100];
	size_t len;
	int r = session_get(tx, n, &session, NULL);

	if (r == 0)
		r = session_list_live(tx, &sessions, NULL);
	if (r == 0) {
		r = session_list_page(tx, 0, 100, see, NULL, NULL);
		assert_true(r == n || r == -ENOMEM);
		r = r < 0 ? r : 0;
	}
	if (r == 0)
		r = session_count_live(tx, 0, &number, NULL);
	if (r == 0)
		r = executor_record_get(tx, n, &executor, NULL);
	if (r == 0)
		r = executor_record_list(tx, &executors, NULL);
	if (r == 0)
		r = handle_row_list(tx, "", &handles, NULL);
	if (r == 0)
		r = journal_get(tx, 1, (uint64_t)n, &entry, NULL);
	journal_entry_clear(&entry);
	if (r == 0)
		r = meta_get_text(tx, "last", &text, NULL);
	if (r == 0)
		r = event_read(tx, 10, buf, sizeof(buf), &len, NULL);
	if (r == 0) {
		assert_int_equal(session.state, SESSION_PENDING);
		assert_int_equal(executor.source, EXECUTOR_SOURCE_FILE);
		assert_int_equal(sessions.n, n);
		assert_int_equal(executors.n, n);
		assert_int_equal(handles.n, n);
		assert_int_equal(len, sizeof(buf));
	}
	assert_true(store_tx_idle(tx));
	return r;
}

static void a_read_is_right_or_refused(void **state)
{
	struct help_dir *dir = *state;
	struct store *s = help_open(dir->db);
	bool met = true;
	int refused = 0;
	int64_t rows = 20;

	for (int64_t n = 1; n <= rows; n++)
		assert_int_equal(help_run(s, apply_all, &n, NULL), 0);
	s = store_free(s);
	for (int nth = 0; met; nth = next_nth(nth)) {
		s = help_open(dir->db);
		assert_in_range(nth, 0, ALLOCATIONS_MAX);
		plan(nth, nth % 2);
		int r = read_all(store_reader(s), rows);
		met = plan_end();
		assert_true(r == 0 || r == -ENOMEM);
		refused += r < 0;
		assert_int_equal(read_all(store_reader(s), rows), 0);
		s = store_free(s);
	}
	print_message("# %d refusals\n", refused);
	assert_true(refused > 50);
}

#define MEMORY_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MEMORY_TEST(opening_is_refused_or_works),
		MEMORY_TEST(a_change_is_whole_or_refused),
		MEMORY_TEST(a_read_is_right_or_refused),
	};

	return cmocka_run_group_tests_name("store_memory", tests, install, NULL);
}
