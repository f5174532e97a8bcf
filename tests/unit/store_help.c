#include "tests/unit/store_help.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/store/meta.h"

void help_dir_init(struct help_dir *dir, const char *below)
{
	const char *tmp = below ? below : getenv("TMPDIR");

	(void)snprintf(dir->path, sizeof(dir->path), "%s/cloop-store-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir->path));
	(void)snprintf(dir->db, sizeof(dir->db), "%s/state.db", dir->path);
}

void help_dir_clean(const struct help_dir *dir)
{
	AUTO_CLOSEDIR DIR *d = opendir(dir->path);

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
	assert_int_equal(rmdir(dir->path), 0);
}

int help_dir_make(void **state)
{
	struct help_dir *dir = calloc(1, sizeof(*dir));

	assert_non_null(dir);
	help_dir_init(dir, NULL);
	*state = dir;
	return 0;
}

int help_dir_remove(void **state)
{
	struct help_dir *dir = *state;

	help_dir_clean(dir);
	free(dir);
	return 0;
}

struct store_options help_options(void)
{
	return (struct store_options){.busy_timeout_ms = 50, .boot_id = "boot-1"};
}

struct store *help_open(const char *db)
{
	struct store_options opts = help_options();
	struct store *s = NULL;
	struct error err = {0};

	if (store_open(db, &opts, &s, &err) < 0)
		fail_msg("%s: %s", error_name(err.code), err.reason);
	return s;
}

void help_refused(const char *db, const struct store_options *opts, int code, const char *word)
{
	struct store *s = NULL;
	struct error err = {0};

	assert_int_equal(store_open(db, opts, &s, &err), -code);
	assert_null(s);
	assert_int_equal(err.code, code);
	if (!strstr(err.reason, word))
		fail_msg("\"%s\" does not say \"%s\"", err.reason, word);
}

static int op_apply(struct store_tx *tx, struct store_op *base, struct error *err)
{
	struct help_op *op = (struct help_op *)base;

	return op->fn(tx, op->arg, err);
}

static void op_done(struct store_op *base, int result, const struct error *err)
{
	struct help_op *op = (struct help_op *)base;

	assert_true((result < 0) == (err != NULL));
	op->result = result;
	op->order = ++*op->counter;
	if (err)
		op->error = *err;
}

void help_submit(struct store *s, struct help_op *op, help_apply *fn, void *arg, int *counter)
{
	*op = (struct help_op){.op = {.apply = op_apply, .done = op_done},
			       .fn = fn,
			       .arg = arg,
			       .counter = counter};
	store_submit(s, &op->op);
}

int help_run(struct store *s, help_apply *fn, void *arg, struct error *ret_err)
{
	struct help_op op;
	int counter = 0;

	help_submit(s, &op, fn, arg, &counter);
	store_flush(s);
	assert_int_equal(op.order, counter);
	if (ret_err)
		*ret_err = op.error;
	return op.result;
}

int help_set(struct store_tx *tx, void *arg, struct error *err)
{
	const struct help_pair *pair = arg;

	return meta_set_int(tx, pair->key, pair->value, err);
}

int help_refuse(struct store_tx *tx, void *arg, struct error *err)
{
	int r = help_set(tx, arg, err);

	return r < 0 ? r : error_set(err, EPERM, "refused after a change");
}

int64_t help_get(struct store_tx *tx, const char *key)
{
	int64_t value = -1;
	struct error err;
	int r = meta_get_int(tx, key, &value, &err);

	if (r < 0 && r != -ENOENT)
		fail_msg("%s", err.reason);
	return value;
}

char *help_slurp(const char *path, size_t *ret_len)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return NULL;
	assert_int_equal(fstat(fd, &st), 0);
	char *data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	*ret_len = (size_t)st.st_size;
	return data;
}

void help_spew(const char *path, const char *data, size_t len)
{
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
}

void help_same(const char *path, const char *data, size_t len)
{
	size_t now_len = 0;
	AUTO_FREE char *now = help_slurp(path, &now_len);

	assert_non_null(now);
	assert_int_equal(now_len, len);
	assert_memory_equal(now, data, len);
}
