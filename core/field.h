/*
 * Reading and refusing the fields of a spec.
 *
 * A refusal is EINVAL with ERROR_INVALID_SPEC and the path of the field. `path` names the thing
 * that is being checked ("mounts[2]", "workspace", "" at the top), `name` the field in it
 * ("target", "" for the thing itself). No sentence quotes a value of an environment variable or of
 * a secret.
 */
#ifndef CLOOP_CORE_FIELD_H
#define CLOOP_CORE_FIELD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"

/* Fills err and returns -EINVAL. */
int field_refuse(struct error *err, const char *path, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Gives a refusal of the JSON layer (r is -EINVAL) the kind of an invalid spec. Returns r. */
int field_refused(int r, struct error *err);

/* "path.name", "path" or "name". */
void field_path(char buf[static JSON_PATH_MAX], const char *path, const char *name);

/* "path.name[i]". */
void field_path_at(char buf[static JSON_PATH_MAX], const char *path, const char *name, size_t i);

/*
 * Readers of an object that is being read; *ret must hold nothing. A string that is absent or null
 * becomes "", a list an empty one. Return 0 (1 for a list that is there) or a negative errno.
 */
int field_text(struct json_object *o, const char *name, char **ret, struct error *err);
int field_list(struct json_object *o, const char *name, char ***ret, size_t *ret_n,
	       struct error *err);

/* A whole number from min to max; one that is absent or null leaves *ret alone. */
int field_int(struct json_object *o, const char *name, int64_t min, int64_t max, int64_t *ret,
	      struct error *err);

/* Refuses a number outside 0 … max. */
int field_check_range(struct error *err, const char *path, const char *name, int64_t value,
		      int64_t max);

/* The text itself, "" for NULL: half-built structs are checked like complete ones. */
static inline const char *text_or_empty(const char *s)
{
	return s ? s : "";
}

/* The trimmed text; empty for NULL. */
static inline struct text_view text_trimmed(const char *s)
{
	return text_trim(text_or_empty(s), strlen(text_or_empty(s)));
}

/* Whether any byte of the view is one of the set, which may not name NUL. */
bool text_has_any(struct text_view v, const char *set);

/* Whether the view holds a byte below 0x20, or 0x7f. */
bool text_has_control(struct text_view v);

/* Trims a string where it is; accepts NULL. */
void text_trim_in_place(char *s);

#endif
