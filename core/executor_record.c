#include "core/executor_record.h"

#include <errno.h>
#include <stdio.h>
#include <inttypes.h>

#include "core/store/meta.h"
#include "core/store/query.h"

static const char *const source_names[] = {
	[EXECUTOR_SOURCE_MKDIR] = "mkdir",
	[EXECUTOR_SOURCE_FILE] = "file",
	[EXECUTOR_SOURCE_BUILTIN] = "builtin",
};

void executor_record_clear(struct executor_record *e)
{
	free(e->name);
	free(e->kind);
	free(e->config);
	free(e->config_error);
	free(e->health.state);
	free(e->health.reason);
	*e = (struct executor_record){0};
}

void executor_record_list_clear(struct executor_record_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		executor_record_clear(&list->rows[i]);
	free(list->rows);
	*list = (struct executor_record_list){0};
}

/* In the order of bind_record() and read_record(). */
#define EXECUTOR_COLUMNS                                                                           \
	"serial, name, kind, config, config_error, source, health_state, health_reason, "          \
	"consecutive_failures, last_seen, last_probe, state_changed_at, created_at, changed_at"

static void bind_health(struct store_query *q, const struct executor_record_health *h)
{
	store_query_text(q, h->state);
	store_query_text(q, h->reason);
	store_query_int(q, h->consecutive_failures);
	store_query_int(q, h->last_seen_ns);
	store_query_int(q, h->last_probe_ns);
	store_query_int(q, h->state_changed_at_ns);
}

static void bind_record(struct store_query *q, const struct executor_record *e)
{
	store_query_int(q, e->serial);
	store_query_text(q, e->name);
	store_query_text(q, e->kind);
	store_query_text(q, e->config);
	store_query_text(q, e->config_error);
	store_query_text(q, source_names[e->source]);
	bind_health(q, &e->health);
	store_query_int(q, e->created_at_ns);
	store_query_int(q, e->changed_at_ns);
}

static int read_record(struct store_query *q, struct executor_record *ret, struct error *err)
{
	AUTO_EXECUTOR_RECORD struct executor_record e = {
		.serial = store_query_column_int(q, 0),
		.health =
			{
				.consecutive_failures = store_query_column_int(q, 8),
				.last_seen_ns = store_query_column_int(q, 9),
				.last_probe_ns = store_query_column_int(q, 10),
				.state_changed_at_ns = store_query_column_int(q, 11),
			},
		.created_at_ns = store_query_column_int(q, 12),
		.changed_at_ns = store_query_column_int(q, 13),
	};
	const struct {
		int column;
		char **text;
	} texts[] = {
		{1, &e.name},         {2, &e.kind},         {3, &e.config},
		{4, &e.config_error}, {6, &e.health.state}, {7, &e.health.reason},
	};

	size_t source = 0;
	int r = store_query_column_word(q, 5, source_names, ARRAY_SIZE(source_names), &source, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = store_query_column_dup(q, texts[i].column, texts[i].text, err);
	if (r < 0)
		return r;
	e.source = (enum executor_source)source;
	*ret = e;
	e = (struct executor_record){0};
	return 0;
}

int executor_record_last_serial(struct store_tx *tx, int64_t *ret, struct error *err)
{
	return store_last_serial(tx, "executor", ret, err);
}

int executor_record_insert(struct store_tx *tx, const struct executor_record *e, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "INSERT INTO executor (" EXECUTOR_COLUMNS ") VALUES ("
				  "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				  err);

	if (r < 0)
		return r;
	bind_record(&q, e);
	r = store_query_run(&q, err);
	if (r == -EEXIST)
		return error_set_kind(err, EEXIST, ERROR_ALREADY_REGISTERED,
				      "an executor \"%s\" is registered already", e->name);
	return r < 0 ? r : 0;
}

int executor_record_seed(struct store_tx *tx, const struct executor_record *e, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx, "INSERT OR IGNORE INTO executor_seeded (name, seeded_at) VALUES (?, ?)",
		err);

	if (r < 0)
		return r;
	store_query_text(&q, e->name);
	store_query_int(&q, e->created_at_ns);
	r = store_query_run(&q, err);
	if (r <= 0)
		return r;
	r = executor_record_insert(tx, e, err);
	return r < 0 ? r : 1;
}

static int absent(struct error *err, int64_t serial)
{
	return error_set_kind(err, ENOENT, ERROR_EXECUTOR_NOT_FOUND,
			      "there is no executor with serial %" PRId64, serial);
}

/* Binds the serial as the last parameter and runs the change. */
static int run_on(struct store_query *q, int64_t serial, struct error *err)
{
	store_query_int(q, serial);
	int r = store_query_run(q, err);

	if (r == 0)
		return absent(err, serial);
	return r < 0 ? r : 0;
}

int executor_record_set_config(struct store_tx *tx, int64_t serial, const char *kind,
			       const char *config, int64_t changed_at_ns, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "UPDATE executor SET kind = ?, config = ?, config_error = '', "
				  "changed_at = ? WHERE serial = ?",
				  err);

	if (r < 0)
		return r;
	store_query_text(&q, kind);
	store_query_text(&q, config);
	store_query_int(&q, changed_at_ns);
	return run_on(&q, serial, err);
}

int executor_record_set_config_error(struct store_tx *tx, int64_t serial, const char *config_error,
				     struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "UPDATE executor SET config_error = ? WHERE serial = ?",
				  err);

	if (r < 0)
		return r;
	store_query_text(&q, config_error);
	return run_on(&q, serial, err);
}

int executor_record_set_health(struct store_tx *tx, int64_t serial,
			       const struct executor_record_health *health, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "UPDATE executor SET health_state = ?, health_reason = ?, "
				  "consecutive_failures = ?, last_seen = ?, last_probe = ?, "
				  "state_changed_at = ? WHERE serial = ?",
				  err);

	if (r < 0)
		return r;
	bind_health(&q, health);
	return run_on(&q, serial, err);
}

#define PREFLIGHT_KEY_MAX 48

/* A report is no column: few executors have one, and it is read alone. */
static void preflight_keys(int64_t serial, char text[static PREFLIGHT_KEY_MAX],
			   char at[static PREFLIGHT_KEY_MAX])
{
	(void)snprintf(text, PREFLIGHT_KEY_MAX, "preflight.%lld", (long long)serial);
	(void)snprintf(at, PREFLIGHT_KEY_MAX, "preflight_at.%lld", (long long)serial);
}

int executor_record_delete(struct store_tx *tx, int64_t serial, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	char text[PREFLIGHT_KEY_MAX], at[PREFLIGHT_KEY_MAX];
	int r = store_query_begin(&q, tx, "DELETE FROM executor WHERE serial = ?", err);

	if (r >= 0)
		r = run_on(&q, serial, err);
	preflight_keys(serial, text, at);
	if (r >= 0)
		r = meta_delete(tx, text, err);
	return r < 0 ? r : meta_delete(tx, at, err);
}

int executor_record_set_preflight(struct store_tx *tx, int64_t serial, int64_t at_ns,
				  const char *report, struct error *err)
{
	char text[PREFLIGHT_KEY_MAX], at[PREFLIGHT_KEY_MAX];

	preflight_keys(serial, text, at);
	int r = meta_set_text(tx, text, report, err);
	return r < 0 ? r : meta_set_int(tx, at, at_ns, err);
}

int executor_record_get_preflight(struct store_tx *tx, int64_t serial, int64_t *ret_at_ns,
				  char **ret_report, struct error *err)
{
	char text[PREFLIGHT_KEY_MAX], at[PREFLIGHT_KEY_MAX];
	int64_t at_ns = 0;

	preflight_keys(serial, text, at);
	int r = meta_get_int(tx, at, &at_ns, err);
	if (r >= 0 && ret_report)
		r = meta_get_text(tx, text, ret_report, err);
	if (r >= 0 && ret_at_ns)
		*ret_at_ns = at_ns;
	return r;
}

int executor_record_get(struct store_tx *tx, int64_t serial, struct executor_record *ret,
			struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(
		&q, tx, "SELECT " EXECUTOR_COLUMNS " FROM executor WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	r = store_query_next(&q, err);
	if (r == 0)
		return absent(err, serial);
	return r < 0 ? r : read_record(&q, ret, err);
}

int executor_record_get_by_name(struct store_tx *tx, const char *name, struct executor_record *ret,
				struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " EXECUTOR_COLUMNS " FROM executor WHERE name = ?", err);

	if (r < 0)
		return r;
	store_query_text(&q, name);
	r = store_query_next(&q, err);
	if (r == 0)
		return error_set_kind(err, ENOENT, ERROR_EXECUTOR_NOT_FOUND,
				      "no executor \"%s\" is registered", name);
	return r < 0 ? r : read_record(&q, ret, err);
}

int executor_record_list(struct store_tx *tx, struct executor_record_list *ret, struct error *err)
{
	AUTO_EXECUTOR_RECORD_LIST struct executor_record_list list = {0};
	AUTO_QUERY struct store_query q = {0};
	size_t cap = 0;
	int r = store_query_begin(&q, tx, "SELECT " EXECUTOR_COLUMNS " FROM executor ORDER BY name",
				  err);

	if (r < 0)
		return r;
	while ((r = store_query_next(&q, err)) > 0) {
		struct executor_record *rows =
			store_rows_grow(list.rows, list.n, &cap, sizeof(*rows));

		if (!rows)
			return error_oom(err);
		list.rows = rows;
		r = read_record(&q, &list.rows[list.n], err);
		if (r < 0)
			return r;
		list.n++;
	}
	if (r < 0)
		return r;
	*ret = list;
	list = (struct executor_record_list){0};
	return 0;
}
