/*
 * Strict JSON on top of jansson.
 *
 * Foreign documents are read field by field with a json_object: every field that is asked for is
 * remembered, and json_object_end() refuses what nobody asked for, naming its path
 * ("mounts[2].sorce"). `null` means absent. Duplicate keys are refused by the parser.
 */
#ifndef CLOOP_CORE_JSON_H
#define CLOOP_CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

OWNER_DEFINE(json_t, json, json_decref);
#define AUTO_JSON CLEANUP(owner_jsonp)

/* More fields than any object of the project has. */
#define JSON_FIELDS_MAX 48
#define JSON_PATH_MAX 128

/* One object that is being read. The json_t is borrowed. */
struct json_object {
	json_t *value;
	char path[JSON_PATH_MAX]; /* "" at the top */
	const char *asked[JSON_FIELDS_MAX];
	size_t n_asked;
};

/*
 * jansson's json_loadb(), for whatever comes from outside: -EINVAL when it is not JSON, and *je, which may
 * be NULL, says why. -ENOMEM when there is not memory enough, of which the library itself makes something
 * worse. The caller owns *ret, which failure leaves alone.
 */
int json_read(const char *text, size_t len, size_t flags, json_t **ret, json_error_t *je);

/*
 * Parses one complete document of len bytes; text after it other than white space is refused.
 * Errors: EINVAL with line and column, ENOMEM. The caller owns *ret.
 */
int json_parse(const char *text, size_t len, json_t **ret, struct error *err);

/* Begins reading `value`, which must be an object. path names it in errors ("" at the top). */
int json_object_begin(struct json_object *o, json_t *value, const char *path, struct error *err);

/*
 * The value of a field, NULL when absent or null. Marks it as known. The json_object_* readers
 * below leave *ret untouched when the field is absent or null, and return 1 when it was there, 0
 * when not, -EINVAL with the field's path when it has another type or does not fit.
 */
json_t *json_object_field(struct json_object *o, const char *name);

/* The string is borrowed from the document. A string with a NUL inside is refused. */
int json_object_string(struct json_object *o, const char *name, const char **ret,
		       struct error *err);
int json_object_bool(struct json_object *o, const char *name, bool *ret, struct error *err);
int json_object_int64(struct json_object *o, const char *name, int64_t *ret, struct error *err);
/* RFC 3339; 0 is unset. */
int json_object_time(struct json_object *o, const char *name, int64_t *ret_ns, struct error *err);

/* An array or an object of any content; borrowed. */
int json_object_array(struct json_object *o, const char *name, json_t **ret, struct error *err);
int json_object_object(struct json_object *o, const char *name, json_t **ret, struct error *err);

/* "path.name", or "name" at the top. */
void json_object_path(const struct json_object *o, const char *name, char buf[static JSON_PATH_MAX]);

/* Refuses the first field that was not asked for: EINVAL, "unknown field", with its path. */
int json_object_end(const struct json_object *o, struct error *err);

/*
 * Compact text in insertion order with the slashes and UTF-8 left alone: what cloop writes. NULL
 * when out of memory. The caller frees it.
 */
char *json_text(const json_t *value);
/* The same with jansson's flags. */
char *json_write(const json_t *value, size_t flags);

/* Setters that report out of memory (-ENOMEM) and leave out the empty value, as `omitempty`. */
int json_put_string(json_t *object, const char *name, const char *value);
int json_put_string_if(json_t *object, const char *name, const char *value);
int json_put_int(json_t *object, const char *name, int64_t value);
int json_put_int_if(json_t *object, const char *name, int64_t value);
int json_put_bool(json_t *object, const char *name, bool value);
int json_put_bool_if(json_t *object, const char *name, bool value);
int json_put_time_if(json_t *object, const char *name, int64_t ns);
/* Takes the reference to value, also on failure; a NULL value is out of memory. */
int json_put_new(json_t *object, const char *name, json_t *value);

#endif
