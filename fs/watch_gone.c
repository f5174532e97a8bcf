/*
 * Directories that were removed while something in them was open. The kernel keeps the name of a file
 * that was closed, and with it the directory, though nobody can reach either any more; and as long as
 * it has the directory, it does not tell its watchers that it is gone. So it is asked to forget the
 * names in it.
 *
 * Asking takes the lock of the directory: that is for a thread of its own, which reads nothing but
 * tables. A thread that waits for this lock cannot be killed, nor can its process: whoever holds the
 * lock must not need this hub any more, or a hub that is killed meanwhile never ends, and no other
 * one takes its place. So it is asked when the reply to the RMDIR was written. From then on the
 * kernel knows that the directory is dead, and looks nothing up in it under that lock.
 */
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/owner.h"
#include "fs/context.h"
#include "fs/watch_internal.h"

/* Directories that wait while others are worked on. Beyond, the kernel forgets when it likes. */
#define WAITING_MAX 4096

struct watch_gone {
	uv_work_t work;
	uv_timer_t soon; /* the reply is written when the loop has turned */
	int fuse_fd;
	bool busy;
	struct node *waiting, *dirs; /* dirs: what the thread has */
	size_t n_waiting, n_dirs;
};

static void forget_name(int fuse_fd, struct node dir, const char *name)
{
	struct fuse_notify_inval_entry_out arg = {.parent = node_id(dir),
						  .namelen = (uint32_t)strlen(name)};
	struct fuse_out_header out = {.error = FUSE_NOTIFY_INVAL_ENTRY};
	const struct iovec iov[] = {{.iov_base = &out, .iov_len = sizeof(out)},
				    {.iov_base = &arg, .iov_len = sizeof(arg)},
				    {.iov_base = (char *)(uintptr_t)name, .iov_len = arg.namelen + 1}};

	for (size_t i = 0; i < ARRAY_SIZE(iov); i++)
		out.len += (uint32_t)iov[i].iov_len;
	/* ENOENT is usual: it knows no such name. */
	ssize_t n = writev(fuse_fd, iov, ARRAY_SIZE(iov));
	(void)n;
}

static void forget(uv_work_t *work)
{
	const struct watch_gone *g = work->data;

	for (size_t i = 0; i < g->n_dirs; i++) {
		const struct node_dir *dir = node_dir(g->dirs[i].kind);

		for (size_t row = 0; row < dir->n_files; row++)
			forget_name(g->fuse_fd, g->dirs[i], dir->files[row].name);
	}
}

static void begin(struct watch_gone *g, uv_loop_t *loop);

static void forgotten(uv_work_t *work, int status)
{
	struct watch_gone *g = work->data;
	uv_loop_t *loop = work->loop;

	(void)status;
	g->busy = false;
	begin(g, loop);
}

static void begin(struct watch_gone *g, uv_loop_t *loop)
{
	if (g->busy || g->n_waiting == 0)
		return;
	free(g->dirs);
	g->dirs = g->waiting;
	g->n_dirs = g->n_waiting;
	g->waiting = NULL;
	g->n_waiting = 0;
	g->work.data = g;
	g->busy = uv_queue_work(loop, &g->work, forget, forgotten) == 0;
}

static void on_soon(uv_timer_t *timer)
{
	begin(timer->data, timer->loop);
}

void watch_gone_add(struct watch *w, struct node dir)
{
	struct watch_gone *g = w->gone;

	if (g->n_waiting == WAITING_MAX)
		return;
	if (!g->waiting)
		g->waiting = calloc(WAITING_MAX, sizeof(*g->waiting));
	if (!g->waiting)
		return;
	g->waiting[g->n_waiting++] = dir;
	(void)uv_timer_start(&g->soon, on_soon, 0, 0);
}

struct watch_gone *watch_gone_new(struct hub *hub)
{
	struct watch_gone *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->fuse_fd = hub->options->fuse_fd;
	(void)uv_timer_init(&hub->loop, &g->soon);
	g->soon.data = g;
	return g;
}

struct watch_gone *watch_gone_free(struct watch_gone *g)
{
	if (!g)
		return NULL;
	free(g->waiting);
	free(g->dirs);
	free(g);
	return NULL;
}
