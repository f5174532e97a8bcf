/* Secret files of a container: delivered, refreshed, wiped; also when somebody has been at them. */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/container/secrets.h"

struct place {
	char path[64];
	int fd;
};

static int open_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	(void)strcpy(p->path, "/dev/shm/cloop-test-XXXXXX");
	assert_non_null(mkdtemp(p->path));
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(p->fd >= 0);
	*state = p;
	return 0;
}

static int close_place(void **state)
{
	struct place *p = *state;
	struct error err;

	(void)container_secrets_remove(p->fd, "s", &err);
	(void)close(p->fd);
	int r = rmdir(p->path);
	free(p);
	return r;
}

#define FILE_OF(file_name, file_mode, text)                                                        \
	{                                                                                          \
		.lease_id = (char *)(uintptr_t) "l", .grant_id = (char *)(uintptr_t) "",           \
		.dir = (char *)(uintptr_t) "/run/cloop/cloop-lease-x",                             \
		.name = (char *)(uintptr_t)(file_name), .mode = (file_mode),                       \
		.content = (unsigned char *)(uintptr_t)(text), .content_len = sizeof(text) - 1,    \
	}

static const struct secret_file files[] = {FILE_OF("token", 0, "tok\0en"), FILE_OF("run.sh", 0700, "#!/bin/sh\n"),
					   FILE_OF("ro", 0400, "read only")};

static ssize_t content(const struct place *p, const char *name, char *ret, size_t size, mode_t *ret_mode)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "s/%s", name);
	AUTO_CLOSE int fd = openat(p->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	assert_int_equal(fstat(fd, &st), 0);
	*ret_mode = st.st_mode & 07777;
	return read(fd, ret, size);
}

static void deliver(struct place *p)
{
	struct error err;

	assert_int_equal(container_secrets_deliver(p->fd, "s", files, ARRAY_SIZE(files), &err), 0);
}

static void files_are_delivered(void **state)
{
	static const mode_t modes[] = {0600, 0700, 0400};
	struct place *p = *state;
	struct stat st;
	struct error err;
	char text[64];
	mode_t mode;

	(void)umask(0077);
	deliver(p);
	assert_int_equal(fstatat(p->fd, "s", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		assert_int_equal(content(p, files[i].name, text, sizeof(text), &mode), files[i].content_len);
		assert_memory_equal(text, files[i].content, files[i].content_len);
		assert_int_equal(mode, modes[i]);
	}
	/* Never over what is there. */
	assert_int_equal(container_secrets_deliver(p->fd, "s", files, 1, &err), -EEXIST);
}

static void what_cannot_be_delivered_leaves_nothing(void **state)
{
	struct secret_file bad[] = {files[0], files[1]};
	struct place *p = *state;
	struct error err;

	bad[1].dir = (char *)(uintptr_t) "/elsewhere";
	assert_int_equal(container_secrets_deliver(p->fd, "s", bad, 2, &err), -EINVAL);
	assert_string_equal(err.field, "secret_files[1].dir");
	bad[1] = files[1];
	bad[1].name = (char *)(uintptr_t) "../out";
	assert_int_equal(container_secrets_deliver(p->fd, "s", bad, 2, &err), -EINVAL);
	assert_int_equal(faccessat(p->fd, "s", F_OK, 0), -1);
	/* Not on a disk. */
	AUTO_CLOSE int disk = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(container_secrets_deliver(disk, "s", files, 1, &err), -EINVAL);
	assert_null(strstr(err.reason, "tok"));
}

static void a_refresh_replaces_what_was_delivered(void **state)
{
	struct secret_file other = FILE_OF("run.sh", 0600, "new"), none = FILE_OF("none", 0, "new");
	struct place *p = *state;
	struct error err;
	char text[64];
	mode_t mode;

	deliver(p);
	assert_int_equal(container_secrets_refresh(p->fd, "s", &other, &err), 0);
	assert_int_equal(content(p, "run.sh", text, sizeof(text), &mode), 3);
	assert_int_equal(mode, 0700);
	assert_int_equal(container_secrets_refresh(p->fd, "s", &none, &err), -ENOENT);
	assert_int_equal(container_secrets_refresh(p->fd, "t", &other, &err), -ENOENT);
	/* A link that was put there is not followed. */
	assert_int_equal(unlinkat(p->fd, "s/ro", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", p->fd, "s/ro"), 0);
	other.name = (char *)(uintptr_t) "ro";
	assert_int_equal(container_secrets_refresh(p->fd, "s", &other, &err), -EPERM);
}

static void wiping_is_seen_by_who_has_it_open(void **state)
{
	struct place *p = *state;
	struct error err;
	char text[64];
	mode_t mode;

	deliver(p);
	AUTO_CLOSE int held = openat(p->fd, "s/token", O_RDONLY | O_CLOEXEC);
	assert_int_equal(container_secrets_scrub(p->fd, "s", "token", &err), 1);
	assert_int_equal(read(held, text, sizeof(text)), 6);
	assert_memory_equal(text, "\0\0\0\0\0\0", 6);
	assert_int_equal(content(p, "token", text, sizeof(text), &mode), -ENOENT);
	/* Again, the rest, and once more. */
	assert_int_equal(container_secrets_scrub(p->fd, "s", "token", &err), 0);
	assert_int_equal(container_secrets_scrub(p->fd, "s", NULL, &err), 2);
	assert_int_equal(container_secrets_scrub(p->fd, "s", NULL, &err), 0);
	assert_int_equal(container_secrets_remove(p->fd, "s", &err), 0);
	assert_int_equal(container_secrets_remove(p->fd, "s", &err), 0);
	assert_int_equal(container_secrets_scrub(p->fd, "s", NULL, &err), 0);
}

static void links_and_others_are_reported(void **state)
{
	char target[96], text[16];
	struct place *p = *state;
	struct error err;

	deliver(p);
	(void)snprintf(target, sizeof(target), "%s/outside", p->path);
	AUTO_CLOSE int outside = open(target, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(outside, "keep", 4), 4);
	assert_int_equal(unlinkat(p->fd, "s/token", 0), 0);
	assert_int_equal(symlinkat(target, p->fd, "s/token"), 0);
	assert_int_equal(unlinkat(p->fd, "s/ro", 0), 0);
	assert_int_equal(linkat(p->fd, "outside", p->fd, "s/ro", 0), 0);
	assert_int_equal(mkfifoat(p->fd, "s/fifo", 0600), 0);
	assert_int_equal(container_secrets_scrub(p->fd, "s", NULL, &err), -EPERM);
	assert_int_equal(pread(outside, text, sizeof(text), 0), 4);
	assert_memory_equal(text, "keep", 4);
	assert_int_equal(container_secrets_remove(p->fd, "s", &err), 0);
	assert_int_equal(unlink(target), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_are_delivered, open_place, close_place),
		cmocka_unit_test_setup_teardown(what_cannot_be_delivered_leaves_nothing, open_place, close_place),
		cmocka_unit_test_setup_teardown(a_refresh_replaces_what_was_delivered, open_place, close_place),
		cmocka_unit_test_setup_teardown(wiping_is_seen_by_who_has_it_open, open_place, close_place),
		cmocka_unit_test_setup_teardown(links_and_others_are_reported, open_place, close_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
