#include "core/store/meta.h"

#include <errno.h>

#include "core/store/query.h"

static int begin_get(struct store_query *q, struct store_tx *tx, const char *key, struct error *err)
{
	int r = store_query_begin(q, tx, "SELECT value FROM meta WHERE key = ?", err);

	if (r < 0)
		return r;
	store_query_text(q, key);
	r = store_query_next(q, err);
	if (r == 0)
		r = error_set(err, ENOENT, "the store has no \"%s\"", key);
	return r < 0 ? r : 0;
}

int meta_get_text(struct store_tx *tx, const char *key, char **ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = begin_get(&q, tx, key, err);

	return r < 0 ? r : store_query_column_dup(&q, 0, ret, err);
}

int meta_get_int(struct store_tx *tx, const char *key, int64_t *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = begin_get(&q, tx, key, err);

	if (r == 0)
		*ret = store_query_column_int(&q, 0);
	return r;
}

static const char set_sql[] = "INSERT INTO meta (key, value) VALUES (?, ?) "
			      "ON CONFLICT (key) DO UPDATE SET value = excluded.value";

int meta_set_text(struct store_tx *tx, const char *key, const char *value, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, set_sql, err);

	if (r < 0)
		return r;
	store_query_text(&q, key);
	store_query_text(&q, value);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int meta_set_int(struct store_tx *tx, const char *key, int64_t value, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, set_sql, err);

	if (r < 0)
		return r;
	store_query_text(&q, key);
	store_query_int(&q, value);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

int meta_delete(struct store_tx *tx, const char *key, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM meta WHERE key = ?", err);

	if (r < 0)
		return r;
	store_query_text(&q, key);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}
