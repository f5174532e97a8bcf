#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/area.h"
#include "fs/fallback.h"
#include "fs/keeper_internal.h"
#include "fs/keeper_log.h"
#include "fs/mount.h"
#include "fs/place.h"

#define LAUNCHER_NAME "cloop-launcher"
#define LAUNCHER_SOCKET "launcher.sock"

/* The hubs of one mount connect one after the other; the launcher serves one at a time. */
#define LAUNCHER_BACKLOG 8

/* Low enough to outlive every workload, not so low that the machine cannot be saved (-1000). */
#define OOM_SCORE_ADJ_WISHED (-900)

/*
 * The path in the words of whoever started us, made absolute but with its links: where an upgrade
 * will lie is what such a link points to then. A path that is not this executable (fexecve) is
 * replaced by the kernel's name for it.
 */
static int find_program(char **ret, struct error *err)
{
	const char *given = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
	char kernel_name[PATH_MAX], cwd[PATH_MAX];
	AUTO_FREE char *path = NULL;
	struct stat st, self;

	if (given && given[0] == '/')
		path = strdup(given);
	else if (given && getcwd(cwd, sizeof(cwd)) && asprintf(&path, "%s/%s", cwd, given) < 0)
		path = NULL;
	if (!path || stat(path, &st) < 0 || stat("/proc/self/exe", &self) < 0 ||
	    st.st_ino != self.st_ino || st.st_dev != self.st_dev) {
		ssize_t n = readlink("/proc/self/exe", kernel_name, sizeof(kernel_name) - 1);

		if (n < 0)
			return error_set(err, errno, "cannot read /proc/self/exe: %s",
					 strerror(errno));
		kernel_name[n] = '\0';
		free(path);
		path = strdup(kernel_name);
	}
	if (!path)
		return error_oom(err);
	*ret = take_ptr(path);
	return 0;
}

int keeper_open_program(const struct keeper *k, int *ret_fd, struct error *err)
{
	int fd = open(k->program, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "cannot open %s: %s", k->program, strerror(errno));
	*ret_fd = fd;
	return 0;
}

static int find_launcher(const char *program, char **ret, struct error *err)
{
	AUTO_FREE char *beside = NULL;
	int dir_len = (int)(strrchr(program, '/') - program);
	const char *installed = CLOOP_LIBEXECDIR "/" LAUNCHER_NAME, *found;

	if (asprintf(&beside, "%.*s/%s", dir_len, program, LAUNCHER_NAME) < 0)
		return error_oom(err);
	found = access(beside, X_OK) == 0 ? beside : installed;
#ifdef CLOOP_TEST_HOOKS
	if (getenv("CLOOP_LAUNCHER"))
		found = getenv("CLOOP_LAUNCHER");
#endif
	if (access(found, X_OK) < 0) {
		int saved = errno;

		(void)error_set(err, saved, "cannot execute the launcher, neither %s nor %s: %s",
				beside, installed, strerror(saved));
		error_remedy(err, "install " LAUNCHER_NAME " at one of the two");
		return -saved;
	}
	*ret = strdup(found);
	return *ret ? 0 : error_oom(err);
}

/* Apart from the tree: a file below the mount would be served by who needs it to serve. */
static int check_apart(const struct keeper *k, struct error *err)
{
	const struct {
		const char *path, *name, *option;
	} dirs[] = {
		{k->state_dir, "state directory", "--state-dir"},
		{k->runtime_dir, "runtime directory", "--runtime-dir"},
		{k->config_dir, "config directory", "--config-dir"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (place_is_inside(dirs[i].path, k->mountpoint)) {
			(void)error_set(err, EINVAL, "%s %s is inside the mountpoint %s",
					dirs[i].name, dirs[i].path, k->mountpoint);
			error_remedy(err, "choose another with %s", dirs[i].option);
			return -EINVAL;
		}
	if (place_is_inside(k->mountpoint, k->state_dir)) {
		(void)error_set(err, EINVAL, "mountpoint %s is inside the state directory %s",
				k->mountpoint, k->state_dir);
		error_remedy(err, "choose another mountpoint");
		return -EINVAL;
	}
	return 0;
}

static int take_places(struct keeper *k, const struct options *o, struct error *err)
{
	AUTO_CLOSE int config_fd = -1;
	int r = place_resolve_mountpoint(o->mountpoint, &k->mountpoint, err);

	if (r == 0)
		r = place_resolve(o->state_dir, &k->state_dir, err);
	if (r == 0)
		r = place_resolve(o->runtime_dir, &k->runtime_dir, err);
	if (r == 0)
		r = place_resolve(o->config_dir, &k->config_dir, err);
	if (r == 0)
		r = check_apart(k, err);
	if (r == 0)
		r = place_open(PLACE_STATE, k->state_dir, true, &k->state_fd, err);
	if (r == 0)
		r = place_open(PLACE_RUNTIME, k->runtime_dir, true, &k->runtime_fd, err);
	if (r == 0)
		r = place_open(PLACE_CONFIG, k->config_dir, false, &config_fd, err);
	if (r == 0)
		r = place_lock(PLACE_STATE, k->state_fd, k->state_dir, &k->state_lock_fd, err);
	if (r == 0)
		r = place_lock(PLACE_RUNTIME, k->runtime_fd, k->runtime_dir, &k->runtime_lock_fd,
			       err);
	return r;
}

/*
 * Decides where the children's output goes. The keeper's own stays with the caller until READY, so
 * that refusals are seen.
 */
static int choose_log(struct keeper *k, const struct options *o, struct error *err)
{
	if (o->foreground || keeper_log_is_journal(getenv("JOURNAL_STREAM")))
		return 0;
	return keeper_log_open(k->state_fd, &k->log_fd, err);
}

/* What the manager gave to this process alone is not for workloads. */
static void take_environment(struct keeper *k)
{
	k->notify = notify_init(getenv("NOTIFY_SOCKET"));
	(void)unsetenv("NOTIFY_SOCKET");
}

static void lower_oom_score(struct keeper *k)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/oom_score_adj", "r+e");
	char text[16];

	k->oom_score_adj = CHILD_OOM_KEEP;
	if (!f || !fgets(text, sizeof(text), f))
		return;
	int before = (int)strtol(text, NULL, 10);
	rewind(f);
	/* Needs CAP_SYS_RESOURCE; without it everything stays as it was. */
	if (before > OOM_SCORE_ADJ_WISHED && fprintf(f, "%d\n", OOM_SCORE_ADJ_WISHED) > 0 &&
	    fflush(f) == 0)
		k->oom_score_adj = before > 0 ? before : 0;
}

/* Binds by the directory's descriptor where the path does not fit a socket address. */
static int bind_launcher_socket(struct keeper *k, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" LAUNCHER_SOCKET,
			 k->runtime_dir);

	if (fd < 0)
		return error_set(err, errno, "cannot make a socket: %s", strerror(errno));
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		(void)snprintf(address.sun_path, sizeof(address.sun_path),
			       "/proc/self/fd/%d/" LAUNCHER_SOCKET, k->runtime_fd);
	/* One that a killed keeper left: ours alone, since we hold the directory's lock. */
	(void)unlinkat(k->runtime_fd, LAUNCHER_SOCKET, 0);
	/* The mode of the file that bind() makes. */
	if (fchmod(fd, 0600) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, LAUNCHER_BACKLOG) < 0)
		return error_set(err, errno, "cannot listen on %s/" LAUNCHER_SOCKET ": %s",
				 k->runtime_dir, strerror(errno));
	k->launcher_fd = take_fd(&fd);
	return 0;
}

static int mount_tree(struct keeper *k, bool create, struct error *err)
{
	uint64_t mount_id;
	int r = mount_prepare(k->mountpoint, create, err);

	if (r < 0)
		return r;
	if (getrandom(&mount_id, sizeof(mount_id), 0) != sizeof(mount_id))
		return error_set(err, errno, "cannot get random numbers: %s", strerror(errno));
	r = mount_attach(k->mountpoint, k->allow_other, &k->fuse_fd, &k->mount_dev, err);
	if (r == 0)
		r = area_create(mount_id, k->mount_dev, &k->area_fd, err);
	if (r == 0)
		r = fallback_new(k->fuse_fd, k->area_fd, &k->fallback, err);
	return r;
}

int keeper_setup(struct keeper *k, const struct options *o, struct error *err)
{
	k->allow_other = o->allow_other;
	take_environment(k);
	int r = find_program(&k->program, err);
	if (r == 0)
		r = keeper_open_program(k, &k->program_fd, err);
	if (r == 0)
		r = find_launcher(k->program, &k->launcher, err);
	if (r == 0)
		r = take_places(k, o, err);
	if (r == 0)
		r = choose_log(k, o, err);
	if (r == 0 && mkdirat(k->state_fd, "sessions", 0700) < 0 && errno != EEXIST)
		r = error_set(err, errno, "cannot make %s/sessions: %s", k->state_dir,
			      strerror(errno));
	if (r == 0 && chdir("/") < 0)
		r = error_set(err, errno, "cannot change to /: %s", strerror(errno));
	if (r == 0)
		r = bind_launcher_socket(k, err);
	if (r == 0)
		r = mount_tree(k, o->mountpoint_is_default, err);
	if (r == 0)
		lower_oom_score(k);
	return r;
}

void keeper_teardown(struct keeper *k)
{
	/* Only when setup failed after the mount: the loop's end has unmounted. */
	if (k->fuse_fd >= 0 && k->phase != PHASE_DONE)
		(void)mount_clear(k->mountpoint, NULL);
	if (k->launcher_fd >= 0)
		(void)unlinkat(k->runtime_fd, LAUNCHER_SOCKET, 0);
	k->fallback = fallback_free(k->fallback);
	int *fds[] = {&k->fuse_fd,   &k->area_fd,   &k->hub_fd,        &k->launcher_fd,
		      &k->nudger_fd, &k->next_fd,   &k->program_fd,    &k->log_fd,
		      &k->caller_fd, &k->signal_fd, &k->state_lock_fd, &k->runtime_lock_fd,
		      &k->state_fd,  &k->runtime_fd};
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		*fds[i] = close_fd(*fds[i]);
	free(k->state_dir);
	free(k->runtime_dir);
	free(k->config_dir);
	free(k->mountpoint);
	free(k->program);
	free(k->launcher);
}

void keeper_release_caller(struct keeper *k)
{
	if (k->caller_fd < 0)
		return;
	if (k->log_fd >= 0)
		(void)dup2(k->log_fd, STDERR_FILENO);
	/* The caller's stdout may be a pipe whose end somebody waits for. */
	(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	if (write(k->caller_fd, "", 1) < 0)
		errno = 0;
	k->caller_fd = close_fd(k->caller_fd);
}
