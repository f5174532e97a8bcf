/*
 * The client of a container runtime, before it is executed: in the new process, which still is the
 * daemon's user. What the sandbox is given is opened here, as the user who asks, and handed on as
 * mounts that only this process and those below it see (workload.h).
 */
#include "drivers/shim/workload_client.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/owner.h"

/* Nothing but the names of LAUNCH_PATHS_MAX mount points is in it. */
#define STAGE_OPTIONS "size=1m,mode=0700"

struct sandbox {
	const struct workload_plan *plan;
	bool staged; /* a mount namespace of our own */
	unsigned n_mounts;
	int work_fd;
	uid_t uid;
	gid_t gid;
};

/* Only what opening a path may take from whoever asks; the daemon's own rights come back. */
static void become_caller(const struct workload_plan *p)
{
	const struct launch_header *h = p->record->header;

	if (p->origin->can_setuid && (setgroups(h->n_groups, p->record->groups) < 0 ||
				      setegid(h->gid) < 0 || seteuid(h->uid) < 0))
		workload_fail(p, SHIM_STEP_CREDENTIALS, errno, NULL);
}

static void become_daemon(const struct workload_plan *p)
{
	if (p->origin->can_setuid &&
	    (seteuid(getuid()) < 0 || setegid(getgid()) < 0 || setgroups(0, NULL) < 0))
		workload_fail(p, SHIM_STEP_CREDENTIALS, errno, NULL);
}

static void enter_namespace(struct sandbox *s)
{
	const struct workload_plan *p = s->plan;
	const char *stage = p->client->stage;

	if (geteuid() != 0)
		return;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		workload_fail(p, SHIM_STEP_SANDBOX, errno, "a mount namespace");
	if (strchr(stage, ':'))
		workload_fail(p, SHIM_STEP_SANDBOX, EINVAL, stage);
	if (mount("cloop", stage, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, STAGE_OPTIONS) < 0)
		workload_fail(p, SHIM_STEP_SANDBOX, errno, stage);
	s->staged = true;
}

static void refuse_device(const struct workload_plan *p, int fd, enum shim_step step,
			  enum shim_step step_mount, const char *path)
{
	int forbidden = workload_on_device(fd, "", p->record->header->forbidden_dev);

	if (forbidden < 0)
		workload_fail(p, step, -forbidden, path);
	if (forbidden)
		workload_fail(p, step_mount, step_mount == step ? EXDEV : EINVAL, path);
}

static void open_work_dir(struct sandbox *s)
{
	const struct workload_plan *p = s->plan;
	const struct launch_header *h = p->record->header;
	const char *path = p->client->work_dir;
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	struct stat st;

	if (p->client->made_work_dir) {
		s->work_fd = open(path, flags | O_NOFOLLOW);
		if (s->work_fd < 0)
			workload_fail(p, SHIM_STEP_SESSION_DIR, errno, path);
		s->uid = h->private_uid;
		s->gid = h->private_gid;
		return;
	}
	become_caller(p);
	s->work_fd = open(path, flags);
	int error = errno;
	become_daemon(p);
	if (s->work_fd < 0)
		workload_fail(p, SHIM_STEP_WORK_DIR, error, path);
	refuse_device(p, s->work_fd, SHIM_STEP_WORK_DIR, SHIM_STEP_WORK_DIR_MOUNT, path);
	if (fstat(s->work_fd, &st) < 0)
		workload_fail(p, SHIM_STEP_WORK_DIR, errno, path);
	if ((h->flags & LAUNCH_AS_OWNER) != 0) {
		s->uid = st.st_uid;
		s->gid = st.st_gid;
	} else if (st.st_uid == h->uid) {
		s->uid = h->uid;
		s->gid = h->gid;
	} else {
		workload_fail(p, SHIM_STEP_OWNER, EPERM, path);
	}
	if (s->uid == 0)
		workload_fail(p, SHIM_STEP_ROOT, EPERM, path);
	/* The group of root reads more than a sandbox should. */
	if (s->gid == 0)
		s->gid = h->private_gid;
}

static int open_source(struct sandbox *s, const struct launch_edit *e, const char *path)
{
	const struct workload_plan *p = s->plan;
	bool below = e->kind == LAUNCH_EDIT_BELOW;
	enum shim_step step = below ? SHIM_STEP_BELOW : SHIM_STEP_HOST_MOUNT;
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | (below ? RESOLVE_BENEATH : 0),
	};

	if (below)
		become_caller(p);
	int fd = (int)syscall(SYS_openat2, s->work_fd, path, &how, sizeof(how));
	int error = errno;
	if (below)
		become_daemon(p);
	if (fd < 0)
		workload_fail(p, step, error, path);
	refuse_device(p, fd, step, step, path);
	return fd;
}

/* Where the runtime finds what fd is. */
static void stage(struct sandbox *s, int fd, enum shim_step step, const char *path,
		  char ret[static PATH_MAX])
{
	const struct workload_plan *p = s->plan;
	char link[32];
	struct stat st;
	int made = 0;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (!s->staged) {
		ssize_t n = readlink(link, ret, PATH_MAX - 1);

		if (n <= 0)
			workload_fail(p, step, errno, path);
		ret[n] = '\0';
		if (ret[0] != '/' || strchr(ret, ':'))
			workload_fail(p, step, EINVAL, path);
		return;
	}
	if (snprintf(ret, PATH_MAX, "%s/%u", p->client->stage, s->n_mounts++) >= PATH_MAX)
		workload_fail(p, SHIM_STEP_SANDBOX, ENAMETOOLONG, p->client->stage);
	if (fstat(fd, &st) < 0)
		workload_fail(p, step, errno, path);
	if (S_ISDIR(st.st_mode))
		made = mkdir(ret, 0700);
	else
		made = mknod(ret, S_IFREG | 0600, 0);
	if (made < 0 || mount(link, ret, NULL, MS_BIND, NULL) < 0)
		workload_fail(p, step, errno, path);
}

/* The runtime reads the variables from here, so that they are in nobody's arguments. */
static void make_env_file(const struct workload_plan *p, char *ret, size_t size)
{
	const char *text = p->record->env_file;
	size_t left = strlen(text);
	int fd = memfd_create("cloop-env", 0);

	if (fd < 0)
		workload_fail(p, SHIM_STEP_SANDBOX, errno, "memory for variables");
	while (left > 0) {
		ssize_t n = write(fd, text, left);

		if (n <= 0)
			workload_fail(p, SHIM_STEP_SANDBOX, errno, "memory for variables");
		text += n;
		left -= (size_t)n;
	}
	(void)snprintf(ret, size, "/proc/self/fd/%d", fd);
}

static void stage_source(struct sandbox *s, const struct launch_edit *e, const char *source,
			 char ret[static PATH_MAX])
{
	bool below = e->kind == LAUNCH_EDIT_BELOW;
	AUTO_CLOSE int fd = open_source(s, e, source);

	stage(s, fd, below ? SHIM_STEP_BELOW : SHIM_STEP_HOST_MOUNT, source, ret);
}

static void edit(struct sandbox *s, size_t i, size_t *path)
{
	const struct workload_plan *p = s->plan;
	const struct launch_edit *e = &p->record->edits[i];
	const char *old = p->record->argv[e->arg];
	char *text = p->client->room[i], prefix[PATH_MAX] = "";
	size_t size = p->client->room_bytes;

	switch ((enum launch_edit_kind)e->kind) {
	case LAUNCH_EDIT_FILE:
		(void)snprintf(text, size, "%s/%s", p->client->folder, old);
		break;
	case LAUNCH_EDIT_WORK:
		stage(s, s->work_fd, SHIM_STEP_WORK_DIR, p->client->work_dir, prefix);
		(void)snprintf(text, size, "%s%s", prefix, old);
		break;
	case LAUNCH_EDIT_BELOW:
	case LAUNCH_EDIT_HOST:
		stage_source(s, e, p->record->paths[(*path)++], prefix);
		(void)snprintf(text, size, "%s%s", prefix, old);
		break;
	case LAUNCH_EDIT_USER:
		(void)snprintf(text, size, "%u:%u", s->uid, s->gid);
		break;
	case LAUNCH_EDIT_GROUP:
		(void)snprintf(text, size, "%s", p->client->group);
		break;
	case LAUNCH_EDIT_ENV_FILE:
		make_env_file(p, text, size);
		break;
	}
	p->client->argv[e->arg] = text;
}

void workload_client_prepare(const struct workload_plan *p)
{
	struct sandbox s = {.plan = p, .work_fd = -1};
	size_t path = 0;

	enter_namespace(&s);
	open_work_dir(&s);
	for (size_t i = 0; i < p->record->header->n_edits; i++)
		edit(&s, i, &path);
	if (chdir("/") < 0)
		workload_fail(p, SHIM_STEP_SANDBOX, errno, "/");
	(void)close_fd(s.work_fd);
}
