/* Acknowledged means durable: a process that is killed, a machine that loses power. */
#include "tests/unit/store_help.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/store/event.h"
#include "core/store/internal.h"
#include "core/store/meta.h"
#include "core/store/query.h"
#include "tests/unit/store_vfs.h"

/* One operation makes two rows, in two tables, that must never be apart. */
static int number_apply(struct store_tx *tx, int64_t n, struct error *err)
{
	char key[24], text[64];

	(void)snprintf(key, sizeof(key), "n%" PRId64, n);
	(void)snprintf(text, sizeof(text), "{\"type\":\"number\",\"n\":%" PRId64 "}", n);
	int r = meta_set_int(tx, key, n, err);
	return r < 0 ? r : event_append(tx, 1, text, NULL, err);
}

/* More numbers than a life of a child has, and more lives than there are. */
#define LIFE 20000
#define LIVES 16

/* How often each number is in the event log, which is read as the file that it is. */
static unsigned char lines[LIFE * LIVES];

static void count_lines(struct store *s)
{
	int64_t size, n;
	size_t len;

	assert_int_equal(event_size(store_reader(s), &size, NULL), 0);
	AUTO_FREE char *text = malloc((size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(event_read(store_reader(s), 0, text, (size_t)size, &len, NULL), 0);
	assert_int_equal(len, size);
	text[len] = '\0';
	memset(lines, 0, sizeof(lines));
	for (const char *p = text; (p = strstr(p, "\"n\":")); p++) {
		assert_int_equal(sscanf(p, "\"n\":%" SCNd64 "}", &n), 1);
		assert_in_range(n, 0, ARRAY_SIZE(lines) - 1);
		lines[n]++;
	}
}

/* 1 when both rows are there, once; 0 when neither is; anything else fails the test. */
static int present(struct store *s, int64_t n)
{
	char key[24];

	(void)snprintf(key, sizeof(key), "n%" PRId64, n);
	int64_t value = help_get(store_reader(s), key);
	assert_true(value == n || value == -1);
	assert_int_equal(lines[n], value == n);
	return value == n;
}

struct number_op {
	struct store_op op;
	int64_t n;
	int fd;
};

static int number_op_apply(struct store_tx *tx, struct store_op *op, struct error *err)
{
	return number_apply(tx, ((struct number_op *)op)->n, err);
}

static void number_op_done(struct store_op *base, int result, const struct error *err)
{
	struct number_op *op = (struct number_op *)base;

	(void)err;
	if (result != 0 || write(op->fd, &op->n, sizeof(op->n)) != sizeof(op->n))
		_exit(2);
	free(op);
}

static void child_wake(void *user)
{
	(void)!write(*(int *)user, "", 1);
}

/* Submits without end, a hundred on their way at any time, and tells the parent what is done. */
static _Noreturn void child(const char *db, int64_t first, int acks)
{
	struct store_options opts = help_options();
	struct store *s;
	int wake[2];
	int64_t next = first;

	if (pipe2(wake, O_CLOEXEC) < 0)
		_exit(3);
	opts.wake = child_wake;
	opts.user = &wake[1];
	opts.wal_pages = 50;
	if (store_open(db, &opts, &s, NULL) < 0)
		_exit(4);
	for (;;) {
		struct store_stats stats;
		char c;

		store_get_stats(s, &stats);
		for (; stats.waiting < 100 && next < first + LIFE; stats.waiting++) {
			struct number_op *op = calloc(1, sizeof(*op));

			if (!op)
				_exit(5);
			*op = (struct number_op){
				.op = {.apply = number_op_apply, .done = number_op_done},
				.n = next++,
				.fd = acks};
			store_submit(s, &op->op);
		}
		if (read(wake[0], &c, 1) != 1)
			_exit(6);
		store_dispatch(s);
	}
}

#define KILLS 12
#define ACKS_BEFORE_KILL 250

static void a_kill_loses_nothing_that_was_acknowledged(void **state)
{
	struct help_dir *dir = *state;
	static int64_t acked[KILLS];

	for (int life = 0; life < KILLS; life++) {
		int acks[2], status;
		int64_t n, first = (int64_t)life * LIFE;

		assert_int_equal(pipe2(acks, O_CLOEXEC), 0);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child(dir->db, first, acks[1]);
		(void)close(acks[1]);
		acked[life] = first - 1;
		while (acked[life] < first + ACKS_BEFORE_KILL + life * 7 &&
		       read(acks[0], &n, sizeof(n)) == sizeof(n)) {
			assert_int_equal(n, acked[life] + 1);
			acked[life] = n;
		}
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		while (read(acks[0], &n, sizeof(n)) == sizeof(n))
			acked[life] = n;
		(void)close(acks[0]);

		struct store *s = help_open(dir->db);
		count_lines(s);
		for (int64_t i = first; i <= acked[life]; i++)
			assert_int_equal(present(s, i), 1);
		/* What was not acknowledged is there whole or not at all, and in order. */
		bool gone = false;
		for (int64_t i = acked[life] + 1; i < first + LIFE; i++) {
			bool here = present(s, i) == 1;

			assert_false(gone && here);
			gone = gone || !here;
		}
		s = store_free(s);
	}
	AUTO_STORE struct store *s = help_open(dir->db);
	count_lines(s);
	for (int life = 0; life < KILLS; life++)
		for (int64_t i = (int64_t)life * LIFE; i <= acked[life]; i++)
			assert_int_equal(present(s, i), 1);
}

static int number_help(struct store_tx *tx, void *arg, struct error *err)
{
	return number_apply(tx, *(int64_t *)arg, err);
}

static int group_help(struct store_tx *tx, void *arg, struct error *err)
{
	int r = number_apply(tx, *(int64_t *)arg, err);

	return r < 0 ? r : number_apply(tx, *(int64_t *)arg + 1, err);
}

#define NUMBERS 24

/* A life from the creation of the file to an orderly close, through several checkpoints. */
static void record_life(const char *db)
{
	struct store_options opts = help_options();
	struct store *s = NULL;

	opts.vfs = VFS_NAME;
	opts.wal_pages = 24;
	vfs_record_start();
	assert_int_equal(store_open(db, &opts, &s, NULL), 0);
	for (int64_t n = 0; n < NUMBERS; n += 2) {
		if (n % 6 == 4) {
			assert_int_equal(help_run(s, group_help, &n, NULL), 0);
		} else {
			int64_t second = n + 1;

			assert_int_equal(help_run(s, number_help, &n, NULL), 0);
			vfs_mark(n + 1);
			assert_int_equal(help_run(s, number_help, &second, NULL), 0);
		}
		vfs_mark(n + 2);
	}
	s = store_free(s);
	vfs_record_stop();
}

static void check_after_power_cut(const char *db, size_t at, enum vfs_loss loss, int64_t acked)
{
	struct store_options opts = help_options();
	struct store *s = NULL;
	struct error err = {0};
	struct store_stats stats;

	opts.boot_id = "boot-2";
	if (store_open(db, &opts, &s, &err) < 0)
		fail_msg("after %zu events, loss %d: %s", at, (int)loss, err.reason);
	store_get_stats(s, &stats);
	assert_true(stats.checked);
	count_lines(s);
	for (int64_t n = 0; n < NUMBERS; n++)
		if (!present(s, n) && n < acked)
			fail_msg("after %zu events, loss %d: %" PRId64 " of %" PRId64 " is lost",
				 at, (int)loss, n, acked);
	/* And it works. */
	assert_int_equal(help_run(s, help_set, &(struct help_pair){"again", 1}, NULL), 0);
	s = store_free(s);
}

static void a_power_cut_loses_nothing_that_was_acknowledged(void **state)
{
	struct help_dir *dir = *state;
	struct help_dir after;
	int64_t acked = 0;
	int checkpoints = 0;
	char lock[192];

	vfs_install();
	record_life(dir->db);
	/* Memory is fast, and what is on the disk is simulated anyhow. */
	help_dir_init(&after, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
	(void)snprintf(lock, sizeof(lock), "%s.lock", after.db);
	print_message("# %zu events\n", vfs_record_length());
	assert_in_range(vfs_record_length(), 200, 5000);
	for (size_t n = 0; n < vfs_record_length(); n++)
		checkpoints +=
			vfs_record_at(n)->call == VFS_SYNC && vfs_record_at(n)->file == VFS_DB;
	assert_in_range(checkpoints, 4, 100);
	for (size_t n = 0; n <= vfs_record_length(); n++) {
		const struct vfs_event *e = n > 0 ? vfs_record_at(n - 1) : NULL;

		if (e && e->call == VFS_MARK)
			acked = e->offset;
		for (int loss = 0; loss < VFS_LOSSES; loss++) {
			vfs_rebuild(n, (enum vfs_loss)loss, after.db);
			(void)unlink(lock);
			check_after_power_cut(after.db, n, (enum vfs_loss)loss, acked);
		}
	}
	assert_int_equal(acked, NUMBERS);
	help_dir_clean(&after);
	vfs_record_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_kill_loses_nothing_that_was_acknowledged,
						help_dir_make, help_dir_remove),
		cmocka_unit_test_setup_teardown(a_power_cut_loses_nothing_that_was_acknowledged,
						help_dir_make, help_dir_remove),
	};

	return cmocka_run_group_tests_name("store_crash", tests, NULL, NULL);
}
