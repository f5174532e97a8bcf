/*
 * What the files of the log reader share: log_reader.c opens and looks, log_view.c reads bytes
 * through the index, log_lines.c renders.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_READER_PRIVATE_H
#define CLOOP_DRIVERS_SHIM_LOG_READER_PRIVATE_H

#include "drivers/shim/log_format.h"
#include "drivers/shim/log_reader.h"

struct log_reader {
	int dir_fd;
	int log_fd; /* -1: not there yet */
	int index_fd;
	int tail_fd; /* only when it was used */
	bool complete;
	uint64_t index_bytes; /* of the index, when it was last read */
	/* As of the last record. */
	uint64_t records;
	uint64_t log_end;
	uint64_t out_end;
	uint64_t err_end;
	int64_t time_ns;
	uint16_t attempt;
	bool ended;
};

/* Records that are read at once: a page. */
#define LOG_BLOCK_RECORDS 85

/* A run of records: each is valid and follows on the one before. Where one does not, it ends. */
struct log_block {
	uint64_t first;
	size_t count;
	struct log_record records[LOG_BLOCK_RECORDS];
};

/* Looks at log and index. */
int log_reader_look(struct log_reader *r, struct error *err);

/*
 * Record `number` (less than r->records), from the block when it has it. Returns 0, or -EIO when
 * it is damaged. The pointer is good until the next call.
 */
int log_block_get(const struct log_reader *r, struct log_block *block, uint64_t number,
		  const struct log_record **ret, struct error *err);

/*
 * The positions before record `number`, or at the end. Returns 0, -EIO.
 */
struct log_position {
	uint64_t log;
	uint64_t out;
	uint64_t err;
};
int log_block_position(const struct log_reader *r, struct log_block *block, uint64_t number,
		       struct log_position *ret, struct error *err);

/* Reads n bytes of the log file, all of them. */
int log_reader_bytes(const struct log_reader *r, void *buf, size_t n, uint64_t offset,
		     struct error *err);

/* stdout or stderr, as far as the first `records` records have it; they have len bytes from there.
 */
ssize_t log_view_pread(const struct log_reader *r, uint64_t records, enum log_stream stream,
		       char *buf, size_t len, uint64_t offset, struct error *err);

/* log.tail; the header may be had by itself. *ret is all zero when there is none. */
int log_tail_look(struct log_reader *r, struct log_tail_header *ret, struct error *err);
ssize_t log_tail_pread(struct log_reader *r, char *buf, size_t len, uint64_t offset,
		       struct error *err);

#endif
