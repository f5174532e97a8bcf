#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/owner.h"

void bench_die(const char *fmt, ...)
{
	va_list ap;

	(void)fflush(stdout);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(1);
}

bool bench_long(void)
{
	const char *value = getenv("CLOOP_LONG");

	return value && strcmp(value, "1") == 0;
}

const char *bench_env(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		bench_die("%s is not set: start this with tests/bench/run", name);
	return value;
}

/* --- time and figures ----------------------------------------------------------------------- */

int64_t bench_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec;
}

void bench_sleep_ms(unsigned ms)
{
	const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	(void)nanosleep(&ts, NULL);
}

void bench_pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (size_t i = 0; i < CPU_SETSIZE; i++)
		if (cpu < 0 || i == (size_t)cpu)
			CPU_SET(i, &set);
	if (sched_setaffinity(pid, sizeof(set), &set) < 0)
		bench_die("cannot choose a processor: %s", strerror(errno));
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double bench_percentile(double *v, size_t n, double percent)
{
	if (n == 0)
		bench_die("no samples");
	qsort(v, n, sizeof(*v), by_value);
	size_t i = (size_t)((double)n * percent / 100);
	return v[i < n ? i : n - 1];
}

double bench_median(double *v, size_t n)
{
	return bench_percentile(v, n, 50);
}

static const char *goal_text(const struct bench_figure *f, char *buf, size_t size)
{
	const char *what = f->goal_is == GOAL_RATIO_MIN   ? "ratio >="
			   : f->goal_is == GOAL_RATIO_MAX ? "ratio <="
							  : "value <=";

	if (f->goal_is == GOAL_NONE)
		return "-";
	(void)snprintf(buf, size, "%s %g", what, f->goal);
	return buf;
}

static bool is_met(const struct bench_figure *f)
{
	switch (f->goal_is) {
	case GOAL_RATIO_MIN:
		return f->ratio >= f->goal;
	case GOAL_RATIO_MAX:
		return f->ratio <= f->goal;
	case GOAL_VALUE_MAX:
		return f->value <= f->goal;
	default:
		return true;
	}
}

void bench_report(struct bench *b, const struct bench_figure *figure)
{
	struct bench_figure f = *figure;
	char goal[64];

	if (f.ratio == 0 && f.baseline != 0)
		f.ratio = f.value / f.baseline;
	if (b->n == BENCH_FIGURES_MAX)
		bench_die("too many figures");
	b->figures[b->n++] = f;
	printf("{\"name\":\"%s\",\"value\":%.6g,", f.name, f.value);
	if (f.baseline != 0)
		printf("\"baseline\":%.6g,\"ratio\":%.4g,", f.baseline, f.ratio);
	else
		printf("\"baseline\":null,\"ratio\":null,");
	if (f.goal_is == GOAL_NONE)
		printf("\"goal\":null,");
	else
		printf("\"goal\":\"%s\",\"met\":%s,", goal_text(&f, goal, sizeof(goal)),
		       is_met(&f) ? "true" : "false");
	printf("\"unit\":\"%s\",\"n\":%zu}\n", f.unit, f.n);
	(void)fflush(stdout);
}

void bench_table(const struct bench *b)
{
	char goal[64], baseline[32], ratio[32];

	printf("\n%-36s %12s %12s %8s  %-8s %-15s %s\n", "figure", "value", "baseline", "ratio",
	       "unit", "goal", "");
	for (size_t i = 0; i < b->n; i++) {
		const struct bench_figure *f = &b->figures[i];

		(void)snprintf(baseline, sizeof(baseline), f->baseline != 0 ? "%.4g" : "-",
			       f->baseline);
		(void)snprintf(ratio, sizeof(ratio), f->baseline != 0 ? "%.3g" : "-", f->ratio);
		printf("%-36s %12.4g %12s %8s  %-8s %-15s %s\n", f->name, f->value, baseline, ratio,
		       f->unit, goal_text(f, goal, sizeof(goal)),
		       f->goal_is == GOAL_NONE ? ""
		       : is_met(f)             ? "met"
					       : "SHORT");
	}
}

/* --- files ---------------------------------------------------------------------------------- */

void bench_path(const struct bench_hub *hub, const char *session, const char *file,
		char ret[static BENCH_PATH_MAX])
{
	int n = session ? snprintf(ret, BENCH_PATH_MAX, "%s/sessions/%s/%s", hub->mount, session,
				   file)
			: snprintf(ret, BENCH_PATH_MAX, "%s/%s", hub->mount, file);

	if (n < 0 || n >= BENCH_PATH_MAX)
		bench_die("a path is too long");
}

size_t bench_read(const char *path, char *ret, size_t size)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t at = 0;
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0 && at < size - 1) {
		n = read(fd, ret + at, size - 1 - at);
		if (n > 0)
			at += (size_t)n;
	}
	if (n < 0)
		bench_die("%s: %s", path, strerror(errno));
	ret[at] = '\0';
	return at;
}

void bench_write(const char *path, const char *text)
{
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		bench_die("%s: %s", path, strerror(errno));
}

long bench_proc(pid_t pid, const char *file, const char *key)
{
	char path[64], line[256];
	size_t n = strlen(key);

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			return strtol(line + n + 1, NULL, 10);
	return -1;
}

/* --- hubs ----------------------------------------------------------------------------------- */

void bench_hub_open(struct bench_hub *hub, const char *name)
{
	const char *dir = bench_env(name);

	if (strlen(dir) > BENCH_PATH_MAX / 2)
		bench_die("%s is too long", name);
	(void)snprintf(hub->dir, sizeof(hub->dir), "%s", dir);
	(void)snprintf(hub->mount, sizeof(hub->mount), "%.*s/mnt", BENCH_PATH_MAX / 2, dir);
	bench_path(hub, NULL, "executors/local/start", hub->start);
	bench_path(hub, NULL, "executors/local/drained", hub->drained);
}

static pid_t keeper_pid(const struct bench_hub *hub)
{
	char path[BENCH_PATH_MAX + 16], text[32];

	(void)snprintf(path, sizeof(path), "%s/keeper", hub->dir);
	(void)bench_read(path, text, sizeof(text));
	return (pid_t)strtol(text, NULL, 10);
}

pid_t bench_hub_pid(const struct bench_hub *hub)
{
	char path[BENCH_PATH_MAX], children[4096], command[64];
	pid_t keeper = keeper_pid(hub);

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", keeper, keeper);
	(void)bench_read(path, children, sizeof(children));
	for (char *p = children, *end;; p = end) {
		pid_t pid = (pid_t)strtol(p, &end, 10);

		if (end == p)
			return -1;
		(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, command, sizeof(command) - 1);
		if (n > 0 && strncmp(command, "cloopd: hub", 11) == 0)
			return pid;
	}
}

void bench_hub_kill(const struct bench_hub *hub)
{
	pid_t pid = bench_hub_pid(hub);

	if (pid <= 0 || kill(pid, SIGKILL) < 0)
		bench_die("there is no hub to kill");
}

void bench_hub_drain(const struct bench_hub *hub)
{
	char text[16];

	(void)bench_read(hub->drained, text, sizeof(text));
}

/* --- sessions ------------------------------------------------------------------------------- */

void bench_start(const struct bench_hub *hub, const char *spec,
		 char ret_session[static BENCH_NAME_MAX])
{
	static const char before[] = "{\"session\":\"";
	AUTO_CLOSE int fd = open(hub->start, O_RDWR | O_CLOEXEC);
	char answer[4096];

	if (fd < 0 || write(fd, spec, strlen(spec)) != (ssize_t)strlen(spec))
		bench_die("a start failed: %s", strerror(errno));
	ssize_t n = read(fd, answer, sizeof(answer) - 1);
	if (n < 0)
		bench_die("the answer of a start cannot be read: %s", strerror(errno));
	answer[n] = '\0';
	char *name = answer + sizeof(before) - 1;
	size_t len = strncmp(answer, before, sizeof(before) - 1) == 0 ? strcspn(name, "\"") : 0;
	if (len == 0 || len >= BENCH_NAME_MAX)
		bench_die("a start was answered with: %s", answer);
	memcpy(ret_session, name, len);
	ret_session[len] = '\0';
}

void bench_wait(const struct bench_hub *hub, const char *session)
{
	char path[BENCH_PATH_MAX], text[16];

	bench_path(hub, session, "wait", path);
	(void)bench_read(path, text, sizeof(text));
}

/* Shared by the writers. */
struct starts {
	const struct bench_hub *hub;
	const char *spec;
	size_t n;
	size_t next; /* atomic */
	char (*sessions)[BENCH_NAME_MAX];
};

static void *start_some(void *arg)
{
	struct starts *s = arg;
	char session[BENCH_NAME_MAX];
	size_t i;

	while ((i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->n)
		bench_start(s->hub, s->spec, s->sessions ? s->sessions[i] : session);
	return NULL;
}

void bench_start_many(const struct bench_hub *hub, const char *spec, size_t n, size_t writers,
		      char (*ret_sessions)[BENCH_NAME_MAX])
{
	struct starts s = {.hub = hub, .spec = spec, .n = n, .sessions = ret_sessions};
	AUTO_FREE pthread_t *threads = calloc(writers, sizeof(*threads));

	for (size_t i = 0; i < writers; i++)
		if (!threads || pthread_create(&threads[i], NULL, start_some, &s) != 0)
			bench_die("no memory");
	for (size_t i = 0; i < writers; i++)
		(void)pthread_join(threads[i], NULL);
}
