/*
 * The files before SQLite sees them: the lock file with its record, and the database's own.
 *
 * The lock is taken first, because closing any descriptor of the database file drops the POSIX
 * locks that SQLite holds on it in this process. The record is one line in the lock file:
 *
 *	<open|closed> <boot id> <inode> <bytes> <mtime ns>
 *
 * It needs no fsync: after a power cut the boot differs, whatever it says.
 */
#include "core/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/clock.h"

#define RECORD_MAX 256
#define HEADER_BYTES 100
#define LOCK_POLL_MS 10

static const char *file_remedy(int code)
{
	switch (code) {
	case ENOENT:
		return "make its directory first";
	case ENOSPC:
		return "free space on that file system";
	case EROFS:
		return "mount that file system read-write";
	case EACCES:
		return "run as the user who owns the state directory";
	default:
		return "";
	}
}

static int file_error(const struct store *s, const char *suffix, const char *doing,
		      struct error *err)
{
	int code = errno;
	int r = error_set(err, code, "the database %s: cannot %s %s%s: %s", s->path, doing, s->path,
			  suffix, strerror(code));

	error_remedy(err, "%s", file_remedy(code));
	return r;
}

static int lock_take(struct store *s, struct error *err)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s.lock", s->path) >= (int)sizeof(path))
		return error_set(err, ENAMETOOLONG, "the path of the database is too long");
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return file_error(s, ".lock", "open", err);

	int64_t until = clock_boot_ns() + s->busy_timeout_ms * CLOCK_NS_PER_MS;
	for (;;) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

		if (fcntl(s->lock_fd, F_OFD_SETLK, &lock) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return file_error(s, ".lock", "lock", err);
		if (clock_boot_ns() >= until)
			break;
		const struct timespec pause = {.tv_nsec = LOCK_POLL_MS * CLOCK_NS_PER_MS};
		(void)nanosleep(&pause, NULL);
	}
	int r = error_set(err, EBUSY, "the database %s is in use by another cloopd", s->path);
	error_remedy(err, "stop that one first, or give this one a state directory of its own");
	return r;
}

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * CLOCK_NS_PER_S + st->st_mtim.tv_nsec;
}

static bool record_proves(const struct store *s, const struct stat *st)
{
	char text[RECORD_MAX], how[8], boot[65];
	uint64_t inode;
	int64_t bytes, mtime;
	ssize_t n = pread(s->lock_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	if (sscanf(text, "%7s %64s %" SCNu64 " %" SCNd64 " %" SCNd64, how, boot, &inode, &bytes,
		   &mtime) != 5)
		return false;
	if (strcmp(boot, s->boot_id) != 0 || inode != (uint64_t)st->st_ino)
		return false;
	if (strcmp(how, "closed") == 0)
		return bytes == (int64_t)st->st_size && mtime == mtime_ns(st);
	return strcmp(how, "open") == 0;
}

static void record_write(struct store *s, const char *how)
{
	struct stat st;
	char text[RECORD_MAX];

	/* A record that cannot be written only costs the next start a check. */
	if (ftruncate(s->lock_fd, 0) < 0 || stat(s->path, &st) < 0)
		return;
	int n = snprintf(text, sizeof(text), "%s %s %" PRIu64 " %" PRId64 " %" PRId64 "\n", how,
			 s->boot_id, (uint64_t)st.st_ino, (int64_t)st.st_size, mtime_ns(&st));
	if (pwrite(s->lock_fd, text, (size_t)n, 0) != n)
		(void)!ftruncate(s->lock_fd, 0);
}

void store_files_mark_open(struct store *s)
{
	record_write(s, "open");
}

void store_files_mark_closed(struct store *s)
{
	if (!atomic_load(&s->suspect))
		record_write(s, "closed");
}

void store_files_mark_suspect(struct store *s)
{
	if (!atomic_exchange(&s->suspect, true) && s->lock_fd >= 0)
		(void)!ftruncate(s->lock_fd, 0);
}

/* The name of a new database must outlive a power cut before its first commit is acknowledged. */
static int sync_directory(const struct store *s, struct error *err)
{
	AUTO_FREE char *dir = strdup(s->path);

	if (!dir)
		return error_oom(err);
	char *slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir ? 1 : 0] = '\0';
	AUTO_CLOSE int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return file_error(s, "", "make the name durable of", err);
	return 0;
}

static int64_t file_size(const char *path, const char *suffix)
{
	char name[PATH_MAX];
	struct stat st;

	(void)snprintf(name, sizeof(name), "%s%s", path, suffix);
	return stat(name, &st) == 0 ? (int64_t)st.st_size : 0;
}

static int damaged(const struct store *s, struct error *err, const char *what)
{
	int r = error_set(err, EUCLEAN, "the database %s %s", s->path, what);

	error_remedy(err, "it was left alone; put a backup in its place");
	return r;
}

static uint32_t big32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The database file header of SQLite's file format, section 1.3. */
static int check_header(const struct store *s, int fd, int64_t size, bool wal, struct error *err)
{
	static const char magic[16] = "SQLite format 3";
	unsigned char h[HEADER_BYTES];

	ssize_t n = pread(fd, h, sizeof(h), 0);
	if (n < 0)
		return file_error(s, "", "read", err);
	if (n < HEADER_BYTES || memcmp(h, magic, sizeof(magic)) != 0)
		return damaged(s, err, "is not an SQLite database: its header is wrong");
	unsigned page = (unsigned)h[16] << 8 | h[17];
	if (page == 1)
		page = 65536;
	if (page < 512 || (page & (page - 1)) != 0)
		return damaged(s, err, "is damaged: its header gives an impossible page size");
	/* With a log the header may be older or newer than the file; SQLite sorts that out. */
	uint32_t pages = big32(h + 28);
	if (!wal && memcmp(h + 24, h + 92, 4) == 0 && (int64_t)pages * page > size) {
		char what[160];

		(void)snprintf(what, sizeof(what),
			       "is cut short: %" PRIu32 " pages of %u bytes are missing %" PRId64
			       " bytes",
			       pages, page, (int64_t)pages * page - size);
		return damaged(s, err, what);
	}
	return 0;
}

int store_files_prepare(struct store *s, struct store_files *ret, struct error *err)
{
	struct stat st;
	int r = lock_take(s, err);

	if (r < 0)
		return r;
	int64_t wal_bytes = file_size(s->path, "-wal"),
		journal_bytes = file_size(s->path, "-journal");
	AUTO_CLOSE int fd = open(s->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool created = fd < 0 && errno == ENOENT;
	if (fd < 0 && !created) {
		if (errno == ELOOP || errno == EISDIR || errno == ENXIO)
			return error_set(err, EINVAL, "the database %s is not a plain file",
					 s->path);
		return file_error(s, "", "open", err);
	}
	if (!created && fstat(fd, &st) < 0)
		return file_error(s, "", "look at", err);
	if (!created && !S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "the database %s is not a plain file", s->path);

	/* SQLite would throw that log away, and with it what was acknowledged. */
	if ((created || st.st_size == 0) && wal_bytes > 0)
		return damaged(s, err, "is missing, but its write-ahead log (-wal) is there");
	if (created) {
		fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 || fstat(fd, &st) < 0)
			return file_error(s, "", "create", err);
		r = sync_directory(s, err);
	} else if (st.st_size > 0 && journal_bytes == 0) {
		/* With a rollback journal its creation was interrupted, and SQLite begins again. */
		r = check_header(s, fd, (int64_t)st.st_size, wal_bytes > 0, err);
	}
	if (r < 0)
		return r;
	*ret = (struct store_files){.wal_present = wal_bytes > 0,
				    .sound = record_proves(s, &st),
				    .bytes = (int64_t)st.st_size + wal_bytes};
	return 0;
}
