#include "tests/unit/test.h"

#include <errno.h>
#include <fuse_lowlevel.h>
#include <string.h>
#include <sys/wait.h>

#include "fs/caller.h"
#include "fs/docs.h"
#include "fs/node.h"
#include "fs/transaction.h"

/* --- node ids ------------------------------------------------------------------------------- */

static void ids_mean_the_same_to_everybody(void **state)
{
	static const struct {
		struct node node;
		uint64_t id;
	} cases[] = {
		/* Part of the contract between two builds that serve one mount: never change. */
		{{.kind = NODE_ROOT}, 1},
		{{.kind = NODE_ROOT, .file = 1}, 0x0100000000010000},
		{{.kind = NODE_EXECUTORS}, 0x0200000000000000},
		{{.kind = NODE_EXECUTOR, .serial = 1, .file = 2}, 0x0300000001020000},
		{{.kind = NODE_SESSIONS}, 0x0600000000000000},
		{{.kind = NODE_SESSION, .serial = 0xffffffff, .file = 3, .nonce = 0xabcd}, 0x07ffffffff03abcd},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct node back = {0};

		assert_int_equal(node_id(cases[i].node), cases[i].id);
		assert_true(node_parse(cases[i].id, &back));
		assert_int_equal(back.kind, cases[i].node.kind);
		assert_int_equal(back.serial, cases[i].node.serial);
		assert_int_equal(back.file, cases[i].node.file);
		assert_int_equal(back.nonce, cases[i].node.nonce);
	}
	struct node clone = {.kind = NODE_EXECUTOR, .serial = 1, .file = 8, .nonce = 77};
	assert_int_equal(node_inode(clone) & 0xffff, 0);
}

static void foreign_ids_are_refused(void **state)
{
	static const uint64_t bad[] = {
		0, 2, 0x00ffffffffffffff, (uint64_t)NODE_KINDS << 56, 0xff00000000000000,
		0x0100000000ff0000 /* no such row */,
	};
	struct node node;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(node_parse(bad[i], &node));
}

/* --- tables --------------------------------------------------------------------------------- */

static void check_row(const struct node_dir *dir, const struct node_file *f)
{
	bool live = dir->kind == NODE_LIVE_EXECUTOR || dir->kind == NODE_LIVE_SESSION;

	assert_true(f->doc && strlen(f->doc) > 10);
	assert_int_equal(f->doc[strlen(f->doc) - 1], '.');
	switch (f->type) {
	case FILE_TEXT:
		assert_true(f->render && !(f->mode & 0222));
		break;
	case FILE_CONTROL:
		assert_true(f->render && f->command && (f->mode & 0222));
		break;
	case FILE_TRANSACTION:
		assert_true(!f->render && f->execute && (f->mode & 0222));
		break;
	case FILE_DOCUMENT:
		assert_true(f->render && f->execute && (f->mode & 0222));
		break;
	case FILE_LOG:
		assert_true(f->size && f->pread && !(f->mode & 0222));
		break;
	case FILE_STREAM:
	case FILE_WAIT:
		assert_true(live ? f->stream != NULL : f->render != NULL);
		break;
	case FILE_LINK:
		assert_non_null(f->render);
		break;
	case FILE_DIR:
		assert_non_null(node_dir(f->child));
		break;
	}
}

static void every_row_is_whole(void **state)
{
	(void)state;
	for (int kind = NODE_ROOT; kind < NODE_KINDS; kind++) {
		const struct node_dir *dir = node_dir((enum node_kind)kind);

		assert_non_null(dir);
		assert_int_equal(dir->kind, kind);
		assert_true(dir->path[0] == '/' && dir->doc && dir->doc[0]);
		assert_true(!strchr(dir->path, '<') || dir->name || dir->nth_name);
		assert_true(dir->n_files < 255);
		for (size_t i = 0; i < dir->n_files; i++) {
			check_row(dir, &dir->files[i]);
			assert_int_equal(node_find(dir, dir->files[i].name), i + 1);
		}
	}
	assert_null(node_dir(NODE_NONE));
	assert_null(node_dir(NODE_KINDS));
}

static void the_documents_name_every_file(void **state)
{
	void (*const makers[])(struct buf *) = {docs_readme, docs_markdown, docs_manual};
	static const enum node_kind kinds[] = {NODE_ROOT, NODE_EXECUTOR, NODE_SESSION};

	(void)state;
	for (size_t m = 0; m < ARRAY_SIZE(makers); m++) {
		AUTO_BUF struct buf out = BUF_INIT(NODE_TEXT_MAX);

		makers[m](&out);
		assert_int_equal(out.failed, 0);
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			const struct node_dir *dir = node_dir(kinds[k]);

			for (size_t i = 0; i < dir->n_files; i++)
				assert_non_null(strstr(out.data, dir->files[i].name));
		}
	}
}

/* --- the end of a document ------------------------------------------------------------------ */

static void documents_end_where_json_says(void **state)
{
	static const struct {
		const char *text;
		enum scan_result want;
	} cases[] = {
		{"", SCAN_MORE},
		{" \n\t\r", SCAN_MORE},
		{"{", SCAN_MORE},
		{"{}", SCAN_COMPLETE},
		{"  {} \n", SCAN_COMPLETE},
		{"{\"a\":[1,{\"b\":\"}\"}]}", SCAN_COMPLETE},
		{"{\"a\":\"\\\"}", SCAN_MORE},
		{"{\"a\":\"\\\\\"}", SCAN_COMPLETE},
		{"{\"a\":\"{[\"}", SCAN_COMPLETE},
		{"{} x", SCAN_GARBAGE},
		{"{}{}", SCAN_GARBAGE},
		{"x", SCAN_GARBAGE},
		{"[]", SCAN_GARBAGE},
		{"\"a\"", SCAN_GARBAGE},
		{"{\"a\":1}\0", SCAN_COMPLETE},
		{"{\"a\":[}", SCAN_MORE}, /* its brackets do not match: the parser says so when it ends */
		{"{\"a\":[}]", SCAN_COMPLETE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t len = strlen(cases[i].text);
		struct scanner whole = {0};

		assert_int_equal(scanner_feed(&whole, cases[i].text, len), cases[i].want);
		/* The same for every way to cut it in two, and byte by byte. */
		for (size_t cut = 0; cut <= len; cut++) {
			struct scanner s = {0};

			if (scanner_feed(&s, cases[i].text, cut) != SCAN_GARBAGE)
				assert_int_equal(scanner_feed(&s, cases[i].text + cut, len - cut), cases[i].want);
			else
				assert_int_equal(cases[i].want, SCAN_GARBAGE);
		}
	}
}

static void depth_does_not_wrap(void **state)
{
	struct scanner s = {0};

	(void)state;
	for (int i = 0; i < DOCUMENT_MAX; i++)
		assert_int_equal(scanner_feed(&s, "{", 1), SCAN_MORE);
	for (int i = 0; i < DOCUMENT_MAX - 1; i++)
		assert_int_equal(scanner_feed(&s, "}", 1), SCAN_MORE);
	assert_int_equal(scanner_feed(&s, "}", 1), SCAN_COMPLETE);
}

/* --- callers -------------------------------------------------------------------------------- */

static void callers_are_read_from_proc(void **state)
{
	const struct caller_home nowhere = {0};
	struct caller_home home, elsewhere;
	struct caller c = {0};

	(void)state;
	assert_int_equal(caller_home_read(&home), 0);
	assert_int_equal(caller_read(&home, getpid(), getuid(), getgid(), &c), 0);
	assert_true(c.trusted);
	gid_t groups[64];
	int n = getgroups(64, groups);
	assert_int_equal(c.n_groups, n);
	caller_clear(&c);

	/* From another pid or user namespace, or from one that nobody knows, nobody is trusted. */
	elsewhere = home;
	elsewhere.pid_ino++;
	assert_int_equal(caller_read(&elsewhere, getpid(), 0, 0, &c), 0);
	assert_false(c.trusted);
	caller_clear(&c);
	elsewhere = home;
	elsewhere.user_ino++;
	assert_int_equal(caller_read(&elsewhere, getpid(), 0, 0, &c), 0);
	assert_false(c.trusted);
	caller_clear(&c);
	assert_int_equal(caller_read(&nowhere, getpid(), 0, 0, &c), 0);
	assert_false(c.trusted);
	caller_clear(&c);

	assert_true(caller_read(&home, 0, 0, 0, &c) < 0);
	assert_true(caller_read(&home, -1, 0, 0, &c) < 0);
	pid_t gone = fork();
	if (gone == 0)
		_exit(0);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	assert_true(caller_read(&home, gone, 0, 0, &c) < 0);
	assert_false(caller_interrupted(gone));
	assert_false(caller_interrupted(getpid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_mean_the_same_to_everybody),
		cmocka_unit_test(foreign_ids_are_refused),
		cmocka_unit_test(every_row_is_whole),
		cmocka_unit_test(the_documents_name_every_file),
		cmocka_unit_test(documents_end_where_json_says),
		cmocka_unit_test(depth_does_not_wrap),
		cmocka_unit_test(callers_are_read_from_proc),
	};

	return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
