#include "core/retention.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/owner.h"
#include "core/session.h"
#include "core/store/event.h"
#include "core/store/query.h"

/* The place of a session in the order in which they ended. */
struct place {
	int64_t finished_at_ns;
	int64_t serial;
};

void retention_batch_clear(struct retention_batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->gone[i].name);
	b->n = 0;
}

/* The last one that is too many: the newest `count` come behind it. Returns 1 when there is one. */
static int find_excess(struct store_tx *tx, int64_t count, struct place *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT finished_at, serial FROM session INDEXED BY session_finished "
				  "WHERE state IN ('exited', 'failed', 'killed') "
				  "ORDER BY finished_at DESC, serial DESC LIMIT 1 OFFSET ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, count);
	r = store_query_next(&q, err);
	if (r > 0)
		*ret = (struct place){.finished_at_ns = store_query_column_int(&q, 0),
				      .serial = store_query_column_int(&q, 1)};
	return r;
}

static bool is_behind(const struct place *a, const struct place *b)
{
	if (a->finished_at_ns != b->finished_at_ns)
		return a->finished_at_ns > b->finished_at_ns;
	return a->serial > b->serial;
}

/* The oldest, up to and with `last`. */
static int collect(struct store_tx *tx, const struct place *last, struct retention_batch *b,
		   struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT serial, name FROM session INDEXED BY session_finished "
				  "WHERE state IN ('exited', 'failed', 'killed') "
				  "AND (finished_at, serial) <= (?, ?) "
				  "ORDER BY finished_at, serial LIMIT ?",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, last->finished_at_ns);
	store_query_int(&q, last->serial);
	store_query_int(&q, RETENTION_BATCH);
	while (b->n < RETENTION_BATCH && (r = store_query_next(&q, err)) > 0) {
		struct retention_gone *g = &b->gone[b->n];

		g->serial = store_query_column_int(&q, 0);
		r = store_query_column_dup(&q, 1, &g->name, err);
		if (r < 0)
			return r;
		b->n++;
	}
	return r < 0 ? r : 0;
}

static int tell(struct store_tx *tx, const struct retention_rule *rule, const char *name,
		struct error *err)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "type", "session.removed") < 0 ||
	    json_put_int(o, "uid", rule->uid) < 0 || json_put_string(o, "session", name) < 0 ||
	    json_put_string(o, "reason", "retention") < 0)
		return error_oom(err);
	AUTO_FREE char *text = json_text(o);
	return text ? event_append(tx, rule->now_ns, text, NULL, err) : error_oom(err);
}

int retention_apply(struct store_tx *tx, const struct retention_rule *rule, struct retention_batch *ret,
		    struct error *err)
{
	const struct place settled = {.finished_at_ns = rule->now_ns - RETENTION_SETTLE_NS,
				      .serial = INT64_MAX};
	CLEANUP(retention_batch_clear) struct retention_batch b = {.n = 0};
	struct place last = {.finished_at_ns = rule->now_ns - rule->age_ns, .serial = 0}, excess;

	int r = find_excess(tx, rule->count, &excess, err);
	if (r > 0 && is_behind(&excess, &last))
		last = excess;
	if (is_behind(&last, &settled))
		last = settled;
	if (r >= 0)
		r = collect(tx, &last, &b, err);
	for (size_t i = 0; i < b.n && r >= 0; i++) {
		r = session_delete(tx, b.gone[i].serial, err);
		if (r >= 0)
			r = session_doom(tx, b.gone[i].serial, err);
		if (r >= 0)
			r = tell(tx, rule, b.gone[i].name, err);
	}
	if (r < 0)
		return r;
	*ret = b;
	b.n = 0;
	return 0;
}
