/* Executors, handles, the journal and meta: what each promises to those who call it. */
#include "tests/unit/store_help.h"

#include <stdio.h>
#include <string.h>

#include "core/executor_record.h"
#include "core/handle_row.h"
#include "core/store/internal.h"
#include "core/store/journal.h"
#include "core/store/meta.h"
#include "core/store/query.h"

#define TEXT(s) ((char *)(uintptr_t)(s))

static struct executor_record executor(int64_t serial, const char *name)
{
	return (struct executor_record){
		.serial = serial,
		.name = TEXT(name),
		.kind = TEXT("localprocess"),
		.config = TEXT("{\"kind\":\"localprocess\"}"),
		.source = EXECUTOR_SOURCE_MKDIR,
		.created_at_ns = 11,
		.changed_at_ns = 12,
	};
}

static int executor_insert(struct store_tx *tx, void *arg, struct error *err)
{
	return executor_record_insert(tx, arg, err);
}

static int executor_seed(struct store_tx *tx, void *arg, struct error *err)
{
	return executor_record_seed(tx, arg, err);
}

static int executor_drop(struct store_tx *tx, void *arg, struct error *err)
{
	return executor_record_delete(tx, *(int64_t *)arg, err);
}

static int executor_configure(struct store_tx *tx, void *arg, struct error *err)
{
	return executor_record_set_config(tx, *(int64_t *)arg, "container", "{}", 20, err);
}

static int executor_config_fails(struct store_tx *tx, void *arg, struct error *err)
{
	return executor_record_set_config_error(tx, *(int64_t *)arg, "unknown key \"x\"", err);
}

static int executor_health(struct store_tx *tx, void *arg, struct error *err)
{
	const struct executor_record_health health = {.state = TEXT("degraded"),
						      .reason = TEXT("timeout"),
						      .consecutive_failures = 2,
						      .last_seen_ns = 1,
						      .last_probe_ns = 2,
						      .state_changed_at_ns = 3};

	return executor_record_set_health(tx, *(int64_t *)arg, &health, err);
}

static int executor_bad_health(struct store_tx *tx, void *arg, struct error *err)
{
	const struct executor_record_health health = {.state = TEXT("fine")};

	return executor_record_set_health(tx, *(int64_t *)arg, &health, err);
}

static void an_executor_row_changes_by_serial(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);
	struct executor_record row = executor(1, "gpu-1");
	int64_t one = 1, two = 2;
	struct error err;

	assert_int_equal(help_run(s, executor_insert, &row, NULL), 0);
	row.serial = 2;
	assert_int_equal(help_run(s, executor_insert, &row, &err), -EEXIST);
	assert_int_equal(err.kind, ERROR_ALREADY_REGISTERED);

	assert_int_equal(help_run(s, executor_config_fails, &one, NULL), 0);
	AUTO_EXECUTOR_RECORD struct executor_record got = {0};
	assert_int_equal(executor_record_get(tx, 1, &got, NULL), 0);
	assert_string_equal(got.config_error, "unknown key \"x\"");
	assert_string_equal(got.health.state, "");
	executor_record_clear(&got);

	assert_int_equal(help_run(s, executor_configure, &one, NULL), 0);
	assert_int_equal(help_run(s, executor_health, &one, NULL), 0);
	assert_int_equal(help_run(s, executor_bad_health, &one, NULL), -EINVAL);
	assert_int_equal(executor_record_get_by_name(tx, "gpu-1", &got, NULL), 0);
	assert_int_equal(got.serial, 1);
	assert_string_equal(got.kind, "container");
	assert_string_equal(got.config, "{}");
	assert_string_equal(got.config_error, "");
	assert_int_equal(got.source, EXECUTOR_SOURCE_MKDIR);
	assert_int_equal(got.changed_at_ns, 20);
	assert_string_equal(got.health.state, "degraded");
	assert_string_equal(got.health.reason, "timeout");
	assert_int_equal(got.health.consecutive_failures, 2);
	assert_int_equal(got.health.last_probe_ns, 2);

	static help_apply *const changes[] = {executor_drop, executor_configure,
					      executor_config_fails, executor_health};
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		assert_int_equal(help_run(s, changes[i], &two, &err), -ENOENT);
		assert_int_equal(err.kind, ERROR_EXECUTOR_NOT_FOUND);
	}
	assert_int_equal(executor_record_get(tx, 2, &got, &err), -ENOENT);
	assert_int_equal(err.kind, ERROR_EXECUTOR_NOT_FOUND);
	assert_int_equal(executor_record_get_by_name(tx, "gpu-2", &got, &err), -ENOENT);
	assert_int_equal(err.kind, ERROR_EXECUTOR_NOT_FOUND);
}

static void a_name_that_comes_again_is_another_executor(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct executor_record row = executor(1, "b");
	struct executor_record other = executor(2, "a");
	int64_t last = 0, one = 1, two = 2;
	AUTO_EXECUTOR_RECORD_LIST struct executor_record_list list = {0};

	assert_int_equal(help_run(s, executor_insert, &row, NULL), 0);
	assert_int_equal(help_run(s, executor_insert, &other, NULL), 0);
	assert_int_equal(executor_record_list(store_reader(s), &list, NULL), 0);
	assert_int_equal(list.n, 2);
	assert_string_equal(list.rows[0].name, "a");
	assert_int_equal(help_run(s, executor_drop, &two, NULL), 0);
	assert_int_equal(help_run(s, executor_drop, &one, NULL), 0);
	assert_int_equal(executor_record_last_serial(store_reader(s), &last, NULL), 0);
	assert_int_equal(last, 2);
}

static void a_removed_builtin_stays_removed(void **state)
{
	struct help_dir *dir = *state;
	struct executor_record row = executor(1, "local");
	int64_t one = 1;
	struct store *s = help_open(dir->db);

	row.source = EXECUTOR_SOURCE_BUILTIN;
	assert_int_equal(help_run(s, executor_seed, &row, NULL), 1);
	assert_int_equal(help_run(s, executor_seed, &row, NULL), 0);
	assert_int_equal(help_run(s, executor_drop, &one, NULL), 0);
	s = store_free(s);
	s = help_open(dir->db);
	row.serial = 2;
	assert_int_equal(help_run(s, executor_seed, &row, NULL), 0);
	AUTO_EXECUTOR_RECORD_LIST struct executor_record_list list = {0};
	assert_int_equal(executor_record_list(store_reader(s), &list, NULL), 0);
	assert_int_equal(list.n, 0);
	s = store_free(s);
}

static int handle_put(struct store_tx *tx, void *arg, struct error *err)
{
	return handle_row_put(tx, arg, err);
}

static int handle_drop(struct store_tx *tx, void *arg, struct error *err)
{
	return handle_row_delete(tx, arg, err);
}

static void a_handle_needs_its_identity(void **state)
{
	static const struct {
		const char *handle, *executor, *external, *field;
	} cases[] = {
		{"h", "e", "x", NULL},         {"", "e", "x", "handle_id"},
		{NULL, "e", "x", "handle_id"}, {" \t\n", "e", "x", "handle_id"},
		{"h", "", "x", "executor_id"}, {"h", "\xc2\xa0", "x", "executor_id"},
		{"h", "e", "", "external_id"}, {"h", "e", " ", "external_id"},
		{"", "", "", "handle_id"},
	};
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct handle_row row = {.handle_id = TEXT(cases[i].handle),
					    .executor_id = TEXT(cases[i].executor),
					    .external_id = TEXT(cases[i].external)};
		struct error err = {0};

		assert_int_equal(help_run(s, handle_put, &row, &err), cases[i].field ? -EINVAL : 0);
		assert_string_equal(err.field, cases[i].field ? cases[i].field : "");
	}
	AUTO_HANDLE_ROW_LIST struct handle_row_list list = {0};
	assert_int_equal(handle_row_list(store_reader(s), "", &list, NULL), 0);
	assert_int_equal(list.n, 1);
	/* Nobody wrote down what it holds: not the same as nothing. */
	assert_string_equal(list.rows[0].secrets, "");
}

static void handles_are_put_listed_and_forgotten(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);
	struct handle_row row = {.handle_id = TEXT("one.1"),
				    .executor_id = TEXT("local"),
				    .driver = TEXT("localprocess"),
				    .external_id = TEXT("4711"),
				    .project_path = TEXT("/p"),
				    .task_id = 5,
				    .pid = 4711,
				    .image = TEXT("img"),
				    .started_at_ns = 30,
				    .deadline_ns = 90,
				    .meta = TEXT("{\"net\":\"n\"}"),
				    .secrets = TEXT("[]")};

	assert_int_equal(help_run(s, handle_put, &row, NULL), 0);
	row.handle_id = TEXT("two.1");
	row.started_at_ns = 10;
	row.secrets = TEXT("[{\"lease_id\":\"l\"}]");
	assert_int_equal(help_run(s, handle_put, &row, NULL), 0);
	row.handle_id = TEXT("three.1");
	row.executor_id = TEXT("pod");
	row.started_at_ns = 20;
	assert_int_equal(help_run(s, handle_put, &row, NULL), 0);
	/* Put again replaces the whole row. */
	row.external_id = TEXT("ns/pod");
	row.pid = 0;
	assert_int_equal(help_run(s, handle_put, &row, NULL), 0);

	AUTO_HANDLE_ROW_LIST struct handle_row_list all = {0};
	assert_int_equal(handle_row_list(tx, "", &all, NULL), 0);
	assert_int_equal(all.n, 3);
	assert_string_equal(all.rows[0].handle_id, "two.1");
	assert_string_equal(all.rows[1].handle_id, "three.1");
	assert_string_equal(all.rows[1].external_id, "ns/pod");
	assert_int_equal(all.rows[1].pid, 0);
	assert_string_equal(all.rows[2].handle_id, "one.1");
	assert_string_equal(all.rows[2].secrets, "[]");
	assert_string_equal(all.rows[2].meta, "{\"net\":\"n\"}");
	assert_int_equal(all.rows[2].task_id, 5);
	assert_int_equal(all.rows[2].deadline_ns, 90);

	AUTO_HANDLE_ROW_LIST struct handle_row_list own = {0};
	assert_int_equal(handle_row_list(tx, "local", &own, NULL), 0);
	assert_int_equal(own.n, 2);
	assert_string_equal(own.rows[0].handle_id, "two.1");

	assert_int_equal(help_run(s, handle_drop, TEXT("two.1"), NULL), 0);
	assert_int_equal(help_run(s, handle_drop, TEXT("two.1"), NULL), 0);
	handle_row_list_clear(&own);
	assert_int_equal(handle_row_list(tx, "local", &own, NULL), 0);
	assert_int_equal(own.n, 1);
	assert_true(store_tx_idle(tx));
}

static int journal_add(struct store_tx *tx, void *arg, struct error *err)
{
	return journal_insert(tx, arg, err);
}

static int journal_drop(struct store_tx *tx, void *arg, struct error *err)
{
	static const uint64_t uniques[] = {2, 999, UINT64_MAX >> 1};

	return journal_delete(tx, *(uint64_t *)arg, uniques, ARRAY_SIZE(uniques), err);
}

static int journal_purge_others(struct store_tx *tx, void *arg, struct error *err)
{
	return journal_purge(tx, *(uint64_t *)arg, err);
}

static int journal_keep_one(struct store_tx *tx, void *arg, struct error *err)
{
	/* As they stand in the list of what is unanswered: 5 is, and 601 was never committed. */
	static const uint64_t uniques[] = {5 | UINT64_C(1) << 63, 601};

	return journal_keep(tx, *(uint64_t *)arg, uniques, ARRAY_SIZE(uniques), err);
}

static void what_somebody_else_answered_is_dropped(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	uint64_t mount = 3, other = 4;
	struct journal_entry row = {.mount_id = mount, .op = 16}, got;

	for (row.unique = 1; row.unique <= 600; row.unique++)
		assert_int_equal(help_run(s, journal_add, &row, NULL), 0);
	row = (struct journal_entry){.mount_id = other, .unique = 1};
	assert_int_equal(help_run(s, journal_add, &row, NULL), 0);

	assert_int_equal(help_run(s, journal_keep_one, &mount, NULL), 599);
	assert_int_equal(journal_get(store_reader(s), mount, 5, &got, NULL), 0);
	journal_entry_clear(&got);
	assert_int_equal(journal_get(store_reader(s), mount, 601, &got, NULL), -ENOENT);
	assert_int_equal(journal_get(store_reader(s), other, 1, &got, NULL), 0);
	journal_entry_clear(&got);
	assert_int_equal(help_run(s, journal_keep_one, &mount, NULL), 0);
}

static void an_answer_is_recorded_once(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);
	uint64_t mount = UINT64_MAX - 5, other = 7;
	struct journal_entry row = {.mount_id = mount,
				    .unique = 2,
				    .op = 16,
				    .node = UINT64_MAX,
				    .code = 13,
				    .answer = TEXT("{}")};
	struct journal_entry got = {.op = 99};
	struct error err;

	assert_int_equal(journal_get(tx, mount, 2, &got, &err), -ENOENT);
	assert_int_equal(got.op, 99);
	assert_int_equal(help_run(s, journal_add, &row, NULL), 0);
	assert_int_equal(help_run(s, journal_add, &row, NULL), -EEXIST);
	assert_int_equal(journal_get(tx, mount, 2, &got, NULL), 0);
	assert_true(got.mount_id == mount && got.unique == 2 && got.node == UINT64_MAX);
	assert_int_equal(got.op, 16);
	assert_int_equal(got.code, 13);
	assert_string_equal(got.answer, "{}");
	journal_entry_clear(&got);

	row.unique = UINT64_MAX >> 1;
	row.answer = NULL;
	assert_int_equal(help_run(s, journal_add, &row, NULL), 0);
	assert_int_equal(journal_get(tx, mount, row.unique, &got, NULL), 0);
	assert_string_equal(got.answer, "");
	journal_entry_clear(&got);

	/* The same number on another mount is another request. */
	row.mount_id = other;
	row.unique = 2;
	assert_int_equal(help_run(s, journal_add, &row, NULL), 0);
	assert_int_equal(help_run(s, journal_drop, &mount, NULL), 0);
	assert_int_equal(help_run(s, journal_drop, &mount, NULL), 0);
	assert_int_equal(journal_get(tx, mount, 2, &got, NULL), -ENOENT);
	assert_int_equal(journal_get(tx, other, 2, &got, NULL), 0);
	journal_entry_clear(&got);
	assert_int_equal(help_run(s, journal_purge_others, &mount, NULL), 1);
	assert_int_equal(journal_get(tx, other, 2, &got, NULL), -ENOENT);
}

/* The change and its record are one: neither without the other. */
static int change_and_record(struct store_tx *tx, void *arg, struct error *err)
{
	int r = meta_set_text(tx, META_DEFAULT_EXECUTOR, "local", err);

	return r < 0 ? r : journal_insert(tx, arg, err);
}

static void a_replayed_change_is_not_made_again(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct journal_entry row = {.mount_id = 1, .unique = 2};
	struct help_op ops[2];
	int counter = 0;
	AUTO_FREE char *text = NULL;

	assert_int_equal(meta_get_text(store_reader(s), META_DEFAULT_EXECUTOR, &text, NULL),
			 -ENOENT);
	help_submit(s, &ops[0], change_and_record, &row, &counter);
	help_submit(s, &ops[1], change_and_record, &row, &counter);
	store_flush(s);
	assert_int_equal(ops[0].result, 0);
	assert_int_equal(ops[1].result, -EEXIST);
	assert_int_equal(meta_get_text(store_reader(s), META_DEFAULT_EXECUTOR, &text, NULL), 0);
	assert_string_equal(text, "local");
}

static int meta_drop(struct store_tx *tx, void *arg, struct error *err)
{
	return meta_delete(tx, arg, err);
}

static void meta_keeps_numbers_and_texts(void **state)
{
	static const int64_t numbers[] = {0, -1, INT64_MAX, INT64_MIN};
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int64_t got = 5;

		assert_int_equal(help_run(s, help_set, &(struct help_pair){"n", numbers[i]}, NULL),
				 0);
		assert_int_equal(meta_get_int(store_reader(s), "n", &got, NULL), 0);
		assert_int_equal(got, numbers[i]);
	}
	assert_int_equal(help_run(s, meta_drop, TEXT("n"), NULL), 0);
	assert_int_equal(help_run(s, meta_drop, TEXT("n"), NULL), 0);
	assert_int_equal(help_get(store_reader(s), "n"), -1);
}

/* One statement inside its own rows, and many more than are kept. */
static void statements_nest_and_run_out(void **state)
{
	static const char sql[] = "SELECT value FROM meta WHERE key >= ? ORDER BY key";
	static char many[STORE_STATEMENTS_MAX + 10][40];
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);

	assert_int_equal(help_run(s, help_set, &(struct help_pair){"a", 1}, NULL), 0);
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"b", 2}, NULL), 0);
	{
		AUTO_QUERY struct store_query outer = {0};
		AUTO_QUERY struct store_query inner = {0};

		assert_int_equal(store_query_begin(&outer, tx, sql, NULL), 0);
		store_query_text(&outer, "");
		assert_int_equal(store_query_next(&outer, NULL), 1);
		assert_int_equal(store_query_begin(&inner, tx, sql, NULL), 0);
		store_query_text(&inner, "b");
		assert_int_equal(store_query_next(&inner, NULL), 1);
		assert_int_equal(store_query_column_int(&inner, 0), 2);
		assert_int_equal(store_query_column_int(&outer, 0), 1);
		assert_int_equal(store_query_next(&outer, NULL), 1);
		assert_false(store_tx_idle(tx));
	}
	assert_true(store_tx_idle(tx));
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		AUTO_QUERY struct store_query q = {0};
		int64_t value = 0;

		(void)snprintf(many[i], sizeof(many[i]), "SELECT %zu", i);
		assert_int_equal(store_query_begin(&q, tx, many[i], NULL), 0);
		assert_int_equal(store_query_scalar(&q, &value, NULL), 0);
		assert_int_equal(value, i);
	}
	assert_true(store_tx_idle(tx));
}

static void the_reader_cannot_write(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct error err;

	assert_int_equal(meta_set_int(store_reader(s), "a", 1, &err), -EROFS);
	assert_int_equal(help_get(store_reader(s), "a"), -1);
}

#define RECORD_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORD_TEST(an_executor_row_changes_by_serial),
		RECORD_TEST(a_name_that_comes_again_is_another_executor),
		RECORD_TEST(a_removed_builtin_stays_removed),
		RECORD_TEST(a_handle_needs_its_identity),
		RECORD_TEST(handles_are_put_listed_and_forgotten),
		RECORD_TEST(an_answer_is_recorded_once),
		RECORD_TEST(what_somebody_else_answered_is_dropped),
		RECORD_TEST(a_replayed_change_is_not_made_again),
		RECORD_TEST(meta_keeps_numbers_and_texts),
		RECORD_TEST(statements_nest_and_run_out),
		RECORD_TEST(the_reader_cannot_write),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
