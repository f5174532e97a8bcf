/*
 * Launches a second, from the first start to the end of the last workload, against starting the
 * same without anything: posix_spawn(3) and waitpid(2) with as many in flight; xargs(1) and
 * task-spooler(1), where they are installed, with eight. Of /bin/true, and of a program that prints
 * a line, whose log has to reach the disk as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

struct workload {
	const char *spec;
	const char *argv[3];
	bool prints; /* started without anything: into a file of its own */
};

static const struct workload silent = {"{\"argv\":[\"/bin/true\"]}\n", {"/bin/true"}, false};
static const struct workload talking = {
	"{\"argv\":[\"/bin/echo\",\"hello\"]}\n", {"/bin/echo", "hello"}, true};

enum { WRITERS = 8 };

/* Runs a command, in which $0 is n; fails when it does. */
static void run_shell(const char *command, size_t n)
{
	char number[24];
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command, number, NULL};
	int status;
	pid_t pid;

	(void)snprintf(number, sizeof(number), "%zu", n);
	int r = posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ);
	if (r != 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		bench_die("failed: %s", command);
}

static void spawn_one(const struct workload *w, size_t number)
{
	char *const argv[] = {(char *)(uintptr_t)w->argv[0], (char *)(uintptr_t)w->argv[1], NULL};
	posix_spawn_file_actions_t actions;
	char path[BENCH_PATH_MAX];
	pid_t pid;

	(void)posix_spawn_file_actions_init(&actions);
	if (w->prints) {
		(void)snprintf(path, sizeof(path), "%s/out.%zu", bench_env("BENCH_SCRATCH"),
			       number);
		(void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path,
						       O_WRONLY | O_CREAT | O_TRUNC, 0600);
	}
	int r = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	if (r != 0)
		bench_die("posix_spawn: %s", strerror(r));
	(void)posix_spawn_file_actions_destroy(&actions);
}

static void spawn_bare(const struct workload *w, size_t n, size_t in_flight)
{
	size_t begun = 0, ended = 0;

	while (ended < n) {
		if (begun < n && begun - ended < in_flight)
			spawn_one(w, begun++);
		else if (waitpid(-1, NULL, 0) > 0)
			ended++;
	}
}

static double rate(size_t n, int64_t since_ns)
{
	return (double)n * 1e9 / (double)(bench_now_ns() - since_ns);
}

static double rate_cloop(const struct bench_hub *hub, const struct workload *w, size_t n,
			 size_t writers)
{
	int64_t since = bench_now_ns();

	bench_start_many(hub, w->spec, n, writers, NULL);
	bench_hub_drain(hub);
	return rate(n, since);
}

static double rate_bare(const struct workload *w, size_t n, size_t in_flight)
{
	int64_t since = bench_now_ns();

	spawn_bare(w, n, in_flight);
	return rate(n, since);
}

static double rate_shell(size_t n, const char *command)
{
	int64_t since = bench_now_ns();

	run_shell(command, n);
	return rate(n, since);
}

/* xargs and task-spooler start no more at once than we have writers. */
static const char xargs[] = "seq \"$0\" | xargs -P8 -n1 /bin/true";
static const char spooler[] = "seq \"$0\" | xargs -P8 -I{} tsp -n /bin/true > /dev/null && tsp -w";

static void compare(struct bench *b, const struct bench_hub *hub, const char *name,
		    const struct workload *w, size_t n, size_t writers, const char *command,
		    double goal)
{
	double ours[BENCH_ROUNDS], others[BENCH_ROUNDS], ratios[BENCH_ROUNDS];

	for (size_t i = 0; i < BENCH_ROUNDS; i++) {
		ours[i] = rate_cloop(hub, w, n, writers);
		others[i] = command ? rate_shell(n, command) : rate_bare(w, n, writers);
		ratios[i] = ours[i] / others[i];
	}
	const struct bench_figure f = {
		.name = name,
		.unit = "1/s",
		.value = bench_median(ours, BENCH_ROUNDS),
		.baseline = bench_median(others, BENCH_ROUNDS),
		.ratio = bench_median(ratios, BENCH_ROUNDS),
		.goal_is = goal > 0 ? GOAL_RATIO_MIN : GOAL_NONE,
		.goal = goal,
		.n = n * BENCH_ROUNDS,
	};
	bench_report(b, &f);
}

int main(void)
{
	struct bench b = {0};
	struct bench_hub hub;
	size_t n = bench_long() ? 1000 : 120;
	char socket[BENCH_PATH_MAX];

	bench_hub_open(&hub, "HUB_PLAIN");
	(void)rate_cloop(&hub, &silent, WRITERS, WRITERS); /* shims to be reused, pages, paths */
	compare(&b, &hub, "launch_8_writers", &silent, n, WRITERS, NULL, 0.8);
	compare(&b, &hub, "launch_8_writers_that_print", &talking, n, WRITERS, NULL, 0);
	compare(&b, &hub, "launch_1_writer", &silent, n / 2, 1, NULL, 0);
	compare(&b, &hub, "launch_8_writers_xargs", &silent, n, WRITERS, xargs, 0);
	if (access("/usr/bin/tsp", X_OK) == 0) {
		(void)snprintf(socket, sizeof(socket), "%s/tsp", bench_env("BENCH_SCRATCH"));
		(void)setenv("TS_SOCKET", socket, 1);
		run_shell("tsp -S 8", 0);
		compare(&b, &hub, "launch_8_writers_task_spooler", &silent, n, WRITERS, spooler, 0);
		run_shell("tsp -K", 0);
	}
	bench_table(&b);
	return 0;
}
