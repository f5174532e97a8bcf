#include "drivers/shim/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/owner.h"

/* As many processes as one round deals with; more are found by the next. */
#define TREE_MAX 16384
/* A tree that still grows after so many looks is killed as far as it is known, and again later. */
#define TREE_LOOKS_MAX 32
#define STAT_MAX 1024
#define GROUPS_TEXT_MAX 8192

static int read_proc(pid_t pid, const char *file, char *ret, size_t size)
{
	char path[64];
	size_t len = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
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

/* What /proc/<pid>/stat says. */
struct process_stat {
	pid_t parent;       /* field 4 */
	uint64_t starttime; /* field 22 */
	bool dead;          /* a zombie that no thread is left of */
};

static int read_stat(pid_t pid, struct process_stat *ret)
{
	char text[STAT_MAX];
	long threads = 0;
	int r = read_proc(pid, "stat", text, sizeof(text));

	if (r < 0)
		return r;
	/* The name in field 2 may hold anything, also blanks and brackets. */
	char *p = strrchr(text, ')');
	if (!p || strlen(p) < 4)
		return -EBADMSG;
	char state = p[2];
	p += 4;
	pid_t parent = (pid_t)strtol(p, &p, 10);
	for (int field = 5; field < 22; field++) {
		p = strchr(p + 1, ' ');
		if (!p)
			return -EBADMSG;
		if (field == 19)
			threads = strtol(p + 1, NULL, 10);
	}
	ret->parent = parent;
	ret->starttime = strtoull(p + 1, NULL, 10);
	/* A main thread that ended before the others is a zombie, too. */
	ret->dead = (state == 'Z' || state == 'X') && threads <= 1;
	return 0;
}

int process_starttime(pid_t pid, uint64_t *ret)
{
	struct process_stat st;
	int r = read_stat(pid, &st);

	if (r == 0)
		*ret = st.starttime;
	return r;
}

pid_t process_parent(pid_t pid)
{
	struct process_stat st;
	int r = read_stat(pid, &st);

	if (r < 0)
		return r;
	return st.dead ? -ESRCH : st.parent;
}

static int open_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

static int send_pidfd(int pidfd, int sig)
{
	return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

int process_signal_in_group(pid_t pid, const char *group, int sig)
{
	AUTO_CLOSE int pidfd = open_pidfd(pid);
	char text[GROUPS_TEXT_MAX];
	size_t len = strlen(group);

	if (pidfd < 0)
		return pidfd;
	int r = read_proc(pid, "cgroup", text, sizeof(text));
	if (r < 0)
		return r;
	for (const char *p = text; (p = strchr(p, '/')); p++)
		if (strncmp(p + 1, group, len) == 0 && (p[len + 1] == '\n' || p[len + 1] == '/'))
			return send_pidfd(pidfd, sig);
	return -ESRCH;
}

int process_signal_exact(pid_t pid, uint64_t starttime, int sig)
{
	AUTO_CLOSE int pidfd = open_pidfd(pid);
	struct process_stat st;

	if (pidfd < 0)
		return pidfd;
	int r = read_stat(pid, &st);
	if (r < 0)
		return r;
	return st.starttime == starttime && !st.dead ? send_pidfd(pidfd, sig) : -ESRCH;
}

/* The processes found so far, in the order in which they were found. */
struct tree {
	size_t n;
	struct {
		pid_t pid;
		uint64_t starttime;
	} found[TREE_MAX];
};

static bool tree_has(const struct tree *t, pid_t pid, uint64_t starttime)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->found[i].pid == pid && t->found[i].starttime == starttime)
			return true;
	return false;
}

/* Adds a child of `parent`, and sends it sig (0: nothing). */
static void tree_add(struct tree *t, pid_t pid, pid_t parent, int sig)
{
	AUTO_CLOSE int pidfd = open_pidfd(pid);
	struct process_stat st;

	if (pidfd < 0 || t->n == TREE_MAX || read_stat(pid, &st) < 0 || st.parent != parent ||
	    st.dead || tree_has(t, pid, st.starttime))
		return;
	t->found[t->n].pid = pid;
	t->found[t->n].starttime = st.starttime;
	t->n++;
	if (sig != 0)
		(void)send_pidfd(pidfd, sig);
}

/* Adds the children that one thread forked. */
static void add_children_of_thread(struct tree *t, pid_t parent, const char *tid, int sig,
				   const struct process_filter *filter)
{
	char path[96];
	int pid;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)parent, tid);
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	if (!f)
		return;
	while (fscanf(f, "%d", &pid) == 1)
		if (!filter || !filter->spare(pid, filter->arg))
			tree_add(t, pid, parent, sig);
}

static void add_children(struct tree *t, pid_t parent, int sig, const struct process_filter *filter)
{
	char path[32];
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);
	AUTO_CLOSEDIR DIR *d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			add_children_of_thread(t, parent, e->d_name, sig, filter);
}

/* Looks at the whole tree until a look finds nobody new. */
static struct tree *find_tree(pid_t root, int sig, const struct process_filter *filter)
{
	struct tree *t = malloc(sizeof(*t));
	size_t before;

	if (!t)
		return NULL;
	t->n = 0;
	for (int looks = 0; looks < TREE_LOOKS_MAX; looks++) {
		before = t->n;
		add_children(t, root, sig, filter);
		for (size_t i = 0; i < t->n; i++)
			add_children(t, t->found[i].pid, sig, NULL);
		if (t->n == before)
			break;
	}
	return t;
}

int process_tree_signal(pid_t root, int sig, const struct process_filter *filter)
{
	AUTO_FREE struct tree *t = find_tree(root, sig, filter);

	return t ? (int)t->n : -ENOMEM;
}

int process_tree_kill(pid_t root, const struct process_filter *filter)
{
	AUTO_FREE struct tree *t = find_tree(root, SIGSTOP, filter);

	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		(void)process_signal_exact(t->found[i].pid, t->found[i].starttime, SIGKILL);
	return (int)t->n;
}
