/*
 * From the probe that makes an executor unreachable to its session running elsewhere: the claim, the end
 * of what it left, the choice of another executor, the launch. Beside it a start alone, which is the last
 * of these steps.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/bench.h"

/* What a failover may take beside the start, in milliseconds. */
#define GOAL_MS 1000

/* Writes one command; a probe that fails is refused, and meant to be. */
static int command(const struct bench_hub *hub, const char *file, const char *text)
{
	char path[BENCH_PATH_MAX];

	bench_path(hub, NULL, file, path);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		bench_die("%s: %s", path, strerror(errno));
	ssize_t n = write(fd, text, strlen(text));
	int r = n < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		bench_die("%s: %s", path, strerror(errno));
	(void)close(fd);
}

/* Waits until the workload has said so often that it began. */
static void wait_begun(const char *path, off_t times)
{
	struct stat st;

	for (int i = 0; stat(path, &st) < 0 || st.st_size < 2 * times; i++) {
		if (i > 60000)
			bench_die("%s: it did not begin", path);
		bench_sleep_ms(1);
	}
}

static double ms_since(int64_t ns)
{
	return (double)(bench_now_ns() - ns) / 1e6;
}

static void one_round(const struct bench_hub *hub, const char *sick, int round, double *ret_start,
		      double *ret_failover)
{
	char began[BENCH_PATH_MAX], spec[2 * BENCH_PATH_MAX], session[BENCH_NAME_MAX],
		signal[BENCH_PATH_MAX];
	struct bench_hub node = *hub;

	(void)snprintf(began, sizeof(began), "%s/began.%d", bench_env("BENCH_SCRATCH"), round);
	(void)snprintf(spec, sizeof(spec),
		       "{\"argv\":[\"/bin/sh\",\"-c\",\"echo x >> $0; exec sleep 1000\",\"%.400s\"]}\n",
		       began);
	bench_path(hub, NULL, "executors/sick/start", node.start);
	int64_t at = bench_now_ns();
	bench_start(&node, spec, session);
	wait_begun(began, 1);
	*ret_start = ms_since(at);

	touch(sick);
	for (int i = 0; i < 3; i++) {
		at = bench_now_ns();
		if (command(hub, "executors/sick/probe", "now\n") == 0)
			bench_die("the probe succeeded");
	}
	/* The last of them was the threshold, and has been committed. */
	at = bench_now_ns();
	wait_begun(began, 2);
	*ret_failover = ms_since(at);

	bench_path(hub, session, "signal", signal);
	bench_write(signal, "kill\n");
	bench_wait(hub, session);
	if (unlink(sick) < 0 || command(hub, "executors/sick/probe", "now\n") < 0)
		bench_die("the executor does not come back");
}

int main(void)
{
	double start[BENCH_ROUNDS], failover[BENCH_ROUNDS];
	char sick[BENCH_PATH_MAX], path[BENCH_PATH_MAX], config[2 * BENCH_PATH_MAX];
	struct bench_hub hub;
	struct bench b = {.n = 0};

	bench_hub_open(&hub, "HUB_PLAIN");
	(void)snprintf(sick, sizeof(sick), "%s/sick", bench_env("BENCH_SCRATCH"));
	bench_path(&hub, NULL, "executors/sick", path);
	if (mkdir(path, 0755) < 0)
		bench_die("%s: %s", path, strerror(errno));
	(void)snprintf(config, sizeof(config),
		       "{\"kind\":\"localprocess\",\"health_check\":{\"argv\":[\"/usr/bin/test\",\"!\","
		       "\"-e\",\"%.400s\"]}}\n",
		       sick);
	bench_path(&hub, NULL, "executors/sick/config", path);
	bench_write(path, config);
	for (int i = 0; i < BENCH_ROUNDS; i++)
		one_round(&hub, sick, i, &start[i], &failover[i]);
	const struct bench_figure figure = {
		.name = "unreachable to running elsewhere",
		.unit = "ms",
		.value = bench_median(failover, BENCH_ROUNDS),
		.baseline = bench_median(start, BENCH_ROUNDS),
		.goal_is = GOAL_VALUE_MAX,
		.goal = GOAL_MS,
		.n = BENCH_ROUNDS,
	};
	bench_report(&b, &figure);
	bench_table(&b);
	return 0;
}
