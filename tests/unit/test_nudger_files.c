#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "fs/nudger_files.h"
#include "fs/nudger_marks.h"

#define FILES 4

/* What is open is known by a pipe: each file is a write end, and it ends when all are closed. */
struct world {
	struct files *files;
	pthread_t closer;
	int pipe[2];
	int n_opened;
	int refuse; /* errno */
};

static struct world world;

static void *run_closer(void *arg)
{
	files_close(arg);
	return NULL;
}

static int setup(void **state)
{
	(void)state;
	world = (struct world){.files = files_new(FILES)};
	return !world.files || pipe2(world.pipe, O_CLOEXEC) < 0 ||
	       pthread_create(&world.closer, NULL, run_closer, world.files) != 0;
}

static int teardown(void **state)
{
	(void)state;
	files_end(world.files);
	(void)pthread_join(world.closer, NULL);
	world.files = files_free(world.files);
	close_fd(world.pipe[0]);
	close_fd(world.pipe[1]);
	return 0;
}

static int open_one(void *user)
{
	struct world *w = user;

	if (w->refuse)
		return -w->refuse;
	w->n_opened++;
	return fcntl(w->pipe[1], F_DUPFD_CLOEXEC, 0);
}

static int get(uint64_t inode, uint64_t dir)
{
	return files_get(world.files, inode, dir, open_one, &world);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Another thread closes: within a minute. */
static void assert_closes(int fd)
{
	for (int i = 0; i < 60000 && is_open(fd); i++)
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_false(is_open(fd));
}

static void a_file_is_opened_once(void **state)
{
	(void)state;
	int fd = get(1, 10);
	assert_true(fd >= 0);
	assert_int_equal(get(1, 10), fd);
	files_put(world.files, fd, 0);
	files_put(world.files, fd, 0);
	assert_int_equal(get(1, 10), fd);
	files_put(world.files, fd, 0);
	assert_int_equal(world.n_opened, 1);
}

static void what_cannot_be_opened_is_not_kept(void **state)
{
	(void)state;
	world.refuse = ENOENT;
	assert_int_equal(get(1, 10), -ENOENT);
	world.refuse = 0;
	assert_true(get(1, 10) >= 0);
}

static void the_least_recently_used_makes_room(void **state)
{
	int fds[FILES];

	(void)state;
	for (uint64_t i = 0; i < FILES; i++) {
		fds[i] = get(i, 10);
		files_put(world.files, fds[i], 0);
	}
	files_put(world.files, get(0, 10), 0);
	int fd = get(100, 10);
	assert_true(fd >= 0);
	assert_int_equal(get(0, 10), fds[0]);
	assert_int_equal(get(2, 10), fds[2]);
	assert_int_equal(world.n_opened, FILES + 1);
	/* The second one was closed (its number may be the new one's). */
	files_put(world.files, fd, 0);
	files_put(world.files, fds[2], 0);
	files_put(world.files, get(1, 10), 0);
	assert_int_equal(world.n_opened, FILES + 2);
}

static void when_all_are_busy_one_more_is_not_kept(void **state)
{
	int fds[FILES];

	(void)state;
	for (uint64_t i = 0; i < FILES; i++)
		fds[i] = get(i, 10);
	int fd = get(100, 10);
	assert_true(is_open(fd));
	files_put(world.files, fd, 0);
	assert_false(is_open(fd));
	for (size_t i = 0; i < FILES; i++) {
		assert_true(is_open(fds[i]));
		files_put(world.files, fds[i], 0);
	}
}

static void a_broken_one_is_closed(void **state)
{
	(void)state;
	int fd = get(1, 10);
	files_put(world.files, fd, 1);
	assert_closes(fd);
	assert_true(get(1, 10) >= 0);
	assert_int_equal(world.n_opened, 2);
}

static void what_is_forgotten_is_closed_when_nobody_uses_it(void **state)
{
	(void)state;
	int used = get(1, 10), unused = get(2, 10), other = get(3, 11);
	files_put(world.files, unused, 0);
	files_put(world.files, other, 0);
	files_forget(world.files, 10);
	assert_closes(unused);
	assert_true(is_open(used));
	/* It is not given to anybody any more. */
	int again = get(1, 10);
	assert_int_not_equal(again, used);
	files_put(world.files, again, 0);
	files_put(world.files, used, 0);
	assert_closes(used);
	assert_true(is_open(other));
}

static void everything_can_be_forgotten(void **state)
{
	(void)state;
	int used = get(1, 10), unused = get(2, 20);
	files_put(world.files, unused, 0);
	files_forget_all(world.files);
	assert_closes(unused);
	assert_true(is_open(used));
	files_put(world.files, used, 0);
	assert_closes(used);
	int fd = get(1, 10);
	assert_true(fd >= 0);
	files_put(world.files, fd, 0);
	assert_int_equal(get(1, 10), fd);
}

static void what_nobody_watches_is_closed(void **state)
{
	uint64_t inodes[] = {1, 20};
	struct marks marks = {.inodes = inodes, .n = ARRAY_SIZE(inodes)};

	(void)state;
	int marked = get(1, 10), of_marked = get(2, 20), unmarked = get(3, 30);
	files_put(world.files, marked, 0);
	files_put(world.files, of_marked, 0);
	files_put(world.files, unmarked, 0);
	uint64_t since = files_now(world.files);
	/* Its mark may be newer than the scan. */
	int newer = get(4, 40);
	files_put(world.files, newer, 0);
	files_keep(world.files, &marks, since);
	assert_closes(unmarked);
	assert_true(is_open(marked) && is_open(of_marked) && is_open(newer));
	marks.everything = true;
	marks.n = 0;
	files_keep(world.files, &marks, files_now(world.files));
	assert_int_equal(get(4, 40), newer);
	files_put(world.files, newer, 0);
}

/* --- many at once --------------------------------------------------------------------------- */

#define THREADS 8
#define TURNS 2000

static int open_another(void *user)
{
	const struct world *w = user;

	return fcntl(w->pipe[1], F_DUPFD_CLOEXEC, 0);
}

static void *use(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	uint64_t none[1] = {0};
	struct marks marks = {.inodes = none, .n = 1};

	for (int i = 0; i < TURNS; i++) {
		uint64_t inode = (uint64_t)(rand_r(&seed) % (2 * FILES));
		int fd = files_get(world.files, inode, inode % 3, open_another, &world);
		bool good = fd >= 0 && is_open(fd);

		if (!good)
			return (void *)1;
		files_put(world.files, fd, i % 7 == 0);
		if (i % 31 == 0)
			files_forget(world.files, inode % 3);
		if (i % 37 == 0)
			files_keep(world.files, &marks, files_now(world.files));
	}
	return NULL;
}

static void threads_never_get_a_closed_one(void **state)
{
	pthread_t threads[THREADS];
	void *failed;

	(void)state;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, (void *)(uintptr_t)(i + 1)),
				 0);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	/* All of them together hold no more than there are places. */
	files_end(world.files);
	(void)pthread_join(world.closer, NULL);
	world.files = files_free(world.files);
	world.pipe[1] = close_fd(world.pipe[1]);
	char byte;
	assert_int_equal(read(world.pipe[0], &byte, 1), 0); /* the end: nothing was left open */
	world.pipe[0] = close_fd(world.pipe[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_is_opened_once, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_opened_is_not_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(the_least_recently_used_makes_room, setup,
						teardown),
		cmocka_unit_test_setup_teardown(when_all_are_busy_one_more_is_not_kept, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_broken_one_is_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_forgotten_is_closed_when_nobody_uses_it,
						setup, teardown),
		cmocka_unit_test_setup_teardown(everything_can_be_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(what_nobody_watches_is_closed, setup, teardown),
		cmocka_unit_test_setup(threads_never_get_a_closed_one, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
