/* The hub's life as the keeper sees it, with time as an argument and children that do nothing. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/area.h"
#include "fs/fallback.h"
#include "fs/hub.h"
#include "fs/keeper_internal.h"

#define SECOND INT64_C(1000)

/* Long before the keeper's real time begins to matter. */
#define BEGIN (1000 * SECOND)

static const struct child_end segv = {.by_signal = true, .value = SIGSEGV};
static const struct child_end killed = {.by_signal = true, .value = SIGKILL};
static const struct child_end exit_stopped = {.value = HUB_EXIT_STOPPED};
static const struct child_end exit_unmounted = {.value = HUB_EXIT_UNMOUNTED};
static const struct child_end exit_refused = {.value = HUB_EXIT_REFUSED};

static int set_up(void **state)
{
	static struct keeper k;

	k = (struct keeper){
		.mountpoint = (char *)"/nowhere",
		.state_dir = (char *)"/nowhere",
		.runtime_dir = (char *)"/nowhere",
		.config_dir = (char *)"/nowhere",
		.program = (char *)"/bin/true",
		.program_fd = open("/bin/true", O_PATH | O_CLOEXEC),
		.oom_score_adj = CHILD_OOM_KEEP,
		.log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC),
		.caller_fd = -1,
		.fuse_fd = -1,
		.hub_fd = -1,
		.next_fd = -1,
		.nudger_fd = -1,
		.launcher_fd = -1,
		.hub = CHILD_NONE,
		.check = CHILD_NONE,
		.unmounter = CHILD_NONE,
		.run_launcher = {.name = "launcher", .child = CHILD_NONE},
		.run_nudger = {.name = "nudger", .child = CHILD_NONE},
		.answer_at = KEEPER_NEVER,
		.hub_kill_at = KEEPER_NEVER,
		.patience_ms = KEEPER_PATIENCE_MS,
	};
	*state = &k;
	return k.program_fd < 0 || k.log_fd < 0 || area_create(1, 2, &k.area_fd, NULL) < 0 ||
			       fallback_new(-1, k.area_fd, &k.fallback, NULL) < 0
		       ? -1
		       : 0;
}

static int tear_down(void **state)
{
	struct keeper *k = *state;

	child_abandon(&k->hub);
	fallback_free(k->fallback);
	(void)close_fd(k->program_fd);
	(void)close_fd(k->log_fd);
	(void)close_fd(k->area_fd);
	(void)close_fd(k->hub_fd);
	return 0;
}

/* A hub that became ready, as its message says. */
static void hub_is_ready(struct keeper *k, int64_t now)
{
	struct keeper_message m = {.type = KEEPER_HUB_READY};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	(void)close_fd(k->hub_fd);
	k->hub_fd = pair[0];
	assert_int_equal(send(pair[1], &m, sizeof(m), 0), (ssize_t)sizeof(m));
	(void)close(pair[1]);
	keeper_hub_messages(k, now);
	assert_true(k->hub_ready);
}

static void init_was_answered(struct keeper *k)
{
	struct area *a = NULL;

	assert_int_equal(area_attach(k->area_fd, &a, NULL), 0);
	area_header(a)->init_len = 56;
	area_header(a)->init_reply_len = 80;
	area_free(a);
}

static void delays_grow_until_the_outage(void **state)
{
	static const int64_t delays[] = {0, 100, 200, 400};
	struct keeper *k = *state;
	int64_t now = BEGIN;

	for (size_t i = 0; i < ARRAY_SIZE(delays); i++) {
		hub_is_ready(k, now);
		keeper_hub_ended(k, segv, now);
		assert_int_equal(k->hub_at - now, delays[i]);
		assert_false(k->outage);
		assert_false(keeper_answers(k, now));
		now += SECOND;
	}
	static const int64_t tries[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		keeper_hub_ended(k, segv, now);
		assert_true(k->outage);
		assert_int_equal(k->hub_at - now, tries[i]);
		now += SECOND;
	}
	hub_is_ready(k, now);
	assert_false(k->outage);
}

static void deaths_that_are_far_between_are_no_loop(void **state)
{
	struct keeper *k = *state;
	int64_t now = BEGIN;

	for (int i = 0; i < 50; i++) {
		hub_is_ready(k, now);
		keeper_hub_ended(k, segv, now);
		assert_false(k->outage);
		now += KEEPER_MINUTE_MS / (KEEPER_DEATHS_MAX - 1);
	}
}

static void hubs_killed_from_outside_are_not_counted(void **state)
{
	struct keeper *k = *state;

	for (int i = 0; i < 50; i++) {
		hub_is_ready(k, BEGIN);
		keeper_hub_ended(k, killed, BEGIN);
		assert_int_equal(k->hub_at, BEGIN);
		assert_false(k->outage);
	}
	/* Killed before it served, it may be what was too large for the machine. */
	for (int i = 0; i < KEEPER_DEATHS_MAX; i++)
		keeper_hub_ended(k, killed, BEGIN);
	assert_true(k->outage);
}

static void an_end_nobody_asked_for_is_a_death(void **state)
{
	struct keeper *k = *state;

	hub_is_ready(k, BEGIN);
	keeper_hub_ended(k, exit_stopped, BEGIN);
	hub_is_ready(k, BEGIN);
	/* The descriptor knows nothing of an unmounted mount. */
	keeper_hub_ended(k, exit_unmounted, BEGIN);
	assert_int_equal(k->n_deaths, 2);
	assert_int_equal(k->phase, PHASE_RUNNING);
}

static void before_the_first_ready_it_gives_up(void **state)
{
	struct keeper *k = *state;

	for (int i = 0; i < KEEPER_DEATHS_MAX; i++) {
		assert_int_equal(k->phase, PHASE_RUNNING);
		assert_false(keeper_answers(k, BEGIN + 3600 * SECOND));
		keeper_hub_ended(k, segv, BEGIN);
	}
	assert_int_equal(k->phase, PHASE_STOP_HUB);
	assert_int_equal(k->exit_status, 1);
}

static void a_refusal_ends_the_first_start_and_later_is_an_outage(void **state)
{
	struct keeper *k = *state;

	hub_is_ready(k, BEGIN);
	keeper_hub_ended(k, exit_refused, BEGIN);
	assert_true(k->outage);
	assert_int_equal(k->hub_at, BEGIN + KEEPER_OUTAGE_DELAY_MAX_MS);
	assert_int_equal(k->phase, PHASE_RUNNING);
	k->ever_ready = false;
	keeper_hub_ended(k, exit_refused, BEGIN);
	assert_int_equal(k->phase, PHASE_STOP_HUB);
	assert_int_equal(k->exit_status, 1);
}

static void too_long_without_a_ready_hub_is_an_outage(void **state)
{
	struct keeper *k = *state;

	init_was_answered(k);
	hub_is_ready(k, BEGIN);
	assert_false(keeper_answers(k, BEGIN + 3600 * SECOND));
	keeper_hub_ended(k, segv, BEGIN);
	assert_false(keeper_answers(k, BEGIN + KEEPER_OUTAGE_MS - 1));
	k->wake_at = KEEPER_NEVER;
	assert_false(keeper_answers(k, BEGIN));
	assert_int_equal(k->wake_at, BEGIN + KEEPER_OUTAGE_MS);
	assert_true(keeper_answers(k, BEGIN + KEEPER_OUTAGE_MS));
	assert_true(k->outage);

	/* An attempt gets as long again, then it is answered in its place. */
	int64_t now = BEGIN + 60 * SECOND;
	k->hub_at = now;
	keeper_hub_step(k, now);
	assert_true(k->hub.pid > 0);
	assert_false(keeper_answers(k, now + KEEPER_OUTAGE_MS - 1));
	assert_true(keeper_answers(k, now + KEEPER_OUTAGE_MS));
}

static void without_init_nothing_is_answered(void **state)
{
	struct keeper *k = *state;

	hub_is_ready(k, BEGIN);
	keeper_hub_ended(k, segv, BEGIN);
	assert_false(keeper_answers(k, BEGIN + KEEPER_OUTAGE_MS));
	init_was_answered(k);
	assert_true(keeper_answers(k, BEGIN + KEEPER_OUTAGE_MS));
}

static void a_hub_that_hangs_is_killed_with_growing_patience(void **state)
{
	struct keeper *k = *state;
	int64_t patience = KEEPER_PATIENCE_MS, now = BEGIN;

	for (int i = 0; i < 6; i++) {
		keeper_hub_step(k, now);
		assert_true(k->hub.pid > 0);
		assert_int_equal(k->hub_kill_at, now + patience);
		now += patience;
		keeper_hub_step(k, now - 1);
		assert_int_equal(k->patience_ms, patience);
		keeper_hub_step(k, now);
		patience = patience * 2 < KEEPER_PATIENCE_MAX_MS ? patience * 2
								 : KEEPER_PATIENCE_MAX_MS;
		assert_int_equal(k->patience_ms, patience);
		assert_int_equal(k->hub_kill_at, KEEPER_NEVER);
		child_abandon(&k->hub);
		k->hub_fd = close_fd(k->hub_fd);
	}
	hub_is_ready(k, now);
	assert_int_equal(k->patience_ms, KEEPER_PATIENCE_MS);
}

static void a_hub_may_say_anything(void **state)
{
	struct keeper *k = *state;
	struct keeper_message m = {.type = 77};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	k->hub_fd = pair[0];
	memset(m.text, '\n', sizeof(m.text));
	for (size_t len = 1; len < sizeof(m); len += 97)
		assert_int_equal(send(pair[1], &m, len, MSG_DONTWAIT), (ssize_t)len);
	while (recv(k->hub_fd, NULL, 0, MSG_PEEK | MSG_DONTWAIT) >= 0)
		keeper_hub_messages(k, BEGIN);
	assert_false(k->hub_ready);
	assert_false(k->hub_refused);
	/* A text that nothing ends, and one that is cut short. */
	m.type = KEEPER_HUB_REFUSED;
	assert_int_equal(send(pair[1], &m, sizeof(m), 0), (ssize_t)sizeof(m));
	keeper_hub_messages(k, BEGIN);
	assert_true(k->hub_refused);
	m.type = KEEPER_HUB_READY;
	while (send(pair[1], &m, offsetof(struct keeper_message, text), MSG_DONTWAIT) > 0)
		;
	keeper_hub_messages(k, BEGIN);
	assert_true(k->hub_ready);
	(void)close(pair[1]);
	keeper_hub_ended(k, segv, BEGIN);
	assert_int_equal(k->hub_fd, -1);
}

static void a_helper_that_dies_at_once_is_not_started_in_a_storm(void **state)
{
	static const int64_t delays[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
	struct keeper *k = *state;
	struct keeper_helper *h = &k->run_launcher;

	for (size_t i = 0; i < ARRAY_SIZE(delays); i++) {
		h->child.started_ms = BEGIN;
		keeper_helper_ended(k, h, segv, BEGIN + 1);
		assert_int_equal(h->start_at - (BEGIN + 1), delays[i]);
	}
	keeper_helper_ended(k, h, segv, BEGIN + KEEPER_MINUTE_MS);
	assert_int_equal(h->start_at, BEGIN + KEEPER_MINUTE_MS);
}

static void what_ends_while_stopping_is_not_started_again(void **state)
{
	struct keeper *k = *state;

	hub_is_ready(k, BEGIN);
	keeper_stop_begin(k, 0, BEGIN);
	keeper_stop_begin(k, 1, BEGIN);
	assert_int_equal(k->exit_status, 0);
	keeper_hub_ended(k, segv, BEGIN);
	keeper_helper_ended(k, &k->run_nudger, segv, BEGIN);
	assert_int_equal(k->n_deaths, 0);
	assert_int_equal(k->run_nudger.start_at, 0);
	keeper_upgrade_begin(k, BEGIN);
	assert_int_equal(k->check.pid, 0);
}

#define with_keeper(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_keeper(delays_grow_until_the_outage),
		with_keeper(deaths_that_are_far_between_are_no_loop),
		with_keeper(hubs_killed_from_outside_are_not_counted),
		with_keeper(an_end_nobody_asked_for_is_a_death),
		with_keeper(before_the_first_ready_it_gives_up),
		with_keeper(a_refusal_ends_the_first_start_and_later_is_an_outage),
		with_keeper(too_long_without_a_ready_hub_is_an_outage),
		with_keeper(without_init_nothing_is_answered),
		with_keeper(a_hub_that_hangs_is_killed_with_growing_patience),
		with_keeper(a_hub_may_say_anything),
		with_keeper(a_helper_that_dies_at_once_is_not_started_in_a_storm),
		with_keeper(what_ends_while_stopping_is_not_started_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
