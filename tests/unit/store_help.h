/*
 * What the tests of the store share: a directory that goes away, operations in one line, and files
 * compared byte by byte.
 */
#ifndef CLOOP_TESTS_UNIT_STORE_HELP_H
#define CLOOP_TESTS_UNIT_STORE_HELP_H

#include "tests/unit/test.h"

#include <stdbool.h>

#include "core/error.h"
#include "core/store/store.h"

struct help_dir {
	char path[128]; /* the directory */
	char db[160];   /* the database in it */
};

/* cmocka setup and teardown; *state is a struct help_dir. */
int help_dir_make(void **state);
int help_dir_remove(void **state);
/* The same without cmocka, for a test that wants several. */
void help_dir_init(struct help_dir *dir, const char *below);
void help_dir_clean(const struct help_dir *dir);

/* Opens with a short busy timeout and a fixed boot id; fails the test when it cannot. */
struct store *help_open(const char *db);
struct store_options help_options(void);
/* Expects a refusal with this errno, and a sentence that holds `word`. */
void help_refused(const char *db, const struct store_options *opts, int code, const char *word);

/* Runs fn as one operation and waits for it. Returns the result; *ret_err as done() got it. */
typedef int help_apply(struct store_tx *tx, void *arg, struct error *err);
int help_run(struct store *s, help_apply *fn, void *arg, struct error *ret_err);

/* Submits fn without waiting; the result is added to *done_list when it is done. */
struct help_op {
	struct store_op op;
	help_apply *fn;
	void *arg;
	int result;
	int order; /* 1 for the first that was done, 0 while it is not */
	int *counter;
	struct error error;
};
void help_submit(struct store *s, struct help_op *op, help_apply *fn, void *arg, int *counter);

/* Operations on meta, for tests of the engine itself. */
struct help_pair {
	const char *key;
	int64_t value;
};
int help_set(struct store_tx *tx, void *pair, struct error *err);
int help_refuse(struct store_tx *tx, void *pair, struct error *err);
/* -1 when absent */
int64_t help_get(struct store_tx *tx, const char *key);

/* A whole file; NULL when absent. The caller frees it. */
char *help_slurp(const char *path, size_t *ret_len);
void help_spew(const char *path, const char *data, size_t len);
void help_same(const char *path, const char *data, size_t len);

#endif
