#include "fs/keeper_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/owner.h"
#include "core/text.h"

#define OLD_NAME KEEPER_LOG_NAME ".1"

/* Room for a sentence of core/error.h with its paths. */
#define LINE_MAX_BYTES 1280

static void write_line(int fd, bool stamped, const char *text)
{
	char line[LINE_MAX_BYTES], when[CLOCK_RFC3339_MAX + 1] = "";

	if (stamped) {
		clock_format(clock_now_ns(), when);
		memcpy(when + strlen(when), " ", 2);
	}
	int n = snprintf(line, sizeof(line) - 1, "%scloopd: %s", when, text);
	if (n < 0)
		return;
	if ((size_t)n >= sizeof(line) - 1)
		text_ellipsis(line, sizeof(line) - 1);
	text_one_line(line);
	size_t len = strlen(line);
	line[len++] = '\n';
	/* One write a line, so that lines of several processes do not mix. */
	if (write(fd, line, len) < 0)
		errno = 0;
}

void keeper_log_line(int fd, bool stamped, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= 0)
		write_line(fd, stamped, text);
}

void keeper_log_error(const struct error *err)
{
	char text[LINE_MAX_BYTES];

	(void)error_sentence(err, text, sizeof(text));
	write_line(STDERR_FILENO, false, text);
}

int keeper_log_open(int state_fd, int *ret_fd, struct error *err)
{
	int fd = openat(state_fd, KEEPER_LOG_NAME,
			O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0)
		return error_set(err, errno, "cannot open %s in the state directory: %s",
				 KEEPER_LOG_NAME, strerror(errno));
	*ret_fd = fd;
	return 0;
}

void keeper_log_rotate(int state_fd, int log_fd)
{
	struct stat st;
	off_t from = 0;

	if (fstat(log_fd, &st) < 0 || st.st_size <= KEEPER_LOG_MAX_BYTES)
		return;
	/* First, so that a full disk has room for the copy. */
	(void)unlinkat(state_fd, OLD_NAME, 0);
	AUTO_CLOSE int old = openat(state_fd, OLD_NAME,
				    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	while (old >= 0 && from < st.st_size)
		if (sendfile(old, log_fd, &from, (size_t)(st.st_size - from)) <= 0)
			break;
	bool kept = old >= 0 && from >= st.st_size;
	if (ftruncate(log_fd, 0) == 0 && !kept)
		keeper_log_line(log_fd, true, "the log before this line could not be kept in %s",
				OLD_NAME);
}

bool keeper_log_is_journal(const char *journal_stream)
{
	uintmax_t dev, ino;
	struct stat st;

	return journal_stream && sscanf(journal_stream, "%ju:%ju", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}
