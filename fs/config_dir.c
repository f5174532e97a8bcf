#include "fs/config_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fleet.h"
#include "core/owner.h"
#include "core/store/store.h"
#include "core/strlist.h"
#include "fs/config_internal.h"
#include "fs/context.h"
#include "fs/settings.h"

/*
 * An editor makes several changes of one, and a shell truncates before it writes: a look waits until
 * it has been quiet for a moment, but not for ever.
 */
#define QUIET_MS 100
#define QUIET_MAX_MS 1000

/* What inotify cannot see is found so late; without any watch, in the short time. */
#define LOOK_SECONDS 60
#define LOOK_SECONDS_BLIND 2

/* One reading of notices; what is in them does not matter. */
#define NOTICES_BYTES 16384

static void on_quiet(uv_timer_t *timer);

static void look_soon(struct config_dir *cd)
{
	int64_t now = clock_boot_ns();

	if (cd->looking || cd->n_ops > 0) {
		cd->again = true;
		return;
	}
	if (cd->noticed_ns == 0)
		cd->noticed_ns = now;
	int64_t waited_ms = (now - cd->noticed_ns) / CLOCK_NS_PER_MS;
	if (waited_ms < QUIET_MAX_MS)
		(void)uv_timer_start(&cd->timer, on_quiet, QUIET_MS, 0);
}

static void on_notices(uv_poll_t *poll, int status, int events)
{
	struct config_dir *cd = poll->data;
	char notices[NOTICES_BYTES];
	bool any = false;

	(void)status;
	(void)events;
	while (read(cd->inotify_fd, notices, sizeof(notices)) > 0)
		any = true;
	if (any)
		look_soon(cd);
}

/* A directory that was replaced leaves the watch of the old one behind. */
static void keep_watch(const struct config_dir *cd, int *watch, int now)
{
	if (*watch >= 0 && *watch != now)
		(void)inotify_rm_watch(cd->inotify_fd, *watch);
	*watch = now;
}

static void take_snapshot(struct config_dir *cd)
{
	keep_watch(cd, &cd->watch_top, cd->snapshot.watch_top);
	keep_watch(cd, &cd->watch_executors, cd->snapshot.watch_executors);
	settings_scanned(cd->hub, &cd->snapshot);
	cd->n_ops++; /* until everything is under way */
	config_executors_reconcile(cd);
	config_snapshot_clear(&cd->snapshot);
	config_dir_op_done(cd, false);
}

void config_dir_op_done(struct config_dir *cd, bool failed)
{
	/* Not at once: what failed (a full disk) would most likely fail again. */
	if (failed)
		cd->seconds = LOOK_SECONDS - LOOK_SECONDS_BLIND;
	if (--cd->n_ops > 0 || !cd->again)
		return;
	cd->again = false;
	look_soon(cd);
}

static void scan(uv_work_t *work)
{
	struct config_dir *cd = work->data;

	config_scan(cd->hub->options->config_dir, fleet_drivers(cd->hub->fleet), cd->inotify_fd, false,
		    &cd->snapshot);
}

static void scanned(uv_work_t *work, int status)
{
	struct config_dir *cd = work->data;

	cd->looking = false;
	if (status < 0 || !cd->hub->store) { /* the hub is ending */
		config_snapshot_clear(&cd->snapshot);
		return;
	}
	take_snapshot(cd);
}

static void look(struct config_dir *cd)
{
	cd->noticed_ns = 0;
	cd->seconds = 0;
	cd->looking = true;
	if (uv_queue_work(&cd->hub->loop, &cd->work, scan, scanned) < 0)
		cd->looking = false;
}

static void on_quiet(uv_timer_t *timer)
{
	struct config_dir *cd = timer->data;

	if (cd->looking || cd->n_ops > 0)
		cd->again = true;
	else
		look(cd);
}

void config_dir_look(struct hub *hub)
{
	look_soon(hub->config_dir);
}

void config_dir_tick(struct hub *hub)
{
	struct config_dir *cd = hub->config_dir;
	bool blind = cd->watch_top < 0;

	if (++cd->seconds >= (blind ? LOOK_SECONDS_BLIND : LOOK_SECONDS) && !cd->looking &&
	    cd->n_ops == 0 && cd->noticed_ns == 0)
		look(cd);
}

void config_dir_inflight(struct hub *hub, int64_t executor_serial)
{
	const struct executor *e = fleet_get(hub->fleet, executor_serial);

	if (!hub->config_dir || !e || e->record.source != EXECUTOR_SOURCE_FILE || e->inflight > 0 ||
	    e->removing)
		return;
	if (e->leaving)
		config_executor_leaves(hub->config_dir, executor_serial);
	else if (e->record.config_error[0])
		config_dir_look(hub); /* another kind, perhaps, which had to wait */
}

static int watch_begin(struct config_dir *cd, struct error *err)
{
	struct hub *hub = cd->hub;

	int r = uv_timer_init(&hub->loop, &cd->timer);
	cd->timer.data = cd->work.data = cd->poll.data = cd;
	cd->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (cd->inotify_fd < 0)
		hub_log("changes in %s are noticed late: inotify cannot be had: %s",
			hub->options->config_dir, strerror(errno));
	else if (r == 0)
		r = uv_poll_init(&hub->loop, &cd->poll, cd->inotify_fd);
	if (r == 0 && cd->inotify_fd >= 0)
		r = uv_poll_start(&cd->poll, UV_READABLE, on_notices);
	return r < 0 ? error_set(err, -r, "cannot watch the configuration directory: %s", uv_strerror(r))
		     : 0;
}

int config_dir_new(struct hub *hub, struct error *err)
{
	struct config_dir *cd = calloc(1, sizeof(*cd));

	if (!cd)
		return error_oom(err);
	cd->hub = hub;
	cd->inotify_fd = cd->watch_top = cd->watch_executors = -1;
	hub->config_dir = cd;
	int r = watch_begin(cd, err);
	if (r < 0)
		return r;
	scan(&cd->work);
	take_snapshot(cd);
	store_flush(hub->store);
	return 0;
}

struct config_dir *config_dir_free(struct config_dir *cd)
{
	if (!cd)
		return NULL;
	config_snapshot_clear(&cd->snapshot);
	(void)strlist_free(cd->complaints, cd->n_complaints);
	(void)close_fd(cd->inotify_fd);
	free(cd);
	return NULL;
}
