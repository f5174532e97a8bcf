#include "drivers/shim/reaper.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/boot_id.h"
#include "core/owner.h"
#include "drivers/shim/session_dir.h"

/* Returns 1 when the group is gone. */
static int reap_group(const struct shim_host *host, uint64_t serial, uint32_t attempt)
{
	char name[CGROUP_NAME_MAX];
	struct cgroup group;

	cgroup_name(serial, attempt, name);
	if (cgroup_open(&host->cgroups, name, &group) < 0) {
		cgroup_remove_everywhere(&host->cgroups, name);
		return 1;
	}
	if (cgroup_populated(&group) == 1)
		(void)cgroup_kill(&group);
	int r = cgroup_remove(&host->cgroups, &group);
	cgroup_close(&group);
	if (r == 0)
		cgroup_remove_everywhere(&host->cgroups, name);
	return r == 0;
}

/* The process that `started` names, and what is below it. Returns 1 when it is gone. */
static int reap_recorded(int dir, uint64_t serial, uint32_t attempt)
{
	struct session_started started;
	uint8_t boot_id[BOOT_ID_BYTES];

	if (session_started_read(dir, serial, attempt, &started) < 0 || started.pid <= 1 ||
	    boot_id_read(boot_id) < 0 || memcmp(boot_id, started.boot_id, sizeof(boot_id)) != 0)
		return 1;
	if (process_signal_exact(started.pid, started.pid_starttime, SIGSTOP) < 0)
		return 1;
	(void)process_tree_kill(started.pid, NULL);
	(void)process_signal_exact(started.pid, started.pid_starttime, SIGKILL);
	return 0;
}

int reaper_round(const struct shim_host *host, uint64_t serial, uint32_t attempt, bool check_lock,
		 const struct process_filter *spare)
{
	AUTO_CLOSE int dir = session_dir_open(host->sessions_fd, serial);
	char name[SESSION_NAME_MAX];

	if (check_lock) {
		if (dir >= 0 && session_dir_locked(dir) == 1)
			return -EBUSY;
		/* Nobody starts another attempt while the hub waits for the answer. */
		session_dir_name(serial, name);
		(void)unlinkat(host->sockets_fd, name, 0);
	}
	int r = reap_group(host, serial, attempt);
	if (process_tree_kill(getpid(), spare) > 0)
		r = 0;
	if (dir >= 0 && reap_recorded(dir, serial, attempt) == 0)
		r = 0;
	return r;
}
