/*
 * Running workloads: the private memory of a shim, and how long after kill -9 of the hub the next
 * one has adopted a thousand of them. The baseline of the latter is a hub without any: its first
 * answer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

#define SESSIONS 1000
#define WRITERS 8
#define ROUNDS 3
/* A hub that dies often is started again more slowly (fs/keeper_hub.c): let it be forgotten. */
#define CALM_MS 11000
#define ADOPTED_TRIES 60000

/* The private KiB of each shim that has a workload. The pid namespace holds no other shims. */
static size_t shim_memory(double *ret, size_t max)
{
	AUTO_CLOSEDIR DIR *proc = opendir("/proc");
	char path[BENCH_PATH_MAX], text[64];
	struct dirent *e;
	size_t n = 0;

	while (proc && n < max && (e = readdir(proc))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (len != 11 || memcmp(text, "cloop-shim\n", 11) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
		if (bench_read(path, text, sizeof(text)) == 0)
			continue;
		ret[n++] = (double)(bench_proc(pid, "smaps_rollup", "Private_Clean") +
				    bench_proc(pid, "smaps_rollup", "Private_Dirty"));
	}
	return n;
}

static size_t count_words(const char *path, off_t *at, const char *word)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[65536];
	size_t count = 0;
	ssize_t n;

	/* Whole lines only; the rest is read again next time. */
	while (fd >= 0 && (n = pread(fd, text, sizeof(text) - 1, *at)) > 0) {
		text[n] = '\0';
		char *end = strrchr(text, '\n');
		if (!end)
			break;
		end[1] = '\0';
		*at += end + 1 - text;
		for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
			count++;
	}
	return count;
}

/* Kills the hub; the time until the next one has said so often that it adopted a session. */
static double adoption(const struct bench_hub *hub, size_t sessions)
{
	char said[BENCH_PATH_MAX + 8], version[BENCH_PATH_MAX], text[64];
	size_t adopted = 0;
	off_t at = 0;

	(void)snprintf(said, sizeof(said), "%s/said", hub->dir);
	bench_path(hub, NULL, "status", version);
	(void)count_words(said, &at, ": adopted");
	int64_t since = bench_now_ns();
	bench_hub_kill(hub);
	(void)bench_read(version, text, sizeof(text));
	for (size_t i = 0; adopted < sessions && i < ADOPTED_TRIES; i++) {
		adopted += count_words(said, &at, ": adopted");
		if (adopted < sessions)
			bench_sleep_ms(1);
	}
	if (adopted < sessions)
		bench_die("%zu of %zu sessions were adopted", adopted, sessions);
	return (double)(bench_now_ns() - since) / 1e9;
}

int main(void)
{
	static char sessions[SESSIONS][BENCH_NAME_MAX];
	static double kib[SESSIONS];
	double ours[ROUNDS], others[ROUNDS];
	struct bench b = {0};
	struct bench_hub hub;

	bench_hub_open(&hub, "HUB_PLAIN");
	for (size_t i = 0; i < ROUNDS; i++) {
		bench_sleep_ms(CALM_MS);
		others[i] = adoption(&hub, 0);
	}
	bench_start_many(&hub, "{\"argv\":[\"/bin/sleep\",\"3600\"]}\n", SESSIONS, WRITERS,
			 sessions);
	size_t n = shim_memory(kib, SESSIONS);
	if (n != SESSIONS)
		bench_die("%zu shims have a workload", n);
	const struct bench_figure memory = {
		.name = "shim_private_memory",
		.unit = "MiB",
		.value = bench_median(kib, n) / 1024,
		.goal_is = GOAL_VALUE_MAX,
		.goal = 0.3,
		.n = n,
	};
	bench_report(&b, &memory);
	for (size_t i = 0; i < ROUNDS; i++) {
		bench_sleep_ms(CALM_MS);
		ours[i] = adoption(&hub, SESSIONS);
	}
	const struct bench_figure adopted = {
		.name = "adoption_of_1000_sessions",
		.unit = "s",
		.value = bench_median(ours, ROUNDS),
		.baseline = bench_median(others, ROUNDS),
		.goal_is = GOAL_VALUE_MAX,
		.goal = 1,
		.n = ROUNDS,
	};
	bench_report(&b, &adopted);
	for (size_t i = 0; i < SESSIONS; i++) {
		char path[BENCH_PATH_MAX];

		bench_path(&hub, sessions[i], "signal", path);
		bench_write(path, "kill\n");
	}
	bench_hub_drain(&hub);
	bench_table(&b);
	return 0;
}
