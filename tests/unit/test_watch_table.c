#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/tables.h"
#include "fs/watch_table.h"

/* --- a hub that shows what a test says ------------------------------------------------------ */

#define OBJECTS 4096

struct fake {
	struct watch_table *table;
	uint64_t shows[OBJECTS][WATCH_ROWS_MAX + 1]; /* by serial; 0: nothing */
	bool gone[OBJECTS];
	unsigned n_prints;
	int64_t now_ms;
	struct {
		struct node dir;
		uint64_t before, after;
	} marked[OBJECTS];
	size_t n_marked;
};

static struct fake fake;

static int print(void *user, struct node file, uint64_t *ret)
{
	struct fake *f = user;

	assert_true(file.serial < OBJECTS);
	f->n_prints++;
	if (f->gone[file.serial])
		return -ESTALE;
	*ret = f->shows[file.serial][file.file];
	return 0;
}

static void marked(void *user, struct node dir, uint64_t before, uint64_t after)
{
	struct fake *f = user;

	f->marked[f->n_marked].dir = dir;
	f->marked[f->n_marked].before = before;
	f->marked[f->n_marked++].after = after;
}

static int setup(void **state)
{
	static const struct watch_table_hooks hooks = {.print = print, .marked = marked};

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.now_ms = 1000000;
	return watch_table_new(&hooks, &fake, &fake.table, NULL);
}

static int teardown(void **state)
{
	(void)state;
	fake.table = watch_table_free(fake.table);
	return 0;
}

/* --- words ---------------------------------------------------------------------------------- */

static const struct node sessions = {.kind = NODE_SESSIONS};

static struct node session(uint32_t serial)
{
	return (struct node){.kind = NODE_SESSION, .serial = serial};
}

static struct node file(uint32_t serial, const char *name)
{
	return (struct node){
		.kind = NODE_SESSION, .serial = serial, .file = node_find(&session_dir, name)};
}

static uint64_t bit(const char *name)
{
	return UINT64_C(1) << node_find(&session_dir, name);
}

/* A report of these marks and no others, by a scan that no doubt waited for. */
static void report_at(uint64_t scan, const struct node *nodes, size_t n)
{
	watch_table_marks_begin(fake.table);
	for (size_t i = 0; i < n; i++)
		watch_table_mark(fake.table, node_inode(nodes[i]));
	(void)watch_table_marks_end(fake.table, scan, false, fake.now_ms);
}

static void report(const struct node *nodes, size_t n)
{
	report_at(0, nodes, n);
}

static void change(uint32_t serial, const char *name, uint64_t shows)
{
	fake.shows[serial][node_find(&session_dir, name)] = shows;
	watch_table_changed(fake.table, session(serial), bit(name), fake.now_ms);
}

static struct watch_call *next(void)
{
	int64_t due;

	return watch_table_next(fake.table, fake.now_ms, &due);
}

static void assert_nothing_now(void)
{
	assert_null(next());
}

static void assert_nothing_ever(void)
{
	int64_t due = 0;

	assert_null(watch_table_next(fake.table, fake.now_ms, &due));
	assert_int_equal(due, WATCH_NEVER);
}

static void done(const struct watch_call *c)
{
	enum nudge_type type = c->type;

	assert_int_equal(watch_table_done(fake.table, c->number, fake.now_ms), type);
}

/* The next call modifies that file; it is carried out. */
static void assert_modifies(struct node node)
{
	const struct watch_call *c = next();

	assert_non_null(c);
	assert_int_equal(c->type, NUDGE_MODIFY);
	assert_int_equal(node_id(c->node), node_id(node));
	done(c);
}

static struct watch_call *assert_names(enum nudge_type type, struct node dir, const char *name)
{
	struct watch_call *c = next();

	assert_non_null(c);
	assert_int_equal(c->type, type);
	assert_int_equal(node_id(c->dir), node_id(dir));
	assert_string_equal(c->name, name);
	return c;
}

/* --- who watches ---------------------------------------------------------------------------- */

static void what_nobody_looks_at_costs_nothing(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		change(i, "state", i);
		watch_table_came(fake.table, sessions, "s", session(i), fake.now_ms);
		watch_table_went(fake.table, sessions, "s", session(i), false, fake.now_ms);
	}
	assert_false(watch_table_wants_scan(fake.table));
	assert_nothing_ever();
	assert_int_equal(fake.n_prints, 0);
	assert_int_equal(watch_table_count_calls(fake.table), 0);
}

static void a_change_after_a_look_up_waits_for_a_scan(void **state)
{
	const struct node mark = file(7, "state");

	(void)state;
	watch_table_looked_up(fake.table, mark, fake.now_ms);
	fake.now_ms += WATCH_LOOKUP_MS - 1;
	change(7, "state", 1);
	assert_true(watch_table_wants_scan(fake.table));
	assert_nothing_ever();
	assert_int_equal(watch_table_ask_scan(fake.table), 1);
	assert_false(watch_table_wants_scan(fake.table));
	/* A scan that began earlier says nothing about what is watched now. */
	watch_table_marks_same(fake.table, 0, fake.now_ms);
	report_at(1, &mark, 1);
	assert_modifies(mark);
	assert_nothing_ever();
}

static void a_look_up_is_forgotten(void **state)
{
	(void)state;
	watch_table_looked_up(fake.table, file(7, "state"), fake.now_ms);
	assert_int_equal(watch_table_lookup(fake.table, session(7), fake.now_ms + 10), fake.now_ms);
	fake.now_ms += WATCH_LOOKUP_MS;
	assert_int_equal(watch_table_lookup(fake.table, session(7), fake.now_ms), -1);
	change(7, "state", 1);
	assert_false(watch_table_wants_scan(fake.table));
}

static void a_scan_that_finds_nobody_ends_the_doubt(void **state)
{
	const struct node mark = file(7, "state");

	(void)state;
	watch_table_looked_up(fake.table, mark, fake.now_ms);
	change(7, "state", 1);
	watch_table_looked_up(fake.table, sessions, fake.now_ms);
	watch_table_came(fake.table, sessions, "new", session(8), fake.now_ms);
	watch_table_marks_same(fake.table, watch_table_ask_scan(fake.table), fake.now_ms);
	/* Who watches from now on is told of what happens from now on. */
	report(&mark, 1);
	assert_nothing_ever();
	assert_int_equal(watch_table_sessions_waiting(fake.table), 0);
	assert_int_equal(watch_table_sessions_settled(fake.table), 8);
}

static void doubts_that_came_during_a_scan_wait_for_the_next(void **state)
{
	(void)state;
	watch_table_looked_up(fake.table, sessions, fake.now_ms);
	watch_table_came(fake.table, sessions, "one", session(1), fake.now_ms);
	uint64_t scan = watch_table_ask_scan(fake.table);
	watch_table_came(fake.table, sessions, "two", session(2), fake.now_ms);
	watch_table_marks_same(fake.table, scan, fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), 1);
	assert_true(watch_table_wants_scan(fake.table));
	report_at(watch_table_ask_scan(fake.table), &sessions, 1);
	done(assert_names(NUDGE_MKDIR, sessions, "two"));
	assert_nothing_ever();
}

static void objects_in_doubt_are_bounded(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3 * WATCH_DOUBTS_MAX; i++) {
		watch_table_looked_up(fake.table, session(i), fake.now_ms);
		watch_table_changed(fake.table, session(i), bit("state"), fake.now_ms);
	}
	watch_table_marks_same(fake.table, watch_table_ask_scan(fake.table), fake.now_ms);
	assert_nothing_ever();
	/* All were given up, so there is room again. */
	watch_table_looked_up(fake.table, session(1), fake.now_ms);
	change(1, "state", 1);
	const struct node mark = session(1);
	report_at(watch_table_ask_scan(fake.table), &mark, 1);
	assert_modifies(file(1, "state"));
}

static void marks_that_nobody_gave_out_are_ignored(void **state)
{
	static const uint64_t bad[] = {0,
				       2,
				       UINT64_MAX,
				       0x00ffffffffffffff,
				       (uint64_t)NODE_KINDS << 56,
				       0x0700000001ff0000,
				       0x0700000001400000};

	(void)state;
	watch_table_marks_begin(fake.table);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		watch_table_mark(fake.table, bad[i]);
	(void)watch_table_marks_end(fake.table, 0, false, fake.now_ms);
	assert_int_equal(fake.n_marked, 0);
	assert_int_equal(watch_table_count_marks(fake.table), 0);
}

static void changes_of_marks_are_reported_once(void **state)
{
	const struct node marks[] = {session(1), file(1, "state"), file(2, "pid")};

	(void)state;
	report(marks, 3);
	assert_int_equal(fake.n_marked, 2);
	assert_int_equal(watch_table_count_marks(fake.table), 3);
	report(marks, 3);
	assert_int_equal(fake.n_marked, 2);
	assert_int_equal(watch_table_marks(fake.table, session(1)), 1 | bit("state"));
	report(marks, 1);
	assert_int_equal(fake.n_marked, 4);
	assert_int_equal(watch_table_marks(fake.table, session(2)), 0);
}

static void a_whole_mount_may_be_watched(void **state)
{
	(void)state;
	watch_table_marks_begin(fake.table);
	(void)watch_table_marks_end(fake.table, 0, true, fake.now_ms);
	change(1, "state", 1);
	watch_table_came(fake.table, sessions, "new", session(2), fake.now_ms);
	assert_modifies(file(1, "state"));
	done(assert_names(NUDGE_MKDIR, sessions, "new"));
	fake.now_ms += WATCH_FILE_MS;
	watch_table_changed(fake.table, session(1), bit("state"), fake.now_ms);
	assert_nothing_ever(); /* it shows the same */
	report(NULL, 0);
	change(1, "state", 2);
	assert_nothing_ever();
}

/* --- what has changed ----------------------------------------------------------------------- */

static void only_what_shows_something_else_is_announced(void **state)
{
	const struct node mark = session(1);

	(void)state;
	fake.shows[1][node_find(&session_dir, "attempt")] = 5;
	report(&mark, 1);
	(void)watch_table_learn(fake.table, session(1));
	fake.shows[1][node_find(&session_dir, "state")] = 1;
	fake.shows[1][node_find(&session_dir, "pid")] = 2;
	watch_table_changed(fake.table, session(1), watch_table_values(fake.table, NODE_SESSION),
			    fake.now_ms);
	assert_modifies(file(1, "state"));
	assert_modifies(file(1, "pid"));
	assert_nothing_ever();
}

static void what_shows_nothing_is_not_taken_for_changed(void **state)
{
	const struct node mark = session(1);

	(void)state;
	report(&mark, 1);
	watch_table_changed(fake.table, session(1), bit("error"), fake.now_ms);
	assert_nothing_ever();
	/* Now it is known that there was nothing. */
	change(1, "error", 1);
	assert_modifies(file(1, "error"));
	fake.now_ms += WATCH_FILE_MS;
	change(1, "error", 0);
	assert_modifies(file(1, "error"));
}

static void rows_without_a_mark_are_not_announced(void **state)
{
	const struct node mark = file(1, "pid");

	(void)state;
	report(&mark, 1);
	fake.shows[1][node_find(&session_dir, "state")] = 1;
	fake.shows[1][node_find(&session_dir, "pid")] = 1;
	watch_table_changed(fake.table, session(1), watch_table_values(fake.table, NODE_SESSION),
			    fake.now_ms);
	assert_modifies(mark);
	assert_nothing_ever();
}

static void files_that_never_change_have_no_row(void **state)
{
	(void)state;
	for (const char *const *name =
		     (const char *const[]){"spec", "lines", "follow", "wait", "executor", NULL};
	     *name; name++)
		assert_int_equal((watch_table_values(fake.table, NODE_SESSION) |
				  watch_table_outputs(fake.table, NODE_SESSION)) &
					 bit(*name),
				 0);
	for (const char *const *name =
		     (const char *const[]){"log", "stdout", "stderr", "log.tail", NULL};
	     *name; name++)
		assert_int_not_equal(watch_table_outputs(fake.table, NODE_SESSION) & bit(*name), 0);
}

static void what_the_kernel_tells_is_not_told_again(void **state)
{
	const struct node mark = session(1);

	(void)state;
	report(&mark, 1);
	(void)watch_table_learn(fake.table, session(1));
	change(1, "state", 1);
	watch_table_told(fake.table, file(1, "state"));
	assert_nothing_ever();
	change(1, "state", 2);
	assert_modifies(file(1, "state"));
}

/* --- limits --------------------------------------------------------------------------------- */

static void changes_merge_and_the_last_is_announced(void **state)
{
	const struct node mark = file(1, "log");
	unsigned calls = 0;

	(void)state;
	report(&mark, 1);
	/* Ten seconds of a change each millisecond. */
	for (int64_t end = fake.now_ms + 10000; fake.now_ms < end; fake.now_ms++) {
		change(1, "log", (uint64_t)fake.now_ms);
		for (const struct watch_call *c; (c = next()); calls++)
			done(c);
	}
	assert_in_range(calls, 90, 100);
	fake.now_ms += WATCH_FILE_MS;
	assert_modifies(mark);
	assert_nothing_ever();
}

static void a_file_waits_while_it_is_announced(void **state)
{
	const struct node mark = file(1, "log");

	(void)state;
	report(&mark, 1);
	change(1, "log", 1);
	struct watch_call *c = next();
	assert_non_null(c);
	change(1, "log", 2);
	fake.now_ms += 10 * WATCH_FILE_MS;
	assert_nothing_now(); /* the nudger hangs in it */
	done(c);
	assert_nothing_now();
	fake.now_ms += WATCH_FILE_MS;
	assert_modifies(mark);
}

static void all_together_are_bounded(void **state)
{
	static struct node marks[2000];
	int64_t at[2000] = {0};
	size_t n = 0;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(marks); i++)
		marks[i] = file(i, "state");
	report(marks, ARRAY_SIZE(marks));
	for (uint32_t i = 0; i < ARRAY_SIZE(marks); i++)
		change(i, "state", 1);
	for (int64_t end = fake.now_ms + 10000; fake.now_ms < end; fake.now_ms++)
		for (const struct watch_call *c; (c = next()); done(c))
			at[n++] = fake.now_ms;
	assert_int_equal(n, ARRAY_SIZE(marks));
	for (size_t i = 0; i + 500 < n; i++)
		assert_true(at[i + 500] - at[i] >= 1000);
	/* And not much slower than that either. */
	assert_true(at[n - 1] - at[0] < 4600);
}

static void an_unanswered_call_delays_nobody_else(void **state)
{
	struct node marks[NUDGE_WORKERS + 2];
	struct watch_call *c[NUDGE_WORKERS];

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(marks); i++)
		marks[i] = file(i, "state");
	report(marks, ARRAY_SIZE(marks));
	for (uint32_t i = 0; i < ARRAY_SIZE(marks); i++)
		change(i, "state", 1);
	for (size_t i = 0; i < NUDGE_WORKERS; i++) {
		c[i] = next();
		assert_non_null(c[i]);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(node_id(c[i]->node), node_id(c[k]->node));
	}
	assert_nothing_now();
	/* One worker is enough for all the others. */
	for (size_t i = NUDGE_WORKERS; i < ARRAY_SIZE(marks); i++) {
		done(c[0]);
		c[0] = next();
		assert_non_null(c[0]);
	}
	done(c[0]);
	assert_nothing_ever();
}

static void a_call_is_ended_once(void **state)
{
	const struct node mark = file(1, "state");

	(void)state;
	report(&mark, 1);
	change(1, "state", 1);
	uint64_t number = next()->number;
	assert_int_equal(watch_table_done(fake.table, 0, fake.now_ms), NUDGE_NONE);
	assert_int_equal(watch_table_done(fake.table, number + 1, fake.now_ms), NUDGE_NONE);
	assert_int_equal(watch_table_done(fake.table, number, fake.now_ms), NUDGE_MODIFY);
	assert_int_equal(watch_table_done(fake.table, number, fake.now_ms), NUDGE_NONE);
}

static void calls_of_a_nudger_that_died_are_made_again(void **state)
{
	const struct node marks[] = {file(1, "state"), sessions};

	(void)state;
	report(marks, 2);
	change(1, "state", 1);
	watch_table_came(fake.table, sessions, "a", session(2), fake.now_ms);
	watch_table_came(fake.table, sessions, "b", session(3), fake.now_ms);
	assert_non_null(next());
	struct watch_call *c = assert_names(NUDGE_MKDIR, sessions, "a");
	/* This one reached the hub before the nudger died. */
	c->answered = true;
	watch_table_retry(fake.table, fake.now_ms);
	for (size_t i = 0; i < NUDGE_WORKERS; i++)
		assert_null(watch_table_under_way(fake.table, i));
	assert_modifies(marks[0]);
	done(assert_names(NUDGE_MKDIR, sessions, "b"));
	assert_nothing_ever();
}

static void a_scan_is_asked_of_the_next_nudger_again(void **state)
{
	(void)state;
	watch_table_looked_up(fake.table, sessions, fake.now_ms);
	watch_table_came(fake.table, sessions, "a", session(1), fake.now_ms);
	(void)watch_table_ask_scan(fake.table);
	watch_table_retry(fake.table, fake.now_ms);
	assert_true(watch_table_wants_scan(fake.table));
	watch_table_marks_same(fake.table, watch_table_ask_scan(fake.table), fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), 0);
	watch_table_retry(fake.table, fake.now_ms);
	assert_false(watch_table_wants_scan(fake.table));
}

/* --- names ---------------------------------------------------------------------------------- */

static void what_came_is_announced_before_its_files(void **state)
{
	const struct node marks[] = {sessions, session(5)};

	(void)state;
	report(marks, 2);
	watch_table_came(fake.table, sessions, "new", session(5), fake.now_ms);
	change(5, "state", 1);
	const struct watch_call *c = assert_names(NUDGE_MKDIR, sessions, "new");
	assert_nothing_now();
	done(c);
	assert_modifies(file(5, "state"));
}

static void names_of_a_directory_go_in_their_order(void **state)
{
	const struct node links = {.kind = NODE_EXECUTOR_SESSIONS, .serial = 1};
	const struct node link = {.kind = NODE_EXECUTOR_SESSION, .serial = 4, .file = 1};

	(void)state;
	report(&links, 1);
	watch_table_came(fake.table, links, "one", link, fake.now_ms);
	struct watch_call *c = assert_names(NUDGE_SYMLINK, links, "one");
	c->answered = true;
	watch_table_went(fake.table, links, "one", link, false, fake.now_ms);
	assert_nothing_now();
	done(c);
	done(assert_names(NUDGE_UNLINK, links, "one"));
	assert_nothing_ever();
}

static void what_goes_before_it_was_announced_is_never_mentioned(void **state)
{
	(void)state;
	report(&sessions, 1);
	watch_table_came(fake.table, sessions, "a", session(1), fake.now_ms);
	watch_table_came(fake.table, sessions, "b", session(2), fake.now_ms);
	watch_table_went(fake.table, sessions, "b", session(2), false, fake.now_ms);
	struct watch_call *c = assert_names(NUDGE_MKDIR, sessions, "a");
	/* Under way, and not answered: now it must not be answered any more. */
	watch_table_went(fake.table, sessions, "a", session(1), false, fake.now_ms);
	assert_true(c->cancelled);
	done(c);
	assert_nothing_ever();
}

static void what_was_there_before_is_announced_when_it_goes(void **state)
{
	(void)state;
	report(&sessions, 1);
	watch_table_went(fake.table, sessions, "old", session(1), false, fake.now_ms);
	done(assert_names(NUDGE_RMDIR, sessions, "old"));
	/* A user's own rmdir is the kernel's to tell. */
	watch_table_went(fake.table, sessions, "other", session(2), true, fake.now_ms);
	assert_nothing_ever();
}

static void watched_files_go_before_their_directory(void **state)
{
	const struct node marks[] = {sessions, session(1), file(1, "state"), file(1, "log")};

	(void)state;
	report(marks, 4);
	change(1, "state", 1);
	watch_table_went(fake.table, sessions, "x", session(1), false, fake.now_ms);
	for (int i = 0; i < 2; i++) {
		struct watch_call *c = assert_names(NUDGE_UNLINK, sessions, "x");
		assert_int_equal(c->row, i == 0 ? node_find(&session_dir, "state")
						: node_find(&session_dir, "log"));
		done(c);
	}
	struct watch_call *c = assert_names(NUDGE_RMDIR, sessions, "x");
	assert_int_equal(c->row, 0);
	done(c);
	/* Its own changes went with it. */
	change(1, "state", 2);
	assert_nothing_ever();
}

static void a_watched_file_goes_also_when_a_user_removes_its_directory(void **state)
{
	const struct node mark = file(1, "state");

	(void)state;
	report(&mark, 1);
	watch_table_went(fake.table, sessions, "x", session(1), true, fake.now_ms);
	/* The kernel sees that the directory is gone; the file goes; the kernel sees it again. */
	done(assert_names(NUDGE_LOOK, sessions, "x"));
	done(assert_names(NUDGE_UNLINK, sessions, "x"));
	done(assert_names(NUDGE_LOOK, sessions, "x"));
	assert_nothing_ever();
}

static void what_the_nudger_has_open_of_what_went_is_closed(void **state)
{
	const struct node marks[] = {session(1), session(2)};

	(void)state;
	report(marks, 2);
	change(1, "state", 1);
	assert_modifies(file(1, "state"));
	watch_table_went(fake.table, sessions, "x", session(1), true, fake.now_ms);
	watch_table_went(fake.table, sessions, "y", session(2), true, fake.now_ms);
	done(assert_names(NUDGE_LOOK, sessions, "x"));
	assert_nothing_ever();
}

static void names_that_wait_are_bounded(void **state)
{
	(void)state;
	report(&sessions, 1);
	for (uint32_t i = 0; i < WATCH_NAMES_MAX + 1000; i++)
		watch_table_came(fake.table, sessions, "s-aaaaaaaaaaaaaaaa", session(i),
				 fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), WATCH_NAMES_MAX);
	/* All of them go again: none is ever mentioned. */
	for (uint32_t i = 0; i < WATCH_NAMES_MAX; i++)
		watch_table_went(fake.table, sessions, "s-aaaaaaaaaaaaaaaa", session(i), false,
				 fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), 0);
	assert_nothing_ever();
}

static void directories_in_what_goes_go_before_it(void **state)
{
	const struct node executors = {.kind = NODE_EXECUTORS};
	const struct node executor = {.kind = NODE_EXECUTOR, .serial = 9};
	const struct node links = {.kind = NODE_EXECUTOR_SESSIONS, .serial = 9};
	const struct node marks[] = {executors, links};

	(void)state;
	report(marks, 2);
	watch_table_went(fake.table, executors, "x", executor, false, fake.now_ms);
	const struct watch_call *c = assert_names(NUDGE_RMDIR, executors, "x");
	assert_int_equal(c->row, node_find(&executor_dir, "sessions"));
	done(c);
	c = assert_names(NUDGE_RMDIR, executors, "x");
	assert_int_equal(c->row, 0);
	done(c);
	assert_nothing_ever();
}

static void names_in_doubt_are_bounded(void **state)
{
	(void)state;
	watch_table_looked_up(fake.table, sessions, fake.now_ms);
	for (uint32_t i = 0; i < 3 * WATCH_NAMES_DOUBT_MAX; i++)
		watch_table_came(fake.table, sessions, "s-aaaaaaaaaaaaaaaa", session(i),
				 fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), WATCH_NAMES_DOUBT_MAX);
	watch_table_marks_same(fake.table, watch_table_ask_scan(fake.table), fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), 0);
	/* There is room again. */
	watch_table_came(fake.table, sessions, "s-aaaaaaaaaaaaaaaa", session(1), fake.now_ms);
	assert_int_equal(watch_table_sessions_waiting(fake.table), 1);
}

static void what_loses_its_watchers_is_dropped(void **state)
{
	const struct node marks[] = {sessions, file(1, "state")};

	(void)state;
	report(marks, 2);
	change(1, "state", 1);
	report(NULL, 0);
	assert_nothing_ever();
	watch_table_came(fake.table, sessions, "x", session(3), fake.now_ms);
	assert_nothing_ever();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_nobody_looks_at_costs_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_change_after_a_look_up_waits_for_a_scan, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_look_up_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_scan_that_finds_nobody_ends_the_doubt, setup,
						teardown),
		cmocka_unit_test_setup_teardown(doubts_that_came_during_a_scan_wait_for_the_next,
						setup, teardown),
		cmocka_unit_test_setup_teardown(objects_in_doubt_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(marks_that_nobody_gave_out_are_ignored, setup,
						teardown),
		cmocka_unit_test_setup_teardown(changes_of_marks_are_reported_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_whole_mount_may_be_watched, setup, teardown),
		cmocka_unit_test_setup_teardown(only_what_shows_something_else_is_announced, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_shows_nothing_is_not_taken_for_changed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(rows_without_a_mark_are_not_announced, setup,
						teardown),
		cmocka_unit_test_setup_teardown(files_that_never_change_have_no_row, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_the_kernel_tells_is_not_told_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(changes_merge_and_the_last_is_announced, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_file_waits_while_it_is_announced, setup,
						teardown),
		cmocka_unit_test_setup_teardown(all_together_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unanswered_call_delays_nobody_else, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_call_is_ended_once, setup, teardown),
		cmocka_unit_test_setup_teardown(calls_of_a_nudger_that_died_are_made_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_scan_is_asked_of_the_next_nudger_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_came_is_announced_before_its_files, setup,
						teardown),
		cmocka_unit_test_setup_teardown(names_of_a_directory_go_in_their_order, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			what_goes_before_it_was_announced_is_never_mentioned, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_there_before_is_announced_when_it_goes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(watched_files_go_before_their_directory, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_watched_file_goes_also_when_a_user_removes_its_directory, setup,
			teardown),
		cmocka_unit_test_setup_teardown(what_the_nudger_has_open_of_what_went_is_closed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(names_that_wait_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(directories_in_what_goes_go_before_it, setup,
						teardown),
		cmocka_unit_test_setup_teardown(names_in_doubt_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(what_loses_its_watchers_is_dropped, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
