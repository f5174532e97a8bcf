/* Finding things through the index: stdout and stderr, which are parts of the log, and attempts. */
#include <string.h>

#include "drivers/shim/log_reader_private.h"

/*
 * Pieces of a view that lie close together are read at once and copied from there. A larger piece
 * is read by itself.
 */
#define WINDOW_BYTES 65536
#define WINDOW_PIECE_BYTES 4096

static int damaged(uint64_t number, struct error *err)
{
	return error_set(err, EIO, "the index of the log is damaged at record %llu",
			 (unsigned long long)number);
}

/* Whether a record follows on another one (the first record: on nothing) without a hole. */
static bool follows(const struct log_record *rec, const struct log_record *before)
{
	static const struct log_record none;

	if (!before)
		before = &none;
	return rec->log_offset == log_record_log_end(before) &&
	       rec->out_offset == log_record_out_end(before) &&
	       rec->err_offset == log_record_err_end(before);
}

int log_block_get(const struct log_reader *r, struct log_block *block, uint64_t number,
		  const struct log_record **ret, struct error *err)
{
	if (number < block->first || number - block->first >= block->count) {
		/* With the one before, which it must follow on. */
		uint64_t first = number > 0 ? number - 1 : 0, n = r->records - first;
		int error;

		block->first = first;
		block->count = 0;
		if (n > LOG_BLOCK_RECORDS)
			n = LOG_BLOCK_RECORDS;
		size_t got = log_pread_all(r->index_fd, block->records,
					   (size_t)n * sizeof(block->records[0]),
					   LOG_RECORD_OFFSET(first), &error);
		if (error)
			return error_set(err, error, "the index of the log cannot be read (%s)",
					 error_name(error));
		for (size_t i = 0; i < got / sizeof(block->records[0]); i++) {
			const struct log_record *rec = &block->records[i];

			if (!log_record_valid(rec, first + i, r->log_end) ||
			    ((i > 0 || first == 0) && !follows(rec, i > 0 ? rec - 1 : NULL)))
				break;
			block->count++;
		}
		if (number - first >= block->count) {
			block->count = 0;
			return damaged(number, err);
		}
	}
	*ret = &block->records[number - block->first];
	return 0;
}

int log_block_position(const struct log_reader *r, struct log_block *block, uint64_t number,
		       struct log_position *ret, struct error *err)
{
	const struct log_record *rec;

	if (number >= r->records) {
		*ret = (struct log_position){
			.log = r->log_end, .out = r->out_end, .err = r->err_end};
		return 0;
	}
	int e = log_block_get(r, block, number, &rec, err);
	if (e < 0)
		return e;
	*ret = (struct log_position){
		.log = rec->log_offset, .out = rec->out_offset, .err = rec->err_offset};
	return 0;
}

/* One record, without a block around it. */
static int record_at(const struct log_reader *r, uint64_t number, struct log_record *ret,
		     struct error *err)
{
	int error;

	if (log_pread_all(r->index_fd, ret, sizeof(*ret), LOG_RECORD_OFFSET(number), &error) <
		    sizeof(*ret) ||
	    !log_record_valid(ret, number, r->log_end))
		return error ? error_set(err, error, "the index of the log cannot be read (%s)",
					 error_name(error))
			     : damaged(number, err);
	return 0;
}

/* What never decreases from record to record. */
enum key {
	KEY_OUT_END,
	KEY_ERR_END,
	KEY_ATTEMPT,
};

static uint64_t key_of(const struct log_record *rec, enum key key)
{
	return key == KEY_ATTEMPT   ? rec->attempt
	       : key == KEY_OUT_END ? log_record_out_end(rec)
				    : log_record_err_end(rec);
}

/* The first record of [low, high) whose key is greater than a value; high when there is none. */
static int find(const struct log_reader *r, enum key key, uint64_t value, uint64_t low,
		uint64_t high, uint64_t *ret, struct error *err)
{
	while (low < high) {
		struct log_record rec;
		uint64_t middle = low + (high - low) / 2;
		int e = record_at(r, middle, &rec, err);

		if (e < 0)
			return e;
		if (key_of(&rec, key) > value)
			high = middle;
		else
			low = middle + 1;
	}
	*ret = low;
	return 0;
}

struct scratch {
	struct log_block block;
	uint64_t window_from, window_to;
	char window[WINDOW_BYTES];
};

/*
 * Reads n bytes at an offset of the log for the record of that number. With more records of the
 * block within reach, these come along.
 */
static int fetch(const struct log_reader *r, struct scratch *s, uint64_t number, char *buf,
		 size_t n, uint64_t offset, struct error *err)
{
	if (offset < s->window_from || offset + n > s->window_to) {
		const struct log_block *b = &s->block;
		uint64_t end = log_record_log_end(&b->records[b->count - 1]);

		if (n >= WINDOW_PIECE_BYTES || number - b->first + 1 == b->count ||
		    end - offset > WINDOW_BYTES)
			return log_reader_bytes(r, buf, n, offset, err);
		int e = log_reader_bytes(r, s->window, (size_t)(end - offset), offset, err);
		if (e < 0)
			return e;
		s->window_from = offset;
		s->window_to = end;
	}
	memcpy(buf, s->window + (offset - s->window_from), n);
	return 0;
}

ssize_t log_view_pread(const struct log_reader *r, uint64_t records, enum log_stream stream,
		       char *buf, size_t len, uint64_t offset, struct error *err)
{
	AUTO_FREE struct scratch *s = malloc(sizeof(*s));
	const enum key key = stream == LOG_STDOUT ? KEY_OUT_END : KEY_ERR_END;
	uint64_t number;
	size_t done = 0, passed = 0;
	int e;

	if (!s)
		return error_oom(err);
	s->block.count = 0;
	s->block.first = 0;
	s->window_from = s->window_to = 0;
	/* The first record that ends behind the offset is the one that has it. */
	e = find(r, key, offset, 0, records, &number, err);
	while (e == 0 && done < len && number < records) {
		const struct log_record *rec;
		uint64_t at = offset + done, start;

		e = log_block_get(r, &s->block, number, &rec, err);
		if (e < 0)
			break;
		if (rec->stream != stream) {
			number++;
			/* The other stream for a whole page: go straight to where it is our turn.
			 */
			if (++passed >= LOG_BLOCK_RECORDS) {
				e = find(r, key, at, number, records, &number, err);
				passed = 0;
			}
			continue;
		}
		passed = 0;
		start = stream == LOG_STDOUT ? rec->out_offset : rec->err_offset;
		if (at < start || at >= key_of(rec, key)) {
			e = damaged(number, err);
			break;
		}
		size_t n = (size_t)(key_of(rec, key) - at);
		if (n > len - done)
			n = len - done;
		e = fetch(r, s, number, buf + done, n, rec->log_offset + (at - start), err);
		if (e < 0)
			break;
		done += n;
		number++;
	}
	/* The last record promised these bytes. */
	if (done == 0 && e == 0 && len > 0)
		e = damaged(records - 1, err);
	return done > 0 || e == 0 ? (ssize_t)done : e;
}

int log_reader_attempt(struct log_reader *r, unsigned int attempt, uint64_t *ret_from,
		       uint64_t *ret_to, struct error *err)
{
	struct log_block block = {.count = 0};
	struct log_position from = {0}, to = {0};
	uint64_t first = 0, behind = 0;
	int e = log_reader_look(r, err);

	if (e == 0 && attempt == 0)
		e = error_set(err, EINVAL, "attempts count from 1");
	if (e == 0)
		e = find(r, KEY_ATTEMPT, attempt - 1, 0, r->records, &first, err);
	if (e == 0)
		e = find(r, KEY_ATTEMPT, attempt, first, r->records, &behind, err);
	if (e == 0)
		e = log_block_position(r, &block, first, &from, err);
	if (e == 0)
		e = log_block_position(r, &block, behind, &to, err);
	if (e == 0 && to.log < from.log)
		e = damaged(behind, err);
	if (e < 0)
		return e;
	*ret_from = from.log;
	*ret_to = to.log;
	return 0;
}
