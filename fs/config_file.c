#include "fs/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/owner.h"

static int check_trust(const struct stat *st, struct error *err)
{
	uid_t self = geteuid();
	int r = 0;

	if (st->st_uid != 0 && st->st_uid != self) {
		r = error_set(err, EPERM, "belongs to uid %u, not to root or uid %u", st->st_uid, self);
		error_remedy(err, "chown it");
	} else if (st->st_mode & S_IWOTH) {
		r = error_set(err, EPERM, "is writable for everybody (mode %04o)", st->st_mode & 07777);
		error_remedy(err, "chmod o-w it");
	}
	return r;
}

int config_directory_open(int parent_fd, const char *name, const char *shown, int *ret_fd,
			  struct error *err)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
	AUTO_CLOSE int fd = openat(parent_fd, name, flags | (parent_fd == AT_FDCWD ? 0 : O_NOFOLLOW));
	struct error untrusted;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "cannot open the directory %s: %s", shown, strerror(errno));
	int r = check_trust(&st, &untrusted);
	if (r < 0) {
		(void)error_set(err, -r, "the directory %s %s", shown, untrusted.reason);
		error_remedy(err, "%s", untrusted.remedy);
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int refuse_kind(mode_t mode, struct error *err)
{
	int r = error_set(err, EINVAL, "is %s, not a plain file",
			  S_ISDIR(mode)    ? "a directory"
			  : S_ISLNK(mode)  ? "a symbolic link"
			  : S_ISFIFO(mode) ? "a fifo"
					   : "a special file");

	error_remedy(err, "put a plain file there");
	return r;
}

static int open_file(int dir_fd, const char *name, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ELOOP)
		return refuse_kind(S_IFLNK, err);
	if (fd < 0 && errno == ENXIO)
		return refuse_kind(S_IFSOCK, err);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "cannot be read: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse_kind(st.st_mode, err);
	int r = check_trust(&st, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int config_file_read(int dir_fd, const char *name, size_t max_bytes, char **ret, size_t *ret_len,
		     struct error *err)
{
	AUTO_CLOSE int fd = -1;
	AUTO_FREE char *text = NULL;
	size_t len = 0;

	int r = open_file(dir_fd, name, &fd, err);
	if (r < 0)
		return r;
	text = malloc(max_bytes + 1);
	if (!text)
		return error_oom(err);
	for (;;) {
		/* One byte more than is allowed: whether there is one is what matters. */
		ssize_t n = read(fd, text + len, max_bytes + 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, errno, "cannot be read: %s", strerror(errno));
		if (n == 0)
			break;
		len += (size_t)n;
		if (len > max_bytes) {
			r = error_set(err, EFBIG, "is larger than %zu bytes", max_bytes);
			error_remedy(err, "make it shorter");
			return r;
		}
	}
	text[len] = '\0';
	*ret = take_ptr(text);
	*ret_len = len;
	return 0;
}
