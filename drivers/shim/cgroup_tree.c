/* Finding the mounted hierarchies and making the instance's groups in them. */
#include "drivers/shim/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"
#include "drivers/shim/cgroup_file.h"

/* Deeper than any slice below a slice that an operator would name. */
#define PARENT_DEPTH_MAX 8
#define CGROUP_TEXT_MAX 4096

static const char *const v1_names[CGROUP_V1_N] = {
	[CGROUP_V1_MEMORY] = "memory",
	[CGROUP_V1_PIDS] = "pids",
	[CGROUP_V1_CPU] = "cpu",
	[CGROUP_V1_FREEZER] = "freezer",
};

/* Files whose presence shows that a v1 controller does what we use it for. */
static const char *const v1_proofs[CGROUP_V1_N] = {
	[CGROUP_V1_MEMORY] = "memory.limit_in_bytes",
	[CGROUP_V1_PIDS] = "pids.max",
	[CGROUP_V1_CPU] = "cpu.cfs_quota_us",
	[CGROUP_V1_FREEZER] = "freezer.state",
};

static const unsigned v1_abilities[CGROUP_V1_N] = {
	[CGROUP_V1_MEMORY] = SHIM_CAN_MEMORY,
	[CGROUP_V1_PIDS] = SHIM_CAN_PIDS,
	[CGROUP_V1_CPU] = SHIM_CAN_CPU,
	[CGROUP_V1_FREEZER] = SHIM_CAN_KILL,
};

#define UNIFIED CGROUP_V1_N

static int open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Whether a comma- or blank-separated list has the word. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; *p != '\0';) {
		size_t n = strcspn(p, ", \n");

		if (n == len && memcmp(p, word, len) == 0)
			return true;
		p += n;
		p += strspn(p, ", \n");
	}
	return false;
}

/* Undoes the octal escapes of mountinfo in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

bool cgroup_mount_parse(char *line, struct cgroup_mount *ret)
{
	char *fields[6], *rest = line, *dash = strstr(line, " - ");
	char *type, *options;

	if (!dash)
		return false;
	*dash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!(fields[i] = strsep(&rest, " ")))
			return false;
	rest = dash + 3;
	type = strsep(&rest, " ");
	(void)strsep(&rest, " ");
	options = rest ? rest : dash;
	options[strcspn(options, "\n")] = '\0';
	unescape(fields[4]);
	*ret = (struct cgroup_mount){
		.path = fields[4], .options = options, .unified = strcmp(type, "cgroup2") == 0};
	return ret->unified || strcmp(type, "cgroup") == 0;
}

/* Takes one line of mountinfo; the first usable mount of each hierarchy counts. */
static void take_mount(char *line, int mounts[static CGROUP_V1_N + 1])
{
	struct cgroup_mount m;

	if (!cgroup_mount_parse(line, &m))
		return;
	if (m.unified) {
		if (mounts[UNIFIED] < 0)
			mounts[UNIFIED] = open(m.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return;
	}
	for (int i = 0; i < CGROUP_V1_N; i++)
		if (mounts[i] < 0 && has_word(m.options, v1_names[i]))
			mounts[i] = open(m.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int find_mounts(int mounts[static CGROUP_V1_N + 1])
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0;

	if (!f)
		return -errno;
	while (getline(&line, &size, f) > 0)
		take_mount(line, mounts);
	return 0;
}

/* The directories of a tree that was given. */
static int open_given(const char *root, int mounts[static CGROUP_V1_N + 1])
{
	AUTO_CLOSE int fd = open_dir(AT_FDCWD, root);

	if (fd < 0)
		return fd;
	if (faccessat(fd, "cgroup.controllers", F_OK, 0) == 0) {
		mounts[UNIFIED] = take_fd(&fd);
		return 0;
	}
	for (int i = 0; i < CGROUP_V1_N; i++)
		mounts[i] = openat(fd, v1_names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mounts[UNIFIED] = openat(fd, "unified", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

/* Passes the controllers on to the groups below. Returns those that could be. */
static unsigned pass_on(int dir)
{
	static const struct {
		const char *name, *word;
		unsigned ability;
	} controllers[] = {{"cpu", "+cpu", SHIM_CAN_CPU},
			   {"memory", "+memory", SHIM_CAN_MEMORY},
			   {"pids", "+pids", SHIM_CAN_PIDS}};
	char text[CGROUP_TEXT_MAX];
	unsigned passed = 0;

	if (cgroup_file_read(dir, "cgroup.controllers", text, sizeof(text)) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
		if (has_word(text, controllers[i].name) &&
		    cgroup_file_write(dir, "cgroup.subtree_control", controllers[i].word) == 0)
			passed |= controllers[i].ability;
	return passed;
}

/*
 * Makes <mount>/<parent>/<instance>. In the unified tree the controllers are passed on at each
 * level, and *ret_passed says which arrive in the leaves.
 */
static int make_instance(int mount, const char *parent, const char *instance, bool unified,
			 unsigned *ret_passed)
{
	char path[PATH_MAX];
	AUTO_CLOSE int at = fcntl(mount, F_DUPFD_CLOEXEC, 3);
	char *rest = path, *name;

	if (at < 0)
		return -errno;
	if (snprintf(path, sizeof(path), "%s/%s", parent, instance) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (unified)
		(void)pass_on(at);
	while ((name = strsep(&rest, "/"))) {
		if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		(void)close_fd(at);
		at = next;
		if (unified)
			*ret_passed = pass_on(at);
	}
	return take_fd(&at);
}

/* Whether a leaf would have the file: found by making one. */
static bool leaf_has(int instance_fd, const char *file)
{
	static const char probe[] = "probe";
	bool made = mkdirat(instance_fd, probe, 0755) == 0;
	AUTO_CLOSE int fd = open_dir(instance_fd, probe);
	bool has = fd >= 0 && faccessat(fd, file, W_OK, AT_EACCESS) == 0;

	if (made)
		(void)unlinkat(instance_fd, probe, AT_REMOVEDIR);
	return has;
}

static bool parent_valid(const char *parent)
{
	int depth = 0;

	if (parent[0] == '\0' || parent[0] == '/')
		return false;
	for (const char *p = parent; *p != '\0'; depth++) {
		size_t n = strcspn(p, "/");

		if (n == 0 || p[0] == '.')
			return false;
		p += n;
		if (*p == '/' && *++p == '\0')
			return false;
	}
	return depth <= PARENT_DEPTH_MAX;
}

static void tree_init(struct cgroup_tree *t)
{
	memset(t, 0, sizeof(*t));
	t->unified_fd = -1;
	for (int i = 0; i < CGROUP_V1_N; i++)
		t->v1_fd[i] = -1;
	for (int i = 0; i <= CGROUP_V1_N; i++)
		t->mount_fd[i] = -1;
}

static void open_unified(struct cgroup_tree *t, const char *parent, const char *instance)
{
	unsigned passed = 0;
	int fd = make_instance(t->mount_fd[UNIFIED], parent, instance, true, &passed);

	if (fd < 0)
		return;
	if (!leaf_has(fd, "cgroup.procs")) {
		(void)close_fd(fd);
		return;
	}
	t->unified_fd = fd;
	t->abilities |= passed;
	t->v2_limits = passed;
	if (leaf_has(fd, "cgroup.kill") || leaf_has(fd, "cgroup.freeze"))
		t->abilities |= SHIM_CAN_KILL;
}

static void open_v1(struct cgroup_tree *t, enum cgroup_v1 which, const char *parent,
		    const char *instance)
{
	int fd = make_instance(t->mount_fd[which], parent, instance, false, NULL);

	if (fd < 0)
		return;
	if (!leaf_has(fd, v1_proofs[which])) {
		(void)close_fd(fd);
		return;
	}
	t->v1_fd[which] = fd;
	t->abilities |= v1_abilities[which];
}

int cgroup_tree_open(struct cgroup_tree *ret, const char *root, const char *parent,
		     const char *instance)
{
	struct cgroup_tree t;

	if (!parent_valid(parent) || !parent_valid(instance))
		return -EINVAL;
	tree_init(&t);
	if (snprintf(t.path, sizeof(t.path), "%s/%s", parent, instance) >= (int)sizeof(t.path))
		return -EINVAL;
	t.given = root != NULL;
	int r = root ? open_given(root, t.mount_fd) : find_mounts(t.mount_fd);
	if (r < 0)
		return r;
	if (t.mount_fd[UNIFIED] >= 0)
		open_unified(&t, parent, instance);
	for (int i = 0; i < CGROUP_V1_N; i++) {
		/* The freezer is only for where the unified tree cannot kill. */
		if (i == CGROUP_V1_FREEZER && (t.abilities & SHIM_CAN_KILL) != 0)
			continue;
		/* A controller is in one of the two. */
		if (t.mount_fd[i] >= 0 && (t.v2_limits & v1_abilities[i]) == 0)
			open_v1(&t, (enum cgroup_v1)i, parent, instance);
	}
	*ret = t;
	return 0;
}

void cgroup_tree_remove(const struct cgroup_tree *t, const char *parent, const char *instance)
{
	for (int i = 0; i <= CGROUP_V1_N; i++) {
		char path[PATH_MAX];

		if (t->mount_fd[i] < 0 ||
		    snprintf(path, sizeof(path), "%s/%s", parent, instance) >= (int)sizeof(path))
			continue;
		/* Upwards, until one is not empty. */
		while (unlinkat(t->mount_fd[i], path, AT_REMOVEDIR) == 0) {
			char *slash = strrchr(path, '/');

			if (!slash)
				break;
			*slash = '\0';
		}
	}
}

void cgroup_tree_close(struct cgroup_tree *t)
{
	t->unified_fd = close_fd(t->unified_fd);
	for (int i = 0; i < CGROUP_V1_N; i++)
		t->v1_fd[i] = close_fd(t->v1_fd[i]);
	for (int i = 0; i <= CGROUP_V1_N; i++)
		t->mount_fd[i] = close_fd(t->mount_fd[i]);
}

bool cgroup_tree_usable(const struct cgroup_tree *t)
{
	if (t->unified_fd >= 0)
		return true;
	for (int i = 0; i < CGROUP_V1_N; i++)
		if (t->v1_fd[i] >= 0)
			return true;
	return false;
}

void cgroup_list(const struct cgroup_tree *t, void (*fn)(const char *name, void *arg), void *arg)
{
	for (int i = 0; i <= CGROUP_V1_N; i++) {
		int at = i == UNIFIED ? t->unified_fd : t->v1_fd[i];
		int fd = at < 0 ? -1 : openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		AUTO_CLOSEDIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
		struct dirent *e;

		if (!d)
			(void)close_fd(fd);
		while (d && (e = readdir(d)))
			if (e->d_type == DT_DIR && e->d_name[0] != '.')
				fn(e->d_name, arg);
	}
}
