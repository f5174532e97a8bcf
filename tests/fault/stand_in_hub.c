/*
 * A hub for the keeper's tests: it keeps the contract of fs/hub.h and nothing more, in one loop
 * without a FUSE library, and misbehaves on demand.
 *
 * The tree has three files: `hello` (the text ANSWER), `slow` (the same, after a moment, so that
 * there are requests in flight), `wait` (blocks until <state-dir>/release exists, or the end).
 *
 * <state-dir>/behave holds a word that each hub reads when it starts:
 *	crash	exits at once			hang	never says READY
 *	poison	dies of the first LOOKUP	deaf	ignores KEEPER_STOP
 *	refuse	says so				nudge	makes the nudger read `wait`
 * <state-dir>/hubs gets a line "pid ANSWER nudger-pid" from each that starts,
 * <state-dir>/ready from each that said READY, <state-dir>/nudgers the pid of each nudger that the
 * keeper tells of.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/area.h"
#include "fs/child.h"
#include "fs/hub.h"
#include "fs/nudger.h"

#ifndef ANSWER
#define ANSWER "one"
#endif
#ifndef MAX_WRITE
#define MAX_WRITE AREA_MAX_WRITE
#endif

#define SLOW_MS 15
#define TURN_MS 5
#define GOODBYE_MS 300
#define REPLY_MAX 512
#define TEXT ANSWER "\n"

enum { NODE_HELLO = 2, NODE_SLOW, NODE_WAIT };

static const struct {
	uint64_t node;
	const char *name;
} names[] = {{NODE_HELLO, "hello"}, {NODE_SLOW, "slow"}, {NODE_WAIT, "wait"}};

struct stand_in {
	const struct hub_options *o;
	struct area *area;
	int state_fd;
	char behave[32];
	bool stopping;
	int64_t exit_at;
};

static void record(int dir_fd, const char *name, const char *line)
{
	AUTO_CLOSE int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		abort();
}

static void say(const struct stand_in *s, uint32_t type, const char *text)
{
	struct keeper_message m = {.type = type};

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	if (send(s->o->keeper_fd, &m, sizeof(m), MSG_NOSIGNAL) < 0)
		exit(4);
}

/* --- INIT ----------------------------------------------------------------------------------- */

static size_t build_init_reply(const struct fuse_in_header *in, char text[static AREA_INIT_MAX])
{
	const struct fuse_out_header header = {.len = sizeof(header) + sizeof(struct fuse_init_out),
					       .unique = in->unique};
	const struct fuse_init_out body = {.major = FUSE_KERNEL_VERSION,
					   .minor = FUSE_KERNEL_MINOR_VERSION,
					   .max_background = 64,
					   .congestion_threshold = 48,
					   .max_write = MAX_WRITE};

	memcpy(text, &header, sizeof(header));
	memcpy(text + sizeof(header), &body, sizeof(body));
	return header.len;
}

static void answer_init(struct stand_in *s)
{
	struct area_header *h = area_header(s->area);

	if (h->init_len == 0) {
		const struct fuse_in_header *in = area_staging(s->area);

		/* An earlier hub may have read it and died. */
		if (in->len == 0 || in->opcode != FUSE_INIT) {
			struct pollfd p = {.fd = s->o->fuse_fd, .events = POLLIN};

			area_staging_clear(s->area);
			while (read(s->o->fuse_fd, area_staging(s->area), AREA_MAX_REQUEST) < 0)
				(void)poll(&p, 1, 1000);
		}
		memcpy(h->init, in, in->len);
		h->init_reply_len = (uint32_t)build_init_reply(in, h->init_reply);
		__atomic_store_n(&h->init_len, in->len, __ATOMIC_RELEASE);
		area_staging_clear(s->area);
	}
	/* Again each time: a reply that the kernel has already is refused without harm. */
	if (write(s->o->fuse_fd, h->init_reply, h->init_reply_len) < 0 && errno != ENOENT)
		exit(5);
}

int hub_check_init(const struct hub_options *options)
{
	char text[AREA_INIT_MAX];
	struct area_header h;
	struct error err;

	if (area_peek(options->area_fd, &h, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.reason);
		return 1;
	}
	size_t len = build_init_reply((const struct fuse_in_header *)h.init, text);
	if (len == h.init_reply_len && memcmp(text, h.init_reply, len) == 0)
		return 0;
	(void)fprintf(stderr, "another INIT\n");
	return 1;
}

/* --- requests ------------------------------------------------------------------------------- */

static void reply(struct stand_in *s, const struct fuse_in_header *in, int error, const void *data,
		  size_t len)
{
	const struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + len), .error = error, .unique = in->unique};
	char message[sizeof(out) + REPLY_MAX];

	/*
	 * Memory that was written just now: when a page of a reply has yet to be fetched while
	 * SIGKILL is on its way, the kernel gives up the copy, and the caller gets EIO.
	 */
	memcpy(message, &out, sizeof(out));
	if (len > 0)
		memcpy(message + sizeof(out), data, len);
	if (write(s->o->fuse_fd, message, out.len) < 0 && errno != ENOENT && errno != EINVAL)
		exit(6);
	area_request_done(s->area, in->unique);
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){.ino = node,
				  .mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0444,
				  .nlink = 1,
				  .size = node == FUSE_ROOT_ID ? 0 : sizeof(TEXT) - 1};
}

static void lookup(struct stand_in *s, const struct fuse_in_header *in)
{
	if (strcmp(s->behave, "poison") == 0)
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp((const char *)(in + 1), names[i].name) == 0) {
			const struct fuse_entry_out out = {.nodeid = names[i].node,
							   .attr = attr_of(names[i].node)};

			reply(s, in, 0, &out, sizeof(out));
			return;
		}
	reply(s, in, -ENOENT, NULL, 0);
}

static void open_file(struct stand_in *s, const struct fuse_in_header *in)
{
	struct area_handle *h = area_handle_of_open(s->area, in->unique);
	struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};

	if (!h)
		h = area_handle_new(s->area, in->nodeid, 0);
	if (!h) {
		reply(s, in, -ENFILE, NULL, 0);
		return;
	}
	area_handle_publish(s->area, h, in->unique);
	out.fh = h->fh;
	reply(s, in, 0, &out, sizeof(out));
}

static void read_dir(struct stand_in *s, const struct fuse_in_header *in)
{
	const struct fuse_read_in *r = (const struct fuse_read_in *)(in + 1);
	char out[REPLY_MAX] = {0};
	size_t at = 0;

	for (uint64_t i = r->offset; i < ARRAY_SIZE(names); i++) {
		struct fuse_dirent d = {.ino = names[i].node,
					.off = i + 1,
					.namelen = (uint32_t)strlen(names[i].name),
					.type = DT_REG};

		memcpy(out + at, &d, sizeof(d));
		memcpy(out + at + FUSE_NAME_OFFSET, names[i].name, d.namelen);
		at += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d.namelen);
	}
	reply(s, in, 0, out, at);
}

static void read_file(struct stand_in *s, const struct fuse_in_header *in, int64_t age_ms)
{
	const struct fuse_read_in *r = (const struct fuse_read_in *)(in + 1);
	size_t len = r->offset == 0 ? sizeof(TEXT) - 1 : 0;

	if (in->nodeid == NODE_SLOW && age_ms < SLOW_MS)
		return;
	if (in->nodeid == NODE_WAIT && faccessat(s->state_fd, "release", F_OK, 0) < 0) {
		if (!s->stopping)
			return;
		len = 0;
	}
	reply(s, in, 0, TEXT, len);
}

/* Answers, or leaves it in the area for a later turn. */
static void handle(struct stand_in *s, const struct fuse_in_header *in, int64_t age_ms)
{
	const struct fuse_attr_out attr = {.attr = attr_of(in->nodeid)};
	const struct fuse_statfs_out statfs = {.st = {.bsize = 4096, .namelen = 255}};

	switch (in->opcode) {
	case FUSE_LOOKUP:
		lookup(s, in);
		break;
	case FUSE_GETATTR:
		reply(s, in, 0, &attr, sizeof(attr));
		break;
	case FUSE_STATFS:
		reply(s, in, 0, &statfs, sizeof(statfs));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		open_file(s, in);
		break;
	case FUSE_READ:
		read_file(s, in, age_ms);
		break;
	case FUSE_READDIR:
		read_dir(s, in);
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR: {
		struct area_handle *h =
			area_handle_get(s->area, ((const struct fuse_release_in *)(in + 1))->fh);

		if (h)
			area_handle_drop(s->area, h);
		reply(s, in, 0, NULL, 0);
		break;
	}
	case FUSE_FLUSH:
		reply(s, in, 0, NULL, 0);
		break;
	default:
		reply(s, in, -ENOSYS, NULL, 0);
	}
}

static void handle_unanswered(struct stand_in *s, int64_t age_ms)
{
	AUTO_FREE uint64_t *uniques = NULL;
	ssize_t n = area_requests(s->area, &uniques);

	for (ssize_t i = 0; i < n; i++) {
		uint32_t len;
		const struct fuse_in_header *in = area_request_get(s->area, uniques[i], &len);

		if (in)
			handle(s, in, age_ms);
	}
}

static void read_requests(struct stand_in *s)
{
	const struct fuse_in_header *in = area_staging(s->area);

	for (;;) {
		area_staging_clear(s->area);
		ssize_t n = read(s->o->fuse_fd, area_staging(s->area), AREA_MAX_REQUEST);

		if (n < 0 && errno == ENODEV)
			exit(HUB_EXIT_UNMOUNTED);
		if (n < 0)
			return;
		if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET ||
		    in->opcode == FUSE_INTERRUPT)
			continue;
		handle(s, area_request_keep(s->area, in->unique, (uint32_t)n), 0);
	}
}

/* --- the keeper ----------------------------------------------------------------------------- */

static void hear_keeper(struct stand_in *s)
{
	struct keeper_message m;
	char line[32];
	ssize_t n = recv(s->o->keeper_fd, &m, sizeof(m), MSG_DONTWAIT);

	if (n == 0)
		exit(7);
	if (n != sizeof(m))
		return;
	if (m.type == KEEPER_STOP && strcmp(s->behave, "deaf") != 0) {
		s->stopping = true;
		s->exit_at = child_now_ms() + GOODBYE_MS;
	} else if (m.type == KEEPER_NUDGER) {
		(void)snprintf(line, sizeof(line), "%d\n", m.value);
		record(s->state_fd, "nudgers", line);
	}
}

static void serve(struct stand_in *s)
{
	int64_t looked_at = child_now_ms();

	while (s->exit_at == 0 || child_now_ms() < s->exit_at) {
		struct pollfd p[] = {{.fd = s->o->fuse_fd, .events = POLLIN},
				     {.fd = s->o->keeper_fd, .events = POLLIN}};

		(void)poll(p, ARRAY_SIZE(p), TURN_MS);
		if (p[0].revents)
			read_requests(s);
		if (p[1].revents)
			hear_keeper(s);
		/* Every request that is found twice is old enough for `slow`. */
		if (s->stopping || child_now_ms() - looked_at >= SLOW_MS) {
			handle_unanswered(s, SLOW_MS);
			looked_at = child_now_ms();
		}
	}
}

static void read_behaviour(struct stand_in *s)
{
	AUTO_CLOSE int fd = openat(s->state_fd, "behave", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, s->behave, sizeof(s->behave) - 1);

	s->behave[n > 0 ? n : 0] = '\0';
	s->behave[strcspn(s->behave, "\n")] = '\0';
}

int hub_run(const struct hub_options *options)
{
	struct stand_in s = {.o = options};
	char line[96];

	s.state_fd = open(options->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s.state_fd < 0)
		return 4;
	read_behaviour(&s);
	(void)snprintf(line, sizeof(line), "%d " ANSWER " %d\n", getpid(), options->nudger_pid);
	record(s.state_fd, "hubs", line);
	if (strcmp(s.behave, "crash") == 0)
		return 9;
	if (strcmp(s.behave, "refuse") == 0) {
		say(&s, KEEPER_HUB_REFUSED, "cloop.db: is damaged; restore it from a backup");
		return HUB_EXIT_REFUSED;
	}
	if (area_attach(options->area_fd, &s.area, NULL) < 0)
		return 4;
	answer_init(&s);
	if (strcmp(s.behave, "hang") == 0)
		for (;;)
			(void)pause();
	say(&s, KEEPER_HUB_READY, "");
	record(s.state_fd, "ready", line);
	if (strcmp(s.behave, "nudge") == 0 && send(options->nudger_fd, "wait", 4, 0) < 0)
		return 4;
	handle_unanswered(&s, 0);
	serve(&s);
	area_free(s.area);
	(void)close(s.state_fd);
	return HUB_EXIT_STOPPED;
}

/* Reads the file of the mount that a datagram names, and so perhaps never comes back. */
int nudger_main(const char *mountpoint, int socket_fd)
{
	char name[64], byte;

	for (;;) {
		ssize_t n = recv(socket_fd, name, sizeof(name) - 1, 0);

		if (n < 0)
			return 1;
		AUTO_CLOSE int dir = open(mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);
		name[n] = '\0';
		AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, &byte, 1) < 0)
			return 1;
	}
}
