/*
 * An area as a dead process left it: its files are compiled in with a hook that copies the memory
 * before and after each word that publishes something, so that every copy can be attached; and
 * what must hold in each of them.
 */
#ifndef CLOOP_TESTS_UNIT_AREA_TAPE_H
#define CLOOP_TESTS_UNIT_AREA_TAPE_H

#include "tests/unit/test.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void snapshot(void);

#define AREA_PUBLISH_HOOK() snapshot()
// NOLINTBEGIN(bugprone-suspicious-include)
#include "fs/area.c"
#include "fs/area_blob.c"
// NOLINTEND(bugprone-suspicious-include)

#define SNAPSHOTS_MAX 256

/* The area that is being recorded; the hook has no argument. */
static struct {
	bool on;
	int area_fd;
	int copies[SNAPSHOTS_MAX];
	size_t n;
} tape;

/* Copies what is not zero of the parts of the file that were ever touched. */
static int copy_of(int fd)
{
	static const char zero[AREA_CHUNK];
	char buf[AREA_CHUNK];
	int copy = memfd_create("copy", MFD_CLOEXEC);
	off_t from = 0, to;

	assert_true(copy >= 0);
	assert_int_equal(ftruncate(copy, (off_t)AREA_SIZE), 0);
	while ((from = lseek(fd, from, SEEK_DATA)) >= 0) {
		to = lseek(fd, from, SEEK_HOLE);
		while (from < to) {
			size_t n = (size_t)(to - from) < sizeof(buf) ? (size_t)(to - from)
								     : sizeof(buf);

			assert_int_equal(pread(fd, buf, n, from), (ssize_t)n);
			if (memcmp(buf, zero, n) != 0)
				assert_int_equal(pwrite(copy, buf, n, from), (ssize_t)n);
			from += (off_t)n;
		}
	}
	return copy;
}

static void snapshot(void)
{
	if (!tape.on)
		return;
	assert_true(tape.n < SNAPSHOTS_MAX);
	tape.copies[tape.n++] = copy_of(tape.area_fd);
}

static void record(int fd)
{
	tape.area_fd = fd;
	tape.n = 0;
	tape.on = true;
}

static void stop_recording(void)
{
	snapshot();
	tape.on = false;
	assert_true(tape.n > 1);
}

static void erase_tape(void)
{
	for (size_t i = 0; i < tape.n; i++)
		(void)close(tape.copies[i]);
	tape.n = 0;
}

static int create(void)
{
	int fd = -1;

	assert_int_equal(area_create(7, 42, &fd, NULL), 0);
	return fd;
}

static struct area *attach(int fd)
{
	struct area *a = NULL;
	struct error err = {0};

	if (area_attach(fd, &a, &err) < 0)
		fail_msg("%s", err.reason);
	return a;
}

/* --- what must hold in any state ------------------------------------------------------------ */

static size_t count_chain(const struct area *a, unsigned char *seen, const struct area_blob *b)
{
	size_t n = 0;

	for (uint32_t c = b->head; c; c = a->next[c], n++) {
		assert_true(c < AREA_CHUNKS);
		assert_int_equal(seen[c], 0);
		seen[c] = 1;
	}
	assert_true(n >= chunks_for(b->len));
	return n;
}

/* No chunk belongs to two, none is lost. */
static void check_chunks(struct area *a)
{
	AUTO_FREE unsigned char *seen = calloc(AREA_CHUNKS, 1);
	size_t used = 0;

	assert_non_null(seen);
	for (uint32_t i = 0; i < AREA_HANDLES; i++) {
		if (!a->open[i])
			continue;
		used += count_chain(a, seen, &a->handles[i].more_groups);
		used += count_chain(a, seen, &a->handles[i].doc);
		used += count_chain(a, seen, &a->handles[i].text);
	}
	for (size_t i = 0; i < AREA_MAILBOXES; i++)
		if (a->mailboxes[i].stamp)
			used += count_chain(a, seen, &a->mailboxes[i].text);
	for (uint32_t i = 0; i < a->n_free_chunks; i++) {
		assert_int_equal(seen[a->free_chunks[i]], 0);
		seen[a->free_chunks[i]] = 1;
	}
	assert_int_equal(used + a->n_free_chunks, AREA_CHUNKS - 1);
}

static void assert_blob(const struct area *a, const struct area_blob *b, const char *text,
			size_t len)
{
	AUTO_FREE char *buf = malloc(len + 1);

	assert_non_null(buf);
	assert_int_equal(b->len, len);
	assert_int_equal(area_blob_read(a, b, 0, buf, len + 1), len);
	assert_memory_equal(buf, text, len);
}

/* Texts of the lengths at which the chain of chunks changes. */
static const size_t lengths[] = {17, AREA_CHUNK, 2 * AREA_CHUNK + 1};

static char *text_of(char letter, size_t len)
{
	char *text = malloc(len + 1);

	assert_non_null(text);
	memset(text, letter, len);
	text[len] = '\0';
	return text;
}

#endif
