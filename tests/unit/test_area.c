/* The area, each step of it as a dead process may have left it: area_tape.h. */
#include "tests/unit/area_tape.h"

#include <linux/fuse.h>

/* --- requests ------------------------------------------------------------------------------- */

static void stage(struct area *a, uint64_t unique, uint32_t opcode, uint32_t len)
{
	struct fuse_in_header in = {.len = len, .opcode = opcode, .unique = unique};

	memset(area_staging(a), (int)(unique & 0x7f), len);
	memcpy(area_staging(a), &in, sizeof(in));
}

static void assert_request(struct area *a, uint64_t unique, uint32_t len)
{
	uint32_t got = 0;
	const char *data = area_request_get(a, unique, &got);

	assert_non_null(data);
	assert_int_equal(got, len);
	for (uint32_t i = sizeof(struct fuse_in_header); i < len; i++)
		assert_int_equal(data[i], (char)(unique & 0x7f));
}

static void a_request_is_never_lost_and_never_there_twice(void **state)
{
	static const uint32_t lens[] = {48,
					AREA_SMALL_SIZE,
					AREA_SMALL_SIZE + 1,
					AREA_MEDIUM_SIZE,
					AREA_MEDIUM_SIZE + 1,
					AREA_MAX_REQUEST};

	(void)state;
	for (size_t l = 0; l < ARRAY_SIZE(lens); l++) {
		AUTO_CLOSE int fd = create();
		struct area *a = attach(fd);
		size_t kept_at;

		stage(a, 5, FUSE_WRITE, lens[l]);
		record(fd);
		snapshot();
		(void)area_request_keep(a, 5, lens[l]);
		kept_at = tape.n;
		area_request_done(a, 5);
		area_staging_clear(a);
		stop_recording();
		area_free(a);

		for (size_t i = 0; i < tape.n; i++) {
			AUTO_FREE uint64_t *list = NULL;
			uint32_t len;
			struct area *next = attach(tape.copies[i]);
			ssize_t n = area_requests(next, &list);

			if (i <= kept_at) {
				assert_int_equal(n, 1);
				assert_request(next, 5, lens[l]);
			} else {
				assert_int_equal(n, 0);
			}
			/* Answered by the second process, which dies before it reads another. */
			area_request_done(next, 5);
			area_free(next);
			next = attach(tape.copies[i]);
			assert_null(area_request_get(next, 5, &len));
			area_free(next);
		}
		erase_tape();
	}
}

static void requests_without_an_answer_are_not_kept(void **state)
{
	static const uint32_t opcodes[] = {FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT,
					   FUSE_INIT};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		AUTO_CLOSE int fd = create();
		struct area *a = attach(fd);
		uint32_t len;

		stage(a, 9, opcodes[i], 64);
		area_free(a);
		a = attach(fd);
		assert_null(area_request_get(a, 9, &len));
		/* Only INIT can be found by who keeps it elsewhere. */
		if (opcodes[i] == FUSE_INIT)
			assert_int_equal(((struct fuse_in_header *)area_staging(a))->unique, 9);
		area_free(a);
	}
}

static void many_requests_come_and_go(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	uint64_t random = 1;

	(void)state;
	/* Every place of the table is used often, and emptied in the middle of runs. */
	for (uint64_t unique = 2; unique < 200000; unique += 2) {
		stage(a, unique, FUSE_READ, 80);
		(void)area_request_keep(a, unique, 80);
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		if (unique > 20000)
			area_request_done(a, (random >> 33) % (unique / 2) * 2);
		if (unique > 60000)
			area_request_done(a, unique - 60000);
	}
	AUTO_FREE uint64_t *list = NULL;
	ssize_t n = area_requests(a, &list);
	assert_true(n > 100);
	for (ssize_t i = 0; i < n; i++) {
		assert_request(a, list[i], 80);
		if (i > 0)
			assert_true(list[i - 1] < list[i]);
	}
	area_free(a);
	a = attach(fd);
	for (ssize_t i = 0; i < n; i++) {
		assert_request(a, list[i], 80);
		area_request_done(a, list[i]);
	}
	assert_int_equal(a->n_free_slots[CLASS_SMALL], AREA_SMALL_COUNT);
	area_free(a);
}

/* A held WRITE whose bytes are in its document gives its large slot back, and is never lost. */
static void a_shrunk_request_is_there_once(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	uint32_t len = 0;

	(void)state;
	stage(a, 5, FUSE_WRITE, AREA_MEDIUM_SIZE + 1);
	(void)area_request_keep(a, 5, AREA_MEDIUM_SIZE + 1);
	area_request_refuse(a, 5, EBUSY);
	record(fd);
	snapshot();
	area_request_shrink(a, 5, 80);
	snapshot();
	stop_recording();
	const struct fuse_in_header *in = area_request_get(a, 5, &len);
	assert_non_null(in);
	assert_int_equal(len, 80);
	assert_int_equal(in->unique, 5);
	assert_int_equal(in->opcode, FUSE_WRITE);
	assert_int_equal(area_request_refused(a, 5), EBUSY);

	for (size_t i = 0; i < tape.n; i++) {
		struct area *next = attach(tape.copies[i]);
		AUTO_FREE uint64_t *list = NULL;

		assert_int_equal(area_requests(next, &list), 1);
		assert_int_equal(list[0], 5);
		assert_int_equal(area_request_refused(next, 5), EBUSY);
		area_request_done(next, 5);
		assert_int_equal(area_request_refused(next, 5), 0);
		area_free(next);
	}
	erase_tape();

	/* So any number of them leaves room for large requests. */
	for (uint64_t unique = 7; unique < 7 + 20 * AREA_LARGE_COUNT; unique += 2) {
		assert_true(area_can_take(a));
		stage(a, unique, FUSE_WRITE, AREA_MAX_REQUEST);
		(void)area_request_keep(a, unique, AREA_MAX_REQUEST);
		assert_int_equal(area_request_refused(a, unique), 0);
		area_request_shrink(a, unique, 80);
	}
	area_free(a);
}

static void a_full_area_takes_nothing_more(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	uint64_t unique = 2;

	(void)state;
	for (; area_can_take(a); unique += 2) {
		stage(a, unique, FUSE_WRITE, AREA_MEDIUM_SIZE + 1);
		(void)area_request_keep(a, unique, AREA_MEDIUM_SIZE + 1);
	}
	assert_int_equal(unique / 2 - 1, AREA_LARGE_COUNT);
	area_request_done(a, 4);
	assert_true(area_can_take(a));
	area_free(a);
}

/* --- handles and what they hold ------------------------------------------------------------- */

static void a_handle_is_there_once_it_is_published(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	struct area_handle *h;
	uint64_t fh;

	(void)state;
	record(fd);
	h = area_handle_new(a, 77, 1000);
	assert_non_null(h);
	fh = h->fh;
	area_handle_publish(a, h, 12);
	area_handle_drop(a, h);
	stop_recording();
	area_free(a);

	size_t seen = 0;
	for (size_t i = 0; i < tape.n; i++) {
		struct area *next = attach(tape.copies[i]);

		h = area_handle_get(next, fh);
		assert_ptr_equal(area_handle_of_open(next, 12), h);
		if (h) {
			seen++;
			assert_int_equal(h->uid, 1000);
			assert_int_equal(h->node, 77);
		}
		assert_int_equal(area_handle_count(next), h ? 1 : 0);
		/* A number is never given out twice. */
		struct area_handle *other = area_handle_new(next, 1, 0);
		assert_non_null(other);
		if (i > 0)
			assert_true(other->fh != fh);
		area_free(next);
	}
	assert_true(seen > 0);
	erase_tape();
}

static struct area_handle *open_handle(struct area *a, uint64_t unique)
{
	struct area_handle *h = area_handle_new(a, 3, 1000);

	assert_non_null(h);
	area_handle_publish(a, h, unique);
	return h;
}

/* After each cut the WRITE is handed in again, as it is not answered, and is there once. */
static void check_append(uint64_t fh, uint64_t unique, const char *before, const char *added)
{
	size_t before_len = strlen(before), added_len = strlen(added);
	AUTO_FREE char *after = malloc(before_len + added_len + 1);

	assert_non_null(after);
	memcpy(after, before, before_len);
	memcpy(after + before_len, added, added_len + 1);
	for (size_t i = 0; i < tape.n; i++) {
		struct area *next = attach(tape.copies[i]);
		struct area_handle *h = area_handle_get(next, fh);

		assert_non_null(h);
		check_chunks(next);
		if (h->doc.len == before_len)
			assert_blob(next, &h->doc, before, before_len);
		else
			assert_blob(next, &h->doc, after, before_len + added_len);
		assert_int_equal(area_document_append(next, h, unique, added, added_len), 0);
		assert_blob(next, &h->doc, after, before_len + added_len);
		check_chunks(next);
		area_free(next);
	}
	erase_tape();
}

static void a_write_is_appended_exactly_once(void **state)
{
	(void)state;
	for (size_t first = 0; first < ARRAY_SIZE(lengths); first++)
		for (size_t second = 0; second < ARRAY_SIZE(lengths); second++) {
			AUTO_CLOSE int fd = create();
			AUTO_FREE char *x = text_of('x', lengths[first]);
			AUTO_FREE char *y = text_of('y', lengths[second]);
			struct area *a = attach(fd);
			struct area_handle *h = open_handle(a, 2);
			uint64_t fh = h->fh;

			record(fd);
			assert_int_equal(area_document_append(a, h, 4, x, lengths[first]), 0);
			stop_recording();
			check_append(fh, 4, "", x);

			record(fd);
			assert_int_equal(area_document_append(a, h, 6, y, lengths[second]), 0);
			stop_recording();
			check_append(fh, 6, x, y);
			area_free(a);
		}
}

static void a_second_document_has_nothing_of_the_first(void **state)
{
	(void)state;
	for (size_t first = 0; first < ARRAY_SIZE(lengths); first++)
		for (size_t second = 0; second < ARRAY_SIZE(lengths); second++) {
			AUTO_CLOSE int fd = create();
			AUTO_FREE char *x = text_of('x', lengths[first]);
			AUTO_FREE char *y = text_of('y', lengths[second]);
			struct area *a = attach(fd);
			struct area_handle *h = open_handle(a, 2);
			uint64_t fh = h->fh;

			assert_int_equal(area_document_append(a, h, 4, x, lengths[first]), 0);
			area_blob_clear(a, &h->doc, h->uid);
			record(fd);
			assert_int_equal(area_document_append(a, h, 6, y, lengths[second]), 0);
			stop_recording();
			check_append(fh, 6, "", y);
			area_free(a);
		}
}

static void a_text_is_old_or_new_or_empty(void **state)
{
	(void)state;
	for (size_t first = 0; first < ARRAY_SIZE(lengths); first++)
		for (size_t second = 0; second < ARRAY_SIZE(lengths); second++) {
			AUTO_CLOSE int fd = create();
			AUTO_FREE char *x = text_of('x', lengths[first]);
			AUTO_FREE char *y = text_of('y', lengths[second]);
			struct area *a = attach(fd);
			struct area_handle *h = open_handle(a, 2);
			uint64_t fh = h->fh;

			assert_int_equal(area_blob_set(a, &h->text, 1000, x, lengths[first]), 0);
			record(fd);
			assert_int_equal(area_blob_set(a, &h->text, 1000, y, lengths[second]), 0);
			area_blob_clear(a, &h->text, 1000);
			stop_recording();
			area_free(a);
			for (size_t i = 0; i < tape.n; i++) {
				struct area *next = attach(tape.copies[i]);
				char c = 0;

				h = area_handle_get(next, fh);
				assert_non_null(h);
				check_chunks(next);
				if (area_blob_read(next, &h->text, 0, &c, 1) == 1)
					assert_blob(next, &h->text, c == 'x' ? x : y,
						    c == 'x' ? lengths[first] : lengths[second]);
				area_free(next);
			}
			erase_tape();
		}
}

static void a_dropped_handle_gives_everything_back(void **state)
{
	AUTO_CLOSE int fd = create();
	AUTO_FREE char *x = text_of('x', 9 * AREA_CHUNK);
	struct area *a = attach(fd);

	(void)state;
	for (int round = 0; round < 3; round++) {
		struct area_handle *h = open_handle(a, 2);

		assert_int_equal(area_blob_set(a, &h->text, 1000, x, 9 * AREA_CHUNK), 0);
		assert_int_equal(area_document_append(a, h, 4, x, AREA_CHUNK), 0);
		assert_int_equal(area_blob_set(a, &h->more_groups, 1000, x, 5), 0);
		area_handle_drop(a, h);
		check_chunks(a);
		assert_int_equal(a->n_free_chunks, AREA_CHUNKS - 1);
		area_free(a);
		a = attach(fd);
	}
	area_free(a);
}

static void one_user_does_not_starve_the_rest(void **state)
{
	AUTO_CLOSE int fd = create();
	size_t share = (size_t)AREA_CHUNKS_PER_UID * AREA_CHUNK;
	AUTO_FREE char *x = text_of('x', share + 1);
	struct area *a = attach(fd);
	struct area_handle *h = open_handle(a, 2);

	(void)state;
	assert_int_equal(area_blob_set(a, &h->text, 1000, x, share), 0);
	assert_int_equal(area_document_append(a, h, 4, x, 1), -ENOSPC);
	assert_int_equal(h->doc.len, 0);
	/* Also after the process died. */
	area_free(a);
	a = attach(fd);
	h = area_handle_of_open(a, 2);
	assert_non_null(h);
	assert_int_equal(area_document_append(a, h, 4, x, 1), -ENOSPC);
	struct area_handle *other = open_handle(a, 6);
	assert_int_equal(area_blob_set(a, &other->text, 1001, x, share), 0);
	area_blob_clear(a, &h->text, 1000);
	assert_int_equal(area_document_append(a, h, 4, x, 1), 0);
	check_chunks(a);
	area_free(a);
}

static void handles_run_out_and_come_back(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	struct area_handle *h, *last = NULL;
	size_t n = 0;

	(void)state;
	for (; (h = area_handle_new(a, 1, 0)); n++) {
		area_handle_publish(a, h, 2 * n + 2);
		last = h;
	}
	assert_int_equal(n, AREA_HANDLES);
	area_handle_drop(a, last);
	assert_non_null(area_handle_new(a, 1, 0));
	area_free(a);
}

/* One user cannot take the last one from everybody else. */
static void a_user_has_a_share_of_the_handles(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	struct area_handle *h, *last = NULL;
	size_t n = 0;

	(void)state;
	for (; (h = area_handle_new(a, 1, 1000)); n++) {
		area_handle_publish(a, h, 2 * n + 2);
		last = h;
	}
	assert_int_equal(n, AREA_HANDLES_PER_UID);
	assert_non_null(area_handle_new(a, 1, 1001));
	assert_non_null(area_handle_new(a, 1, 0));
	/* The next process counts the same. */
	struct area *next = attach(fd);
	assert_null(area_handle_new(next, 1, 1000));
	area_free(next);
	area_handle_drop(a, last);
	assert_non_null(area_handle_new(a, 1, 1000));
	area_free(a);
}

/* --- mailboxes ------------------------------------------------------------------------------ */

static void a_mailbox_survives(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);

	(void)state;
	area_mailbox_put(a, 1000, 0, "old", 3);
	record(fd);
	area_mailbox_put(a, 1000, 0, "newer", 5);
	area_mailbox_put(a, 1001, 0, "other", 5);
	stop_recording();
	area_free(a);
	for (size_t i = 0; i < tape.n; i++) {
		struct area *next = attach(tape.copies[i]);
		const struct area_mailbox *m = area_mailbox_get(next, 1000, 0);
		const struct area_mailbox *other = area_mailbox_get(next, 1001, 0);
		char c = 0;

		assert_non_null(m);
		check_chunks(next);
		if (area_blob_read(next, &m->text, 0, &c, 1) == 1)
			assert_blob(next, &m->text, c == 'o' ? "old" : "newer", c == 'o' ? 3 : 5);
		if (other)
			assert_blob(next, &other->text, "other", 5);
		area_free(next);
	}
	erase_tape();
}

static void the_oldest_mailbox_makes_room(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);

	(void)state;
	for (uint32_t uid = 0; uid < AREA_MAILBOXES; uid++)
		area_mailbox_put(a, uid, 0, "x", 1);
	area_mailbox_put(a, 0, 0, "again", 5);
	area_mailbox_put(a, 70000, 0, "y", 1);
	assert_non_null(area_mailbox_get(a, 0, 0));
	assert_null(area_mailbox_get(a, 1, 0));
	assert_non_null(area_mailbox_get(a, 70000, 0));
	check_chunks(a);
	area_free(a);
}

/* --- hostile content ------------------------------------------------------------------------ */

static void what_is_no_area_is_refused(void **state)
{
	AUTO_CLOSE int empty = memfd_create("empty", MFD_CLOEXEC);
	AUTO_CLOSE int fd = create();
	AUTO_CLOSE int like = -1;
	struct area_header h, damaged[6];
	struct area *a = NULL;
	struct error err;

	(void)state;
	assert_int_equal(area_attach(empty, &a, &err), -EPROTO);
	assert_int_equal(area_peek(empty, &h, &err), -EPROTO);
	assert_int_equal(area_create_like(empty, &like, &err), -EPROTO);
	assert_int_equal(area_attach(-1, &a, &err), -EBADF);
	assert_int_equal(area_peek(fd, &h, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++)
		damaged[i] = h;
	damaged[0].magic++;
	damaged[1].layout++;
	damaged[2].size--;
	damaged[3].init_len = AREA_INIT_MAX + 1;
	damaged[4].init_reply_len = UINT32_MAX;
	damaged[5].next_fh = UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++) {
		assert_int_equal(pwrite(fd, &damaged[i], sizeof(h), 0), (ssize_t)sizeof(h));
		assert_int_equal(area_attach(fd, &a, &err), -EPROTO);
		assert_int_equal(area_peek(fd, &h, &err), -EPROTO);
	}
	assert_null(a);
	assert_int_equal(like, -1);
}

static void a_likeness_has_the_header_and_nothing_else(void **state)
{
	AUTO_CLOSE int fd = create();
	AUTO_CLOSE int like = -1;
	struct area *a = attach(fd);
	uint32_t len;

	(void)state;
	stage(a, 5, FUSE_READ, 80);
	(void)area_request_keep(a, 5, 80);
	area_header(a)->init_len = 3;
	memcpy(area_header(a)->init, "abc", 3);
	assert_int_equal(area_create_like(fd, &like, NULL), 0);
	struct area *b = attach(like);
	assert_int_equal(area_header(b)->mount_id, 7);
	assert_memory_equal(area_header(b)->init, "abc", 3);
	assert_null(area_request_get(b, 5, &len));
	stage(b, 9, FUSE_READ, 80);
	area_free(b);
	assert_request(a, 5, 80);
	assert_int_equal(((struct fuse_in_header *)area_staging(a))->len, 0);
	area_free(a);
}

static void groups_that_are_not_there_give_no_right(void **state)
{
	AUTO_CLOSE int fd = create();
	struct area *a = attach(fd);
	struct area_handle *h = open_handle(a, 2);

	(void)state;
	h->trusted = 1;
	h->n_groups = AREA_GROUPS_INLINE + 1;
	area_free(a);
	a = attach(fd);
	h = area_handle_of_open(a, 2);
	assert_non_null(h);
	assert_int_equal(h->n_groups, 0);
	assert_int_equal(h->trusted, 0);
	area_free(a);
}

static void touch(struct area_handle *h, void *user)
{
	struct area *a = user;
	char buf[300];

	(void)area_blob_read(a, &h->doc, 0, buf, sizeof(buf));
	(void)area_blob_read(a, &h->text, h->text.len / 2, buf, sizeof(buf));
	(void)area_document_append(a, h, 1, "x", 1);
}

/* Words that are small, huge, or anything. */
static uint64_t hostile_word(uint64_t *random)
{
	*random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
	switch (*random >> 62) {
	case 0:
		return *random >> 44 & 0xff;
	case 1:
		return UINT64_MAX - (*random >> 60);
	case 2:
		return (*random >> 40 & 0x7fff) << 32 | (*random >> 20 & 0x7fff);
	default:
		return *random;
	}
}

static void hostile_content_does_not_crash(void **state)
{
	static const struct {
		size_t from, len;
	} parts[] = {
		{OFF_SLOTS, sizeof(struct area_slot) * AREA_SLOTS},
		{OFF_NEXT, sizeof(uint32_t) * AREA_CHUNKS},
		{OFF_MAILBOXES, sizeof(struct area_mailbox) * AREA_MAILBOXES},
		{OFF_OPEN, sizeof(uint64_t) * AREA_HANDLES},
		{OFF_HANDLES, sizeof(struct area_handle) * 4096},
		{OFF_STAGING, AREA_MAX_REQUEST},
	};
	uint64_t random = 20260101;

	(void)state;
	for (int round = 0; round < 8; round++) {
		AUTO_CLOSE int fd = create();
		AUTO_FREE uint64_t *list = NULL;
		struct area *a = attach(fd);

		for (size_t p = 0; p < ARRAY_SIZE(parts); p++)
			for (size_t at = 0; at + 8 <= parts[p].len; at += 8) {
				uint64_t word = hostile_word(&random);

				memcpy(a->base + parts[p].from + at, &word, sizeof(word));
			}
		/* Handles that look right, with hostile content. */
		a->header->next_fh = 1000;
		for (uint32_t i = 0; i < 4096; i++)
			a->handles[i].fh = a->open[i] = (uint64_t)7 * AREA_HANDLES + i;
		area_free(a);

		a = attach(fd);
		check_chunks(a);
		area_handle_each(a, touch, a);
		ssize_t n = area_requests(a, &list);
		for (ssize_t i = 0; i < n; i++) {
			uint32_t len;

			assert_non_null(area_request_get(a, list[i], &len));
			assert_in_range(len, sizeof(struct fuse_in_header), AREA_MAX_REQUEST);
			area_request_done(a, list[i]);
		}
		for (uint32_t uid = 0; uid < 100; uid++)
			area_mailbox_put(a, uid, 0, "x", 1);
		for (uint32_t i = 0; i < 4096; i++)
			if (area_handle_get(a, (uint64_t)7 * AREA_HANDLES + i))
				area_handle_drop(a, &a->handles[i]);
		area_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_never_lost_and_never_there_twice),
		cmocka_unit_test(requests_without_an_answer_are_not_kept),
		cmocka_unit_test(many_requests_come_and_go),
		cmocka_unit_test(a_shrunk_request_is_there_once),
		cmocka_unit_test(a_full_area_takes_nothing_more),
		cmocka_unit_test(a_handle_is_there_once_it_is_published),
		cmocka_unit_test(a_write_is_appended_exactly_once),
		cmocka_unit_test(a_second_document_has_nothing_of_the_first),
		cmocka_unit_test(a_text_is_old_or_new_or_empty),
		cmocka_unit_test(a_dropped_handle_gives_everything_back),
		cmocka_unit_test(one_user_does_not_starve_the_rest),
		cmocka_unit_test(handles_run_out_and_come_back),
		cmocka_unit_test(a_user_has_a_share_of_the_handles),
		cmocka_unit_test(a_mailbox_survives),
		cmocka_unit_test(the_oldest_mailbox_makes_room),
		cmocka_unit_test(what_is_no_area_is_refused),
		cmocka_unit_test(a_likeness_has_the_header_and_nothing_else),
		cmocka_unit_test(groups_that_are_not_there_give_no_right),
		cmocka_unit_test(hostile_content_does_not_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
