#include "fs/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "core/clock.h"
#include "core/owner.h"
#include "drivers/shim/log_format.h"
#include "drivers/shim/log_reader.h"
#include "drivers/shim/session_dir.h"
#include "fs/context.h"
#include "fs/follow.h"
#include "fs/watch.h"

/* Logs that are watched for growth, by hash; a power of two. */
#define WATCH_BUCKETS 256

struct log_watch {
	struct log_watch *next;
	uint32_t serial;
	int wd;
	int tail_wd; /* of what comes after the log has ended; -1: not watched */
	bool announced;
	size_t interests;
	bool grown; /* to be woken */
};

struct open_log {
	uint32_t serial; /* 0: empty */
	uint64_t used;
	struct log_reader *reader;
};

struct logs {
	struct hub *hub;
	int sessions_fd;
	int inotify_fd;
	uv_poll_t poll;
	struct open_log open[LOGS_OPEN_MAX];
	uint64_t clock;
	struct log_watch *watches[WATCH_BUCKETS];
};

/* --- readers -------------------------------------------------------------------------------- */

struct log_reader *logs_get(struct hub *hub, uint32_t serial, int *ret_error)
{
	struct logs *l = hub->logs;
	struct open_log *oldest = &l->open[0];

	for (size_t i = 0; i < LOGS_OPEN_MAX; i++) {
		if (l->open[i].serial == serial) {
			l->open[i].used = ++l->clock;
			return l->open[i].reader;
		}
		if (l->open[i].used < oldest->used)
			oldest = &l->open[i];
	}
	AUTO_CLOSE int dirfd = session_dir_open(l->sessions_fd, serial);
	struct log_reader *reader = NULL;
	int r = dirfd < 0 && dirfd != -ENOENT ? dirfd : log_reader_open(dirfd < 0 ? -1 : dirfd, &reader, NULL);
	if (r < 0) {
		*ret_error = r;
		return NULL;
	}
	(void)log_reader_free(oldest->reader);
	*oldest = (struct open_log){.serial = serial, .used = ++l->clock, .reader = reader};
	/* A folder that is not there yet is an empty log, but not one to remember. */
	if (dirfd < 0)
		oldest->serial = 0;
	return reader;
}

void logs_forget(struct hub *hub, uint32_t serial)
{
	for (size_t i = 0; i < LOGS_OPEN_MAX; i++)
		if (hub->logs->open[i].serial == serial) {
			hub->logs->open[i].reader = log_reader_free(hub->logs->open[i].reader);
			hub->logs->open[i] = (struct open_log){0};
		}
}

/* --- growth --------------------------------------------------------------------------------- */

static struct log_watch **watch_find(struct logs *l, uint32_t serial)
{
	struct log_watch **w = &l->watches[serial % WATCH_BUCKETS];

	while (*w && (*w)->serial != serial)
		w = &(*w)->next;
	return w;
}

static int watch_file(struct logs *l, uint32_t serial, const char *name)
{
	AUTO_CLOSE int dirfd = session_dir_open(l->sessions_fd, serial);
	char path[PATH_MAX];

	if (dirfd < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dirfd, name);
	return inotify_add_watch(l->inotify_fd, path, IN_MODIFY | IN_DONT_FOLLOW);
}

bool logs_watch(struct hub *hub, uint32_t serial)
{
	struct logs *l = hub->logs;
	struct log_watch **place = watch_find(l, serial);

	if (*place) {
		(*place)->interests++;
		return true;
	}
	/* The index: bytes of the log count once a record of them is there, which is written last. */
	int wd = watch_file(l, serial, LOG_INDEX_FILE);
	if (wd < 0)
		return false;
	struct log_watch *w = calloc(1, sizeof(*w));
	if (!w) {
		(void)inotify_rm_watch(l->inotify_fd, wd);
		return false;
	}
	*w = (struct log_watch){.serial = serial, .wd = wd, .tail_wd = -1, .interests = 1};
	*place = w;
	return true;
}

void logs_unwatch(struct hub *hub, uint32_t serial)
{
	struct logs *l = hub->logs;
	struct log_watch **place = watch_find(l, serial), *w = *place;

	if (!w || --w->interests > 0)
		return;
	(void)inotify_rm_watch(l->inotify_fd, w->wd);
	*place = w->next;
	free(w);
}

void logs_announce(struct hub *hub, uint32_t serial, bool on)
{
	struct logs *l = hub->logs;
	struct log_watch *w = *watch_find(l, serial);

	if (on == (w && w->announced))
		return;
	if (on) {
		if (!logs_watch(hub, serial))
			return;
		w = *watch_find(l, serial);
		w->announced = true;
		w->tail_wd = watch_file(l, serial, LOG_TAIL_FILE);
		return;
	}
	w->announced = false;
	if (w->tail_wd >= 0)
		(void)inotify_rm_watch(l->inotify_fd, w->tail_wd);
	w->tail_wd = -1;
	logs_unwatch(hub, serial);
}

static int64_t file_changed_ns(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return st.st_mtim.tv_sec * CLOCK_NS_PER_S + st.st_mtim.tv_nsec;
}

int64_t logs_changed_ns(struct hub *hub, uint32_t serial)
{
	AUTO_CLOSE int dirfd = session_dir_open(hub->logs->sessions_fd, serial);

	if (dirfd < 0)
		return 0;
	int64_t log_ns = file_changed_ns(dirfd, LOG_FILE), tail_ns = file_changed_ns(dirfd, LOG_TAIL_FILE);

	return log_ns > tail_ns ? log_ns : tail_ns;
}

/* Notes which sessions' logs grew: those of a descriptor, or all (wd -1: events were lost). */
static void note_growth(struct logs *l, int wd)
{
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		for (struct log_watch *w = l->watches[i]; w; w = w->next)
			if (wd < 0 || w->wd == wd || w->tail_wd == wd)
				w->grown = true;
}

/* Wakes them, each once. Waking may drop any watch, so each time the search begins anew. */
static void wake_grown(struct logs *l)
{
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		for (struct log_watch *w = l->watches[i]; w;) {
			if (!w->grown) {
				w = w->next;
				continue;
			}
			w->grown = false;
			if (w->announced)
				watch_grown(l->hub, w->serial);
			follow_wake(l->hub, NODE_LIVE_SESSION, w->serial);
			w = l->watches[i];
		}
}

static void on_inotify(uv_poll_t *poll, int status, int events)
{
	struct logs *l = poll->data;
	_Alignas(struct inotify_event) char data[4096];

	(void)status;
	(void)events;
	ssize_t n = read(l->inotify_fd, data, sizeof(data));
	for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= n;) {
		const struct inotify_event *e = (const struct inotify_event *)(data + at);

		if (e->mask & (IN_MODIFY | IN_Q_OVERFLOW))
			note_growth(l, e->mask & IN_Q_OVERFLOW ? -1 : e->wd);
		at += (ssize_t)(sizeof(*e) + e->len);
	}
	wake_grown(l);
}

int logs_new(struct hub *hub, int sessions_fd, struct logs **ret, struct error *err)
{
	struct logs *l = calloc(1, sizeof(*l));

	if (!l)
		return error_oom(err);
	l->hub = hub;
	l->sessions_fd = sessions_fd;
	l->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (l->inotify_fd < 0) {
		int r = error_set(err, errno, "cannot watch logs: %s", strerror(errno));

		free(l);
		return r;
	}
	(void)uv_poll_init(&hub->loop, &l->poll, l->inotify_fd);
	l->poll.data = l;
	(void)uv_poll_start(&l->poll, UV_READABLE, on_inotify);
	*ret = l;
	return 0;
}

struct logs *logs_free(struct logs *l)
{
	if (!l)
		return NULL;
	for (size_t i = 0; i < LOGS_OPEN_MAX; i++)
		(void)log_reader_free(l->open[i].reader);
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		while (l->watches[i]) {
			struct log_watch *w = l->watches[i];

			l->watches[i] = w->next;
			free(w);
		}
	close_fd(l->inotify_fd);
	free(l);
	return NULL;
}
