/* Session rows: who may change them, what is never reused, and what a list costs. */
#include "tests/unit/store_help.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "core/session.h"
#include "core/store/internal.h"
#include "core/store/query.h"

static struct session sample(int64_t serial, const char *name)
{
	return (struct session){
		.serial = serial,
		.name = (char *)(uintptr_t)name,
		.executor = (char *)(uintptr_t) "local",
		.executor_serial = 3,
		.uid = 1000,
		.gid = 4294967294U,
		.state = SESSION_PENDING,
		.boot_id = (char *)(uintptr_t) "boot-1",
		.claim_token = (char *)(uintptr_t) "token-1",
		.attempt = 1,
		.created_at_ns = 1700000000000000001,
		.log_quota_bytes = INT64_C(1) << 40,
		.origin_mount = UINT64_MAX,
		.origin_unique = (uint64_t)serial << 62 | (uint64_t)serial,
		.project_path = (char *)(uintptr_t) "/home/\xc3\xa9/p",
		.task_id = 12,
		.requirements = (char *)(uintptr_t) "{}",
		.spec = (char *)(uintptr_t) "{\"argv\":[\"/bin/true\"]}",
	};
}

static int insert(struct store_tx *tx, void *arg, struct error *err)
{
	return session_insert(tx, arg, err);
}

static void add(struct store *s, int64_t serial, const char *name)
{
	struct session row = sample(serial, name);
	struct error err;

	if (help_run(s, insert, &row, &err) != 0)
		fail_msg("%s", err.reason);
}

static void a_row_comes_back_as_it_went_in(void **state)
{
	struct help_dir *dir = *state;
	struct session row = sample(7, "s-aaaaaaaaaaaaaaaa");
	AUTO_SESSION struct session got = {0};
	AUTO_SESSION struct session named = {0};
	AUTO_SESSION struct session asked = {0};
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);

	row.error = (char *)(uintptr_t) "it's \"quoted\"";
	assert_int_equal(help_run(s, insert, &row, NULL), 0);
	assert_int_equal(session_get(tx, 7, &got, NULL), 0);
	assert_int_equal(got.serial, 7);
	assert_string_equal(got.name, row.name);
	assert_string_equal(got.executor, "local");
	assert_int_equal(got.executor_serial, 3);
	assert_int_equal(got.uid, 1000);
	assert_int_equal(got.gid, 4294967294U);
	assert_int_equal(got.state, SESSION_PENDING);
	assert_int_equal(got.cause, SESSION_CAUSE_NONE);
	assert_string_equal(got.handle_id, "");
	assert_string_equal(got.claim_token, "token-1");
	assert_int_equal(got.created_at_ns, row.created_at_ns);
	assert_int_equal(got.log_quota_bytes, row.log_quota_bytes);
	assert_true(got.origin_mount == UINT64_MAX);
	assert_true(got.origin_unique == row.origin_unique);
	assert_string_equal(got.project_path, row.project_path);
	assert_int_equal(got.task_id, 12);
	assert_string_equal(got.error, row.error);
	assert_string_equal(got.spec, row.spec);
	assert_int_equal(session_get_by_name(tx, row.name, &named, NULL), 0);
	assert_int_equal(named.serial, 7);
	assert_int_equal(session_get_by_origin(tx, UINT64_MAX, row.origin_unique, &asked, NULL), 0);
	assert_int_equal(asked.serial, 7);
	assert_true(store_tx_idle(tx));
}

static void what_is_absent_is_enoent_and_untouched(void **state)
{
	struct help_dir *dir = *state;
	struct session got = {.serial = 99};
	struct error err;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);

	assert_int_equal(session_get(tx, 1, &got, &err), -ENOENT);
	assert_int_equal(session_get_by_name(tx, "x\ny", &got, &err), -ENOENT);
	assert_null(strchr(err.reason, '\n'));
	assert_int_equal(session_get_by_origin(tx, 0, 0, &got, &err), -ENOENT);
	assert_int_equal(got.serial, 99);
	assert_true(store_tx_idle(tx));
}

static void keys_are_taken_once(void **state)
{
	static const struct {
		int64_t serial;
		const char *name;
		uint64_t unique;
		const char *field;
	} cases[] = {
		{2, "one", 2, "name"},
		{1, "two", 2, "serial"},
		{2, "two", 1, "origin"},
	};
	struct help_dir *dir = *state;
	struct error err;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct session row = sample(1, "one");

	row.origin_unique = 1;
	assert_int_equal(help_run(s, insert, &row, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		row = sample(cases[i].serial, cases[i].name);
		row.origin_unique = cases[i].unique;
		assert_int_equal(help_run(s, insert, &row, &err), -EEXIST);
		assert_string_equal(err.field, cases[i].field);
	}
	/* Sessions that no request asked for do not collide with each other. */
	for (int64_t serial = 10; serial < 13; serial++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "free%d", (int)serial);
		row = sample(serial, name);
		row.origin_unique = 0;
		assert_int_equal(help_run(s, insert, &row, NULL), 0);
	}
}

static int drop(struct store_tx *tx, void *arg, struct error *err)
{
	return session_delete(tx, *(int64_t *)arg, err);
}

static void a_serial_is_never_given_out_twice(void **state)
{
	struct help_dir *dir = *state;
	int64_t last = -1, two = 2;
	struct store *s = help_open(dir->db);

	assert_int_equal(session_last_serial(store_reader(s), &last, NULL), 0);
	assert_int_equal(last, 0);
	add(s, 1, "one");
	add(s, 2, "two");
	assert_int_equal(help_run(s, drop, &two, NULL), 0);
	assert_int_equal(help_run(s, drop, &two, NULL), -ENOENT);
	s = store_free(s);
	s = help_open(dir->db);
	assert_int_equal(session_last_serial(store_reader(s), &last, NULL), 0);
	assert_int_equal(last, 2);
	/* The name is free again. */
	add(s, 3, "two");
	s = store_free(s);
}

/* One change of a life, with its claim. */
struct step {
	enum { PLACE, RUN, FINISH, REQUEUE } what;
	const char *token;
	int expected;
	enum error_kind kind;
	enum session_state after;
};

static int take_step(struct store_tx *tx, void *arg, struct error *err)
{
	const struct step *step = arg;
	const struct session_running running = {.handle_id = "one.1",
						.pid = 77,
						.boot_id = "boot-1",
						.started_at_ns = 5,
						.deadline_ns = 9};
	const struct session_finished finished = {.state = SESSION_KILLED,
						  .cause = SESSION_CAUSE_SIGNAL,
						  .exit_code = -1,
						  .signal = 15,
						  .finished_at_ns = 8,
						  .error = "",
						  .log_bytes = 10,
						  .log_dropped_bytes = 2};
	const struct session_requeue requeue = {
		.new_token = "token-2", .executor = "", .boot_id = "boot-2", .error = "no room"};
	const struct session_placement placement = {
		.executor = "spare", .executor_serial = 4, .handle_id = "one.2", .boot_id = "boot-3"};

	switch (step->what) {
	case PLACE:
		return session_place(tx, 1, step->token, &placement, err);
	case RUN:
		return session_set_running(tx, 1, step->token, &running, err);
	case FINISH:
		return session_set_finished(tx, 1, step->token, &finished, err);
	default:
		return session_set_pending(tx, 1, step->token, &requeue, err);
	}
}

static const struct step life[] = {
	{RUN, "token-0", -ESTALE, ERROR_SESSION_CLAIM_LOST, SESSION_PENDING},
	{RUN, "token-1", 0, ERROR_KIND_NONE, SESSION_RUNNING},
	{PLACE, "token-1", -EALREADY, ERROR_KIND_NONE, SESSION_RUNNING},
	{RUN, "token-1", 0, ERROR_KIND_NONE, SESSION_RUNNING},
	{REQUEUE, "token-1", 0, ERROR_KIND_NONE, SESSION_PENDING},
	/* The second supervisor, the watcher of the first attempt: both come too late. */
	{REQUEUE, "token-1", -ESTALE, ERROR_SESSION_CLAIM_LOST, SESSION_PENDING},
	{FINISH, "token-1", -ESTALE, ERROR_SESSION_CLAIM_LOST, SESSION_PENDING},
	{PLACE, "token-1", -ESTALE, ERROR_SESSION_CLAIM_LOST, SESSION_PENDING},
	{PLACE, "token-2", 0, ERROR_KIND_NONE, SESSION_PENDING},
	{RUN, "token-2", 0, ERROR_KIND_NONE, SESSION_RUNNING},
	{FINISH, "token-2", 0, ERROR_KIND_NONE, SESSION_KILLED},
	{FINISH, "token-2", -EALREADY, ERROR_KIND_NONE, SESSION_KILLED},
	{RUN, "token-2", -EALREADY, ERROR_KIND_NONE, SESSION_KILLED},
	{REQUEUE, "token-2", -EALREADY, ERROR_KIND_NONE, SESSION_KILLED},
	{REQUEUE, "token-1", -ESTALE, ERROR_SESSION_CLAIM_LOST, SESSION_KILLED},
};

static void only_the_claim_changes_it(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct step gone = {RUN, "token-1", -ENOENT, ERROR_KIND_NONE, SESSION_PENDING};

	assert_int_equal(help_run(s, take_step, &gone, NULL), -ENOENT);
	add(s, 1, "one");
	for (size_t i = 0; i < ARRAY_SIZE(life); i++) {
		AUTO_SESSION struct session got = {0};
		struct step step = life[i];
		struct error err = {0};

		assert_int_equal(help_run(s, take_step, &step, &err), step.expected);
		assert_int_equal(err.kind, step.kind);
		assert_int_equal(session_get(store_reader(s), 1, &got, NULL), 0);
		assert_int_equal(got.state, step.after);
		if (step.what == REQUEUE && step.expected == 0) {
			assert_int_equal(got.attempt, 2);
			assert_string_equal(got.claim_token, "token-2");
			assert_string_equal(got.executor, "");
			assert_string_equal(got.handle_id, "");
			assert_string_equal(got.error, "no room");
			assert_string_equal(got.boot_id, "boot-2");
			assert_int_equal(got.pid, 0);
			assert_int_equal(got.started_at_ns, 0);
			assert_int_equal(got.deadline_ns, 0);
		}
	}
	AUTO_SESSION struct session got = {0};
	assert_int_equal(session_get(store_reader(s), 1, &got, NULL), 0);
	assert_string_equal(got.executor, "spare");
	assert_int_equal(got.executor_serial, 4);
	assert_string_equal(got.handle_id, "one.1"); /* as RUN says */
	assert_int_equal(got.cause, SESSION_CAUSE_SIGNAL);
	assert_int_equal(got.exit_code, -1);
	assert_int_equal(got.signal, 15);
	assert_int_equal(got.finished_at_ns, 8);
	assert_int_equal(got.log_bytes, 10);
	assert_int_equal(got.log_dropped_bytes, 2);
	assert_int_equal(got.attempt, 2);
}

/* Two supervisors ask at once: one batch, one winner. */
static void of_two_claims_one_wins(void **state)
{
	struct help_dir *dir = *state;
	struct step step = {REQUEUE, "token-1", 0, ERROR_KIND_NONE, SESSION_PENDING};
	struct help_op ops[2];
	int counter = 0;
	AUTO_STORE struct store *s = help_open(dir->db);
	AUTO_SESSION struct session got = {0};

	add(s, 1, "one");
	help_submit(s, &ops[0], take_step, &step, &counter);
	help_submit(s, &ops[1], take_step, &step, &counter);
	store_flush(s);
	assert_int_equal(ops[0].result, 0);
	assert_int_equal(ops[1].result, -ESTALE);
	assert_int_equal(ops[1].error.kind, ERROR_SESSION_CLAIM_LOST);
	assert_int_equal(session_get(store_reader(s), 1, &got, NULL), 0);
	assert_int_equal(got.attempt, 2);
}

static int finish_as(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session_finished finished = {.state = *(enum session_state *)arg};

	return session_set_finished(tx, 1, "token-1", &finished, err);
}

static void it_finishes_only_as_finished(void **state)
{
	static enum session_state states[] = {SESSION_PENDING, SESSION_RUNNING, SESSION_UNKNOWN};
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);

	add(s, 1, "one");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		assert_int_equal(help_run(s, finish_as, &states[i], NULL), -EINVAL);
	states[0] = SESSION_EXITED;
	assert_int_equal(help_run(s, finish_as, &states[0], NULL), 0);
}

static int set_error(struct store_tx *tx, void *arg, struct error *err)
{
	return session_set_error(tx, *(int64_t *)arg, "waits for an executor", err);
}

static void its_error_can_be_told(void **state)
{
	struct help_dir *dir = *state;
	int64_t one = 1, two = 2;
	AUTO_STORE struct store *s = help_open(dir->db);
	AUTO_SESSION struct session got = {0};

	add(s, 1, "one");
	assert_int_equal(help_run(s, set_error, &one, NULL), 0);
	assert_int_equal(help_run(s, set_error, &two, NULL), -ENOENT);
	assert_int_equal(session_get(store_reader(s), 1, &got, NULL), 0);
	assert_string_equal(got.error, "waits for an executor");
}

#define ROWS 100

static int insert_rows(struct store_tx *tx, void *arg, struct error *err)
{
	(void)arg;
	for (int i = 1; i <= ROWS; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "row%d", ROWS - i);
		struct session row = sample(i * 2, name);
		row.origin_unique = 0;
		row.executor_serial = i % 3 + 1;
		row.state = i % 10 == 0   ? SESSION_RUNNING
			    : i % 10 == 1 ? SESSION_PENDING
			    : i % 10 == 2 ? SESSION_UNKNOWN
					  : SESSION_EXITED;
		row.finished_at_ns = session_state_finished(row.state) ? ROWS - i : 0;
		int r = session_insert(tx, &row, err);
		if (r < 0)
			return r;
	}
	return 0;
}

struct seen {
	int64_t serials[ROWS];
	int n;
	int stop_at;
};

static bool see(void *user, int64_t serial, const char *name)
{
	struct seen *seen = user;

	assert_true(strncmp(name, "row", 3) == 0);
	seen->serials[seen->n++] = serial;
	return seen->n != seen->stop_at;
}

static void lists_come_in_pages_and_order(void **state)
{
	struct help_dir *dir = *state;
	struct seen seen = {0};
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);
	int64_t after = 0, n = 0;
	int r;

	assert_int_equal(help_run(s, insert_rows, NULL, NULL), 0);
	while ((r = session_list_page(tx, after, 7, see, &seen, NULL)) > 0)
		after = seen.serials[seen.n - 1];
	assert_int_equal(r, 0);
	assert_int_equal(seen.n, ROWS);
	for (int i = 0; i < ROWS; i++)
		assert_int_equal(seen.serials[i], (i + 1) * 2);
	assert_true(store_tx_idle(tx));

	/* Enough in the middle of a page leaves no statement open. */
	seen = (struct seen){.stop_at = 3};
	assert_int_equal(session_list_page(tx, 3, 50, see, &seen, NULL), 3);
	assert_int_equal(seen.serials[0], 4);
	assert_true(store_tx_idle(tx));

	/* Retention: the one that ended first comes first. */
	seen = (struct seen){0};
	assert_int_equal(session_list_finished(tx, 50, 5, see, &seen, NULL), 5);
	assert_int_equal(seen.serials[0], 2 * (ROWS - 1));
	assert_true(seen.serials[0] > seen.serials[4]);

	AUTO_SESSION_LIST struct session_list live = {0};
	assert_int_equal(session_list_live(tx, &live, NULL), 0);
	assert_int_equal(live.n, ROWS / 5);
	for (size_t i = 0; i < live.n; i++) {
		assert_true(session_state_live(live.rows[i].state));
		assert_true(i == 0 || live.rows[i].serial > live.rows[i - 1].serial);
	}
	assert_int_equal(session_count_live(tx, 0, &n, NULL), 0);
	assert_int_equal(n, ROWS / 5);
	int64_t sum = 0;
	for (int64_t executor = 1; executor <= 3; executor++) {
		assert_int_equal(session_count_live(tx, executor, &n, NULL), 0);
		sum += n;
	}
	assert_int_equal(sum, ROWS / 5);
	assert_int_equal(session_count_live(tx, 4, &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(session_count(tx, &n, NULL), 0);
	assert_int_equal(n, ROWS);
	assert_true(store_tx_idle(tx));
}

/* With a million rows these must not scan, sort or touch a spec. */
static void lists_are_read_from_an_index(void **state)
{
	struct help_dir *dir = *state;
	struct seen seen = {0};
	int64_t n;
	AUTO_STORE struct store *s = help_open(dir->db);
	AUTO_SESSION_LIST struct session_list live = {0};
	struct store_tx *tx = store_reader(s);

	/* The statements as the module prepared them. */
	assert_int_equal(session_list_page(tx, 0, 7, see, &seen, NULL), 0);
	assert_int_equal(session_list_finished(tx, 50, 5, see, &seen, NULL), 0);
	assert_int_equal(session_list_live(tx, &live, NULL), 0);
	assert_int_equal(session_count_live(tx, 0, &n, NULL), 0);
	assert_int_equal(session_count_live(tx, 3, &n, NULL), 0);
	assert_int_equal(session_count(tx, &n, NULL), 0);
	assert_int_equal(tx->n_kept, 6);
	for (size_t i = 0; i < tx->n_kept; i++) {
		AUTO_FREE char *sql = NULL;
		AUTO_STMT sqlite3_stmt *plan = NULL;
		bool whole_rows = strstr(tx->kept[i].sql, "spec") != NULL;

		assert_true(asprintf(&sql, "EXPLAIN QUERY PLAN %s", tx->kept[i].sql) > 0);
		assert_int_equal(sqlite3_prepare_v2(tx->db, sql, -1, &plan, NULL), SQLITE_OK);
		while (sqlite3_step(plan) == SQLITE_ROW) {
			const char *detail = (const char *)sqlite3_column_text(plan, 3);

			print_message("# %s\n", detail);
			if (!whole_rows) {
				assert_non_null(strstr(detail, "USING COVERING INDEX"));
				assert_null(strstr(detail, "TEMP B-TREE"));
			}
		}
	}
}

static int insert_large(struct store_tx *tx, void *arg, struct error *err)
{
	struct session row = sample(1, "large");

	row.spec = arg;
	return session_insert(tx, &row, err);
}

static void a_row_has_a_maximum(void **state)
{
	struct help_dir *dir = *state;
	struct error err;
	AUTO_STORE struct store *s = help_open(dir->db);
	AUTO_FREE char *spec = malloc(STORE_ROW_MAX + 1);

	assert_non_null(spec);
	memset(spec, 'x', STORE_ROW_MAX);
	spec[STORE_ROW_MAX] = '\0';
	assert_int_equal(help_run(s, insert_large, spec, &err), -EFBIG);
	spec[3 << 20] = '\0';
	assert_int_equal(help_run(s, insert_large, spec, NULL), 0);
}

#define SESSION_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(a_row_comes_back_as_it_went_in),
		SESSION_TEST(what_is_absent_is_enoent_and_untouched),
		SESSION_TEST(keys_are_taken_once),
		SESSION_TEST(a_serial_is_never_given_out_twice),
		SESSION_TEST(only_the_claim_changes_it),
		SESSION_TEST(of_two_claims_one_wins),
		SESSION_TEST(it_finishes_only_as_finished),
		SESSION_TEST(its_error_can_be_told),
		SESSION_TEST(lists_come_in_pages_and_order),
		SESSION_TEST(lists_are_read_from_an_index),
		SESSION_TEST(a_row_has_a_maximum),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
