/*
 * A million finished sessions: a start, the beginning of a listing, the hub's memory, its restart.
 * Ten thousand: `ls -l` against the same directories on the disk. And what one caller waits while
 * another asks for names without end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

#define SOME 10000
#define STARTS_MAX 2000
#define FLOODERS 8
#define NAMES 64

/* A shell command, in which $0 is the directory. */
static double run(const char *command, const char *dir)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command,
			(char *)(uintptr_t)dir, NULL};
	int status;
	pid_t pid;

	int64_t since = bench_now_ns();
	if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) < 0 || status != 0)
		bench_die("failed: %s", command);
	return (double)(bench_now_ns() - since) / 1e6;
}

/* The same command on a directory of ours and on one of the disk, in turns. */
static void compare(struct bench *b, const char *name, const char *command, const char *ours,
		    const char *other, double max_ms)
{
	double a[BENCH_ROUNDS], z[BENCH_ROUNDS];

	for (size_t i = 0; i < BENCH_ROUNDS; i++) {
		a[i] = run(command, ours);
		z[i] = run(command, other);
	}
	const struct bench_figure f = {
		.name = name,
		.unit = "ms",
		.value = bench_median(a, BENCH_ROUNDS),
		.baseline = bench_median(z, BENCH_ROUNDS),
		.goal_is = max_ms > 0 ? GOAL_VALUE_MAX : GOAL_NONE,
		.goal = max_ms,
		.n = BENCH_ROUNDS,
	};
	bench_report(b, &f);
}

static double start_ms(const struct bench_hub *hub)
{
	char session[BENCH_NAME_MAX];
	int64_t since = bench_now_ns();

	bench_start(hub, "{\"argv\":[\"/bin/true\"]}\n", session);
	double ms = (double)(bench_now_ns() - since) / 1e6;
	bench_wait(hub, session);
	return ms;
}

static void compare_starts(struct bench *b, const struct bench_hub *full,
			   const struct bench_hub *plain)
{
	static double a[STARTS_MAX], z[STARTS_MAX];
	size_t n = bench_long() ? STARTS_MAX : 150;

	for (size_t i = 0; i < n; i++) {
		a[i] = start_ms(full);
		z[i] = start_ms(plain);
	}
	const struct bench_figure f = {
		.name = "start_with_1000000_sessions",
		.unit = "ms",
		.value = bench_median(a, n),
		.baseline = bench_median(z, n),
		.goal_is = GOAL_RATIO_MAX,
		.goal = 1.1,
		.n = n,
	};
	bench_report(b, &f);
}

/* --- a flood of lookups --------------------------------------------------------------------- */

struct flood {
	char dir[BENCH_PATH_MAX];
	bool stop; /* atomic */
};

static void *ask(void *arg)
{
	struct flood *f = arg;
	char path[BENCH_PATH_MAX + 32];
	struct stat st;

	for (unsigned i = 0; !__atomic_load_n(&f->stop, __ATOMIC_RELAXED); i++) {
		(void)snprintf(path, sizeof(path), "%s/nobody-%u", f->dir, i % NAMES);
		if (stat(path, &st) == 0 || errno != ENOENT)
			bench_die("%s: %s", path, strerror(errno));
	}
	return NULL;
}

static size_t ask_version(const struct bench_hub *hub, double *ret, size_t n)
{
	char path[BENCH_PATH_MAX], text[64];

	bench_path(hub, NULL, "version", path);
	for (size_t i = 0; i < n; i++) {
		int64_t since = bench_now_ns();

		(void)bench_read(path, text, sizeof(text));
		ret[i] = (double)(bench_now_ns() - since) / 1e6;
		bench_sleep_ms(1);
	}
	return n;
}

static void flood(struct bench *b, const struct bench_hub *hub)
{
	static double alone[STARTS_MAX], waits[STARTS_MAX];
	struct flood f = {0};
	pthread_t threads[FLOODERS];

	bench_path(hub, NULL, "sessions", f.dir);
	size_t n_alone = ask_version(hub, alone, STARTS_MAX / 2);
	for (size_t i = 0; i < FLOODERS; i++)
		if (pthread_create(&threads[i], NULL, ask, &f) != 0)
			bench_die("no memory");
	size_t n = ask_version(hub, waits, STARTS_MAX / 2);
	__atomic_store_n(&f.stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < FLOODERS; i++)
		(void)pthread_join(threads[i], NULL);
	const struct bench_figure worst = {
		.name = "worst_wait_in_a_flood",
		.unit = "ms",
		.value = bench_percentile(waits, n, 100),
		.baseline = bench_percentile(alone, n_alone, 100),
		.goal_is = GOAL_VALUE_MAX,
		.goal = 50,
		.n = n,
	};
	bench_report(b, &worst);
}

/* --- the hub itself ------------------------------------------------------------------------- */

static void restart(struct bench *b, const struct bench_hub *hub)
{
	char path[BENCH_PATH_MAX], text[64];

	bench_path(hub, NULL, "version", path);
	int64_t since = bench_now_ns();
	bench_hub_kill(hub);
	(void)bench_read(path, text, sizeof(text));
	const struct bench_figure f = {
		.name = "restart_with_1000000_sessions",
		.unit = "s",
		.value = (double)(bench_now_ns() - since) / 1e9,
		.goal_is = GOAL_VALUE_MAX,
		.goal = 2,
		.n = 1,
	};
	bench_report(b, &f);
}

static void memory(struct bench *b, const struct bench_hub *full, const struct bench_hub *plain)
{
	const struct bench_figure f = {
		.name = "hub_resident_with_1000000_sessions",
		.unit = "MiB",
		.value = (double)bench_proc(bench_hub_pid(full), "smaps_rollup", "Rss") / 1024,
		.baseline = (double)bench_proc(bench_hub_pid(plain), "smaps_rollup", "Rss") / 1024,
		.goal_is = GOAL_VALUE_MAX,
		.goal = 100,
		.n = 1,
	};
	bench_report(b, &f);
}

static void make_directories(const char *dir)
{
	char path[BENCH_PATH_MAX + 32];

	if (mkdir(dir, 0755) < 0)
		bench_die("%s: %s", dir, strerror(errno));
	for (unsigned i = 0; i < SOME; i++) {
		(void)snprintf(path, sizeof(path), "%s/s-%016u", dir, i);
		if (mkdir(path, 0755) < 0)
			bench_die("%s: %s", path, strerror(errno));
	}
}

int main(void)
{
	char all[BENCH_PATH_MAX], some[BENCH_PATH_MAX], disk[BENCH_PATH_MAX];
	struct bench_hub full, ten_thousand, plain;
	struct bench b = {0};

	bench_hub_open(&full, "HUB_FULL");
	bench_hub_open(&ten_thousand, "HUB_SOME");
	bench_hub_open(&plain, "HUB_PLAIN");
	bench_path(&full, NULL, "sessions", all);
	bench_path(&ten_thousand, NULL, "sessions", some);
	(void)snprintf(disk, sizeof(disk), "%s/tree", bench_env("BENCH_SCRATCH"));
	make_directories(disk);

	compare_starts(&b, &full, &plain);
	compare(&b, "ls_U_head_of_1000000", "ls -U \"$0\" | head > /dev/null", all, disk, 50);
	compare(&b, "ls_l_of_10000", "ls -l \"$0\" > /dev/null", some, disk, 0);
	compare(&b, "ls_of_10000", "ls \"$0\" > /dev/null", some, disk, 0);
	flood(&b, &full);
	memory(&b, &full, &plain);
	restart(&b, &full);
	bench_table(&b);
	return 0;
}
