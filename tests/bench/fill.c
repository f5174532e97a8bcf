/* fill DATABASE N: makes a store with N finished sessions, as the hub would have written them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/session.h"
#include "core/store/store.h"
#include "tests/bench/bench.h"

/* Rows of one operation. */
#define ROWS_OF_OP 500

struct fill_op {
	struct store_op op; /* first */
	int64_t first, last;
};

static char empty[] = "";

static int insert_one(struct store_tx *tx, int64_t serial, struct error *err)
{
	static char spec[] =
		"{\"argv\":[\"/usr/bin/make\",\"-j8\",\"check\"],\"work_dir\":\"/srv/project\","
		"\"env\":[\"LANG=C.UTF-8\"],\"timeout_seconds\":3600}";
	char name[32], handle[64], token[] = "1", boot[] = "00000000000000000000000000000000",
				   executor[] = "local";

	(void)snprintf(name, sizeof(name), "s-%016llx", (unsigned long long)serial);
	for (char *p = name + 2; *p; p++)
		*p = (char)(*p >= '0' && *p <= '9' ? *p - '0' + 'g' : *p);
	(void)snprintf(handle, sizeof(handle), "%s.1", name);
	const int64_t at = INT64_C(1700000000) * CLOCK_NS_PER_S + serial * CLOCK_NS_PER_MS;
	const struct session row = {
		.serial = serial,
		.name = name,
		.executor = executor,
		.executor_serial = 1,
		.state = SESSION_PENDING,
		.boot_id = boot,
		.handle_id = handle,
		.claim_token = token,
		.attempt = 1,
		.created_at_ns = at,
		.log_quota_bytes = 1 << 20,
		.origin_mount = 1,
		.origin_unique = (uint64_t)serial * 2,
		.project_path = empty,
		.error = empty,
		.requirements = empty,
		.spec = spec,
		.groups = empty,
	};
	const struct session_finished finished = {
		.state = SESSION_EXITED,
		.cause = SESSION_CAUSE_EXIT,
		.pid = 4711,
		.started_at_ns = at,
		.finished_at_ns = at + CLOCK_NS_PER_MS,
		.error = empty,
		.answered = true,
	};
	int r = session_insert(tx, &row, err);
	return r < 0 ? r : session_set_finished(tx, serial, token, &finished, err);
}

static int apply(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct fill_op *f = (const struct fill_op *)op;
	int r = 0;

	for (int64_t serial = f->first; r >= 0 && serial <= f->last; serial++)
		r = insert_one(tx, serial, err);
	return r;
}

static void done(struct store_op *op, int result, const struct error *err)
{
	free(op);
	if (result < 0)
		bench_die("%s", err->reason);
}

int main(int argc, char **argv)
{
	struct store_options options = {0};
	struct store *s = NULL;
	struct error err;

	if (argc != 3)
		bench_die("usage: %s DATABASE N", argv[0]);
	int64_t n = strtoll(argv[2], NULL, 10);
	if (store_open(argv[1], &options, &s, &err) < 0)
		bench_die("%s", err.reason);
	for (int64_t first = 1; first <= n; first += ROWS_OF_OP) {
		struct fill_op *f = calloc(1, sizeof(*f));

		if (!f)
			bench_die("no memory");
		*f = (struct fill_op){.op = {.apply = apply, .done = done},
				      .first = first,
				      .last = first + ROWS_OF_OP - 1 < n ? first + ROWS_OF_OP - 1
									 : n};
		store_submit(s, &f->op);
		store_dispatch(s);
	}
	store_flush(s);
	(void)store_free(s);
	return 0;
}
