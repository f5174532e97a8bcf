/*
 * A file of the tree against an empty file of the same library (empty_fuse): reading `state`, and
 * writing a control file, which has one SQLite commit more to do (synchronous=FULL, the same disk).
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"
#include "tests/bench/bench.h"

/* Operations in a row, so that caches are as they are in a loop, then the other side. */
#define BLOCK 100
#define BLOCKS_MAX 200

struct side {
	const char *path;
	int fd;      /* kept open; -1: opened for each write */
	sqlite3 *db; /* NULL: none to commit to */
	const char *words[2];
	unsigned turn;
};

typedef void operation(struct side *side);

/* The median of a block. */
static double measure(operation *fn, struct side *side)
{
	double us[BLOCK];

	for (size_t i = 0; i < BLOCK; i++) {
		int64_t since = bench_now_ns();

		fn(side);
		us[i] = (double)(bench_now_ns() - since) / 1e3;
	}
	return bench_median(us, BLOCK);
}

static void compare(struct bench *b, const char *name, operation *fn, struct side *ours,
		    struct side *other, size_t blocks, double goal)
{
	double a[BLOCKS_MAX], z[BLOCKS_MAX], ratios[BLOCKS_MAX];

	for (size_t i = 0; i < blocks; i++) {
		a[i] = measure(fn, ours);
		z[i] = measure(fn, other);
		ratios[i] = a[i] / z[i];
	}
	const struct bench_figure f = {
		.name = name,
		.unit = "us",
		.ratio = bench_median(ratios, blocks),
		.value = bench_median(a, blocks),
		.baseline = bench_median(z, blocks),
		.goal_is = goal > 0 ? GOAL_RATIO_MAX : GOAL_NONE,
		.goal = goal,
		.n = blocks * BLOCK,
	};
	bench_report(b, &f);
}

static void read_once(struct side *side)
{
	AUTO_CLOSE int fd = open(side->path, O_RDONLY | O_CLOEXEC);
	char text[256];

	if (fd < 0 || read(fd, text, sizeof(text)) < 0)
		bench_die("%s: %s", side->path, strerror(errno));
}

static void sql(sqlite3 *db, const char *text)
{
	char *message = NULL;

	if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
		bench_die("SQLite: %s", message);
}

static sqlite3 *open_database(const char *dir)
{
	char path[BENCH_PATH_MAX];
	sqlite3 *db;

	(void)snprintf(path, sizeof(path), "%s/baseline.db", dir);
	if (sqlite3_open(path, &db) != SQLITE_OK)
		bench_die("SQLite: %s", sqlite3_errmsg(db));
	sql(db, "PRAGMA journal_mode=WAL");
	sql(db, "PRAGMA synchronous=FULL");
	sql(db, "CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL)");
	return db;
}

static void write_once(struct side *side)
{
	const char *word = side->words[side->turn++ % 2];
	AUTO_CLOSE int opened = side->fd < 0 ? open(side->path, O_WRONLY | O_CLOEXEC) : -1;
	int fd = side->fd < 0 ? opened : side->fd;

	if (fd < 0 || write(fd, word, strlen(word)) < 0)
		bench_die("%s: %s", side->path, strerror(errno));
	if (side->db)
		sql(side->db, "INSERT INTO word (text) VALUES ('cordoned for a reason that has "
			      "some length')");
}

int main(void)
{
	size_t blocks = bench_long() ? 150 : 20;
	char session[BENCH_NAME_MAX], state[BENCH_PATH_MAX], control[BENCH_PATH_MAX];
	char flat[BENCH_PATH_MAX], deep[BENCH_PATH_MAX];
	struct bench b = {0};
	struct bench_hub hub;

	bench_hub_open(&hub, "HUB_PLAIN");
	bench_start(&hub, "{\"argv\":[\"/bin/true\"]}\n", session);
	bench_wait(&hub, session);
	bench_path(&hub, session, "state", state);
	bench_path(&hub, NULL, "executors/local/state", control);
	(void)snprintf(flat, sizeof(flat), "%s/file", bench_env("BENCH_EMPTY"));
	(void)snprintf(deep, sizeof(deep), "%s/dir/id/file", bench_env("BENCH_EMPTY"));

	const pid_t pinned[] = {0, bench_hub_pid(&hub),
				(pid_t)strtol(bench_env("BENCH_EMPTY_PID"), NULL, 10)};
	for (size_t i = 0; i < ARRAY_SIZE(pinned); i++)
		bench_pin(pinned[i], 0);
	compare(&b, "read_state", read_once, &(struct side){.path = state},
		&(struct side){.path = deep}, blocks, 1.25);
	compare(&b, "read_state_flat", read_once, &(struct side){.path = state},
		&(struct side){.path = flat}, blocks, 0);
	for (size_t i = 0; i < ARRAY_SIZE(pinned); i++)
		bench_pin(pinned[i], -1);

	struct side ours = {.path = control,
			    .fd = open(control, O_WRONLY | O_CLOEXEC),
			    .words = {"cordon\n", "uncordon\n"}};
	struct side other = {.path = deep,
			     .fd = open(deep, O_WRONLY | O_CLOEXEC),
			     .words = {"cordon\n", "uncordon\n"},
			     .db = open_database(bench_env("BENCH_SCRATCH"))};
	compare(&b, "write_control", write_once, &ours, &other, blocks, 1.2);
	(void)close(ours.fd);
	(void)close(other.fd);
	ours.fd = other.fd = -1;
	compare(&b, "write_control_open_close", write_once, &ours, &other, blocks, 0);
	(void)sqlite3_close(other.db);
	bench_table(&b);
	return 0;
}
