#include "drivers/shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int check_container(const struct launch_header *h)
{
	if (h->mode == LAUNCH_PROCESS)
		return h->flags || h->n_edits || h->n_remove || h->n_paths || h->n_runtime_env ||
				       h->private_uid || h->private_gid
			       ? -EINVAL
			       : 0;
	if (h->mode != LAUNCH_CONTAINER || (h->flags & ~(uint32_t)LAUNCH_AS_OWNER) != 0 ||
	    h->n_remove == 0 || h->n_runtime_env > h->n_env || h->private_uid == 0 ||
	    h->private_uid == UINT32_MAX || h->private_gid == UINT32_MAX)
		return -EINVAL;
	return h->n_edits > LAUNCH_EDITS_MAX || h->n_remove > LAUNCH_REMOVE_MAX ||
			       h->n_paths > LAUNCH_PATHS_MAX
		       ? -E2BIG
		       : 0;
}

/* Each edit changes an argument of its own, and there is a path for each that wants one. */
static int check_edits(const struct launch_header *h, const struct launch_edit *edits)
{
	uint32_t paths = 0;

	for (uint32_t i = 0; i < h->n_edits; i++) {
		if (edits[i].arg == 0 || edits[i].arg >= h->n_argv ||
		    edits[i].kind < LAUNCH_EDIT_FILE || edits[i].kind > LAUNCH_EDIT_ENV_FILE ||
		    (i > 0 && edits[i].arg <= edits[i - 1].arg))
			return -EINVAL;
		if (edits[i].kind == LAUNCH_EDIT_BELOW || edits[i].kind == LAUNCH_EDIT_HOST)
			paths++;
	}
	return paths == h->n_paths ? 0 : -EINVAL;
}

static uint32_t count_strings(const struct launch_header *h)
{
	bool container = h->mode == LAUNCH_CONTAINER;

	return 1 + h->n_argv + h->n_env + h->n_remove + h->n_paths + (container ? 2 : 0);
}

static int check_header(const struct launch_header *h, size_t len)
{
	if (memcmp(h->magic, LAUNCH_MAGIC, sizeof(h->magic)) != 0 || h->version != LAUNCH_VERSION ||
	    h->size != len)
		return -EINVAL;
	if (h->serial == 0 || h->attempt == 0 || h->attempt > LAUNCH_ATTEMPT_MAX)
		return -EINVAL;
	/* (uid_t)-1 means "leave it" to setresuid(). */
	if (h->uid == UINT32_MAX || h->gid == UINT32_MAX)
		return -EINVAL;
	if (h->n_argv == 0 || h->timeout_ms < 0 || h->cpu_millis < 0 || h->memory_mb < 0 ||
	    h->pids < 0)
		return -EINVAL;
	if (h->n_groups > LAUNCH_GROUPS_MAX || h->n_argv > LAUNCH_STRINGS_MAX ||
	    h->n_env > LAUNCH_STRINGS_MAX - h->n_argv)
		return -E2BIG;
	return check_container(h);
}

/* The end of the string at p (after its NUL), NULL when it does not end before `end`. */
static const char *string_end(const char *p, const char *end)
{
	const char *nul = memchr(p, '\0', (size_t)(end - p));

	return nul ? nul + 1 : NULL;
}

int launch_record_check(const void *data, size_t len)
{
	const struct launch_header *h = data;
	const char *p = data, *end = p + len;

	if (len > LAUNCH_RECORD_MAX)
		return -E2BIG;
	if (len < sizeof(*h))
		return -EINVAL;
	int r = check_header(h, len);
	if (r < 0)
		return r;

	const uint32_t *groups = (const uint32_t *)(h + 1);
	if (len - sizeof(*h) < h->n_groups * sizeof(*groups))
		return -EINVAL;
	for (uint32_t i = 0; i < h->n_groups; i++)
		if (groups[i] == UINT32_MAX)
			return -EINVAL;

	const struct launch_edit *edits = (const struct launch_edit *)(groups + h->n_groups);
	p = (const char *)edits;
	if ((size_t)(end - p) < h->n_edits * sizeof(*edits))
		return -EINVAL;
	r = check_edits(h, edits);
	if (r < 0)
		return r;

	p = (const char *)(edits + h->n_edits);
	for (uint32_t i = 0, n = count_strings(h); i < n; i++) {
		const char *next = string_end(p, end);

		if (!next)
			return -EINVAL;
		if (i == 0 && *p != '/' && (*p != '\0' || h->mode != LAUNCH_CONTAINER))
			return -EINVAL;
		if ((i == 1 || i == 1 + h->n_argv + h->n_env) && *p == '\0')
			return -EINVAL;
		/* Without a name, or without '=', it is no variable. */
		if (i > h->n_argv && i <= h->n_argv + h->n_env) {
			const char *equals = memchr(p, '=', (size_t)(next - p));

			if (!equals || equals == p)
				return -EINVAL;
		}
		p = next;
	}
	return p == end ? 0 : -EINVAL;
}

/* The checked strings as arrays for execve(). */
static int point_at_strings(struct launch_record *r)
{
	const struct launch_header *h = r->header;
	char *p = (char *)r->mapping + sizeof(*h) + h->n_groups * sizeof(uint32_t);

	r->edits = (const struct launch_edit *)p;
	p += h->n_edits * sizeof(*r->edits);
	r->pointers_size =
		((size_t)h->n_argv + h->n_env + h->n_remove + h->n_paths + 4) * sizeof(char *);
	r->pointers = mmap(NULL, r->pointers_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->pointers == MAP_FAILED) {
		r->pointers = NULL;
		return -errno;
	}
	r->argv = r->pointers;
	r->env = r->argv + h->n_argv + 1;
	r->remove = r->env + h->n_env + 1;
	r->paths = r->remove + h->n_remove + 1;
	r->work_dir = p;
	p += strlen(p) + 1;
	for (uint32_t i = 0; i < h->n_argv; i++, p += strlen(p) + 1)
		r->argv[i] = p;
	for (uint32_t i = 0; i < h->n_env; i++, p += strlen(p) + 1)
		r->env[i] = p;
	for (uint32_t i = 0; i < h->n_remove; i++, p += strlen(p) + 1)
		r->remove[i] = p;
	for (uint32_t i = 0; i < h->n_paths; i++, p += strlen(p) + 1)
		r->paths[i] = p;
	bool container = h->mode == LAUNCH_CONTAINER;
	r->env_file = container ? p : "";
	r->preamble = container ? p + strlen(p) + 1 : "";
	return 0;
}

int launch_record_map(int fd, struct launch_record *ret)
{
	struct launch_record record = {0};
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED)
		return -EINVAL;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)LAUNCH_RECORD_MAX)
		return -E2BIG;
	if (st.st_size < (off_t)sizeof(struct launch_header))
		return -EINVAL;

	record.mapping_size = (size_t)st.st_size;
	record.mapping = mmap(NULL, record.mapping_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (record.mapping == MAP_FAILED)
		return -errno;
	int r = launch_record_check(record.mapping, record.mapping_size);
	if (r == 0) {
		record.header = record.mapping;
		record.groups = (const uint32_t *)(record.header + 1);
		r = point_at_strings(&record);
	}
	if (r < 0) {
		launch_record_unmap(&record);
		return r;
	}
	*ret = record;
	return 0;
}

void launch_record_unmap(struct launch_record *record)
{
	if (record->mapping)
		(void)munmap(record->mapping, record->mapping_size);
	if (record->pointers)
		(void)munmap(record->pointers, record->pointers_size);
	memset(record, 0, sizeof(*record));
}

const char *launch_record_env(const struct launch_record *record, const char *name)
{
	size_t len = strlen(name);

	for (char **e = record->env; *e; e++)
		if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
			return *e + len + 1;
	return NULL;
}
