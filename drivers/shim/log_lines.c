/*
 * The log as lines of JSON.
 *
 * Line k is record k. When the log is complete there are more behind the last record: one for the
 * incomplete code point at the end of stdout, one for that of stderr, where there is one; then
 * log.tail in pieces. They are numbered on, so that a cursor needs one number.
 */
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/text.h"
#include "drivers/shim/log_reader_private.h"

/* A proper prefix of a code point is at most this long. */
#define CARRY_MAX 3

/* A control character becomes six bytes. */
#define ESCAPED_MAX(n) (6 * (n))

/* A line but for session and text. */
#define LINE_FRAME_MAX 256

#define LINE_MAX_BYTES                                                                             \
	(ESCAPED_MAX(LOG_SESSION_MAX_BYTES) + ESCAPED_MAX(CARRY_MAX + LOG_RECORD_MAX_BYTES) +      \
	 LINE_FRAME_MAX)

/* The incomplete end of a stream. */
struct carry {
	unsigned char bytes[CARRY_MAX];
	size_t len;
};

struct renderer {
	struct log_reader *reader;
	char session[ESCAPED_MAX(LOG_SESSION_MAX_BYTES)];
	size_t session_len;
	struct log_block block;
	uint64_t next; /* the record that the carries are those before */
	struct carry out, err;
	int64_t time_ns; /* that `time` is the text of */
	char time[CLOCK_RFC3339_MAX];
	unsigned char text[CARRY_MAX + LOG_RECORD_MAX_BYTES];
	char line[LINE_MAX_BYTES];
	size_t line_len;
};

/* Adds text as the inside of a JSON string; to has room for ESCAPED_MAX(n). */
static size_t escape(char *to, const unsigned char *s, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	char *p = to;

	for (size_t i = 0; i < n;) {
		unsigned char c = s[i];

		if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
			*p++ = (char)c;
			i++;
			continue;
		}
		if (c >= 0x80) {
			size_t len = text_utf8_length(s + i, n - i, NULL);

			if (len == 0) {
				memcpy(p, "\xef\xbf\xbd", 3);
				p += 3;
				i++;
			} else {
				memcpy(p, s + i, len);
				p += len;
				i += len;
			}
			continue;
		}
		*p++ = '\\';
		switch (c) {
		case '"':
		case '\\':
			*p++ = (char)c;
			break;
		case '\n':
			*p++ = 'n';
			break;
		case '\r':
			*p++ = 'r';
			break;
		case '\t':
			*p++ = 't';
			break;
		default:
			memcpy(p, "u00", 3);
			p[3] = hex[c >> 4];
			p[4] = hex[c & 15];
			p += 5;
		}
		i++;
	}
	return (size_t)(p - to);
}

/* How many of the n bytes are an incomplete code point at their end. */
static size_t incomplete(const unsigned char *s, size_t n)
{
	for (size_t back = 1; back <= n && back <= CARRY_MAX; back++) {
		bool partial;

		if ((s[n - back] & 0xc0) == 0x80)
			continue;
		(void)text_utf8_length(s + n - back, back, &partial);
		return partial ? back : 0;
	}
	return 0;
}

static void render(struct renderer *rd, unsigned int attempt, const char *stream, int64_t time_ns,
		   uint64_t seq, size_t text_len)
{
	char *p = rd->line;

	if (rd->time_ns != time_ns) {
		clock_format(time_ns, rd->time);
		rd->time_ns = time_ns;
	}
	p = stpcpy(p, "{\"handle_id\":\"");
	memcpy(p, rd->session, rd->session_len);
	p += rd->session_len;
	p += sprintf(p, ".%u\",\"stream\":\"%s\",\"text\":\"", attempt, stream);
	p += escape(p, rd->text, text_len);
	p += sprintf(p, "\",\"time\":\"%s\",\"seq\":%llu}\n", rd->time, (unsigned long long)seq);
	rd->line_len = (size_t)(p - rd->line);
}

/* The incomplete end of a stream before a record: its last bytes say it all. */
static int look_back(struct renderer *rd, uint64_t number, enum log_stream stream,
		     uint64_t position, struct carry *ret, struct error *err)
{
	unsigned char bytes[CARRY_MAX];
	size_t n = position < CARRY_MAX ? (size_t)position : CARRY_MAX;
	ssize_t got;

	ret->len = 0;
	if (n == 0)
		return 0;
	got = log_view_pread(rd->reader, number, stream, (char *)bytes, n, position - n, err);
	if (got < 0)
		return (int)got;
	if ((size_t)got < n)
		return error_set(err, EIO, "the index of the log is damaged");
	ret->len = incomplete(bytes, n);
	memcpy(ret->bytes, bytes + n - ret->len, ret->len);
	return 0;
}

/* Brings the carries to those before a record. */
static int prepare(struct renderer *rd, uint64_t number, struct error *err)
{
	struct log_position at;
	int e;

	if (rd->next == number)
		return 0;
	e = log_block_position(rd->reader, &rd->block, number, &at, err);
	if (e == 0)
		e = look_back(rd, number, LOG_STDOUT, at.out, &rd->out, err);
	if (e == 0)
		e = look_back(rd, number, LOG_STDERR, at.err, &rd->err, err);
	if (e == 0)
		rd->next = number;
	return e;
}

static int render_record(struct renderer *rd, uint64_t number, struct error *err)
{
	static const char *const names[] = {
		[LOG_STDOUT] = "stdout", [LOG_STDERR] = "stderr", [LOG_MARKER] = "combined"};
	const struct log_record *rec;
	struct carry none = {.len = 0}, *carry;
	size_t len;
	int e = prepare(rd, number, err);

	if (e == 0)
		e = log_block_get(rd->reader, &rd->block, number, &rec, err);
	if (e < 0)
		return e;
	carry = rec->stream == LOG_STDOUT ? &rd->out : rec->stream == LOG_STDERR ? &rd->err : &none;
	memcpy(rd->text, carry->bytes, carry->len);
	e = log_reader_bytes(rd->reader, rd->text + carry->len, rec->len_bytes, rec->log_offset,
			     err);
	if (e < 0)
		return e;
	len = carry->len + rec->len_bytes;
	if (carry != &none) {
		carry->len = incomplete(rd->text, len);
		len -= carry->len;
		memcpy(carry->bytes, rd->text + len, carry->len);
	}
	render(rd, rec->attempt, names[rec->stream], rec->time_ns, number + 1, len);
	rd->next = number + 1;
	return 0;
}

/* A piece of log.tail, which is one text: its pieces do not split code points either. */
static int render_tail(struct renderer *rd, uint64_t piece, uint64_t seq,
		       const struct log_tail_header *tail, struct error *err)
{
	uint64_t size = log_tail_bytes(tail), from = piece * LOG_RECORD_MAX_BYTES;
	size_t before = from < CARRY_MAX ? (size_t)from : CARRY_MAX, kept, len;
	ssize_t got;

	len = size - from < LOG_RECORD_MAX_BYTES ? (size_t)(size - from) : LOG_RECORD_MAX_BYTES;
	got = log_tail_pread(rd->reader, (char *)rd->text, before + len, from - before, err);
	if (got < 0)
		return (int)got;
	if ((size_t)got < before + len)
		return error_set(err, EIO, "log.tail is damaged");
	kept = incomplete(rd->text, before);
	memmove(rd->text, rd->text + before - kept, kept + len);
	len += kept;
	if (from + LOG_RECORD_MAX_BYTES < size)
		len -= incomplete(rd->text, len);
	render(rd, tail->attempt > 0 ? (unsigned int)tail->attempt : 1, "combined", tail->time_ns,
	       seq, len);
	return 0;
}

/*
 * A line behind the last record of a complete log. The gap in seq is as many of the largest chunks
 * as the bytes between would fill.
 */
static int render_rest(struct renderer *rd, uint64_t number, struct error *err)
{
	struct log_reader *r = rd->reader;
	struct log_tail_header tail;
	const struct carry *ends[] = {&rd->out, &rd->err};
	static const char *const names[] = {"stdout", "stderr"};
	uint64_t k = number - r->records, pieces, gap;
	int e = prepare(rd, r->records, err);

	if (e < 0)
		return e;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		if (ends[i]->len == 0)
			continue;
		if (k-- == 0) {
			memcpy(rd->text, ends[i]->bytes, ends[i]->len);
			render(rd, r->attempt, names[i], r->time_ns, number + 1, ends[i]->len);
			return 1;
		}
	}
	e = log_tail_look(r, &tail, err);
	if (e < 0)
		return e;
	pieces = (log_tail_bytes(&tail) + LOG_RECORD_MAX_BYTES - 1) / LOG_RECORD_MAX_BYTES;
	if (k >= pieces)
		return 0;
	gap = (log_tail_dropped(&tail) + LOG_RECORD_MAX_BYTES - 1) / LOG_RECORD_MAX_BYTES;
	e = render_tail(rd, k, number + 1 + gap, &tail, err);
	return e < 0 ? e : 1;
}

/* Renders line `number`. Returns 1, 0 when there is none, or a negative errno. */
static int render_line(struct renderer *rd, uint64_t number, struct error *err)
{
	struct log_reader *r = rd->reader;
	int e;

	if (number >= r->records) {
		e = log_reader_look(r, err);
		if (e < 0)
			return e;
	}
	if (number < r->records) {
		e = render_record(rd, number, err);
		return e < 0 ? e : 1;
	}
	return r->complete ? render_rest(rd, number, err) : 0;
}

static int renderer_new(struct log_reader *r, const char *session, struct renderer **ret,
			struct error *err)
{
	size_t len = strlen(session);
	struct renderer *rd;

	if (len > LOG_SESSION_MAX_BYTES)
		return error_set(err, EINVAL, "the session's name is too long to be rendered");
	rd = malloc(sizeof(*rd));
	if (!rd)
		return error_oom(err);
	/* The large arrays are left alone. */
	rd->reader = r;
	rd->block.first = 0;
	rd->block.count = 0;
	rd->next = 0;
	rd->out.len = rd->err.len = 0;
	rd->time_ns = -1;
	rd->line_len = 0;
	rd->session_len = escape(rd->session, (const unsigned char *)session, len);
	*ret = rd;
	return 0;
}

static int bad_cursor(struct error *err)
{
	return error_set(err, EINVAL, "the place in the lines does not exist");
}

ssize_t log_reader_lines(struct log_reader *r, const char *session, struct log_cursor *cursor,
			 void *buf, size_t len, struct error *err)
{
	AUTO_FREE struct renderer *rd = NULL;
	size_t done = 0;
	int e = renderer_new(r, session, &rd, err);

	while (e >= 0 && done < len) {
		e = render_line(rd, cursor->record, err);
		if (e <= 0)
			break;
		if (cursor->skip >= rd->line_len) {
			e = bad_cursor(err);
			break;
		}
		size_t n = rd->line_len - (size_t)cursor->skip;
		if (n > len - done)
			n = len - done;
		memcpy((char *)buf + done, rd->line + cursor->skip, n);
		done += n;
		cursor->offset += n;
		cursor->skip += n;
		if (cursor->skip == rd->line_len) {
			cursor->record++;
			cursor->skip = 0;
		}
	}
	return done > 0 || e >= 0 ? (ssize_t)done : e;
}

int log_reader_lines_seek(struct log_reader *r, const char *session, struct log_cursor *cursor,
			  uint64_t offset, uint64_t budget_bytes, struct error *err)
{
	AUTO_FREE struct renderer *rd = NULL;
	struct log_cursor c = *cursor;
	uint64_t spent = 0;
	int e = renderer_new(r, session, &rd, err);

	if (c.offset > offset || c.skip > c.offset)
		c = (struct log_cursor){0};
	/* Back to the beginning of the line. */
	c.offset -= c.skip;
	c.skip = 0;
	while (e >= 0 && c.offset < offset && spent < budget_bytes) {
		e = render_line(rd, c.record, err);
		if (e < 0)
			return e;
		if (e == 0)
			break;
		if (offset - c.offset < rd->line_len) {
			c.skip = offset - c.offset;
			c.offset = offset;
			break;
		}
		c.offset += rd->line_len;
		c.record++;
		spent += rd->line_len;
	}
	if (e < 0)
		return e;
	bool more = c.offset < offset && spent >= budget_bytes;
	*cursor = c;
	return more ? 0 : 1;
}
