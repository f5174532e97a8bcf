#include "fs/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/owner.h"
#include "core/text.h"
#include "fs/area.h"
#include "fs/child.h"
#include "fs/mountinfo.h"

#define HELPER "fusermount3"

/* The first line of what a helper says about its failure. */
#define COMPLAINT_MAX 256

bool mount_is_direct(void)
{
	return geteuid() == 0;
}

static bool is_ours(const struct mountinfo *m)
{
	return strcmp(m->type, MOUNT_TYPE) == 0 && strcmp(m->source, MOUNT_SOURCE) == 0;
}

/* The read end's first line, waiting for no more than is there. */
static void read_complaint(int fd, char buf[static COMPLAINT_MAX])
{
	ssize_t n = read(fd, buf, COMPLAINT_MAX - 1);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	text_one_line(buf);
}

static int helper_failed(struct child_end end, int complaints, const char *verb, const char *path,
			 struct error *err)
{
	char complaint[COMPLAINT_MAX], how[CHILD_END_MAX];

	read_complaint(complaints, complaint);
	child_describe(end, how);
	(void)error_set(err, EPERM, "cannot %s %s: %s", verb, path, complaint[0] ? complaint : how);
	if (!end.by_signal && end.value == CHILD_EXIT_CANNOT_EXECUTE)
		error_remedy(err, "install fuse3, which brings " HELPER);
	else
		error_remedy(err, "ask " HELPER " and /dev/fuse: may this user mount there?");
	return -EPERM;
}

static int make_pipe(int *ret_read, int *ret_write, struct error *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return error_set(err, errno, "cannot make a pipe: %s", strerror(errno));
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

void mount_remove_argv(const char *path, bool lazy, const char *argv[static MOUNT_REMOVE_ARGV])
{
	size_t n = 0;

	argv[n++] = HELPER;
	argv[n++] = "-u";
	if (lazy)
		argv[n++] = "-z";
	argv[n++] = "--";
	argv[n++] = path;
	argv[n] = NULL;
}

/* Runs fusermount3 -u and waits for it, for a bounded time. */
static int remove_with_helper(const char *path, struct error *err)
{
	AUTO_CLOSE int complaints = -1, output = -1;
	const char *argv[MOUNT_REMOVE_ARGV];
	struct child c = CHILD_NONE;
	struct child_end end;

	mount_remove_argv(path, true, argv);
	int r = make_pipe(&complaints, &output, err);
	if (r < 0)
		return r;
	const struct child_command command = {.exe_fd = -1,
					      .path = HELPER,
					      .argv = (char *const *)argv,
					      .output_fd = output,
					      .oom_score_adj = CHILD_OOM_KEEP};
	r = child_start(&c, &command, err);
	if (r < 0)
		return r;
	if (!child_wait(&c, MOUNT_HELPER_MS, &end)) {
		child_abandon(&c);
		return error_set(err, ETIMEDOUT, "%s does not end while it unmounts %s", HELPER,
				 path);
	}
	if (end.by_signal || end.value != 0)
		return helper_failed(end, complaints, "unmount", path, err);
	return 0;
}

int mount_remove(const char *path, bool lazy, struct error *err)
{
	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) < 0)
		return error_set(err, errno, "cannot unmount %s: %s", path, strerror(errno));
	return 0;
}

int mount_clear(const char *path, struct error *err)
{
	return mount_is_direct() ? mount_remove(path, true, err) : remove_with_helper(path, err);
}

/* --- what is in the way ---------------------------------------------------------------------- */

/*
 * Asks a mount whether somebody serves it. statfs() on a live one whose hub hangs may never return,
 * so a process of its own asks.
 */
static int is_stale(const char *path, bool *ret, struct error *err)
{
	struct child c = CHILD_NONE;
	struct child_end end;
	pid_t pid = child_fork(&c, err);

	if (pid < 0)
		return (int)pid;
	if (pid == 0) {
		struct statfs st;

		_exit(statfs(path, &st) < 0 && errno == ENOTCONN ? 0 : 1);
	}
	*ret = child_wait(&c, MOUNT_PROBE_MS, &end) && !end.by_signal && end.value == 0;
	child_abandon(&c);
	return 0;
}

static int refuse_mounted(const char *path, const struct mountinfo *m, struct error *err)
{
	if (is_ours(m)) {
		(void)error_set(err, EBUSY, "%s is the mount of another cloopd that is running",
				path);
		error_remedy(err, "stop that one with cloopd stop, or choose another mountpoint");
	} else {
		(void)error_set(err, EBUSY, "something else is mounted at %s (%s, type %s)", path,
				m->source, m->type);
		error_remedy(err, "unmount it, or choose another mountpoint");
	}
	return -EBUSY;
}

static int clear_stale(const char *path, struct error *err)
{
	for (int i = 0; i < MOUNT_STALE_MAX; i++) {
		struct mountinfo m;
		bool stale = false;
		int r = mountinfo_find(path, &m, err);

		if (r <= 0)
			return r;
		if (is_ours(&m))
			r = is_stale(path, &stale, err);
		if (r < 0)
			return r;
		if (!stale)
			return refuse_mounted(path, &m, err);
		r = mount_clear(path, err);
		if (r < 0)
			return r;
	}
	return error_set(err, EBUSY, "more than %d dead mounts lie upon each other at %s",
			 MOUNT_STALE_MAX, path);
}

static int check_empty(const char *path, struct error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int code = fd < 0 ? errno : 0;

	if (code == ENOENT) {
		(void)error_set(err, code, "mountpoint %s does not exist", path);
		error_remedy(err, "make it with mkdir %s", path);
		return -code;
	}
	if (code == ENOTDIR) {
		(void)error_set(err, code, "mountpoint %s is not a directory", path);
		error_remedy(err, "choose an empty directory");
		return -code;
	}
	if (code)
		return error_set(err, code, "cannot open mountpoint %s: %s", path, strerror(code));

	AUTO_CLOSEDIR DIR *d = fdopendir(fd);
	if (!d)
		return error_set(err, errno, "cannot read mountpoint %s: %s", path,
				 strerror(errno));
	(void)take_fd(&fd);
	for (const struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
			(void)error_set(err, ENOTEMPTY, "mountpoint %s is not empty", path);
			error_remedy(err, "choose an empty directory: the mount would hide %s",
				     e->d_name);
			return -ENOTEMPTY;
		}
	return 0;
}

int mount_prepare(const char *path, bool create, struct error *err)
{
	int r = clear_stale(path, err);

	if (r < 0)
		return r;
	if (create && mkdir(path, 0755) < 0 && errno != EEXIST) {
		int saved = errno;

		(void)error_set(err, saved, "cannot make mountpoint %s: %s", path, strerror(saved));
		error_remedy(err, "make it yourself, or give another mountpoint");
		return -saved;
	}
	return check_empty(path, err);
}

/* --- mounting --------------------------------------------------------------------------------- */

static int attach_direct(const char *path, bool allow_other, int *ret_fd, struct error *err)
{
	char options[160];
	AUTO_CLOSE int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		int saved = errno;

		(void)error_set(err, saved, "cannot open /dev/fuse: %s", strerror(saved));
		error_remedy(err, "load the module with modprobe fuse");
		return -saved;
	}
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40755,user_id=%u,group_id=%u,max_read=%d%s", fd, geteuid(),
		       getegid(), AREA_MAX_WRITE,
		       allow_other ? ",default_permissions,allow_other" : "");
	if (mount(MOUNT_SOURCE, path, MOUNT_TYPE, MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
		  options) < 0) {
		int saved = errno;

		(void)error_set(err, saved, "cannot mount at %s: %s", path, strerror(saved));
		error_remedy(err, "cloopd needs CAP_SYS_ADMIN here and a kernel with FUSE");
		return -saved;
	}
	if (mount(NULL, path, NULL, MS_PRIVATE, NULL) < 0) {
		int saved = errno;

		(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
		return error_set(err, saved, "cannot make the mount at %s private: %s", path,
				 strerror(saved));
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* The descriptor that fusermount3 sends; 0 when it closed the socket without. */
static int receive_fd(int socket_fd, int *ret_fd)
{
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return 0;
	memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return 1;
}

static int attach_with_helper(const char *path, int *ret_fd, struct error *err)
{
	AUTO_CLOSE int ours = -1, theirs = -1, complaints = -1, output = -1, fd = -1;
	char options[96], environment[32];
	const char *argv[] = {HELPER, "-o", options, "--", path, NULL};
	struct child c = CHILD_NONE;
	struct child_end end = {0};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "cannot make a socket: %s", strerror(errno));
	ours = pair[0];
	theirs = pair[1];
	int r = make_pipe(&complaints, &output, err);
	if (r < 0)
		return r;
	(void)snprintf(options, sizeof(options),
		       "fsname=%s,subtype=%s,nosuid,nodev,noexec,noatime,max_read=%d", MOUNT_SOURCE,
		       "cloop", AREA_MAX_WRITE);
	(void)snprintf(environment, sizeof(environment), "_FUSE_COMMFD=%d", theirs);
	const struct child_command command = {.exe_fd = -1,
					      .path = HELPER,
					      .argv = (char *const *)argv,
					      .fds = {theirs},
					      .n_fds = 1,
					      .output_fd = output,
					      .oom_score_adj = CHILD_OOM_KEEP,
					      .environment = environment};
	r = child_start(&c, &command, err);
	if (r < 0)
		return r;
	if (!child_wait(&c, MOUNT_HELPER_MS, &end)) {
		child_abandon(&c);
		return error_set(err, ETIMEDOUT, "%s does not end while it mounts %s", HELPER,
				 path);
	}
	if (end.by_signal || end.value != 0 || !receive_fd(ours, &fd))
		return helper_failed(end, complaints, "mount at", path, err);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, errno, "cannot set up the FUSE descriptor: %s",
				 strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

int mount_attach(const char *path, bool allow_other, int *ret_fd, dev_t *ret_dev, struct error *err)
{
	AUTO_CLOSE int fd = -1;
	struct mountinfo m;
	int r = mount_is_direct() ? attach_direct(path, allow_other, &fd, err)
				  : attach_with_helper(path, &fd, err);

	if (r < 0)
		return r;
	r = mountinfo_find(path, &m, err);
	if (r >= 0 && (r == 0 || !is_ours(&m)))
		r = error_set(err, EIO, "the new mount is not in /proc/self/mountinfo at %s", path);
	if (r < 0) {
		/* Closing the descriptor leaves a dead mount, which would be in the way. */
		(void)mount_clear(path, NULL);
		return r;
	}
	*ret_fd = take_fd(&fd);
	*ret_dev = m.dev;
	return 0;
}
