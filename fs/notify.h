/*
 * Telling the service manager, by sd_notify(3)'s protocol: one datagram of NAME=VALUE lines to the
 * socket that NOTIFY_SOCKET names.
 */
#ifndef CLOOP_FS_NOTIFY_H
#define CLOOP_FS_NOTIFY_H

#include <sys/socket.h>
#include <sys/un.h>

/* A manager that does not read for so long goes without. */
#define NOTIFY_TIMEOUT_MS 1000

struct notify {
	struct sockaddr_un address;
	socklen_t len; /* 0: nobody wants to know */
};

/*
 * Takes the value of NOTIFY_SOCKET (NULL: unset): an absolute path, or an abstract name that begins
 * with '@'. Anything else is ignored.
 */
struct notify notify_init(const char *socket_name);

/* Sends the lines. Failures are ignored, as sd_notify's callers should. */
void notify_send(const struct notify *n, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
