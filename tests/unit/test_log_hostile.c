/* The reader of a log against damage, lies, and a writer that is at work. */
#include "tests/unit/log_fixture.h"

#include "core/json.h"
#include "drivers/shim/log_reader.h"

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

static void make_log(uint64_t quota)
{
	static char data[50000];
	struct log_writer w;

	memset(data, 'x', sizeof(data));
	assert_int_equal(log_writer_open(&w, folder.fd, quota, false), 0);
	log_writer_write(&w, LOG_STDOUT, "one\n", 4);
	log_writer_write(&w, LOG_STDERR, "two\xe2\x82", 5);
	log_writer_write(&w, LOG_STDOUT, "\xac", 1);
	(void)log_writer_marker(&w, "three");
	log_writer_write(&w, LOG_STDOUT, "\xe2", 1);
	log_writer_write(&w, LOG_STDERR, data, sizeof(data));
	log_writer_close(&w);
}

/* What can be asked is asked; it must end, and stay within what there is. Returns the log's size.
 */
static uint64_t ask_everything(void)
{
	static char buf[70000];
	static const enum log_view views[] = {LOG_VIEW_LOG, LOG_VIEW_STDOUT, LOG_VIEW_STDERR,
					      LOG_VIEW_TAIL};
	struct log_reader *opened = NULL;
	struct log_cursor c = {0};
	struct log_sizes s = {0};
	uint64_t from = 0, to = 0, lines = 0;
	struct error err;
	ssize_t n;
	int e = log_reader_open(folder.fd, &opened, &err);

	if (e < 0) {
		assert_int_equal(e, -EIO);
		assert_null(opened);
		return 0;
	}
	AUTO_LOG_READER struct log_reader *r = opened;
	log_reader_complete(r);
	e = log_reader_sizes(r, &s, &err);
	assert_true(e == 0 || e == -EIO);
	assert_true(s.log_bytes <= folder_size(&folder, LOG_FILE));
	assert_true(s.stdout_bytes + s.stderr_bytes <= s.log_bytes);
	assert_true(s.tail_bytes <= LOG_TAIL_MAX_BYTES);
	for (size_t v = 0; v < ARRAY_SIZE(views); v++) {
		uint64_t offset = 0;

		while ((n = log_reader_pread(r, views[v], buf, sizeof(buf), offset, &err)) > 0)
			offset += (uint64_t)n;
		assert_true(n == 0 || n == -EIO);
		assert_true(offset <=
			    (views[v] == LOG_VIEW_TAIL ? LOG_TAIL_MAX_BYTES : s.log_bytes));
		n = log_reader_pread(r, views[v], buf, 1, 4, &err);
		assert_true(n == 0 || n == 1 || n == -EIO);
	}
	for (unsigned int attempt = 1; attempt < 4; attempt++) {
		e = log_reader_attempt(r, attempt, &from, &to, &err);
		assert_true((e == 0 && from <= to && to <= s.log_bytes) || e == -EIO);
	}
	while ((n = log_reader_lines(r, "s-x", &c, buf, sizeof(buf), &err)) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += buf[i] == '\n';
	assert_true(n == 0 || n == -EIO);
	assert_true(lines <= s.records + 3 + LOG_TAIL_MAX_BYTES / LOG_RECORD_MAX_BYTES);
	c = (struct log_cursor){0};
	e = log_reader_lines_seek(r, "s-x", &c, UINT64_MAX, UINT64_MAX, &err);
	assert_true(e == 1 || e == -EIO);
	return s.log_bytes;
}

static void every_byte_of_the_index_may_be_wrong(void **state)
{
	size_t len;

	(void)state;
	make_log(QUOTA_LARGE);
	const uint64_t whole = ask_everything();
	AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &len);
	for (size_t at = 0; at < len; at++) {
		static const char changes[] = {0x01, (char)0x80, (char)0xff};

		for (size_t k = 0; k < sizeof(changes); k++) {
			index[at] = (char)(index[at] ^ changes[k]);
			folder_write(&folder, LOG_INDEX_FILE, index, len);
			/* The log is right unless it is its last record that is wrong. */
			const uint64_t size = ask_everything();
			assert_true(size == whole || at >= len - sizeof(struct log_record));
			index[at] = (char)(index[at] ^ changes[k]);
		}
	}
	for (size_t cut = 0; cut < len; cut++) {
		folder_write(&folder, LOG_INDEX_FILE, index, cut);
		(void)ask_everything();
	}
	/* The log is shorter than its index says. */
	folder_write(&folder, LOG_INDEX_FILE, index, len);
	AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &len);
	for (size_t cut = 0; cut < len; cut = cut < 40 ? cut + 1 : cut + 997) {
		folder_write(&folder, LOG_FILE, log, cut);
		assert_true(ask_everything() <= cut);
	}
}

/* Records with every field a lie, and a check that is right. */
static void every_field_may_be_a_lie(void **state)
{
	static const uint64_t lies[] = {
		0,
		1,
		2,
		3,
		5,
		100,
		32768,
		32769,
		50000,
		0x7fffffff,
		0xffffffff,
		UINT64_MAX,
		UINT64_MAX - 1,
		INT64_MAX,
		UINT64_C(1) << 63,
		UINT64_C(1) << 40,
	};
	size_t len;

	(void)state;
	make_log(QUOTA_LARGE);
	AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &len);
	for (uint64_t number = 0; LOG_RECORD_OFFSET(number) < len; number++) {
		for (unsigned int field = 0; field < 8; field++) {
			for (size_t l = 0; l < ARRAY_SIZE(lies); l++) {
				struct log_record rec, honest;

				memcpy(&rec, index + LOG_RECORD_OFFSET(number), sizeof(rec));
				honest = rec;
				switch (field) {
				case 0:
					rec.time_ns = (int64_t)lies[l];
					break;
				case 1:
					rec.log_offset = lies[l];
					break;
				case 2:
					rec.out_offset = lies[l];
					break;
				case 3:
					rec.err_offset = lies[l];
					break;
				case 4:
					rec.len_bytes = (uint32_t)lies[l];
					break;
				case 5:
					rec.attempt = (uint16_t)lies[l];
					break;
				case 6:
					rec.stream = (uint8_t)lies[l];
					break;
				default:
					rec.flags = (uint8_t)lies[l];
				}
				log_record_seal(&rec, number);
				memcpy(index + LOG_RECORD_OFFSET(number), &rec, sizeof(rec));
				folder_write(&folder, LOG_INDEX_FILE, index, len);
				(void)ask_everything();
				memcpy(index + LOG_RECORD_OFFSET(number), &honest, sizeof(honest));
			}
		}
	}
}

/* A record that does not follow on the one before is damage, whoever comes to it from where. */
static void a_hole_in_the_index_is_seen_from_everywhere(void **state)
{
	static char buf[200000];
	struct log_writer w;
	struct error err;
	size_t len;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	for (unsigned int i = 0; i < 200; i++)
		log_writer_write(&w, i % 2 ? LOG_STDOUT : LOG_STDERR, &"\xe2\x82\xac"[i % 3], 1);
	log_writer_close(&w);
	AUTO_FREE char *index = folder_read(&folder, LOG_INDEX_FILE, &len);
	/* On both sides of where one page of records ends and the next begins. */
	for (uint64_t number = 0; number < 199; number = number == 1 ? 83 : number + 1) {
		struct log_cursor c = {0};
		struct log_record rec, honest;
		struct log_reader *opened = NULL;

		memcpy(&honest, index + LOG_RECORD_OFFSET(number), sizeof(honest));
		rec = honest;
		rec.log_offset += 2;
		rec.out_offset += 1;
		log_record_seal(&rec, number);
		memcpy(index + LOG_RECORD_OFFSET(number), &rec, sizeof(rec));
		folder_write(&folder, LOG_INDEX_FILE, index, len);
		memcpy(index + LOG_RECORD_OFFSET(number), &honest, sizeof(honest));
		assert_int_equal(log_reader_open(folder.fd, &opened, NULL), 0);
		AUTO_LOG_READER struct log_reader *r = opened;
		while (log_reader_lines(r, "s-x", &c, buf, sizeof(buf), &err) > 0)
			;
		assert_int_equal(c.record, number);
		for (unsigned int k = 0; k < 2; k++) {
			struct log_cursor at = {.offset = 1, .record = number + k};

			assert_int_equal(log_reader_lines(r, "s-x", &at, buf, 1, &err), -EIO);
		}
	}
}

static void every_byte_of_the_tail_may_be_wrong(void **state)
{
	struct log_tail_header honest, lie;
	size_t len;

	(void)state;
	make_log(LOG_QUOTA_MIN_BYTES);
	AUTO_FREE char *tail = folder_read(&folder, LOG_TAIL_FILE, &len);
	memcpy(&honest, tail, sizeof(honest));
	for (size_t at = 0; at < sizeof(honest); at++) {
		tail[at] ^= 0x21;
		folder_write(&folder, LOG_TAIL_FILE, tail, len);
		(void)ask_everything();
		tail[at] ^= 0x21;
	}
	/* Sealed lies: positions, capacity, counts. */
	for (size_t field = 1; field < 9; field++) {
		static const uint64_t lies[] = {
			0, 1, 4095, 4097, 40000, 1 << 20, UINT64_C(1) << 60, UINT64_MAX, INT64_MAX};

		for (size_t l = 0; l < ARRAY_SIZE(lies); l++) {
			lie = honest;
			memcpy((char *)&lie + field * sizeof(uint64_t), &lies[l], sizeof(lies[l]));
			log_tail_header_seal(&lie);
			memcpy(tail, &lie, sizeof(lie));
			folder_write(&folder, LOG_TAIL_FILE, tail, len);
			(void)ask_everything();
		}
	}
	memcpy(tail, &honest, sizeof(honest));
	for (size_t cut = 0; cut < len; cut += 61) {
		folder_write(&folder, LOG_TAIL_FILE, tail, cut);
		(void)ask_everything();
	}
}

/* An index of a tebibyte of nothing does not hold up the hub. */
static void an_endless_index_is_given_up(void **state)
{
	struct error err;
	struct log_reader *r = NULL;

	(void)state;
	make_log(QUOTA_LARGE);
	AUTO_CLOSE int fd = openat(folder.fd, LOG_INDEX_FILE, O_RDWR | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	assert_int_equal(log_reader_open(folder.fd, &r, &err), -EIO);
	assert_string_equal(err.reason, "the index of the log is damaged at its end");
	assert_null(r);
	assert_int_equal(log_writer_repair(folder.fd, QUOTA_LARGE, NULL), -EUCLEAN);
}

/* A writer that writes numbered lines to both streams until it is told to stop, or has n. */
static pid_t spawn_writer(uint64_t quota, unsigned int n)
{
	pid_t pid = fork_child();

	if (pid > 0)
		return pid;

	struct log_writer w;
	char text[64];

	if (log_writer_open(&w, folder.fd, quota, false) < 0)
		_exit(1);
	for (unsigned int i = 0; i < n; i++) {
		int len = snprintf(text, sizeof(text), "%07u\n", i);

		log_writer_write(&w, LOG_STDOUT, text, (size_t)len);
		if (i % 3 == 0) {
			/* In two pieces, cut in the middle of a code point. */
			len = snprintf(text, sizeof(text), "\xe2\x82\xac%u\n", i);
			log_writer_write(&w, LOG_STDERR, text, 1 + i % 2);
			log_writer_write(&w, LOG_STDERR, text + 1 + i % 2, (size_t)len - 1 - i % 2);
		}
	}
	log_writer_close(&w);
	_exit(0);
}

/* Adds what the lines say of stdout and stderr to what is known of them. */
static void take_lines(char *lines, char *texts[2])
{
	for (char *end; (end = strchr(lines, '\n')); lines = end + 1) {
		const char *name = NULL, *text = NULL;
		struct json_object o;
		json_t *parsed = NULL;

		assert_int_equal(json_parse(lines, (size_t)(end - lines), &parsed, NULL), 0);
		AUTO_JSON json_t *line = parsed;
		assert_int_equal(json_object_begin(&o, line, "", NULL), 0);
		assert_int_equal(json_object_string(&o, "stream", &name, NULL), 1);
		assert_int_equal(json_object_string(&o, "text", &text, NULL), 1);
		size_t which = strcmp(name, "stdout") == 0 ? 0 : 1;
		texts[which] = stpcpy(texts[which], text);
	}
	assert_int_equal(*lines, '\0');
}

static void a_reader_follows_a_writer(void **state)
{
	const unsigned int n = 60000;
	static char texts[2][2000000], views[2][2000000], want[2][2000000], rendered[262144];
	char *ends[2] = {texts[0], texts[1]}, *w0 = want[0], *w1 = want[1];
	uint64_t seen[2] = {0, 0}, log_bytes = 0;
	struct log_cursor c = {0};
	size_t held = 0;
	bool done = false;

	(void)state;
	pid_t pid = spawn_writer(QUOTA_LARGE, n);
	AUTO_LOG_READER struct log_reader *r = NULL;
	assert_int_equal(log_reader_open(folder.fd, &r, NULL), 0);
	for (;;) {
		int status;
		bool over = !done && waitpid(pid, &status, WNOHANG) == pid;
		ssize_t got;

		if (over) {
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			log_reader_complete(r);
		}
		/* Sizes only grow, and what they promise can be read. */
		struct log_sizes s;
		assert_int_equal(log_reader_sizes(r, &s, NULL), 0);
		assert_true(s.log_bytes >= log_bytes);
		log_bytes = s.log_bytes;
		for (size_t i = 0; i < 2; i++) {
			uint64_t size = i == 0 ? s.stdout_bytes : s.stderr_bytes;

			while (seen[i] < size) {
				got = log_reader_pread(r,
						       i == 0 ? LOG_VIEW_STDOUT : LOG_VIEW_STDERR,
						       views[i] + seen[i], 10000, seen[i], NULL);
				assert_true(got > 0);
				seen[i] += (uint64_t)got;
			}
		}
		do {
			got = log_reader_lines(r, "s-x", &c, rendered + held,
					       sizeof(rendered) - 1 - held, NULL);
			assert_true(got >= 0);
			rendered[held + (size_t)got] = '\0';
			char *last = memrchr(rendered, '\n', held + (size_t)got);
			size_t all = held + (size_t)got,
			       whole = last ? (size_t)(last - rendered) + 1 : 0;
			char saved = rendered[whole];

			rendered[whole] = '\0';
			take_lines(rendered, ends);
			rendered[whole] = saved;
			held = all - whole;
			memmove(rendered, rendered + whole, held);
		} while (got > 0);
		if (done)
			break;
		done = over;
	}
	assert_int_equal(held, 0);
	for (unsigned int i = 0; i < n; i++) {
		w0 += sprintf(w0, "%07u\n", i);
		if (i % 3 == 0)
			w1 += sprintf(w1, "\xe2\x82\xac%u\n", i);
	}
	assert_int_equal(seen[0], w0 - want[0]);
	assert_int_equal(seen[1], w1 - want[1]);
	for (size_t i = 0; i < 2; i++) {
		assert_memory_equal(views[i], want[i], seen[i]);
		*ends[i] = '\0';
		assert_int_equal(ends[i] - texts[i], seen[i]);
		assert_memory_equal(texts[i], want[i], seen[i]);
	}
}

/* A snapshot of a ring that moves is a run of lines without a hole. */
static void a_moving_ring_is_read_whole(void **state)
{
	static char buf[LOG_TAIL_MAX_BYTES + 1];
	unsigned int snapshots = 0;
	struct log_reader *opened = NULL;

	(void)state;
	/* It would take hours to come to its end: it is killed. */
	pid_t pid = spawn_writer(LOG_QUOTA_MIN_BYTES, UINT32_MAX);
	assert_int_equal(log_reader_open(folder.fd, &opened, NULL), 0);
	AUTO_LOG_READER struct log_reader *r = opened;
	while (snapshots < 300) {
		ssize_t n = log_reader_pread(r, LOG_VIEW_TAIL, buf, sizeof(buf) - 1, 0, NULL);
		unsigned int number, last = 0;

		assert_true(n >= 0);
		buf[n] = '\0';
		/* Lines that are whole, of the stream that is numbered without a gap. */
		char *p = strchr(buf, '\n');
		if (!p)
			continue;
		for (char *end; (end = strchr(++p, '\n')); p = end) {
			/* Those of stderr begin with something else. */
			if (end - p != 7 || *p < '0' || *p > '9')
				continue;
			assert_int_equal(sscanf(p, "%7u", &number), 1);
			assert_true(last == 0 || number == last + 1);
			last = number;
		}
		snapshots++;
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(log_writer_repair(folder.fd, LOG_QUOTA_MIN_BYTES, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_byte_of_the_index_may_be_wrong, setup,
						teardown),
		cmocka_unit_test_setup_teardown(every_field_may_be_a_lie, setup, teardown),
		cmocka_unit_test_setup_teardown(a_hole_in_the_index_is_seen_from_everywhere, setup,
						teardown),
		cmocka_unit_test_setup_teardown(every_byte_of_the_tail_may_be_wrong, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_endless_index_is_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_follows_a_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_moving_ring_is_read_whole, setup, teardown),
	};

	return cmocka_run_group_tests_name("log_hostile", tests, NULL, NULL);
}
