#include "fs/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/mountinfo.h"

#define LOCK_NAME "lock"

/* A lock that is refused and then held by nobody: its holder just ended. Try again so often. */
#define LOCK_ATTEMPTS 10

static const char *const kind_names[] = {
	[PLACE_STATE] = "state directory",
	[PLACE_RUNTIME] = "runtime directory",
	[PLACE_CONFIG] = "config directory",
};

static const char *const kind_options[] = {
	[PLACE_STATE] = "--state-dir",
	[PLACE_RUNTIME] = "--runtime-dir",
	[PLACE_CONFIG] = "--config-dir",
};

/* Cuts trailing slashes, but the one of "/". */
static void strip_slashes(char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
}

static int join(const char *dir, const char *name, char **ret, struct error *err)
{
	if (asprintf(ret, "%s%s%s", dir, name[0] && strcmp(dir, "/") != 0 ? "/" : "", name) < 0)
		return error_oom(err);
	return 0;
}

int place_resolve(const char *path, char **ret, struct error *err)
{
	AUTO_FREE char *head = strdup(path);
	AUTO_FREE char *tail = strdup("");

	if (!head || !tail)
		return error_oom(err);
	for (;;) {
		strip_slashes(head);
		AUTO_FREE char *real = realpath(head[0] ? head : ".", NULL);
		if (real)
			return join(real, tail, ret, err);
		if (errno != ENOENT || head[0] == '\0' || strcmp(head, "/") == 0)
			return error_set(err, errno, "cannot resolve %s: %s", path,
					 strerror(errno));

		/* Move the last part of what is missing over to the tail. */
		char *slash = strrchr(head, '/'), *name = slash ? slash + 1 : head, *longer;
		if (strcmp(name, "..") == 0)
			return error_set(err, EINVAL,
					 "cannot resolve %s: it has .. below a "
					 "directory that does not exist",
					 path);
		int n = strcmp(name, ".") == 0
				? asprintf(&longer, "%s", tail)
				: asprintf(&longer, "%s%s%s", name, tail[0] ? "/" : "", tail);
		if (n < 0)
			return error_oom(err);
		free(tail);
		tail = longer;
		if (slash == head)
			slash[1] = '\0';
		else if (slash)
			*slash = '\0';
		else
			head[0] = '\0';
	}
}

/* Splits the resolved directory off the last part; both are the caller's. */
static int split(const char *path, char **ret_dir, char **ret_name, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_FREE char *name = NULL;

	if (!copy)
		return error_oom(err);
	strip_slashes(copy);
	char *slash = strrchr(copy, '/');
	name = strdup(slash + 1);
	if (!name)
		return error_oom(err);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		(void)error_set(err, EINVAL, "mountpoint %s ends with a dot", path);
		error_remedy(err, "name the directory itself");
		return -EINVAL;
	}
	slash[slash == copy ? 1 : 0] = '\0';
	int r = place_resolve(copy, ret_dir, err);
	if (r == 0)
		*ret_name = take_ptr(name);
	return r;
}

int place_resolve_mountpoint(const char *path, char **ret, struct error *err)
{
	AUTO_FREE char *now = strdup(path);

	if (!now)
		return error_oom(err);
	if (path[0] != '/') {
		(void)error_set(err, EINVAL, "mountpoint %s is a relative path", path);
		error_remedy(err, "give an absolute one");
		return -EINVAL;
	}
	for (int links = 0; links <= PLACE_LINKS_MAX; links++) {
		AUTO_FREE char *dir = NULL;
		AUTO_FREE char *name = NULL;
		AUTO_FREE char *candidate = NULL;
		struct mountinfo mounted;
		struct stat st;
		char target[PATH_MAX];
		int r = split(now, &dir, &name, err);

		if (r == 0)
			r = join(dir, name, &candidate, err);
		if (r == 0)
			r = mountinfo_find(candidate, &mounted, err);
		if (r < 0)
			return r;
		if (r == 1 || lstat(candidate, &st) < 0 || !S_ISLNK(st.st_mode)) {
			*ret = take_ptr(candidate);
			return 0;
		}
		ssize_t n = readlink(candidate, target, sizeof(target) - 1);
		if (n < 0)
			return error_set(err, errno, "cannot read the link %s: %s", candidate,
					 strerror(errno));
		target[n] = '\0';
		free(now);
		now = NULL;
		r = target[0] == '/' ? join("/", target + 1, &now, err)
				     : join(dir, target, &now, err);
		if (r < 0)
			return r;
	}
	return error_set(err, ELOOP, "mountpoint %s is a link with too many links behind it", path);
}

bool place_is_inside(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* mkdir -p. What an ordinary user has below the home directory is private (XDG). */
static int make_directory(const char *path, struct error *err)
{
	AUTO_FREE char *copy = strdup(path);
	mode_t mode_of_parents = geteuid() == 0 ? 0755 : 0700;

	if (!copy)
		return error_oom(err);
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, mode_of_parents) < 0 && errno != EEXIST)
			return error_set(err, errno, "cannot make %s: %s", copy, strerror(errno));
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "cannot make %s: %s", path, strerror(errno));
	return 0;
}

static int check_trust(enum place_kind kind, const char *path, const struct stat *st,
		       struct error *err)
{
	uid_t self = geteuid();
	bool right_owner = st->st_uid == self || (kind == PLACE_CONFIG && st->st_uid == 0);
	mode_t forbidden = kind == PLACE_CONFIG ? 0002 : 0022;

	if (!right_owner) {
		(void)error_set(err, EPERM, "%s %s belongs to uid %u, not to uid %u",
				kind_names[kind], path, st->st_uid, self);
		error_remedy(err, "chown it, or choose another with %s", kind_options[kind]);
		return -EPERM;
	}
	if (st->st_mode & forbidden) {
		(void)error_set(err, EPERM, "%s %s is writable for others (mode %04o)",
				kind_names[kind], path, st->st_mode & 07777);
		error_remedy(err, "chmod %s %s", kind == PLACE_CONFIG ? "o-w" : "go-w", path);
		return -EPERM;
	}
	return 0;
}

int place_open(enum place_kind kind, const char *path, bool create, int *ret_fd, struct error *err)
{
	struct stat st;

	if (create && kind != PLACE_CONFIG) {
		int r = make_directory(path, err);
		if (r < 0) {
			error_field(err, "%s", kind_names[kind]);
			error_remedy(err, "make it yourself, or choose another with %s",
				     kind_options[kind]);
			return r;
		}
	}
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT && kind == PLACE_CONFIG) {
		*ret_fd = -1;
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		int saved = errno;

		(void)error_set(err, saved, "cannot open %s %s: %s", kind_names[kind], path,
				strerror(saved));
		error_remedy(err, "choose another with %s", kind_options[kind]);
		return -saved;
	}
	int r = check_trust(kind, path, &st, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* F_GETLK on an open lock file. */
static int holder(int fd, const char *path, pid_t *ret_pid, struct error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_GETLK, &lock) < 0)
		return error_set(err, errno, "cannot ask who holds %s/" LOCK_NAME ": %s", path,
				 strerror(errno));
	if (lock.l_type == F_UNLCK) {
		*ret_pid = 0;
		return 0;
	}
	if (lock.l_pid <= 0)
		return error_set(err, ESRCH,
				 "%s/" LOCK_NAME " is held by a process of another pid "
				 "namespace or machine",
				 path);
	*ret_pid = lock.l_pid;
	return 0;
}

int place_lock(enum place_kind kind, int dir_fd, const char *path, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = openat(dir_fd, LOCK_NAME,
				   O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0) {
		int saved = errno;

		(void)error_set(err, saved, "cannot write into %s %s: %s", kind_names[kind], path,
				strerror(saved));
		error_remedy(err, "choose another with %s", kind_options[kind]);
		return -saved;
	}
	for (int i = 0; i < LOCK_ATTEMPTS; i++) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		pid_t pid = 0;

		if (fcntl(fd, F_SETLK, &lock) == 0) {
			*ret_fd = take_fd(&fd);
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return error_set(err, errno, "cannot lock %s/" LOCK_NAME ": %s", path,
					 strerror(errno));
		int r = holder(fd, path, &pid, err);
		if (r < 0)
			return r;
		if (pid == 0)
			continue;
		(void)error_set(err, EBUSY, "%s %s is in use by cloopd with pid %d",
				kind_names[kind], path, pid);
		error_remedy(err, "stop that one first, or choose another with %s",
			     kind_options[kind]);
		return -EBUSY;
	}
	return error_set(err, EBUSY, "%s %s is taken and released by others again and again",
			 kind_names[kind], path);
}

int place_lock_holder(int dir_fd, const char *path, pid_t *ret_pid, struct error *err)
{
	AUTO_CLOSE int fd =
		openat(dir_fd, LOCK_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 && errno == ENOENT) {
		*ret_pid = 0;
		return 0;
	}
	if (fd < 0)
		return error_set(err, errno, "cannot open %s/" LOCK_NAME ": %s", path,
				 strerror(errno));
	return holder(fd, path, ret_pid, err);
}
