#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/owner.h"
#include "core/retention.h"
#include "core/session.h"
#include "core/store/event.h"
#include "tests/unit/store_help.h"

#define S INT64_C(1000000000)
#define NOW (1000000 * S)

static int insert(struct store_tx *tx, void *arg, struct error *err)
{
	return session_insert(tx, arg, err);
}

/* A session that ended so many seconds ago; running when that is negative. */
static void add(struct store *s, int64_t serial, int64_t ago)
{
	static char executor[] = "local", boot[] = "b", token[] = "1", spec[] = "{}";
	char name[32];
	struct session row = {
		.serial = serial,
		.name = name,
		.executor = executor,
		.executor_serial = 1,
		.state = ago < 0 ? SESSION_RUNNING : SESSION_EXITED,
		.cause = ago < 0 ? SESSION_CAUSE_NONE : SESSION_CAUSE_EXIT,
		.boot_id = boot,
		.claim_token = token,
		.attempt = 1,
		.created_at_ns = 1,
		.finished_at_ns = ago < 0 ? 0 : NOW - ago * S,
		.spec = spec,
	};

	(void)snprintf(name, sizeof(name), "x%lld", (long long)serial);
	assert_int_equal(help_run(s, insert, &row, NULL), 0);
}

struct run {
	struct retention_rule rule;
	struct retention_batch batch;
};

static int apply(struct store_tx *tx, void *arg, struct error *err)
{
	struct run *r = arg;

	return retention_apply(tx, &r->rule, &r->batch, err);
}

/* Which sessions go, "1 2 3", in the order in which they do. */
static const char *gone(struct store *s, int64_t age_s, int64_t count, char *text)
{
	struct run r = {.rule = {.now_ns = NOW, .age_ns = age_s * S, .count = count, .uid = 7}};
	size_t len = 0;

	assert_int_equal(help_run(s, apply, &r, NULL), 0);
	text[0] = '\0';
	for (size_t i = 0; i < r.batch.n; i++)
		len += (size_t)sprintf(text + len, "%s%lld", i ? " " : "",
				       (long long)r.batch.gone[i].serial);
	retention_batch_clear(&r.batch);
	return text;
}

static void the_oldest_go_first(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	char text[4096], events[4096];
	size_t n = 0;

	add(s, 1, -1); /* running, since ever */
	add(s, 2, 500);
	add(s, 3, 900);
	add(s, 4, 100);
	add(s, 5, 700);
	add(s, 6, 500); /* as 2: the serial decides */
	add(s, 7, 3);   /* has only just ended */
	assert_string_equal(gone(s, 10000, 100, text), "");
	assert_string_equal(gone(s, 10000, 6, text), "");
	assert_string_equal(gone(s, 10000, 5, text), "3");
	assert_string_equal(gone(s, 600, 100, text), "5");
	assert_string_equal(gone(s, 600, 100, text), "");
	assert_string_equal(gone(s, 10000, 3, text), "2");
	assert_string_equal(gone(s, 499, 1, text), "6 4");
	assert_string_equal(gone(s, 0, 0, text), ""); /* only the one that is let settle is left */

	assert_int_equal(event_read(store_reader(s), 0, events, sizeof(events) - 1, &n, NULL), 0);
	events[n] = '\0';
	assert_non_null(strstr(events, "\"type\":\"session.removed\",\"uid\":7,\"session\":\"x3\","
				       "\"reason\":\"retention\""));
	assert_null(strstr(events, "\"x1\""));
}

static void count_doomed(void *user, int64_t serial)
{
	(void)serial;
	(*(int *)user)++;
}

static void a_batch_has_an_end(void **state)
{
	const struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	struct run r = {.rule = {.now_ns = NOW, .age_ns = 10000 * S, .count = 10}};
	int64_t left = 0;
	int doomed = 0;

	for (int64_t i = 1; i <= RETENTION_BATCH + 15; i++)
		add(s, i, 1000 - i);
	assert_int_equal(help_run(s, apply, &r, NULL), 0);
	assert_int_equal(r.batch.n, RETENTION_BATCH);
	assert_string_equal(r.batch.gone[0].name, "x1");
	retention_batch_clear(&r.batch);
	assert_int_equal(help_run(s, apply, &r, NULL), 0);
	assert_int_equal(r.batch.n, 5);
	retention_batch_clear(&r.batch);
	assert_int_equal(help_run(s, apply, &r, NULL), 0);
	assert_int_equal(r.batch.n, 0);
	assert_int_equal(session_count(store_reader(s), &left, NULL), 0);
	assert_int_equal(left, 10);
	assert_true(session_list_doomed(store_reader(s), 0, 1000, count_doomed, &doomed, NULL) >= 0);
	assert_int_equal(doomed, RETENTION_BATCH + 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_oldest_go_first, help_dir_make, help_dir_remove),
		cmocka_unit_test_setup_teardown(a_batch_has_an_end, help_dir_make, help_dir_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
