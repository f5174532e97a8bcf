#include "tests/unit/log_fixture.h"

#include <limits.h>

#include "core/json.h"
#include "core/text.h"
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

static struct log_reader *reader_new(void)
{
	struct log_reader *r = NULL;
	struct error err;

	assert_int_equal(log_reader_open(folder.fd, &r, &err), 0);
	return r;
}

static struct log_sizes sizes_of(struct log_reader *r)
{
	struct log_sizes s;

	assert_int_equal(log_reader_sizes(r, &s, NULL), 0);
	return s;
}

/* All lines from a cursor on, read `step` bytes at a time. */
static char *lines_from(struct log_reader *r, struct log_cursor *cursor, size_t step,
			size_t *ret_len)
{
	size_t len = 0, cap = 64 * KIB;
	char *text = malloc(cap + 1);

	assert_non_null(text);
	for (;;) {
		while (cap - len < step) {
			cap *= 2;
			text = realloc(text, cap + 1);
			assert_non_null(text);
		}
		ssize_t n = log_reader_lines(r, "s-x", cursor, text + len, step, NULL);
		assert_true(n >= 0);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	*ret_len = len;
	return text;
}

/*
 * Parses rendered lines and puts the texts of one stream together ("" for all). Checks seq, which
 * is 1 more than the one before, unless a gap is expected once.
 */
static char *texts_of(const char *lines, const char *stream, size_t gaps)
{
	char *all = calloc(1, strlen(lines) + 1);
	size_t len = 0;
	int64_t seq = 0, time_ns = 0;

	assert_non_null(all);
	while (*lines) {
		const char *end = strchr(lines, '\n'), *name = NULL, *text = NULL, *handle = NULL;
		struct json_object o;
		json_t *parsed = NULL;
		int64_t n = 0, at = 0;

		assert_non_null(end);
		assert_int_equal(json_parse(lines, (size_t)(end - lines), &parsed, NULL), 0);
		AUTO_JSON json_t *line = parsed;
		assert_int_equal(json_object_begin(&o, line, "", NULL), 0);
		assert_int_equal(json_object_string(&o, "handle_id", &handle, NULL), 1);
		assert_int_equal(json_object_string(&o, "stream", &name, NULL), 1);
		assert_int_equal(json_object_string(&o, "text", &text, NULL), 1);
		assert_int_equal(json_object_time(&o, "time", &at, NULL), 1);
		assert_int_equal(json_object_int64(&o, "seq", &n, NULL), 1);
		assert_int_equal(json_object_end(&o, NULL), 0);
		assert_int_equal(strncmp(handle, "s-x.", 4), 0);
		assert_true(at >= time_ns);
		if (n != seq + 1) {
			assert_true(n > seq && gaps > 0);
			gaps--;
		}
		seq = n;
		time_ns = at;
		if (strcmp(name, stream) == 0 || *stream == '\0') {
			memcpy(all + len, text, strlen(text));
			len += strlen(text);
		}
		lines = end + 1;
	}
	assert_int_equal(gaps, 0);
	return all;
}

/* Holds what the lines say of a stream against what is wanted. */
static void assert_stream(const char *stream, const char *want)
{
	AUTO_LOG_READER struct log_reader *r = reader_new();
	struct log_cursor c = {0};
	size_t len;

	log_reader_complete(r);
	AUTO_FREE char *lines = lines_from(r, &c, MIB, &len);
	AUTO_FREE char *got = texts_of(lines, stream, 0);
	assert_string_equal(got, want);
}

static void no_log_is_an_empty_log(void **state)
{
	AUTO_LOG_READER struct log_reader *r = reader_new();
	struct log_cursor c = {0};
	struct log_sizes s = sizes_of(r);
	struct log_writer w;
	char buf[16];

	(void)state;
	assert_int_equal(s.log_bytes + s.stdout_bytes + s.tail_bytes + s.records, 0);
	assert_int_equal(log_reader_pread(r, LOG_VIEW_LOG, buf, sizeof(buf), 0, NULL), 0);
	assert_int_equal(log_reader_pread(r, LOG_VIEW_TAIL, buf, sizeof(buf), 0, NULL), 0);
	assert_int_equal(log_reader_lines(r, "s-x", &c, buf, sizeof(buf), NULL), 0);
	assert_int_equal(log_reader_log_fd(r), -1);

	/* It comes to be while it is read. */
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	assert_int_equal(sizes_of(r).log_bytes, 0);
	log_writer_write(&w, LOG_STDERR, "hello", 5);
	assert_int_equal(log_reader_pread(r, LOG_VIEW_STDERR, buf, sizeof(buf), 0, NULL), 5);
	assert_int_equal(sizes_of(r).log_bytes, 5);
	assert_true(log_reader_log_fd(r) >= 0);
	log_writer_close(&w);
}

static void names_are_not_followed(void **state)
{
	static const char *const names[] = {LOG_INDEX_FILE, LOG_FILE, LOG_TAIL_FILE};
	struct log_writer w;
	struct log_reader *r = NULL;
	struct error err;
	struct log_sizes s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (unsigned int kind = 0; kind < 3; kind++) {
			assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
			log_writer_close(&w);
			(void)unlinkat(folder.fd, names[i], 0);
			if (kind == 0)
				assert_int_equal(symlinkat("/etc/passwd", folder.fd, names[i]), 0);
			else if (kind == 1)
				assert_int_equal(mkfifoat(folder.fd, names[i], 0600), 0);
			else
				assert_int_equal(mkdirat(folder.fd, names[i], 0700), 0);
			int e = log_reader_open(folder.fd, &r, &err);
			if (e == 0) {
				e = log_reader_sizes(r, &s, &err);
				r = log_reader_free(r);
			}
			assert_int_equal(e, kind == 0 ? -ELOOP : -EIO);
			assert_non_null(strstr(err.reason, names[i]));
			folder_clear(&folder);
		}
	}
	char byte;

	/* No folder is an empty log; a descriptor that is none is an error. */
	assert_int_equal(log_reader_open(-1, &r, &err), 0);
	assert_int_equal(log_reader_pread(r, LOG_VIEW_LOG, &byte, 1, 0, &err), 0);
	r = log_reader_free(r);
	assert_true(log_reader_open(INT_MAX, &r, &err) < 0);
	assert_null(r);
}

/* Writes a log of two streams in pieces of many sizes; returns what the streams are. */
static void make_mixed(size_t records, size_t most, uint64_t *ret_out, uint64_t *ret_err)
{
	static char data[40000];
	struct log_writer w;
	uint64_t at[2] = {0, 0};
	unsigned int x = 7;

	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	for (size_t i = 0; i < records; i++) {
		x = x * 1103515245 + 12345;
		unsigned int which = (x >> 20) % 5;
		size_t n = 1 + (x >> 8) % most;

		if (which == 4) {
			(void)log_writer_marker(&w, "between");
			continue;
		}
		/* Long runs of one stream, too. */
		which = i % 1000 < 400 ? 0 : which % 2;
		stream_fill(which == 0 ? LOG_STDOUT : LOG_STDERR, at[which], data, n);
		log_writer_write(&w, which == 0 ? LOG_STDOUT : LOG_STDERR, data, n);
		at[which] += n;
	}
	log_writer_close(&w);
	*ret_out = at[0];
	*ret_err = at[1];
}

static void streams_are_parts_of_the_log(void **state)
{
	static const size_t mosts[] = {3, 200, 40000};

	(void)state;
	for (size_t m = 0; m < ARRAY_SIZE(mosts); m++) {
		static char buf[300 * 1024];
		uint64_t out, err;
		unsigned int x = 99;

		make_mixed(mosts[m] > 1000 ? 300 : 5000, mosts[m], &out, &err);
		AUTO_LOG_READER struct log_reader *r = reader_new();
		struct log_sizes s = sizes_of(r);
		assert_int_equal(s.stdout_bytes, out);
		assert_int_equal(s.stderr_bytes, err);
		assert_int_equal(s.attempt, 1);
		assert_false(s.ended);
		for (unsigned int i = 0; i < 400; i++) {
			const bool first = i % 2 == 0;
			const uint64_t end = first ? out : err;
			uint64_t offset, want;
			size_t len;

			x = x * 1103515245 + 12345;
			offset = (x >> 4) % (end + 10);
			x = x * 1103515245 + 12345;
			len = i < 4 ? sizeof(buf) : (x >> 8) % (i % 3 ? 5000 : sizeof(buf));
			want = offset >= end ? 0 : end - offset < len ? end - offset : len;
			assert_int_equal(log_reader_pread(r,
							  first ? LOG_VIEW_STDOUT : LOG_VIEW_STDERR,
							  buf, len, offset, NULL),
					 want);
			assert_true(stream_is(first ? LOG_STDOUT : LOG_STDERR, offset, buf, want));
		}
		size_t log_len;
		AUTO_FREE char *log = folder_read(&folder, LOG_FILE, &log_len);
		assert_int_equal(log_reader_pread(r, LOG_VIEW_LOG, buf, 1000, 5, NULL), 1000);
		assert_memory_equal(buf, log + 5, 1000);
		assert_int_equal(log_reader_pread(r, LOG_VIEW_LOG, buf, 10, log_len - 3, NULL), 3);
		assert_int_equal(log_reader_pread(r, LOG_VIEW_LOG, buf, 10, UINT64_MAX - 3, NULL),
				 0);
		folder_clear(&folder);
	}
}

/* However they are read, and by whomever: the lines are the same bytes. */
static void lines_do_not_depend_on_how_they_are_read(void **state)
{
	static const size_t steps[] = {1, 7, 100, 4096, 131072};
	struct log_writer w;
	size_t want_len, len;
	struct log_cursor c = {0}, end;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff\xe2\x82\n\"\\\t\x01";
	for (size_t i = 0; i < 16; i++)
		log_writer_write(&w, i % 3 ? LOG_STDOUT : LOG_STDERR, text + i % sizeof(text),
				 1 + i * 7 % (sizeof(text) - i % sizeof(text)));
	log_writer_close(&w);
	AUTO_LOG_READER struct log_reader *first = reader_new();
	log_reader_complete(first);
	AUTO_FREE char *want = lines_from(first, &c, MIB, &want_len);
	end = c;
	assert_int_equal(end.offset, want_len);
	assert_int_equal(end.skip, 0);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		c = (struct log_cursor){0};
		AUTO_FREE char *got = lines_from(first, &c, steps[i], &len);
		assert_int_equal(len, want_len);
		assert_memory_equal(got, want, len);
		assert_memory_equal(&c, &end, sizeof(c));
	}
	/* Another process goes on with the three numbers, at each byte. */
	c = (struct log_cursor){0};
	for (size_t at = 0; at < want_len; at++) {
		AUTO_LOG_READER struct log_reader *r = reader_new();
		char byte;

		log_reader_complete(r);
		assert_int_equal(c.offset, at);
		assert_int_equal(log_reader_lines(r, "s-x", &c, &byte, 1, NULL), 1);
		assert_int_equal(byte, want[at]);
	}
	/* Seeking: from the beginning, forward, backward, in small steps, and past the end. */
	struct log_cursor walk = {0};
	for (size_t at = 0; at <= want_len; at++) {
		struct log_cursor fresh = {0}, back = end;
		char byte;

		while (log_reader_lines_seek(first, "s-x", &fresh, at, 1, NULL) == 0)
			;
		assert_int_equal(log_reader_lines_seek(first, "s-x", &walk, at, MIB, NULL), 1);
		assert_int_equal(log_reader_lines_seek(first, "s-x", &back, at, MIB, NULL), 1);
		assert_memory_equal(&fresh, &walk, sizeof(walk));
		assert_int_equal(back.offset, at);
		if (at < want_len) {
			assert_memory_equal(&fresh, &back, sizeof(back));
			assert_int_equal(log_reader_lines(first, "s-x", &fresh, &byte, 1, NULL), 1);
			assert_int_equal(byte, want[at]);
		}
	}
	assert_int_equal(log_reader_lines_seek(first, "s-x", &walk, UINT64_MAX, MIB, NULL), 1);
	assert_int_equal(walk.offset, want_len);
	/* A cursor that cannot be. */
	struct log_cursor bad = {.offset = 5000, .record = 1, .skip = 5000};
	char byte;
	assert_int_equal(log_reader_lines(first, "s-x", &bad, &byte, 1, NULL), -EINVAL);
	bad = (struct log_cursor){.offset = 1, .record = UINT64_MAX, .skip = 0};
	assert_int_equal(log_reader_lines(first, "s-x", &bad, &byte, 1, NULL), 0);
}

/* What the reference's JSON encoder makes of bytes: U+FFFD for each that is no part of a code
 * point. */
static char *as_text(const char *bytes, size_t n)
{
	char *text = malloc(3 * n + 1), *p = text;

	assert_non_null(text);
	for (size_t i = 0; i < n;) {
		size_t len = text_utf8_length((const unsigned char *)bytes + i, n - i, NULL);

		memcpy(p, len > 0 ? bytes + i : "\xef\xbf\xbd", len > 0 ? len : 3);
		p += len > 0 ? len : 3;
		i += len > 0 ? len : 1;
	}
	*p = '\0';
	return text;
}

/* Any text comes out the same, wherever its bytes are cut, and with the other stream between. */
static void code_points_are_never_split(void **state)
{
	static const char *const texts[] = {
		"plain",
		"\xc3\xa9",
		"\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9x",
		"\xe2\x82", /* ends in the middle */
		"a\xf0\x9f\x98",
		"\xe2\x82\xe2\x82\xac", /* begins again */
		"\xe2\x41\xe2\x82\x41",
		"\xff\xfe\x80\x80\xbf",
		"\xed\xa0\x80\xed\xbf\xbf", /* surrogates */
		"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf\xf4\x90\x80\x80",
		"\xf0\x9f\x98\xf0\x9f\x98\x80",
		"\xc3",
		"\xf0",
	};

	(void)state;
	for (size_t t = 0; t < ARRAY_SIZE(texts); t++) {
		size_t n = strlen(texts[t]);
		AUTO_FREE char *want = as_text(texts[t], n);

		/* Each set of cuts between its bytes; of the longest texts, many. */
		for (unsigned int cuts = 0; cuts<1U << (n - 1); cuts += n> 9 ? 29 : 1) {
			struct log_writer w;

			assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
			for (size_t from = 0, i = 0; i < n; i++) {
				if (i < n - 1 && !(cuts & 1U << i))
					continue;
				log_writer_write(&w, LOG_STDOUT, texts[t] + from, i + 1 - from);
				if (cuts & 2)
					log_writer_write(&w, LOG_STDERR, &"\xe2\x82\xac"[i % 3], 1);
				from = i + 1;
			}
			log_writer_close(&w);
			assert_stream("stdout", want);
			folder_clear(&folder);
		}
	}
}

/* What is incomplete is held back as long as it may become complete. */
static void an_incomplete_end_waits_for_the_end(void **state)
{
	struct log_writer w;
	struct log_cursor c = {0};
	size_t len;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	log_writer_write(&w, LOG_STDOUT, "a\xe2\x82", 3);
	log_writer_write(&w, LOG_STDERR, "\xc3", 1);
	AUTO_LOG_READER struct log_reader *r = reader_new();
	AUTO_FREE char *first = lines_from(r, &c, MIB, &len);
	assert_non_null(strstr(first, "\"text\":\"a\""));
	assert_non_null(strstr(first, "\"text\":\"\""));
	log_writer_write(&w, LOG_STDOUT, "\xac\xf0\x9f", 3);
	log_writer_close(&w);
	AUTO_FREE char *second = lines_from(r, &c, MIB, &len);
	assert_non_null(strstr(second, "\"text\":\"\xe2\x82\xac\""));
	log_reader_complete(r);
	AUTO_FREE char *third = lines_from(r, &c, MIB, &len);
	assert_non_null(
		strstr(third, "\"stream\":\"stdout\",\"text\":\"\xef\xbf\xbd\xef\xbf\xbd\""));
	assert_non_null(strstr(third, "\"stream\":\"stderr\",\"text\":\"\xef\xbf\xbd\""));
	assert_non_null(strstr(third, "\"seq\":5}\n"));
	AUTO_FREE char *fourth = lines_from(r, &c, MIB, &len);
	assert_int_equal(len, 0);
	assert_string_equal(fourth, "");
}

static void binary_and_long_lines(void **state)
{
	static char binary[70000], line[1024 * 1024];
	struct log_writer w;

	(void)state;
	for (size_t i = 0; i < sizeof(binary); i++)
		binary[i] = (char)(1 + i % 255);
	memset(line, 'x', sizeof(line));
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	log_writer_write(&w, LOG_STDOUT, binary, sizeof(binary));
	log_writer_write(&w, LOG_STDERR, line, sizeof(line));
	log_writer_close(&w);
	AUTO_FREE char *want = as_text(binary, sizeof(binary));
	assert_stream("stdout", want);
	AUTO_FREE char *want_line = as_text(line, sizeof(line));
	assert_stream("stderr", want_line);
	folder_clear(&folder);

	/* A NUL is text as well. */
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	log_writer_write(&w, LOG_STDOUT, "a\0b", 3);
	log_writer_close(&w);
	AUTO_LOG_READER struct log_reader *r = reader_new();
	struct log_cursor c = {0};
	size_t len;
	AUTO_FREE char *lines = lines_from(r, &c, MIB, &len);
	assert_non_null(strstr(lines, "\"text\":\"a\\u0000b\""));
}

/* Reads it the slow way, and follows it: not a line is lost. */
static void many_short_lines_are_lines(void **state)
{
	const unsigned int lines = 200000;
	struct log_writer w;
	struct log_cursor c = {0};
	char text[32];
	size_t len;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	for (unsigned int i = 0; i < lines; i++)
		log_writer_write(&w, LOG_STDOUT, text,
				 (size_t)snprintf(text, sizeof(text), "line %u\n", i));
	log_writer_close(&w);
	AUTO_LOG_READER struct log_reader *r = reader_new();
	assert_int_equal(sizes_of(r).records, lines);
	AUTO_FREE char *all = lines_from(r, &c, 128 * KIB, &len);
	const char *p = all;
	for (unsigned int i = 0; i < lines; i++) {
		char want[64];

		(void)snprintf(want, sizeof(want), ",\"text\":\"line %u\\n\",", i);
		const char *end = strchr(p, '\n');
		assert_non_null(end);
		assert_non_null(memmem(p, (size_t)(end - p), want, strlen(want)));
		(void)snprintf(want, sizeof(want), "\"seq\":%u}", i + 1);
		assert_memory_equal(end - strlen(want), want, strlen(want));
		p = end + 1;
	}
	assert_int_equal(*p, '\0');
}

static void names_are_escaped_and_bounded(void **state)
{
	struct log_writer w;
	struct log_cursor c = {0};
	char buf[512], name[LOG_SESSION_MAX_BYTES + 2];

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	(void)log_writer_marker(&w, "m");
	log_writer_close(&w);
	AUTO_LOG_READER struct log_reader *r = reader_new();
	ssize_t n = log_reader_lines(r, "a\"b", &c, buf, sizeof(buf) - 1, NULL);
	assert_true(n > 0);
	buf[n] = '\0';
	assert_non_null(strstr(buf, "{\"handle_id\":\"a\\\"b.1\",\"stream\":\"combined\","
				    "\"text\":\"[cloop] m\\n\",\"time\":\""));
	memset(name, 1, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	c = (struct log_cursor){0};
	assert_int_equal(log_reader_lines(r, name, &c, buf, 10, NULL), -EINVAL);
	assert_true(log_reader_lines(r, name + 1, &c, buf, 10, NULL) == 10);
}

static void the_tail_follows_with_a_gap(void **state)
{
	const size_t room = LOG_QUOTA_MIN_BYTES - LOG_END_MAX_BYTES;
	static char data[20000];
	struct log_writer w;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)('a' + i % 26);
	/* Nothing dropped, no gap; more than the ring, a gap. */
	for (unsigned int over = 0; over < 2; over++) {
		const size_t total = over ? sizeof(data) : room + 4000;
		struct log_cursor c = {0};
		size_t len;

		assert_int_equal(log_writer_open(&w, folder.fd, LOG_QUOTA_MIN_BYTES, false), 0);
		log_writer_write(&w, LOG_STDOUT, data, total);
		AUTO_LOG_READER struct log_reader *r = reader_new();
		struct log_sizes s = sizes_of(r);
		assert_true(s.ended);
		assert_int_equal(s.dropped_bytes, over ? total - room - 4096 : 0);
		assert_int_equal(s.dropped_bytes, w.dropped_bytes);
		assert_int_equal(s.tail_bytes, over ? 4096 : 4000);
		AUTO_FREE char *before = lines_from(r, &c, 4096, &len);
		AUTO_FREE char *head = texts_of(before, "stdout", 0);
		assert_int_equal(strlen(head), room);
		log_writer_close(&w);
		log_reader_complete(r);
		/* Goes on where it stood; the whole is what a new reader sees. */
		AUTO_FREE char *after = lines_from(r, &c, 1000, &len);
		assert_true(len > 0);
		c = (struct log_cursor){0};
		AUTO_FREE char *all = lines_from(r, &c, 4096, &len);
		AUTO_FREE char *text = texts_of(all, "", over);
		assert_memory_equal(text, data, room);
		assert_memory_equal(text + strlen(text) - s.tail_bytes, data + total - s.tail_bytes,
				    s.tail_bytes);
		assert_string_equal(all + strlen(before), after);
		folder_clear(&folder);
	}
}

static void the_tail_is_in_pieces(void **state)
{
	static char data[200000];
	const uint64_t quota = 65536 * 16;
	struct log_writer w;
	struct log_cursor c = {0};
	size_t len;

	(void)state;
	/* Three bytes each: no piece of 32 KiB ends between two. */
	for (size_t i = 0; i + 3 <= sizeof(data); i += 3)
		memcpy(data + i, "\xe2\x82\xac", 3);
	assert_int_equal(log_writer_open(&w, folder.fd, quota, false), 0);
	for (unsigned int i = 0; i < 6; i++)
		log_writer_write(&w, LOG_STDERR, data, sizeof(data) / 3 * 3);
	log_writer_close(&w);
	AUTO_LOG_READER struct log_reader *r = reader_new();
	assert_int_equal(sizes_of(r).tail_bytes, 65536);
	log_reader_complete(r);
	AUTO_FREE char *all = lines_from(r, &c, 4096, &len);
	AUTO_FREE char *text = texts_of(all, "combined", 1);
	const char *p = strstr(text, "log.tail\n");
	assert_non_null(p);
	/* The first of them is cut, by the ring; the rest is whole. */
	for (p += strlen("log.tail\n"); strncmp(p, "\xef\xbf\xbd", 3) == 0; p += 3)
		;
	assert_int_equal(strlen(p) / 3, 65536 / 3);
	for (; *p; p += 3)
		assert_memory_equal(p, "\xe2\x82\xac", 3);
	/* Numbers of pieces that would wrap around to the first. */
	for (unsigned int shift = 40; shift < 64; shift++) {
		struct log_cursor far = {.record = c.record + (UINT64_C(1) << shift)};
		char byte;

		assert_int_equal(log_reader_lines(r, "s-x", &far, &byte, 1, NULL), 0);
	}
}

static void attempts_are_ranges(void **state)
{
	struct log_writer w;
	uint64_t from = 9, to = 9;
	char buf[64];
	ssize_t n;

	(void)state;
	assert_int_equal(log_writer_open(&w, folder.fd, QUOTA_LARGE, false), 0);
	log_writer_write(&w, LOG_STDOUT, "one\n", 4);
	log_writer_close(&w);
	assert_int_equal(log_writer_open_attempt(&w, folder.fd, QUOTA_LARGE, 3), 0);
	log_writer_write(&w, LOG_STDOUT, "three\n", 6);
	log_writer_close(&w);
	AUTO_LOG_READER struct log_reader *r = reader_new();
	assert_int_equal(log_reader_attempt(r, 1, &from, &to, NULL), 0);
	assert_int_equal(from, 0);
	assert_int_equal(to, 4);
	assert_int_equal(log_reader_attempt(r, 2, &from, &to, NULL), 0);
	assert_int_equal(from, to);
	assert_int_equal(log_reader_attempt(r, 3, &from, &to, NULL), 0);
	n = log_reader_pread(r, LOG_VIEW_LOG, buf, (size_t)(to - from), from, NULL);
	assert_int_equal(n, to - from);
	assert_memory_equal(buf, "[cloop] attempt 3\nthree\n", 24);
	assert_int_equal(log_reader_attempt(r, 4, &from, &to, NULL), 0);
	assert_int_equal(from, to);
	assert_int_equal(log_reader_attempt(r, UINT32_MAX, &from, &to, NULL), 0);
	assert_int_equal(log_reader_attempt(r, 0, &from, &to, NULL), -EINVAL);
	assert_int_equal(sizes_of(r).attempt, 3);
	struct log_cursor c = {0};
	size_t len;
	AUTO_FREE char *lines = lines_from(r, &c, MIB, &len);
	assert_non_null(
		strstr(lines, "{\"handle_id\":\"s-x.1\",\"stream\":\"stdout\",\"text\":\"one"));
	assert_non_null(
		strstr(lines, "{\"handle_id\":\"s-x.3\",\"stream\":\"stdout\",\"text\":\"three"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_log_is_an_empty_log, setup, teardown),
		cmocka_unit_test_setup_teardown(names_are_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(streams_are_parts_of_the_log, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_do_not_depend_on_how_they_are_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(code_points_are_never_split, setup, teardown),
		cmocka_unit_test_setup_teardown(an_incomplete_end_waits_for_the_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(binary_and_long_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(many_short_lines_are_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(names_are_escaped_and_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(the_tail_follows_with_a_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(the_tail_is_in_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(attempts_are_ranges, setup, teardown),
	};

	return cmocka_run_group_tests_name("log_reader", tests, NULL, NULL);
}
