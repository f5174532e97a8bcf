#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/revocation_log.h"

static struct revoke_outcome outcome(const char *lease, const char *grant, enum revoke_state state,
				     int64_t sent_at)
{
	return (struct revoke_outcome){.lease_id = (char *)lease,
				       .grant_id = (char *)grant,
				       .executor_id = (char *)"e",
				       .state = state,
				       .action = REVOKE_SCRUB,
				       .sent_at = sent_at};
}

static void put(struct revocation_log *log, const char *lease, enum revoke_state state,
		int64_t sent_at)
{
	struct revoke_outcome o = outcome(lease, "", state, sent_at);

	assert_int_equal(revocation_log_record(log, &o, NULL), 0);
}

/* The leases of a list, joined. */
static void check(const struct revocation_log *log, const char *pending, const char *snapshot)
{
	const struct revoke_outcome **list;
	char text[256];
	size_t n;

	for (int all = 0; all < 2; all++) {
		text[0] = '\0';
		assert_int_equal(all ? revocation_log_snapshot(log, &list, &n)
				     : revocation_log_pending(log, &list, &n),
				 0);
		for (size_t i = 0; i < n; i++) {
			strcat(text, list[i]->lease_id);
			strcat(text, " ");
		}
		free(list);
		assert_string_equal(text, all ? snapshot : pending);
	}
}

static void order(void **state)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();

	(void)state;
	check(log, "", "");
	put(log, "b", REVOKE_PENDING, 20);
	put(log, "a", REVOKE_UNREACHABLE, 30);
	put(log, "c", REVOKE_FAILED, 10);
	put(log, "d", REVOKE_REVOKED, 15);
	put(log, "e", REVOKE_PENDING, 20);
	check(log, "c b e a ", "a e b d c ");
}

static void the_key_is_trimmed(void **state)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();
	struct revoke_outcome o = outcome(" L ", "\tg\n", REVOKE_PENDING, 1);
	const struct revoke_outcome *live;

	(void)state;
	assert_int_equal(revocation_log_record(log, &o, &live), 0);
	assert_string_equal(live->lease_id, "L");
	assert_string_equal(live->grant_id, "g");
	o = outcome("L", "g", REVOKE_FAILED, 2);
	assert_int_equal(revocation_log_record(log, &o, &live), 0);
	assert_int_equal(revocation_log_len(log), 1);
	assert_int_equal(live->state, REVOKE_FAILED);
	o = outcome("L", "", REVOKE_PENDING, 3);
	assert_int_equal(revocation_log_record(log, &o, &live), 0);
	assert_int_equal(revocation_log_len(log), 2);
}

static void refreshing(void **state)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();
	struct revoke_outcome o = outcome("L", "", REVOKE_FAILED, 10);
	const struct revoke_outcome *live;

	(void)state;
	o.reason = (char *)"first";
	o.error = (char *)"offline";
	assert_int_equal(revocation_log_record(log, &o, &live), 0);
	o = outcome("L", "", REVOKE_PENDING, 50);
	o.action = REVOKE_KILL;
	assert_int_equal(revocation_log_record(log, &o, &live), 0);
	assert_string_equal(live->reason, "first");
	assert_string_equal(live->error, "");
	assert_int_equal(live->sent_at, 50);
	assert_int_equal(live->action, REVOKE_KILL);
	o = (struct revoke_outcome){.lease_id = (char *)"L", .reason = (char *)"second"};
	assert_int_equal(revocation_log_record(log, &o, &live), 0);
	assert_string_equal(live->reason, "second");
	assert_string_equal(live->executor_id, "e");
	assert_int_equal(live->sent_at, 50);
	assert_int_equal(live->action, REVOKE_KILL);
}

static void settling(void **state)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();
	char *killed[] = {(char *)"h1"};
	struct revoke_report ok = {
		.known = true, .files_removed = 2, .killed = killed, .n_killed = 1};
	struct revoke_report bad = {.known = true, .error = (char *)"wipe failed"};
	const struct revoke_outcome **list;
	size_t n;

	(void)state;
	assert_int_equal(revocation_log_settle(log, "L", "", &ok, 5), 0);
	assert_int_equal(revocation_log_len(log), 0);
	put(log, "L", REVOKE_PENDING, 1);
	assert_int_equal(revocation_log_settle(log, "L", "", &bad, 5), 0);
	check(log, "L ", "L ");
	assert_int_equal(revocation_log_settle(log, " L", " ", &ok, 6), 0);
	check(log, "", "L ");
	assert_int_equal(revocation_log_snapshot(log, &list, &n), 0);
	assert_int_equal(list[0]->acked_at, 6);
	assert_true(list[0]->has_ack);
	assert_string_equal(list[0]->ack.killed[0], "h1");
	assert_string_equal(list[0]->error, "");

	/* Settled: neither a report nor a record opens it again. */
	assert_int_equal(revocation_log_settle(log, "L", "", &bad, 7), 0);
	put(log, "L", REVOKE_PENDING, 99);
	assert_int_equal(list[0]->state, REVOKE_REVOKED);
	assert_int_equal(list[0]->acked_at, 6);
	assert_int_equal(list[0]->sent_at, 1);
	/* But a failure does. */
	assert_int_equal(revocation_log_fail(log, "L", "", REVOKE_UNREACHABLE, "gone"), 0);
	assert_int_equal(list[0]->state, REVOKE_UNREACHABLE);
	assert_string_equal(list[0]->error, "gone");
	free(list);
	assert_int_equal(revocation_log_fail(log, "M", "", REVOKE_FAILED, "x"), 0);
	assert_int_equal(revocation_log_len(log), 1);
}

static void only_finished_entries_are_dropped(void **state)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();
	const struct revoke_outcome **list;
	char id[32];
	size_t n;

	(void)state;
	for (int i = 0; i < MAX_RETAINED_REVOCATIONS; i++) {
		(void)snprintf(id, sizeof(id), "l%d", i);
		put(log, id, i == 7 || i == 9 ? REVOKE_REVOKED : REVOKE_UNREACHABLE,
		    i == 9 ? 1 : 1000 + i);
	}
	/* A refresh drops nothing, a new entry the oldest finished one by its instant. */
	put(log, "l0", REVOKE_PENDING, 2000);
	assert_int_equal(revocation_log_len(log), MAX_RETAINED_REVOCATIONS);
	put(log, "new1", REVOKE_PENDING, 3000);
	assert_int_equal(revocation_log_len(log), MAX_RETAINED_REVOCATIONS);
	put(log, "new2", REVOKE_PENDING, 3001);
	assert_int_equal(revocation_log_len(log), MAX_RETAINED_REVOCATIONS);
	/* Nothing finished is left: what is owed is kept above the limit. */
	put(log, "new3", REVOKE_PENDING, 3002);
	put(log, "new4", REVOKE_REVOKED, 3003);
	assert_int_equal(revocation_log_len(log), MAX_RETAINED_REVOCATIONS + 2);
	assert_int_equal(revocation_log_snapshot(log, &list, &n), 0);
	assert_string_equal(list[0]->lease_id, "new4");
	for (size_t i = 0; i < n; i++)
		assert_string_not_equal(list[i]->lease_id, "l7");
	free(list);
	/* It comes down to the limit as soon as it can. */
	struct revoke_report ok = {.known = true};
	for (int i = 10; i < 20; i++) {
		(void)snprintf(id, sizeof(id), "l%d", i);
		assert_int_equal(revocation_log_settle(log, id, "", &ok, 4000), 0);
	}
	put(log, "new5", REVOKE_PENDING, 5000);
	assert_int_equal(revocation_log_len(log), MAX_RETAINED_REVOCATIONS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order),
		cmocka_unit_test(the_key_is_trimmed),
		cmocka_unit_test(refreshing),
		cmocka_unit_test(settling),
		cmocka_unit_test(only_finished_entries_are_dropped),
	};

	return cmocka_run_group_tests_name("revocation_log", tests, NULL, NULL);
}
