/* Attempt rows: there from the start, late ends that change nothing else, and what old rows become. */
#include "tests/unit/store_help.h"

#include <sqlite3.h>
#include <string.h>

#include "core/attempt.h"
#include "core/session.h"
#include "core/store/internal.h"

static int insert(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session s = {
		.serial = *(int64_t *)arg,
		.name = (char *)(uintptr_t)(*(int64_t *)arg == 1 ? "one" : "two"),
		.executor = (char *)(uintptr_t) "a",
		.executor_serial = 3,
		.state = SESSION_PENDING,
		.boot_id = (char *)(uintptr_t) "boot",
		.claim_token = (char *)(uintptr_t) "t1",
		.attempt = 1,
		.created_at_ns = 100,
	};

	return session_insert(tx, &s, err);
}

static int run(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session_running running = {.handle_id = "one.1",
						.pid = 77,
						.boot_id = "boot",
						.started_at_ns = 110,
						.deadline_ns = 900};

	return session_set_running(tx, 1, arg, &running, err);
}

static int move(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session_requeue requeue = {.new_token = "t2",
						.executor = "",
						.boot_id = "",
						.error = "moving",
						.at_ns = 200};

	return session_set_pending(tx, 1, arg, &requeue, err);
}

static int place(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session_placement placement = {
		.executor = "b", .executor_serial = 4, .handle_id = "one.2", .boot_id = "boot"};

	return session_place(tx, 1, arg, &placement, err);
}

static int finish(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session_finished finished = {.state = SESSION_EXITED,
						  .cause = SESSION_CAUSE_EXIT,
						  .exit_code = 5,
						  .started_at_ns = 210,
						  .finished_at_ns = 300,
						  .error = "",
						  .log_bytes = 100,
						  .log_dropped_bytes = 9};

	return session_set_finished(tx, 1, arg, &finished, err);
}

static int end_first(struct store_tx *tx, void *arg, struct error *err)
{
	const struct session_finished finished = {.state = SESSION_KILLED,
						  .cause = SESSION_CAUSE_SIGNAL,
						  .exit_code = -1,
						  .signal = 9,
						  .pid = 77,
						  .started_at_ns = 110,
						  .finished_at_ns = *(int64_t *)arg,
						  .error = "ended by signal 9 (SIGKILL)",
						  .log_bytes = 40,
						  .log_dropped_bytes = 4};

	return attempt_end(tx, 1, 1, &finished, err);
}

static int forgive(struct store_tx *tx, void *arg, struct error *err)
{
	(void)arg;
	return attempt_forgive(tx, 1, err);
}

static int delete_it(struct store_tx *tx, void *arg, struct error *err)
{
	(void)arg;
	return session_delete(tx, 1, err);
}

static void do_it(struct store *s, help_apply *fn, const void *arg, int expected)
{
	struct error err = {0};

	if (help_run(s, fn, (void *)(uintptr_t)arg, &err) != expected)
		fail_msg("%s", err.reason);
}

static void it_follows_its_session(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct store_tx *tx = store_reader(s);
	AUTO_ATTEMPT struct attempt first = {0};
	AUTO_ATTEMPT struct attempt second = {0};
	AUTO_ATTEMPT struct attempt again = {0};
	int64_t one = 1, two = 2, late = 250, later = 999;

	do_it(s, insert, &one, 0);
	do_it(s, insert, &two, 0);
	assert_int_equal(attempt_find(tx, 1, 1, &first, NULL), 0);
	assert_int_equal(first.created_at_ns, 100);
	assert_int_equal(first.state, SESSION_PENDING);
	assert_string_equal(first.executor, "a");
	assert_int_equal(attempt_find(tx, 1, 2, &second, NULL), -ENOENT);
	attempt_clear(&first);

	do_it(s, run, "t1", 0);
	do_it(s, end_first, &late, 0); /* it was not moved: the session tells its end */
	assert_int_equal(attempt_find(tx, 1, 1, &first, NULL), 0);
	assert_int_equal(first.state, SESSION_RUNNING);
	assert_int_equal(first.pid, 77);
	assert_int_equal(first.deadline_ns, 900);
	assert_int_equal(first.finished_at_ns, 0);
	attempt_clear(&first);

	/* Who lost the claim leaves no trace. */
	do_it(s, move, "t0", -ESTALE);
	assert_int_equal(attempt_find(tx, 1, 1, &first, NULL), 0);
	assert_int_equal(first.moved_at_ns, 0);
	attempt_clear(&first);

	do_it(s, move, "t1", 0);
	AUTO_ATTEMPT_LIST struct attempt_list open = {0};
	assert_int_equal(attempt_list_open(tx, 0, &open, NULL), 0);
	assert_int_equal(open.n, 1);
	assert_int_equal(open.rows[0].session, 1);
	assert_int_equal(open.rows[0].attempt, 1);
	assert_int_equal(open.rows[0].moved_at_ns, 200);
	assert_string_equal(open.rows[0].executor, "a");
	attempt_list_clear(&open);
	assert_int_equal(attempt_list_open(tx, 2, &open, NULL), 0);
	assert_int_equal(open.n, 0);
	assert_int_equal(attempt_find(tx, 1, 2, &second, NULL), 0);
	assert_int_equal(second.created_at_ns, 200);
	assert_string_equal(second.executor, "");
	assert_string_equal(second.error, "moving");
	int64_t serial = second.serial;
	attempt_clear(&second);

	/* The late end of the first is the first's alone, and is told once. */
	do_it(s, end_first, &late, 0);
	do_it(s, end_first, &later, 0);
	assert_int_equal(attempt_find(tx, 1, 1, &first, NULL), 0);
	assert_int_equal(first.state, SESSION_KILLED);
	assert_int_equal(first.finished_at_ns, 250);
	assert_int_equal(first.log_bytes, 40);
	AUTO_SESSION struct session row = {0};
	assert_int_equal(session_get(tx, 1, &row, NULL), 0);
	assert_int_equal(row.state, SESSION_PENDING);
	assert_int_equal(row.finished_at_ns, 0);
	attempt_clear(&first);

	do_it(s, place, "t2", 0);
	do_it(s, place, "t2", -EALREADY);
	do_it(s, finish, "t2", 0);
	assert_int_equal(attempt_get(tx, serial, &second, NULL), 0);
	assert_int_equal(second.attempt, 2);
	assert_string_equal(second.executor, "b");
	assert_string_equal(second.handle_id, "one.2");
	assert_string_equal(second.error, "");
	assert_int_equal(second.exit_code, 5);
	/* The session counts both; each attempt its own. */
	assert_int_equal(second.log_bytes, 60);
	assert_int_equal(second.log_dropped_bytes, 5);

	do_it(s, forgive, NULL, 1);
	do_it(s, forgive, NULL, 0);
	assert_int_equal(attempt_find(tx, 1, 1, &again, NULL), 0);
	assert_true(again.forgiven);

	do_it(s, delete_it, NULL, 0);
	AUTO_ATTEMPT_LIST struct attempt_list left = {0};
	assert_int_equal(attempt_list(tx, 1, &left, NULL), 0);
	assert_int_equal(left.n, 0);
	assert_int_equal(attempt_list(tx, 2, &left, NULL), 0);
	assert_int_equal(left.n, 1);
}

/* A database of the first version: its sessions come to have an attempt each. */
static void old_sessions_have_their_attempt(void **state)
{
	struct help_dir *dir = *state;
	const struct store_schema first = {store_schema_builtin.migrations, 1};
	struct store_options options = help_options();
	AUTO_ATTEMPT struct attempt got = {0};
	struct store *old = NULL;
	sqlite3 *db = NULL;

	options.schema = &first;
	assert_int_equal(store_open(dir->db, &options, &old, NULL), 0);
	old = store_free(old);
	assert_int_equal(sqlite3_open(dir->db, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db,
			     "INSERT INTO session VALUES (9, 'old', 'local', 1, 0, 0, 'killed', 'signal', "
			     "-1, 15, 44, 'b', 'old.1', '1', 1, 10, 20, 30, 0, 5, 1, 4096, 0, 0, '', 0, "
			     "'ended', '', '{}', '')",
			     NULL, NULL, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);

	AUTO_STORE struct store *s = help_open(dir->db);
	assert_int_equal(attempt_find(store_reader(s), 9, 1, &got, NULL), 0);
	assert_string_equal(got.executor, "local");
	assert_int_equal(got.state, SESSION_KILLED);
	assert_int_equal(got.signal, 15);
	assert_int_equal(got.created_at_ns, 10);
	assert_int_equal(got.finished_at_ns, 30);
	assert_int_equal(got.log_bytes, 5);
	assert_int_equal(got.moved_at_ns, 0);
	assert_string_equal(got.error, "ended");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_follows_its_session, help_dir_make, help_dir_remove),
		cmocka_unit_test_setup_teardown(old_sessions_have_their_attempt, help_dir_make,
						help_dir_remove),
	};

	return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
