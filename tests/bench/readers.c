/*
 * Ten thousand readers blocked in `follow`: what they cost the hub (its resident memory, with its
 * part of the shared area), and that it gets no more threads. All of them must see the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

#define READERS 10000
#define STACK_BYTES ((size_t)32 << 10)
#define QUIET_MS 300
#define QUIET_TRIES 200

struct reader {
	pthread_t thread;
	const char *path;
	size_t *ready; /* atomic, shared */
	bool saw_end;
};

static void *block(void *arg)
{
	struct reader *r = arg;
	char text[64];
	AUTO_CLOSE int fd = open(r->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		bench_die("%s: %s", r->path, strerror(errno));
	__atomic_fetch_add(r->ready, 1, __ATOMIC_RELAXED);
	r->saw_end = read(fd, text, sizeof(text)) == 0;
	return NULL;
}

/* Ticks of the processor that a process used. */
static long used(pid_t pid)
{
	char path[64], text[1024];
	long user, system;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	(void)bench_read(path, text, sizeof(text));
	const char *p = strrchr(text, ')');
	if (!p || sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
			 &system) != 2)
		bench_die("%s cannot be read", path);
	return user + system;
}

/* Until the hub has nothing to do: then every READ has come. */
static void until_quiet(pid_t hub)
{
	long before = used(hub);

	for (size_t i = 0; i < QUIET_TRIES; i++) {
		bench_sleep_ms(QUIET_MS);
		long now = used(hub);

		if (now == before)
			return;
		before = now;
	}
	bench_die("the hub is never idle");
}

int main(void)
{
	AUTO_FREE struct reader *readers = calloc(READERS, sizeof(*readers));
	const struct rlimit files = {.rlim_cur = READERS + 64, .rlim_max = 20000};
	char session[BENCH_NAME_MAX], path[BENCH_PATH_MAX], signal_path[BENCH_PATH_MAX];
	struct bench b = {0};
	struct bench_hub hub;
	pthread_attr_t attr;
	size_t ready = 0, ended = 0;

	if (!readers || setrlimit(RLIMIT_NOFILE, &files) < 0)
		bench_die("not so many descriptors: %s", strerror(errno));
	bench_hub_open(&hub, "HUB_PLAIN");
	bench_start(&hub, "{\"argv\":[\"/bin/sleep\",\"3600\"]}\n", session);
	bench_path(&hub, session, "follow", path);
	bench_path(&hub, session, "signal", signal_path);
	pid_t pid = bench_hub_pid(&hub);
	until_quiet(pid);
	long before = bench_proc(pid, "smaps_rollup", "Rss");
	long threads = bench_proc(pid, "status", "Threads");

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (size_t i = 0; i < READERS; i++) {
		readers[i].path = path;
		readers[i].ready = &ready;
		if (pthread_create(&readers[i].thread, &attr, block, &readers[i]) != 0)
			bench_die("not so many threads");
	}
	(void)pthread_attr_destroy(&attr);
	while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < READERS)
		bench_sleep_ms(10);
	until_quiet(pid);
	long after = bench_proc(pid, "smaps_rollup", "Rss");
	long threads_after = bench_proc(pid, "status", "Threads");

	int64_t since = bench_now_ns();
	bench_write(signal_path, "kill\n");
	for (size_t i = 0; i < READERS; i++) {
		(void)pthread_join(readers[i].thread, NULL);
		ended += readers[i].saw_end;
	}
	double woken_ms = (double)(bench_now_ns() - since) / 1e6;
	if (ended != READERS || bench_hub_pid(&hub) != pid)
		bench_die("%zu of %d readers saw the end", ended, READERS);

	const struct bench_figure figures[] = {
		{.name = "reader_blocked_memory",
		 .unit = "KiB",
		 .value = (double)(after - before) / READERS,
		 .goal_is = GOAL_VALUE_MAX,
		 .goal = 4,
		 .n = READERS},
		{.name = "readers_more_threads",
		 .unit = "threads",
		 .value = (double)(threads_after - threads),
		 .goal_is = GOAL_VALUE_MAX,
		 .goal = 0,
		 .n = READERS},
		{.name = "readers_all_woken", .unit = "ms", .value = woken_ms, .n = READERS},
	};
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		bench_report(&b, &figures[i]);
	bench_table(&b);
	return 0;
}
