#include "core/store/event.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/store/query.h"

/* Where the file begins and ends in the offsets that the rows have; both 0 when there is no row. */
static int extent(struct store_tx *tx, int64_t *ret_begin, int64_t *ret_end, struct error *err)
{
	AUTO_QUERY struct store_query first = {0};
	AUTO_QUERY struct store_query last = {0};
	int64_t begin = 0, end = 0;
	size_t len;
	int r = store_query_begin(&first, tx, "SELECT off FROM event ORDER BY seq LIMIT 1", err);

	if (r == 0)
		r = store_query_begin(&last, tx,
				      "SELECT off, line FROM event ORDER BY seq DESC LIMIT 1", err);
	if (r < 0)
		return r;
	r = store_query_next(&first, err);
	if (r > 0) {
		begin = store_query_column_int(&first, 0);
		r = store_query_next(&last, err);
	}
	if (r > 0) {
		/* Without its length the next line would lie over this one. */
		if (!store_query_column_view(&last, 1, &len))
			return error_oom(err);
		end = store_query_column_int(&last, 0) + (int64_t)len + 1;
	}
	if (r < 0)
		return r;
	*ret_begin = begin;
	*ret_end = end;
	return 0;
}

static int check_object(const char *object, struct error *err)
{
	size_t len = strlen(object);

	if (len < 2 || object[0] != '{' || object[len - 1] != '}')
		return error_set(err, EINVAL, "an event must be a JSON object");
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)object[i] < 0x20)
			return error_set(err, EINVAL, "an event must be one line");
	return 0;
}

int event_append(struct store_tx *tx, int64_t at_ns, const char *object, struct event_place *ret,
		 struct error *err)
{
	AUTO_BUF struct buf line = BUF_INIT(EVENT_LINE_MAX);
	AUTO_QUERY struct store_query q = {0};
	char at[CLOCK_RFC3339_MAX];
	int64_t seq = 0, begin = 0, end = 0;
	int r = check_object(object, err);

	if (r == 0)
		r = store_last_serial(tx, "event", &seq, err);
	if (r == 0)
		r = extent(tx, &begin, &end, err);
	if (r < 0)
		return r;
	clock_format(at_ns, at);
	buf_printf(&line, "{\"seq\":%" PRId64 ",\"at\":\"%s\"", ++seq, at);
	if (object[1] != '}')
		buf_puts(&line, ",");
	buf_puts(&line, object + 1);
	if (line.failed == -EFBIG)
		return error_set(err, EFBIG, "an event is longer than %d bytes", EVENT_LINE_MAX);
	if (line.failed)
		return error_oom(err);

	r = store_query_begin(&q, tx, "INSERT INTO event (seq, off, line) VALUES (?, ?, ?)", err);
	if (r < 0)
		return r;
	store_query_int(&q, seq);
	store_query_int(&q, end);
	store_query_text(&q, line.data);
	r = store_query_run(&q, err);
	if (r < 0)
		return r;
	if (ret)
		*ret = (struct event_place){.seq = seq,
					    .offset_bytes = end - begin,
					    .length_bytes = (int64_t)line.len + 1};
	return 0;
}

int event_size(struct store_tx *tx, int64_t *ret_bytes, struct error *err)
{
	int64_t begin = 0, end = 0;
	int r = extent(tx, &begin, &end, err);

	if (r == 0)
		*ret_bytes = end - begin;
	return r;
}

/* Copies the part of one line (and its newline) that lies in the range. */
static size_t copy_part(const char *line, size_t len, size_t skip, char *buf, size_t size)
{
	size_t n = len + 1 - skip < size ? len + 1 - skip : size;

	if (skip + n == len + 1) {
		memcpy(buf, line + skip, n - 1);
		buf[n - 1] = '\n';
	} else {
		memcpy(buf, line + skip, n);
	}
	return n;
}

int event_read(struct store_tx *tx, int64_t offset, char *buf, size_t size, size_t *ret_len,
	       struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int64_t begin = 0, end = 0;
	size_t len = 0;
	int r = extent(tx, &begin, &end, err);

	if (r < 0)
		return r;
	if (offset < 0 || offset >= end - begin || size == 0) {
		*ret_len = 0;
		return 0;
	}
	int64_t at = begin + offset;
	r = store_query_begin(&q, tx,
			      "SELECT off, line FROM event WHERE off >= "
			      "(SELECT max(off) FROM event WHERE off <= ?) ORDER BY off",
			      err);
	if (r < 0)
		return r;
	store_query_int(&q, at);
	while (len < size && (r = store_query_next(&q, err)) > 0) {
		size_t line_len;
		int64_t off = store_query_column_int(&q, 0);
		const char *line = store_query_column_view(&q, 1, &line_len);

		if (!line)
			return error_oom(err);
		size_t skip = off < at ? (size_t)(at - off) : 0;
		if (skip > line_len)
			return error_set(err, EIO, "the event log has a hole at byte %" PRId64,
					 offset);
		len += copy_part(line, line_len, skip, buf + len, size - len);
	}
	if (r < 0)
		return r;
	*ret_len = len;
	return 0;
}

int event_prune(struct store_tx *tx, int64_t max_bytes, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int64_t begin = 0, end = 0;
	int r = extent(tx, &begin, &end, err);

	if (r < 0 || end - begin <= max_bytes)
		return r;
	r = store_query_begin(&q, tx,
			      "DELETE FROM event WHERE seq IN "
			      "(SELECT seq FROM event WHERE off < ? ORDER BY off LIMIT ?)",
			      err);
	if (r < 0)
		return r;
	store_query_int(&q, end - max_bytes);
	store_query_int(&q, EVENT_PRUNE_ROWS);
	return store_query_run(&q, err);
}
