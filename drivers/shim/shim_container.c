/*
 * Containers: from the runtime's client to a container that is removed.
 *
 *	client runs      nothing is known yet; what it writes is its own
 *	client is done   0: the container runs, its monitor is our child; else: it never ran
 *	monitor is done  the container has ended, and the runtime has removed it
 *
 * Killing is through the control group and the container's first process; monitor and runtime then
 * notice, and clean up. What they do not manage in LIMIT_MS is killed too, and the container is
 * removed by the record's own command.
 */
#include "drivers/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/process.h"
#include "drivers/shim/session_dir.h"

/* Names in the session's folder; the driver's arguments have them, too. */
#define MONITOR_PID_FILE SHIM_CONTAINER_MONITOR_PID
#define INIT_PID_FILE SHIM_CONTAINER_INIT_PID
#define ID_FILE SHIM_CONTAINER_ID
#define STAGE_DIR "stage"

/* A runtime that removes a container takes a second or two on a busy machine. */
#define LIMIT_MS 60000
#define REMOVE_TRIES 10
#define TURN_MS 500
#define PID_TEXT_MAX 32
#define COMMAND_LINE_MAX 16384
/* What a client says is one line; more of it is not looked at. */
#define CLIENT_TEXT_MAX 16384

/* --- before the launch ---------------------------------------------------------------------- */

void shim_container_free_client(struct workload_client *client)
{
	free(client->argv);
	*client = (struct workload_client){0};
}

/* Absolute paths in the session's folder, one after the other in *at. */
static char *put_path(char **at, char *end, const char *folder, const char *name)
{
	char *path = *at;
	int n = snprintf(path, (size_t)(end - path), "%s%s%s", folder, name[0] ? "/" : "", name);

	if (n < 0 || n >= end - path)
		return NULL;
	*at = path + n + 1;
	return path;
}

static int folder_path(const struct shim *shim, char ret[static PATH_MAX])
{
	char link[32];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", shim->s.dir_fd);
	ssize_t n = readlink(link, ret, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return n < PATH_MAX - 1 ? 0 : -ENAMETOOLONG;
}

static int make_folders(const struct shim_session *s)
{
	const struct launch_header *h = s->record.header;

	/* Of an attempt that failed: a runtime insists on making some of them itself. */
	(void)unlinkat(s->dir_fd, ID_FILE, 0);
	(void)unlinkat(s->dir_fd, MONITOR_PID_FILE, 0);
	(void)unlinkat(s->dir_fd, INIT_PID_FILE, 0);
	if (mkdirat(s->dir_fd, STAGE_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (s->record.work_dir[0] != '\0')
		return 0;
	int r = session_private_remove(s->dir_fd);
	if (r < 0)
		return r;
	if (mkdirat(s->dir_fd, SESSION_PRIVATE, 0700) < 0)
		return -errno;
	if (geteuid() == 0 &&
	    fchownat(s->dir_fd, SESSION_PRIVATE, h->private_uid, h->private_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int shim_container_prepare(struct shim *shim, struct workload_client *ret)
{
	struct shim_session *s = &shim->s;
	const struct launch_header *h = s->record.header;
	CLEANUP(shim_container_free_client) struct workload_client c = {0};
	char folder[PATH_MAX];
	size_t longest = 0;

	int r = make_folders(s);
	if (r == 0)
		r = folder_path(shim, folder);
	if (r < 0)
		return shim_launch_fail(s, SHIM_STEP_SESSION_DIR, r, NULL);
	for (uint32_t i = 0; i < h->n_edits; i++) {
		size_t len = strlen(s->record.argv[s->record.edits[i].arg]);

		longest = len > longest ? len : longest;
	}
	/* One piece: arguments, pointers to the room, the room, and five paths. */
	c.room_bytes = PATH_MAX + longest + 1;
	size_t pointers = ((size_t)h->n_argv + 1 + h->n_edits) * sizeof(char *);
	size_t size = pointers + h->n_edits * c.room_bytes + 5 * PATH_MAX;
	c.argv = calloc(1, size);
	if (!c.argv)
		return shim_launch_fail(s, SHIM_STEP_PROCESS, -ENOMEM, NULL);
	memcpy(c.argv, s->record.argv, h->n_argv * sizeof(char *));
	char **room = c.argv + h->n_argv + 1;
	char *at = (char *)c.argv + pointers, *end = (char *)c.argv + size;
	for (uint32_t i = 0; i < h->n_edits; i++, at += c.room_bytes)
		room[i] = at;
	c.room = room;
	c.made_work_dir = s->record.work_dir[0] == '\0';
	c.folder = put_path(&at, end, folder, "");
	c.stage = put_path(&at, end, folder, STAGE_DIR);
	c.work_dir = c.made_work_dir ? put_path(&at, end, folder, SESSION_PRIVATE) : s->record.work_dir;
	c.group = at;
	if (s->has_cgroup)
		(void)snprintf(at, (size_t)(end - at), "/%s/%s", shim->host->cgroups.path, s->cgroup.name);
	if (!c.folder || !c.stage || !c.work_dir)
		return shim_launch_fail(s, SHIM_STEP_SESSION_DIR, -ENAMETOOLONG, folder);
	if (s->has_cgroup)
		s->container.oom_fd = cgroup_watch_oom(&shim->host->cgroups, &s->cgroup);
	*ret = c;
	c = (struct workload_client){0};
	return 0;
}

/* Copies strings of the record, which goes when the container runs. */
static char **keep_strings(char *const *strings, size_t n, char ***pointers, char **text)
{
	char **kept = *pointers;

	for (size_t i = 0; i < n; i++) {
		kept[i] = *text;
		*text = stpcpy(*text, strings[i]) + 1;
	}
	kept[n] = NULL;
	*pointers += n + 1;
	return kept;
}

static size_t strings_size(char *const *strings, size_t n)
{
	size_t size = (n + 1) * sizeof(char *);

	for (size_t i = 0; i < n; i++)
		size += strlen(strings[i]) + 1;
	return size;
}

void shim_container_executed(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;
	const struct launch_header *h = s->record.header;
	size_t size = strings_size(s->record.remove, h->n_remove) +
		      strings_size(s->record.env, h->n_runtime_env);
	char **pointers = calloc(1, size);

	c->remove_memory = pointers;
	if (pointers) {
		char *text = (char *)(pointers + h->n_remove + h->n_runtime_env + 2);

		c->remove_argv = keep_strings(s->record.remove, h->n_remove, &pointers, &text);
		c->remove_env = keep_strings(s->record.env, h->n_runtime_env, &pointers, &text);
	}
	(void)fault_point("shim.client_running");
}

void shim_container_release(struct shim_container *c)
{
	c->oom_fd = close_fd(c->oom_fd);
	free(c->remove_memory);
	c->remove_memory = NULL;
}

/* --- the client ends, and what it leaves ---------------------------------------------------- */

static pid_t read_pid(const struct shim_session *s, const char *name)
{
	char text[PID_TEXT_MAX];
	AUTO_CLOSE int fd = openat(s->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	long pid = strtol(text, NULL, 10);
	return pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

/* Where the runtime keeps the container: an option of its monitor. */
static void find_bundle(struct shim_container *c, pid_t monitor)
{
	char path[64], text[COMMAND_LINE_MAX];
	size_t len = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)monitor);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && len < sizeof(text) - 1) {
		ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	for (const char *p = text; p < text + len; p += strlen(p) + 1) {
		const char *value = p + strlen(p) + 1;

		if (strcmp(p, "-b") != 0 || value >= text + len || value[0] != '/' ||
		    strlen(value) >= sizeof(c->bundle))
			continue;
		(void)strcpy(c->bundle, value);
		return;
	}
}

/* The container's first process, held so that it cannot be taken for another. */
static void hold_init(struct shim_session *s, pid_t init, pid_t monitor)
{
	AUTO_CLOSE int fd = init > 0 ? (int)syscall(SYS_pidfd_open, init, 0) : -1;

	s->container.init = init;
	if (fd < 0 || process_parent(init) != monitor) {
		s->container.dead = true;
		return;
	}
	s->pid_fd = take_fd(&fd);
}

void shim_container_died(struct shim_session *s)
{
	s->exit.finished_at_ns = clock_now_ns();
	shim_drain(s);
	s->container.dead = true;
}

static void set_limit(struct shim_container *c)
{
	c->limit_ns = clock_boot_ns() + LIMIT_MS * CLOCK_NS_PER_MS;
}

static void monitor_reaped(struct shim_session *s, int status)
{
	s->reaped = true;
	s->wait_status = status;
	if (!s->container.dead)
		shim_container_died(s);
	set_limit(&s->container);
}

/* What the client said last, in one line of printable text. */
static void client_text(struct shim_session *s, char ret[static SHIM_PATH_MAX])
{
	static const char prefix[] = "Error: ";
	char text[CLIENT_TEXT_MAX];
	ssize_t n = s->err_fd < 0 ? 0 : read(s->err_fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' && *p != '\n')
			*p = '?';
	for (char *end = text + strlen(text); end > text && end[-1] == '\n';)
		*--end = '\0';
	char *last = strrchr(text, '\n');
	last = last ? last + 1 : text;
	if (strncmp(last, prefix, strlen(prefix)) == 0)
		last += strlen(prefix);
	/* A sentence shows no more of it (SHIM_PATH_MAX). */
	size_t len = strnlen(last, SHIM_PATH_MAX - 1);
	memcpy(ret, last, len);
	ret[len] = '\0';
}

/* Codes of podman and docker: 126 and 127 are about the command, the rest is about them. */
static void client_failed(struct shim_session *s, int status)
{
	char text[SHIM_PATH_MAX];
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0, error = EIO;

	client_text(s, text);
	if (WIFSIGNALED(status))
		(void)snprintf(text, sizeof(text), "it was killed by signal %d", WTERMSIG(status));
	if (code == 126)
		error = EACCES;
	if (code == 127)
		error = ENOENT;
	(void)shim_launch_fail(s, SHIM_STEP_RUNTIME, -error, text);
	s->failed = s->reaped = true;
	s->phase = SHIM_PHASE_ENDING;
	set_limit(&s->container);
}

static void send_pending(struct shim *shim)
{
	uint64_t pending = shim->s.container.pending;

	shim->s.container.pending = 0;
	for (int sig = 1; sig < 64; sig++)
		if ((pending & (UINT64_C(1) << sig)) != 0)
			shim_container_signal(shim, sig);
}

static void client_reaped(struct shim *shim, int status)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;

	s->report_fd = close_fd(s->report_fd);
	s->pid_fd = close_fd(s->pid_fd);
	if (s->phase != SHIM_PHASE_LAUNCHING)
		return; /* its failure was reported through the pipe */
	c->client_done = true;
	if (c->cut_short) {
		/* Asked for before it came to run: as if it had been killed at once. */
		c->dead = true;
		shim_begin_running(shim);
		monitor_reaped(s, SIGKILL);
		s->exit.finished_at_ns = clock_now_ns();
		return;
	}
	pid_t monitor = read_pid(s, MONITOR_PID_FILE);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || monitor == 0) {
		client_failed(s, status);
		return;
	}
	uint64_t starttime = 0;
	s->pid = monitor;
	find_bundle(c, monitor);
	(void)process_starttime(monitor, &starttime);
	(void)session_started_set_pid(s->started_fd, monitor, starttime);
	hold_init(s, read_pid(s, INIT_PID_FILE), monitor);
	shim_begin_running(shim);
	if (c->dead) {
		shim_drain(s);
		s->exit.finished_at_ns = clock_now_ns();
	}
	for (size_t i = 0; i < c->n_early; i++)
		if (c->early[i].pid == monitor)
			monitor_reaped(s, c->early[i].status);
	send_pending(shim);
}

void shim_container_reaped(struct shim *shim, pid_t pid, int status)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;

	if (!c->client_done && pid == s->pid) {
		client_reaped(shim, status);
		/* A failure in the new process: nothing was made. */
		if (!c->client_done) {
			c->client_done = c->removed = true;
			s->reaped = true;
		}
	} else if (!c->client_done) {
		if (c->n_early < SHIM_EARLY_MAX) {
			c->early[c->n_early].pid = pid;
			c->early[c->n_early++].status = status;
		}
	} else if (pid == s->pid && !s->reaped) {
		monitor_reaped(s, status);
	} else if (pid == c->remover) {
		c->remover = 0;
		c->removed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
}

/* --- signals -------------------------------------------------------------------------------- */

/*
 * Whether a signal does nothing to the first process of a container although its default action is
 * to end it: the kernel withholds that from the first process of a pid namespace.
 */
static bool withheld(pid_t pid, int sig)
{
	char path[64], text[4096];
	uint64_t caught = 0, ignored = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	const char *ign = strstr(text, "\nSigIgn:"), *cgt = strstr(text, "\nSigCgt:");
	if (!ign || !cgt || sscanf(ign, "\nSigIgn: %" SCNx64, &ignored) != 1 ||
	    sscanf(cgt, "\nSigCgt: %" SCNx64, &caught) != 1)
		return false;
	return ((caught | ignored) & (UINT64_C(1) << (sig - 1))) == 0;
}

void shim_container_signal(struct shim *shim, int sig)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;

	if (sig == SIGKILL) {
		shim_container_kill(shim);
		return;
	}
	if (!c->client_done) {
		c->pending |= UINT64_C(1) << sig;
		return;
	}
	if (s->pid_fd < 0 || c->dead)
		return;
	bool ends = withheld(c->init, sig);
	if (!s->has_cgroup || cgroup_signal(&s->cgroup, sig) <= 0)
		(void)process_tree_signal(s->pid, sig, NULL);
	if (ends) {
		/* As it would have happened outside of a container. */
		c->init_signal = sig;
		(void)syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
	}
}

void shim_container_kill(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;

	c->killed = true;
	if (c->limit_ns == 0)
		set_limit(c);
	if (!c->client_done) {
		c->cut_short = true;
		(void)process_tree_kill(getpid(), NULL);
		return;
	}
	if (s->has_cgroup && cgroup_populated(&s->cgroup) == 1)
		(void)cgroup_kill(&s->cgroup);
	if (s->pid_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, s->pid_fd, SIGKILL, NULL, 0);
}

/* --- the end -------------------------------------------------------------------------------- */

static bool past_limit(const struct shim_container *c)
{
	return c->limit_ns != 0 && clock_boot_ns() >= c->limit_ns;
}

int shim_container_timeout_ms(const struct shim *shim)
{
	return shim->s.container.limit_ns != 0 ? TURN_MS : -1;
}

void shim_container_turn(struct shim *shim)
{
	struct shim_session *s = &shim->s;

	if (s->phase != SHIM_PHASE_LAUNCHING && s->phase != SHIM_PHASE_RUNNING)
		return;
	/* It was killed and its runtime does not notice; or the client was forking just then. */
	if (s->container.cut_short || past_limit(&s->container))
		(void)process_tree_kill(getpid(), NULL);
}

static void start_remover(struct shim *shim)
{
	struct shim_container *c = &shim->s.container;

	(void)fault_point("shim.remove");
	pid_t pid = c->remove_argv ? workload_spawn_helper(&shim->host->origin, c->remove_argv,
							   c->remove_env)
				   : -ENOMEM;
	c->remove_tries++;
	if (pid > 0) {
		c->remover = pid;
		set_limit(c);
	}
}

bool shim_container_gone(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;
	siginfo_t info;
	bool populated = s->has_cgroup && cgroup_populated(&s->cgroup) == 1;

	if (populated)
		(void)cgroup_kill(&s->cgroup);
	/* WNOWAIT: reaping is done in one place. */
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 || errno != ECHILD) {
		if (past_limit(c) || ((c->cut_short || s->failed) && c->remover == 0))
			(void)process_tree_kill(getpid(), NULL);
		return false;
	}
	if (populated || !s->reaped)
		return false;
	if (!c->removed && !c->cut_short && !s->failed && c->bundle[0] && access(c->bundle, F_OK) < 0 &&
	    errno == ENOENT)
		c->removed = true;
	if (c->removed || c->remove_tries >= REMOVE_TRIES) {
		(void)session_private_remove(s->dir_fd);
		return true;
	}
	start_remover(shim);
	return false;
}

/*
 * The monitor's own exit code is that of the container; a signal is 128 more, and so is what a shell
 * says of its child. The first process of a container ends by a signal only when it was SIGKILL, or
 * when we made it so.
 */
void shim_container_describe_end(struct shim *shim)
{
	struct shim_session *s = &shim->s;
	struct shim_container *c = &s->container;
	struct shim_exit *e = &s->exit;
	int status = s->wait_status;
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	bool killed = code == 128 + SIGKILL;
	uint64_t events = 0;

	if (c->oom_fd >= 0 && read(c->oom_fd, &events, sizeof(events)) == (ssize_t)sizeof(events) &&
	    e->oom_kills == 0)
		e->oom_kills = events > UINT32_MAX ? UINT32_MAX : (uint32_t)events;
	e->pid = c->init;
	e->code = -1;
	e->signal = killed ? SIGKILL : 0;
	if (killed && s->timed_out) {
		e->cause = SHIM_CAUSE_TIMEOUT;
	} else if (killed && e->oom_kills > 0) {
		e->cause = SHIM_CAUSE_OOM;
	} else if (killed && c->init_signal != 0) {
		e->cause = SHIM_CAUSE_SIGNAL;
		e->signal = c->init_signal;
	} else if (WIFSIGNALED(status) || (killed && c->killed)) {
		e->cause = SHIM_CAUSE_SIGNAL;
		e->signal = SIGKILL;
	} else {
		e->cause = SHIM_CAUSE_EXIT;
		e->code = code;
		e->signal = 0;
	}
}
