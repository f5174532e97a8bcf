#include "drivers/shim/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/owner.h"

/* The length of the body of a type, -1 for an unknown type. */
static ssize_t body_size(uint32_t type)
{
	switch ((enum shim_message_type)type) {
	case SHIM_HELLO:
		return sizeof(struct shim_hello);
	case SHIM_STARTED:
		return sizeof(struct shim_started);
	case SHIM_FAILED:
		return sizeof(struct shim_failure);
	case SHIM_EXITED:
		return sizeof(struct shim_exit);
	case SHIM_SIGNAL:
		return sizeof(struct shim_signal_request);
	case SHIM_SIGNALLED:
		return sizeof(struct shim_signal_reply);
	case SHIM_REAPED:
		return sizeof(struct shim_reply);
	case SHIM_RUN_OUTPUT:
		return sizeof(struct shim_run_output);
	case SHIM_RUN_EXITED:
		return sizeof(struct shim_run_exit);
	case SHIM_LAUNCH:
	case SHIM_CLAIMED:
	case SHIM_IDLE:
	case SHIM_REAP:
	case SHIM_RUN:
	case SHIM_RUN_RECORD:
	case SHIM_PING:
	case SHIM_PONG:
		return 0;
	}
	return -1;
}

void shim_message_init(struct shim_message *m, enum shim_message_type type, uint64_t serial,
		       uint32_t attempt)
{
	memset(m, 0, sizeof(*m));
	m->header.type = type;
	m->header.protocol = SHIM_PROTOCOL;
	m->header.serial = serial;
	m->header.attempt = attempt;
}

/* Room for one descriptor, aligned as a control message must be. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int shim_message_send(int socket, const struct shim_message *m, int fd)
{
	union control control;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)m,
			    .iov_len = sizeof(m->header) + (size_t)body_size(m->header.type)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}

	ssize_t n;
	do
		n = sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int shim_message_recv(int socket, struct shim_message *ret, int *ret_fd)
{
	struct shim_message m;
	union control control;
	struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	AUTO_CLOSE int fd = -1;
	ssize_t n;

	memset(&m, 0, sizeof(m));
	do
		n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int))) {
			fd = close_fd(fd);
			memcpy(&fd, CMSG_DATA(c), sizeof(int));
		}
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || (size_t)n < sizeof(m.header) ||
	    m.header.protocol != SHIM_PROTOCOL)
		return -EPROTO;
	ssize_t body = body_size(m.header.type);
	if (body < 0 || (size_t)n != sizeof(m.header) + (size_t)body)
		return -EPROTO;
	if (m.header.type == SHIM_FAILED)
		m.body.failure.path[SHIM_PATH_MAX - 1] = '\0';

	*ret = m;
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return 1;
}

int shim_peer_check(int socket)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	return peer.uid == 0 || peer.uid == geteuid() ? 0 : -EPERM;
}
