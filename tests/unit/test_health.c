#include "tests/unit/test.h"

#include <string.h>

#include "core/health.h"
#include "core/json.h"

/* One event and what is seen after it. */
struct step {
	char op; /* s success, f failure, c cordon, d drain, u uncordon */
	const char *text;
	enum node_state state;
	int failures;
	int changed_at;     /* steps are at 100, 101, … */
	const char *reason; /* NULL: anything but empty */
	int from;           /* of the transition; -1: none */
};

#define NONE (-1)

static void play(struct health h, struct health_policy policy, const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct step *s = &steps[i];
		int64_t at = 100 + (int64_t)i;
		struct health_transition t = {0};
		bool moved = false;

		switch (s->op) {
		case 's':
			moved = health_observe_probe(&h, NULL, at, policy, &t);
			break;
		case 'f':
			moved = health_observe_probe(&h, s->text, at, policy, &t);
			break;
		case 'c':
			moved = health_cordon(&h, s->text, at, &t);
			break;
		case 'd':
			moved = health_drain(&h, s->text, at, &t);
			break;
		case 'u':
			moved = health_uncordon(&h, at, policy, &t);
			break;
		}
		assert_int_equal(h.state, s->state);
		assert_int_equal(h.consecutive_failures, s->failures);
		assert_int_equal(h.state_changed_at, s->changed_at);
		if (s->reason)
			assert_string_equal(h.reason, s->reason);
		else
			assert_true(h.reason[0] != '\0');
		assert_int_equal(moved, s->from != NONE);
		if (moved) {
			assert_int_equal(t.from, s->from);
			assert_int_equal(t.to, h.state);
			assert_int_equal(t.at, at);
			assert_string_equal(t.reason, h.reason);
		}
		if (s->op == 's' || s->op == 'f')
			assert_int_equal(h.last_probe, at);
		if (s->op == 's')
			assert_int_equal(h.last_seen, at);
	}
}

static const struct health_policy usual = {1, 3};

static void the_way_down_and_up(void **state)
{
	static const struct step steps[] = {
		{'s', NULL, NODE_READY, 0, 0, "", NONE},
		{'f', "a", NODE_DEGRADED, 1, 101, "a", NODE_READY},
		{'f', "b", NODE_DEGRADED, 2, 101, "b", NONE},
		{'f', "c", NODE_UNREACHABLE, 3, 103, "c", NODE_DEGRADED},
		{'f', "d", NODE_UNREACHABLE, 4, 103, "d", NONE},
		{'s', NULL, NODE_READY, 0, 105, "", NODE_UNREACHABLE},
	};

	(void)state;
	play((struct health){0}, usual, steps, ARRAY_SIZE(steps));
}

static void held_nodes_count_on(void **state)
{
	static const struct step steps[] = {
		{'c', " ", NODE_CORDONED, 0, 100, NULL, NODE_READY},
		{'f', "x", NODE_CORDONED, 1, 100, NULL, NONE},
		{'f', "x", NODE_CORDONED, 2, 100, NULL, NONE},
		{'u', NULL, NODE_DEGRADED, 2, 103, NULL, NODE_CORDONED},
		{'u', NULL, NODE_DEGRADED, 2, 103, NULL, NONE},
		{'d', "retire", NODE_DRAINING, 2, 105, "retire", NODE_DEGRADED},
		{'f', "x", NODE_DRAINING, 3, 105, "retire", NONE},
		{'c', "no, keep", NODE_CORDONED, 3, 107, "no, keep", NODE_DRAINING},
		{'c', "why", NODE_CORDONED, 3, 107, "why", NONE},
		{'u', NULL, NODE_UNREACHABLE, 3, 109, NULL, NODE_CORDONED},
		{'c', "again", NODE_CORDONED, 3, 110, "again", NODE_UNREACHABLE},
		{'s', NULL, NODE_CORDONED, 0, 110, "again", NONE},
		{'u', NULL, NODE_READY, 0, 112, "", NODE_CORDONED},
	};

	(void)state;
	play((struct health){0}, usual, steps, ARRAY_SIZE(steps));
}

static void a_failure_never_looks_better(void **state)
{
	static const struct step steps[] = {
		{'f', "x", NODE_UNREACHABLE, 1, 0, "x", NONE},
		{'f', "y", NODE_UNREACHABLE, 2, 0, "y", NONE},
	};
	static const struct step degraded[] = {
		{'f', "x", NODE_DEGRADED, 1, 0, "x", NONE},
		{'f', "x", NODE_DEGRADED, 2, 0, "x", NONE},
	};

	(void)state;
	play((struct health){.state = NODE_UNREACHABLE}, usual, steps, ARRAY_SIZE(steps));
	play((struct health){.state = NODE_DEGRADED}, (struct health_policy){3, 5}, degraded,
	     ARRAY_SIZE(degraded));
}

static void thresholds_are_clamped(void **state)
{
	static const struct step equal[] = {
		{'f', "x", NODE_READY, 1, 0, "x", NONE},
		{'f', "x", NODE_UNREACHABLE, 2, 101, "x", NODE_READY},
	};
	static const struct step zero[] = {{'f', "x", NODE_UNREACHABLE, 1, 100, "x", NODE_READY}};

	(void)state;
	play((struct health){0}, (struct health_policy){2, 2}, equal, ARRAY_SIZE(equal));
	play((struct health){0}, (struct health_policy){2, 1}, equal, ARRAY_SIZE(equal));
	play((struct health){0}, (struct health_policy){0, 0}, zero, ARRAY_SIZE(zero));
	play((struct health){0}, (struct health_policy){-5, -9}, zero, ARRAY_SIZE(zero));
	assert_int_equal(health_policy_default().degrade_after, 1);
	assert_int_equal(health_policy_default().unreachable_after, 3);
}

static void failures_are_one_short_line(void **state)
{
	char line[256], want[256];
	struct health h = {0};

	(void)state;
	health_observe_probe(&h, " first\nsecond", 1, usual, NULL);
	assert_string_equal(h.reason, "first");
	health_observe_probe(&h, "first \r\nsecond", 1, usual, NULL);
	assert_string_equal(h.reason, "first");
	health_observe_probe(&h, "", 1, usual, NULL);
	assert_true(h.reason[0] != '\0');
	health_observe_probe(&h, "a\tb\x01", 1, usual, NULL);
	assert_string_equal(h.reason, "a?b?");

	memset(line, 'x', sizeof(line));
	line[200] = '\0';
	health_observe_probe(&h, line, 1, usual, NULL);
	assert_string_equal(h.reason, line);
	line[200] = 'x';
	line[201] = '\0';
	memset(want, 'x', 199);
	memcpy(want + 199, "\xe2\x80\xa6", 4);
	health_observe_probe(&h, line, 1, usual, NULL);
	assert_string_equal(h.reason, want);
	/* A code point across the cut is left out whole. */
	memcpy(line + 198, "\xc3\xa9", 2);
	memcpy(want + 198, "\xe2\x80\xa6", 4);
	health_observe_probe(&h, line, 1, usual, NULL);
	assert_string_equal(h.reason, want);
}

static void a_long_note_is_kept_within_bounds(void **state)
{
	static char note[4096];
	struct health h = {0};

	(void)state;
	memset(note, 'n', sizeof(note) - 1);
	assert_true(health_cordon(&h, note, 1, NULL));
	assert_int_equal(strlen(h.reason), HEALTH_REASON_MAX - 1);
}

static void records_are_normalized(void **state)
{
	struct health h = {.state = (enum node_state)77, .consecutive_failures = -3};

	(void)state;
	health_normalize(&h);
	assert_int_equal(h.state, NODE_READY);
	assert_int_equal(h.consecutive_failures, 0);
	assert_int_equal(node_state_parse("READY"), NODE_READY);
	assert_int_equal(node_state_parse(""), NODE_READY);
	assert_int_equal(node_state_parse("draining"), NODE_DRAINING);

	enum node_state s = NODE_CORDONED;
	assert_false(node_state_lookup("READY", &s));
	assert_int_equal(s, NODE_CORDONED);
	assert_true(node_state_lookup("ready", &s));
	assert_int_equal(s, NODE_READY);
}

static void predicates(void **state)
{
	static const struct {
		enum node_state state;
		bool schedulable, held;
	} rows[] = {
		{NODE_READY, true, false},        {NODE_DEGRADED, true, false},
		{NODE_UNREACHABLE, false, false}, {NODE_CORDONED, false, true},
		{NODE_DRAINING, false, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(node_state_schedulable(rows[i].state), rows[i].schedulable);
		assert_int_equal(node_state_admin_held(rows[i].state), rows[i].held);
		assert_int_equal(node_state_parse(node_state_name(rows[i].state)), rows[i].state);
	}
}

static void texts(void **state)
{
	struct health_transition t = {NODE_READY, NODE_UNREACHABLE, "gone", 1};

	(void)state;
	AUTO_FREE char *with = health_transition_text("e1", &t);
	assert_string_equal(with, "e1: ready -> unreachable (gone)");
	t.reason[0] = '\0';
	AUTO_FREE char *without = health_transition_text("e1", &t);
	assert_string_equal(without, "e1: ready -> unreachable");

	struct health h = {.consecutive_failures = 1, .last_probe = 1};
	AUTO_JSON json_t *v = health_to_json("e1", &h);
	AUTO_FREE char *json = json_text(v);
	assert_string_equal(json, "{\"executor_id\":\"e1\",\"state\":\"ready\","
				  "\"consecutive_failures\":1,"
				  "\"last_probe\":\"1970-01-01T00:00:00.000000001Z\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_way_down_and_up),
		cmocka_unit_test(held_nodes_count_on),
		cmocka_unit_test(a_failure_never_looks_better),
		cmocka_unit_test(thresholds_are_clamped),
		cmocka_unit_test(failures_are_one_short_line),
		cmocka_unit_test(a_long_note_is_kept_within_bounds),
		cmocka_unit_test(records_are_normalized),
		cmocka_unit_test(predicates),
		cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
