#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>

#include "fs/keeper_internal.h"
#include "fs/keeper_log.h"
#include "fs/mount.h"
#include "fs/mountinfo.h"
#include "fs/place.h"

static void enter(struct keeper *k, enum keeper_phase phase, int64_t until)
{
	k->phase = phase;
	k->phase_until = until;
	k->phase_forced = false;
}

void keeper_stop_begin(struct keeper *k, int exit_status, int64_t now)
{
	if (k->phase != PHASE_RUNNING)
		return;
	k->exit_status = exit_status;
	if (k->check.pid != 0)
		child_abandon(&k->check);
	enter(k, PHASE_STOP_HUB, now + KEEPER_STOP_HUB_MS);
	keeper_report(k);
	/* One that does not serve yet has nobody to say goodbye to. */
	if (k->hub_ready && !k->unmounted)
		keeper_hub_tell_stop(k);
	else
		child_kill(&k->hub, SIGKILL);
}

/* Whether the phase's time is over; then what is left is killed, and soon after given up. */
static bool gives_up(struct keeper *k, int64_t now, struct child *const *children, size_t n)
{
	if (!keeper_is_due(k, k->phase_until, now))
		return false;
	if (k->phase_forced)
		return true;
	for (size_t i = 0; i < n; i++) {
		if (children[i]->pid != 0)
			keeper_say(k, "process %d does not end: killed", children[i]->pid);
		child_kill(children[i], SIGKILL);
	}
	k->phase_forced = true;
	k->phase_until = now + KEEPER_KILLED_MS;
	(void)keeper_is_due(k, k->phase_until, now);
	return false;
}

static void stop_hub(struct keeper *k, int64_t now)
{
	struct child *children[] = {&k->hub};

	if (k->hub.pid != 0) {
		if (!gives_up(k, now, children, ARRAY_SIZE(children)))
			return;
		k->hub_abandoned = true;
		child_abandon(&k->hub);
	}
	enter(k, PHASE_STOP_CHILDREN, now + KEEPER_STOP_CHILDREN_MS);
	/* Shims and their workloads are no business of this: they live on without a launcher. */
	child_kill(&k->run_launcher.child, SIGTERM);
	/* It may have files of the mount open, which would be busy. */
	child_kill(&k->run_nudger.child, SIGKILL);
}

static void stop_children(struct keeper *k, int64_t now)
{
	struct child *children[] = {&k->run_launcher.child, &k->run_nudger.child};

	if (children[0]->pid != 0 || children[1]->pid != 0) {
		if (!gives_up(k, now, children, ARRAY_SIZE(children)))
			return;
		child_abandon(children[0]);
		child_abandon(children[1]);
	}
	enter(k, PHASE_STOP_MOUNT, now + KEEPER_STOP_BUSY_MS);
	k->unmount_at = now;
}

/* Whether what lies at the mountpoint is this keeper's mount. */
static bool is_mounted(struct keeper *k)
{
	struct mountinfo m;
	struct error err;
	int r = mountinfo_find(k->mountpoint, &m, &err);

	if (r < 0)
		keeper_say_error(k, &err);
	if (r == 1 && m.dev != k->mount_dev)
		keeper_say(k, "something else (%s, type %s) is mounted over %s: left alone",
			   m.source, m.type, k->mountpoint);
	return r == 1 && m.dev == k->mount_dev;
}

static void start_unmounter(struct keeper *k, bool lazy)
{
	const char *argv[MOUNT_REMOVE_ARGV];
	const struct child_command command = {.exe_fd = -1,
					      .path = "fusermount3",
					      .argv = (char *const *)argv,
					      .output_fd = k->log_fd,
					      .oom_score_adj = CHILD_OOM_KEEP};
	struct error err;

	mount_remove_argv(k->mountpoint, lazy, argv);
	if (child_start(&k->unmounter, &command, &err) < 0)
		keeper_say_error(k, &err);
}

/*
 * Tries until nobody is in the tree any more; then lazily. Meanwhile the keeper answers what those
 * who leave have to say.
 */
static void stop_mount(struct keeper *k, int64_t now)
{
	if (k->unmounter.pid != 0 &&
	    !keeper_is_due(k, k->unmounter.started_ms + MOUNT_HELPER_MS, now))
		return;
	child_abandon(&k->unmounter);
	if (k->unmounted || !is_mounted(k)) {
		enter(k, PHASE_DONE, now);
		return;
	}
	if (k->phase_forced) {
		keeper_say(k, "%s could not be unmounted", k->mountpoint);
		enter(k, PHASE_DONE, now);
		return;
	}
	if (!keeper_is_due(k, k->unmount_at, now))
		return;
	bool lazy = now >= k->phase_until;
	if (lazy) {
		keeper_say(k, "%s is busy: unmounted lazily, who still uses it gets errors",
			   k->mountpoint);
		k->phase_forced = true;
	}
	if (mount_is_direct())
		(void)mount_remove(k->mountpoint, lazy, NULL);
	else
		start_unmounter(k, lazy);
	k->unmount_at = now + KEEPER_STOP_RETRY_MS;
	if (k->unmounter.pid != 0)
		return;
	/* At once, so that nobody waits for a success that is there already. */
	if (!is_mounted(k))
		enter(k, PHASE_DONE, now);
	else
		(void)keeper_is_due(k, k->unmount_at, now);
}

void keeper_stop_step(struct keeper *k, int64_t now)
{
	switch (k->phase) {
	case PHASE_STOP_HUB:
		stop_hub(k, now);
		break;
	case PHASE_STOP_CHILDREN:
		stop_children(k, now);
		break;
	case PHASE_STOP_MOUNT:
		stop_mount(k, now);
		break;
	default:
		break;
	}
}

/* --- cloopd stop ---------------------------------------------------------------------------- */

/* The keeper of the directory, by a descriptor that stays its own. */
static int find_keeper(int dir_fd, const char *path, pid_t *ret_pid, int *ret_pidfd,
		       struct error *err)
{
	pid_t pid = 0, again = 0;
	int r = place_lock_holder(dir_fd, path, &pid, err);

	if (r == 0 && pid == 0) {
		(void)error_set(err, ESRCH, "no cloopd runs with the state directory %s", path);
		error_remedy(err, "name the one that it was started with, with --state-dir");
		return -ESRCH;
	}
	if (r < 0)
		return r;
	AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0)
		return error_set(err, errno, "cannot watch cloopd with pid %d: %s", pid,
				 strerror(errno));
	/* The number may be another process's by now; that one does not hold the lock. */
	r = place_lock_holder(dir_fd, path, &again, err);
	if (r == 0 && again != pid)
		return error_set(err, ESRCH, "cloopd with pid %d ended just now", pid);
	if (r < 0)
		return r;
	*ret_pid = pid;
	*ret_pidfd = take_fd(&pidfd);
	return 0;
}

static int stop(const char *state_dir, struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir_fd = -1, pidfd = -1;
	pid_t pid = 0;
	int64_t until = child_now_ms() + KEEPER_STOP_WAIT_MS;
	int r = place_resolve(state_dir, &path, err);

	if (r == 0)
		r = place_open(PLACE_STATE, path, false, &dir_fd, err);
	if (r == 0)
		r = find_keeper(dir_fd, path, &pid, &pidfd, err);
	if (r < 0)
		return r;
	if (pidfd_send_signal(pidfd, SIGTERM, NULL, 0) < 0)
		return errno == ESRCH ? 0
				      : error_set(err, errno, "cannot stop cloopd with pid %d: %s",
						  pid, strerror(errno));
	for (;;) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};
		int64_t left = until - child_now_ms();

		if (left <= 0)
			return error_set(err, ETIMEDOUT,
					 "cloopd with pid %d did not end within %d s", pid,
					 KEEPER_STOP_WAIT_MS / 1000);
		if (poll(&p, 1, (int)left) == 1)
			return 0;
	}
}

int keeper_stop(const struct options *o)
{
	struct error err;

	if (stop(o->state_dir, &err) == 0)
		return 0;
	keeper_log_error(&err);
	return 1;
}
