#include "fs/nudger.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"
#include "fs/mountinfo.h"
#include "fs/nudge_protocol.h"
#include "fs/nudger_files.h"
#include "fs/nudger_marks.h"

/* Threads need little: the largest thing on their stacks is a report. */
#define STACK_BYTES (256 * 1024)

/* Room for everything that is not a kept file. */
#define OTHER_FILES 64

struct nudger {
	const char *mountpoint;
	int socket_fd;
	dev_t dev;
	struct files *files;

	/* Between the workers and the scanner. */
	pthread_mutex_t lock;
	pthread_cond_t asked;
	uint64_t hub; /* 0: none has said hello */
	bool hello;   /* one has, since the last report */
	uint64_t scan_asked;

	/* The scanner's own. */
	struct marks marks;
	uint64_t reported_to; /* the hub that knows them */
	uint64_t scan_reported;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	(void)dprintf(STDERR_FILENO, "nudger: %s\n", line);
}

/* --- calls ---------------------------------------------------------------------------------- */

/* No link, no other mount and nothing above is ever followed. */
static int open_below(int dir_fd, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	if (flags & O_PATH)
		how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/*
 * The root of the mount, and nothing that lies over it or where it was: there the calls would have
 * an effect. Asks the kernel only for what it knows without the hub.
 */
static int open_root(const struct nudger *n, uint64_t *ret_mount_id)
{
	struct statx st;

	AUTO_CLOSE int fd = open(n->mountpoint, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) < 0)
		return -errno;
	if (makedev(st.stx_dev_major, st.stx_dev_minor) != n->dev)
		return -ENOENT;
	if (ret_mount_id)
		*ret_mount_id = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
	return take_fd(&fd);
}

struct opening {
	const struct nudger *n;
	const char *path;
};

static int open_file(void *user)
{
	const struct opening *o = user;
	AUTO_CLOSE int root_fd = open_root(o->n, NULL);

	return root_fd < 0 ? root_fd : open_below(root_fd, o->path, O_WRONLY);
}

static int modify(struct nudger *n, const struct nudge_order *order)
{
	struct opening opening = {.n = n, .path = order->path};
	int fd = files_get(n->files, order->inode, order->dir, open_file, &opening);
	int r = 0;

	if (fd < 0)
		return fd;
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1) < 0)
		r = -errno;
	files_put(n->files, fd, r < 0);
	return r;
}

/* mkdir, rmdir, symlink and unlink of the last part of a path. */
static int change_name(const struct nudger *n, enum nudge_type type, char *path)
{
	char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path, *parent = slash ? path : ".";
	int r;

	if (slash)
		*slash = '\0';
	AUTO_CLOSE int root_fd = open_root(n, NULL);
	if (root_fd < 0)
		return root_fd;
	AUTO_CLOSE int dir_fd = open_below(root_fd, parent, O_PATH | O_DIRECTORY);
	if (dir_fd < 0)
		return dir_fd;
	switch (type) {
	case NUDGE_MKDIR:
		r = mkdirat(dir_fd, name, 0755);
		break;
	case NUDGE_SYMLINK:
		r = symlinkat("nudge", dir_fd, name);
		break;
	default:
		r = unlinkat(dir_fd, name, type == NUDGE_RMDIR ? AT_REMOVEDIR : 0);
		break;
	}
	return r < 0 ? -errno : 0;
}

/* Makes the kernel ask whether a name is still there: then it forgets what is not. */
static int look(const struct nudger *n, const char *path)
{
	struct statx st;
	AUTO_CLOSE int root_fd = open_root(n, NULL);

	if (root_fd < 0)
		return root_fd;
	int r = statx(root_fd, path, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, 0, &st);

	return r < 0 && errno != ENOENT ? -errno : 0;
}

static void report_done(const struct nudger *n, const struct nudge_order *order, int result)
{
	struct nudge_report r = {
		.type = NUDGE_DONE, .result = result, .hub = order->hub, .number = order->number};

	(void)fault_point("nudger.done");
	/* Waits for room: a hub that heard nothing would wait for ever. */
	while (send(n->socket_fd, &r, offsetof(struct nudge_report, marks), MSG_NOSIGNAL) < 0 &&
	       errno == EINTR)
		;
}

/* --- orders --------------------------------------------------------------------------------- */

static void ask(struct nudger *n, const struct nudge_order *order)
{
	(void)pthread_mutex_lock(&n->lock);
	/* Hubs are numbered; what a new one says first may be overtaken by what it says next. */
	if (order->hub > n->hub) {
		/*
		 * It does not know what is kept open, so it cannot say that this is gone; and until
		 * it is closed, the kernel does not tell its watchers.
		 */
		files_forget_all(n->files);
		n->hub = order->hub;
		n->hello = true;
		n->scan_asked = 0;
	}
	if (order->hub == n->hub && order->number > n->scan_asked)
		n->scan_asked = order->number;
	(void)pthread_cond_signal(&n->asked);
	(void)pthread_mutex_unlock(&n->lock);
}

static void carry_out(struct nudger *n, struct nudge_order *order)
{
	(void)fault_point("nudger.order");
	switch ((enum nudge_type)order->type) {
	case NUDGE_NONE:
		break;
	case NUDGE_HELLO:
	case NUDGE_SCAN:
		ask(n, order);
		break;
	case NUDGE_LOOK:
		files_forget(n->files, order->dir);
		report_done(n, order, look(n, order->path));
		break;
	case NUDGE_MODIFY:
		report_done(n, order, modify(n, order));
		break;
	case NUDGE_RMDIR:
		files_forget(n->files, order->dir);
		__attribute__((fallthrough));
	case NUDGE_MKDIR:
	case NUDGE_SYMLINK:
	case NUDGE_UNLINK:
		report_done(n, order, change_name(n, (enum nudge_type)order->type, order->path));
		break;
	}
}

/* Each order goes to one of the workers, and the hub gives no more than there are. */
static void *work(void *arg)
{
	struct nudger *n = arg;
	struct nudge_order order;

	for (;;) {
		ssize_t len = recv(n->socket_fd, &order, sizeof(order), 0);

		if (len < 0 && errno != EINTR)
			exit(EXIT_FAILURE);
		/* A path ends with a NUL. */
		if (len > (ssize_t)offsetof(struct nudge_order, path) &&
		    ((char *)&order)[len - 1] == '\0')
			carry_out(n, &order);
	}
	return NULL;
}

static void *close_files(void *arg)
{
	struct nudger *n = arg;

	files_close(n->files);
	return NULL;
}

/* --- scans ---------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / CLOCK_NS_PER_MS;
}

/* A report waits for room; then a hub is there, or another one comes. */
static void send_report(const struct nudger *n, const struct nudge_report *r)
{
	size_t len = offsetof(struct nudge_report, marks) + r->n_marks * sizeof(r->marks[0]);

	while (send(n->socket_fd, r, len, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void report_marks(const struct nudger *n, uint64_t hub, uint64_t scan)
{
	size_t at = 0;

	do {
		struct nudge_report r = {.type = NUDGE_MARKS, .hub = hub, .number = scan};
		size_t left = n->marks.n - at;

		r.n_marks = (uint32_t)(left < NUDGE_MARKS_A_REPORT ? left : NUDGE_MARKS_A_REPORT);
		for (size_t i = 0; i < r.n_marks; i++)
			r.marks[i] = n->marks.inodes[at + i];
		r.flags = (at == 0 ? NUDGE_MARKS_FIRST : 0U) |
			  (r.n_marks == left ? NUDGE_MARKS_LAST : 0U) |
			  (n->marks.everything ? NUDGE_MARKS_EVERYTHING : 0U);
		at += r.n_marks;
		send_report(n, &r);
	} while (at < n->marks.n);
}

static void report_same(const struct nudger *n, uint64_t hub, uint64_t scan)
{
	const struct nudge_report r = {
		.type = NUDGE_MARKS, .hub = hub, .number = scan, .flags = NUDGE_MARKS_SAME};

	send_report(n, &r);
}

/* Looks who watches what, and tells the hub when that is news to it. */
static void scan(struct nudger *n, uint64_t hub, uint64_t asked)
{
	struct marks_of of = {.dev = (uint64_t)major(n->dev) << 20 | minor(n->dev)};
	struct marks found = {0};
	uint64_t since = files_now(n->files);

	AUTO_CLOSE int root_fd = open_root(n, &of.mount_id);
	AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)root_fd; /* what of.mount_id names stays what it is while this is open */
	if (proc_fd < 0 || marks_scan(&found, &of, proc_fd, getpid()) < 0) {
		marks_clear(&found);
		return;
	}
	bool same = marks_equal(&found, &n->marks) && n->reported_to == hub;
	marks_clear(&n->marks);
	n->marks = found;
	files_keep(n->files, &n->marks, since);
	if (!same)
		report_marks(n, hub, asked);
	else if (asked > n->scan_reported)
		report_same(n, hub, asked);
	n->reported_to = hub;
	n->scan_reported = asked;
}

/*
 * Waits until the time of the next scan, or until one is asked for and the last one is long enough
 * ago. Returns what was asked for before the scan that begins now.
 */
static void wait_for_scan(struct nudger *n, int64_t due, int64_t not_before, uint64_t *ret_hub,
			  uint64_t *ret_asked)
{
	(void)pthread_mutex_lock(&n->lock);
	for (;;) {
		bool wanted = n->hello || n->scan_asked > n->scan_reported;
		int64_t until = wanted ? not_before : due;
		const struct timespec ts = {.tv_sec = until / 1000,
					    .tv_nsec = until % 1000 * CLOCK_NS_PER_MS};

		if (n->hub == 0)
			(void)pthread_cond_wait(&n->asked, &n->lock);
		else if (now_ms() < until)
			(void)pthread_cond_timedwait(&n->asked, &n->lock, &ts);
		else
			break;
	}
	if (n->hello)
		n->scan_reported = 0;
	n->hello = false;
	*ret_hub = n->hub;
	*ret_asked = n->scan_asked;
	(void)pthread_mutex_unlock(&n->lock);
}

static _Noreturn void scan_for_ever(struct nudger *n)
{
	int64_t began = now_ms(), ended = began;
	uint64_t hub, asked;

	for (;;) {
		int64_t rest = (ended - began) * NUDGER_SCAN_SHARE;

		wait_for_scan(n, ended + (rest > NUDGER_SCAN_MS ? rest : NUDGER_SCAN_MS),
			      ended + rest, &hub, &asked);
		began = now_ms();
		scan(n, hub, asked);
		ended = now_ms();
	}
}

/* --- start ---------------------------------------------------------------------------------- */

/*
 * The group by which a hub of root knows us. Changing ids makes the kernel forget that we are to
 * die with the keeper, so that is said again.
 */
static int take_group(void)
{
	pid_t keeper = getppid();

	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(NUDGE_GROUP, NUDGE_GROUP, NUDGE_GROUP) < 0) {
		say("cannot take group %d: %s; files cannot be watched", NUDGE_GROUP,
		    strerror(errno));
		return -errno;
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper)
		return -ESRCH;
	return 0;
}

static size_t files_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 2 * OTHER_FILES)
		return OTHER_FILES / 2;
	return limit.rlim_cur - OTHER_FILES < NUDGER_FILES_MAX ? limit.rlim_cur - OTHER_FILES
							       : NUDGER_FILES_MAX;
}

static int start_threads(struct nudger *n)
{
	pthread_attr_t attr;
	pthread_t thread;

	int r = pthread_attr_init(&attr);
	if (r != 0)
		return r;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < NUDGE_WORKERS && r == 0; i++)
		r = pthread_create(&thread, &attr, work, n);
	if (r == 0)
		r = pthread_create(&thread, &attr, close_files, n);
	(void)pthread_attr_destroy(&attr);
	return r;
}

static int prepare(struct nudger *n)
{
	pthread_condattr_t attr;
	struct mountinfo m;
	struct error err;

	if (take_group() < 0)
		return -1;
	if (mountinfo_find(n->mountpoint, &m, &err) <= 0) {
		say("nothing is mounted at %s", n->mountpoint);
		return -1;
	}
	n->dev = m.dev;
	n->files = files_new(files_max());
	if (!n->files || pthread_condattr_init(&attr) != 0)
		return -1;
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&n->lock, NULL);
	(void)pthread_cond_init(&n->asked, &attr);
	(void)pthread_condattr_destroy(&attr);
	int r = start_threads(n);
	if (r != 0)
		say("cannot start threads: %s", strerror(r));
	return r == 0 ? 0 : -1;
}

int nudger_main(const char *mountpoint, int socket_fd)
{
	struct nudger n = {.mountpoint = mountpoint, .socket_fd = socket_fd};

	/* Threads use this stack until the process ends: it is not left before. */
	if (prepare(&n) < 0)
		exit(EXIT_FAILURE);
	scan_for_ever(&n);
}
