/*
 * From a workload's write to the return of a read of `follow`: the wake-up latency of one follower,
 * of a thousand of the same session, and of one while a thousand others wait for another session.
 * The baseline is a read of the workload's own pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

#define STACK_BYTES ((size_t)64 << 10)
#define MANY 1000
#define LINE_BYTES 21

struct follower {
	pthread_t thread;
	int fd;
	double *ms; /* owned by whoever starts it; room for every tick */
	size_t n, max;
	size_t *ready; /* atomic, shared */
};

static void *follow(void *arg)
{
	struct follower *f = arg;
	char text[64 * LINE_BYTES + 1];
	ssize_t n;

	__atomic_fetch_add(f->ready, 1, __ATOMIC_RELAXED);
	while ((n = read(f->fd, text, sizeof(text) - 1)) > 0) {
		int64_t now = bench_now_ns();

		text[n] = '\0';
		for (char *p = text; *p && f->n < f->max; p += LINE_BYTES)
			f->ms[f->n++] = (double)(now - strtoll(p, NULL, 10)) / 1e6;
	}
	f->fd = close_fd(f->fd);
	return NULL;
}

static void begin(struct follower *f, int fd, size_t ticks, size_t *ready)
{
	pthread_attr_t attr;

	*f = (struct follower){
		.fd = fd, .ms = calloc(ticks, sizeof(double)), .max = ticks, .ready = ready};
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (fd < 0 || !f->ms || pthread_create(&f->thread, &attr, follow, f) != 0)
		bench_die("a follower cannot be started: %s", strerror(errno));
	(void)pthread_attr_destroy(&attr);
}

/* Waits for the end of the followers and gathers what they measured. */
static size_t gather(struct follower *f, size_t n, double *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		(void)pthread_join(f[i].thread, NULL);
		memcpy(ret + count, f[i].ms, f[i].n * sizeof(double));
		count += f[i].n;
		free(f[i].ms);
	}
	return count;
}

static void until_blocked(const size_t *ready, size_t n)
{
	while (__atomic_load_n(ready, __ATOMIC_RELAXED) < n)
		bench_sleep_ms(5);
	bench_sleep_ms(200); /* until the last one's read has come */
}

static void go(const char *flag, const size_t *ready, size_t n)
{
	until_blocked(ready, n);
	AUTO_CLOSE int fd = open(flag, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die("%s: %s", flag, strerror(errno));
}

static size_t measure_pipe(size_t ticks, unsigned ms, const char *flag, double *ret)
{
	char count[24], gap[16];
	char *argv[] = {(char *)(uintptr_t)bench_env("EMIT"),
			(char *)"ticks",
			count,
			gap,
			(char *)(uintptr_t)flag,
			NULL};
	posix_spawn_file_actions_t actions;
	struct follower f;
	size_t ready = 0;
	int fds[2];
	pid_t pid;

	(void)snprintf(count, sizeof(count), "%zu", ticks);
	(void)snprintf(gap, sizeof(gap), "%u", ms);
	(void)unlink(flag);
	if (pipe2(fds, O_CLOEXEC) < 0)
		bench_die("pipe: %s", strerror(errno));
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		bench_die("%s cannot be started", argv[0]);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(fds[1]);
	begin(&f, fds[0], ticks, &ready);
	go(flag, &ready, 1);
	size_t n = gather(&f, 1, ret);
	(void)waitpid(pid, NULL, 0);
	return n;
}

static void start_ticks(const struct bench_hub *hub, size_t ticks, unsigned ms, const char *flag,
			char ret_session[static BENCH_NAME_MAX])
{
	char spec[2 * BENCH_PATH_MAX];

	(void)unlink(flag);
	(void)snprintf(spec, sizeof(spec), "{\"argv\":[\"%s\",\"ticks\",\"%zu\",\"%u\",\"%s\"]}\n",
		       bench_env("EMIT"), ticks, ms, flag);
	bench_start(hub, spec, ret_session);
}

static size_t measure_hub(const struct bench_hub *hub, size_t followers, size_t ticks, unsigned ms,
			  const char *flag, double *ret)
{
	AUTO_FREE struct follower *f = calloc(followers, sizeof(*f));
	char session[BENCH_NAME_MAX], path[BENCH_PATH_MAX];
	size_t ready = 0;

	start_ticks(hub, ticks, ms, flag, session);
	bench_path(hub, session, "follow", path);
	for (size_t i = 0; f && i < followers; i++)
		begin(&f[i], open(path, O_RDONLY | O_CLOEXEC), ticks, &ready);
	go(flag, &ready, followers);
	size_t n = f ? gather(f, followers, ret) : 0;
	bench_wait(hub, session);
	return n;
}

static void report(struct bench *b, const char *const names[static 2], double *ours, size_t n,
		   double *others, size_t n_others)
{
	const double percents[] = {50, 99};

	for (size_t i = 0; i < 2; i++) {
		const struct bench_figure f = {
			.name = names[i],
			.unit = "ms",
			.value = bench_percentile(ours, n, percents[i]),
			.baseline = n_others ? bench_percentile(others, n_others, percents[i]) : 0,
			.goal_is = i == 1 ? GOAL_VALUE_MAX : GOAL_NONE,
			.goal = 5,
			.n = n,
		};
		bench_report(b, &f);
	}
}

int main(void)
{
	static const char *const one[] = {"follow_1_p50", "follow_1_p99"};
	static const char *const all[] = {"follow_1000_same_session_p50",
					  "follow_1000_same_session_p99"};
	static const char *const among[] = {"follow_1_among_1000_p50", "follow_1_among_1000_p99"};
	size_t ticks = bench_long() ? 2000 : 300, many_ticks = bench_long() ? 100 : 20;
	AUTO_FREE double *ours = calloc(MANY * many_ticks, sizeof(*ours));
	AUTO_FREE double *others = calloc(MANY + ticks, sizeof(*others));
	AUTO_FREE struct follower *idle = calloc(MANY, sizeof(*idle));
	char flag[BENCH_PATH_MAX], quiet[BENCH_PATH_MAX], session[BENCH_NAME_MAX],
		path[BENCH_PATH_MAX];
	struct bench b = {0};
	struct bench_hub hub;
	size_t ready = 0;

	if (!ours || !others || !idle)
		bench_die("no memory");
	bench_hub_open(&hub, "HUB_PLAIN");
	(void)snprintf(flag, sizeof(flag), "%s/go", bench_env("BENCH_SCRATCH"));
	(void)snprintf(quiet, sizeof(quiet), "%s/quiet", bench_env("BENCH_SCRATCH"));

	size_t n_others = measure_pipe(ticks, 5, flag, others);
	size_t n = measure_hub(&hub, 1, ticks, 5, flag, ours);
	report(&b, one, ours, n, others, n_others);

	n = measure_hub(&hub, MANY, many_ticks, 250, flag, ours);
	report(&b, all, ours, n, NULL, 0);

	start_ticks(&hub, 1, 1, quiet, session);
	bench_path(&hub, session, "follow", path);
	for (size_t i = 0; i < MANY; i++)
		begin(&idle[i], open(path, O_RDONLY | O_CLOEXEC), 1, &ready);
	until_blocked(&ready, MANY);
	n = measure_hub(&hub, 1, ticks, 5, flag, ours);
	go(quiet, &ready, MANY);
	(void)gather(idle, MANY, others);
	n_others = measure_pipe(ticks, 5, flag, others);
	report(&b, among, ours, n, others, n_others);
	bench_table(&b);
	return 0;
}
