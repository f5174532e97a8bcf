#include "drivers/shim/log_reader.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/shim/log_reader_private.h"

/*
 * How many damaged records at the end of an index are passed over. A writer that dies leaves one;
 * a machine that loses power leaves what was not on disk yet. What is more is damage of another
 * kind, and the hub does not search for its end.
 */
#define BACK_MAX 65536

/* A header that is read while it is written is read again, this often. */
#define TAIL_TRIES 16

/* Opens a file of the folder when it is there. Returns 0 with *fd open or still -1. */
static int open_file(struct log_reader *r, const char *name, int *fd, struct error *err)
{
	struct stat st;

	if (*fd >= 0 || r->dir_fd < 0)
		return 0;
	AUTO_CLOSE int opened =
		openat(r->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (opened < 0 && errno == ENOENT)
		return 0;
	if (opened < 0)
		return error_set(err, errno, "the session's %s cannot be opened (%s)", name,
				 error_name(errno));
	if (fstat(opened, &st) < 0)
		return error_set(err, errno, "the session's %s cannot be examined", name);
	if (!S_ISREG(st.st_mode))
		return error_set(err, EIO, "the session's %s is not a regular file", name);
	*fd = take_fd(&opened);
	return 0;
}

int log_reader_look(struct log_reader *r, struct error *err)
{
	struct log_record last;
	struct stat st;
	uint64_t records, index_bytes;
	int e;

	e = open_file(r, LOG_INDEX_FILE, &r->index_fd, err);
	if (e == 0 && r->index_fd >= 0)
		e = open_file(r, LOG_FILE, &r->log_fd, err);
	if (e < 0 || r->index_fd < 0 || r->log_fd < 0)
		return e;
	if (fstat(r->index_fd, &st) < 0)
		return error_set(err, errno, "the index of the log cannot be examined");
	index_bytes = (uint64_t)st.st_size;
	/* The same size, and all of it was good then: nothing is new. */
	if (index_bytes == r->index_bytes && index_bytes == LOG_RECORD_OFFSET(r->records))
		return 0;
	/* After the index: its records never point past the log that is seen here. */
	if (fstat(r->log_fd, &st) < 0)
		return error_set(err, errno, "the log cannot be examined");
	e = log_index_last(r->index_fd, index_bytes, (uint64_t)st.st_size, BACK_MAX, &last,
			   &records);
	if (e == -EUCLEAN)
		return error_set(err, EIO, "the index of the log is damaged at its end");
	if (e < 0)
		return error_set(err, -e, "the index of the log cannot be read (%s)",
				 error_name(-e));
	r->index_bytes = index_bytes;
	r->records = records;
	if (records == 0) {
		r->log_end = r->out_end = r->err_end = 0;
		r->time_ns = 0;
		r->attempt = 0;
		r->ended = false;
		return 0;
	}
	r->log_end = log_record_log_end(&last);
	r->out_end = log_record_out_end(&last);
	r->err_end = log_record_err_end(&last);
	r->time_ns = last.time_ns;
	r->attempt = last.attempt;
	r->ended = (last.flags & LOG_RECORD_LAST) != 0;
	return 0;
}

int log_tail_look(struct log_reader *r, struct log_tail_header *ret, struct error *err)
{
	int error, e = open_file(r, LOG_TAIL_FILE, &r->tail_fd, err);

	if (e < 0)
		return e;
	for (int i = 0; r->tail_fd >= 0 && i < TAIL_TRIES; i++) {
		if (log_pread_all(r->tail_fd, ret, sizeof(*ret), 0, &error) < sizeof(*ret)) {
			if (error)
				return error_set(err, error, "log.tail cannot be read (%s)",
						 error_name(error));
			break; /* it is being made */
		}
		if (log_tail_header_valid(ret)) {
			/* A writer removes one that was not used, and may come to make another. */
			if (log_tail_bytes(ret) + log_tail_dropped(ret) == 0)
				r->tail_fd = close_fd(r->tail_fd);
			return 0;
		}
	}
	r->tail_fd = close_fd(r->tail_fd);
	memset(ret, 0, sizeof(*ret));
	return 0;
}

ssize_t log_tail_pread(struct log_reader *r, char *buf, size_t len, uint64_t offset,
		       struct error *err)
{
	struct log_tail_header before, after;
	uint64_t from, gone;
	size_t n, done = 0;
	int e = log_tail_look(r, &before, err);

	if (e < 0)
		return e;
	if (offset >= log_tail_bytes(&before))
		return 0;
	from = before.first + offset;
	n = (size_t)(before.written - from < len ? before.written - from : len);
	/* At most twice: the ring is at most one round long. */
	while (done < n) {
		uint64_t at = (from + done) % before.capacity_bytes;
		size_t part = n - done;
		int error;

		if (part > before.capacity_bytes - at)
			part = (size_t)(before.capacity_bytes - at);
		if (log_pread_all(r->tail_fd, buf + done, part, LOG_TAIL_DATA_OFFSET + at, &error) <
		    part)
			return error_set(err, error ? error : EIO, "log.tail is damaged");
		done += part;
	}
	e = log_tail_look(r, &after, err);
	if (e < 0)
		return e;
	gone = after.first > from ? after.first - from : 0;
	if (gone >= n)
		return 0;
	memmove(buf, buf + gone, n - (size_t)gone);
	return (ssize_t)(n - (size_t)gone);
}

int log_reader_open(int dirfd, struct log_reader **ret, struct error *err)
{
	struct log_reader *r = malloc(sizeof(*r));
	int e = 0;

	if (!r)
		return error_oom(err);
	*r = (struct log_reader){.dir_fd = -1, .log_fd = -1, .index_fd = -1, .tail_fd = -1};
	if (dirfd >= 0)
		r->dir_fd = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd >= 0 && r->dir_fd < 0)
		e = error_set(err, errno, "the session's folder cannot be opened (%s)",
			      error_name(errno));
	if (e == 0)
		e = log_reader_look(r, err);
	if (e < 0) {
		log_reader_free(r);
		return e;
	}
	*ret = r;
	return 0;
}

struct log_reader *log_reader_free(struct log_reader *r)
{
	if (r) {
		close_fd(r->dir_fd);
		close_fd(r->log_fd);
		close_fd(r->index_fd);
		close_fd(r->tail_fd);
		free(r);
	}
	return NULL;
}

void log_reader_complete(struct log_reader *r)
{
	r->complete = true;
}

int log_reader_log_fd(const struct log_reader *r)
{
	return r->log_fd;
}

int log_reader_sizes(struct log_reader *r, struct log_sizes *ret, struct error *err)
{
	struct log_tail_header tail;
	int e = log_reader_look(r, err);

	if (e == 0)
		e = log_tail_look(r, &tail, err);
	if (e < 0)
		return e;
	*ret = (struct log_sizes){
		.log_bytes = r->log_end,
		.stdout_bytes = r->out_end,
		.stderr_bytes = r->err_end,
		.tail_bytes = log_tail_bytes(&tail),
		.dropped_bytes = log_tail_dropped(&tail),
		.records = r->records,
		.time_ns = tail.time_ns > r->time_ns ? tail.time_ns : r->time_ns,
		.attempt = tail.attempt > r->attempt ? (uint16_t)tail.attempt : r->attempt,
		.ended = r->ended || log_tail_bytes(&tail) + log_tail_dropped(&tail) > 0,
	};
	return 0;
}

int log_reader_bytes(const struct log_reader *r, void *buf, size_t n, uint64_t offset,
		     struct error *err)
{
	int error;

	if (log_pread_all(r->log_fd, buf, n, offset, &error) < n)
		return error_set(err, error ? error : EIO,
				 "the log is shorter than its index says");
	return 0;
}

/* How many of len bytes there are at an offset of a view. */
static ssize_t span(struct log_reader *r, enum log_view view, size_t len, uint64_t offset,
		    struct error *err)
{
	uint64_t end;

	for (int looked = 0;; looked++) {
		end = view == LOG_VIEW_LOG      ? r->log_end
		      : view == LOG_VIEW_STDOUT ? r->out_end
						: r->err_end;
		if ((offset < end && len <= end - offset) || looked)
			break;
		int e = log_reader_look(r, err);
		if (e < 0)
			return e;
	}
	if (offset >= end)
		return 0;
	return (ssize_t)(len > end - offset ? (size_t)(end - offset) : len);
}

ssize_t log_reader_span(struct log_reader *r, size_t len, uint64_t offset, struct error *err)
{
	return span(r, LOG_VIEW_LOG, len, offset, err);
}

ssize_t log_reader_pread(struct log_reader *r, enum log_view view, void *buf, size_t len,
			 uint64_t offset, struct error *err)
{
	if (view == LOG_VIEW_TAIL)
		return log_tail_pread(r, buf, len, offset, err);
	ssize_t n = span(r, view, len, offset, err);
	if (n <= 0)
		return n;
	if (view != LOG_VIEW_LOG)
		return log_view_pread(r, r->records,
				      view == LOG_VIEW_STDOUT ? LOG_STDOUT : LOG_STDERR, buf,
				      (size_t)n, offset, err);
	int e = log_reader_bytes(r, buf, (size_t)n, offset, err);
	return e < 0 ? e : n;
}
