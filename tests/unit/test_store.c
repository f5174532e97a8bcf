/* The engine: what is grouped, what is undone, and who is told when. */
#include "tests/unit/store_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/store/meta.h"
#include "core/store/query.h"

/* An operation that keeps the writer until the test lets it go, so that others queue up behind. */
struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t moved;
	bool entered;
	bool open;
};
#define GATE_INIT {.mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_commit_is_seen_and_survives, help_dir_make,
						help_dir_remove),
		cmocka_unit_test_setup_teardown(what_waits_is_one_commit, help_dir_make,
						help_dir_remove),
		cmocka_unit_test_setup_teardown(one_refusal_does_not_touch_its_neighbours,
						help_dir_make, help_dir_remove),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
