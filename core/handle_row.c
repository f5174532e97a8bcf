#include "core/handle_row.h"

#include <errno.h>
#include <string.h>

#include "core/store/query.h"
#include "core/text.h"

void handle_row_clear(struct handle_row *h)
{
	free(h->handle_id);
	free(h->executor_id);
	free(h->driver);
	free(h->external_id);
	free(h->project_path);
	free(h->image);
	free(h->meta);
	free(h->secrets);
	*h = (struct handle_row){0};
}

void handle_row_list_clear(struct handle_row_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		handle_row_clear(&list->rows[i]);
	free(list->rows);
	*list = (struct handle_row_list){0};
}

int handle_row_validate(const struct handle_row *h, struct error *err)
{
	const struct {
		const char *field;
		const char *value;
	} needed[] = {
		{"handle_id", h->handle_id},
		{"executor_id", h->executor_id},
		{"external_id", h->external_id},
	};

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *value = needed[i].value ? needed[i].value : "";

		if (text_trim(value, strlen(value)).len > 0)
			continue;
		int r = error_set(err, EINVAL, "a handle record needs one");
		error_field(err, "%s", needed[i].field);
		return r;
	}
	return 0;
}

int handle_row_put(struct store_tx *tx, const struct handle_row *h, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = handle_row_validate(h, err);

	if (r == 0)
		r = store_query_begin(&q, tx,
				      "INSERT OR REPLACE INTO handle (handle_id, executor_id, "
				      "driver, external_id, project_path, task_id, pid, image, "
				      "started_at, deadline, meta, secrets) "
				      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				      err);
	if (r < 0)
		return r;
	store_query_text(&q, h->handle_id);
	store_query_text(&q, h->executor_id);
	store_query_text(&q, h->driver);
	store_query_text(&q, h->external_id);
	store_query_text(&q, h->project_path);
	store_query_int(&q, h->task_id);
	store_query_int(&q, h->pid);
	store_query_text(&q, h->image);
	store_query_int(&q, h->started_at_ns);
	store_query_int(&q, h->deadline_ns);
	store_query_text(&q, h->meta);
	store_query_text(&q, h->secrets);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}

static int read_record(struct store_query *q, struct handle_row *ret, struct error *err)
{
	AUTO_HANDLE_ROW struct handle_row h = {
		.task_id = store_query_column_int(q, 5),
		.pid = (pid_t)store_query_column_int(q, 6),
		.started_at_ns = store_query_column_int(q, 8),
		.deadline_ns = store_query_column_int(q, 9),
	};
	const struct {
		int column;
		char **text;
	} texts[] = {
		{0, &h.handle_id},    {1, &h.executor_id}, {2, &h.driver}, {3, &h.external_id},
		{4, &h.project_path}, {7, &h.image},       {10, &h.meta},  {11, &h.secrets},
	};

	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = store_query_column_dup(q, texts[i].column, texts[i].text, err);
	if (r < 0)
		return r;
	*ret = h;
	h = (struct handle_row){0};
	return 0;
}

#define HANDLE_SELECT                                                                              \
	"SELECT handle_id, executor_id, driver, external_id, project_path, task_id, pid, image, "  \
	"started_at, deadline, meta, secrets FROM handle "

int handle_row_list(struct store_tx *tx, const char *executor_id, struct handle_row_list *ret,
		       struct error *err)
{
	static const char all[] = HANDLE_SELECT "ORDER BY started_at, handle_id";
	static const char one[] =
		HANDLE_SELECT "WHERE executor_id = ? ORDER BY started_at, handle_id";
	AUTO_HANDLE_ROW_LIST struct handle_row_list list = {0};
	AUTO_QUERY struct store_query q = {0};
	size_t cap = 0;
	int r = store_query_begin(&q, tx, executor_id[0] ? one : all, err);

	if (r < 0)
		return r;
	if (executor_id[0])
		store_query_text(&q, executor_id);
	while ((r = store_query_next(&q, err)) > 0) {
		struct handle_row *rows =
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
	list = (struct handle_row_list){0};
	return 0;
}

int handle_row_delete(struct store_tx *tx, const char *handle_id, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM handle WHERE handle_id = ?", err);

	if (r < 0)
		return r;
	store_query_text(&q, handle_id);
	r = store_query_run(&q, err);
	return r < 0 ? r : 0;
}
