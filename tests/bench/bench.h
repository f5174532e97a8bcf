/*
 * What the benchmarks share: the place they run in, clocks, sessions, and figures.
 *
 * A benchmark compares cloop with something that everybody knows, in the same run and in turns
 * (A B A B), and reports medians: the figure of one machine at one moment says little, the ratio
 * much. `run` (beside this file) starts the hubs and says where they are in the environment. Each
 * program prints one JSON object a line for each figure, and a table of all of them at its end.
 *
 * A benchmark that cannot go on ends at once (bench_die); `run` cleans up. With CLOOP_LONG=1 the
 * runs are longer (bench_long).
 */
#ifndef CLOOP_TESTS_BENCH_BENCH_H
#define CLOOP_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_PATH_MAX 512
#define BENCH_NAME_MAX 72 /* a session's id with its end */
#define BENCH_FIGURES_MAX 16

/* Turns of A and B: enough for a median, few enough for a machine that others use. */
#define BENCH_ROUNDS 7

/* What a figure is held against. */
enum bench_goal { GOAL_NONE, GOAL_RATIO_MIN, GOAL_RATIO_MAX, GOAL_VALUE_MAX };

struct bench_figure {
	const char *name;
	const char *unit;
	double value;
	double baseline; /* 0: there is none */
	double ratio;    /* 0: value / baseline */
	enum bench_goal goal_is;
	double goal;
	size_t n; /* samples */
};

struct bench {
	struct bench_figure figures[BENCH_FIGURES_MAX];
	size_t n;
};

/* Prints the figure as JSON and keeps it for the table. name and unit have static storage. */
void bench_report(struct bench *b, const struct bench_figure *figure);
void bench_table(const struct bench *b);

__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *fmt, ...);
bool bench_long(void);
/* An environment variable that `run` sets. */
const char *bench_env(const char *name);

int64_t bench_now_ns(void);
void bench_sleep_ms(unsigned ms);
/* Sort v. */
double bench_median(double *v, size_t n);
double bench_percentile(double *v, size_t n, double percent);

/*
 * Keeps a process (0: the calling thread) on one processor, or lets it go again (-1). Where two
 * processes take turns, the time is that of waking another processor or not, as chance has it.
 */
void bench_pin(pid_t pid, int cpu);

/* --- a hub: what `run` names in the environment is its directory --- */

struct bench_hub {
	char dir[BENCH_PATH_MAX]; /* said: its standard error; home/state: its state */
	char mount[BENCH_PATH_MAX];
	char start[BENCH_PATH_MAX]; /* executors/local/start */
	char drained[BENCH_PATH_MAX];
};

/* name: HUB_PLAIN, HUB_SOME, HUB_FULL */
void bench_hub_open(struct bench_hub *hub, const char *name);
/* The process that serves now, -1 while there is none. */
pid_t bench_hub_pid(const struct bench_hub *hub);
/* Kills it as a bug would. */
void bench_hub_kill(const struct bench_hub *hub);
/* Blocks until nothing is in flight. */
void bench_hub_drain(const struct bench_hub *hub);

/* A file of a session or, with session NULL, of the mount. */
void bench_path(const struct bench_hub *hub, const char *session, const char *file,
		char ret[static BENCH_PATH_MAX]);
/* Reads a file at once; ret is a string. Returns its length. */
size_t bench_read(const char *path, char *ret, size_t size);
void bench_write(const char *path, const char *text);

/* Opens `start`, writes the spec, reads the answer and closes, as a script does. */
void bench_start(const struct bench_hub *hub, const char *spec,
		 char ret_session[static BENCH_NAME_MAX]);
/* Blocks until it has ended. */
void bench_wait(const struct bench_hub *hub, const char *session);

/* Several writers at once; ret_sessions may be NULL. Returns when all were answered. */
void bench_start_many(const struct bench_hub *hub, const char *spec, size_t n, size_t writers,
		      char (*ret_sessions)[BENCH_NAME_MAX]);

/* A value of /proc/PID/status or smaps_rollup, in KiB for sizes; -1 when it is not there. */
long bench_proc(pid_t pid, const char *file, const char *key);

#endif
