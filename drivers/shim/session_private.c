/* The removal of a directory that a workload could fill as it liked. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"
#include "drivers/shim/session_dir.h"

#define NAME_MAX_HERE 64

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static DIR *open_dir(int at, const char *name)
{
	AUTO_CLOSE int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		(void)take_fd(&fd);
	return d;
}

/* Moves a directory up to `top` under a name of its own there. */
static int move_up(int from, const char *name, int top, uint64_t *counter)
{
	char fresh[NAME_MAX_HERE];

	do {
		(void)snprintf(fresh, sizeof(fresh), ".removed-%" PRIu64, (*counter)++);
		if (renameat2(from, name, top, fresh, RENAME_NOREPLACE) == 0)
			return 0;
	} while (errno == EEXIST);
	return -errno;
}

/* Removes what is in a directory; directories in it go up to `top`, so that depth costs nothing. */
static int empty_into(int at, const char *name, int top, uint64_t *counter)
{
	AUTO_CLOSEDIR DIR *d = open_dir(at, name);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		if (is_dots(e->d_name))
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR || move_up(dirfd(d), e->d_name, top, counter) < 0)
			r = -errno;
	}
	return r;
}

/* One pass over the top: returns how many entries it found, or an error. */
static int pass(int top, uint64_t *counter)
{
	AUTO_CLOSEDIR DIR *d = open_dir(top, ".");
	struct dirent *e;
	int n = 0, r = 0;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		if (is_dots(e->d_name))
			continue;
		n++;
		if (unlinkat(top, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR || empty_into(top, e->d_name, top, counter) < 0 ||
		    unlinkat(top, e->d_name, AT_REMOVEDIR) < 0)
			r = -errno;
	}
	return r < 0 ? r : n;
}

int session_private_remove(int dir)
{
	AUTO_CLOSE int top =
		openat(dir, SESSION_PRIVATE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t counter = 0;
	int r;

	if (top < 0)
		return errno == ENOENT ? 0 : -errno;
	do {
		r = pass(top, &counter);
	} while (r > 0);
	if (r == 0 && unlinkat(dir, SESSION_PRIVATE, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}
