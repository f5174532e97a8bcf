/*
 * The log of a session on disk: what its writer (inside the shim) and its reader (inside the hub)
 * agree on. libc only.
 *
 *   log       the bytes of both streams as they arrived, with marker lines between ("[cloop] …")
 *   index     a header, then one fixed-size record for each piece of `log`, without a hole
 *   log.tail  a header, then a ring with the last of what came after `log` had ended; there while
 *             the session runs, and later when it was used
 *
 * A record is written after its bytes, so a record never points past the log. It carries the
 * offset in the log, in stdout and in stderr, so that all three can be searched by bisection. Its
 * check covers its number too: a record that is torn, or in the wrong place, is none. Numbers
 * count from 0; the reference's LogLine.Seq is the number plus 1.
 *
 * Whole numbers are in the byte order of the machine: the files never leave it, and a magic number
 * that reads otherwise is refused like any other damage. Times are nanoseconds of real time and
 * never decrease from record to record.
 */
#ifndef CLOOP_DRIVERS_SHIM_LOG_FORMAT_H
#define CLOOP_DRIVERS_SHIM_LOG_FORMAT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define LOG_FILE "log"
#define LOG_INDEX_FILE "index"
#define LOG_TAIL_FILE "log.tail"

/* One record is one LogLine, and a chunk of output is at most 32 KiB everywhere in cloop. */
#define LOG_RECORD_MAX_BYTES 32768

/* What a session's quota may be: a page, and more than a disk. */
#define LOG_QUOTA_MIN_BYTES UINT64_C(4096)
#define LOG_QUOTA_MAX_BYTES (UINT64_C(1) << 40)

/* The ring holds a sixteenth of the quota, within these bounds. */
#define LOG_TAIL_SHARE 16
#define LOG_TAIL_MIN_BYTES UINT64_C(4096)
#define LOG_TAIL_MAX_BYTES (UINT64_C(1) << 20)

/* Where the ring begins in log.tail: behind the header's page, so that a header is never torn. */
#define LOG_TAIL_DATA_OFFSET 4096

enum log_stream {
	LOG_STDOUT = 1,
	LOG_STDERR = 2,
	LOG_MARKER = 3, /* a line of cloop's own: in the log, in neither stream */
};

/* The log's last record: a marker; nothing follows it, ever. */
#define LOG_RECORD_LAST 0x01

struct log_record {
	int64_t time_ns;
	uint64_t log_offset; /* of the first byte, in the log */
	uint64_t out_offset; /* bytes of stdout before this record */
	uint64_t err_offset; /* bytes of stderr before this record */
	uint32_t len_bytes;  /* 1 to LOG_RECORD_MAX_BYTES */
	uint16_t attempt;    /* from 1 */
	uint8_t stream;      /* enum log_stream */
	uint8_t flags;
	uint64_t check;
};

/* Precedes the records; as long as one of them. */
struct log_index_header {
	uint64_t magic;
	uint32_t version;
	uint16_t attempt; /* the latest one that opened the log */
	uint8_t stream;   /* whose bytes those behind the last record are, when the writer dies */
	uint8_t pad;
	uint64_t spare[3];
	uint64_t check;
};

/*
 * Positions count the bytes that ever went into the ring; position p is at p modulo the capacity.
 * The header is written before bytes are overwritten (first, pending) and after (written), so that
 * what is in [first, written) is right at any instant, whoever dies and whoever looks.
 */
struct log_tail_header {
	uint64_t magic;
	uint64_t capacity_bytes;
	uint64_t first;
	uint64_t written;
	uint64_t pending_bytes; /* on their way into the ring */
	uint64_t lost_bytes;    /* that could not be put into it */
	uint64_t marker_bytes;  /* of marker lines, among all of these */
	int64_t time_ns;        /* of the last byte */
	uint64_t attempt;
	uint64_t check;
};

_Static_assert(sizeof(struct log_record) == 48, "a record is 48 bytes on disk");
_Static_assert(sizeof(struct log_index_header) == sizeof(struct log_record), "header is a record");
_Static_assert(sizeof(struct log_tail_header) <= LOG_TAIL_DATA_OFFSET, "header before the ring");

/* Where record `number` is in the index. */
#define LOG_RECORD_OFFSET(number) (((uint64_t)(number) + 1) * sizeof(struct log_record))

/* Fill in magic, version and check. */
void log_record_seal(struct log_record *rec, uint64_t number);
void log_index_header_seal(struct log_index_header *header);
void log_tail_header_seal(struct log_tail_header *header);

/*
 * Whether a record is whole, is record `number`, makes sense by itself, and lies within a log of
 * log_bytes. The headers likewise.
 */
bool log_record_valid(const struct log_record *rec, uint64_t number, uint64_t log_bytes);
bool log_index_header_valid(const struct log_index_header *header);
bool log_tail_header_valid(const struct log_tail_header *header);

/* The positions in log, stdout and stderr behind a record. */
uint64_t log_record_log_end(const struct log_record *rec);
uint64_t log_record_out_end(const struct log_record *rec);
uint64_t log_record_err_end(const struct log_record *rec);

/*
 * Of the bytes that were given to the ring: those in it, those that are in neither log nor ring
 * (marker lines among them included), and how many the workload wrote.
 */
uint64_t log_tail_bytes(const struct log_tail_header *header);
uint64_t log_tail_dropped(const struct log_tail_header *header);
uint64_t log_tail_output(const struct log_tail_header *header);

/* The capacity of the ring that goes with a quota. */
uint64_t log_tail_capacity(uint64_t quota_bytes);

/*
 * Finds the last valid record of an index of index_bytes, going back from its end over at most
 * max_back records that are not valid. Fills *ret (untouched when there is none)
 * and the number of records up to and with it. Returns 0, -EUCLEAN when max_back was reached, or
 * the negative errno of the read.
 */
int log_index_last(int index_fd, uint64_t index_bytes, uint64_t log_bytes, uint64_t max_back,
		   struct log_record *ret, uint64_t *ret_count);

/*
 * Read or write all n bytes at an offset, going on after short transfers and signals. Return the
 * bytes transferred; when these are fewer, *ret_error is the positive errno, 0 for end of file.
 */
size_t log_pread_all(int fd, void *buf, size_t n, uint64_t offset, int *ret_error);
size_t log_pwrite_all(int fd, const void *buf, size_t n, uint64_t offset, int *ret_error);

#endif
