/* The engine: what is grouped, what is undone, and who is told when. */
#include "tests/unit/store_help.h"

#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/store/meta.h"
#include "core/store/query.h"

/* An operation that keeps the writer until the test lets it go, so that others queue up behind. */
struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t moved;
	bool entered;
	bool open;
};
#define GATE_INIT                                                                                  \
	{                                                                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER              \
	}

static int pass_gate(struct store_tx *tx, void *arg, struct error *err)
{
	struct gate *g = arg;

	(void)tx;
	(void)err;
	(void)pthread_mutex_lock(&g->mutex);
	g->entered = true;
	(void)pthread_cond_broadcast(&g->moved);
	while (!g->open)
		(void)pthread_cond_wait(&g->moved, &g->mutex);
	(void)pthread_mutex_unlock(&g->mutex);
	return 0;
}

static void gate_wait_entered(struct gate *g)
{
	(void)pthread_mutex_lock(&g->mutex);
	while (!g->entered)
		(void)pthread_cond_wait(&g->moved, &g->mutex);
	(void)pthread_mutex_unlock(&g->mutex);
}

static void gate_open(struct gate *g)
{
	(void)pthread_mutex_lock(&g->mutex);
	g->open = true;
	(void)pthread_cond_broadcast(&g->moved);
	(void)pthread_mutex_unlock(&g->mutex);
}

static void a_commit_is_seen_and_survives(void **state)
{
	struct help_dir *dir = *state;
	struct help_pair pair = {"a", 7};

	{
		AUTO_STORE struct store *s = help_open(dir->db);
		assert_int_equal(help_get(store_reader(s), "a"), -1);
		assert_int_equal(help_run(s, help_set, &pair, NULL), 0);
		assert_int_equal(help_get(store_reader(s), "a"), 7);
	}
	AUTO_STORE struct store *s = help_open(dir->db);
	assert_int_equal(help_get(store_reader(s), "a"), 7);
}

#define MANY 200

static void what_waits_is_one_commit(void **state)
{
	struct help_dir *dir = *state;
	static struct help_op first, ops[MANY];
	static struct help_pair pairs[MANY];
	static char keys[MANY][8];
	struct store_stats before, after;
	struct gate gate = GATE_INIT;
	int counter = 0;
	AUTO_STORE struct store *s = help_open(dir->db);

	store_get_stats(s, &before);
	help_submit(s, &first, pass_gate, &gate, &counter);
	gate_wait_entered(&gate);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		pairs[i] = (struct help_pair){keys[i], i};
		help_submit(s, &ops[i], help_set, &pairs[i], &counter);
	}
	store_get_stats(s, &after);
	assert_int_equal(after.waiting, MANY + 1);
	gate_open(&gate);
	store_flush(s);
	store_get_stats(s, &after);
	assert_int_equal(after.applied - before.applied, MANY + 1);
	assert_int_equal(after.waiting, 0);
	/* The gate, and then everything behind it, in few transactions even on a slow machine. */
	assert_in_range(after.commits - before.commits, 2, MANY / 4);
	assert_int_equal(first.order, 1);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(ops[i].result, 0);
		assert_int_equal(ops[i].order, i + 2);
		assert_int_equal(help_get(store_reader(s), keys[i]), i);
	}
}

static void one_refusal_does_not_touch_its_neighbours(void **state)
{
	struct help_dir *dir = *state;
	struct help_pair a = {"a", 1}, b = {"b", 2}, c = {"c", 3};
	struct help_op first, ops[3];
	struct gate gate = GATE_INIT;
	struct store_stats stats;
	int counter = 0;
	AUTO_STORE struct store *s = help_open(dir->db);

	help_submit(s, &first, pass_gate, &gate, &counter);
	gate_wait_entered(&gate);
	help_submit(s, &ops[0], help_set, &a, &counter);
	help_submit(s, &ops[1], help_refuse, &b, &counter);
	help_submit(s, &ops[2], help_set, &c, &counter);
	gate_open(&gate);
	store_flush(s);
	assert_int_equal(ops[0].result, 0);
	assert_int_equal(ops[1].result, -EPERM);
	assert_string_equal(ops[1].error.reason, "refused after a change");
	assert_int_equal(ops[2].result, 0);
	assert_int_equal(help_get(store_reader(s), "a"), 1);
	assert_int_equal(help_get(store_reader(s), "b"), -1);
	assert_int_equal(help_get(store_reader(s), "c"), 3);
	store_get_stats(s, &stats);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.failed, 0);
}

static void a_batch_has_a_limit(void **state)
{
	struct help_dir *dir = *state;
	static struct help_op first, ops[STORE_BATCH_OPS_MAX * 2];
	static struct help_pair pair = {"a", 1};
	struct store_stats before, after;
	struct gate gate = GATE_INIT;
	int counter = 0;
	AUTO_STORE struct store *s = help_open(dir->db);

	store_get_stats(s, &before);
	help_submit(s, &first, pass_gate, &gate, &counter);
	gate_wait_entered(&gate);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		help_submit(s, &ops[i], help_set, &pair, &counter);
	gate_open(&gate);
	store_flush(s);
	store_get_stats(s, &after);
	assert_true(after.commits - before.commits >= 3);
	assert_int_equal(counter, ARRAY_SIZE(ops) + 1);
}

static int use_up_the_time(struct store_tx *tx, void *arg, struct error *err)
{
	int64_t until = clock_boot_ns() + STORE_BATCH_NS;

	while (clock_boot_ns() < until)
		;
	return help_set(tx, arg, err);
}

static void a_slow_operation_ends_its_batch(void **state)
{
	struct help_dir *dir = *state;
	struct help_op first, slow, next;
	struct help_pair pair = {"a", 1};
	struct store_stats before, after;
	struct gate gate = GATE_INIT;
	int counter = 0;
	AUTO_STORE struct store *s = help_open(dir->db);

	store_get_stats(s, &before);
	help_submit(s, &first, pass_gate, &gate, &counter);
	gate_wait_entered(&gate);
	help_submit(s, &slow, use_up_the_time, &pair, &counter);
	help_submit(s, &next, help_set, &pair, &counter);
	gate_open(&gate);
	store_flush(s);
	store_get_stats(s, &after);
	assert_int_equal(after.commits - before.commits, 3);
}

static void nothing_is_committed_for_refusals_alone(void **state)
{
	struct help_dir *dir = *state;
	struct help_pair pair = {"a", 1};
	struct store_stats before, after;
	AUTO_STORE struct store *s = help_open(dir->db);

	store_get_stats(s, &before);
	assert_int_equal(help_run(s, help_refuse, &pair, NULL), -EPERM);
	store_get_stats(s, &after);
	assert_int_equal(after.commits, before.commits);
	assert_int_equal(after.refused, before.refused + 1);
}

static int only_a_code(struct store_tx *tx, void *arg, struct error *err)
{
	(void)tx;
	(void)arg;
	(void)err;
	return -ENODEV;
}

static void a_refusal_always_has_a_sentence(void **state)
{
	struct help_dir *dir = *state;
	struct error err;
	AUTO_STORE struct store *s = help_open(dir->db);

	assert_int_equal(help_run(s, only_a_code, NULL, &err), -ENODEV);
	assert_int_equal(err.code, ENODEV);
	assert_true(err.reason[0] != '\0');
}

/* Each one submits the next when it is done: a flush waits for all of the chain. */
struct chain {
	struct store_op op;
	struct store *store;
	int left;
	int done;
};

static int chain_apply(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct chain *c = (struct chain *)op;

	return meta_set_int(tx, "chain", c->left, err);
}

static void chain_done(struct store_op *op, int result, const struct error *err)
{
	struct chain *c = (struct chain *)op;

	assert_int_equal(result, 0);
	assert_null(err);
	c->done++;
	if (c->left-- > 0)
		store_submit(c->store, &c->op);
}

static void closing_answers_all_that_waits(void **state)
{
	struct help_dir *dir = *state;
	static struct help_op ops[50];
	static struct help_pair pair = {"a", 5};
	struct chain chain = {.op = {.apply = chain_apply, .done = chain_done}, .left = 10};
	int counter = 0;
	struct store *s = help_open(dir->db);

	chain.store = s;
	store_submit(s, &chain.op);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		help_submit(s, &ops[i], help_set, &pair, &counter);
	s = store_free(s);
	assert_null(s);
	assert_int_equal(counter, ARRAY_SIZE(ops));
	assert_int_equal(chain.done, 11);
	s = help_open(dir->db);
	assert_int_equal(help_get(store_reader(s), "chain"), 0);
	assert_int_equal(help_get(store_reader(s), "a"), 5);
	s = store_free(s);
	assert_null(store_free(NULL));
}

/* A row of some pages that is never the same twice, so that the log grows quickly. */
static int set_wide(struct store_tx *tx, void *arg, struct error *err)
{
	char key[24], text[8001];

	for (size_t i = 0; i + 8 < sizeof(text); i += 8)
		(void)snprintf(text + i, 9, "%8d", *(int *)arg);
	(void)snprintf(key, sizeof(key), "wide%d", *(int *)arg % 40);
	return meta_set_text(tx, key, text, err);
}

#define READERS 50
#define WIDE_WRITES 400
#define WAL_PAGES 50
#define PAGE_BYTES (4096 + 24)

struct reading {
	const char *db;
	atomic_bool stop;
	atomic_int reads;
	atomic_int running;
};

/* What a reader amounts to: short statements without end. Returns NULL, or r when one failed. */
static void *read_on_and_on(void *arg)
{
	struct reading *r = arg;
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_open_v2(r->db, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	    sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "SELECT count(*) FROM meta", -1, &stmt, NULL) != SQLITE_OK)
		return r;
	atomic_fetch_add(&r->running, 1);
	while (!atomic_load(&r->stop)) {
		if (sqlite3_step(stmt) != SQLITE_ROW)
			return r;
		(void)sqlite3_reset(stmt);
		atomic_fetch_add(&r->reads, 1);
		/* Fifty at once on two processors would only measure the scheduler. */
		(void)usleep(5000);
	}
	(void)sqlite3_finalize(stmt);
	(void)sqlite3_close(db);
	return NULL;
}

static int64_t wal_bytes(const char *db)
{
	char path[192];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s-wal", db);
	return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

static struct store *open_with_small_log(const char *db)
{
	struct store_options opts = help_options();
	struct store *s = NULL;

	opts.busy_timeout_ms = 5000;
	opts.wal_pages = WAL_PAGES;
	assert_int_equal(store_open(db, &opts, &s, NULL), 0);
	return s;
}

static void the_log_stays_short_with_fifty_readers(void **state)
{
	struct help_dir *dir = *state;
	struct reading reading = {.db = dir->db};
	pthread_t threads[READERS];
	int64_t largest = 0;
	struct store *s = open_with_small_log(dir->db);

	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_on_and_on, &reading), 0);
	while (atomic_load(&reading.running) < READERS)
		(void)sched_yield();
	for (int i = 0; i < WIDE_WRITES; i++) {
		assert_int_equal(help_run(s, set_wide, &i, NULL), 0);
		(void)help_get(store_reader(s), "wide0");
		int64_t now = wal_bytes(dir->db);
		largest = now > largest ? now : largest;
	}
	atomic_store(&reading.stop, true);
	for (int i = 0; i < READERS; i++) {
		void *failure;

		assert_int_equal(pthread_join(threads[i], &failure), 0);
		assert_null(failure);
	}
	print_message("# %d reads, log at most %d pages\n", atomic_load(&reading.reads),
		      (int)(largest / PAGE_BYTES));
	/* All that was written is three times that. */
	assert_in_range(largest, 0, 2 * STORE_WAL_TRUNCATE_TIMES * WAL_PAGES * PAGE_BYTES);
	assert_true(store_tx_idle(store_reader(s)));
	s = store_free(s);
	assert_int_equal(wal_bytes(dir->db), 0);
}

static void a_reader_that_never_ends_stops_nobody(void **state)
{
	struct help_dir *dir = *state;
	sqlite3 *other = NULL;
	struct store *s = open_with_small_log(dir->db);

	assert_int_equal(sqlite3_open(dir->db, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN; SELECT count(*) FROM meta", NULL, NULL, NULL),
			 SQLITE_OK);
	for (int i = 0; i < STORE_WAL_TRUNCATE_TIMES * WAL_PAGES; i++)
		assert_int_equal(help_run(s, set_wide, &i, NULL), 0);
	assert_true(wal_bytes(dir->db) > STORE_WAL_TRUNCATE_TIMES * WAL_PAGES * PAGE_BYTES);
	assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(other), SQLITE_OK);
	/* Once it is gone the log becomes short again. */
	for (int i = 1000; i < 1000 + WAL_PAGES; i++)
		assert_int_equal(help_run(s, set_wide, &i, NULL), 0);
	assert_in_range(wal_bytes(dir->db), 0, STORE_WAL_TRUNCATE_TIMES * WAL_PAGES * PAGE_BYTES);
	s = store_free(s);
}

#define STORE_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(a_commit_is_seen_and_survives),
		STORE_TEST(what_waits_is_one_commit),
		STORE_TEST(one_refusal_does_not_touch_its_neighbours),
		STORE_TEST(a_batch_has_a_limit),
		STORE_TEST(a_slow_operation_ends_its_batch),
		STORE_TEST(nothing_is_committed_for_refusals_alone),
		STORE_TEST(a_refusal_always_has_a_sentence),
		STORE_TEST(closing_answers_all_that_waits),
		STORE_TEST(the_log_stays_short_with_fifty_readers),
		STORE_TEST(a_reader_that_never_ends_stops_nobody),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
