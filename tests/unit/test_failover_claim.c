/* Failover: the rules, and the claim with two who want it. */
#include "tests/unit/store_help.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/failover.h"
#include "core/store/internal.h"

/* --- the rules ------------------------------------------------------------------------------ */

#define A(serial, moved, started, pardoned)                                                        \
	{.executor_serial = (serial), .executor = (char *)(uintptr_t) "e" #serial,                 \
	 .moved_at_ns = (moved), .started_at_ns = (started), .forgiven = (pardoned)}

static void what_becomes_of_it(void **state)
{
	static struct attempt first[] = {A(1, 0, 5, false)};
	static struct attempt second[] = {A(1, 9, 5, false), A(2, 0, 5, false)};
	static struct attempt same[] = {A(1, 9, 5, false), A(1, 0, 5, false)};
	static struct attempt never_ran[] = {A(1, 9, 0, false), A(2, 0, 5, false)};
	static struct attempt third[] = {A(1, 9, 5, false), A(1, 9, 5, false), A(1, 0, 5, false)};
	static struct attempt pardoned[] = {A(1, 9, 5, true), A(2, 9, 5, true), A(3, 0, 5, false)};
	static struct attempt again[] = {A(1, 9, 5, true), A(2, 9, 5, false), A(3, 0, 5, false)};
	static const struct {
		struct attempt_list list;
		int64_t max;
		enum failover_verdict verdict;
		const char *says;
	} cases[] = {
		{{first, 1}, 2, FAILOVER_MOVE, "its executor e1 became unreachable"},
		{{first, 1}, 0, FAILOVER_EXHAUSTED, "moved 0 times"},
		{{second, 2}, 2, FAILOVER_QUARANTINE, "2 executors (e1, e2)"},
		{{second, 2}, 1, FAILOVER_EXHAUSTED, "moved 1 times"},
		{{same, 2}, 2, FAILOVER_MOVE, "e1"},
		{{never_ran, 2}, 2, FAILOVER_MOVE, "e2"},
		{{third, 3}, 2, FAILOVER_EXHAUSTED, "moved 2 times"},
		{{third, 3}, 3, FAILOVER_MOVE, "e1"},
		{{pardoned, 3}, 2, FAILOVER_MOVE, "e3"},
		{{again, 3}, 2, FAILOVER_QUARANTINE, "e2, e3"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char reason[FAILOVER_REASON_MAX] = "";

		if (failover_decide(&cases[i].list, cases[i].max, reason) != cases[i].verdict ||
		    !strstr(reason, cases[i].says))
			fail_msg("case %zu: %s", i, reason);
	}
	char reason[FAILOVER_REASON_MAX];
	second[1].moved_at_ns = 9;
	assert_true(failover_quarantined(&(struct attempt_list){second, 2}, reason));
	second[0].forgiven = true;
	assert_false(failover_quarantined(&(struct attempt_list){second, 2}, reason));
}

static void the_one_it_lost_comes_last(void **state)
{
	struct candidate list[] = {
		{.executor_id = "a", .state = NODE_READY},
		{.executor_id = "b", .state = NODE_DEGRADED},
		{.executor_id = "c", .state = NODE_CORDONED},
	};
	struct requirements any = {0};
	struct error err = {0};
	size_t at = 99;

	(void)state;
	assert_int_equal(failover_choose(list, 3, &any, true, "", &at, NULL, &err), 0);
	assert_int_equal(at, 0);
	assert_int_equal(failover_choose(list, 3, &any, true, "a", &at, NULL, &err), 0);
	assert_int_equal(at, 1);
	list[1].state = NODE_UNREACHABLE;
	assert_int_equal(failover_choose(list, 3, &any, true, "a", &at, NULL, &err), 0);
	assert_int_equal(at, 0); /* it is fit again, and nobody else is */
	list[0].state = NODE_UNREACHABLE;
	at = 99;
	assert_int_equal(failover_choose(list, 3, &any, true, "a", &at, NULL, &err), -EHOSTUNREACH);
	assert_int_equal(failover_choose(list, 0, &any, true, "a", &at, NULL, &err), -ENODEV);
	assert_int_equal(at, 99);
}

/* --- two who claim -------------------------------------------------------------------------- */

#define RACED 40

static int insert_raced(struct store_tx *tx, void *arg, struct error *err)
{
	int r = 0;

	(void)arg;
	for (int64_t i = 1; i <= RACED && r >= 0; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "s%d", (int)i);
		const struct session s = {.serial = i,
					  .name = name,
					  .executor = (char *)(uintptr_t) "a",
					  .executor_serial = 3,
					  .state = SESSION_RUNNING,
					  .claim_token = (char *)(uintptr_t) "first",
					  .attempt = 1};
		r = session_insert(tx, &s, err);
	}
	return r;
}

/* One supervisor, in a process of its own: claims them all, and answers how many it got. */
static void supervise(const char *db, int ready, int go)
{
	struct store store = {.path = (char *)(uintptr_t)db, .busy_timeout_ms = 30000};
	struct store_tx tx = {.store = &store};
	int won = 0;
	char byte = 0;

	if (sqlite3_open(db, &tx.db) != SQLITE_OK)
		_exit(255);
	(void)sqlite3_busy_timeout(tx.db, 30000);
	(void)!write(ready, &byte, 1);
	(void)!read(go, &byte, 1);
	for (int64_t i = 1; i <= RACED; i++) {
		char token[CLAIM_TOKEN_MAX];
		struct error err = {0};
		struct failover_claim claim = {.session = i,
					       .claim_token = "first",
					       .new_token = token,
					       .because = "gone",
					       .max_attempts = 2,
					       .at_ns = 7};

		claim_token_make(token);
		if (sqlite3_exec(tx.db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
			_exit(254);
		int r = failover_claim(&tx, &claim, &err);
		if (r == 0)
			won++;
		else if (r != -ESTALE || err.kind != ERROR_SESSION_CLAIM_LOST)
			_exit(253);
		if (sqlite3_exec(tx.db, r == 0 ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
			_exit(252);
	}
	_exit(won);
}

static void of_two_processes_one_moves_it(void **state)
{
	const struct help_dir *dir = *state;
	struct store *s = help_open(dir->db);
	int ready[2], go[2], won = 0;
	pid_t pids[2];
	char bytes[2] = {0};

	assert_int_equal(help_run(s, insert_raced, NULL, NULL), 0);
	s = store_free(s);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			supervise(dir->db, ready[1], go[0]);
	}
	assert_int_equal(read(ready[0], bytes, 1) + read(ready[0], bytes, 1), 2);
	assert_int_equal(write(go[1], bytes, 2), 2);
	for (int i = 0; i < 2; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= RACED);
		won += WEXITSTATUS(status);
	}
	assert_int_equal(won, RACED);
	s = help_open(dir->db);
	for (int64_t i = 1; i <= RACED; i++) {
		AUTO_SESSION struct session row = {0};
		AUTO_ATTEMPT_LIST struct attempt_list list = {0};

		assert_int_equal(session_get(store_reader(s), i, &row, NULL), 0);
		assert_int_equal(row.attempt, 2);
		assert_int_equal(row.state, SESSION_PENDING);
		assert_int_equal(attempt_list(store_reader(s), i, &list, NULL), 0);
		assert_int_equal(list.n, 2);
	}
	s = store_free(s);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(close(ready[i]), 0);
		assert_int_equal(close(go[i]), 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_becomes_of_it),
		cmocka_unit_test(the_one_it_lost_comes_last),
		cmocka_unit_test_setup_teardown(of_two_processes_one_moves_it, help_dir_make,
						help_dir_remove),
	};

	return cmocka_run_group_tests_name("failover_claim", tests, NULL, NULL);
}
