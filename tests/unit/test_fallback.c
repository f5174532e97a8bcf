/* The keeper's answers, with a pair of sockets in place of the device. */
#include "tests/unit/test.h"

#include <linux/fuse.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/area.h"
#include "fs/fallback.h"

struct device {
	int kernel; /* the test's end */
	int fuse_fd;
	int area_fd;
	struct fallback *fallback;
};

static int set_up(void **state)
{
	static struct device d;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0 ||
	    area_create(1, 2, &d.area_fd, NULL) < 0 ||
	    fallback_new(pair[1], d.area_fd, &d.fallback, NULL) < 0)
		return -1;
	d.kernel = pair[0];
	d.fuse_fd = pair[1];
	*state = &d;
	return 0;
}

static int tear_down(void **state)
{
	struct device *d = *state;

	d->fallback = fallback_free(d->fallback);
	(void)close_fd(d->kernel);
	(void)close_fd(d->fuse_fd);
	(void)close_fd(d->area_fd);
	return 0;
}

struct request {
	struct fuse_in_header in;
	union {
		struct fuse_release_in release;
		struct fuse_flush_in flush;
		char bytes[64];
	} body;
};

static struct request request(uint32_t opcode, uint64_t unique, uint64_t fh)
{
	struct request r = {.in = {.len = sizeof(r), .opcode = opcode, .unique = unique}};

	/* The handle is first in both. */
	r.body.flush.fh = fh;
	return r;
}

/* Hands one in and returns the answer's error; 1 when there is none. */
static int ask(struct device *d, uint32_t opcode, uint64_t unique, uint64_t fh)
{
	struct request r = request(opcode, unique, fh);
	struct fuse_out_header out;

	assert_int_equal(send(d->kernel, &r, sizeof(r), 0), (ssize_t)sizeof(r));
	assert_int_equal(fallback_serve(d->fallback, NULL), 1);
	ssize_t n = recv(d->kernel, &out, sizeof(out), 0);
	if (n < 0)
		return 1;
	assert_int_equal(n, sizeof(out));
	assert_int_equal(out.len, sizeof(out));
	assert_int_equal(out.unique, unique);
	return out.error;
}

/* What a dead hub leaves: a handle, perhaps with the beginning of a document. */
static uint64_t leave_handle(struct device *d, uint64_t open_unique, const char *document)
{
	struct area *a = NULL;

	assert_int_equal(area_attach(d->area_fd, &a, NULL), 0);
	struct area_handle *h = area_handle_new(a, 3, 0);
	assert_non_null(h);
	area_handle_publish(a, h, open_unique);
	uint64_t fh = h->fh;
	if (document)
		assert_int_equal(area_document_append(a, h, 1, document, strlen(document)), 0);
	area_free(a);
	return fh;
}

static void leave_request(struct device *d, uint32_t opcode, uint64_t unique, uint64_t fh)
{
	struct request r = request(opcode, unique, fh);
	struct area *a = NULL;

	assert_int_equal(area_attach(d->area_fd, &a, NULL), 0);
	memcpy(area_staging(a), &r, sizeof(r));
	(void)area_request_keep(a, unique, sizeof(r));
	area_free(a);
}

static bool has_handle(struct device *d, uint64_t fh)
{
	struct area *a = NULL;

	fallback_yield(d->fallback);
	assert_int_equal(area_attach(d->area_fd, &a, NULL), 0);
	bool has = area_handle_get(a, fh) != NULL;
	area_free(a);
	return has;
}

static void everything_is_eio_but_what_has_no_answer(void **state)
{
	static const struct {
		uint32_t opcode;
		int error;
	} cases[] = {
		{FUSE_INIT, 1},       {FUSE_FORGET, 1},       {FUSE_BATCH_FORGET, 1},
		{FUSE_INTERRUPT, 1},  {FUSE_NOTIFY_REPLY, 1}, {FUSE_DESTROY, 0},
		{FUSE_RELEASE, 0},    {FUSE_RELEASEDIR, 0},   {FUSE_LOOKUP, -EIO},
		{FUSE_GETATTR, -EIO}, {FUSE_STATFS, -EIO},    {FUSE_OPEN, -EIO},
		{FUSE_READ, -EIO},    {FUSE_WRITE, -EIO},     {FUSE_FLUSH, -EIO},
		{FUSE_POLL, -EIO},    {FUSE_OPENDIR, -EIO},   {12345, -EIO},
	};
	struct device *d = *state;

	for (uint64_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(ask(d, cases[i].opcode, 2 * i + 2, 0), cases[i].error);
	/* Of a resent request the top bit belongs to the number. */
	assert_int_equal(ask(d, FUSE_READ, UINT64_C(1) << 63 | 44, 0), -EIO);
}

static void a_short_request_is_answered_all_the_same(void **state)
{
	struct device *d = *state;
	struct fuse_in_header in = {.len = sizeof(in), .opcode = FUSE_RELEASE, .unique = 8};
	struct fuse_out_header out;

	assert_int_equal(send(d->kernel, &in, sizeof(in), 0), (ssize_t)sizeof(in));
	assert_int_equal(fallback_serve(d->fallback, NULL), 1);
	assert_int_equal(recv(d->kernel, &out, sizeof(out), 0), (ssize_t)sizeof(out));
	assert_int_equal(out.error, 0);
}

static void nothing_is_read_before_init_was_answered(void **state)
{
	struct device *d = *state;
	struct area *a = NULL;

	assert_false(fallback_may_serve(d->fallback));
	assert_int_equal(area_attach(d->area_fd, &a, NULL), 0);
	area_header(a)->init_len = 56;
	assert_false(fallback_may_serve(d->fallback));
	area_header(a)->init_reply_len = 80;
	assert_true(fallback_may_serve(d->fallback));
	area_free(a);
}

static void what_waits_in_the_area_is_answered(void **state)
{
	struct device *d = *state;
	struct fuse_out_header out;

	leave_request(d, FUSE_READ, 22, 0);
	leave_request(d, FUSE_WRITE, 20, 0);
	assert_int_equal(fallback_own(d->fallback, NULL), 0);
	for (uint64_t unique = 20; unique <= 22; unique += 2) {
		assert_int_equal(recv(d->kernel, &out, sizeof(out), 0), (ssize_t)sizeof(out));
		assert_int_equal(out.unique, unique);
		assert_int_equal(out.error, -EIO);
	}
	/* Once: neither again now, nor for the next hub. */
	assert_int_equal(fallback_own(d->fallback, NULL), 0);
	fallback_yield(d->fallback);
	assert_int_equal(fallback_own(d->fallback, NULL), 0);
	assert_int_equal(recv(d->kernel, &out, sizeof(out), 0), -1);
}

static void an_open_that_failed_leaves_no_handle(void **state)
{
	struct device *d = *state;
	uint64_t fh = leave_handle(d, 30, NULL), other = leave_handle(d, 28, NULL);

	leave_request(d, FUSE_OPEN, 30, 0);
	assert_int_equal(fallback_own(d->fallback, NULL), 0);
	assert_false(has_handle(d, fh));
	assert_true(has_handle(d, other));
}

static void a_flush_with_nothing_to_lose_succeeds(void **state)
{
	struct device *d = *state;
	uint64_t empty = leave_handle(d, 2, NULL), unfinished = leave_handle(d, 4, "{\"a\":");

	/* While a hub has the area nobody can know. */
	assert_int_equal(ask(d, FUSE_FLUSH, 40, empty), -EIO);
	assert_int_equal(fallback_own(d->fallback, NULL), 0);
	assert_int_equal(ask(d, FUSE_FLUSH, 42, empty), 0);
	assert_int_equal(ask(d, FUSE_FLUSH, 44, unfinished), -EIO);
	assert_int_equal(ask(d, FUSE_FLUSH, 46, 999), -EIO);
}

static void a_closed_descriptor_is_forgotten_now_or_later(void **state)
{
	struct device *d = *state;
	uint64_t now = leave_handle(d, 2, "x"), later[200];

	for (uint64_t i = 0; i < ARRAY_SIZE(later); i++)
		later[i] = leave_handle(d, 100 + 2 * i, NULL);
	for (uint64_t i = 0; i < ARRAY_SIZE(later); i++)
		assert_int_equal(ask(d, FUSE_RELEASE, 1000 + 2 * i, later[i]), 0);
	assert_true(has_handle(d, later[0]));
	assert_int_equal(fallback_own(d->fallback, NULL), 0);
	assert_int_equal(ask(d, FUSE_RELEASE, 60, now), 0);
	assert_int_equal(ask(d, FUSE_RELEASE, 62, now), 0);
	assert_false(has_handle(d, now));
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		assert_false(has_handle(d, later[i]));
}

static void a_turn_ends_though_requests_do_not(void **state)
{
	struct device *d = *state;
	struct request r = request(FUSE_FORGET, 2, 0);

	for (int i = 0; i < FALLBACK_TURN + 3; i++)
		assert_int_equal(send(d->kernel, &r, sizeof(r), 0), (ssize_t)sizeof(r));
	assert_int_equal(fallback_serve(d->fallback, NULL), FALLBACK_TURN);
	assert_int_equal(fallback_serve(d->fallback, NULL), 3);
}

static void the_end_of_the_mount_is_told(void **state)
{
	struct device *d = *state;
	struct error err;

	d->kernel = close_fd(d->kernel);
	assert_int_equal(fallback_serve(d->fallback, &err), -ENODEV);
}

#define with_device(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_device(everything_is_eio_but_what_has_no_answer),
		with_device(a_short_request_is_answered_all_the_same),
		with_device(nothing_is_read_before_init_was_answered),
		with_device(what_waits_in_the_area_is_answered),
		with_device(an_open_that_failed_leaves_no_handle),
		with_device(a_flush_with_nothing_to_lose_succeeds),
		with_device(a_closed_descriptor_is_forgotten_now_or_later),
		with_device(a_turn_ends_though_requests_do_not),
		with_device(the_end_of_the_mount_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
