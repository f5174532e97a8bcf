/*
 * Output of a workload into its log against `cmd > file` on the same disk, and reading the log
 * through the mount against reading the file itself. The workload writes 64 KiB at a time, and both
 * readers read 128 KiB at a time, as cat(1) does.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

#define READ_BYTES ((size_t)128 << 10)
#define SHORT_BYTES (UINT64_C(256) << 20)
#define LONG_BYTES (UINT64_C(1) << 30)
#define ROUNDS 5

static double mib_per_s(uint64_t bytes, int64_t since_ns)
{
	return (double)bytes / 1048576 * 1e9 / (double)(bench_now_ns() - since_ns);
}

static double log_in(const struct bench_hub *hub, uint64_t bytes,
		     char ret_session[static BENCH_NAME_MAX])
{
	char spec[BENCH_PATH_MAX];

	(void)snprintf(spec, sizeof(spec), "{\"argv\":[\"%s\",\"bytes\",\"%llu\"]}\n",
		       bench_env("EMIT"), (unsigned long long)bytes);
	int64_t since = bench_now_ns();
	bench_start(hub, spec, ret_session);
	bench_wait(hub, ret_session);
	return mib_per_s(bytes, since);
}

/* synced: what a session's log is before the session is shown as finished. */
static double file_in(const char *path, uint64_t bytes, bool synced)
{
	char number[32];
	char *argv[] = {(char *)(uintptr_t)bench_env("EMIT"), (char *)"bytes", number, NULL};
	posix_spawn_file_actions_t actions;
	int status;
	pid_t pid;

	(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)bytes);
	(void)unlink(path);
	int64_t since = bench_now_ns();
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die("%s: %s", path, strerror(errno));
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) < 0 || status != 0)
		bench_die("%s failed", argv[0]);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (synced && fsync(fd) < 0)
		bench_die("fsync: %s", strerror(errno));
	return mib_per_s(bytes, since);
}

static double out(const char *path, uint64_t bytes)
{
	AUTO_FREE char *data = malloc(READ_BYTES);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t got = 0;
	ssize_t n;

	int64_t since = bench_now_ns();
	while ((n = read(fd, data, READ_BYTES)) > 0)
		got += (uint64_t)n;
	if (n < 0 || got != bytes)
		bench_die("%s: %llu of %llu bytes were read", path, (unsigned long long)got,
			  (unsigned long long)bytes);
	return mib_per_s(bytes, since);
}

/* The file behind the newest session's log. */
static void log_file(const struct bench_hub *hub, char ret[static BENCH_PATH_MAX])
{
	char command[2 * BENCH_PATH_MAX];

	(void)snprintf(command, sizeof(command), "ls -t '%s'/home/state/sessions/*/*/log",
		       hub->dir);
	FILE *f = popen(command, "re");
	if (!f || !fgets(ret, BENCH_PATH_MAX, f) || pclose(f) != 0)
		bench_die("there is no log");
	ret[strcspn(ret, "\n")] = '\0';
}

static void report(struct bench *b, const char *name, double *ours, double *others, size_t n,
		   double goal)
{
	double ratios[ROUNDS];

	for (size_t i = 0; i < n; i++)
		ratios[i] = ours[i] / others[i];
	const struct bench_figure f = {
		.name = name,
		.unit = "MiB/s",
		.ratio = bench_median(ratios, n),
		.value = bench_median(ours, n),
		.baseline = bench_median(others, n),
		.goal_is = goal > 0 ? GOAL_RATIO_MIN : GOAL_NONE,
		.goal = goal,
		.n = n,
	};
	bench_report(b, &f);
}

int main(void)
{
	static char sessions[2 * ROUNDS][BENCH_NAME_MAX];
	uint64_t bytes = bench_long() ? LONG_BYTES : SHORT_BYTES;
	double ours[ROUNDS], others[ROUNDS];
	char config[BENCH_PATH_MAX], scratch[BENCH_PATH_MAX], file[BENCH_PATH_MAX];
	struct bench b = {0};
	struct bench_hub hub;

	bench_hub_open(&hub, "HUB_PLAIN");
	bench_path(&hub, NULL, "executors/local/config", config);
	bench_write(config, "{\"kind\":\"localprocess\",\"log_quota_bytes\":2147483648}\n");
	(void)snprintf(scratch, sizeof(scratch), "%s/file", bench_env("BENCH_SCRATCH"));

	for (int synced = 0; synced < 2; synced++) {
		for (size_t i = 0; i < ROUNDS; i++) {
			char *session = sessions[(size_t)synced * ROUNDS + i], path[BENCH_PATH_MAX];

			ours[i] = log_in(&hub, bytes, session);
			others[i] = file_in(scratch, bytes, synced != 0);
			if (i + 1 == ROUNDS && synced)
				break; /* the last one is read */
			(void)snprintf(path, sizeof(path), "%.*s/sessions/%s", BENCH_PATH_MAX / 2,
				       hub.mount, session);
			if (rmdir(path) < 0)
				bench_die("%s: %s", path, strerror(errno));
		}
		if (synced)
			report(&b, "log_in_synced", ours, others, ROUNDS, 0);
		else
			report(&b, "log_in", ours, others, ROUNDS, 0.8);
	}

	char log[BENCH_PATH_MAX];
	bench_path(&hub, sessions[2 * ROUNDS - 1], "log", log);
	log_file(&hub, file);
	(void)out(file, bytes); /* both from the page cache */
	for (size_t i = 0; i < ROUNDS; i++) {
		ours[i] = out(log, bytes);
		others[i] = out(file, bytes);
	}
	report(&b, "log_out", ours, others, ROUNDS, 0.6);
	bench_table(&b);
	return 0;
}
