#include "core/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/strlist.h"

void field_path(char buf[static JSON_PATH_MAX], const char *path, const char *name)
{
	/* A path that does not fit is cut: it only points a person to the place. */
	int n = snprintf(buf, JSON_PATH_MAX, "%s%s%s", path, path[0] && name[0] ? "." : "", name);

	if (n < 0)
		buf[0] = '\0';
}

void field_path_at(char buf[static JSON_PATH_MAX], const char *path, const char *name, size_t i)
{
	int n = snprintf(buf, JSON_PATH_MAX, "%s%s%s[%zu]", path, path[0] && name[0] ? "." : "",
			 name, i);

	if (n < 0)
		buf[0] = '\0';
}

int field_refuse(struct error *err, const char *path, const char *name, const char *fmt, ...)
{
	char reason[ERROR_REASON_MAX];
	char where[JSON_PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	field_path(where, path, name);
	int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "%s", n < 0 ? "not valid" : reason);
	error_field(err, "%s", where);
	return r;
}

int field_refused(int r, struct error *err)
{
	if (r == -EINVAL && err)
		err->kind = ERROR_INVALID_SPEC;
	return r;
}

int field_text(struct json_object *o, const char *name, char **ret, struct error *err)
{
	const char *text = "";
	int r = json_object_string(o, name, &text, err);

	if (r < 0)
		return r;
	char *copy = strdup(text);
	if (!copy)
		return error_oom(err);
	*ret = copy;
	return 0;
}

int field_list(struct json_object *o, const char *name, char ***ret, size_t *ret_n,
	       struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *array = NULL;
	int r = json_object_array(o, name, &array, err);

	if (r <= 0)
		return r;
	json_object_path(o, name, path);
	r = strlist_from_json(array, path, ret, ret_n, err);
	return r < 0 ? r : 1;
}

int field_int(struct json_object *o, const char *name, int64_t min, int64_t max, int64_t *ret,
	      struct error *err)
{
	int64_t value = 0;
	int r = json_object_int64(o, name, &value, err);

	if (r <= 0)
		return r;
	if (value < min || value > max) {
		r = error_set(err, EINVAL, "must be from %lld to %lld", (long long)min, (long long)max);
		error_field(err, "%s", name);
		return r;
	}
	*ret = value;
	return 0;
}

int field_check_range(struct error *err, const char *path, const char *name, int64_t value,
		      int64_t max)
{
	if (value < 0)
		return field_refuse(err, path, name, "must not be negative");
	if (value > max)
		return field_refuse(err, path, name, "must be at most %" PRId64, max);
	return 0;
}

bool text_has_any(struct text_view v, const char *set)
{
	for (size_t i = 0; i < v.len; i++)
		if (v.data[i] != '\0' && strchr(set, v.data[i]))
			return true;
	return false;
}

bool text_has_control(struct text_view v)
{
	for (size_t i = 0; i < v.len; i++)
		if ((unsigned char)v.data[i] < 0x20 || v.data[i] == 0x7f)
			return true;
	return false;
}

void text_trim_in_place(char *s)
{
	if (s) {
		struct text_view v = text_trim(s, strlen(s));

		memmove(s, v.data, v.len);
		s[v.len] = '\0';
	}
}
