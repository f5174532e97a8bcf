#include "drivers/shim/log_format.h"

#include <string.h>

#define INDEX_MAGIC UINT64_C(0x31786469706f6c63) /* "clopidx1" in memory */
#define TAIL_MAGIC UINT64_C(0x316c6174706f6c63)  /* "cloptal1" in memory */
#define INDEX_VERSION 1

/* Records that are read at once when going back: less than a page on the stack. */
#define BACK_BLOCK 64

/*
 * Tells torn and misplaced data from whole data; no defence against forgery, which is why nothing
 * that passes is trusted to be in range. Zeros never pass.
 */
static uint64_t mix(const void *data, size_t len, uint64_t salt)
{
	const unsigned char *p = data;
	uint64_t h = salt ^ UINT64_C(0x9ae16a3b2f90404f);

	for (size_t i = 0; i + sizeof(uint64_t) <= len; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, p + i, sizeof(word));
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static uint64_t record_check(const struct log_record *rec, uint64_t number)
{
	return mix(rec, offsetof(struct log_record, check), number + 1);
}

void log_record_seal(struct log_record *rec, uint64_t number)
{
	rec->check = record_check(rec, number);
}

bool log_record_valid(const struct log_record *rec, uint64_t number, uint64_t log_bytes)
{
	return rec->check == record_check(rec, number) && rec->len_bytes >= 1 &&
	       rec->len_bytes <= LOG_RECORD_MAX_BYTES && rec->attempt >= 1 &&
	       rec->stream >= LOG_STDOUT && rec->stream <= LOG_MARKER && rec->time_ns >= 0 &&
	       rec->log_offset <= log_bytes && rec->len_bytes <= log_bytes - rec->log_offset &&
	       rec->out_offset <= rec->log_offset &&
	       rec->err_offset <= rec->log_offset - rec->out_offset;
}

void log_index_header_seal(struct log_index_header *header)
{
	header->magic = INDEX_MAGIC;
	header->version = INDEX_VERSION;
	header->check = mix(header, offsetof(struct log_index_header, check), 0);
}

bool log_index_header_valid(const struct log_index_header *header)
{
	return header->magic == INDEX_MAGIC && header->version == INDEX_VERSION &&
	       header->attempt >= 1 && header->stream <= LOG_MARKER &&
	       header->check == mix(header, offsetof(struct log_index_header, check), 0);
}

void log_tail_header_seal(struct log_tail_header *header)
{
	header->magic = TAIL_MAGIC;
	header->check = mix(header, offsetof(struct log_tail_header, check), 0);
}

bool log_tail_header_valid(const struct log_tail_header *header)
{
	/* Counts stay far below the end of their type, so that sums of a few never wrap. */
	const uint64_t max = UINT64_C(1) << 60;

	return header->magic == TAIL_MAGIC &&
	       header->check == mix(header, offsetof(struct log_tail_header, check), 0) &&
	       header->capacity_bytes >= LOG_TAIL_MIN_BYTES &&
	       header->capacity_bytes <= LOG_TAIL_MAX_BYTES && header->written <= max &&
	       header->first <= header->written &&
	       header->written - header->first <= header->capacity_bytes &&
	       header->pending_bytes <= max && header->lost_bytes <= max &&
	       header->marker_bytes <=
		       header->written + header->pending_bytes + header->lost_bytes &&
	       header->time_ns >= 0 && header->attempt <= UINT16_MAX;
}

uint64_t log_record_log_end(const struct log_record *rec)
{
	return rec->log_offset + rec->len_bytes;
}

uint64_t log_record_out_end(const struct log_record *rec)
{
	return rec->out_offset + (rec->stream == LOG_STDOUT ? rec->len_bytes : 0);
}

uint64_t log_record_err_end(const struct log_record *rec)
{
	return rec->err_offset + (rec->stream == LOG_STDERR ? rec->len_bytes : 0);
}

uint64_t log_tail_bytes(const struct log_tail_header *header)
{
	return header->written - header->first;
}

uint64_t log_tail_dropped(const struct log_tail_header *header)
{
	return header->first + header->pending_bytes + header->lost_bytes;
}

uint64_t log_tail_output(const struct log_tail_header *header)
{
	return header->written + header->pending_bytes + header->lost_bytes - header->marker_bytes;
}

uint64_t log_tail_capacity(uint64_t quota_bytes)
{
	uint64_t share = quota_bytes / LOG_TAIL_SHARE;

	if (share < LOG_TAIL_MIN_BYTES)
		return LOG_TAIL_MIN_BYTES;
	return share > LOG_TAIL_MAX_BYTES ? LOG_TAIL_MAX_BYTES : share;
}

int log_index_last(int index_fd, uint64_t index_bytes, uint64_t log_bytes, uint64_t max_back,
		   struct log_record *ret, uint64_t *ret_count)
{
	struct log_record block[BACK_BLOCK];
	uint64_t count = index_bytes / sizeof(struct log_record), back = 0;

	count = count > 0 ? count - 1 : 0; /* the header */
	while (count > 0) {
		uint64_t n = count < BACK_BLOCK ? count : BACK_BLOCK;
		int error = 0;

		/* The common case is that the very last record is right. */
		if (back == 0)
			n = 1;
		if (log_pread_all(index_fd, block, n * sizeof(block[0]),
				  LOG_RECORD_OFFSET(count - n), &error) < n * sizeof(block[0]))
			return error ? -error : -EUCLEAN;
		for (; n > 0; n--, count--, back++) {
			if (log_record_valid(&block[n - 1], count - 1, log_bytes)) {
				*ret = block[n - 1];
				*ret_count = count;
				return 0;
			}
			if (back >= max_back)
				return -EUCLEAN;
		}
	}
	*ret_count = 0;
	return 0;
}

size_t log_pread_all(int fd, void *buf, size_t n, uint64_t offset, int *ret_error)
{
	char *p = buf;
	size_t done = 0;

	*ret_error = 0;
	if (offset > INT64_MAX - n)
		return 0;
	while (done < n) {
		ssize_t r = pread(fd, p + done, n - done, (off_t)(offset + done));

		if (r == 0)
			break;
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			*ret_error = errno;
			break;
		}
		done += (size_t)r;
	}
	return done;
}

size_t log_pwrite_all(int fd, const void *buf, size_t n, uint64_t offset, int *ret_error)
{
	const char *p = buf;
	size_t done = 0;

	*ret_error = 0;
	while (done < n) {
		ssize_t r = pwrite(fd, p + done, n - done, (off_t)(offset + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			*ret_error = r < 0 ? errno : EIO;
			break;
		}
		done += (size_t)r;
	}
	return done;
}
