/* Opening a log: a new one, one that goes on, one whose writer died. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/owner.h"
#include "drivers/shim/log_writer_private.h"

/*
 * How many damaged records at the end of an index are cut off: more than a machine that loses
 * power can forget, and few enough to look at in a second.
 */
#define BACK_MAX (UINT64_C(1) << 22)

/* Opens a file of the folder. Nothing but a regular file is any good. */
static int open_regular(int dirfd, const char *name, int flags, uint64_t *ret_size, int *ret_fd)
{
	struct stat st;

	AUTO_CLOSE int fd =
		openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags, 0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EUCLEAN;
	if (ret_size)
		*ret_size = (uint64_t)st.st_size;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int begin(struct log_writer *w, int dirfd, uint64_t quota_bytes)
{
	memset(w, 0, sizeof(*w));
	w->dir_fd = w->log_fd = w->index_fd = w->ring.fd = -1;
	if (quota_bytes < LOG_QUOTA_MIN_BYTES || quota_bytes > LOG_QUOTA_MAX_BYTES)
		return -EINVAL;
	w->quota_bytes = quota_bytes;
	log_writer_touch(w);
	/* A descriptor of our own that can be synced, also when the caller's is only a path. */
	w->dir_fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return w->dir_fd < 0 ? -errno : 0;
}

static int create(struct log_writer *w, uint16_t attempt)
{
	int r, cause;

	w->attempt = attempt;
	r = open_regular(w->dir_fd, LOG_FILE, O_CREAT | O_EXCL, NULL, &w->log_fd);
	if (r == 0)
		r = open_regular(w->dir_fd, LOG_INDEX_FILE, O_CREAT | O_EXCL, NULL, &w->index_fd);
	if (r == 0)
		r = log_ring_create(&w->ring, w->dir_fd, w->quota_bytes);
	if (r == 0)
		r = log_writer_header(w);
	/* Room for the last marker, which holds from here on. */
	if (r == 0 && log_writer_room(w, 1, &cause) == 0)
		r = -cause;
	if (r == 0)
		return 0;
	/* What is open is what was made here, in this order. */
	if (w->ring.fd >= 0)
		(void)unlinkat(w->dir_fd, LOG_TAIL_FILE, 0);
	if (w->index_fd >= 0)
		(void)unlinkat(w->dir_fd, LOG_INDEX_FILE, 0);
	if (w->log_fd >= 0)
		(void)unlinkat(w->dir_fd, LOG_FILE, 0);
	return r;
}

/*
 * Bytes without a record, from a writer that died between the two: they belong to the stream that
 * it had noted. A marker line that was on its way is left out.
 */
static void adopt_bytes(struct log_writer *w, uint64_t n)
{
	enum log_stream stream = w->stream;

	while (n > 0 && !w->ended && (stream == LOG_STDOUT || stream == LOG_STDERR)) {
		size_t most = n < LOG_PUMP_MAX_BYTES ? (size_t)n : LOG_PUMP_MAX_BYTES, kept = 0;
		int cause;
		size_t part = log_writer_room(w, most, &cause);

		if (part > 0)
			kept = log_writer_record(w, stream, part, 0, &cause);
		n -= kept;
		if (part == 0 || kept < part) {
			log_writer_salvage(w, stream, (size_t)n);
			log_writer_end(w, cause);
			return;
		}
	}
	if (n > 0)
		(void)!ftruncate(w->log_fd, (off_t)w->log_end);
}

/*
 * Opens what is there (flags: O_CREAT when it may be nothing), makes it whole, and stands at its
 * end. The index header is only a hint: it may be torn. Returns whether any attempt has a log
 * here, or a negative errno.
 */
static int resume(struct log_writer *w, int flags)
{
	struct log_index_header header;
	struct log_record last = {.attempt = 0};
	uint64_t log_size = 0, index_size = 0;
	int r, error;

	r = open_regular(w->dir_fd, LOG_FILE, flags, &log_size, &w->log_fd);
	if (r == 0)
		r = open_regular(w->dir_fd, LOG_INDEX_FILE, O_CREAT, &index_size, &w->index_fd);
	if (r == 0)
		r = log_index_last(w->index_fd, index_size, log_size, BACK_MAX, &last, &w->records);
	if (r < 0)
		return r;

	if (w->records > 0) {
		w->log_end = log_record_log_end(&last);
		w->out_end = log_record_out_end(&last);
		w->err_end = log_record_err_end(&last);
		w->attempt = last.attempt;
		w->ended = (last.flags & LOG_RECORD_LAST) != 0;
		if (w->time_ns < last.time_ns)
			w->time_ns = last.time_ns;
	}
	if (log_pread_all(w->index_fd, &header, sizeof(header), 0, &error) == sizeof(header) &&
	    log_index_header_valid(&header)) {
		w->stream = header.stream;
		if (w->attempt < header.attempt)
			w->attempt = header.attempt;
	}
	w->log_allocated = w->log_flushed = w->log_end;
	w->index_allocated = LOG_RECORD_OFFSET(w->records);
	if (index_size > w->index_allocated &&
	    ftruncate(w->index_fd, (off_t)w->index_allocated) < 0)
		return -errno;

	r = log_ring_open(&w->ring, w->dir_fd);
	if (r == -EUCLEAN && unlinkat(w->dir_fd, LOG_TAIL_FILE, 0) < 0)
		return -errno;
	if (r < 0 && r != -EUCLEAN && r != -ENOENT)
		return r;
	if (r == 0) {
		if (w->attempt < w->ring.header.attempt)
			w->attempt = (uint16_t)w->ring.header.attempt;
		if (w->time_ns < w->ring.header.time_ns)
			w->time_ns = w->ring.header.time_ns;
		/* The last marker did not get onto the disk, but the log had ended. */
		if (log_ring_used(&w->ring))
			w->ended = true;
	}
	adopt_bytes(w, log_size - w->log_end);
	log_writer_count(w);
	return w->attempt > 0;
}

/* The next attempt at a log that goes on; 0 is the one after the last. */
static int resume_as(struct log_writer *w, unsigned int attempt)
{
	int found = resume(w, O_CREAT);

	if (found < 0)
		return found;
	if (attempt == 0)
		attempt = (unsigned int)w->attempt + 1;
	if (attempt > UINT16_MAX || attempt <= w->attempt)
		return -EINVAL;
	w->attempt = (uint16_t)attempt;
	/* Without a ring the log goes on all the same: it may be the disk that is full. */
	if (w->ring.fd < 0)
		(void)log_ring_create(&w->ring, w->dir_fd, w->quota_bytes);
	int r = log_writer_header(w);
	if (r < 0 && r != -ENOSPC && r != -EDQUOT)
		return r;
	if (!found)
		return 0;
	log_writer_attempt_marker(w);
	return 0;
}

static int open_as(struct log_writer *w, int dirfd, uint64_t quota_bytes, bool new_log,
		   unsigned int attempt)
{
	int r = begin(w, dirfd, quota_bytes);

	if (r == 0)
		r = new_log ? create(w, (uint16_t)attempt) : resume_as(w, attempt);
	if (r < 0) {
		w->ring.fd = close_fd(w->ring.fd);
		w->log_fd = close_fd(w->log_fd);
		w->index_fd = close_fd(w->index_fd);
		w->dir_fd = close_fd(w->dir_fd);
	}
	return r;
}

int log_writer_open(struct log_writer *w, int dirfd, uint64_t quota_bytes, bool append)
{
	return open_as(w, dirfd, quota_bytes, !append, append ? 0 : 1);
}

int log_writer_open_attempt(struct log_writer *w, int dirfd, uint64_t quota_bytes,
			    unsigned int attempt)
{
	if (attempt == 0) {
		(void)begin(w, -1, 0);
		return -EINVAL;
	}
	return open_as(w, dirfd, quota_bytes, attempt == 1, attempt);
}

int log_writer_repair(int dirfd, uint64_t quota_bytes, const char *marker)
{
	struct log_writer w;
	int r = begin(&w, dirfd, quota_bytes);

	if (r == 0)
		r = resume(&w, 0);
	if (r > 0 && marker)
		(void)log_writer_marker(&w, marker);
	if (r >= 0)
		r = log_writer_sync(&w);
	log_writer_close(&w);
	return r == -ENOENT ? 0 : r;
}
