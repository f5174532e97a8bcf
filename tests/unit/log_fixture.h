/*
 * What the tests of the log share: a folder, a pipe, and streams whose every byte is known.
 */
#ifndef CLOOP_TESTS_UNIT_LOG_FIXTURE_H
#define CLOOP_TESTS_UNIT_LOG_FIXTURE_H

#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "drivers/shim/log_writer.h"

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)
#define QUOTA_LARGE (UINT64_C(1) << 30)

struct folder {
	char path[64];
	int fd;
};

static inline struct folder folder_at(const char *parent)
{
	struct folder f;

	(void)snprintf(f.path, sizeof(f.path), "%s/cloop-log-XXXXXX", parent);
	assert_non_null(mkdtemp(f.path));
	f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.fd >= 0);
	return f;
}

/* In memory, for tests that make thousands of logs. */
static inline struct folder folder_new(void)
{
	return folder_at("/dev/shm");
}

/* Empties the folder of what a log may have left, whatever it is. */
static inline void folder_clear(const struct folder *f)
{
	static const char *const names[] = {LOG_FILE, LOG_INDEX_FILE, LOG_TAIL_FILE, "other"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (unlinkat(f->fd, names[i], 0) < 0)
			(void)unlinkat(f->fd, names[i], AT_REMOVEDIR);
}

static inline void folder_free(struct folder *f)
{
	folder_clear(f);
	f->fd = close_fd(f->fd);
	/* Fails when a file is left that nobody knows of. */
	assert_int_equal(rmdir(f->path), 0);
}

static inline bool folder_has(const struct folder *f, const char *name)
{
	return faccessat(f->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A whole file of the folder; *ret_len bytes. */
static inline char *folder_read(const struct folder *f, const char *name, size_t *ret_len)
{
	struct stat st;
	int error;

	AUTO_CLOSE int fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	char *data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	*ret_len = log_pread_all(fd, data, (size_t)st.st_size, 0, &error);
	assert_int_equal(*ret_len, st.st_size);
	data[*ret_len] = '\0';
	return data;
}

static inline uint64_t folder_size(const struct folder *f, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return (uint64_t)st.st_size;
}

static inline void folder_write(const struct folder *f, const char *name, const void *data,
				size_t len)
{
	int error;

	AUTO_CLOSE int fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(log_pwrite_all(fd, data, len, 0, &error), len);
}

/* The two ends of a pipe: ends[0] as the writer of a log wants it. */
static inline void pipe_new(int ends[2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	(void)fcntl(ends[0], F_SETPIPE_SZ, (int)MIB);
}

/* Byte i of a stream. Neither stream nor offset can be mistaken for another for long. */
static inline unsigned char stream_byte(enum log_stream stream, uint64_t i)
{
	uint64_t h = (i / 8 + ((uint64_t)stream << 56)) * UINT64_C(0x9e3779b97f4a7c15);

	return (unsigned char)(h >> (8 * (i % 8)));
}

static inline void stream_fill(enum log_stream stream, uint64_t from, void *buf, size_t len)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = stream_byte(stream, from + i);
}

static inline bool stream_is(enum log_stream stream, uint64_t from, const void *buf, size_t len)
{
	const unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		if (p[i] != stream_byte(stream, from + i))
			return false;
	return true;
}

/* Sends bytes through a pipe into a log, as much at a time as the pipe takes. */
static inline void send_bytes(struct log_writer *w, enum log_stream stream, int ends[2],
			      const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		size_t part = len < 64 * KIB ? len : 64 * KIB;

		assert_int_equal(write(ends[1], p, part), part);
		for (size_t moved = 0; moved < part;) {
			ssize_t n = log_writer_pump(w, stream, ends[0], MIB);

			assert_true(n > 0);
			moved += (size_t)n;
		}
		p += part;
		len -= part;
	}
}

/*
 * Checks every record of an index against the rules, and every byte of the two streams. Returns
 * the number of records. ret_out and ret_err are the lengths of the streams.
 */
static inline uint64_t check_log(const struct folder *f, uint64_t *ret_out, uint64_t *ret_err)
{
	struct log_index_header header;
	uint64_t log_end = 0, out = 0, err = 0, count;
	int64_t time_ns = 0;
	uint16_t attempt = 1;
	size_t log_len, index_len;

	AUTO_FREE char *log = folder_read(f, LOG_FILE, &log_len);
	AUTO_FREE char *index = folder_read(f, LOG_INDEX_FILE, &index_len);
	assert_int_equal(index_len % sizeof(struct log_record), 0);
	assert_true(index_len >= sizeof(header));
	memcpy(&header, index, sizeof(header));
	assert_true(log_index_header_valid(&header));
	count = index_len / sizeof(struct log_record) - 1;
	for (uint64_t i = 0; i < count; i++) {
		struct log_record rec;

		memcpy(&rec, index + LOG_RECORD_OFFSET(i), sizeof(rec));
		assert_true(log_record_valid(&rec, i, log_len));
		assert_int_equal(rec.log_offset, log_end);
		assert_int_equal(rec.out_offset, out);
		assert_int_equal(rec.err_offset, err);
		assert_true(rec.time_ns >= time_ns);
		assert_true(rec.attempt >= attempt);
		assert_true((rec.flags & LOG_RECORD_LAST) == 0 || i == count - 1);
		if (rec.stream == LOG_MARKER)
			assert_int_equal(log[rec.log_offset + rec.len_bytes - 1], '\n');
		else
			assert_true(stream_is(rec.stream, rec.stream == LOG_STDOUT ? out : err,
					      log + rec.log_offset, rec.len_bytes));
		time_ns = rec.time_ns;
		attempt = rec.attempt;
		log_end = log_record_log_end(&rec);
		out = log_record_out_end(&rec);
		err = log_record_err_end(&rec);
	}
	assert_int_equal(log_end, log_len);
	*ret_out = out;
	*ret_err = err;
	return count;
}

/* What log.tail holds. */
static inline char *tail_read(const struct folder *f, struct log_tail_header *ret, size_t *ret_len)
{
	size_t len;

	AUTO_FREE char *raw = folder_read(f, LOG_TAIL_FILE, &len);
	assert_true(len >= sizeof(*ret));
	memcpy(ret, raw, sizeof(*ret));
	assert_true(log_tail_header_valid(ret));
	assert_int_equal(len, LOG_TAIL_DATA_OFFSET + ret->capacity_bytes);
	*ret_len = (size_t)log_tail_bytes(ret);
	char *data = malloc(*ret_len + 1);
	assert_non_null(data);
	for (size_t i = 0; i < *ret_len; i++)
		data[i] = raw[LOG_TAIL_DATA_OFFSET + (ret->first + i) % ret->capacity_bytes];
	data[*ret_len] = '\0';
	return data;
}

/* Forks a child that does not outlive a test that fails. */
static inline pid_t fork_child(void)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		_exit(1);
	return pid;
}

/* Forks a writer of a stream: len bytes in pieces of at most `piece`, to a descriptor. */
static inline pid_t spawn_stream(enum log_stream stream, int fd, uint64_t len, size_t piece)
{
	pid_t pid = fork_child();

	if (pid > 0)
		return pid;

	static char buf[64 * 1024];
	uint64_t at = 0;
	unsigned int x = (unsigned int)stream;

	while (at < len) {
		size_t n, done = 0;

		x = x * 1103515245 + 12345;
		n = 1 + (x >> 8) % piece;
		if (n > len - at)
			n = (size_t)(len - at);
		stream_fill(stream, at, buf, n);
		while (done < n) {
			ssize_t r = write(fd, buf + done, n - done);

			if (r <= 0)
				_exit(1);
			done += (size_t)r;
		}
		at += n;
	}
	_exit(0);
}

static inline void reap(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
