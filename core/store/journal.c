#include "core/store/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "core/store/query.h"

/* Rows dropped between two looks. */
#define KEEP_BATCH 256

void journal_entry_clear(struct journal_entry *entry)
{
	free(entry->answer);
	*entry = (struct journal_entry){0};
}

int journal_insert(struct store_tx *tx, const struct journal_entry *entry, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx,
		"INSERT INTO journal (mount_id, request, op, node, errno, answer) "
		"VALUES (?, ?, ?, ?, ?, ?)",
		err);

	if (r < 0)
		return r;
	store_query_int(&q, (int64_t)entry->mount_id);
	store_query_int(&q, (int64_t)entry->unique);
	store_query_int(&q, entry->op);
	store_query_int(&q, (int64_t)entry->node);
	store_query_int(&q, entry->code);
	store_query_text(&q, entry->answer);
	r = store_query_run(&q, err);
	if (r == -EEXIST)
		return error_set(err, EEXIST,
				 "request %" PRIu64 " of this mount was answered before",
				 entry->unique);
	return r < 0 ? r : 0;
}

int journal_get(struct store_tx *tx, uint64_t mount_id, uint64_t unique, struct journal_entry *ret,
		struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT op, node, errno, answer FROM journal "
				  "WHERE mount_id = ? AND request = ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, (int64_t)mount_id);
	store_query_int(&q, (int64_t)unique);
	r = store_query_next(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "request %" PRIu64 " was never committed", unique);
	struct journal_entry entry = {
		.mount_id = mount_id,
		.unique = unique,
		.op = (uint32_t)store_query_column_int(&q, 0),
		.node = (uint64_t)store_query_column_int(&q, 1),
		.code = (int32_t)store_query_column_int(&q, 2),
	};
	r = store_query_column_dup(&q, 3, &entry.answer, err);
	if (r == 0)
		*ret = entry;
	return r;
}

int journal_delete(struct store_tx *tx, uint64_t mount_id, const uint64_t *uniques, size_t n,
		   struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_QUERY struct store_query q = {0};
		int r = store_query_begin(
			&q, tx, "DELETE FROM journal WHERE mount_id = ? AND request = ?", err);

		if (r < 0)
			return r;
		store_query_int(&q, (int64_t)mount_id);
		store_query_int(&q, (int64_t)uniques[i]);
		r = store_query_run(&q, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_among(uint64_t unique, const uint64_t *uniques, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((uniques[i] & INT64_MAX) == unique)
			return true;
	return false;
}

/* The rows of a mount that are not among uniques, at most max of them. */
static int list_stale(struct store_tx *tx, uint64_t mount_id, const uint64_t *uniques, size_t n,
		      uint64_t *ret, size_t max, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	size_t found = 0;
	int r = store_query_begin(&q, tx, "SELECT request FROM journal WHERE mount_id = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, (int64_t)mount_id);
	while (found < max && (r = store_query_next(&q, err)) > 0) {
		uint64_t unique = (uint64_t)store_query_column_int(&q, 0);

		if (!is_among(unique, uniques, n))
			ret[found++] = unique;
	}
	return r < 0 ? r : (int)found;
}

int journal_keep(struct store_tx *tx, uint64_t mount_id, const uint64_t *uniques, size_t n,
		 struct error *err)
{
	uint64_t stale[KEEP_BATCH];
	int dropped = 0, r;

	while ((r = list_stale(tx, mount_id, uniques, n, stale, KEEP_BATCH, err)) > 0) {
		int x = journal_delete(tx, mount_id, stale, (size_t)r, err);

		if (x < 0)
			return x;
		dropped += r;
	}
	return r < 0 ? r : dropped;
}

int journal_purge(struct store_tx *tx, uint64_t mount_id, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM journal WHERE mount_id <> ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, (int64_t)mount_id);
	return store_query_run(&q, err);
}
