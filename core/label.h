/*
 * Labels: pairs of strings, kept sorted by the bytes of the key, no key twice. A spec carries them
 * for routing and bookkeeping, a node for selection, an executor's config for both.
 */
#ifndef CLOOP_CORE_LABEL_H
#define CLOOP_CORE_LABEL_H

#include <jansson.h>
#include <stddef.h>

#include "core/error.h"

struct spec_label {
	char *key;
	char *value;
};

/* A label is something a person or a selector reads; every one becomes fields of logs and rows. */
#define LABELS_MAX 128
#define LABEL_KEY_BYTES_MAX 256
/* A value may be the path of a project. */
#define LABEL_VALUE_BYTES_MAX 4096

/*
 * Reads an object of strings and sorts it. path names it in errors. EINVAL for another type and for
 * a NUL; sizes are labels_validate()'s.
 */
int labels_from_json(json_t *object, const char *path, struct spec_label **ret, size_t *ret_n,
		     struct error *err);

/* Counts and lengths; a key is not blank and holds no '=' and no control character. */
int labels_validate(const struct spec_label *labels, size_t n, const char *path, struct error *err);

/* An object in key order; NULL when out of memory. */
json_t *labels_to_json(const struct spec_label *labels, size_t n);

/* The value of a key, NULL when absent. */
const char *labels_get(const struct spec_label *labels, size_t n, const char *key);

/* Returns NULL. */
struct spec_label *labels_free(struct spec_label *labels, size_t n);

#endif
