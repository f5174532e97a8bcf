#include "drivers/shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/owner.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int check_request(const struct launch_request *q, struct error *err)
{
	const struct {
		const char *field;
		int64_t value;
	} numbers[] = {{"timeout_minutes", q->timeout_ms},
		       {"resource_limits.cpu_millis", q->cpu_millis},
		       {"resource_limits.memory_mb", q->memory_mb},
		       {"resource_limits.pids", q->pids}};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (numbers[i].value < 0) {
			int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "is negative");
			error_field(err, "%s", numbers[i].field);
			return r;
		}
	bool private = q->container && q->work_dir && q->work_dir[0] == '\0';
	if (!private && (!q->work_dir || q->work_dir[0] != '/')) {
		int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "is not an absolute path");
		error_field(err, "work_dir");
		error_remedy(err, "give the directory's full path, beginning with /");
		return r;
	}
	if (q->n_argv == 0 || q->argv[0][0] == '\0') {
		int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "names nothing to execute");
		error_field(err, "argv");
		return r;
	}
	if (q->n_argv > LAUNCH_STRINGS_MAX || q->n_env > LAUNCH_STRINGS_MAX - q->n_argv) {
		int r = error_set(err, E2BIG, "has too many entries (with env, at most %u)",
				  LAUNCH_STRINGS_MAX);
		error_field(err, "argv");
		return r;
	}
	for (size_t i = 0; i < q->n_env; i++) {
		const char *equals = strchr(q->env[i], '=');

		/* The entry itself is not quoted: it may hold a secret. */
		if (!equals || equals == q->env[i]) {
			int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC,
					       "is not of the form NAME=value");
			error_field(err, "env[%zu]", i);
			return r;
		}
	}
	if (q->n_groups > LAUNCH_GROUPS_MAX)
		return error_set(err, E2BIG, "the caller is in more than %u groups",
				 LAUNCH_GROUPS_MAX);
	return 0;
}

/* Adds the lengths of strings, as long as the sum is one of a record. */
static void add_sizes(size_t *size, const char *const *strings, size_t n)
{
	for (size_t i = 0; i < n && *size <= LAUNCH_RECORD_MAX; i++)
		*size += strlen(strings[i]) + 1;
}

/* The size of the record, 0 when it is larger than a record can be. */
static size_t record_size(const struct launch_request *q)
{
	const struct launch_container *c = q->container;
	size_t size = sizeof(struct launch_header) + q->n_groups * sizeof(uint32_t) +
		      strlen(q->work_dir) + 1;

	add_sizes(&size, q->argv, q->n_argv);
	add_sizes(&size, q->env, q->n_env);
	if (c) {
		size += c->n_edits * sizeof(*c->edits);
		add_sizes(&size, c->remove, c->n_remove);
		add_sizes(&size, c->paths, c->n_paths);
		add_sizes(&size, &c->env_file, 1);
		add_sizes(&size, &c->preamble, 1);
	}
	return size <= LAUNCH_RECORD_MAX ? size : 0;
}

static char *put_strings(char *p, const char *const *strings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p = stpcpy(p, strings[i]) + 1;
	return p;
}

static void fill(char *p, size_t size, const struct launch_request *q)
{
	const struct launch_container *c = q->container;
	struct launch_header h = {
		.version = LAUNCH_VERSION,
		.size = (uint32_t)size,
		.serial = q->serial,
		.attempt = q->attempt,
		.uid = q->uid,
		.gid = q->gid,
		.n_groups = (uint32_t)q->n_groups,
		.n_argv = (uint32_t)q->n_argv,
		.n_env = (uint32_t)q->n_env,
		.timeout_ms = q->timeout_ms,
		.log_quota_bytes = q->log_quota_bytes,
		.forbidden_dev = q->forbidden_dev,
		.cpu_millis = q->cpu_millis,
		.memory_mb = q->memory_mb,
		.pids = q->pids,
	};

	if (c) {
		h.mode = LAUNCH_CONTAINER;
		h.flags = c->flags;
		h.n_edits = (uint32_t)c->n_edits;
		h.n_remove = (uint32_t)c->n_remove;
		h.n_paths = (uint32_t)c->n_paths;
		h.n_runtime_env = (uint32_t)c->n_runtime_env;
		h.private_uid = c->private_uid;
		h.private_gid = c->private_gid;
	}
	memcpy(h.magic, LAUNCH_MAGIC, sizeof(h.magic));
	memcpy(p, &h, sizeof(h));
	p += sizeof(h);
	for (size_t i = 0; i < q->n_groups; i++, p += sizeof(uint32_t)) {
		uint32_t group = q->groups[i];

		memcpy(p, &group, sizeof(group));
	}
	if (c && c->n_edits > 0)
		p = mempcpy(p, c->edits, c->n_edits * sizeof(*c->edits));
	p = stpcpy(p, q->work_dir) + 1;
	p = put_strings(p, q->argv, q->n_argv);
	p = put_strings(p, q->env, q->n_env);
	if (c) {
		p = put_strings(p, c->remove, c->n_remove);
		p = put_strings(p, c->paths, c->n_paths);
		p = put_strings(p, &c->env_file, 1);
		(void)put_strings(p, &c->preamble, 1);
	}
}

/* Newer kernels may insist on memory that cannot be executed; older ones do not know the flag. */
static int create_memfd(void)
{
	int fd = memfd_create("cloop-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("cloop-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

int launch_record_encode(const struct launch_request *request, int *ret_fd, struct error *err)
{
	int r = check_request(request, err);

	if (r < 0)
		return r;
	size_t size = record_size(request);
	if (size == 0) {
		r = error_set(err, E2BIG, "argv and env together are larger than %zu bytes",
			      LAUNCH_RECORD_MAX);
		error_field(err, "argv");
		return r;
	}

	AUTO_CLOSE int fd = create_memfd();
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return error_set(err, errno, "no memory for a launch record: %s",
				 strerrordesc_np(errno));
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return error_set(err, errno, "no memory for a launch record: %s",
				 strerrordesc_np(errno));
	fill(p, size, request);
	r = launch_record_check(p, size);
	/* A writable mapping would stand in the way of the seal. */
	(void)munmap(p, size);
	if (r < 0)
		return error_set(err, -r, "the launch cannot be put into a record");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return error_set(err, errno, "cannot seal a launch record: %s",
				 strerrordesc_np(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}
