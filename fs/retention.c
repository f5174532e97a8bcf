#include "fs/retention.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <uv.h>

#include "core/clock.h"
#include "core/disk_floor.h"
#include "core/dispatch.h"
#include "core/retention.h"
#include "core/store/store.h"
#include "fs/context.h"
#include "fs/logs.h"
#include "fs/settings.h"

/* How often finished sessions are looked at: some milliseconds of the writer's time. */
#define LOOK_SECONDS 10

/* While there are more: between batches, and how many folders may still wait then. */
#define BATCH_DELAY_MS 100
#define FOLDERS_MAX 32

struct retention {
	struct store_op op; /* first */
	struct hub *hub;
	int sessions_fd;
	const unsigned *n_removals;
	unsigned seconds;
	bool busy, again;
	uv_timer_t timer;
	struct retention_rule rule;
	struct retention_batch batch;

	uv_work_t work; /* measuring */
	bool measuring, low;
	int64_t free_bytes; /* the pool's while measuring */
};

/* --- the disk ------------------------------------------------------------------------------- */

static int64_t measure(int fd)
{
	struct statvfs s;
	int64_t bytes;

	/* A disk that does not answer refuses nothing: a start finds out. */
	if (fstatvfs(fd, &s) < 0 || __builtin_mul_overflow(s.f_bavail, s.f_frsize, &bytes))
		return INT64_MAX;
	return bytes;
}

static void measure_work(uv_work_t *work)
{
	struct retention *r = work->data;

	r->free_bytes = measure(r->sessions_fd);
}

static void take_measure(struct retention *r)
{
	struct dispatch_limits *limits = dispatch_limits(r->hub->dispatch);
	struct error err;

	limits->disk_free_bytes = r->free_bytes;
	bool low = disk_floor_check(r->free_bytes, limits->disk_floor_bytes, &err) < 0;
	if (low && !r->low)
		hub_log("%s", err.reason);
	else if (!low && r->low)
		hub_log("the state directory has enough free space again");
	r->low = low;
}

static void measured(uv_work_t *work, int status)
{
	struct retention *r = work->data;

	r->measuring = false;
	if (status == 0 && r->hub->store) /* else the hub is ending */
		take_measure(r);
}

void retention_status(struct hub *hub, struct buf *out)
{
	const struct dispatch_limits *limits = dispatch_limits(hub->dispatch);
	struct error err;

	if (disk_floor_check(limits->disk_free_bytes, limits->disk_floor_bytes, &err) < 0)
		buf_printf(out, "warning: %s\n", err.reason);
}

/* --- finished sessions ---------------------------------------------------------------------- */

static int apply_batch(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct retention *r = (struct retention *)op;

	return retention_apply(tx, &r->rule, &r->batch, err);
}

static void on_more(uv_timer_t *timer);

static void batch_done(struct store_op *op, int result, const struct error *err)
{
	struct retention *r = (struct retention *)op;
	bool full = result >= 0 && r->batch.n == RETENTION_BATCH;

	if (result < 0)
		hub_log("finished sessions cannot be forgotten: %s", err->reason);
	for (size_t i = 0; result >= 0 && i < r->batch.n; i++) {
		uint32_t serial = (uint32_t)r->batch.gone[i].serial;

		logs_forget(r->hub, serial);
		dispatch_removed(r->hub->dispatch, serial, r->batch.gone[i].name);
	}
	retention_batch_clear(&r->batch);
	r->busy = false;
	if (full || r->again)
		(void)uv_timer_start(&r->timer, on_more, BATCH_DELAY_MS, BATCH_DELAY_MS);
	r->again = false;
}

static void forget_some(struct retention *r)
{
	const struct hub_config *settings = settings_get(r->hub);

	if (r->busy) {
		r->again = true;
		return;
	}
	r->busy = true;
	r->rule = (struct retention_rule){
		.now_ns = clock_now_ns(),
		.age_ns = settings->retention_age_ns,
		.count = settings->retention_count,
		.uid = r->hub->uid,
	};
	r->op = (struct store_op){.apply = apply_batch, .done = batch_done};
	store_submit(r->hub->store, &r->op);
}

static void on_more(uv_timer_t *timer)
{
	struct retention *r = timer->data;

	if (*r->n_removals > FOLDERS_MAX)
		return;
	(void)uv_timer_stop(timer);
	forget_some(r);
}

void retention_look(struct hub *hub)
{
	struct retention *r = hub->retention;

	r->seconds = 0;
	if (!uv_is_active((uv_handle_t *)&r->timer))
		forget_some(r);
}

void retention_tick(struct hub *hub)
{
	struct retention *r = hub->retention;

	if (!r->measuring && uv_queue_work(&hub->loop, &r->work, measure_work, measured) == 0)
		r->measuring = true;
	if (++r->seconds < LOOK_SECONDS)
		return;
	r->seconds = 0;
	if (!uv_is_active((uv_handle_t *)&r->timer))
		forget_some(r);
}

int retention_new(struct hub *hub, int sessions_fd, const unsigned *n_removals, struct error *err)
{
	struct retention *r = calloc(1, sizeof(*r));

	if (!r)
		return error_oom(err);
	r->hub = hub;
	r->sessions_fd = sessions_fd;
	r->n_removals = n_removals;
	r->timer.data = r->work.data = r;
	hub->retention = r;
	(void)uv_timer_init(&hub->loop, &r->timer);
	r->free_bytes = measure(sessions_fd);
	take_measure(r);
	return 0;
}

struct retention *retention_free(struct retention *r)
{
	if (!r)
		return NULL;
	retention_batch_clear(&r->batch);
	free(r);
	return NULL;
}
