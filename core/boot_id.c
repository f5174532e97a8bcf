#include "core/boot_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"

#define UUID_CHARS 36

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int boot_id_parse(const char *text, uint8_t ret[static BOOT_ID_BYTES])
{
	uint8_t id[BOOT_ID_BYTES];
	size_t at = 0, len = strcspn(text, "\n");

	if (len != UUID_CHARS || (text[len] == '\n' && text[len + 1] != '\0'))
		return -EINVAL;
	for (size_t i = 0; i < BOOT_ID_BYTES; i++) {
		/* The groups are 8, 4, 4, 4 and 12 digits. */
		if ((i == 4 || i == 6 || i == 8 || i == 10) && text[at++] != '-')
			return -EINVAL;
		int high = hex_value(text[at]), low = hex_value(text[at + 1]);
		if (high < 0 || low < 0)
			return -EINVAL;
		id[i] = (uint8_t)(high * 16 + low);
		at += 2;
	}
	memcpy(ret, id, sizeof(id));
	return 0;
}

int boot_id_read(uint8_t ret[static BOOT_ID_BYTES])
{
#ifdef CLOOP_TEST_HOOKS
	const char *injected = getenv("CLOOP_BOOT_ID");

	if (injected)
		return boot_id_parse(injected, ret);
#endif
	AUTO_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[UUID_CHARS + 2];

	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return boot_id_parse(text, ret);
}
