/* The log on a disk that fills up or fails, and after its writer was killed. Runs as root. */
#include "tests/unit/log_fixture.h"

#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

static struct folder folder;

static int setup(void **state)
{
	(void)state;
	folder = folder_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	folder_free(&folder);
	return 0;
}

/* A file system of its own below the folder, in the mount namespace of this test. */
static int setup_mount(const char *type, const char *options)
{
	folder = folder_new();
	folder.fd = close_fd(folder.fd);
	assert_int_equal(mount("none", folder.path, type, 0, options), 0);
	folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(folder.fd >= 0);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	return setup_mount("tmpfs", "size=1m");
}

/* No allocation ahead here. */
static int setup_ramfs(void **state)
{
	(void)state;
	return setup_mount("ramfs", NULL);
}

static int teardown_mount(void **state)
{
	(void)state;
	folder_clear(&folder);
	folder.fd = close_fd(folder.fd);
	assert_int_equal(umount(folder.path), 0);
	assert_int_equal(rmdir(folder.path), 0);
	return 0;
}

/* Takes all the space that is left, or gives it back. */
static void fill_disk(void)
{
	char block[4096] = {0};

	AUTO_CLOSE int fd = openat(folder.fd, "other", O_WRONLY | O_CREAT | O_APPEND, 0600);
	assert_true(fd >= 0);
	while (write(fd, block, sizeof(block)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

static void empty_disk(void)
{
	assert_int_equal(unlinkat(folder.fd, "other", 0), 0);
}

/* Writes `len` more bytes of a stream, `at` of which are written, through a pipe. */
static void send_stream(struct log_writer *w, enum log_stream stream, uint64_t *at, size_t len)
{
	int ends[2];

	AUTO_FREE char *data = malloc(len);
	assert_non_null(data);
	pipe_new(ends);
	stream_fill(stream, *at, data, len);
	send_bytes(w, stream, ends, data, len);
	*at += len;
	close_fd(ends[0]);
	close_fd(ends[1]);
}

/* stdout came to `total`: what of it is in the log, in log.tail, and counted as dropped is all. */
static void check_spread(const struct log_writer *w, uint64_t total, const char *marker)
{
	struct log_tail_header header;
	size_t log_len, tail_len;
	uint64_t out, err;

	(void)check_log(&folder, &out, &err);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
	AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
	assert_true(stream_is(LOG_STDOUT, total - tail_len, tail, tail_len));
	assert_int_equal(w->log_bytes, total);
	assert_int_equal(out + tail_len + w->dropped_bytes, total);
	if (marker) {
		assert_non_null(strstr(log + out, marker));
		assert_string_equal(log + log_len - 9, "log.tail\n");
	} else {
		assert_int_equal(log_len, out);
	}
}

static void a_disk_that_fills_up_ends_the_log(void **state)
{
	struct log_writer w;
	uint64_t at = 0, end;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	/* Its ring is smaller than the quota would have it: it had to fit. */
	assert_true(w.ring.header.capacity_bytes < LOG_TAIL_MAX_BYTES);
	send_stream(&w, LOG_STDOUT, &at, 3 * MIB);
	assert_true(w.log_end > 512 * KIB);
	check_spread(&w, at, "[cloop] the disk is full");
	end = w.log_end;

	/* Space comes back; the log has ended all the same, and the ring goes on. */
	assert_int_equal(mount("none", folder.path, "tmpfs", MS_REMOUNT, "size=4m"), 0);
	send_stream(&w, LOG_STDOUT, &at, MIB);
	assert_int_equal(w.log_end, end);
	check_spread(&w, at, "[cloop] the disk is full");
	assert_int_equal(log_writer_sync(&w), 0);
	log_writer_close(&w);
}

/* Another takes the space: what was allocated ahead is used to its end, and the marker fits. */
static void a_disk_that_others_fill_ends_the_log(void **state)
{
	static const size_t first[] = {0, 1, 5000, 65536, 100000};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		struct log_writer w;
		uint64_t at = 0;

		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
		if (first[i] > 0)
			send_stream(&w, LOG_STDOUT, &at, first[i]);
		fill_disk();
		for (unsigned int k = 0; k < 3000; k++) {
			unsigned char c = stream_byte(LOG_STDOUT, at);

			log_writer_write(&w, LOG_STDOUT, &c, 1);
			at++;
		}
		send_stream(&w, LOG_STDOUT, &at, 600 * KIB);
		check_spread(&w, at, "[cloop] the disk is full");
		log_writer_close(&w);
		empty_disk();
		folder_clear(&folder);
	}
}

static void a_full_disk_takes_no_new_log(void **state)
{
	struct log_writer w;

	(void)state;
	fill_disk();
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), -ENOSPC);
	log_writer_close(&w);
	assert_false(folder_has(&folder, LOG_FILE));
	assert_false(folder_has(&folder, LOG_INDEX_FILE));
	assert_false(folder_has(&folder, LOG_TAIL_FILE));
}

/* An attempt is not refused for a disk that became full: it may not even have output. */
static void a_full_disk_takes_another_attempt(void **state)
{
	struct log_writer w;
	uint64_t at = 0, out, err;
	size_t len;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	send_stream(&w, LOG_STDOUT, &at, 4096);
	log_writer_close(&w);
	fill_disk();
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
	send_stream(&w, LOG_STDOUT, &at, 100000);
	assert_int_equal(w.log_bytes, at);
	assert_int_equal(log_writer_sync(&w), 0);
	log_writer_close(&w);
	(void)check_log(&folder, &out, &err);
	assert_int_equal(out, 4096);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &len);
	assert_true(len == 4096 || memmem(log, len, "[cloop] ", 8) != NULL);
	assert_true(w.dropped_bytes >= 100000);
	empty_disk();
}

/* Neither space ahead nor an index that can grow: bytes that are in the log come to the tail. */
static void an_index_that_fails_loses_nothing(void **state)
{
	static const size_t pieces[] = {1, 7, 4000};
	struct rlimit old, small;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct log_writer w;
		uint64_t at = 0;

		assert_int_equal(log_writer_open(&w, folder.fd, 64 * KIB, false), 0);
		assert_true(w.no_allocate);
		/* Ends in the middle of a record of the index, long before the log is that large.
		 */
		small = old;
		small.rlim_cur = 20000;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		for (unsigned int k = 0; k < 1000; k++)
			send_stream(&w, LOG_STDOUT, &at, pieces[i]);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_true(w.ended);
		check_spread(&w, at, NULL);
		log_writer_close(&w);
		/* Without its last marker, too, the log has ended for good. */
		assert_int_equal(log_writer_open(&w, folder.fd, 64 * KIB, true), 0);
		assert_true(w.ended);
		log_writer_close(&w);
		folder_clear(&folder);
	}
}

/* A record of several at once is torn: those before it stay, those behind go to the tail. */
static void an_index_that_fails_in_a_batch_loses_nothing(void **state)
{
	struct rlimit old, small;
	struct log_writer w;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	/* Three records in advance, so that the limit falls in the middle of a batch of eight. */
	small.rlim_cur = 400 * KIB;
	assert_int_equal(log_writer_open(&w, folder.fd, MIB, false), 0);
	while (LOG_RECORD_OFFSET(w.records + 3) < 400 * KIB)
		send_stream(&w, LOG_STDOUT, &at, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	int ends[2];
	pipe_new(ends);
	AUTO_FREE char *data = malloc(256 * KIB);
	assert_non_null(data);
	stream_fill(LOG_STDOUT, at, data, 256 * KIB);
	assert_int_equal(write(ends[1], data, 256 * KIB), 256 * KIB);
	assert_int_equal(log_writer_pump(&w, LOG_STDOUT, ends[0], MIB), 256 * KIB);
	at += 256 * KIB;
	close_fd(ends[0]);
	close_fd(ends[1]);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_true(w.ended);
	check_spread(&w, at, NULL);
	log_writer_close(&w);
}

/* A log whose last call of the writer was `last` bytes of stdout. */
static void make_log(size_t last)
{
	struct log_writer w;
	uint64_t out = 0, err = 0;

	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	send_stream(&w, LOG_STDOUT, &out, 70);
	send_stream(&w, LOG_STDERR, &err, 30);
	send_stream(&w, LOG_STDOUT, &out, last);
	/* As a writer that is killed leaves it. */
	close_fd(w.log_fd);
	close_fd(w.index_fd);
	close_fd(w.ring.fd);
	close_fd(w.dir_fd);
}

static void a_writer_that_dies_at_any_byte_is_repaired(void **state)
{
	/* The last call wrote one record, or three. */
	static const size_t lasts[] = {55, 2 * LOG_RECORD_MAX_BYTES + 9};

	(void)state;
	for (size_t l = 0; l < ARRAY_SIZE(lasts); l++) {
		size_t log_len, index_len;
		uint64_t out, err;

		make_log(lasts[l]);
		AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
		AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &index_len);

		/* The bytes were all written, the records not all. */
		for (size_t cut = LOG_RECORD_OFFSET(2); cut <= index_len; cut++) {
			folder_write(&folder, LOG_FILE, log, log_len);
			folder_write(&folder, LOG_INDEX_FILE, index, cut);
			assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, "lost"), 0);
			(void)check_log(&folder, &out, &err);
			assert_int_equal(out, 70 + lasts[l]);
			assert_int_equal(err, 30);
		}
		/* The bytes were not all written, or the machine forgot some. */
		for (size_t cut = 100; cut < log_len; cut += cut < 160 ? 1 : 509) {
			folder_write(&folder, LOG_FILE, log, cut);
			folder_write(&folder, LOG_INDEX_FILE, index, index_len);
			assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, NULL), 0);
			(void)check_log(&folder, &out, &err);
			assert_int_equal(out, cut - 30);
			assert_int_equal(err, 30);
		}
		/* The machine forgot records: they are zeros. */
		for (size_t from = LOG_RECORD_OFFSET(2); from < index_len; from++) {
			AUTO_FREE char *holed = malloc(index_len);
			assert_non_null(holed);
			memcpy(holed, index, from);
			memset(holed + from, 0, index_len - from);
			folder_write(&folder, LOG_FILE, log, log_len);
			folder_write(&folder, LOG_INDEX_FILE, holed, index_len);
			assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, NULL), 0);
			(void)check_log(&folder, &out, &err);
			assert_int_equal(out, 70 + lasts[l]);
		}
		assert_false(folder_has(&folder, LOG_TAIL_FILE));
		folder_clear(&folder);
	}
}

/* A header that is torn costs the bytes without a record, and nothing else. */
static void a_torn_header_is_repaired(void **state)
{
	size_t log_len, index_len;
	uint64_t out, err;

	(void)state;
	make_log(55);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
	AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &index_len);
	for (size_t at = 0; at < LOG_RECORD_OFFSET(0); at++) {
		struct log_writer w;

		index[at] ^= 0x10;
		folder_write(&folder, LOG_FILE, log, log_len);
		folder_write(&folder, LOG_INDEX_FILE, index, index_len - 1);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
		log_writer_close(&w);
		assert_int_equal(w.attempt, 2);
		(void)check_log(&folder, &out, &err);
		assert_int_equal(out, 70);
		assert_int_equal(err, 30);
		index[at] ^= 0x10;
	}
	/* Not even a header. */
	for (size_t len = 0; len < LOG_RECORD_OFFSET(0); len++) {
		struct log_writer w;

		folder_write(&folder, LOG_FILE, log, 0);
		folder_write(&folder, LOG_INDEX_FILE, index, len);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
		log_writer_close(&w);
		assert_int_equal(w.attempt, 1);
		assert_int_equal(check_log(&folder, &out, &err), 0);
	}
}

/* One that is whole and makes no sense is none either: no record gets attempt 0. */
static void a_header_that_lies_is_no_header(void **state)
{
	static const struct log_index_header lies[] = {
		{.attempt = 0, .stream = LOG_STDOUT},
		{.attempt = 1, .stream = LOG_MARKER + 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct log_index_header header = lies[i];
		uint64_t out, err;

		log_index_header_seal(&header);
		folder_write(&folder, LOG_INDEX_FILE, &header, sizeof(header));
		folder_write(&folder, LOG_FILE, "bytes", 5);
		assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, NULL), 0);
		assert_int_equal(folder_size(&folder, LOG_FILE), 0);
		folder_clear(&folder);

		struct log_writer w;
		folder_write(&folder, LOG_INDEX_FILE, &header, sizeof(header));
		folder_write(&folder, LOG_FILE, "bytes", 5);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
		log_writer_close(&w);
		assert_int_equal(check_log(&folder, &out, &err), 0);
		folder_clear(&folder);
	}
}

static void a_marker_that_was_torn_is_left_out(void **state)
{
	struct log_writer w;
	size_t log_len, index_len;
	uint64_t out, err;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	log_writer_write(&w, LOG_STDOUT, (unsigned char[]){stream_byte(LOG_STDOUT, 0)}, 1);
	(void)log_writer_marker(&w, "half");
	log_writer_close(&w);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
	AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &index_len);
	for (size_t cut = 1; cut < log_len; cut++) {
		folder_write(&folder, LOG_FILE, log, cut);
		folder_write(&folder, LOG_INDEX_FILE, index, LOG_RECORD_OFFSET(1));
		assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, NULL), 0);
		assert_int_equal(check_log(&folder, &out, &err), 1);
	}
}

static void a_damaged_ring_is_replaced(void **state)
{
	struct log_writer w;
	struct log_tail_header header;
	static char data[8000];
	size_t len, tail_len;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, LOG_QUOTA_MIN_BYTES, false), 0);
	log_writer_write(&w, LOG_STDOUT, data, sizeof(data));
	log_writer_close(&w);
	AUTO_FREE char *raw = folder_read(&folder, LOG_TAIL_FILE, &len);
	for (size_t at = 0; at < sizeof(header); at += 3) {
		raw[at] ^= 0x40;
		folder_write(&folder, LOG_TAIL_FILE, raw, len);
		raw[at] ^= 0x40;
		assert_int_equal(log_writer_open(&w, folder.fd, LOG_QUOTA_MIN_BYTES, true), 0);
		log_writer_write(&w, LOG_STDOUT, "new", 3);
		log_writer_close(&w);
		AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
		assert_string_equal(strchr(tail, '\n'), "\nnew");
	}
	folder_write(&folder, LOG_TAIL_FILE, raw, sizeof(header) - 1);
	assert_int_equal(log_writer_repair(folder.fd, LOG_QUOTA_MIN_BYTES, NULL), 0);
	assert_false(folder_has(&folder, LOG_TAIL_FILE));
}

/* Pumps both streams as fast as it can until it is killed. Says so once it has begun. */
static void pump_for_ever(uint64_t quota, int ready)
{
	static const size_t most[] = {700, 3000};
	enum log_stream streams[] = {LOG_STDOUT, LOG_STDERR};
	uint64_t at[2] = {0, 0};
	static char data[3000];
	struct log_writer w;
	int ends[2];
	unsigned int x = 1;

	if (log_writer_open(&w, folder.fd, quota, false) < 0)
		_exit(1);
	pipe_new(ends);
	for (unsigned int i = 0;; i++) {
		size_t k = quota == QUOTA_LARGE ? i % 2 : 0, n;

		x = x * 1103515245 + 12345;
		n = 1 + (x >> 8) % most[k];
		stream_fill(streams[k], at[k], data, n);
		if (write(ends[1], data, n) != (ssize_t)n)
			_exit(1);
		while (log_writer_pump(&w, streams[k], ends[0], MIB) > 0)
			;
		at[k] += n;
		if (i == 50 && write(ready, "x", 1) != 1)
			_exit(1);
	}
}

/* Kills a writer once it is at work, somewhere in what it does. */
static void kill_writer(uint64_t quota, unsigned int delay_us)
{
	int ready[2], status;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork_child();
	if (pid == 0)
		pump_for_ever(quota, ready[1]);
	ready[1] = close_fd(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	ready[0] = close_fd(ready[0]);
	(void)usleep(delay_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void a_killed_writer_leaves_every_byte(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < 40; round++) {
		struct log_writer w;
		uint64_t out, err;
		uint64_t log_bytes;

		kill_writer(QUOTA_LARGE, round * 37 % 1500);
		log_bytes = folder_size(&folder, LOG_FILE);
		assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, true), 0);
		log_writer_close(&w);
		(void)check_log(&folder, &out, &err);
		assert_int_equal(out + err, log_bytes);
		folder_clear(&folder);
	}
}

static void a_killed_writer_leaves_a_whole_ring(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < 40; round++) {
		struct log_tail_header header;
		uint64_t out, err;
		size_t tail_len;

		kill_writer(LOG_QUOTA_MIN_BYTES, round * 53 % 1500);
		AUTO_FREE char *tail = tail_read(&folder, &header, &tail_len);
		assert_int_equal(log_writer_repair(folder.fd, LOG_QUOTA_MIN_BYTES, NULL), 0);
		(void)check_log(&folder, &out, &err);
		assert_true(stream_is(LOG_STDOUT, out + header.first, tail, tail_len));
		assert_true(tail_len + header.pending_bytes >= 4096);
		folder_clear(&folder);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_disk_that_fills_up_ends_the_log, setup_small,
						teardown_mount),
		cmocka_unit_test_setup_teardown(a_disk_that_others_fill_ends_the_log, setup_small,
						teardown_mount),
		cmocka_unit_test_setup_teardown(a_full_disk_takes_no_new_log, setup_small,
						teardown_mount),
		cmocka_unit_test_setup_teardown(a_full_disk_takes_another_attempt, setup_small,
						teardown_mount),
		cmocka_unit_test_setup_teardown(an_index_that_fails_loses_nothing, setup_ramfs,
						teardown_mount),
		cmocka_unit_test_setup_teardown(an_index_that_fails_in_a_batch_loses_nothing,
						setup_ramfs, teardown_mount),
		cmocka_unit_test_setup_teardown(a_writer_that_dies_at_any_byte_is_repaired, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_torn_header_is_repaired, setup, teardown),
		cmocka_unit_test_setup_teardown(a_header_that_lies_is_no_header, setup, teardown),
		cmocka_unit_test_setup_teardown(a_marker_that_was_torn_is_left_out, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_damaged_ring_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_writer_leaves_every_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_writer_leaves_a_whole_ring, setup,
						teardown),
	};

	/* Whatever is mounted here is gone with this process. */
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		perror("a mount namespace of its own (are you root?)");
		return 1;
	}
	(void)signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests_name("log_faults", tests, NULL, NULL);
}
