#include "drivers/shim/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/process.h"
#include "drivers/shim/session_dir.h"
#include "drivers/shim/workload_client.h"

/* Where the report pipe stays when all other descriptors are closed. */
#define REPORT_FD 3

/* Everything below runs in the new process, up to workload_spawn(). */

void workload_fail(const struct workload_plan *p, enum shim_step step, int error, const char *path)
{
	struct shim_failure failure = {.error = error, .step = step};

	/* To whoever asked for a container its runtime is not a program of theirs. */
	if (p->client && step >= SHIM_STEP_EXEC && step <= SHIM_STEP_INTERPRETER)
		failure.step = SHIM_STEP_RUNTIME_EXEC;
	if (path)
		(void)strncpy(failure.path, path, sizeof(failure.path) - 1);
	(void)!write(p->report_fd, &failure, sizeof(failure));
	_exit(127);
}

static void reset_signals(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int sig = 1; sig < _NSIG; sig++)
		(void)sigaction(sig, &sa, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void reset_oom_score(const char *score)
{
	AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, score, strlen(score));
}

static void set_streams(struct workload_plan *p)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* The pipes have higher numbers: the shim keeps 0, 1 and 2 on /dev/null. */
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(p->stdout_fd, STDOUT_FILENO) < 0 ||
	    dup2(p->stderr_fd, STDERR_FILENO) < 0)
		workload_fail(p, SHIM_STEP_PROCESS, errno, "/dev/null");
	/* Also what somebody forgot to open close-on-exec, and the session's lock. */
	if (p->report_fd != REPORT_FD && dup3(p->report_fd, REPORT_FD, O_CLOEXEC) < 0)
		workload_fail(p, SHIM_STEP_PROCESS, errno, NULL);
	p->report_fd = REPORT_FD;
	if (syscall(SYS_close_range, REPORT_FD + 1U, ~0U, 0) < 0)
		workload_fail(p, SHIM_STEP_PROCESS, errno, NULL);
}

static void become_user(const struct workload_plan *p)
{
	const struct launch_header *h = p->record->header;

	/* Best effort: a kernel without keys has none to leak. Done as root, whose quota is
	 * ample. */
	(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);

	if (p->origin->can_setuid) {
		/* Pipes are their maker's: the user could write to them, but not open /dev/stderr. */
		(void)!fchown(STDOUT_FILENO, h->uid, h->gid);
		(void)!fchown(STDERR_FILENO, h->uid, h->gid);
		_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "groups are used in place");
		if (setgroups(h->n_groups, p->record->groups) < 0 ||
		    setresgid(h->gid, h->gid, h->gid) < 0 || setresuid(h->uid, h->uid, h->uid) < 0)
			workload_fail(p, SHIM_STEP_CREDENTIALS, errno, NULL);
	} else if (h->uid != geteuid()) {
		workload_fail(p, SHIM_STEP_CREDENTIALS, EPERM, NULL);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		workload_fail(p, SHIM_STEP_CREDENTIALS, errno, NULL);
}

/* Dies with the shim. A change of uid clears this, so it comes after that. */
static void follow_shim(const struct workload_plan *p, pid_t shim)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		workload_fail(p, SHIM_STEP_PROCESS, errno, NULL);
	if (getppid() != shim)
		_exit(127);
}

int workload_on_device(int fd, const char *path, uint64_t device)
{
	struct statx stx;
	int flags = AT_STATX_DONT_SYNC | (path[0] == '\0' ? AT_EMPTY_PATH : 0);

	if (statx(fd, path, flags, STATX_TYPE, &stx) < 0)
		return -errno;
	return device != 0 && makedev(stx.stx_dev_major, stx.stx_dev_minor) == device;
}

static void enter_work_dir(const struct workload_plan *p)
{
	const char *path = p->record->work_dir;
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		workload_fail(p, SHIM_STEP_WORK_DIR, errno, path);
	int forbidden = workload_on_device(fd, "", p->record->header->forbidden_dev);
	if (forbidden < 0)
		workload_fail(p, SHIM_STEP_WORK_DIR, -forbidden, path);
	if (forbidden)
		workload_fail(p, SHIM_STEP_WORK_DIR_MOUNT, EINVAL, path);
	if (fchdir(fd) < 0)
		workload_fail(p, SHIM_STEP_WORK_DIR, errno, path);
}

static char **argv_of(const struct workload_plan *p)
{
	return p->client ? p->client->argv : p->record->argv;
}

/* Executes one file; returns the errno when that cannot be. */
static int execute(const struct workload_plan *p, const char *file)
{
	int forbidden = workload_on_device(AT_FDCWD, file, p->record->header->forbidden_dev);

	if (forbidden < 0)
		return -forbidden;
	if (forbidden)
		workload_fail(p, SHIM_STEP_EXEC_MOUNT, EINVAL, file);
	(void)execve(file, argv_of(p), p->record->env);
	/* The file was there a moment ago. */
	if (errno == ENOENT && faccessat(AT_FDCWD, file, F_OK, 0) == 0)
		workload_fail(p, SHIM_STEP_INTERPRETER, ENOENT, file);
	return errno;
}

/* Joins a directory of PATH ("" is the working directory) and a name. False when too long. */
static bool join_path(const char *dir, size_t len, const char *name, char ret[static PATH_MAX])
{
	size_t name_len = strlen(name);

	if (len + 1 + name_len >= PATH_MAX)
		return false;
	memcpy(ret, dir, len);
	if (len > 0)
		ret[len++] = '/';
	memcpy(ret + len, name, name_len + 1);
	return true;
}

__attribute__((noreturn)) static void search_and_execute(const struct workload_plan *p)
{
	const char *name = argv_of(p)[0], *dirs = launch_record_env(p->record, "PATH");
	char file[PATH_MAX], refused[PATH_MAX] = "";
	int refused_error = 0;

	if (!dirs)
		dirs = WORKLOAD_PATH;
	for (;;) {
		size_t len = strcspn(dirs, ":");

		if (join_path(dirs, len, name, file)) {
			int error = execute(p, file);

			/* As execvp(): a directory that has no such program is passed over, also
			 * one that may not be searched; anything else is about this program. */
			if (error == EACCES) {
				if (refused_error == 0)
					memcpy(refused, file, sizeof(refused));
				refused_error = EACCES;
			} else if (error != ENOENT && error != ENOTDIR && error != ENODEV &&
				   error != ESTALE && error != ETIMEDOUT && error != ELOOP) {
				workload_fail(p, SHIM_STEP_EXEC, error, file);
			}
		}
		if (dirs[len] == '\0')
			break;
		dirs += len + 1;
	}
	if (refused_error != 0)
		workload_fail(p, SHIM_STEP_EXEC, refused_error, refused);
	workload_fail(p, SHIM_STEP_EXEC_SEARCH, ENOENT, name);
}

__attribute__((noreturn)) static void become_workload(const struct workload_plan *plan, pid_t shim,
						      bool in_unified)
{
	struct workload_plan copy = *plan, *p = &copy;
	uint64_t starttime = 0;
	pid_t pid = getpid();

	(void)fault_point("workload.cloned");
	(void)process_starttime(pid, &starttime);
	/* Not fatal: only the reaping of orphans without a control group uses it. */
	(void)session_started_set_pid(p->started_fd, pid, starttime);
	if (p->cgroup) {
		int r = cgroup_join_self(p->cgroup, in_unified);

		if (r < 0)
			workload_fail(p, SHIM_STEP_CGROUP, -r, "cgroup.procs");
	}
	(void)setsid();
	(void)umask(022);
	reset_signals();
	reset_oom_score(p->origin->oom_score_adj);
	(void)setrlimit(RLIMIT_NOFILE, &p->origin->nofile);
	set_streams(p);
	if (p->client) {
		follow_shim(p, shim);
		workload_client_prepare(p);
	} else {
		become_user(p);
		follow_shim(p, shim);
		enter_work_dir(p);
	}
	(void)fault_point("workload.exec");

	const char *file = argv_of(p)[0];
	if (!strchr(file, '/'))
		search_and_execute(p);
	workload_fail(p, SHIM_STEP_EXEC, execute(p, file), file);
}

/* clone3() as fork, with a pidfd, into the unified group when into >= 0. */
static pid_t clone_process(int into, int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};

	if (into >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (__u64)into;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}

int workload_spawn(const struct workload_plan *plan, pid_t *ret_pid, int *ret_pidfd)
{
	int into = plan->cgroup ? plan->cgroup->unified_fd : -1;
	bool in_unified = into >= 0;
	pid_t shim = getpid();
	int pidfd = -1;

	int r = fault_point("shim.clone");
	if (r < 0)
		return r;
	pid_t pid = clone_process(into, &pidfd);
	/* Not a cgroup v2 directory (as in a test's tree), or a kernel before 5.7. */
	if (pid < 0 && in_unified &&
	    (errno == EBADF || errno == E2BIG || errno == EINVAL || errno == EOPNOTSUPP)) {
		in_unified = false;
		pid = clone_process(-1, &pidfd);
	}
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become_workload(plan, shim, in_unified);
	*ret_pid = pid;
	*ret_pidfd = pidfd;
	return 0;
}

pid_t workload_spawn_helper(const struct workload_origin *origin, char *const *argv,
			    char *const *env)
{
	pid_t shim = getpid(), pid = fork();
	int null;

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	(void)setsid();
	reset_signals();
	reset_oom_score(origin->oom_score_adj);
	(void)setrlimit(RLIMIT_NOFILE, &origin->nofile);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != shim)
		_exit(127);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0 || syscall(SYS_close_range, STDERR_FILENO + 1U, ~0U, 0) < 0)
		_exit(127);
	environ = (char **)(uintptr_t)env;
	(void)execvp(argv[0], argv);
	_exit(127);
}
