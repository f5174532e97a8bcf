/* Launch records: what the hub writes is what the shim reads, and nothing else is read. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "core/error.h"
#include "drivers/shim/record.h"

static const gid_t groups[] = {10, 20, 30};
static const char *const argv[] = {"prog", "", "a b"};
static const char *const env[] = {"PATH=/bin", "EMPTY=", "X=a=b"};

static const struct launch_request good = {
	.serial = 0x123456789abcdef0,
	.attempt = 2,
	.uid = 1000,
	.gid = 1001,
	.groups = groups,
	.n_groups = ARRAY_SIZE(groups),
	.argv = argv,
	.n_argv = ARRAY_SIZE(argv),
	.env = env,
	.n_env = ARRAY_SIZE(env),
	.work_dir = "/tmp",
	.timeout_ms = 5,
	.log_quota_bytes = 6,
	.forbidden_dev = 7,
	.cpu_millis = 8,
	.memory_mb = 9,
	.pids = 10,
};

static void test_round_trip(void **state)
{
	struct launch_record r;
	int fd;

	(void)state;
	assert_int_equal(launch_record_encode(&good, &fd, NULL), 0);
	assert_int_equal(launch_record_map(fd, &r), 0);
	const struct launch_header *h = r.header;
	assert_true(h->serial == good.serial);
	assert_int_equal(h->attempt, 2);
	assert_int_equal(h->uid, 1000);
	assert_int_equal(h->gid, 1001);
	assert_int_equal(h->timeout_ms, 5);
	assert_int_equal(h->log_quota_bytes, 6);
	assert_int_equal(h->forbidden_dev, 7);
	assert_int_equal(h->cpu_millis, 8);
	assert_int_equal(h->memory_mb, 9);
	assert_int_equal(h->pids, 10);
	assert_int_equal(h->n_groups, 3);
	assert_memory_equal(r.groups, groups, sizeof(groups));
	assert_string_equal(r.work_dir, "/tmp");
	for (size_t i = 0; i < ARRAY_SIZE(argv); i++)
		assert_string_equal(r.argv[i], argv[i]);
	assert_null(r.argv[ARRAY_SIZE(argv)]);
	for (size_t i = 0; i < ARRAY_SIZE(env); i++)
		assert_string_equal(r.env[i], env[i]);
	assert_null(r.env[ARRAY_SIZE(env)]);
	assert_string_equal(launch_record_env(&r, "PATH"), "/bin");
	assert_string_equal(launch_record_env(&r, "X"), "a=b");
	assert_string_equal(launch_record_env(&r, "EMPTY"), "");
	assert_null(launch_record_env(&r, "PAT"));
	assert_null(launch_record_env(&r, "PATH="));
	launch_record_unmap(&r);
	launch_record_unmap(&r);

	/* Nobody can change it any more. */
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ptr_equal(mmap(NULL, 1, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(close(fd), 0);
}

static const struct refused {
	const char *what;
	struct launch_request request;
	int error;
	const char *field;
} refused[] = {
	{"no argv", {.work_dir = "/", .argv = argv, .n_argv = 0}, EINVAL, "argv"},
	{"empty argv[0]", {.work_dir = "/", .argv = argv + 1, .n_argv = 1}, EINVAL, "argv"},
	{"relative", {.work_dir = "x", .argv = argv, .n_argv = 1}, EINVAL, "work_dir"},
	{"no work_dir", {.argv = argv, .n_argv = 1}, EINVAL, "work_dir"},
	{"too many",
	 {.work_dir = "/", .argv = argv, .n_argv = LAUNCH_STRINGS_MAX + 1},
	 E2BIG,
	 "argv"},
	{"too many with env",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .env = env, .n_env = LAUNCH_STRINGS_MAX},
	 E2BIG,
	 "argv"},
	{"groups", {.work_dir = "/", .argv = argv, .n_argv = 1, .n_groups = 65537}, E2BIG, ""},
	{"env without =",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .env = argv, .n_env = 1},
	 EINVAL,
	 "env[0]"},
	{"timeout",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .timeout_ms = -1},
	 EINVAL,
	 "timeout_minutes"},
	{"cpu",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .cpu_millis = -1},
	 EINVAL,
	 "resource_limits.cpu_millis"},
	{"memory",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .memory_mb = -1},
	 EINVAL,
	 "resource_limits.memory_mb"},
	{"pids",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .pids = INT64_MIN},
	 EINVAL,
	 "resource_limits.pids"},
	/* What has no field of its own is still no record. */
	{"serial", {.work_dir = "/", .argv = argv, .n_argv = 1, .attempt = 1}, EINVAL, ""},
	{"attempt", {.work_dir = "/", .argv = argv, .n_argv = 1, .serial = 1}, EINVAL, ""},
	{"uid",
	 {.work_dir = "/", .argv = argv, .n_argv = 1, .serial = 1, .attempt = 1, .uid = (uid_t)-1},
	 EINVAL,
	 ""},
};

static void test_encode_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct error err = {0};
		int fd = -2;

		if (launch_record_encode(&refused[i].request, &fd, &err) != -refused[i].error)
			fail_msg("%s was not refused as it should be", refused[i].what);
		assert_int_equal(err.code, refused[i].error);
		assert_string_equal(err.field, refused[i].field);
		assert_int_equal(fd, -2);
	}
}

/* A secret that is in the wrong place is not repeated. */
static void test_errors_hold_no_values(void **state)
{
	static const char *const secrets[] = {"hunter2hunter2"};
	struct launch_request q = good;
	struct error err;
	char sentence[1024];
	int fd;

	(void)state;
	q.env = secrets;
	q.n_env = 1;
	assert_int_equal(launch_record_encode(&q, &fd, &err), -EINVAL);
	(void)error_sentence(&err, sentence, sizeof(sentence));
	assert_null(strstr(sentence, "hunter2"));
}

/* The bytes of the good record, in memory of exactly their size. */
static char *good_bytes(size_t *ret_len)
{
	int fd;

	assert_int_equal(launch_record_encode(&good, &fd, NULL), 0);
	off_t size = lseek(fd, 0, SEEK_END);
	char *bytes = malloc((size_t)size);
	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	assert_int_equal(close(fd), 0);
	*ret_len = (size_t)size;
	return bytes;
}

static int check_copy(const void *bytes, size_t len)
{
	/* Exactly as long as what it holds, so that a sanitizer sees each byte too many. */
	AUTO_FREE void *copy = malloc(len > 0 ? len : 1);

	memcpy(copy, bytes, len);
	return launch_record_check(copy, len);
}

static void test_cut_and_extended(void **state)
{
	size_t len;
	AUTO_FREE char *bytes = good_bytes(&len);

	(void)state;
	assert_int_equal(check_copy(bytes, len), 0);
	for (size_t n = 0; n < len; n++) {
		struct launch_header *h = (struct launch_header *)bytes;

		assert_int_equal(check_copy(bytes, n), -EINVAL);
		/* One that is consistent about its size is still short of strings. */
		if (n < sizeof(*h))
			continue;
		h->size = (uint32_t)n;
		assert_int_equal(check_copy(bytes, n), -EINVAL);
		h->size = (uint32_t)len;
	}
	AUTO_FREE char *longer = calloc(1, len + 1);
	memcpy(longer, bytes, len);
	((struct launch_header *)longer)->size = (uint32_t)len + 1;
	assert_int_equal(check_copy(longer, len + 1), -EINVAL);
	assert_int_equal(launch_record_check(bytes, LAUNCH_RECORD_MAX + 1), -E2BIG);
}

/* A record that is good but for one field of its header. */
struct header_case {
	const char *what;
	size_t offset, size;
	uint64_t value;
};

#define FIELD(field, value)                                                                        \
	{                                                                                          \
#field " = " #value, offsetof(struct launch_header, field),                        \
			sizeof(((struct launch_header *)NULL)->field), (uint64_t)(value)           \
	}

static const struct header_case header_cases[] = {
	FIELD(magic, 0),
	FIELD(version, 0),
	FIELD(version, 1),
	FIELD(version, 99),
	FIELD(size, 0),
	FIELD(size, 96),
	FIELD(size, UINT32_MAX),
	FIELD(serial, 0),
	FIELD(attempt, 0),
	FIELD(attempt, LAUNCH_ATTEMPT_MAX + 1),
	FIELD(uid, UINT32_MAX),
	FIELD(gid, UINT32_MAX),
	FIELD(timeout_ms, -1),
	FIELD(cpu_millis, -1),
	FIELD(memory_mb, -1),
	FIELD(pids, INT64_MIN),
	FIELD(n_groups, 0),
	FIELD(n_groups, 2),
	FIELD(n_groups, 4),
	FIELD(n_groups, 65536),
	FIELD(n_groups, 65537),
	FIELD(n_groups, UINT32_MAX),
	FIELD(n_groups, 1U << 30),
	FIELD(n_groups, 1U << 31),
	FIELD(n_argv, 0),
	FIELD(n_argv, 2),
	FIELD(n_argv, 4),
	FIELD(n_argv, 262144),
	FIELD(n_argv, 262145),
	FIELD(n_argv, UINT32_MAX),
	FIELD(n_argv, UINT32_MAX - 2),
	FIELD(n_env, 0),
	FIELD(n_env, 2),
	FIELD(n_env, 4),
	FIELD(n_env, 262141),
	FIELD(n_env, 262142),
	FIELD(n_env, UINT32_MAX),
	/* What only a container has. */
	FIELD(mode, LAUNCH_CONTAINER),
	FIELD(mode, 2),
	FIELD(flags, 1),
	FIELD(n_edits, 1),
	FIELD(n_edits, UINT32_MAX),
	FIELD(n_remove, 1),
	FIELD(n_paths, 1),
	FIELD(n_runtime_env, 1),
	FIELD(private_uid, 1),
	FIELD(private_gid, 1),
};

static const struct launch_edit edits[] = {{1, LAUNCH_EDIT_USER}, {2, LAUNCH_EDIT_BELOW}};
static const char *const remove_argv[] = {"podman", "rm", "x"};
static const char *const paths[] = {"sub"};
static const struct launch_container container = {
	.flags = LAUNCH_AS_OWNER,
	.edits = edits,
	.n_edits = ARRAY_SIZE(edits),
	.remove = remove_argv,
	.n_remove = ARRAY_SIZE(remove_argv),
	.paths = paths,
	.n_paths = ARRAY_SIZE(paths),
	.n_runtime_env = 1,
	.env_file = "A=b\n",
	.preamble = "said",
	.private_uid = 65534,
	.private_gid = 65534,
};

static const struct header_case container_cases[] = {
	FIELD(mode, LAUNCH_PROCESS),
	FIELD(mode, 2),
	FIELD(flags, 2),
	FIELD(n_edits, 0),
	FIELD(n_edits, 1),
	FIELD(n_edits, 3),
	FIELD(n_edits, LAUNCH_EDITS_MAX + 1),
	FIELD(n_edits, UINT32_MAX),
	FIELD(n_remove, 0),
	FIELD(n_remove, 2),
	FIELD(n_remove, 4),
	FIELD(n_remove, UINT32_MAX),
	FIELD(n_paths, 0),
	FIELD(n_paths, 2),
	FIELD(n_paths, UINT32_MAX),
	FIELD(n_runtime_env, 4),
	FIELD(n_runtime_env, UINT32_MAX),
	FIELD(private_uid, 0),
	FIELD(private_uid, UINT32_MAX),
	FIELD(private_gid, UINT32_MAX),
	FIELD(n_argv, 2),
	FIELD(n_env, 4),
};

static char *container_bytes(size_t *ret_len)
{
	struct launch_request q = good;
	struct launch_record r;
	int fd;

	q.container = &container;
	q.work_dir = "";
	assert_int_equal(launch_record_encode(&q, &fd, NULL), 0);
	assert_int_equal(launch_record_map(fd, &r), 0);
	char *bytes = malloc(r.mapping_size);
	memcpy(bytes, r.mapping, r.mapping_size);
	*ret_len = r.mapping_size;
	launch_record_unmap(&r);
	(void)close(fd);
	return bytes;
}

static void test_hostile_headers(void **state)
{
	size_t len;
	AUTO_FREE char *bytes = good_bytes(&len);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(header_cases); i++) {
		const struct header_case *c = &header_cases[i];
		uint64_t saved;

		memcpy(&saved, bytes + c->offset, c->size);
		memcpy(bytes + c->offset, &c->value, c->size);
		if (check_copy(bytes, len) == 0)
			fail_msg("accepted: %s", c->what);
		memcpy(bytes + c->offset, &saved, c->size);
	}
	/* As many strings as before, shared out differently: then variables have no '='. */
	struct launch_header *h = (struct launch_header *)bytes, saved = *h;
	h->n_argv = 2;
	h->n_env = 4;
	assert_int_equal(check_copy(bytes, len), -EINVAL);
	*h = saved;

	char *p = bytes + sizeof(*h);
	memset(p, 0xff, sizeof(uint32_t));
	assert_int_equal(check_copy(bytes, len), -EINVAL);
	memcpy(p, groups, sizeof(groups));
	p += sizeof(groups);
	*p = 't';
	assert_int_equal(check_copy(bytes, len), -EINVAL);
	*p = '/';
	bytes[len - 1] = 'x';
	assert_int_equal(check_copy(bytes, len), -EINVAL);
}

static void containers_are_read_back(void **state)
{
	struct launch_request q = good;
	struct launch_record r;
	int fd;

	(void)state;
	q.container = &container;
	q.work_dir = "";
	assert_int_equal(launch_record_encode(&q, &fd, NULL), 0);
	assert_int_equal(launch_record_map(fd, &r), 0);
	assert_int_equal(r.header->mode, LAUNCH_CONTAINER);
	assert_int_equal(r.header->flags, LAUNCH_AS_OWNER);
	assert_int_equal(r.header->n_runtime_env, 1);
	assert_int_equal(r.header->private_uid, 65534);
	assert_memory_equal(r.edits, edits, sizeof(edits));
	assert_string_equal(r.work_dir, "");
	assert_string_equal(r.argv[2], "a b");
	assert_string_equal(r.env[2], "X=a=b");
	assert_string_equal(r.remove[2], "x");
	assert_null(r.remove[3]);
	assert_string_equal(r.paths[0], "sub");
	assert_null(r.paths[1]);
	assert_string_equal(r.env_file, "A=b\n");
	assert_string_equal(r.preamble, "said");
	launch_record_unmap(&r);
	(void)close(fd);
	/* A working directory of its own is for containers only. */
	q.container = NULL;
	struct error err;
	assert_int_equal(launch_record_encode(&q, &fd, &err), -EINVAL);
}

static void hostile_containers(void **state)
{
	size_t len;
	AUTO_FREE char *bytes = container_bytes(&len);
	struct launch_header *h = (struct launch_header *)bytes;
	struct launch_edit *e = (struct launch_edit *)(bytes + sizeof(*h) + sizeof(groups));
	static const struct launch_edit bad[] = {
		{0, LAUNCH_EDIT_USER}, {3, LAUNCH_EDIT_USER},	 {UINT32_MAX, LAUNCH_EDIT_USER},
		{1, 0},		       {1, LAUNCH_EDIT_ENV_FILE + 1}, {2, LAUNCH_EDIT_USER},
		{1, LAUNCH_EDIT_HOST},
	};

	(void)state;
	assert_int_equal(check_copy(bytes, len), 0);
	for (size_t i = 0; i < ARRAY_SIZE(container_cases); i++) {
		const struct header_case *c = &container_cases[i];
		uint64_t saved;

		memcpy(&saved, bytes + c->offset, c->size);
		memcpy(bytes + c->offset, &c->value, c->size);
		if (check_copy(bytes, len) == 0)
			fail_msg("accepted: %s", c->what);
		memcpy(bytes + c->offset, &saved, c->size);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct launch_edit saved = e[0];

		e[0] = bad[i];
		if (check_copy(bytes, len) == 0)
			fail_msg("accepted: edit %zu", i);
		e[0] = saved;
	}
	for (size_t n = 0; n < len; n++) {
		h->size = (uint32_t)n;
		assert_int_equal(check_copy(bytes, n), -EINVAL);
	}
}

/* Each byte set to each of some values: read or refused, never out of bounds. */
static void test_every_byte(void **state)
{
	size_t len;
	AUTO_FREE char *bytes = good_bytes(&len);
	static const char values[] = {0, 1, '=', '/', 127, -128, -1};

	(void)state;
	for (size_t i = 0; i < len; i++)
		for (size_t v = 0; v < sizeof(values); v++) {
			char saved = bytes[i];

			bytes[i] = values[v];
			int r = check_copy(bytes, len);
			assert_true(r == 0 || r == -EINVAL || r == -E2BIG);
			bytes[i] = saved;
		}
}

static void test_seals(void **state)
{
	size_t len;
	AUTO_FREE char *bytes = good_bytes(&len);
	static const int partial[] = {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
				      F_SEAL_GROW | F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_WRITE};
	struct launch_record r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(partial); i++) {
		int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		assert_int_equal(write(fd, bytes, len), len);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, partial[i]), 0);
		assert_int_equal(launch_record_map(fd, &r), -EINVAL);
		assert_int_equal(close(fd), 0);
	}
	/* Sealed and empty; sealed and too large. */
	for (int i = 0; i < 2; i++) {
		int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		assert_int_equal(ftruncate(fd, i == 0 ? 0 : (off_t)LAUNCH_RECORD_MAX + 1), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
				 0);
		assert_int_equal(launch_record_map(fd, &r), i == 0 ? -EINVAL : -E2BIG);
		assert_int_equal(close(fd), 0);
	}
	assert_true(launch_record_map(-1, &r) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_encode_refuses),
		cmocka_unit_test(test_errors_hold_no_values),
		cmocka_unit_test(test_cut_and_extended),
		cmocka_unit_test(test_hostile_headers),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_seals),
		cmocka_unit_test(containers_are_read_back),
		cmocka_unit_test(hostile_containers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
