/*
 * A fleet of a thousand executors that are probed all the time: the longest that a reader of `version`
 * waits for the hub's loop, against the same fleet left alone, in turns. Beside it how many probes end
 * in a second, and what reading `status` takes, which has a line for each executor.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

#define EXECUTORS 1000
#define READS_MAX 20000
#define ROUNDS 5
#define STALL_GOAL_MS 10
#define STATUS_BYTES_MAX (1 << 20)
#define METRICS_BYTES_MAX (1 << 16)

/* Becomes hub.json in one step. That it is in force shows in the rate of the probes. */
static void settle(const struct bench_hub *hub, const char *interval)
{
	static int generation;
	char path[2 * BENCH_PATH_MAX], next[3 * BENCH_PATH_MAX], text[512];

	(void)snprintf(path, sizeof(path), "%s/home/etc", hub->dir);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		bench_die("%s: %s", path, strerror(errno));
	(void)snprintf(path, sizeof(path), "%s/home/etc/hub.json", hub->dir);
	(void)snprintf(next, sizeof(next), "%s.%d", path, generation++);
	(void)snprintf(text, sizeof(text),
		       "{\"supervisor\":{\"interval\":\"%s\",\"jitter_fraction\":0.2,"
		       "\"max_concurrent_probes\":8}}\n",
		       interval);
	FILE *file = fopen(next, "we");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0 || rename(next, path) < 0)
		bench_die("%s: %s", path, strerror(errno));
}

static void make_fleet(const struct bench_hub *hub)
{
	char path[BENCH_PATH_MAX], file[64];

	for (int i = 0; i < EXECUTORS; i++) {
		(void)snprintf(file, sizeof(file), "executors/node-%04d", i);
		bench_path(hub, NULL, file, path);
		if (mkdir(path, 0755) < 0)
			bench_die("%s: %s", path, strerror(errno));
		(void)snprintf(file, sizeof(file), "executors/node-%04d/config", i);
		bench_path(hub, NULL, file, path);
		bench_write(path, "{\"kind\":\"localprocess\"}\n");
	}
}

/* Probes that have ended well. */
static double count_probes(const struct bench_hub *hub)
{
	static const char name[] = "cloop_probes_total{result=\"ok\"} ";
	static char text[METRICS_BYTES_MAX];
	char path[BENCH_PATH_MAX];

	bench_path(hub, NULL, "metrics", path);
	(void)bench_read(path, text, sizeof(text));
	const char *at = strstr(text, name);
	if (!at)
		bench_die("metrics does not count probes");
	return strtod(at + sizeof(name) - 1, NULL);
}

static double rate(const struct bench_hub *hub, unsigned ms)
{
	double before = count_probes(hub);
	int64_t since = bench_now_ns();

	bench_sleep_ms(ms);
	double n = count_probes(hub) - before;
	return n / ((double)(bench_now_ns() - since) / 1e9);
}

/* Until the probes are as often as they should be, or have ended. */
static void wait_for(const struct bench_hub *hub, bool probing)
{
	for (int i = 0; i < 120; i++) {
		double r = rate(hub, 500);

		if (probing ? r >= EXECUTORS / 10.0 : r < 1)
			return;
	}
	bench_die("the probes do not %s", probing ? "begin" : "end");
}

/* The longest of the waits; all of them in ret. */
static double worst_ms(const struct bench_hub *hub, double *ret, size_t n)
{
	char path[BENCH_PATH_MAX], text[64];
	double worst = 0;

	bench_path(hub, NULL, "version", path);
	for (size_t i = 0; i < n; i++) {
		int64_t since = bench_now_ns();

		(void)bench_read(path, text, sizeof(text));
		ret[i] = (double)(bench_now_ns() - since) / 1e6;
		worst = ret[i] > worst ? ret[i] : worst;
		bench_sleep_ms(1);
	}
	return worst;
}

static void measure_stalls(struct bench *b, const struct bench_hub *hub)
{
	static double probed[ROUNDS * READS_MAX], alone[ROUNDS * READS_MAX];
	double worst_probed[ROUNDS], worst_alone[ROUNDS], rates[ROUNDS];
	size_t n = bench_long() ? READS_MAX : 2000;

	for (size_t i = 0; i < ROUNDS; i++) {
		settle(hub, "1s");
		wait_for(hub, true);
		double before = count_probes(hub);
		int64_t since = bench_now_ns();
		worst_probed[i] = worst_ms(hub, &probed[i * n], n);
		rates[i] = (count_probes(hub) - before) / ((double)(bench_now_ns() - since) / 1e9);
		settle(hub, "1h");
		wait_for(hub, false);
		worst_alone[i] = worst_ms(hub, &alone[i * n], n);
	}
	const struct bench_figure worst = {
		.name = "worst_wait_with_1000_probed",
		.unit = "ms",
		.value = bench_median(worst_probed, ROUNDS),
		.baseline = bench_median(worst_alone, ROUNDS),
		.goal_is = GOAL_VALUE_MAX,
		.goal = STALL_GOAL_MS,
		.n = n * ROUNDS,
	};
	bench_report(b, &worst);
	const struct bench_figure p99 = {
		.name = "p99_wait_with_1000_probed",
		.unit = "ms",
		.value = bench_percentile(probed, n * ROUNDS, 99),
		.baseline = bench_percentile(alone, n * ROUNDS, 99),
		.n = n * ROUNDS,
	};
	bench_report(b, &p99);
	const struct bench_figure f = {
		.name = "probes_of_1000",
		.unit = "/s",
		.value = bench_median(rates, ROUNDS),
		.n = ROUNDS,
	};
	bench_report(b, &f);
}

static void measure_status(struct bench *b, const struct bench_hub *hub)
{
	static char text[STATUS_BYTES_MAX];
	char path[BENCH_PATH_MAX];
	double ms[100];

	bench_path(hub, NULL, "status", path);
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		int64_t since = bench_now_ns();

		(void)bench_read(path, text, sizeof(text));
		ms[i] = (double)(bench_now_ns() - since) / 1e6;
	}
	const struct bench_figure f = {
		.name = "status_of_1000_executors",
		.unit = "ms",
		.value = bench_median(ms, ARRAY_SIZE(ms)),
		.n = ARRAY_SIZE(ms),
	};
	bench_report(b, &f);
}

int main(void)
{
	struct bench b = {.n = 0};
	struct bench_hub hub;

	bench_hub_open(&hub, "HUB_PLAIN");
	make_fleet(&hub);
	measure_stalls(&b, &hub);
	measure_status(&b, &hub);
	bench_table(&b);
	return 0;
}
