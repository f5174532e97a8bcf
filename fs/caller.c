#include "fs/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/owner.h"
#include "fs/context.h"

/* status with 65536 groups of eleven bytes each fits. */
#define STATUS_MAX (1024 * 1024)

static int read_status(pid_t tid, struct buf *out)
{
	char path[64], chunk[4096];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", tid);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0)
			return -errno;
		if (n == 0)
			return out->failed;
		buf_append(out, chunk, (size_t)n);
	}
}

/* The text behind "\n<key>:\t", NULL when there is none. A task's name cannot hold a newline here. */
static const char *status_value(const char *status, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = strchr(status, '\n'); p; p = strchr(p + 1, '\n'))
		if (strncmp(p + 1, key, n) == 0 && p[1 + n] == ':')
			return p + 1 + n + 1;
	return NULL;
}

static int parse_groups(const char *text, struct caller *c)
{
	size_t cap = 0;

	while (*text && *text != '\n') {
		char *end;
		unsigned long gid = strtoul(text, &end, 10);

		if (end == text) {
			text++;
			continue;
		}
		if (c->n_groups == CALLER_GROUPS_MAX)
			return -E2BIG;
		if (c->n_groups == cap) {
			cap = cap ? cap * 2 : 16;
			uint32_t *groups = reallocarray(c->groups, cap, sizeof(*groups));
			if (!groups)
				return -ENOMEM;
			c->groups = groups;
		}
		c->groups[c->n_groups++] = (uint32_t)gid;
		text = end;
	}
	return 0;
}

/* A namespace of a process; pid is a number or "self". */
static int namespace_of(const char *pid, const char *which, dev_t *ret_dev, ino_t *ret_ino)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, which);
	if (stat(path, &st) < 0)
		return -errno;
	*ret_dev = st.st_dev;
	*ret_ino = st.st_ino;
	return 0;
}

static int namespaces_of(const char *pid, struct caller_home *ret)
{
	struct caller_home home = {0};
	int r = namespace_of(pid, "pid", &home.pid_dev, &home.pid_ino);

	if (r == 0)
		r = namespace_of(pid, "user", &home.user_dev, &home.user_ino);
	if (r == 0)
		*ret = home;
	return r;
}

int caller_home_read(struct caller_home *ret)
{
	return namespaces_of("self", ret);
}

static bool is_at_home(const struct caller_home *home, pid_t tid)
{
	struct caller_home theirs;
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", tid);
	return namespaces_of(pid, &theirs) == 0 && home->pid_ino != 0 &&
	       theirs.pid_dev == home->pid_dev && theirs.pid_ino == home->pid_ino &&
	       theirs.user_dev == home->user_dev && theirs.user_ino == home->user_ino;
}

int caller_read(const struct caller_home *home, pid_t tid, uid_t uid, gid_t gid, struct caller *ret)
{
	AUTO_BUF struct buf status = BUF_INIT(STATUS_MAX);
	struct caller c = {.uid = uid, .gid = gid, .pid = tid};

	if (tid <= 0)
		return -ESRCH;
	int r = read_status(tid, &status);
	if (r < 0)
		return r;
	const char *groups = status_value(status.data, "Groups");
	if (!groups)
		return -EIO;
	r = parse_groups(groups, &c);
	if (r < 0) {
		caller_clear(&c);
		return r;
	}
	c.trusted = is_at_home(home, tid);
	*ret = c;
	return 0;
}

void caller_clear(struct caller *c)
{
	free(c->groups);
	c->groups = NULL;
	c->n_groups = 0;
}

struct caller caller_unknown(uid_t uid, gid_t gid)
{
	return (struct caller){.uid = uid, .gid = gid};
}

int caller_process(pid_t tid, pid_t *ret_process, pid_t *ret_parent)
{
	AUTO_BUF struct buf status = BUF_INIT(STATUS_MAX);

	if (tid <= 0)
		return -ESRCH;
	int r = read_status(tid, &status);
	if (r < 0)
		return r;
	const char *process = status_value(status.data, "Tgid");
	const char *parent = status_value(status.data, "PPid");
	if (!process || !parent)
		return -EIO;
	*ret_process = (pid_t)strtol(process, NULL, 10);
	*ret_parent = (pid_t)strtol(parent, NULL, 10);
	return 0;
}

static uint64_t signal_mask(const char *status, const char *key)
{
	const char *text = status_value(status, key);

	return text ? strtoull(text, NULL, 16) : 0;
}

bool caller_interrupted(pid_t tid)
{
	AUTO_BUF struct buf status = BUF_INIT(STATUS_MAX);

	if (tid <= 0 || read_status(tid, &status) < 0)
		return false;
	uint64_t pending = signal_mask(status.data, "SigPnd") | signal_mask(status.data, "ShdPnd");
	return (pending & ~signal_mask(status.data, "SigBlk") & ~signal_mask(status.data, "SigIgn")) != 0;
}

void caller_find_groups(struct hub *hub)
{
	/* Before the loop runs, NSS may take its time. */
	const struct group *cloop = getgrnam("cloop");
	gid_t gid = cloop ? cloop->gr_gid : 0;
	const struct group *admin = getgrnam("cloop-admin");

	hub->gid_cloop = gid;
	hub->gid_admin = admin ? admin->gr_gid : 0;
	hub->groups_missing = hub->uid == 0 && (gid == 0 || !admin);
	if (hub->groups_missing)
		hub_log("the groups cloop and cloop-admin do not both exist: root alone starts and administers");
}
