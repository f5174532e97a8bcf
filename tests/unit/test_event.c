/* The event log as a file: every byte range, and what pruning leaves. */
#include "tests/unit/store_help.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/store/event.h"
#include "core/store/query.h"

struct append {
	const char *object;
	struct event_place place;
};

static int append(struct store_tx *tx, void *arg, struct error *err)
{
	struct append *a = arg;

	return event_append(tx, 1700000000123456789, a->object, &a->place, err);
}

static void add(struct store *s, struct buf *file, const char *object)
{
	struct append a = {.object = object};
	struct error err;

	if (help_run(s, append, &a, &err) != 0)
		fail_msg("%s", err.reason);
	assert_int_equal(a.place.offset_bytes, file->len);
	buf_printf(file, "{\"seq\":%" PRId64 ",\"at\":\"2023-11-14T22:13:20.123456789Z\"%s%s\n",
		   a.place.seq, strcmp(object, "{}") == 0 ? "" : ",", object + 1);
	assert_int_equal(a.place.offset_bytes + a.place.length_bytes, file->len);
}

/* Every offset and many lengths give the bytes that a file would give. */
static void compare(struct store *s, const struct buf *file)
{
	static const size_t sizes[] = {0, 1, 2, 79, 80, 81, 200, 4096};
	struct store_tx *tx = store_reader(s);
	char got[4096];
	int64_t size = -1;

	assert_int_equal(event_size(tx, &size, NULL), 0);
	assert_int_equal(size, file->len);
	for (size_t off = 0; off <= file->len + 1; off++) {
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			size_t len = 12345, left = off < file->len ? file->len - off : 0;
			size_t want = left < sizes[i] ? left : sizes[i];

			assert_int_equal(event_read(tx, (int64_t)off, got, sizes[i], &len, NULL),
					 0);
			assert_int_equal(len, want);
			if (want)
				assert_memory_equal(got, file->data + off, want);
		}
	}
	assert_true(store_tx_idle(tx));
}

static void it_reads_like_a_file(void **state)
{
	struct help_dir *dir = *state;
	AUTO_BUF struct buf file = BUF_INIT(1 << 20);
	AUTO_STORE struct store *s = help_open(dir->db);
	size_t len = 1;

	compare(s, &file);
	assert_int_equal(event_read(store_reader(s), -1, NULL, 10, &len, NULL), 0);
	assert_int_equal(len, 0);
	add(s, &file, "{\"type\":\"session.started\",\"uid\":0}");
	compare(s, &file);
	add(s, &file, "{}");
	add(s, &file, "{\"name\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"}");
	add(s, &file, "{\"reason\":\"a \\n b c\"}");
	compare(s, &file);

	/* Each line is an object that says when. */
	for (char *line = file.data; *line; line = strchr(line, '\n') + 1) {
		AUTO_JSON json_t *v = NULL;

		assert_int_equal(json_parse(line, strcspn(line, "\n"), &v, NULL), 0);
		assert_true(json_integer_value(json_object_get(v, "seq")) > 0);
	}
}

static void what_is_not_one_line_is_refused(void **state)
{
	static const char *const bad[] = {"",    "{", "[]", "x", "{\"a\":\"\n\"}", "{\"a\":1}\n",
					  "{\t}"};
	struct help_dir *dir = *state;
	AUTO_BUF struct buf file = BUF_INIT(1 << 20);
	AUTO_FREE char *large = malloc(EVENT_LINE_MAX + 1);
	AUTO_STORE struct store *s = help_open(dir->db);
	struct append a = {0};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		a.object = bad[i];
		assert_int_equal(help_run(s, append, &a, NULL), -EINVAL);
	}
	assert_non_null(large);
	memset(large, 'x', EVENT_LINE_MAX);
	large[0] = '{';
	large[EVENT_LINE_MAX - 1] = '}';
	large[EVENT_LINE_MAX] = '\0';
	a.object = large;
	assert_int_equal(help_run(s, append, &a, NULL), -EFBIG);
	/* None of them left a gap. */
	add(s, &file, "{\"n\":1}");
	compare(s, &file);
}

static int prune(struct store_tx *tx, void *arg, struct error *err)
{
	return event_prune(tx, *(int64_t *)arg, err);
}

static void pruning_drops_the_oldest_and_counts_on(void **state)
{
	struct help_dir *dir = *state;
	AUTO_BUF struct buf file = BUF_INIT(1 << 20);
	struct store *s = help_open(dir->db);
	char object[32];
	int64_t max = 1000, none = 0;

	for (int i = 0; i < 40; i++) {
		(void)snprintf(object, sizeof(object), "{\"n\":%d}", i * i * i);
		add(s, &file, object);
	}
	assert_true(help_run(s, prune, &max, NULL) > 0);
	assert_int_equal(help_run(s, prune, &max, NULL), 0);
	s = store_free(s);

	/* What is left is whole lines, as many as fit, and begins at offset 0. */
	size_t cut = file.len - 1000;
	cut = (size_t)(strchr(file.data + cut, '\n') + 1 - file.data);
	memmove(file.data, file.data + cut, file.len - cut + 1);
	file.len -= cut;
	s = help_open(dir->db);
	compare(s, &file);
	add(s, &file, "{\"n\":41}");
	compare(s, &file);
	assert_non_null(strstr(file.data, "{\"seq\":41,"));

	/* Without a line left, seq still goes on. */
	assert_int_equal(help_run(s, prune, &none, NULL) > 0, 1);
	buf_reset(&file);
	compare(s, &file);
	add(s, &file, "{\"n\":42}");
	compare(s, &file);
	assert_non_null(strstr(file.data, "{\"seq\":42,"));
	s = store_free(s);
}

static int append_many(struct store_tx *tx, void *arg, struct error *err)
{
	for (int i = 0; i < *(int *)arg; i++) {
		int r = event_append(tx, 1, "{}", NULL, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void much_is_pruned_in_parts(void **state)
{
	struct help_dir *dir = *state;
	AUTO_STORE struct store *s = help_open(dir->db);
	int many = EVENT_PRUNE_ROWS + 100;
	int64_t max = 0, size = -1;

	assert_int_equal(help_run(s, append_many, &many, NULL), 0);
	assert_int_equal(help_run(s, prune, &max, NULL), EVENT_PRUNE_ROWS);
	assert_int_equal(help_run(s, prune, &max, NULL), 100);
	assert_int_equal(help_run(s, prune, &max, NULL), 0);
	assert_int_equal(event_size(store_reader(s), &size, NULL), 0);
	assert_int_equal(size, 0);
}

static int append_and_refuse(struct store_tx *tx, void *arg, struct error *err)
{
	int r = append(tx, arg, err);

	return r < 0 ? r : error_set(err, EPERM, "no");
}

static void a_refused_event_leaves_no_gap(void **state)
{
	struct help_dir *dir = *state;
	AUTO_BUF struct buf file = BUF_INIT(1 << 20);
	AUTO_STORE struct store *s = help_open(dir->db);
	struct append a = {.object = "{\"lost\":true}"};

	add(s, &file, "{\"n\":1}");
	assert_int_equal(help_run(s, append_and_refuse, &a, NULL), -EPERM);
	add(s, &file, "{\"n\":2}");
	compare(s, &file);
	assert_non_null(strstr(file.data, "{\"seq\":2,"));
}

#define EVENT_TEST(fn) cmocka_unit_test_setup_teardown(fn, help_dir_make, help_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVENT_TEST(it_reads_like_a_file),
		EVENT_TEST(what_is_not_one_line_is_refused),
		EVENT_TEST(pruning_drops_the_oldest_and_counts_on),
		EVENT_TEST(much_is_pruned_in_parts),
		EVENT_TEST(a_refused_event_leaves_no_gap),
	};

	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
