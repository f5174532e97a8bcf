#include "tests/unit/test.h"

#include <string.h>

#include "core/handle_record.h"
#include "core/json.h"

static struct handle_record row(const char *handle, const char *executor, int64_t started_at)
{
	return (struct handle_record){.handle_id = (char *)handle,
				      .executor_id = (char *)executor,
				      .external_id = (char *)"c-1",
				      .started_at = started_at};
}

static void validation(void **state)
{
	static const struct {
		const char *handle, *executor, *external, *field;
	} rows[] = {
		{"h", "e", "c", NULL},
		{"", "e", "c", "handle_id"},
		{" ", "e", "c", "handle_id"},
		{"h", NULL, "c", "executor_id"},
		{"h", "\t", "c", "executor_id"},
		{"h", "e", "", "external_id"},
		{"h", "e", "\xc2\xa0", "external_id"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct handle_record r = {.handle_id = (char *)rows[i].handle,
					  .executor_id = (char *)rows[i].executor,
					  .external_id = (char *)rows[i].external};
		struct error err = {0};

		assert_int_equal(handle_record_validate(&r, &err), rows[i].field ? -EINVAL : 0);
		if (rows[i].field)
			assert_string_equal(err.field, rows[i].field);
	}
}

static void text_round_trip(void **state)
{
	struct spec_label meta[] = {{(char *)"a", (char *)"1"}};
	char *keys[] = {(char *)"T", NULL};
	struct secret_binding b = {.lease_id = (char *)"L", .env_keys = keys, .n_env_keys = 1};
	struct handle_record r = row("h", "e", 1), back;

	(void)state;
	r.driver = (char *)"container";
	r.project_path = (char *)"/p";
	r.task_id = 7;
	r.pid = 9;
	r.image = (char *)"i@sha256:0";
	r.deadline = 2;
	r.meta = meta;
	r.n_meta = 1;
	r.secrets = &b;
	r.n_secrets = 1;
	r.secrets_recorded = true;
	AUTO_JSON json_t *v = handle_record_to_json(&r);
	AUTO_FREE char *text = json_text(v);
	assert_string_equal(
		text, "{\"handle_id\":\"h\",\"executor_id\":\"e\",\"driver\":\"container\","
		      "\"external_id\":\"c-1\",\"project_path\":\"/p\",\"task_id\":7,\"pid\":9,"
		      "\"image\":\"i@sha256:0\",\"started_at\":\"1970-01-01T00:00:00.000000001Z\","
		      "\"deadline\":\"1970-01-01T00:00:00.000000002Z\",\"meta\":{\"a\":\"1\"},"
		      "\"secrets\":[{\"lease_id\":\"L\",\"env_keys\":[\"T\"]}],"
		      "\"secrets_recorded\":true}");
	assert_int_equal(handle_record_from_json(v, "", &back, NULL), 0);
	AUTO_JSON json_t *again = handle_record_to_json(&back);
	assert_true(json_equal(v, again));
	handle_record_clear(&back);

	struct error err;
	json_object_set_new(v, "spec", json_object());
	assert_int_equal(handle_record_from_json(v, "", &back, &err), -EINVAL);
	assert_string_equal(err.field, "spec");
}

static void the_store_in_memory(void **state)
{
	AUTO_MEMORY_HANDLE_STORE struct handle_store *store = handle_store_new_memory();
	struct handle_record rows[] = {row("h2", "e", 20), row("h1", "e", 10), row("h3", "f", 30),
				       row("h0", "e", 20)};
	struct handle_record *list;
	struct handle_record bad = row("x", "e", 1);
	struct error err;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(store->put(store, &rows[i], NULL), 0);
	bad.external_id = NULL;
	assert_int_equal(store->put(store, &bad, &err), -EINVAL);
	assert_int_equal(store->list(store, "e", &list, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_string_equal(list[0].handle_id, "h1");
	assert_string_equal(list[1].handle_id, "h0");
	assert_string_equal(list[2].handle_id, "h2");
	handle_records_free(list, n);

	struct handle_record moved = row("h1", "f", 40);
	assert_int_equal(store->put(store, &moved, NULL), 0);
	assert_int_equal(handle_store_memory_len(store), 4);
	assert_int_equal(store->list(store, "", &list, &n, NULL), 0);
	assert_int_equal(n, 4);
	assert_string_equal(list[3].handle_id, "h1");
	assert_string_equal(list[3].executor_id, "f");
	handle_records_free(list, n);

	assert_int_equal(store->remove(store, "zz", NULL), 0);
	assert_int_equal(store->remove(store, "h2", NULL), 0);
	assert_int_equal(handle_store_memory_len(store), 3);
	assert_int_equal(store->list(store, "nobody", &list, &n, NULL), 0);
	assert_int_equal(n, 0);
	handle_records_free(list, n);
}

static int fail_put(struct handle_store *store, const struct handle_record *r, struct error *err)
{
	(void)store;
	(void)r;
	return error_set(err, EIO, "the database is locked");
}

static int fail_list(struct handle_store *store, const char *id, struct handle_record **ret,
		     size_t *ret_n, struct error *err)
{
	(void)store;
	(void)id;
	(void)ret;
	(void)ret_n;
	return error_set(err, EIO, "the database is locked");
}

static int fail_remove(struct handle_store *store, const char *id, struct error *err)
{
	(void)store;
	(void)id;
	return error_set(err, EIO, "the database is locked");
}

static void a_failing_store_is_reported_and_no_more(void **state)
{
	struct handle_store failing = {fail_put, fail_list, fail_remove};
	struct handle_record r = row("h", "e", 1), *list = &r;
	struct error report;
	size_t n = 9;

	(void)state;
	handle_store_record(&failing, &r, &report);
	assert_int_equal(report.code, EIO);
	handle_store_forget(&failing, "h", &report);
	assert_int_equal(report.code, EIO);
	handle_store_load(&failing, "e", &list, &n, &report);
	assert_int_equal(report.code, EIO);
	assert_null(list);
	assert_int_equal(n, 0);

	handle_store_record(NULL, &r, &report);
	assert_int_equal(report.code, 0);
	handle_store_load(NULL, "e", &list, &n, NULL);
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(validation),
		cmocka_unit_test(text_round_trip),
		cmocka_unit_test(the_store_in_memory),
		cmocka_unit_test(a_failing_store_is_reported_and_no_more),
	};

	return cmocka_run_group_tests_name("handle_record", tests, NULL, NULL);
}
