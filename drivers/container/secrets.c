#include "drivers/container/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/owner.h"

/* Beside the file that it takes the place of; no delivered file begins so and is this long. */
#define FRESH_PREFIX ".fresh-"
#define FRESH_MAX (SECRET_NAME_BYTES_MAX + sizeof(FRESH_PREFIX))

static int open_dir(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int failed(struct error *err, int r, const char *what)
{
	return error_set(err, -r, "%s: %s", what, strerrordesc_np(-r));
}

static int check_memory(int fd, struct error *err)
{
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return failed(err, -errno, "secret files cannot be put anywhere");
	if (st.f_type != TMPFS_MAGIC && st.f_type != RAMFS_MAGIC)
		return error_set(err, EINVAL, "secret files are for memory only, and this is a disk");
	return 0;
}

static int write_all(int fd, const unsigned char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0)
			return -errno;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* A new file; its mode does not depend on a umask. */
static int write_file(int dir, const char *name, mode_t mode, const struct secret_file *f)
{
	AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : write_all(fd, f->content, f->content_len);

	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	return r;
}

int container_secrets_deliver(int parent_fd, const char *name, const struct secret_file *files,
			      size_t n, struct error *err)
{
	struct error ignored;

	int r = secret_files_validate(files, n, "secret_files", err);
	if (r == 0)
		r = check_memory(parent_fd, err);
	for (size_t i = 1; i < n && r == 0; i++)
		if (strcmp(files[i].dir, files[0].dir) != 0) {
			r = error_set(err, EINVAL, "is not the directory of the other files");
			error_field(err, "secret_files[%zu].dir", i);
		}
	if (r < 0)
		return r;
	if (mkdirat(parent_fd, name, 0700) < 0)
		return failed(err, -errno, "the directory for secret files cannot be made");
	AUTO_CLOSE int dir = open_dir(parent_fd, name);
	r = dir < 0 ? dir : 0;
	for (size_t i = 0; i < n && r == 0; i++)
		r = write_file(dir, files[i].name, secret_file_mode(&files[i]), &files[i]);
	if (r < 0) {
		(void)container_secrets_remove(parent_fd, name, &ignored);
		return failed(err, r, "a secret file cannot be written");
	}
	return 0;
}

/* What is there in place of a file: 0 and its owner and mode, or -EPERM for what is no file. */
static int look_at(int dir, const char *name, struct stat *ret)
{
	if (fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISREG(ret->st_mode) && ret->st_nlink == 1 ? 0 : -EPERM;
}

/* Zeros over the whole of it, then it goes. Files without a right to write are opened all the same. */
static int wipe(int dir, const char *name)
{
	static const unsigned char zeros[4096];
	struct stat st;
	int r = look_at(dir, name, &st);

	if (r == -ENOENT)
		return 0;
	if (r == 0) {
		(void)fchmodat(dir, name, 0600, 0);
		AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		r = fd < 0 ? -errno : 0;
		for (off_t at = 0; at < st.st_size && r == 0; at += (off_t)sizeof(zeros)) {
			size_t len = sizeof(zeros);

			if (st.st_size - at < (off_t)len)
				len = (size_t)(st.st_size - at);
			r = write_all(fd, zeros, len);
		}
	}
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT && r == 0)
		r = -errno;
	return r < 0 ? r : 1;
}

int container_secrets_refresh(int parent_fd, const char *name, const struct secret_file *file,
			      struct error *err)
{
	AUTO_CLOSE int dir = open_dir(parent_fd, name);
	char fresh[FRESH_MAX];
	struct stat st;

	int r = secret_files_validate(file, 1, "secret_files", err);
	if (r < 0)
		return r;
	r = dir < 0 ? dir : look_at(dir, file->name, &st);
	if (r < 0) {
		r = error_set(err, -r, "no such file was delivered to this session");
		error_field(err, "secret_files[0].name");
		return r;
	}
	if (snprintf(fresh, sizeof(fresh), FRESH_PREFIX "%.200s", file->name) < 0)
		return failed(err, -EINVAL, "a secret file cannot be written");
	/* Of one that was refreshed when the daemon died. */
	(void)wipe(dir, fresh);
	r = write_file(dir, fresh, st.st_mode & 0777, file);
	if (r == 0 && geteuid() == 0 && fchownat(dir, fresh, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, fresh, dir, file->name) < 0)
		r = -errno;
	if (r < 0) {
		(void)wipe(dir, fresh);
		return failed(err, r, "a secret file cannot be refreshed");
	}
	return 0;
}

int container_secrets_scrub(int parent_fd, const char *name, const char *file, struct error *err)
{
	AUTO_CLOSE int fd = open_dir(parent_fd, name);
	int n = 0, bad = 0;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return failed(err, fd, "secret files cannot be wiped");
	if (file) {
		bad = wipe(fd, file);
		return bad < 0 ? failed(err, bad, "a secret file cannot be wiped") : bad;
	}
	AUTO_CLOSEDIR DIR *d = fdopendir(fd);
	struct dirent *e;
	if (!d)
		return failed(err, -errno, "secret files cannot be wiped");
	int dir = take_fd(&fd);
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		int r = wipe(dir, e->d_name);

		if (r < 0)
			bad = r;
		else
			n += r;
	}
	return bad < 0 ? failed(err, bad, "a secret file cannot be wiped") : n;
}

int container_secrets_remove(int parent_fd, const char *name, struct error *err)
{
	int r = container_secrets_scrub(parent_fd, name, NULL, err);

	if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT && r >= 0)
		return failed(err, -errno, "the directory of secret files cannot be removed");
	return r < 0 ? r : 0;
}
