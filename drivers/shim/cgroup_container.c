/* What a container runtime makes below our leaves, and what it does not tell about them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/owner.h"
#include "drivers/shim/cgroup.h"
#include "drivers/shim/cgroup_file.h"

/* "parent/instance/leaf" */
#define LEAF_PATH_MAX (CGROUP_PATH_MAX + CGROUP_NAME_MAX + 1)

static void remove_leaf(int mount, const char *path)
{
	if (unlinkat(mount, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return;
	AUTO_CLOSE int leaf = openat(mount, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (leaf >= 0)
		cgroup_remove_below(leaf, 0);
	(void)unlinkat(mount, path, AT_REMOVEDIR);
}

/* Upwards, until one is not empty. */
static void remove_instance(int mount, char *path)
{
	while (unlinkat(mount, path, AT_REMOVEDIR) == 0) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return;
		*slash = '\0';
	}
}

void cgroup_remove_everywhere(const struct cgroup_tree *t, const char *name)
{
	AUTO_FCLOSE FILE *f = t->given ? NULL : fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0) {
		struct cgroup_mount m;
		char path[LEAF_PATH_MAX];

		if (!cgroup_mount_parse(line, &m))
			continue;
		AUTO_CLOSE int mount = open(m.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (mount < 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s%s%s", t->path, name ? "/" : "",
			       name ? name : "");
		if (name)
			remove_leaf(mount, path);
		else
			remove_instance(mount, path);
	}
}

int cgroup_watch_oom(const struct cgroup_tree *t, const struct cgroup *g)
{
	int dir = g->v1_fd[CGROUP_V1_MEMORY];
	char text[32];

	if ((t->v2_limits & SHIM_CAN_MEMORY) != 0 || dir < 0)
		return -ENOTSUP;
	AUTO_CLOSE int count = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	AUTO_CLOSE int control = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	if (count < 0 || control < 0)
		return -errno;
	(void)snprintf(text, sizeof(text), "%d %d", count, control);
	int r = cgroup_file_write(dir, "cgroup.event_control", text);
	return r < 0 ? r : take_fd(&count);
}
