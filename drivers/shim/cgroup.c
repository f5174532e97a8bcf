#include "drivers/shim/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"
#include "drivers/shim/cgroup_file.h"
#include "drivers/shim/process.h"

#define UNIFIED CGROUP_V1_N
#define CGROUP_TEXT_MAX 4096
/* A workload that makes groups below its own is not followed deeper than this. */
#define CGROUP_DEPTH_MAX 32
/* Freezing waits for processes to leave the kernel; one that does not is signalled all the same. */
#define FREEZE_WAIT_MS 200
#define CPU_PERIOD_US INT64_C(100000)
/* The kernel wants a quota of at least 1 ms, so very small shares get a longer period. */
#define CPU_LONG_PERIOD_US INT64_C(1000000)
#define CPU_MILLIS_SMALL 10
/* So that the products below fit; the kernel refuses what is too much for it. */
#define CPU_MILLIS_MAX INT64_C(1000000000)
#define MEMORY_MB_MAX (INT64_C(1) << 40)

int cgroup_file_read(int dir, const char *name, char *ret, size_t size)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size - 1) {
		ssize_t n = read(fd, ret + len, size - 1 - len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	ret[len] = '\0';
	return (int)len;
}

int cgroup_file_write(int dir, const char *name, const char *text)
{
	AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

int cgroup_file_write_number(int dir, const char *name, int64_t value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	return cgroup_file_write(dir, name, text);
}

uint64_t cgroup_file_key(int dir, const char *name, const char *key)
{
	char text[CGROUP_TEXT_MAX], *rest = text, *line;
	size_t len = strlen(key);

	if (cgroup_file_read(dir, name, text, sizeof(text)) < 0)
		return 0;
	while ((line = strsep(&rest, "\n")))
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
	return 0;
}

void cgroup_name(uint64_t serial, uint32_t attempt, char ret[static CGROUP_NAME_MAX])
{
	(void)snprintf(ret, CGROUP_NAME_MAX, "%016" PRIx64 ".%u", serial, attempt);
}

/* The period, and how much of it: at least 1 ms. */
static int64_t cpu_period(const struct cgroup_limits *limits)
{
	return limits->cpu_millis < CPU_MILLIS_SMALL ? CPU_LONG_PERIOD_US : CPU_PERIOD_US;
}

static int64_t cpu_quota(const struct cgroup_limits *limits)
{
	return limits->cpu_millis * (cpu_period(limits) / 1000);
}

/* Each returns 0, or a negative errno with the name of the file that failed. */
static int set_cpu(const struct cgroup_tree *t, const struct cgroup *g,
		   const struct cgroup_limits *limits, const char **ret_file)
{
	int dir = g->v1_fd[CGROUP_V1_CPU], r;
	char text[64];

	if ((t->v2_limits & SHIM_CAN_CPU) != 0) {
		(void)snprintf(text, sizeof(text), "%" PRId64 " %" PRId64, cpu_quota(limits),
			       cpu_period(limits));
		*ret_file = "cpu.max";
		return cgroup_file_write(g->unified_fd, *ret_file, text);
	}
	*ret_file = "cpu.cfs_period_us";
	r = cgroup_file_write_number(dir, *ret_file, cpu_period(limits));
	if (r < 0)
		return r;
	*ret_file = "cpu.cfs_quota_us";
	return cgroup_file_write_number(dir, *ret_file, cpu_quota(limits));
}

static int set_memory(const struct cgroup_tree *t, const struct cgroup *g,
		      const struct cgroup_limits *limits, const char **ret_file)
{
	bool v2 = (t->v2_limits & SHIM_CAN_MEMORY) != 0;
	int dir = v2 ? g->unified_fd : g->v1_fd[CGROUP_V1_MEMORY];
	int64_t bytes = limits->memory_mb << 20;

	*ret_file = v2 ? "memory.max" : "memory.limit_in_bytes";
	int r = cgroup_file_write_number(dir, *ret_file, bytes);
	if (r < 0)
		return r;
	/* v2 counts swap alone, v1 both together. Not there when the kernel does not swap. */
	*ret_file = v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
	r = cgroup_file_write_number(dir, *ret_file, v2 ? 0 : bytes);
	return r == -ENOENT ? 0 : r;
}

static int set_pids(const struct cgroup_tree *t, const struct cgroup *g,
		    const struct cgroup_limits *limits, const char **ret_file)
{
	bool v2 = (t->v2_limits & SHIM_CAN_PIDS) != 0;

	*ret_file = "pids.max";
	return cgroup_file_write_number(v2 ? g->unified_fd : g->v1_fd[CGROUP_V1_PIDS], *ret_file,
					limits->pids);
}

/* Opens the leaf below one instance's directory, making it when asked. */
static int open_leaf(int instance_fd, const char *name, bool make)
{
	if (make && mkdirat(instance_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	int fd = openat(instance_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Makes the leaf in one hierarchy and opens the file through which a process joins it. */
static int add_leaf(int instance_fd, const char *name, const char *join, int *ret_fd, int *ret_join)
{
	int fd = open_leaf(instance_fd, name, true);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	*ret_join = openat(fd, join, O_WRONLY | O_CLOEXEC);
	return *ret_join < 0 ? -errno : 0;
}

/* Which limit cannot be enforced here; NULL when all can. */
static const char *unenforceable(const struct cgroup_tree *t, const struct cgroup_limits *limits)
{
	if (limits->cpu_millis > 0 && (t->abilities & SHIM_CAN_CPU) == 0)
		return "cpu";
	if (limits->memory_mb > 0 && (t->abilities & SHIM_CAN_MEMORY) == 0)
		return "memory";
	if (limits->pids > 0 && (t->abilities & SHIM_CAN_PIDS) == 0)
		return "pids";
	return NULL;
}

static int create(const struct cgroup_tree *t, const struct cgroup_limits *limits, struct cgroup *g,
		  const char **ret_file)
{
	bool wanted[CGROUP_V1_N] = {
		[CGROUP_V1_MEMORY] = limits->memory_mb > 0,
		[CGROUP_V1_PIDS] = limits->pids > 0,
		[CGROUP_V1_CPU] = limits->cpu_millis > 0,
		[CGROUP_V1_FREEZER] = true,
	};
	int r = 0;

	*ret_file = "cgroup.procs";
	if (t->unified_fd >= 0) {
		r = add_leaf(t->unified_fd, g->name, "cgroup.procs", &g->unified_fd,
			     &g->join_fd[UNIFIED]);
		if (r < 0)
			return r;
	}
	for (int i = 0; i < CGROUP_V1_N; i++) {
		if (!wanted[i] || t->v1_fd[i] < 0)
			continue;
		/* A process that moves its only thread itself through `tasks` spares the kernel a
		 * lock over all forks of the machine, which costs milliseconds. */
		r = add_leaf(t->v1_fd[i], g->name, "tasks", &g->v1_fd[i], &g->join_fd[i]);
		if (r < 0)
			return r;
	}
	if (limits->cpu_millis > 0)
		r = set_cpu(t, g, limits, ret_file);
	if (r == 0 && limits->memory_mb > 0)
		r = set_memory(t, g, limits, ret_file);
	if (r == 0 && limits->pids > 0)
		r = set_pids(t, g, limits, ret_file);
	return r;
}

int cgroup_create(const struct cgroup_tree *t, const char *name, const struct cgroup_limits *limits,
		  struct cgroup *ret, const char **ret_file)
{
	struct cgroup g = CGROUP_NONE;
	const char *file = unenforceable(t, limits);
	int r = file ? -EOPNOTSUPP : 0;

	if (r == 0 && limits->cpu_millis > CPU_MILLIS_MAX) {
		file = "cpu";
		r = -EINVAL;
	}
	if (r == 0 && limits->memory_mb > MEMORY_MB_MAX) {
		file = "memory";
		r = -EINVAL;
	}
	if (r == 0) {
		(void)snprintf(g.name, sizeof(g.name), "%s", name);
		r = create(t, limits, &g, &file);
		if (r < 0) {
			(void)cgroup_remove(t, &g);
			cgroup_close(&g);
		}
	}
	if (r < 0) {
		if (ret_file)
			*ret_file = file;
		return r;
	}
	*ret = g;
	return 0;
}

int cgroup_open(const struct cgroup_tree *t, const char *name, struct cgroup *ret)
{
	struct cgroup g = CGROUP_NONE;
	bool found = false;

	(void)snprintf(g.name, sizeof(g.name), "%s", name);
	if (t->unified_fd >= 0)
		found = (g.unified_fd = open_leaf(t->unified_fd, name, false)) >= 0;
	for (int i = 0; i < CGROUP_V1_N; i++)
		if (t->v1_fd[i] >= 0 && (g.v1_fd[i] = open_leaf(t->v1_fd[i], name, false)) >= 0)
			found = true;
	if (!found)
		return -ENOENT;
	*ret = g;
	return 0;
}

int cgroup_join_self(const struct cgroup *g, bool in_unified)
{
	for (int i = 0; i <= CGROUP_V1_N; i++) {
		if (g->join_fd[i] < 0 || (i == UNIFIED && in_unified))
			continue;
		if (write(g->join_fd[i], "0", 1) < 0)
			return -errno;
	}
	return 0;
}

/* Calls fn for each directory below dir and then for dir itself; returns the last error. */
static int each_group(int dir, int depth, int (*fn)(int dir, void *arg), void *arg)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	int r = 0;

	if (!d) {
		(void)close_fd(copy);
		return -errno;
	}
	while (depth < CGROUP_DEPTH_MAX && (e = readdir(d))) {
		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		AUTO_CLOSE int below = open_leaf(dir, e->d_name, false);
		int e_below = below < 0 ? 0 : each_group(below, depth + 1, fn, arg);
		if (e_below < 0)
			r = e_below;
	}
	int here = fn(dir, arg);
	return here < 0 ? here : r;
}

/* What group_signal() needs to know. */
struct group_signal {
	const char *name; /* of the leaf, to recognise a process that is in it */
	int sig;
	int sent;
};

/* Signals the processes of one group. */
static int group_signal(int dir, void *arg)
{
	struct group_signal *s = arg;
	AUTO_CLOSE int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	AUTO_FCLOSE FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	int pid;

	if (!f)
		return -errno;
	(void)take_fd(&fd);
	while (fscanf(f, "%d", &pid) == 1)
		if (pid > 0 && process_signal_in_group(pid, s->name, s->sig) == 0)
			s->sent++;
	return 0;
}

/* The directory that lists all processes: of the unified leaf, or of any other. */
static int any_dir(const struct cgroup *g)
{
	if (g->unified_fd >= 0)
		return g->unified_fd;
	for (int i = 0; i < CGROUP_V1_N; i++)
		if (g->v1_fd[i] >= 0)
			return g->v1_fd[i];
	return -1;
}

static void wait_frozen(const struct cgroup *g, bool unified)
{
	for (int ms = 0; ms < FREEZE_WAIT_MS; ms++) {
		char text[64];

		if (unified && cgroup_file_key(g->unified_fd, "cgroup.events", "frozen") == 1)
			return;
		if (!unified &&
		    cgroup_file_read(g->v1_fd[CGROUP_V1_FREEZER], "freezer.state", text,
				     sizeof(text)) > 0 &&
		    strcmp(text, "FROZEN\n") == 0)
			return;
		(void)poll(NULL, 0, 1);
	}
}

/* Stops all processes of the leaf, so that none forks; false when nothing here can. */
static bool freeze(const struct cgroup *g, bool on)
{
	if (g->unified_fd >= 0 &&
	    cgroup_file_write(g->unified_fd, "cgroup.freeze", on ? "1" : "0") == 0) {
		if (on)
			wait_frozen(g, true);
		return true;
	}
	if (g->v1_fd[CGROUP_V1_FREEZER] >= 0 &&
	    cgroup_file_write(g->v1_fd[CGROUP_V1_FREEZER], "freezer.state",
			      on ? "FROZEN" : "THAWED") == 0) {
		if (on)
			wait_frozen(g, false);
		return true;
	}
	return false;
}

int cgroup_signal(const struct cgroup *g, int sig)
{
	struct group_signal s = {g->name, sig, 0};
	int dir = any_dir(g);

	if (dir < 0)
		return -ENOENT;
	bool frozen = freeze(g, true);
	int r = each_group(dir, 0, group_signal, &s);
	if (frozen)
		(void)freeze(g, false);
	return r < 0 ? r : s.sent;
}

int cgroup_kill(const struct cgroup *g)
{
	if (g->unified_fd >= 0 && cgroup_file_write(g->unified_fd, "cgroup.kill", "1") == 0)
		return 0;
	int sent = cgroup_signal(g, SIGKILL);
	return sent < 0 ? sent : 0;
}

static int group_has_process(int dir, void *arg)
{
	char text[16];
	int n = cgroup_file_read(dir, "cgroup.procs", text, sizeof(text));

	if (n > 0)
		*(bool *)arg = true;
	return 0;
}

int cgroup_populated(const struct cgroup *g)
{
	bool populated = false;

	if (g->unified_fd >= 0 && cgroup_file_key(g->unified_fd, "cgroup.events", "populated") == 1)
		return 1;
	for (int i = 0; i < CGROUP_V1_N && !populated; i++)
		if (g->v1_fd[i] >= 0)
			(void)each_group(g->v1_fd[i], 0, group_has_process, &populated);
	return populated;
}

uint32_t cgroup_oom_kills(const struct cgroup_tree *t, const struct cgroup *g)
{
	uint64_t kills = 0;

	if ((t->v2_limits & SHIM_CAN_MEMORY) != 0 && g->unified_fd >= 0)
		kills = cgroup_file_key(g->unified_fd, "memory.events", "oom_kill");
	else if (g->v1_fd[CGROUP_V1_MEMORY] >= 0)
		kills = cgroup_file_key(g->v1_fd[CGROUP_V1_MEMORY], "memory.oom_control",
					"oom_kill");
	return kills > UINT32_MAX ? UINT32_MAX : (uint32_t)kills;
}

void cgroup_remove_below(int dir, int depth)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!d) {
		(void)close_fd(copy);
		return;
	}
	while (depth < CGROUP_DEPTH_MAX && (e = readdir(d))) {
		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		AUTO_CLOSE int below = open_leaf(dir, e->d_name, false);
		if (below >= 0)
			cgroup_remove_below(below, depth + 1);
		(void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
}

static int remove_leaf(int instance_fd, int leaf_fd, const char *name)
{
	if (leaf_fd < 0 || unlinkat(instance_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	cgroup_remove_below(leaf_fd, 0);
	if (unlinkat(instance_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return -errno;
}

int cgroup_remove(const struct cgroup_tree *t, const struct cgroup *g)
{
	int r = remove_leaf(t->unified_fd, g->unified_fd, g->name);

	for (int i = 0; i < CGROUP_V1_N; i++) {
		int e = remove_leaf(t->v1_fd[i], g->v1_fd[i], g->name);

		if (e < 0)
			r = e;
	}
	return r;
}

void cgroup_close(struct cgroup *g)
{
	g->unified_fd = close_fd(g->unified_fd);
	for (int i = 0; i < CGROUP_V1_N; i++)
		g->v1_fd[i] = close_fd(g->v1_fd[i]);
	for (int i = 0; i <= CGROUP_V1_N; i++)
		g->join_fd[i] = close_fd(g->join_fd[i]);
}
