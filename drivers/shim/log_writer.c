#include "drivers/shim/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"

int log_writer_open(struct log_writer *w, int dirfd, uint64_t quota_bytes, bool append)
{
	int fd = openat(dirfd, "log",
			O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC |
				(append ? 0 : O_EXCL),
			0600);

	if (fd < 0)
		return -errno;
	*w = (struct log_writer){.log_fd = fd, .quota_bytes = quota_bytes};
	return append ? log_writer_marker(w, "attempt") : 0;
}

ssize_t log_writer_pump(struct log_writer *w, enum log_stream stream, int pipe_fd, size_t max)
{
	char chunk[65536];
	size_t moved = 0;

	(void)stream;
	while (moved < max) {
		ssize_t n = read(pipe_fd, chunk,
				 max - moved < sizeof(chunk) ? max - moved : sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return moved > 0 ? (ssize_t)moved : -errno;
		if (n == 0)
			break;
		moved += (size_t)n;
		w->log_bytes += (uint64_t)n;
		if (write(w->log_fd, chunk, (size_t)n) != n)
			w->dropped_bytes += (uint64_t)n;
	}
	return (ssize_t)moved;
}

int log_writer_marker(struct log_writer *w, const char *text)
{
	static const char prefix[] = "[cloop] ";

	if (write(w->log_fd, prefix, sizeof(prefix) - 1) < 0 ||
	    write(w->log_fd, text, strlen(text)) < 0 || write(w->log_fd, "\n", 1) < 0)
		return -errno;
	return 0;
}

int log_writer_sync(struct log_writer *w)
{
	return fdatasync(w->log_fd) < 0 ? -errno : 0;
}

void log_writer_close(struct log_writer *w)
{
	w->log_fd = close_fd(w->log_fd);
}
