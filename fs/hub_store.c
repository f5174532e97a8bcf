#include "fs/hub_store.h"

#include <errno.h>
#include <stdlib.h>

#include "core/capabilities.h"
#include "core/clock.h"
#include "core/executor_record.h"
#include "core/fleet.h"
#include "core/store/event.h"
#include "core/store/journal.h"
#include "core/store/store.h"
#include "fs/area.h"
#include "fs/context.h"

/* What only happens once a mount, before anybody reads. */
struct first_op {
	struct store_op op;
	uint64_t mount_id;
	uint64_t *unanswered; /* requests of an earlier hub */
	size_t n_unanswered;
	bool new_mount;
	int result;
	struct error err;
};

static int seed_local(struct store_tx *tx, struct error *err)
{
	static char name[] = "local", kind[] = KIND_LOCALPROCESS, empty[] = "",
		    config[] = "{\"kind\":\"" KIND_LOCALPROCESS "\"}";
	struct fleet_change change = {.kind = FLEET_DEFAULT, .name = name, .reason = empty,
					 .at_ns = clock_now_ns()};
	const struct executor_record row = {
		.serial = 1,
		.name = name,
		.kind = kind,
		.config = config,
		.config_error = empty,
		.source = EXECUTOR_SOURCE_BUILTIN,
		.health = {.state = empty, .reason = empty, .state_changed_at_ns = change.at_ns},
		.created_at_ns = change.at_ns,
		.changed_at_ns = change.at_ns,
	};

	int r = executor_record_seed(tx, &row, err);
	if (r <= 0)
		return r;
	change.serial = row.serial;
	r = fleet_change_apply(tx, &change, err);
	executor_record_clear(&change.after);
	free(change.default_id);
	return r;
}

static int apply_first(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct first_op *f = (const struct first_op *)op;
	int r = seed_local(tx, err);

	if (r >= 0)
		r = journal_purge(tx, f->mount_id, err);
	if (r >= 0)
		r = journal_keep(tx, f->mount_id, f->unanswered, f->n_unanswered, err);
	if (r >= 0 && f->new_mount)
		while ((r = event_prune(tx, EVENT_LOG_BYTES_MAX, err)) > 0)
			;
	return r;
}

static void first_done(struct store_op *op, int result, const struct error *err)
{
	struct first_op *f = (struct first_op *)op;

	f->result = result;
	if (result < 0)
		f->err = *err;
}

int hub_store_begin(struct hub *hub, void (*wake)(void *user), void *user, struct error *err)
{
	const struct area_header *h = area_header(hub->area);
	const struct store_options options = {.wake = wake, .user = user};
	AUTO_BUF struct buf path = BUF_INIT(4096);
	struct first_op first = {.op = {.apply = apply_first, .done = first_done},
				 .mount_id = h->mount_id,
				 .new_mount = h->hub_epoch == 1};

	buf_printf(&path, "%s/cloop.db", hub->options->state_dir);
	if (path.failed)
		return error_set(err, ENAMETOOLONG, "the path of the state directory is too long");
	int r = store_open(path.data, &options, &hub->store, err);
	if (r < 0)
		return r;
	ssize_t n = area_requests(hub->area, &first.unanswered);
	if (n < 0)
		return error_oom(err);
	first.n_unanswered = (size_t)n;
	store_submit(hub->store, &first.op);
	store_flush(hub->store);
	free(first.unanswered);
	if (first.result < 0) {
		*err = first.err;
		return first.result;
	}
	return 0;
}
