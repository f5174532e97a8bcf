/*
 * Handle records: the reference's HandleRecord and HandleStore. Enough to find a dispatched
 * workload again after a restart of the hub, and nothing more.
 *
 * Drivers write one row when they dispatch, drop it when the workload is over, and read their own
 * rows back. No row holds a spec or a secret: `secrets` are the bindings (lease ids, names, paths).
 */
#ifndef CLOOP_CORE_HANDLE_ROW_H
#define CLOOP_CORE_HANDLE_ROW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/owner.h"

struct store_tx;

struct handle_row {
	char *handle_id;   /* the key: "<session>.<attempt>" */
	char *executor_id; /* a driver adopts only its own rows */
	char *driver;      /* the kind, for rows whose executor is gone */
	char *external_id; /* what the runtime calls it; only the driver knows its form */
	char *project_path;
	int64_t task_id;
	pid_t pid; /* 0 where it means nothing */
	char *image;
	int64_t started_at_ns; /* the dispatch, by the hub's clock */
	int64_t deadline_ns;   /* absolute, so that an outage does not lengthen it; 0: none */
	char *meta;            /* JSON object of texts; "" when there is none */
	/*
	 * JSON array of the lease bindings. "[]" says that it had none, "" that nobody wrote down
	 * which it had (secrets_recorded is false), and then it must be taken to hold every lease.
	 */
	char *secrets;
};

/* Frees the texts and zeroes the struct. */
void handle_row_clear(struct handle_row *h);
#define AUTO_HANDLE_ROW CLEANUP(handle_row_clear)

struct handle_row_list {
	struct handle_row *rows;
	size_t n;
};
void handle_row_list_clear(struct handle_row_list *list);
#define AUTO_HANDLE_ROW_LIST CLEANUP(handle_row_list_clear)

/*
 * The reference's HandleRecord.Validate: a row without handle, executor and external id (white
 * space does not count) could be seen but never attached to. -EINVAL with the field.
 */
int handle_row_validate(const struct handle_row *h, struct error *err);

/* Validates, then inserts or replaces the row of that handle. */
int handle_row_put(struct store_tx *tx, const struct handle_row *h, struct error *err);

/* The rows of one executor, or all with "", oldest first. */
int handle_row_list(struct store_tx *tx, const char *executor_id, struct handle_row_list *ret,
		       struct error *err);

/* Succeeds also when there is no such row: two ends of one workload may both report it. */
int handle_row_delete(struct store_tx *tx, const char *handle_id, struct error *err);

#endif
