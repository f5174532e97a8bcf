/* Helper programs of the hub: a runner each, and what is left when one is killed. */
#include "drivers/shim/launcher_internal.h"

#include <errno.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/runner.h"

static void refuse(int control_fd, int error)
{
	struct shim_message m;

	/* A socket that is closed with something unread in it resets the other end, which then does
	 * not see the answer. */
	(void)shim_message_recv(control_fd, &m, NULL);
	shim_message_init(&m, SHIM_FAILED, 0, 0);
	m.body.failure.error = error;
	m.body.failure.step = SHIM_STEP_SHIM;
	(void)shim_message_send(control_fd, &m, -1);
}

/* No group of an earlier launcher, or of another machine's boot, has the same name. */
static uint64_t new_group(struct launcher *l)
{
	uint64_t now = (uint64_t)clock_boot_ns();

	l->last_run_group = now > l->last_run_group ? now : l->last_run_group + 1;
	return l->last_run_group;
}

static struct run_slot *find_free_run(struct launcher *l)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (l->runs[i].pid == 0)
			return &l->runs[i];
	return NULL;
}

void launcher_run(struct launcher *l, int control_fd)
{
	struct run_slot *slot = find_free_run(l);

	if (!slot) {
		refuse(control_fd, EAGAIN);
		return;
	}
	uint64_t group = new_group(l);
	int r = fault_point("launcher.run");
	pid_t pid = r < 0 ? -1 : fork();
	if (pid < 0) {
		refuse(control_fd, r < 0 ? -r : errno);
		return;
	}
	if (pid == 0) {
		launcher_close_all(l);
		runner_run(&l->host, control_fd, group);
	}
	slot->pid = pid;
	slot->group = group;
}

bool launcher_is_runner(const struct launcher *l, pid_t pid)
{
	for (size_t i = 0; i < RUNS_MAX; i++)
		if (l->runs[i].pid == pid)
			return true;
	return false;
}

void launcher_on_runner_death(struct launcher *l, pid_t pid, bool clean)
{
	for (size_t i = 0; i < RUNS_MAX; i++) {
		if (l->runs[i].pid != pid)
			continue;
		struct reap reap = {.serial = l->runs[i].group, .attempt = RUNNER_ATTEMPT};

		l->runs[i].pid = 0;
		if (!clean)
			launcher_add_reap(l, &reap);
		return;
	}
}
