#include "drivers/shim/log_ring.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/owner.h"

static int write_header(struct log_ring *ring)
{
	int error;

	log_tail_header_seal(&ring->header);
	return log_pwrite_all(ring->fd, &ring->header, sizeof(ring->header), 0, &error) ==
			       sizeof(ring->header)
		       ? 0
		       : -error;
}

/* Allocates the whole file; where the file system cannot do that, it is a file with a hole. */
static int allocate(int fd, uint64_t capacity_bytes)
{
	off_t size = (off_t)(LOG_TAIL_DATA_OFFSET + capacity_bytes);

	while (fallocate(fd, 0, 0, size) < 0) {
		if (errno == EINTR)
			continue;
		if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
			return -errno;
		return ftruncate(fd, size) < 0 ? -errno : 0;
	}
	return 0;
}

int log_ring_create(struct log_ring *ring, int dirfd, uint64_t quota_bytes)
{
	uint64_t capacity = log_tail_capacity(quota_bytes);
	int r;

	AUTO_CLOSE int fd = openat(dirfd, LOG_TAIL_FILE,
				   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while ((r = allocate(fd, capacity)) < 0 && capacity > LOG_TAIL_MIN_BYTES)
		capacity = capacity / 4 < LOG_TAIL_MIN_BYTES ? LOG_TAIL_MIN_BYTES : capacity / 4;
	if (r == 0) {
		memset(&ring->header, 0, sizeof(ring->header));
		ring->header.capacity_bytes = capacity;
		ring->fd = fd;
		r = write_header(ring);
	}
	if (r < 0) {
		ring->fd = -1;
		(void)unlinkat(dirfd, LOG_TAIL_FILE, 0);
		return r;
	}
	(void)take_fd(&fd);
	return 0;
}

int log_ring_open(struct log_ring *ring, int dirfd)
{
	struct log_tail_header header;
	struct stat st;
	int error;

	AUTO_CLOSE int fd =
		openat(dirfd, LOG_TAIL_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EUCLEAN;
	if (log_pread_all(fd, &header, sizeof(header), 0, &error) < sizeof(header))
		return error ? -error : -EUCLEAN;
	if (!log_tail_header_valid(&header))
		return -EUCLEAN;
	/* Bytes that were on their way when the writer died are gone. */
	header.lost_bytes += header.pending_bytes;
	header.pending_bytes = 0;
	ring->header = header;
	ring->fd = take_fd(&fd);
	return 0;
}

bool log_ring_used(const struct log_ring *ring)
{
	return ring->header.written > 0 || ring->header.lost_bytes > 0;
}

static int write_ring(struct log_ring *ring, const char *data, size_t n)
{
	const struct log_tail_header *h = &ring->header;
	size_t at = (size_t)(h->written % h->capacity_bytes),
	       first = (size_t)h->capacity_bytes - at;
	int error;

	if (first > n)
		first = n;
	if (log_pwrite_all(ring->fd, data, first, LOG_TAIL_DATA_OFFSET + at, &error) < first ||
	    log_pwrite_all(ring->fd, data + first, n - first, LOG_TAIL_DATA_OFFSET, &error) <
		    n - first)
		return -error;
	return 0;
}

void log_ring_store(struct log_ring *ring, enum log_stream stream, const char *data, size_t n,
		    int64_t time_ns, uint16_t attempt)
{
	struct log_tail_header *h = &ring->header;

	if (stream == LOG_MARKER)
		h->marker_bytes += n;
	if (ring->fd < 0) {
		h->lost_bytes += n;
		return;
	}
	if (n > h->capacity_bytes) {
		size_t skip = n - (size_t)h->capacity_bytes;

		h->lost_bytes += skip;
		data += skip;
		n -= skip;
	}
	if (h->written + n > h->capacity_bytes && h->first < h->written + n - h->capacity_bytes)
		h->first = h->written + n - h->capacity_bytes;
	h->pending_bytes = n;
	h->time_ns = time_ns;
	h->attempt = attempt;
	bool stored = write_header(ring) == 0 && write_ring(ring, data, n) == 0;
	h->pending_bytes = 0;
	if (stored)
		h->written += n;
	else
		h->lost_bytes += n;
	/* When this fails, what is on disk says less than there is, and nothing that is wrong. */
	(void)write_header(ring);
}

void log_ring_close(struct log_ring *ring, int dirfd)
{
	if (ring->fd >= 0 && !log_ring_used(ring))
		(void)unlinkat(dirfd, LOG_TAIL_FILE, 0);
	ring->fd = close_fd(ring->fd);
}
