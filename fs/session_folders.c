#include "fs/session_folders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/dispatch.h"
#include "core/fault.h"
#include "core/owner.h"
#include "core/store/store.h"
#include "drivers/shim/log_reader.h"
#include "drivers/shim/log_writer.h"
#include "drivers/shim/session_dir.h"
#include "fs/context.h"

/*
 * Folders that could not be removed, or that an earlier hub left, are tried again every so many ticks,
 * for the first time soon after the start; so many at a time, and a tick later when there are more.
 */
#define FORGET_TICKS 60
#define FORGET_BATCH 64

/* --- folders of forgotten sessions ---------------------------------------------------------- */

struct removal {
	struct store_op op; /* first */
	uv_work_t work;
	struct session_folders *folders;
	uint32_t serial;
	int result;
};

static void remove_folder(uv_work_t *work)
{
	struct removal *r = work->data;

	(void)fault_point("removal.begin");
	r->result = shim_session_remove(r->folders->sessions_fd, r->serial);
}

static int apply_redeem(struct store_tx *tx, struct store_op *op, struct error *err)
{
	return session_redeem(tx, ((struct removal *)op)->serial, err);
}

static void redeemed(struct store_op *op, int result, const struct error *err)
{
	(void)result; /* what stays is removed at the next start */
	(void)err;
	free(op);
}

static void folder_removed(uv_work_t *work, int status)
{
	struct removal *r = work->data;

	(void)fault_point("removal.done");
	r->folders->n_removals--;
	if (status < 0 || r->result < 0) {
		hub_log("the folder of forgotten session %u cannot be removed: %s", r->serial,
			strerror(-r->result));
		free(r);
		return;
	}
	if (!r->folders->hub->store) { /* the hub is ending: redeemed at the next start */
		free(r);
		return;
	}
	r->op.apply = apply_redeem;
	r->op.done = redeemed;
	store_submit(r->folders->hub->store, &r->op);
}

void session_folders_forget(struct session_folders *f, uint32_t serial)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return; /* removed at the next start */
	r->folders = f;
	r->serial = serial;
	r->work.data = r;
	f->n_removals++;
	if (uv_queue_work(&f->hub->loop, &r->work, remove_folder, folder_removed) < 0) {
		f->n_removals--;
		free(r);
	}
}

static void forget_doomed(void *user, int64_t serial)
{
	struct session_folders *f = user;

	f->forget_after = serial;
	session_folders_forget(f, (uint32_t)serial);
}

void session_folders_tick(struct session_folders *f)
{
	if (f->forget_in > 0) {
		f->forget_in--;
		return;
	}
	if (f->n_removals > 0)
		return;
	if (session_list_doomed(store_reader(f->hub->store), f->forget_after, FORGET_BATCH, forget_doomed, f,
				NULL) == FORGET_BATCH)
		return;
	f->forget_after = 0;
	f->forget_in = FORGET_TICKS;
}

/* --- logs of lost sessions ------------------------------------------------------------------ */

struct mending {
	uv_work_t work;
	struct session_folders *folders;
	uint32_t serial;
	uint64_t quota_bytes;
	int result;
	uint64_t log_bytes; /* of the workload that are left */
};

static void mend_log(uv_work_t *work)
{
	struct mending *m = work->data;
	AUTO_CLOSE int dir = session_dir_open(m->folders->sessions_fd, m->serial);

	AUTO_LOG_READER struct log_reader *reader = NULL;
	struct log_sizes sizes;

	m->result = dir < 0 ? dir
			    : log_writer_repair(dir, m->quota_bytes, "the supervisor of this session was killed");
	if (dir >= 0 && log_reader_open(dir, &reader, NULL) == 0 &&
	    log_reader_sizes(reader, &sizes, NULL) == 0)
		m->log_bytes = sizes.stdout_bytes + sizes.stderr_bytes;
}

static void log_mended(uv_work_t *work, int status)
{
	struct mending *m = work->data;

	if (status < 0 || (m->result < 0 && m->result != -ENOENT))
		hub_log("the log of lost session %u cannot be made whole: %s", m->serial,
			strerror(-m->result));
	if (m->folders->hub->store) /* else the hub is ending, and the next one finds it lost again */
		dispatch_mended(m->folders->hub->dispatch, m->serial, m->log_bytes);
	free(m);
}

void session_folders_mend(struct session_folders *f, uint32_t serial, uint64_t log_quota_bytes)
{
	struct mending *m = calloc(1, sizeof(*m));

	if (m) {
		*m = (struct mending){.folders = f, .serial = serial, .quota_bytes = log_quota_bytes};
		m->work.data = m;
	}
	if (!m || uv_queue_work(&f->hub->loop, &m->work, mend_log, log_mended) < 0) {
		free(m);
		dispatch_mended(f->hub->dispatch, serial, 0);
	}
}
