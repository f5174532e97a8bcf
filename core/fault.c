#include "core/fault.h"

#ifdef CLOOP_TEST_HOOKS

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/owner.h"

#define FAULT_PATH_MAX 512

static bool read_number(const char **p, unsigned long *ret)
{
	unsigned long v = 0;

	while (isspace((unsigned char)**p))
		(*p)++;
	if (!isdigit((unsigned char)**p))
		return false;
	for (; isdigit((unsigned char)**p); (*p)++)
		v = v * 10 + (unsigned long)(**p - '0');
	*ret = v;
	return true;
}

/* Writes v and a blank in decimal, without stdio. */
static char *put_number(char *p, unsigned long v)
{
	char digits[24];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	while (n > 0)
		*p++ = digits[--n];
	*p++ = ' ';
	return p;
}

/* Whether this pass acts, by the count file. A file that cannot be used never acts. */
static bool count_says_act(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned long first, second, skip = 0, times;
	char text[64];
	bool act = false;

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return false;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	if (n < 0)
		return false;
	text[n] = '\0';

	const char *p = text;
	if (!read_number(&p, &first))
		return false;
	times = first;
	if (read_number(&p, &second)) {
		skip = first;
		times = second;
	}
	if (skip > 0) {
		skip--;
	} else if (times > 0) {
		times--;
		act = true;
	}
	char *end = put_number(put_number(text, skip), times);
	if (pwrite(fd, text, (size_t)(end - text), 0) < 0 || ftruncate(fd, end - text) < 0)
		return false;
	return act;
}

static int perform(const char *action, size_t len)
{
	static const struct {
		const char *name;
		int error;
	} errors[] = {{"eio", EIO}, {"enospc", ENOSPC}, {"enomem", ENOMEM}, {"eagain", EAGAIN}};

	if (len == 9 && memcmp(action, "kill-both", 9) == 0) {
		(void)kill(getppid(), SIGKILL);
		(void)kill(getpid(), SIGKILL);
	}
	if (len == 4 && memcmp(action, "kill", 4) == 0)
		(void)kill(getpid(), SIGKILL);
	else if (len == 4 && memcmp(action, "stop", 4) == 0)
		(void)kill(getpid(), SIGSTOP);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (strlen(errors[i].name) == len && memcmp(action, errors[i].name, len) == 0)
			return -errors[i].error;
	return 0;
}

int fault_point(const char *name)
{
	const char *p = getenv("CLOOP_FAULT");
	size_t name_len = strlen(name);

	while (p && *p != '\0') {
		size_t len = strcspn(p, ",");
		const char *end = p + len;

		if (len > name_len && memcmp(p, name, name_len) == 0 && p[name_len] == ':') {
			const char *action = p + name_len + 1;
			const char *colon = memchr(action, ':', (size_t)(end - action));
			char path[FAULT_PATH_MAX];

			if (!colon)
				return perform(action, (size_t)(end - action));
			size_t path_len = (size_t)(end - colon - 1);
			if (path_len >= sizeof(path))
				return 0;
			memcpy(path, colon + 1, path_len);
			path[path_len] = '\0';
			if (count_says_act(path))
				return perform(action, (size_t)(colon - action));
		}
		p = *end == ',' ? end + 1 : end;
	}
	return 0;
}

#endif
