/*
 * The reader of a session's log, and the repair of its writer, on files of any content.
 *
 * Input: a byte of switches, the lengths of the index and of log.tail (16 bits each, little
 * endian), these two, and the rest is the log. Checks are made right where a switch says so:
 * otherwise nothing of what lies behind them would ever be reached.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/owner.h"
#include "drivers/shim/log_reader.h"
#include "drivers/shim/log_writer.h"

#define SEAL_INDEX 0x01
#define SEAL_TAIL 0x02
#define APPEND 0x04
#define COMPLETE 0x08

#define HEAD_BYTES 5
#define QUOTA LOG_QUOTA_MIN_BYTES

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[] = "/dev/shm/cloop-fuzz-XXXXXX";
static int dir_fd = -1;

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void remove_files(void)
{
	(void)unlinkat(dir_fd, LOG_FILE, 0);
	(void)unlinkat(dir_fd, LOG_INDEX_FILE, 0);
	(void)unlinkat(dir_fd, LOG_TAIL_FILE, 0);
}

static void remove_folder(void)
{
	remove_files();
	(void)rmdir(path);
}

static void make_folder(void)
{
	if (dir_fd >= 0)
		return;
	REQUIRE(mkdtemp(path));
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	REQUIRE(dir_fd >= 0);
	REQUIRE(atexit(remove_folder) == 0);
}

static void put(const char *name, const void *data, size_t len)
{
	int error;

	AUTO_CLOSE int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	REQUIRE(fd >= 0);
	REQUIRE(log_pwrite_all(fd, data, len, 0, &error) == len);
}

static void put_index(uint8_t *index, size_t len, bool seal)
{
	struct log_index_header header;
	struct log_record rec;

	if (seal && len >= sizeof(header)) {
		memcpy(&header, index, sizeof(header));
		log_index_header_seal(&header);
		memcpy(index, &header, sizeof(header));
		for (uint64_t n = 0; LOG_RECORD_OFFSET(n + 1) <= len; n++) {
			memcpy(&rec, index + LOG_RECORD_OFFSET(n), sizeof(rec));
			/* A record can be spoiled on purpose: the last bit of its check. */
			bool spoil = (rec.check & 1) != 0;

			log_record_seal(&rec, n);
			rec.check ^= spoil ? 1 : 0;
			memcpy(index + LOG_RECORD_OFFSET(n), &rec, sizeof(rec));
		}
	}
	put(LOG_INDEX_FILE, index, len);
}

/* The header as given, and the ring as large as it says when that is sane. */
static void put_tail(const uint8_t *tail, size_t len, bool seal)
{
	struct log_tail_header header;
	static uint8_t file[LOG_TAIL_DATA_OFFSET + 2 * LOG_TAIL_MIN_BYTES];
	size_t size = sizeof(file);

	if (len < sizeof(header)) {
		if (len > 0)
			put(LOG_TAIL_FILE, tail, len);
		return;
	}
	memcpy(&header, tail, sizeof(header));
	if (seal)
		log_tail_header_seal(&header);
	if (header.capacity_bytes < 2 * LOG_TAIL_MIN_BYTES)
		size = LOG_TAIL_DATA_OFFSET + (size_t)header.capacity_bytes;
	memset(file, 0xe2, sizeof(file));
	memcpy(file, &header, sizeof(header));
	for (size_t i = sizeof(header); i < len && LOG_TAIL_DATA_OFFSET + i < sizeof(file); i++)
		file[LOG_TAIL_DATA_OFFSET + i - sizeof(header)] = tail[i];
	put(LOG_TAIL_FILE, file, size);
}

static void read_everything(bool complete)
{
	static char buf[100000];
	struct log_reader *opened = NULL;
	struct log_sizes s = {0};
	struct log_cursor c = {0};
	struct error err;
	uint64_t from, to;
	ssize_t n;
	int e = log_reader_open(dir_fd, &opened, &err);

	if (e < 0) {
		REQUIRE(e == -EIO && !opened);
		return;
	}
	AUTO_LOG_READER struct log_reader *r = opened;
	if (complete)
		log_reader_complete(r);
	e = log_reader_sizes(r, &s, &err);
	REQUIRE(e == 0 || e == -EIO);
	REQUIRE(s.stdout_bytes + s.stderr_bytes <= s.log_bytes);
	for (enum log_view v = LOG_VIEW_LOG; v <= LOG_VIEW_TAIL; v++) {
		uint64_t offset = 0;

		while ((n = log_reader_pread(r, v, buf, sizeof(buf) / 3, offset, &err)) > 0)
			offset += (uint64_t)n;
		REQUIRE(n == 0 || n == -EIO);
		REQUIRE(offset <= (v == LOG_VIEW_TAIL ? LOG_TAIL_MAX_BYTES : s.log_bytes));
		n = log_reader_pread(r, v, buf, 3, s.log_bytes / 2, &err);
		REQUIRE((n >= 0 && n <= 3) || n == -EIO);
	}
	for (unsigned int attempt = 1; attempt < 3; attempt++) {
		e = log_reader_attempt(r, attempt, &from, &to, &err);
		REQUIRE((e == 0 && from <= to && to <= s.log_bytes) || e == -EIO);
	}
	while ((n = log_reader_lines(r, "s-fuzz", &c, buf, sizeof(buf), &err)) > 0)
		;
	REQUIRE(n == 0 || n == -EIO);
	/* A place in the middle is reached from the beginning as from itself. */
	struct log_cursor middle = {0}, again = {0};
	e = log_reader_lines_seek(r, "s-fuzz", &middle, c.offset / 2, UINT64_MAX, &err);
	REQUIRE(e == 1 && middle.offset == c.offset / 2);
	while ((e = log_reader_lines_seek(r, "s-fuzz", &again, c.offset / 2, 100, &err)) == 0)
		;
	REQUIRE(e == 1 && memcmp(&middle, &again, sizeof(middle)) == 0);
}

/* Whatever was there: the next attempt goes on, and what it writes can be read. */
static void append(bool tail_lies)
{
	static const char text[] = "more";
	struct log_reader *r = NULL;
	struct log_writer w;
	struct log_sizes s;
	struct stat st;
	int e = log_writer_open(&w, dir_fd, QUOTA, true);

	if (e < 0) {
		/* No attempt has a higher number. */
		REQUIRE(e == -EINVAL);
		return;
	}
	log_writer_write(&w, LOG_STDERR, text, sizeof(text));
	log_writer_close(&w);
	REQUIRE(log_reader_open(dir_fd, &r, NULL) == 0);
	REQUIRE(log_reader_sizes(r, &s, NULL) == 0);
	REQUIRE(fstatat(dir_fd, LOG_FILE, &st, 0) == 0);
	REQUIRE((uint64_t)st.st_size == s.log_bytes);
	REQUIRE(fstatat(dir_fd, LOG_INDEX_FILE, &st, 0) == 0);
	REQUIRE((uint64_t)st.st_size == LOG_RECORD_OFFSET(s.records));
	/* Unless it went to a log.tail whose counts are at their end. */
	if (!s.ended && !tail_lies) {
		char buf[sizeof(text)];

		REQUIRE(log_reader_pread(r, LOG_VIEW_LOG, buf, sizeof(text),
					 s.log_bytes - sizeof(text), NULL) == sizeof(text));
		REQUIRE(memcmp(buf, text, sizeof(text)) == 0);
	}
	log_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t index_len, tail_len;

	if (size < HEAD_BYTES)
		return 0;
	make_folder();
	index_len = data[1] | (size_t)data[2] << 8;
	tail_len = data[3] | (size_t)data[4] << 8;
	if (index_len > size - HEAD_BYTES)
		index_len = size - HEAD_BYTES;
	if (tail_len > size - HEAD_BYTES - index_len)
		tail_len = size - HEAD_BYTES - index_len;

	AUTO_FREE uint8_t *copy = malloc(size);
	REQUIRE(copy);
	memcpy(copy, data, size);
	put_index(copy + HEAD_BYTES, index_len, data[0] & SEAL_INDEX);
	put_tail(copy + HEAD_BYTES + index_len, tail_len, data[0] & SEAL_TAIL);
	put(LOG_FILE, copy + HEAD_BYTES + index_len + tail_len,
	    size - HEAD_BYTES - index_len - tail_len);
	read_everything(data[0] & COMPLETE);
	if (data[0] & APPEND) {
		append(data[0] & SEAL_TAIL);
		read_everything(data[0] & COMPLETE);
	}
	remove_files();
	return 0;
}
