#include "fs/nudger_marks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/nudge_protocol.h"

/* A mark's line has some 200 bytes. */
#define TEXT_MAX 32768
#define LINE_MAX_BYTES 1024

/* Users who have marks, and how many. More users than these share the last place. */
#define USERS_MAX 256

struct user {
	uid_t uid;
	size_t n;
};

struct scan {
	struct marks *marks;
	const struct marks_of *of;
	struct user users[USERS_MAX];
	size_t n_users;
};

/* --- one text ------------------------------------------------------------------------------- */

static void add(struct marks *m, uint64_t inode)
{
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 64;
		uint64_t *inodes = reallocarray(m->inodes, cap, sizeof(*inodes));

		if (!inodes)
			return; /* that mark is not seen */
		m->inodes = inodes;
		m->cap = cap;
	}
	m->inodes[m->n++] = inode;
}

/* The hexadecimal number behind " key:" in a line. */
static bool field(const char *line, const char *key, int base, uint64_t *ret)
{
	const char *p = strstr(line, key);
	char *end;

	if (!p)
		return false;
	errno = 0;
	*ret = strtoull(p + strlen(key), &end, base);
	return errno == 0 && end != p + strlen(key);
}

/* Returns the marks added. */
static size_t parse_line(struct marks *m, const struct marks_of *of, const char *line, size_t room)
{
	bool fanotify = strncmp(line, "fanotify ", 9) == 0;
	uint64_t dev, inode, mount_id;

	if (!fanotify && strncmp(line, "inotify ", 8) != 0)
		return 0;
	if (fanotify && field(line, " mnt_id:", 16, &mount_id)) {
		m->everything = m->everything || (of->mount_id && mount_id == of->mount_id);
		return 0;
	}
	if (!field(line, " sdev:", 16, &dev) || dev != of->dev)
		return 0;
	if (!field(line, " ino:", 16, &inode)) {
		m->everything = m->everything || fanotify;
		return 0;
	}
	if (room == 0)
		return 0;
	add(m, inode);
	return 1;
}

size_t marks_parse(struct marks *m, const struct marks_of *of, const char *text, size_t len,
		   size_t room)
{
	char line[LINE_MAX_BYTES];
	size_t used = 0;
	const char *end;

	while ((end = memchr(text + used, '\n', len - used))) {
		size_t n = (size_t)(end - text) - used;

		if (n < sizeof(line)) {
			memcpy(line, text + used, n);
			line[n] = '\0';
			room -= parse_line(m, of, line, room);
		}
		used += n + 1;
	}
	return used;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void marks_finish(struct marks *m)
{
	size_t n = 0;

	if (m->n > 0)
		qsort(m->inodes, m->n, sizeof(*m->inodes), by_number);
	for (size_t i = 0; i < m->n; i++)
		if (n == 0 || m->inodes[n - 1] != m->inodes[i])
			m->inodes[n++] = m->inodes[i];
	m->n = n;
}

bool marks_have(const struct marks *m, uint64_t inode)
{
	return m->n > 0 && bsearch(&inode, m->inodes, m->n, sizeof(inode), by_number);
}

bool marks_equal(const struct marks *a, const struct marks *b)
{
	return a->everything == b->everything && a->n == b->n &&
	       (a->n == 0 || memcmp(a->inodes, b->inodes, a->n * sizeof(*a->inodes)) == 0);
}

void marks_clear(struct marks *m)
{
	free(m->inodes);
	*m = (struct marks){0};
}

/* --- all processes -------------------------------------------------------------------------- */

/* How many marks a user has: one who is not root cannot use up what all share. */
static struct user *user_of(struct scan *s, uid_t uid)
{
	size_t i = 0;

	while (i < s->n_users && s->users[i].uid != uid)
		i++;
	if (i == USERS_MAX)
		return &s->users[USERS_MAX - 1];
	if (i == s->n_users)
		s->users[s->n_users++] = (struct user){.uid = uid};
	return &s->users[i];
}

static size_t room_of(const struct scan *s, const struct user *user)
{
	size_t all = s->marks->n < NUDGE_MARKS_MAX ? NUDGE_MARKS_MAX - s->marks->n : 0;
	size_t own = user->n < NUDGE_MARKS_PER_UID ? NUDGE_MARKS_PER_UID - user->n : 0;

	return user->uid == 0 || all < own ? all : own;
}

static void read_fdinfo(struct scan *s, int process_fd, const char *name, uid_t uid)
{
	char path[64], text[TEXT_MAX];
	struct user *user = user_of(s, uid);
	size_t have = 0;

	(void)snprintf(path, sizeof(path), "fdinfo/%.20s", name);
	AUTO_CLOSE int fd = openat(process_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	for (;;) {
		ssize_t n = read(fd, text + have, sizeof(text) - have);

		if (n <= 0)
			return;
		have += (size_t)n;
		size_t before = s->marks->n;
		size_t used = marks_parse(s->marks, s->of, text, have, room_of(s, user));
		user->n += s->marks->n - before;
		memmove(text, text + used, have - used);
		have -= used;
		if (have == sizeof(text))
			return; /* no line is that long */
	}
}

static bool is_number(const char *name)
{
	return isdigit((unsigned char)name[0]);
}

/* Whether a descriptor is one that carries marks. */
static bool carries_marks(int fds_fd, const char *name)
{
	char target[32];
	ssize_t n = readlinkat(fds_fd, name, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	return strcmp(target, "anon_inode:inotify") == 0 ||
	       strcmp(target, "anon_inode:[fanotify]") == 0;
}

static void scan_process(struct scan *s, int proc_fd, const char *pid)
{
	struct stat st;

	AUTO_CLOSE int process_fd = openat(proc_fd, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (process_fd < 0 || fstat(process_fd, &st) < 0)
		return;
	AUTO_CLOSE int fds_fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fds_fd < 0)
		return;
	AUTO_CLOSEDIR DIR *d = fdopendir(fds_fd);
	if (!d)
		return;
	int dir_fd = take_fd(&fds_fd);
	for (const struct dirent *e; (e = readdir(d));)
		if (is_number(e->d_name) && carries_marks(dir_fd, e->d_name))
			read_fdinfo(s, process_fd, e->d_name, st.st_uid);
}

int marks_scan(struct marks *m, const struct marks_of *of, int proc_fd, pid_t except)
{
	struct scan s = {.marks = m, .of = of};
	char skipped[16];

	AUTO_CLOSE int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	AUTO_CLOSEDIR DIR *d = fdopendir(fd);
	if (!d)
		return -errno;
	(void)take_fd(&fd);
	(void)snprintf(skipped, sizeof(skipped), "%d", except);
	for (const struct dirent *e; (e = readdir(d));)
		if (is_number(e->d_name) && strcmp(e->d_name, skipped) != 0)
			scan_process(&s, proc_fd, e->d_name);
	marks_finish(m);
	return 0;
}
