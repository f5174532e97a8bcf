#include "drivers/shim/log_writer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "core/owner.h"
#include "drivers/shim/log_writer_private.h"

/* What is read at once where splice(2) does not do it; on the stack. */
#define COPY_BYTES 65536

/*
 * How far ahead space is allocated: little for the many sessions that write little, then in steps
 * that cost nothing against the bytes that fill them.
 */
#define LOG_STEP_BYTES (UINT64_C(64) << 10)
#define LOG_STEP_LARGE_BYTES (UINT64_C(4) << 20)
#define INDEX_STEP_BYTES UINT64_C(4096)
#define INDEX_STEP_LARGE_BYTES (UINT64_C(64) << 10)

/*
 * Write-out begins when this much has come together, so that the sync at the end of a large log,
 * which holds up the end of its session, has little left to do.
 */
#define FLUSH_BYTES (UINT64_C(8) << 20)

/* Records of one call. */
#define RECORDS_MAX (LOG_PUMP_MAX_BYTES / LOG_RECORD_MAX_BYTES)

/* A marker line that is being put together. */
struct line {
	char text[LOG_MARKER_MAX_BYTES];
	size_t len;
};

static void line_add(struct line *l, const char *s)
{
	/* A byte is kept for the newline. */
	while (*s && l->len < sizeof(l->text) - 1) {
		unsigned char c = (unsigned char)*s++;

		l->text[l->len++] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
	}
	/* Never end in the middle of a code point. */
	if (*s && ((unsigned char)*s & 0xc0) == 0x80) {
		while (l->len > 0 && ((unsigned char)l->text[l->len - 1] & 0xc0) == 0x80)
			l->len--;
		if (l->len > 0)
			l->len--;
	}
}

static void line_add_number(struct line *l, uint64_t n)
{
	char digits[21], *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	line_add(l, p);
}

void log_writer_touch(struct log_writer *w)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) == 0) {
		int64_t now = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;

		if (now > w->time_ns)
			w->time_ns = now;
	}
}

void log_writer_count(struct log_writer *w)
{
	w->log_bytes = w->out_end + w->err_end + log_tail_output(&w->ring.header);
	w->dropped_bytes = log_tail_dropped(&w->ring.header);
}

int log_writer_header(struct log_writer *w)
{
	struct log_index_header header = {.attempt = w->attempt, .stream = w->stream};
	int error;

	log_index_header_seal(&header);
	return log_pwrite_all(w->index_fd, &header, sizeof(header), 0, &error) == sizeof(header)
		       ? 0
		       : -error;
}

void log_writer_note_stream(struct log_writer *w, enum log_stream stream)
{
	if (w->stream == stream)
		return;
	w->stream = (uint8_t)stream;
	if (log_writer_header(w) < 0)
		w->stream = 0; /* tried again with the next bytes */
}

/* Allocates a file up to `need` bytes, and a step beyond when there is room. */
static int allocate(struct log_writer *w, int fd, uint64_t *allocated, uint64_t need, uint64_t step,
		    uint64_t max)
{
	uint64_t end = (need + step - 1) / step * step;

	if (w->no_allocate || need <= *allocated)
		return 0;
	if (end > max)
		end = max;
	while (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)*allocated, (off_t)(end - *allocated)) <
	       0) {
		if (errno == EINTR)
			continue;
		if (errno == EOPNOTSUPP || errno == ENOSYS) {
			w->no_allocate = true;
			return 0;
		}
		if (end == need)
			return -errno;
		end = need;
	}
	*allocated = end;
	return 0;
}

size_t log_writer_room(struct log_writer *w, size_t n, int *ret_cause)
{
	uint64_t room = w->quota_bytes - LOG_END_MAX_BYTES;
	uint64_t index_max =
		LOG_INDEX_SPARE_BYTES + LOG_INDEX_SHARE * w->quota_bytes; /* at most 2^42 */
	uint64_t records;

	*ret_cause = LOG_CAUSE_QUOTA;
	room = room > w->log_end ? room - w->log_end : 0;
	if (n > LOG_PUMP_MAX_BYTES)
		n = LOG_PUMP_MAX_BYTES;
	if (n > room)
		n = (size_t)room;
	if (n == 0)
		return 0;

	/* Behind these records there is room for one more, of the last marker. */
	records = w->records + (n + LOG_RECORD_MAX_BYTES - 1) / LOG_RECORD_MAX_BYTES;
	*ret_cause = LOG_CAUSE_INDEX;
	if (LOG_RECORD_OFFSET(records + 1) > index_max)
		return 0;
	int r = allocate(w, w->index_fd, &w->index_allocated, LOG_RECORD_OFFSET(records + 1),
			 w->records < 1024 ? INDEX_STEP_BYTES : INDEX_STEP_LARGE_BYTES, index_max);
	if (r == 0)
		r = allocate(w, w->log_fd, &w->log_allocated, w->log_end + n + LOG_END_MAX_BYTES,
			     w->log_end < LOG_STEP_LARGE_BYTES ? LOG_STEP_BYTES
							       : LOG_STEP_LARGE_BYTES,
			     w->quota_bytes);
	if (r == 0)
		return n;
	*ret_cause = -r;
	/* The disk is full: what was allocated before is filled to the end. */
	if (w->log_allocated > w->log_end + LOG_END_MAX_BYTES &&
	    w->index_allocated >= LOG_RECORD_OFFSET(w->records + 2)) {
		uint64_t left = w->log_allocated - w->log_end - LOG_END_MAX_BYTES;

		if (left > LOG_RECORD_MAX_BYTES)
			left = LOG_RECORD_MAX_BYTES;
		return n < left ? n : (size_t)left;
	}
	return 0;
}

size_t log_writer_record(struct log_writer *w, enum log_stream stream, size_t n, uint8_t flags,
			 int *ret_cause)
{
	struct log_record batch[RECORDS_MAX];
	uint64_t out = w->out_end, err = w->err_end;
	size_t count = 0, whole, done = 0;

	for (size_t at = 0; at < n && count < RECORDS_MAX; count++) {
		struct log_record *rec = &batch[count];
		size_t len = n - at < LOG_RECORD_MAX_BYTES ? n - at : LOG_RECORD_MAX_BYTES;

		*rec = (struct log_record){.time_ns = w->time_ns,
					   .log_offset = w->log_end + at,
					   .out_offset = out,
					   .err_offset = err,
					   .len_bytes = (uint32_t)len,
					   .attempt = w->attempt,
					   .stream = (uint8_t)stream,
					   .flags = flags};
		out = log_record_out_end(rec);
		err = log_record_err_end(rec);
		log_record_seal(rec, w->records + count);
		at += len;
	}
	whole = log_pwrite_all(w->index_fd, batch, count * sizeof(batch[0]),
			       LOG_RECORD_OFFSET(w->records), ret_cause) /
		sizeof(batch[0]);
	if (whole > 0) {
		const struct log_record *last = &batch[whole - 1];

		done = (size_t)(log_record_log_end(last) - w->log_end);
		w->log_end = log_record_log_end(last);
		w->out_end = log_record_out_end(last);
		w->err_end = log_record_err_end(last);
		w->records += whole;
	}
	if (w->log_end - w->log_flushed >= FLUSH_BYTES) {
		(void)sync_file_range(w->log_fd, (off_t)w->log_flushed,
				      (off_t)(w->log_end - w->log_flushed), SYNC_FILE_RANGE_WRITE);
		w->log_flushed = w->log_end;
	}
	if (whole < count)
		(void)!ftruncate(w->index_fd, (off_t)LOG_RECORD_OFFSET(w->records));
	return done;
}

static void cut(struct log_writer *w)
{
	if (ftruncate(w->log_fd, (off_t)w->log_end) == 0)
		w->log_allocated = w->log_end;
	if (ftruncate(w->index_fd, (off_t)LOG_RECORD_OFFSET(w->records)) == 0)
		w->index_allocated = LOG_RECORD_OFFSET(w->records);
}

void log_writer_salvage(struct log_writer *w, enum log_stream stream, size_t n)
{
	char buf[COPY_BYTES];
	int error;

	for (size_t at = 0; at < n;) {
		size_t want = n - at < sizeof(buf) ? n - at : sizeof(buf);
		size_t got = log_pread_all(w->log_fd, buf, want, w->log_end + at, &error);

		log_ring_store(&w->ring, stream, buf, got, w->time_ns, w->attempt);
		w->ring.header.lost_bytes += want - got;
		at += want;
	}
	(void)!ftruncate(w->log_fd, (off_t)w->log_end);
}

/* Adds a line that fits. Returns 0, or the cause of the failure, with nothing added. */
static int add_marker(struct log_writer *w, const struct line *line, uint8_t flags)
{
	int cause;

	log_writer_note_stream(w, LOG_MARKER);
	if (log_pwrite_all(w->log_fd, line->text, line->len, w->log_end, &cause) < line->len ||
	    log_writer_record(w, LOG_MARKER, line->len, flags, &cause) < line->len) {
		(void)!ftruncate(w->log_fd, (off_t)w->log_end);
		return cause;
	}
	return 0;
}

/* Begins a marker line where the log stands: on a line of its own. */
static struct line line_begin(struct log_writer *w)
{
	struct line line = {.len = 0};
	char last = '\n';
	int error;

	if (!w->ended && w->log_end > 0 &&
	    log_pread_all(w->log_fd, &last, 1, w->log_end - 1, &error) == 1 && last != '\n')
		line.text[line.len++] = '\n';
	line_add(&line, "[cloop] ");
	return line;
}

void log_writer_end(struct log_writer *w, int cause)
{
	struct line line = line_begin(w);

	switch (cause) {
	case LOG_CAUSE_QUOTA:
		line_add(&line, "the log quota of ");
		line_add_number(&line, w->quota_bytes);
		line_add(&line, " bytes is reached");
		break;
	case LOG_CAUSE_INDEX:
		line_add(&line, "the log quota is reached (too many small pieces)");
		break;
	case ENOSPC:
		line_add(&line, "the disk is full");
		break;
	case EDQUOT:
		line_add(&line, "the disk quota is reached");
		break;
	default:
		line_add(&line, "the log cannot be written (errno ");
		line_add_number(&line, (uint64_t)cause);
		line_add(&line, ")");
	}
	line_add(&line,
		 w->ring.fd >= 0 ? "; later output is kept in log.tail" : "; later output is lost");
	line.text[line.len++] = '\n';
	if (w->log_end + line.len <= w->quota_bytes)
		(void)add_marker(w, &line, LOG_RECORD_LAST);
	w->ended = true;
	cut(w);
}

/* Puts bytes into the log as long as it goes, then into the ring. */
static void store(struct log_writer *w, enum log_stream stream, const char *data, size_t n)
{
	if (!w->ended)
		log_writer_note_stream(w, stream);
	while (n > 0 && !w->ended) {
		int cause;
		size_t part = log_writer_room(w, n, &cause), kept = 0;

		if (part > 0) {
			size_t put = log_pwrite_all(w->log_fd, data, part, w->log_end, &cause);
			if (put > 0) {
				int index_cause;

				kept = log_writer_record(w, stream, put, 0, &index_cause);
				if (kept < put)
					cause = index_cause;
			}
		}
		data += kept;
		n -= kept;
		if (kept < part || part == 0)
			log_writer_end(w, cause);
	}
	if (n > 0)
		log_ring_store(&w->ring, stream, data, n, w->time_ns, w->attempt);
	log_writer_count(w);
}

void log_writer_write(struct log_writer *w, enum log_stream stream, const void *data, size_t len)
{
	log_writer_touch(w);
	store(w, stream, data, len);
}

static void put_marker(struct log_writer *w, struct line *line)
{
	int cause;

	log_writer_touch(w);
	line->text[line->len++] = '\n';
	if (!w->ended) {
		if (log_writer_room(w, line->len, &cause) == line->len)
			cause = add_marker(w, line, 0);
		if (cause == 0)
			return;
		log_writer_end(w, cause);
	}
	log_ring_store(&w->ring, LOG_MARKER, line->text, line->len, w->time_ns, w->attempt);
	log_writer_count(w);
}

int log_writer_marker(struct log_writer *w, const char *text)
{
	struct line line = line_begin(w);

	line_add(&line, text);
	put_marker(w, &line);
	return 0;
}

void log_writer_attempt_marker(struct log_writer *w)
{
	struct line line = line_begin(w);

	line_add(&line, "attempt ");
	line_add_number(&line, w->attempt);
	put_marker(w, &line);
}

/* Reads from the pipe and stores. */
static ssize_t pump_copy(struct log_writer *w, enum log_stream stream, int pipe_fd, size_t max)
{
	char buf[COPY_BYTES];
	ssize_t n;

	do
		n = read(pipe_fd, buf, max < sizeof(buf) ? max : sizeof(buf));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0)
		store(w, stream, buf, (size_t)n);
	return n;
}

ssize_t log_writer_pump(struct log_writer *w, enum log_stream stream, int pipe_fd, size_t max)
{
	int waiting = 0, cause;

	if ((stream != LOG_STDOUT && stream != LOG_STDERR) || max == 0)
		return -EINVAL;
	log_writer_touch(w);
	/*
	 * An empty pipe, its end, a log without room, a disk or a descriptor that does not splice:
	 * the copy tells what it is and does the right thing.
	 */
	if (w->ended || w->no_splice || ioctl(pipe_fd, FIONREAD, &waiting) < 0 || waiting <= 0)
		return pump_copy(w, stream, pipe_fd, max);
	size_t part = log_writer_room(w, max < (size_t)waiting ? max : (size_t)waiting, &cause);
	if (part == 0)
		return pump_copy(w, stream, pipe_fd, max);

	off_t offset = (off_t)w->log_end;
	ssize_t n;

	log_writer_note_stream(w, stream);
	do
		n = splice(pipe_fd, NULL, w->log_fd, &offset, part, SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EINVAL)
		w->no_splice = true;
	if (n <= 0)
		return pump_copy(w, stream, pipe_fd, max);
	size_t kept = log_writer_record(w, stream, (size_t)n, 0, &cause);
	if (kept < (size_t)n) {
		log_writer_salvage(w, stream, (size_t)n - kept);
		log_writer_end(w, cause);
	}
	log_writer_count(w);
	return n;
}

int log_writer_sync(struct log_writer *w)
{
	const int fds[] = {w->log_fd, w->index_fd, log_ring_used(&w->ring) ? w->ring.fd : -1};
	int r = 0;

	/* No files, or files without a record, are an empty log, and that is what it is. */
	if (w->records == 0 && !log_ring_used(&w->ring))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0 && fdatasync(fds[i]) < 0 && r == 0)
			r = -errno;
	if (fsync(w->dir_fd) < 0 && r == 0)
		r = -errno;
	return r;
}

void log_writer_close(struct log_writer *w)
{
	if (w->log_fd >= 0 && w->index_fd >= 0 && !w->ended)
		cut(w);
	log_ring_close(&w->ring, w->dir_fd);
	w->log_fd = close_fd(w->log_fd);
	w->index_fd = close_fd(w->index_fd);
	w->dir_fd = close_fd(w->dir_fd);
}
