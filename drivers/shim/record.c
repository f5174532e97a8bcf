#include "drivers/shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

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
	return 0;
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

	p = (const char *)(groups + h->n_groups);
	for (uint32_t i = 0; i < 1 + h->n_argv + h->n_env; i++) {
		const char *next = string_end(p, end);

		if (!next)
			return -EINVAL;
		if (i == 0 && *p != '/')
			return -EINVAL;
		if (i == 1 && *p == '\0')
			return -EINVAL;
		/* Without a name, or without '=', it is no variable. */
		if (i > h->n_argv) {
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

	r->pointers_size = ((size_t)h->n_argv + h->n_env + 2) * sizeof(char *);
	r->pointers = mmap(NULL, r->pointers_size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->pointers == MAP_FAILED) {
		r->pointers = NULL;
		return -errno;
	}
	r->argv = r->pointers;
	r->env = r->argv + h->n_argv + 1;
	r->work_dir = p;
	p += strlen(p) + 1;
	for (uint32_t i = 0; i < h->n_argv; i++, p += strlen(p) + 1)
		r->argv[i] = p;
	for (uint32_t i = 0; i < h->n_env; i++, p += strlen(p) + 1)
		r->env[i] = p;
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
