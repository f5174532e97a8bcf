#include "drivers/shim/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"

/* Of an open directory; closes it. NULL: errno. */
static DIR *read_dir(int fd)
{
	DIR *d = fdopendir(fd);

	if (!d) {
		int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return d;
}

/* The serial that a folder of this shard is named for; 0: it is none of ours. */
static uint64_t serial_of(const char *name, unsigned shard)
{
	char again[SESSION_NAME_MAX];
	char *end;

	uint64_t serial = strtoull(name, &end, 16);
	if (*end || serial == 0 || serial % SESSION_SHARDS != shard)
		return 0;
	session_dir_name(serial, again);
	return strcmp(name, again) == 0 ? serial : 0;
}

int shim_shard_list(int sessions_fd, unsigned shard, uint64_t **ret, size_t *ret_n)
{
	char name[SESSION_SHARD_MAX];
	AUTO_FREE uint64_t *list = NULL;
	size_t n = 0, cap = 0;

	session_dir_shard(shard, name);
	int fd = openat(sessions_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return -errno;
	AUTO_CLOSEDIR DIR *d = fd < 0 ? NULL : read_dir(fd);
	if (fd >= 0 && !d)
		return -errno;
	for (struct dirent *e; d && (e = readdir(d));) {
		uint64_t serial = serial_of(e->d_name, shard);

		if (serial == 0)
			continue;
		if (n == cap) {
			size_t more = cap ? cap * 2 : 64;
			uint64_t *bigger = reallocarray(list, more, sizeof(*list));

			if (!bigger)
				return -ENOMEM;
			list = bigger;
			cap = more;
		}
		list[n++] = serial;
	}
	*ret = take_ptr(list);
	*ret_n = n;
	return 0;
}

/* The last attempt that was started. */
static int last_attempt(int dir, uint32_t *ret)
{
	AUTO_CLOSEDIR DIR *d = NULL;
	uint32_t last = 0;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	d = read_dir(fd);
	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d));) {
		uint32_t attempt = 0;
		char after;

		if (strcmp(e->d_name, "started") == 0)
			attempt = 1;
		else if (sscanf(e->d_name, "started.%" SCNu32 "%c", &attempt, &after) != 1)
			continue;
		if (attempt > last)
			last = attempt;
	}
	*ret = last;
	return 0;
}

int shim_folder_look(int sessions_fd, uint64_t serial, struct shim_folder *ret)
{
	struct shim_folder f = {.held = false};
	struct session_started started;
	uint8_t boot[BOOT_ID_BYTES];
	AUTO_CLOSE int dir = session_dir_open(sessions_fd, serial);

	if (dir < 0)
		return dir;
	/* The lock before the records: who holds it may be about to write them. */
	int r = session_dir_locked(dir);
	if (r < 0)
		return r;
	f.held = r > 0;
	r = last_attempt(dir, &f.attempt);
	if (r < 0)
		return r;
	if (f.attempt > 0 && session_started_read(dir, serial, f.attempt, &started) == 0 &&
	    (!f.held || (boot_id_read(boot) == 0 &&
			 memcmp(boot, started.boot_id, sizeof(boot)) == 0)))
		f.claimed_at_ns = started.claimed_at_ns;
	*ret = f;
	return 0;
}
