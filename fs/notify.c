#include "fs/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "core/owner.h"

#define MESSAGE_MAX 512

struct notify notify_init(const char *socket_name)
{
	struct notify n = {.address.sun_family = AF_UNIX};
	size_t len = socket_name ? strlen(socket_name) : 0;

	if (len < 2 || len >= sizeof(n.address.sun_path) ||
	    (socket_name[0] != '/' && socket_name[0] != '@'))
		return n;
	memcpy(n.address.sun_path, socket_name, len);
	if (socket_name[0] == '@')
		n.address.sun_path[0] = '\0';
	n.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return n;
}

void notify_send(const struct notify *n, const char *fmt, ...)
{
	const struct timeval timeout = {.tv_sec = NOTIFY_TIMEOUT_MS / 1000,
					.tv_usec = NOTIFY_TIMEOUT_MS % 1000 * 1000};
	char message[MESSAGE_MAX];
	va_list ap;

	if (n->len == 0)
		return;
	va_start(ap, fmt);
	int len = vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (len < 0 || (size_t)len >= sizeof(message) || fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	(void)sendto(fd, message, (size_t)len, MSG_NOSIGNAL, (const struct sockaddr *)&n->address,
		     n->len);
}
