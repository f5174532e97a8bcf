/* Handle records and where they are kept. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/handle_record.h"
#include "tests/conformance/calls.h"

static json_t *validate_call(json_t *input)
{
	struct handle_record r = {.handle_id = (char *)get_text(input, "handle_id"),
				  .executor_id = (char *)get_text(input, "executor_id"),
				  .driver = (char *)get_text(input, "driver"),
				  .external_id = (char *)get_text(input, "external_id")};
	struct error err = {0};

	return verdict_to_json(handle_record_validate(&r, &err), &err);
}

/* [handle, executor, started] */
static struct handle_record read_row(json_t *row)
{
	return (struct handle_record){
		.handle_id = (char *)json_string_value(json_array_get(row, 0)),
		.executor_id = (char *)json_string_value(json_array_get(row, 1)),
		.external_id = (char *)"external",
		.started_at = json_integer_value(json_array_get(row, 2))};
}

/* Puts, then deletes, then lists: whatever the row has of these. */
static json_t *store_call(json_t *input)
{
	AUTO_MEMORY_HANDLE_STORE struct handle_store *store = handle_store_new_memory();
	AUTO_JSON json_t *answer = json_object(), *ids = json_array();
	struct handle_record *rows = NULL;
	json_t *row;
	size_t i, n = 0;
	int r = 0;

	if (!store || !answer || !ids)
		return NULL;
	json_array_foreach(json_object_get(input, "puts"), i, row)
	{
		struct handle_record record = read_row(row);

		r = store->put(store, &record, NULL) < 0 ? -EINVAL : r;
	}
	if (json_object_get(input, "delete"))
		r = store->remove(store, get_text(input, "delete"), NULL) < 0 ? -EINVAL : r;
	if (store->list(store, get_text(input, "list"), &rows, &n, NULL) < 0)
		return NULL;
	for (i = 0; i < n; i++)
		json_array_append_new(ids, json_string(rows[i].handle_id));
	if (json_put_bool(answer, "ok", r == 0) < 0 ||
	    json_put_new(answer, "ids", take_ptr(ids)) < 0 ||
	    (n > 0 && json_put_string(answer, "executor_of_first", rows[0].executor_id) < 0) ||
	    json_put_int(answer, "len", (int64_t)handle_store_memory_len(store)) < 0)
		json_object_clear(answer);
	handle_records_free(rows, n);
	return take_ptr(answer);
}

static int failing_put(struct handle_store *store, const struct handle_record *r, struct error *err)
{
	(void)store;
	(void)r;
	return error_set(err, EIO, "the store fails");
}

static int failing_list(struct handle_store *store, const char *executor_id,
			struct handle_record **ret, size_t *ret_n, struct error *err)
{
	(void)store;
	(void)executor_id;
	(void)ret;
	(void)ret_n;
	return error_set(err, EIO, "the store fails");
}

static int failing_remove(struct handle_store *store, const char *handle_id, struct error *err)
{
	(void)store;
	(void)handle_id;
	return error_set(err, EIO, "the store fails");
}

static struct handle_store *read_store(json_t *input, struct handle_store *failing)
{
	*failing = (struct handle_store){failing_put, failing_list, failing_remove};
	return strcmp(get_text(input, "store"), "failing") == 0 ? failing : NULL;
}

static json_t *record_call(json_t *input)
{
	struct handle_record r = {
		.handle_id = (char *)"h", .executor_id = (char *)"e", .external_id = (char *)"x"};
	struct handle_store failing;

	/* The helper has no way to pass a failure on. */
	handle_store_record(read_store(input, &failing), &r, NULL);
	return json_pack("{s:b}", "propagates", 0);
}

static json_t *forget_call(json_t *input)
{
	struct handle_store failing;

	handle_store_forget(read_store(input, &failing), "h", NULL);
	return json_pack("{s:b}", "propagates", 0);
}

static json_t *load_call(json_t *input)
{
	struct handle_store failing;
	struct handle_record *rows = NULL;
	size_t n = 0;

	handle_store_load(read_store(input, &failing), "e", &rows, &n, NULL);
	handle_records_free(rows, n);
	return json_pack("{s:I, s:b}", "rows", (json_int_t)n, "propagates", 0);
}

/* A record of a workload with such an environment: there is no field that could hold it. */
static json_t *row_call(json_t *input)
{
	struct handle_record r = {.handle_id = (char *)"h",
				  .executor_id = (char *)"e",
				  .driver = (char *)KIND_CONTAINER,
				  .external_id = (char *)"x",
				  .secrets_recorded = true};

	(void)input;
	AUTO_JSON json_t *row = handle_record_to_json(&r);
	AUTO_FREE char *text = row ? json_text(row) : NULL;
	return json_pack("{s:s}", "row", text);
}

const struct call handle_calls[] = {
	{"HandleRecord", row_call},
	{"HandleRecord/Validate", validate_call},
	{"HandleRecord/PutHandle", store_call},
	{"HandleRecord/ListHandles", store_call},
	{"HandleRecord/DeleteHandle", store_call},
	{"HandleRecord/RecordHandle", record_call},
	{"HandleRecord/ForgetHandle", forget_call},
	{"HandleRecord/LoadHandles", load_call},
	{NULL, NULL},
};
