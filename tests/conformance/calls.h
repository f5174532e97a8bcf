/*
 * The calls that cloop-conform answers, and what they share. Every call reads its input, calls the
 * function of core/ that the hub calls, and returns the answer; NULL stands for out of memory.
 */
#ifndef CLOOP_TESTS_CONFORMANCE_CALLS_H
#define CLOOP_TESTS_CONFORMANCE_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/json.h"
#include "core/spec.h"
#include "core/text.h"
#include "core/verdict.h"

struct call {
	const char *name;
	json_t *(*answer)(json_t *input);
};

/* Ended by a name of NULL. */
extern const struct call spec_calls[];
extern const struct call workspace_calls[];
extern const struct call writeback_calls[];
extern const struct call secret_calls[];
extern const struct call handle_calls[];
extern const struct call health_calls[];
extern const struct call fleet_calls[];

/*
 * The value with {"$repeat"} and {"$index_list"} written out. NULL when it is malformed, too large
 * or memory runs out. Takes nothing, returns a new reference.
 */
json_t *expand(json_t *value);

/* Fields of an input; absent is "", 0, false. */
const char *get_text(json_t *o, const char *name);
struct text_view get_view(json_t *o, const char *name);
int64_t get_int(json_t *o, const char *name);
double get_number(json_t *o, const char *name);
bool get_bool(json_t *o, const char *name);

/* A list of borrowed strings; the caller frees the array only. */
char **get_list(json_t *o, const char *name, size_t *ret_n);

/* A whole number where it is one. */
json_t *number(double value);

/* A spec as the rows write it, with secret_files. Values as written; 0 or a refusal. */
int read_spec(json_t *input, struct spec **ret, struct error *err);
int read_secret_files(json_t *array, struct secret_file **ret, size_t *ret_n, struct error *err);

/* Capabilities with "can_revoke". Borrows from the input. */
int read_capabilities(json_t *value, struct capabilities *ret, bool *ret_can_revoke);

#endif
