#include "drivers/shim/session_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/owner.h"

#define FILE_NAME_MAX 32
/* How often a folder may be removed under us (by the undo of a failed launch) before we give up. */
#define ENTER_TRIES 16

static void hex(uint64_t value, int digits, char *ret)
{
	ret[digits] = '\0';
	while (digits > 0) {
		ret[--digits] = "0123456789abcdef"[value & 15];
		value >>= 4;
	}
}

void session_dir_shard(uint64_t serial, char ret[static SESSION_SHARD_MAX])
{
	hex(serial & 0xff, SESSION_SHARD_MAX - 1, ret);
}

void session_dir_name(uint64_t serial, char ret[static SESSION_NAME_MAX])
{
	hex(serial, SESSION_NAME_MAX - 1, ret);
}

/* "exit" for attempt 1, "exit.N" after it; with ".new" appended when asked. */
static void file_name(const char *base, uint32_t attempt, bool fresh,
		      char ret[static FILE_NAME_MAX])
{
	if (attempt == 1)
		(void)snprintf(ret, FILE_NAME_MAX, "%s%s", base, fresh ? ".new" : "");
	else
		(void)snprintf(ret, FILE_NAME_MAX, "%s.%u%s", base, attempt, fresh ? ".new" : "");
}

/* Opens a directory that must be ours alone. */
static int open_own_dir(int at, const char *name)
{
	AUTO_CLOSE int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return -EPERM;
	return take_fd(&fd);
}

static int open_shard(int sessions_fd, uint64_t serial)
{
	char shard[SESSION_SHARD_MAX];

	session_dir_shard(serial, shard);
	return open_own_dir(sessions_fd, shard);
}

int session_dir_open(int sessions_fd, uint64_t serial)
{
	AUTO_CLOSE int shard = open_shard(sessions_fd, serial);
	char name[SESSION_NAME_MAX];

	if (shard < 0)
		return shard;
	session_dir_name(serial, name);
	return open_own_dir(shard, name);
}

static int sync_fd(int fd)
{
	return fsync(fd) < 0 ? -errno : 0;
}

int session_dir_prepare(int sessions_fd)
{
	char shard[SESSION_SHARD_MAX];

	for (uint64_t i = 0; i < SESSION_SHARDS; i++) {
		session_dir_shard(i, shard);
		if (mkdirat(sessions_fd, shard, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return sync_fd(sessions_fd);
}

static int make_dir(int sessions_fd, uint64_t serial)
{
	char shard_name[SESSION_SHARD_MAX], name[SESSION_NAME_MAX];
	int r = 0;

	session_dir_shard(serial, shard_name);
	session_dir_name(serial, name);
	/* It is there; when somebody removed it, its name is as new as what is in it. */
	if (mkdirat(sessions_fd, shard_name, 0700) == 0)
		r = sync_fd(sessions_fd);
	else if (errno != EEXIST)
		r = -errno;
	if (r < 0)
		return r;
	AUTO_CLOSE int shard = open_own_dir(sessions_fd, shard_name);
	if (shard < 0)
		return shard;
	if (mkdirat(shard, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return open_own_dir(shard, name);
}

static int set_lock(int fd, int command, short type, struct flock *ret)
{
	*ret = (struct flock){.l_type = type, .l_whence = SEEK_SET};
	return fcntl(fd, command, ret) < 0 ? -errno : 0;
}

/* Takes the lock of an open folder. -ENOENT when folder or lock were removed meanwhile. */
static int lock_dir(int dir)
{
	AUTO_CLOSE int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct flock lock;
	struct stat st;

	if (fd < 0)
		return -errno;
	int r = set_lock(fd, F_OFD_SETLK, F_WRLCK, &lock);
	if (r < 0)
		return r == -EACCES ? -EAGAIN : r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EPERM;
	/* Who held it before may have removed it: then it locks nothing any more. */
	return st.st_nlink == 0 ? -ENOENT : take_fd(&fd);
}

int session_dir_enter(int sessions_fd, uint64_t serial, int *ret_dir, int *ret_lock)
{
	for (int tries = 0; tries < ENTER_TRIES; tries++) {
		AUTO_CLOSE int dir = make_dir(sessions_fd, serial);

		if (dir == -ENOENT)
			continue;
		if (dir < 0)
			return dir;
		int lock = lock_dir(dir);
		if (lock == -ENOENT)
			continue;
		if (lock < 0)
			return lock;
		*ret_dir = take_fd(&dir);
		*ret_lock = lock;
		return 0;
	}
	return -ENOENT;
}

int session_dir_locked(int dir)
{
	AUTO_CLOSE int fd = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct flock lock;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	int r = set_lock(fd, F_OFD_GETLK, F_WRLCK, &lock);
	return r < 0 ? r : lock.l_type != F_UNLCK;
}

/* Reads a whole record; a file of another size is none. */
static int read_record(int dir, const char *name, void *ret, size_t size)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	/* A symbolic link is no record of ours. */
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != (off_t)size)
		return -EBADMSG;
	ssize_t n = pread(fd, ret, size, 0);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EBADMSG;
}

/* A file system may write less than asked when it is nearly full. */
static int write_record(int fd, const void *data, size_t size)
{
	ssize_t n = pwrite(fd, data, size, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -ENOSPC;
}

/* Takes the room for the exit record: written, so that it is reserved. */
static int reserve_exit(int dir, uint32_t attempt)
{
	static const struct session_exit empty;
	char name[FILE_NAME_MAX];

	file_name("exit", attempt, true, name);
	AUTO_CLOSE int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	return write_record(fd, &empty, sizeof(empty));
}

/* A failed creation must not look like a start. */
static int fail_started(int dir, const char *name, uint32_t attempt, int r)
{
	char fresh[FILE_NAME_MAX];

	file_name("exit", attempt, true, fresh);
	(void)unlinkat(dir, fresh, 0);
	(void)unlinkat(dir, name, 0);
	return r;
}

int session_started_create(int sessions_fd, int dir, struct session_started *record)
{
	char name[FILE_NAME_MAX];

	memcpy(record->magic, SESSION_STARTED_MAGIC, sizeof(record->magic));
	record->version = SESSION_RECORD_VERSION;
	int r = boot_id_read(record->boot_id);
	if (r < 0)
		return r;

	file_name("started", record->attempt, false, name);
	AUTO_CLOSE int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fault_point("shim.started");
	if (r == 0)
		r = write_record(fd, record, sizeof(*record));
	if (r == 0)
		r = reserve_exit(dir, record->attempt);
	if (r == 0)
		r = sync_fd(fd);
	if (r == 0)
		r = sync_fd(dir);
	if (r < 0)
		return fail_started(dir, name, record->attempt, r);

	/* The folder's own name is as new; its shard's is not (session_dir_prepare). */
	AUTO_CLOSE int shard = open_shard(sessions_fd, record->serial);
	if (shard < 0)
		return fail_started(dir, name, record->attempt, shard);
	r = sync_fd(shard);
	if (r < 0)
		return fail_started(dir, name, record->attempt, r);
	return take_fd(&fd);
}

int session_started_set_pid(int started_fd, int32_t pid, uint64_t starttime)
{
	struct {
		int32_t pid;
		uint64_t starttime;
	} __attribute__((packed)) tail = {pid, starttime};

	_Static_assert(offsetof(struct session_started, pid_starttime) ==
			       offsetof(struct session_started, pid) + sizeof(int32_t),
		       "pid and its start time are written at once");
	ssize_t n = pwrite(started_fd, &tail, sizeof(tail), offsetof(struct session_started, pid));
	if (n < 0)
		return -errno;
	return (size_t)n == sizeof(tail) ? 0 : -EIO;
}

int session_started_read(int dir, uint64_t serial, uint32_t attempt, struct session_started *ret)
{
	struct session_started record = {0};
	char name[FILE_NAME_MAX];

	file_name("started", attempt, false, name);
	int r = read_record(dir, name, &record, sizeof(record));
	if (r < 0)
		return r;
	if (memcmp(record.magic, SESSION_STARTED_MAGIC, sizeof(record.magic)) != 0 ||
	    record.version != SESSION_RECORD_VERSION || record.serial != serial ||
	    record.attempt != attempt)
		return -EBADMSG;
	*ret = record;
	return 0;
}

int session_exit_write(int dir, uint64_t serial, uint32_t attempt, const struct shim_exit *exit)
{
	struct session_exit record = {
		.version = SESSION_RECORD_VERSION,
		.attempt = attempt,
		.serial = serial,
		.exit = *exit,
	};
	char fresh[FILE_NAME_MAX], name[FILE_NAME_MAX];

	memcpy(record.magic, SESSION_EXIT_MAGIC, sizeof(record.magic));
	file_name("exit", attempt, true, fresh);
	file_name("exit", attempt, false, name);

	/* Without O_TRUNC: the room that was taken at the start is written over. */
	AUTO_CLOSE int fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = fault_point("shim.exit_record");
	if (r == 0)
		r = write_record(fd, &record, sizeof(record));
	if (r == 0)
		r = sync_fd(fd);
	if (r < 0)
		return r;
	if (renameat(dir, fresh, dir, name) < 0)
		return -errno;
	return sync_fd(dir);
}

int session_exit_read(int dir, uint64_t serial, uint32_t attempt, struct shim_exit *ret)
{
	struct session_exit record = {0};
	char name[FILE_NAME_MAX];

	file_name("exit", attempt, false, name);
	int r = read_record(dir, name, &record, sizeof(record));
	if (r < 0)
		return r;
	if (memcmp(record.magic, SESSION_EXIT_MAGIC, sizeof(record.magic)) != 0 ||
	    record.version != SESSION_RECORD_VERSION || record.serial != serial ||
	    record.attempt != attempt)
		return -EBADMSG;
	*ret = record.exit;
	return 0;
}

void session_launch_undo(int sessions_fd, int dir, uint64_t serial, uint32_t attempt, bool claimed)
{
	static const char *const files[] = {"log",
					    "index",
					    "log.tail",
					    "signals",
					    SHIM_CONTAINER_ID,
					    SHIM_CONTAINER_MONITOR_PID,
					    SHIM_CONTAINER_INIT_PID};
	char name[FILE_NAME_MAX], dir_name[SESSION_NAME_MAX];

	/* Without a claim nothing was made but the folder and the lock, and what is there is of
	 * somebody else: the folder is not removed then, since it is not empty. */
	if (claimed) {
		for (size_t i = 0; attempt == 1 && i < ARRAY_SIZE(files); i++)
			(void)unlinkat(dir, files[i], 0);
		(void)session_private_remove(dir);
		(void)unlinkat(dir, "stage", AT_REMOVEDIR);
		file_name("exit", attempt, true, name);
		(void)unlinkat(dir, name, 0);
		(void)fault_point("shim.undo");
		file_name("started", attempt, false, name);
		(void)unlinkat(dir, name, 0);
	}
	if (attempt > 1)
		return;

	AUTO_CLOSE int shard = open_shard(sessions_fd, serial);
	if (shard < 0)
		return;
	/* The lock last: who waits for it sees that it is gone, and begins anew. */
	(void)unlinkat(dir, "lock", 0);
	session_dir_name(serial, dir_name);
	(void)unlinkat(shard, dir_name, AT_REMOVEDIR);
}

/* Removes every entry but the lock. */
static int empty_dir(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	int r = 0;

	if (!d) {
		r = -errno;
		(void)close_fd(copy);
		return r;
	}
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    strcmp(e->d_name, "lock") == 0)
			continue;
		int flags = e->d_type == DT_DIR ? AT_REMOVEDIR : 0;
		if (unlinkat(dir, e->d_name, flags) < 0 && errno != ENOENT)
			r = -errno;
	}
	return r;
}

int shim_session_remove(int sessions_fd, uint64_t serial)
{
	char name[SESSION_NAME_MAX];
	AUTO_CLOSE int shard = open_shard(sessions_fd, serial);
	AUTO_CLOSE int dir = shard < 0 ? shard : session_dir_open(sessions_fd, serial);

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	AUTO_CLOSE int lock = lock_dir(dir);
	if (lock == -EAGAIN)
		return -EBUSY;
	if (lock < 0)
		return lock == -ENOENT ? 0 : lock;
	/* Of a container whose shim was killed. */
	int r = session_private_remove(dir);
	if (r == 0)
		r = empty_dir(dir);
	if (r < 0)
		return r;
	(void)fault_point("removal.empty");
	(void)unlinkat(dir, "lock", 0);
	(void)fault_point("removal.unlocked");
	session_dir_name(serial, name);
	if (unlinkat(shard, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}
