#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/keeper_internal.h"
#include "fs/keeper_log.h"

/* Decimal digits of an int and the NUL. */
#define NUMBER_MAX 12

static void try_later(struct keeper_helper *h, int64_t now)
{
	int64_t delay = 0;

	if (h->failures > 0) {
		unsigned doublings = h->failures - 1;

		delay = doublings < 16 ? (int64_t)KEEPER_HELPER_DELAY_MS << doublings
				       : KEEPER_HELPER_DELAY_MAX_MS;
		if (delay > KEEPER_HELPER_DELAY_MAX_MS)
			delay = KEEPER_HELPER_DELAY_MAX_MS;
	}
	h->failures++;
	h->start_at = now + delay;
}

static void start(struct keeper *k, struct keeper_helper *h, const struct child_command *command,
		  int64_t now)
{
	struct error err;

	if (child_start(&h->child, command, &err) < 0) {
		keeper_say_error(k, &err);
		try_later(h, now);
		return;
	}
	keeper_say(k, "%s %d started", h->name, h->child.pid);
}

static void start_launcher(struct keeper *k, int64_t now)
{
	char sessions[PATH_MAX], listen_fd[NUMBER_MAX];
	char *argv[] = {(char *)"cloop-launcher",
			(char *)"--sessions-dir",
			sessions,
			(char *)"--runtime-dir",
			k->runtime_dir,
			(char *)"--listen-fd",
			listen_fd,
			NULL};
	const struct child_command command = {
		.exe_fd = -1,
		.path = k->launcher,
		.argv = argv,
		.fds = {k->launcher_fd},
		.n_fds = 1,
		.output_fd = k->log_fd,
		.death_signal = SIGTERM,
		/* The one that workloads inherit; its shims lower theirs. */
		.oom_score_adj = k->oom_score_adj};

	(void)snprintf(sessions, sizeof(sessions), "%s/sessions", k->state_dir);
	(void)snprintf(listen_fd, sizeof(listen_fd), "%d", k->launcher_fd);
	start(k, &k->run_launcher, &command, now);
}

/*
 * The nudger makes calls into the mount and may hang in any of them, so it gets nothing that the
 * keeper or a hub could wait for: a fresh pair of sockets, and SIGKILL as its end.
 */
static void start_nudger(struct keeper *k, int64_t now)
{
	char socket_fd[NUMBER_MAX];
	char *argv[] = {(char *)"cloopd: nudger",
			(char *)"nudger",
			(char *)"--mountpoint",
			k->mountpoint,
			(char *)"--socket-fd",
			socket_fd,
			NULL};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0) {
		keeper_say(k, "cannot make a socket for the nudger: %s", strerror(errno));
		try_later(&k->run_nudger, now);
		return;
	}
	const struct child_command command = {.exe_fd = k->program_fd,
					      .path = k->program,
					      .argv = argv,
					      .fds = {pair[1]},
					      .n_fds = 1,
					      .output_fd = k->log_fd,
					      .death_signal = SIGKILL,
					      .oom_score_adj = k->oom_score_adj,
					      .raise_files = true};
	(void)snprintf(socket_fd, sizeof(socket_fd), "%d", pair[1]);
	start(k, &k->run_nudger, &command, now);
	(void)close(pair[1]);
	(void)close_fd(k->nudger_fd);
	k->nudger_fd = pair[0];
	keeper_hub_tell_nudger(k);
}

void keeper_helper_step(struct keeper *k, int64_t now)
{
	if (k->run_launcher.child.pid == 0 && keeper_is_due(k, k->run_launcher.start_at, now))
		start_launcher(k, now);
	if (k->run_nudger.child.pid == 0 && keeper_is_due(k, k->run_nudger.start_at, now))
		start_nudger(k, now);
	/* A start that failed has a new time. */
	if (k->run_launcher.child.pid == 0)
		(void)keeper_is_due(k, k->run_launcher.start_at, now);
	if (k->run_nudger.child.pid == 0)
		(void)keeper_is_due(k, k->run_nudger.start_at, now);
}

void keeper_helper_ended(struct keeper *k, struct keeper_helper *h, struct child_end end,
			 int64_t now)
{
	char how[CHILD_END_MAX];

	if (k->phase != PHASE_RUNNING)
		return;
	if (now - h->child.started_ms >= KEEPER_MINUTE_MS)
		h->failures = 0;
	try_later(h, now);
	child_describe(end, how);
	keeper_say(k, "%s ended: %s; another one starts in %lld ms", h->name, how,
		   (long long)(h->start_at - now));
}
