#include "tests/unit/test.h"

#include <string.h>

#include "core/json.h"
#include "core/revocation_json.h"

static void check(json_t *value, const char *want)
{
	AUTO_FREE char *text = json_text(value);

	json_decref(value);
	assert_string_equal(text, want);
}

static void what_is_shown(void **state)
{
	char *names[] = {(char *)"A", (char *)"B"};
	struct revoke_outcome o = {.lease_id = (char *)"L", .executor_id = (char *)"e"};

	(void)state;
	check(revoke_outcome_to_json(&o),
	      "{\"lease_id\":\"L\",\"executor_id\":\"e\",\"state\":\"revoke_pending\"}");
	o = (struct revoke_outcome){
		.lease_id = (char *)"L",
		.grant_id = (char *)"g",
		.executor_id = (char *)"e",
		.state = REVOKE_REVOKED,
		.action = REVOKE_KILL,
		.reason = (char *)"leaked",
		.sent_at = 1,
		.acked_at = INT64_C(1000000000),
		.has_ack = true,
		.ack = {.lease_id = (char *)"L",
			.grant_id = (char *)"g",
			.action = REVOKE_KILL,
			.known = true,
			.env_scrubbed = names,
			.n_env_scrubbed = 2,
			.files_removed = 3,
			.egress_dropped = true,
			.killed = names,
			.n_killed = 1,
			.error = (char *)"half"},
		.error = (char *)"half",
	};
	check(revoke_outcome_to_json(&o),
	      "{\"lease_id\":\"L\",\"grant_id\":\"g\",\"executor_id\":\"e\",\"state\":\"revoked\","
	      "\"action\":\"kill\",\"reason\":\"leaked\","
	      "\"sent_at\":\"1970-01-01T00:00:00.000000001Z\","
	      "\"acked_at\":\"1970-01-01T00:00:01.000000000Z\","
	      "\"ack\":{\"lease_id\":\"L\",\"grant_id\":\"g\",\"action\":\"kill\",\"known\":true,"
	      "\"env_scrubbed\":[\"A\",\"B\"],\"files_removed\":3,\"egress_dropped\":true,"
	      "\"killed\":[\"A\"],\"error\":\"half\"},\"error\":\"half\"}");
	check(revoke_report_to_json(&(struct revoke_report){0}),
	      "{\"lease_id\":\"\",\"known\":false}");
	check(revoke_request_to_json(&(struct revoke_request){.lease_id = "L"}),
	      "{\"lease_id\":\"L\"}");
	check(revoke_request_to_json(&(struct revoke_request){"L", "g", "why", REVOKE_SCRUB}),
	      "{\"lease_id\":\"L\",\"grant_id\":\"g\",\"reason\":\"why\",\"action\":\"scrub\"}");
}

static json_t *parse(const char *text)
{
	json_t *value = NULL;

	assert_int_equal(json_parse(text, strlen(text), &value, NULL), 0);
	return value;
}

static void what_a_driver_says(void **state)
{
	static const char text[] =
		"{\"lease_id\":\"L\",\"action\":\"kill\",\"known\":true,\"env_scrubbed\":[\"A\"],"
		"\"files_removed\":2,\"killed\":[\"h1\"]}";
	static const char newer[] =
		"{\"action\":\"vaporise\",\"error\":\"a\\nb\\u001b[31m\",\"more\":[1],"
		"\"killed\":null}";
	AUTO_JSON json_t *value = parse(text);
	AUTO_JSON json_t *other = parse(newer);
	struct revoke_report r = {0};

	(void)state;
	assert_int_equal(revoke_report_from_json(value, "ack", &r, NULL), 0);
	check(revoke_report_to_json(&r), text);
	revoke_report_clear(&r);
	assert_int_equal(revoke_report_from_json(other, "ack", &r, NULL), 0);
	assert_int_equal(r.action, REVOKE_ACTION_UNSET);
	assert_string_equal(r.error, "a?b?[31m");
	assert_false(r.known);
	revoke_report_clear(&r);
}

static void what_no_driver_says(void **state)
{
	static const struct {
		const char *text, *field;
	} rows[] = {
		{"[]", "ack"},
		{"{\"known\":1}", "ack.known"},
		{"{\"known\":\"true\"}", "ack.known"},
		{"{\"lease_id\":1}", "ack.lease_id"},
		{"{\"env_scrubbed\":[\"TOKEN=hunter2\"]}", "ack.env_scrubbed"},
		{"{\"env_scrubbed\":\"A\"}", "ack.env_scrubbed"},
		{"{\"env_scrubbed\":[1]}", "ack.env_scrubbed[0]"},
		{"{\"files_removed\":-1}", "ack.files_removed"},
		{"{\"files_removed\":1.5}", "ack.files_removed"},
		{"{\"killed\":[null]}", "ack.killed[0]"},
	};
	char text[4096], name[REVOKE_REPORT_ERROR_BYTES_MAX + 2];
	struct revoke_report r = {.files_removed = 7};
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON json_t *value = parse(rows[i].text[0] == '[' ? "{}" : rows[i].text);
		AUTO_JSON json_t *array = json_array();

		assert_int_equal(revoke_report_from_json(rows[i].text[0] == '[' ? array : value,
							 "ack", &r, &err),
				 -EINVAL);
		assert_string_equal(err.field, rows[i].field);
		assert_null(strstr(err.reason, "hunter2"));
	}
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)snprintf(text, sizeof(text), "{\"error\":\"%s\"}", name);
	AUTO_JSON json_t *sentence = parse(text);
	assert_int_equal(revoke_report_from_json(sentence, "ack", &r, &err), -EINVAL);
	assert_string_equal(err.field, "ack.error");
	(void)snprintf(text, sizeof(text), "{\"killed\":[\"%.*s\"]}",
		       REVOKE_REPORT_NAME_BYTES_MAX + 1, name);
	AUTO_JSON json_t *handle = parse(text);
	assert_int_equal(revoke_report_from_json(handle, "ack", &r, &err), -EINVAL);
	assert_string_equal(err.field, "ack.killed");
	/* Nothing was touched. */
	assert_int_equal(r.files_removed, 7);
}

static void many_names_are_refused(void **state)
{
	AUTO_JSON json_t *value = json_object();
	json_t *names = json_array();
	struct revoke_report r;
	struct error err;

	(void)state;
	json_object_set_new(value, "killed", names);
	for (size_t i = 0; i < REVOKE_REPORT_ITEMS_MAX; i++)
		json_array_append_new(names, json_string("h"));
	assert_int_equal(revoke_report_from_json(value, "", &r, &err), 0);
	assert_int_equal(r.n_killed, REVOKE_REPORT_ITEMS_MAX);
	revoke_report_clear(&r);
	json_array_append_new(names, json_string("h"));
	assert_int_equal(revoke_report_from_json(value, "", &r, &err), -EINVAL);
	assert_string_equal(err.field, "killed");
}

static void requests(void **state)
{
	static const char text[] =
		"{\"lease_id\":\"L\",\"grant_id\":\"g\",\"reason\":\"why\",\"action\":\"kill\"}";
	AUTO_JSON json_t *value = parse(text);
	AUTO_JSON json_t *newer = parse("{\"lease_id\":\"L\",\"action\":\"vaporise\",\"x\":1}");
	AUTO_JSON json_t *blank = parse("{\"lease_id\":\" \",\"action\":\"kill\"}");
	struct revoke_request q;
	struct error err;

	(void)state;
	assert_int_equal(revoke_request_from_json(value, "", &q, NULL), 0);
	check(revoke_request_to_json(&q), text);
	/* What is not known does not destroy work. */
	assert_int_equal(revoke_request_from_json(newer, "", &q, NULL), 0);
	assert_int_equal(revoke_action_effective(q.action), REVOKE_SCRUB);
	assert_int_equal(revoke_request_from_json(blank, "", &q, &err), -EINVAL);
	assert_string_equal(err.field, "lease_id");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_shown),
		cmocka_unit_test(what_a_driver_says),
		cmocka_unit_test(what_no_driver_says),
		cmocka_unit_test(many_names_are_refused),
		cmocka_unit_test(requests),
	};

	return cmocka_run_group_tests_name("revocation_json", tests, NULL, NULL);
}
