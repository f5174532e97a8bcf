#include "tests/unit/log_fixture.h"

#include <poll.h>
#include <sys/socket.h>

static struct folder folder;

static int setup(void **state)
{
	(void)state;
	folder = folder_new();
	return 0;
}

/* On a disk, in most places. */
static int setup_disk(void **state)
{
	(void)state;
	folder = folder_at("/tmp");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	folder_free(&folder);
	return 0;
}

static void open_new(struct log_writer *w, uint64_t quota)
{
	assert_int_equal(log_writer_open(w, folder.fd, quota, false), 0);
}

static void files_are_new_and_private(void **state)
{
	static const char *const names[] = {LOG_FILE, LOG_INDEX_FILE, LOG_TAIL_FILE};
	struct log_writer w;
	struct stat st;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, LOG_QUOTA_MIN_BYTES - 1, false), -EINVAL);
	assert_int_equal(log_writer_open(&w, folder.fd, LOG_QUOTA_MAX_BYTES + 1, false), -EINVAL);
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 0), -EINVAL);
	log_writer_close(&w);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		/* Whatever has the name already: it is refused, left alone, and nothing is added.
		 */
		assert_int_equal(symlinkat("other", folder.fd, names[i]), 0);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), -EEXIST);
		assert_true(log_writer_open(&w, folder.fd, QUOTA_LARGE, true) < 0);
		log_writer_close(&w);
		assert_false(folder_has(&folder, "other"));
		assert_int_equal(unlinkat(folder.fd, names[i], 0), 0);
		folder_clear(&folder);

		assert_int_equal(mkfifoat(folder.fd, names[i], 0600), 0);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), -EEXIST);
		assert_int_equal(fstatat(folder.fd, names[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_true(S_ISFIFO(st.st_mode));
		assert_int_equal(unlinkat(folder.fd, names[i], 0), 0);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			assert_false(folder_has(&folder, names[k]));
	}
	open_new(&w, QUOTA_LARGE);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(fstatat(folder.fd, names[i], &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	assert_int_equal(fcntl(w.log_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(w.index_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(w.ring.fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(w.dir_fd, F_GETFD), FD_CLOEXEC);
	log_writer_close(&w);
	log_writer_close(&w);
	assert_false(folder_has(&folder, LOG_TAIL_FILE));
}

static void a_fifo_in_the_place_of_a_log_is_refused_at_once(void **state)
{
	static const char *const names[] = {LOG_FILE, LOG_INDEX_FILE};
	struct log_writer w;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(mkfifoat(folder.fd, names[i], 0600), 0);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), -EUCLEAN);
		assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, NULL), -EUCLEAN);
		folder_clear(&folder);
	}
	assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, "x"), 0);
	assert_false(folder_has(&folder, LOG_FILE));
}

static void a_pump_says_empty_and_end(void **state)
{
	struct log_writer w;
	int ends[2];
	uint64_t out, err;

	(void)state;
	open_new(&w, QUOTA_LARGE);
	pipe_new(ends);
	assert_int_equal(log_writer_pump(&w, LOG_MARKER, ends[0], 1), -EINVAL);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], 0), -EINVAL);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), -EAGAIN);
	for (unsigned int i = 0; i < 5; i++) {
		unsigned char c = stream_byte(LOG_STDOUT, i);

		assert_int_equal(write(ends[1], &c, 1), 1);
	}
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], 2), 2);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), 3);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), -EAGAIN);
	ends[1] = close_fd(ends[1]);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), 0);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), 0);
	ends[0] = close_fd(ends[0]);
	assert_int_equal(log_writer_sync(&w), 0);
	log_writer_close(&w);
	assert_int_equal(w.log_bytes, 5);
	assert_int_equal(check_log(&folder, &out, &err), 2);
	assert_int_equal(out, 5);
}

/* Sockets, files and terminals are not spliced from; they work all the same. */
static void other_descriptors_are_copied_from(void **state)
{
	struct log_writer w;
	int ends[2];
	uint64_t out, err;
	char buf[3000];

	(void)state;
	open_new(&w, QUOTA_LARGE);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	stream_fill(LOG_STDERR, 0, buf, sizeof(buf));
	send_bytes(&w, LOG_STDERR, ends, buf, sizeof(buf));
	assert_int_equal(log_writer_pump(&w, LOG_STDERR, ends[0], MIB), -EAGAIN);
	close_fd(ends[0]);
	close_fd(ends[1]);

	stream_fill(LOG_STDOUT, 0, buf, sizeof(buf));
	folder_write(&folder, "other", buf, sizeof(buf));
	ends[0] = openat(folder.fd, "other", O_RDONLY | O_CLOEXEC);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), sizeof(buf));
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), 0);
	close_fd(ends[0]);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, -1, MIB), -EBADF);
	log_writer_close(&w);
	(void)check_log(&folder, &out, &err);
	assert_int_equal(out, sizeof(buf));
	assert_int_equal(err, sizeof(buf));
}

static void many_short_lines(void **state)
{
	const unsigned int lines = 200000;
	struct log_writer w;
	int ends[2];
	size_t log_len;
	char line[32];
	pid_t pid;

	(void)state;
	open_new(&w, QUOTA_LARGE);
	pipe_new(ends);
	pid = fork_child();
	if (pid == 0) {
		for (unsigned int i = 0; i < lines; i++) {
			int n = snprintf(line, sizeof(line), "line %u\n", i);

			if (write(ends[1], line, (size_t)n) != n)
				_exit(1);
		}
		_exit(0);
	}
	ends[1] = close_fd(ends[1]);
	for (ssize_t n = 1; n != 0;) {
		struct pollfd p = {.fd = ends[0], .events = POLLIN};

		assert_true(poll(&p, 1, -1) == 1);
		n = log_writer_pump(&w, LOG_STDOUT, ends[0], MIB);
		assert_true(n >= 0);
	}
	close_fd(ends[0]);
	reap(pid);
	log_writer_close(&w);
	assert_int_equal(w.dropped_bytes, 0);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
	const char *p = log;
	for (unsigned int i = 0; i < lines; i++) {
		int n = snprintf(line, sizeof(line), "line %u\n", i);

		assert_memory_equal(p, line, (size_t)n);
		p += n;
	}
	assert_ptr_equal(p, log + log_len);
	assert_int_equal(w.log_bytes, log_len);
}

static void two_streams_at_full_speed(void **state)
{
	const uint64_t len = 12 * MIB + 17;
	enum log_stream streams[] = {LOG_STDOUT, LOG_STDERR};
	struct log_writer w;
	struct pollfd polls[2];
	uint64_t out, err;
	pid_t pids[2];
	int open_ends = 2;

	(void)state;
	open_new(&w, QUOTA_LARGE);
	for (size_t i = 0; i < 2; i++) {
		int ends[2];

		pipe_new(ends);
		pids[i] = spawn_stream(streams[i], ends[1], len, i == 0 ? 60 * KIB : 700);
		close_fd(ends[1]);
		polls[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
	}
	while (open_ends > 0) {
		assert_true(poll(polls, 2, -1) > 0);
		for (size_t i = 0; i < 2; i++) {
			if (polls[i].revents == 0)
				continue;
			ssize_t n = log_writer_pump(&w, streams[i], polls[i].fd, MIB);

			assert_true(n >= 0);
			if (n == 0) {
				polls[i].fd = close_fd(polls[i].fd);
				open_ends--;
			}
		}
	}
	reap(pids[0]);
	reap(pids[1]);
	log_writer_close(&w);
	(void)check_log(&folder, &out, &err);
	assert_int_equal(out, len);
	assert_int_equal(err, len);
	assert_int_equal(w.log_bytes, 2 * len);
	assert_int_equal(w.dropped_bytes, 0);
}

static void markers_are_lines(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"hello", "[cloop] hello\n"},
		{"", "[cloop] \n"},
		{"two\nlines\x1b[2J\x7f", "[cloop] two?lines?[2J?\n"},
		{"\xc3\xa9", "[cloop] \xc3\xa9\n"},
	};
	char text[LOG_MARKER_MAX_BYTES * 2 + 2];
	struct log_writer w;
	size_t len, at = 0;
	uint64_t out, err;

	(void)state;
	open_new(&w, QUOTA_LARGE);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(log_writer_marker(&w, cases[i].text), 0);
	/* Cut between code points, wherever the limit falls. */
	for (size_t shift = 0; shift < 4; shift++) {
		memset(text, 'x', shift);
		for (size_t i = shift; i + 4 < sizeof(text); i += 4)
			memcpy(text + i, "\xf0\x9f\x98\x80", 5);
		assert_int_equal(log_writer_marker(&w, text), 0);
	}
	log_writer_close(&w);
	(void)check_log(&folder, &out, &err);
	assert_int_equal(out + err, 0);
	assert_int_equal(w.log_bytes, 0);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &len);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_memory_equal(log + at, cases[i].want, strlen(cases[i].want));
		at += strlen(cases[i].want);
	}
	for (size_t shift = 0; shift < 4; shift++) {
		size_t n = (size_t)(strchr(log + at, '\n') - (log + at)) + 1;

		assert_true(n <= LOG_MARKER_MAX_BYTES && n > LOG_MARKER_MAX_BYTES - 5);
		assert_int_equal((n - 1 - strlen("[cloop] ") - shift) % 4, 0);
		at += n;
	}
	assert_int_equal(at, len);
}

static void a_marker_begins_a_line(void **state)
{
	struct log_writer w;
	size_t len;

	(void)state;
	open_new(&w, QUOTA_LARGE);
	log_writer_write(&w, LOG_STDOUT, "a", 1);
	(void)log_writer_marker(&w, "b");
	log_writer_write(&w, LOG_STDERR, "c\n", 2);
	(void)log_writer_marker(&w, "d");
	log_writer_close(&w);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &len);
	assert_string_equal(log, "a\n[cloop] b\nc\n[cloop] d\n");
	assert_int_equal(w.log_bytes, 3);
}

/* Ends a log of `quota` with total bytes of output and checks where each of them went. */
static void check_quota(uint64_t quota, uint64_t total, size_t piece)
{
	const uint64_t room = quota - LOG_END_MAX_BYTES;
	struct log_writer w;
	int ends[2];
	size_t log_len, tail_len;
	uint64_t in_log = total < room ? total : room;

	open_new(&w, quota);
	pipe_new(ends);
	AUTO_FREE char *data = malloc(piece);
	assert_non_null(data);
	for (uint64_t at = 0; at < total;) {
		size_t n = total - at < piece ? (size_t)(total - at) : piece;

		stream_fill(LOG_STDOUT, at, data, n);
		send_bytes(&w, LOG_STDOUT, ends, data, n);
		at += n;
		assert_int_equal(w.log_bytes, at);
	}
	close_fd(ends[0]);
	close_fd(ends[1]);
	log_writer_close(&w);

	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
	assert_true(log_len <= quota);
	assert_true(log_len >= in_log);
	assert_true(stream_is(LOG_STDOUT, 0, log, (size_t)in_log));
	assert_int_equal(w.log_bytes, total);
	if (total <= room) {
		assert_int_equal(log_len, in_log);
		assert_false(folder_has(&folder, LOG_TAIL_FILE));
		assert_int_equal(w.dropped_bytes, 0);
	} else {
		uint64_t capacity = log_tail_capacity(quota), over = total - in_log;
		struct log_tail_header header;
		char want[64];

		AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
		assert_int_equal(header.capacity_bytes, capacity);
		assert_int_equal(tail_len, over < capacity ? over : capacity);
		assert_true(stream_is(LOG_STDOUT, total - tail_len, tail, tail_len));
		assert_int_equal(w.dropped_bytes, over - tail_len);
		assert_int_equal(log_tail_dropped(&header), over - tail_len);
		(void)snprintf(want, sizeof(want), "[cloop] the log quota of %llu bytes",
			       (unsigned long long)quota);
		assert_non_null(memmem(log + in_log, log_len - (size_t)in_log, want, strlen(want)));
		assert_non_null(strstr(log + in_log, "log.tail\n"));
		assert_int_equal(log[log_len - 1], '\n');
		assert_int_equal(log[log_len - 2], 'l');
	}
	uint64_t out, err;
	(void)check_log(&folder, &out, &err);
	assert_int_equal(out, in_log);
	folder_clear(&folder);
}

static void quota_edges(void **state)
{
	static const uint64_t quotas[] = {LOG_QUOTA_MIN_BYTES, 5000, 65536, 1 << 20};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(quotas); i++) {
		const uint64_t q = quotas[i], room = q - LOG_END_MAX_BYTES;
		const uint64_t tail = log_tail_capacity(q);
		const uint64_t totals[] = {
			0,
			1,
			room - 1,
			room,
			room + 1,
			q - 1,
			q,
			q + 1,
			room + tail - 1,
			room + tail,
			room + tail + 1,
			q + 3 * tail,
			2 * q + 77,
		};

		for (size_t k = 0; k < ARRAY_SIZE(totals); k++) {
			check_quota(q, totals[k], 64 * KIB);
			check_quota(q, totals[k], 997);
			if (q <= 5000)
				check_quota(q, totals[k], 1);
		}
	}
	check_quota(LOG_QUOTA_MIN_BYTES, 8 * MIB, MIB);
	check_quota(16 * MIB, 20 * MIB, MIB);
}

static void a_large_quota_costs_nothing(void **state)
{
	struct log_writer w;
	struct stat st;

	(void)state;
	open_new(&w, LOG_QUOTA_MAX_BYTES);
	assert_int_equal(fstatat(folder.fd, LOG_TAIL_FILE, &st, 0), 0);
	assert_int_equal(st.st_size, LOG_TAIL_DATA_OFFSET + LOG_TAIL_MAX_BYTES);
	log_writer_write(&w, LOG_STDOUT, "x\n", 2);
	assert_int_equal(fstatat(folder.fd, LOG_FILE, &st, 0), 0);
	assert_int_equal(st.st_size, 2);
	log_writer_close(&w);
	assert_false(folder_has(&folder, LOG_TAIL_FILE));
	assert_int_equal(fstatat(folder.fd, LOG_FILE, &st, 0), 0);
	assert_true(st.st_blocks * 512 <= 4096);
	assert_int_equal(fstatat(folder.fd, LOG_INDEX_FILE, &st, 0), 0);
	assert_true(st.st_blocks * 512 <= 4096);
}

/* Tiny pieces cost more index than log: the index has a bound too, and the log ends in words. */
static void the_index_is_bounded(void **state)
{
	const uint64_t quota = 64 * KIB;
	const uint64_t max = LOG_INDEX_SPARE_BYTES + LOG_INDEX_SHARE * quota;
	struct log_writer w;
	struct log_tail_header header;
	struct stat st;
	size_t len, tail_len;
	uint64_t i, out, err;

	(void)state;
	open_new(&w, quota);
	for (i = 0; i < 40000; i++) {
		unsigned char c = stream_byte(LOG_STDOUT, i);

		log_writer_write(&w, LOG_STDOUT, &c, 1);
	}
	assert_int_equal(w.log_bytes, i);
	log_writer_close(&w);
	assert_int_equal(fstatat(folder.fd, LOG_INDEX_FILE, &st, 0), 0);
	assert_true((uint64_t)st.st_size <= max);
	assert_true((uint64_t)st.st_size > max - 2 * sizeof(struct log_record));
	(void)check_log(&folder, &out, &err);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &len);
	assert_non_null(
		strstr(log + out, "[cloop] the log quota is reached (too many small pieces)"));
	AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
	assert_true(stream_is(LOG_STDOUT, i - tail_len, tail, tail_len));
	assert_int_equal(w.dropped_bytes, i - out - tail_len);
}

/* A ring of 4 KiB, written in pieces of one length, so that its end falls on each byte of one. */
static void the_ring_wraps_at_every_offset(void **state)
{
	static const size_t pieces[] = {1, 3, 100, 4095, 4096, 4097, 9000};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(pieces); k++) {
		const size_t piece = pieces[k];
		/* Rounds of the ring, or as many pieces as shift by each offset once. */
		const size_t steps = piece < 4095 ? 3 * 4096 / piece + 5 : 4100;
		struct log_tail_header header;
		struct log_writer w;
		static char data[9000], first[4096];
		uint64_t at;

		open_new(&w, LOG_QUOTA_MIN_BYTES);
		at = LOG_QUOTA_MIN_BYTES - LOG_END_MAX_BYTES;
		stream_fill(LOG_STDERR, 0, first, (size_t)at);
		log_writer_write(&w, LOG_STDERR, first, (size_t)at);
		for (size_t i = 0; i < steps; i++) {
			uint64_t over;
			size_t tail_len;

			stream_fill(LOG_STDERR, at, data, piece);
			log_writer_write(&w, LOG_STDERR, data, piece);
			at += piece;
			over = at - (LOG_QUOTA_MIN_BYTES - LOG_END_MAX_BYTES);
			if (piece < 100 && i % 7 != 0)
				continue;
			AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
			assert_int_equal(tail_len, over < 4096 ? over : 4096);
			assert_true(stream_is(LOG_STDERR, at - tail_len, tail, tail_len));
			assert_int_equal(w.dropped_bytes, over - tail_len);
			assert_int_equal(w.log_bytes, at);
		}
		log_writer_close(&w);
		folder_clear(&folder);
	}
}

static void attempts_go_on_in_one_log(void **state)
{
	struct log_writer w;
	uint64_t out, err;
	size_t len;

	(void)state;
	/* The first attempt never came to have a log. */
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 2), 0);
	log_writer_close(&w);
	assert_int_equal(folder_size(&folder, LOG_FILE), 0);
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 2), -EINVAL);
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 1), -EEXIST);
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), -EEXIST);
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 65536), -EINVAL);

	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
	assert_int_equal(w.attempt, 3);
	log_writer_write(&w, LOG_STDOUT, (unsigned char[]){stream_byte(LOG_STDOUT, 0)}, 1);
	log_writer_close(&w);
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 17), 0);
	assert_int_equal(w.log_bytes, 1);
	log_writer_write(&w, LOG_STDOUT, (unsigned char[]){stream_byte(LOG_STDOUT, 1)}, 1);
	log_writer_write(&w, LOG_STDERR, (unsigned char[]){stream_byte(LOG_STDERR, 0)}, 1);
	log_writer_close(&w);
	assert_int_equal(w.log_bytes, 3);
	(void)check_log(&folder, &out, &err);
	assert_int_equal(out, 2);
	assert_int_equal(err, 1);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &len);
	assert_memory_equal(log, "[cloop] attempt 3\n", 18);
	assert_non_null(memmem(log, len, "\n[cloop] attempt 17\n", 20));
}

static void an_ended_log_stays_ended(void **state)
{
	const uint64_t room = LOG_QUOTA_MIN_BYTES - LOG_END_MAX_BYTES;
	struct log_tail_header header;
	struct log_writer w;
	uint64_t before;
	size_t tail_len;
	static char data[6000];

	(void)state;
	open_new(&w, LOG_QUOTA_MIN_BYTES);
	stream_fill(LOG_STDOUT, 0, data, sizeof(data));
	log_writer_write(&w, LOG_STDOUT, data, sizeof(data));
	assert_int_equal(log_writer_sync(&w), 0);
	log_writer_close(&w);
	before = folder_size(&folder, LOG_FILE);
	assert_int_equal(log_writer_open(&w, folder.fd, LOG_QUOTA_MIN_BYTES, true), 0);
	assert_int_equal(w.log_bytes, sizeof(data));
	assert_int_equal(w.dropped_bytes, 0);
	log_writer_write(&w, LOG_STDERR, "later", 5);
	assert_int_equal(w.log_bytes, sizeof(data) + 5);
	log_writer_close(&w);
	AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
	assert_int_equal(tail_len, sizeof(data) - room + strlen("[cloop] attempt 2\nlater"));
	assert_string_equal(tail + sizeof(data) - room, "[cloop] attempt 2\nlater");
	assert_int_equal(folder_size(&folder, LOG_FILE), before);
}

static void times_never_decrease(void **state)
{
	struct log_record rec;
	struct log_writer w;
	uint64_t out, err;
	size_t len;

	(void)state;
	open_new(&w, QUOTA_LARGE);
	log_writer_write(&w, LOG_STDOUT, (unsigned char[]){stream_byte(LOG_STDOUT, 0)}, 1);
	log_writer_close(&w);
	/* A clock that was an hour ahead. */
	AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &len);
	memcpy(&rec, index + LOG_RECORD_OFFSET(0), sizeof(rec));
	rec.time_ns += INT64_C(3600) * 1000000000;
	log_record_seal(&rec, 0);
	memcpy(index + LOG_RECORD_OFFSET(0), &rec, sizeof(rec));
	folder_write(&folder, LOG_INDEX_FILE, index, len);
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
	log_writer_write(&w, LOG_STDOUT, (unsigned char[]){stream_byte(LOG_STDOUT, 1)}, 1);
	log_writer_close(&w);
	assert_true(w.time_ns >= rec.time_ns);
	assert_int_equal(check_log(&folder, &out, &err), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_are_new_and_private, setup, teardown),
		cmocka_unit_test_setup_teardown(a_fifo_in_the_place_of_a_log_is_refused_at_once,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_pump_says_empty_and_end, setup, teardown),
		cmocka_unit_test_setup_teardown(other_descriptors_are_copied_from, setup, teardown),
		cmocka_unit_test_setup_teardown(many_short_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(two_streams_at_full_speed, setup_disk, teardown),
		cmocka_unit_test_setup_teardown(markers_are_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(a_marker_begins_a_line, setup, teardown),
		cmocka_unit_test_setup_teardown(quota_edges, setup, teardown),
		cmocka_unit_test_setup_teardown(a_large_quota_costs_nothing, setup_disk, teardown),
		cmocka_unit_test_setup_teardown(the_index_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(the_ring_wraps_at_every_offset, setup, teardown),
		cmocka_unit_test_setup_teardown(attempts_go_on_in_one_log, setup, teardown),
		cmocka_unit_test_setup_teardown(an_ended_log_stays_ended, setup_disk, teardown),
		cmocka_unit_test_setup_teardown(times_never_decrease, setup, teardown),
	};

	return cmocka_run_group_tests_name("log_writer", tests, NULL, NULL);
}
