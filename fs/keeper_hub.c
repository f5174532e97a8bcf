#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/text.h"
#include "fs/area.h"
#include "fs/fallback.h"
#include "fs/hub.h"
#include "fs/keeper_internal.h"
#include "fs/keeper_log.h"

/* Decimal digits of an int and the NUL. */
#define NUMBER_MAX 12

/* So that a hub that never stops talking does not stop the loop. */
#define MESSAGES_PER_TURN 16

/* "hub", twelve options with their values, and the NULL. */
#define HUB_ARGV_MAX 28

/* --- starting ------------------------------------------------------------------------------- */

struct hub_argv {
	const char *argv[HUB_ARGV_MAX];
	size_t n;
	char numbers[CHILD_FDS_MAX + 1][NUMBER_MAX];
	size_t n_numbers;
};

static void add(struct hub_argv *a, const char *word)
{
	a->argv[a->n++] = word;
	a->argv[a->n] = NULL;
}

static void add_number(struct hub_argv *a, const char *option, int value)
{
	char *text = a->numbers[a->n_numbers++];

	(void)snprintf(text, NUMBER_MAX, "%d", value);
	add(a, option);
	add(a, text);
}

static void add_places(struct hub_argv *a, const struct keeper *k)
{
	add(a, "--mountpoint");
	add(a, k->mountpoint);
	add(a, "--state-dir");
	add(a, k->state_dir);
	add(a, "--runtime-dir");
	add(a, k->runtime_dir);
	add(a, "--config-dir");
	add(a, k->config_dir);
	if (k->allow_other)
		add(a, "--allow-other");
}

static int start_hub(struct keeper *k, int hub_end, struct error *err)
{
	struct hub_argv a = {.n = 0};
	struct child_command command = {.exe_fd = k->program_fd,
					.path = k->program,
					.fds = {k->fuse_fd, k->area_fd, hub_end},
					.n_fds = 3,
					.output_fd = k->log_fd,
					.death_signal = SIGKILL,
					.oom_score_adj = k->oom_score_adj,
					.raise_files = true};

	add(&a, "cloopd: hub");
	add(&a, "hub");
	add_number(&a, "--fuse-fd", k->fuse_fd);
	add_number(&a, "--area-fd", k->area_fd);
	add_number(&a, "--keeper-fd", hub_end);
	if (k->nudger_fd >= 0 && k->run_nudger.child.pid != 0) {
		add_number(&a, "--nudger-fd", k->nudger_fd);
		add_number(&a, "--nudger-pid", k->run_nudger.child.pid);
		command.fds[command.n_fds++] = k->nudger_fd;
	}
	add_places(&a, k);
	command.argv = (char *const *)a.argv;
	return child_start(&k->hub, &command, err);
}

/* The number of hubs that died within the last minute. */
static unsigned deaths_lately(const struct keeper *k, int64_t now)
{
	unsigned kept = k->n_deaths < KEEPER_DEATHS_MAX ? k->n_deaths : KEEPER_DEATHS_MAX;
	unsigned lately = 0;

	for (unsigned i = 0; i < kept; i++)
		if (now - k->deaths[i] < KEEPER_MINUTE_MS)
			lately++;
	return lately;
}

static int64_t doubled(int64_t first, unsigned times, int64_t max)
{
	int64_t delay = times < 16 ? first << times : max;

	return delay < max ? delay : max;
}

static void schedule(struct keeper *k, int64_t now)
{
	int64_t delay = 0;
	unsigned lately = deaths_lately(k, now);

	if (k->outage)
		delay = doubled(KEEPER_OUTAGE_DELAY_MS, k->outage_tries++,
				KEEPER_OUTAGE_DELAY_MAX_MS);
	else if (lately > 1)
		delay = doubled(KEEPER_HUB_DELAY_MS, lately - 2, KEEPER_HUB_DELAY_MAX_MS);
	k->hub_at = now + delay;
	keeper_say(k, "another hub starts in %lld ms", (long long)delay);
}

static void begin_outage(struct keeper *k, const char *why)
{
	if (k->outage || !k->ever_ready)
		return;
	k->outage = true;
	keeper_say(k, "%s: requests to %s are answered EIO until a hub is ready", why,
		   k->mountpoint);
	keeper_report(k);
}

static void start_next(struct keeper *k, int64_t now)
{
	struct error err;
	int pair[2];

	/* Only one process has the area. */
	fallback_yield(k->fallback);
	k->hub_ready = false;
	k->hub_refused = false;
	k->hub_replaced = false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		keeper_say(k, "cannot make a socket for the hub: %s", strerror(errno));
		k->hub_at = now + KEEPER_HUB_DELAY_MAX_MS;
		return;
	}
	int r = start_hub(k, pair[1], &err);
	(void)close(pair[1]);
	if (r < 0) {
		(void)close(pair[0]);
		keeper_say_error(k, &err);
		k->hub_at = now + KEEPER_HUB_DELAY_MAX_MS;
		return;
	}
	k->hub_fd = pair[0];
	k->hub_kill_at = now + k->patience_ms;
	/* In an outage, callers wait for this attempt as long as they would for the first. */
	if (k->outage)
		k->answer_at = now + KEEPER_OUTAGE_MS;
	keeper_say(k, "hub %d started", k->hub.pid);
}

void keeper_hub_step(struct keeper *k, int64_t now)
{
	if (k->hub.pid == 0 && keeper_is_due(k, k->hub_at, now))
		start_next(k, now);
	if (k->hub.pid == 0)
		(void)keeper_is_due(k, k->hub_at, now);
	else if (keeper_is_due(k, k->hub_kill_at, now)) {
		keeper_say(k, "hub %d %s: killed", k->hub.pid,
			   k->hub_replaced ? "does not end for the upgrade" : "is not ready");
		if (!k->hub_replaced)
			k->patience_ms = doubled(k->patience_ms, 1, KEEPER_PATIENCE_MAX_MS);
		child_kill(&k->hub, SIGKILL);
		k->hub_kill_at = KEEPER_NEVER;
	}
	if (k->check.pid != 0 && keeper_is_due(k, k->check_until, now)) {
		child_kill(&k->check, SIGKILL);
		k->check_until = KEEPER_NEVER;
	}
}

/* --- what it says --------------------------------------------------------------------------- */

static void became_ready(struct keeper *k, int64_t now)
{
	if (k->hub_ready)
		return;
	keeper_say(k, "hub %d is ready%s", k->hub.pid, k->outage ? ": the outage is over" : "");
	k->hub_ready = true;
	k->ready_since = now;
	k->outage = false;
	k->answer_at = KEEPER_NEVER;
	k->hub_kill_at = KEEPER_NEVER;
	k->patience_ms = KEEPER_PATIENCE_MS;
	if (!k->ever_ready) {
		k->ever_ready = true;
		keeper_say(k, "serving %s", k->mountpoint);
		keeper_release_caller(k);
	}
	keeper_report(k);
}

/* Takes one message; false when there is none. A hub that is broken may send anything. */
static bool take_message(struct keeper *k, int64_t now)
{
	const size_t head = offsetof(struct keeper_message, text);
	struct keeper_message m;

	if (k->hub_fd < 0)
		return false;
	ssize_t n = recv(k->hub_fd, &m, sizeof(m), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		/* It is ending, which its pidfd will tell. */
		k->hub_fd = close_fd(k->hub_fd);
		return false;
	}
	if ((size_t)n < head)
		return true;
	m.text[(size_t)n < sizeof(m) ? (size_t)n - head : sizeof(m.text) - 1] = '\0';
	text_one_line(m.text);
	if (m.type == KEEPER_HUB_READY && k->phase == PHASE_RUNNING) {
		became_ready(k, now);
	} else if (m.type == KEEPER_HUB_REFUSED && !k->hub_refused) {
		k->hub_refused = true;
		keeper_say_refusal(k, m.text);
	}
	return true;
}

void keeper_hub_messages(struct keeper *k, int64_t now)
{
	for (int i = 0; i < MESSAGES_PER_TURN && take_message(k, now); i++)
		;
}

static void tell(struct keeper *k, uint32_t type, int32_t value, int fd)
{
	struct keeper_message m = {.type = type, .value = value};
	struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m)};
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.space = {0}};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (k->hub_fd < 0)
		return;
	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.space);
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	if (sendmsg(k->hub_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		keeper_say(k, "hub %d does not take messages: %s", k->hub.pid, strerror(errno));
}

void keeper_hub_tell_nudger(struct keeper *k)
{
	tell(k, KEEPER_NUDGER, k->run_nudger.child.pid, k->nudger_fd);
}

void keeper_hub_tell_stop(struct keeper *k)
{
	tell(k, KEEPER_STOP, 0, -1);
}

/* --- how it ends ---------------------------------------------------------------------------- */

static bool mount_is_gone(const struct keeper *k)
{
	struct pollfd p = {.fd = k->fuse_fd};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

static void refused(struct keeper *k, int64_t now)
{
	if (!k->ever_ready) {
		keeper_stop_begin(k, 1, now);
		return;
	}
	begin_outage(k, "the hub refuses to serve");
	k->hub_at = now + KEEPER_OUTAGE_DELAY_MAX_MS;
	keeper_say(k, "another hub starts in %d ms", KEEPER_OUTAGE_DELAY_MAX_MS);
}

static void died(struct keeper *k, struct child_end end, bool was_ready, int64_t now)
{
	static const char see_log[] = "; see " KEEPER_LOG_NAME " in the state directory";
	char text[128];

	/*
	 * A hub that served and was killed from outside says nothing about the next one: it starts
	 * at once, however often that happens. What counts is a hub that fails by itself, or never
	 * comes to serve: a request that crashes it is handed to its successors before they are
	 * ready.
	 */
	if (was_ready && end.by_signal && end.value == SIGKILL && !k->outage) {
		k->hub_at = now;
		return;
	}
	k->deaths[k->n_deaths++ % KEEPER_DEATHS_MAX] = now;
	if (was_ready && now - k->ready_since >= KEEPER_MINUTE_MS)
		k->outage_tries = 0;
	if (deaths_lately(k, now) >= KEEPER_DEATHS_MAX) {
		if (!k->ever_ready) {
			(void)snprintf(text, sizeof(text), "%d hubs died before one was ready%s",
				       KEEPER_DEATHS_MAX, k->log_fd >= 0 ? see_log : "");
			keeper_say_refusal(k, text);
			keeper_stop_begin(k, 1, now);
			return;
		}
		begin_outage(k, "too many hubs died");
	}
	schedule(k, now);
}

void keeper_hub_ended(struct keeper *k, struct child_end end, int64_t now)
{
	char how[CHILD_END_MAX];
	bool was_ready;

	/* What it said last may still be in the socket. */
	while (take_message(k, now))
		;
	k->hub_fd = close_fd(k->hub_fd);
	was_ready = k->hub_ready;
	k->hub_ready = false;
	k->hub_kill_at = KEEPER_NEVER;
	child_describe(end, how);
	keeper_say(k, "the hub ended: %s", how);
	if (k->phase != PHASE_RUNNING)
		return;

	if (was_ready)
		k->answer_at = now + KEEPER_OUTAGE_MS;
	if (!end.by_signal && end.value == HUB_EXIT_UNMOUNTED && mount_is_gone(k)) {
		keeper_say(k, "%s was unmounted: ending", k->mountpoint);
		k->unmounted = true;
		keeper_stop_begin(k, 0, now);
	} else if (k->hub_replaced) {
		k->hub_at = now;
	} else if (k->hub_refused || (!end.by_signal && end.value == HUB_EXIT_REFUSED)) {
		refused(k, now);
	} else {
		died(k, end, was_ready, now);
	}
	if (k->phase == PHASE_RUNNING)
		keeper_report(k);
}

bool keeper_answers(struct keeper *k, int64_t now)
{
	struct error err;
	bool alone = k->hub.pid == 0 && !k->hub_abandoned;
	bool answers;

	if (k->phase == PHASE_RUNNING) {
		if (!k->ever_ready || k->hub_ready)
			return false;
		if (keeper_is_due(k, k->answer_at, now))
			begin_outage(k, "there was no hub for too long");
		answers = k->outage && (alone || now >= k->answer_at);
	} else {
		answers = k->hub.pid == 0 && !k->unmounted;
	}
	if (!k->may_serve)
		k->may_serve = fallback_may_serve(k->fallback);
	if (!answers || !k->may_serve)
		return false;
	if (alone && fallback_own(k->fallback, &err) < 0 && !k->own_failed) {
		k->own_failed = true;
		keeper_say_error(k, &err);
	}
	return true;
}

/* --- upgrade -------------------------------------------------------------------------------- */

static int start_check(struct keeper *k, int area_fd, struct error *err)
{
	struct hub_argv a = {.n = 0};
	struct child_command command = {.exe_fd = k->next_fd,
					.path = k->program,
					.fds = {area_fd},
					.n_fds = 1,
					.output_fd = k->log_fd,
					.death_signal = SIGKILL,
					.oom_score_adj = k->oom_score_adj};

	add(&a, "cloopd: hub-check-init");
	add(&a, "hub-check-init");
	add_number(&a, "--area-fd", area_fd);
	add_places(&a, k);
	command.argv = (char *const *)a.argv;
	return child_start(&k->check, &command, err);
}

void keeper_upgrade_begin(struct keeper *k, int64_t now)
{
	AUTO_CLOSE int copy = -1;
	struct error err;

	if (k->phase != PHASE_RUNNING || k->check.pid != 0) {
		keeper_say(k, "upgrade: not now, another one or the end is under way");
		return;
	}
	k->next_fd = close_fd(k->next_fd);
	int r = keeper_open_program(k, &k->next_fd, &err);
	/* The check gets an area of its own: the present hub is at work in the real one. */
	if (r == 0)
		r = area_create_like(k->area_fd, &copy, &err);
	if (r == 0)
		r = start_check(k, copy, &err);
	if (r < 0) {
		keeper_say_error(k, &err);
		keeper_say(k, "upgrade refused: the hub stays as it is");
		return;
	}
	k->check_until = now + KEEPER_CHECK_MS;
	keeper_say(k, "upgrade: %s is being checked by process %d", k->program, k->check.pid);
}

void keeper_upgrade_ended(struct keeper *k, struct child_end end, int64_t now)
{
	char how[CHILD_END_MAX];

	if (end.by_signal || end.value != 0) {
		child_describe(end, how);
		keeper_say(k,
			   "upgrade refused: hub-check-init of %s ended with %s; the hub stays as "
			   "it is",
			   k->program, how);
		k->next_fd = close_fd(k->next_fd);
		return;
	}
	if (k->phase != PHASE_RUNNING)
		return;
	(void)close_fd(k->program_fd);
	k->program_fd = take_fd(&k->next_fd);
	k->n_deaths = 0;
	k->outage_tries = 0;
	keeper_say(k, "upgrade: %s is accepted", k->program);
	/* The nudger speaks with the hub: both are of one build. */
	k->run_nudger.failures = 0;
	child_kill(&k->run_nudger.child, SIGKILL);
	/* So does the launcher; its shims go on without it. */
	k->run_launcher.failures = 0;
	child_kill(&k->run_launcher.child, SIGTERM);
	if (k->hub.pid == 0) {
		k->hub_at = now;
		return;
	}
	k->hub_replaced = true;
	k->hub_kill_at = now + KEEPER_STOP_HUB_MS;
	child_kill(&k->hub, SIGTERM);
}
