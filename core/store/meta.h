/*
 * Small facts about the store as a whole: a key, and a text or a whole number.
 */
#ifndef CLOOP_CORE_STORE_META_H
#define CLOOP_CORE_STORE_META_H

#include <stdint.h>

#include "core/error.h"

struct store_tx;

/* The executor that `start` without a choice uses: its name, absent when there is none. */
#define META_DEFAULT_EXECUTOR "default_executor"

/* Getters: 0, or -ENOENT when the key is not there. The text is the caller's. */
int meta_get_text(struct store_tx *tx, const char *key, char **ret, struct error *err);
int meta_get_int(struct store_tx *tx, const char *key, int64_t *ret, struct error *err);

int meta_set_text(struct store_tx *tx, const char *key, const char *value, struct error *err);
int meta_set_int(struct store_tx *tx, const char *key, int64_t value, struct error *err);

/* Succeeds also when the key is not there. */
int meta_delete(struct store_tx *tx, const char *key, struct error *err);

#endif
