#include "core/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"

int json_parse(const char *text, size_t len, json_t **ret, struct error *err)
{
	json_error_t je;

	/* The parser passes over a NUL that follows a number or a word. */
	if (len > 0 && memchr(text, '\0', len))
		return error_set(err, EINVAL, "not valid JSON: it holds a NUL byte");
	int r = json_read(text, len, JSON_REJECT_DUPLICATES, ret, &je);

	if (r == -ENOMEM)
		return error_oom(err);
	if (r < 0) {
		/* What is near the place may be a secret. */
		char *near = strstr(je.text, " near ");

		if (near)
			*near = '\0';
		return error_set(err, EINVAL, "not valid JSON at line %d, column %d: %s", je.line,
				 je.column, je.text);
	}
	return 0;
}

static const char *type_name(const json_t *value)
{
	if (!value)
		return "missing";
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_REAL:
		return "a number with a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	default:
		return "null";
	}
}

static int wrong_type(const struct json_object *o, const char *name, const json_t *value,
		      const char *wanted, struct error *err)
{
	char path[JSON_PATH_MAX];

	json_object_path(o, name, path);
	int r = error_set(err, EINVAL, "must be %s, not %s", wanted, type_name(value));
	error_field(err, "%s", path);
	return r;
}

int json_object_begin(struct json_object *o, json_t *value, const char *path, struct error *err)
{
	if (!json_is_object(value)) {
		int r = error_set(err, EINVAL, "must be an object, not %s", type_name(value));
		error_field(err, "%s", path);
		return r;
	}
	o->value = value;
	o->n_asked = 0;
	if (snprintf(o->path, sizeof(o->path), "%s", path) >= (int)sizeof(o->path))
		return error_set(err, EINVAL, "the document is nested too deeply");
	return 0;
}

void json_object_path(const struct json_object *o, const char *name, char buf[static JSON_PATH_MAX])
{
	/* A path that does not fit is cut: it only points a person to the place. */
	int n = snprintf(buf, JSON_PATH_MAX, "%s%s%s", o->path, o->path[0] ? "." : "", name);

	if (n < 0)
		buf[0] = '\0';
}

json_t *json_object_field(struct json_object *o, const char *name)
{
	json_t *value = json_object_get(o->value, name);

	if (o->n_asked < JSON_FIELDS_MAX)
		o->asked[o->n_asked++] = name;
	return json_is_null(value) ? NULL : value;
}

int json_object_string(struct json_object *o, const char *name, const char **ret, struct error *err)
{
	json_t *value = json_object_field(o, name);

	if (!value)
		return 0;
	if (!json_is_string(value))
		return wrong_type(o, name, value, "a string", err);
	/* json_parse() refuses NUL escapes, but the value may have been parsed by somebody else. */
	if (strlen(json_string_value(value)) != json_string_length(value)) {
		char path[JSON_PATH_MAX];

		json_object_path(o, name, path);
		int r = error_set(err, EINVAL, "must not contain a NUL byte");
		error_field(err, "%s", path);
		return r;
	}
	*ret = json_string_value(value);
	return 1;
}

int json_object_bool(struct json_object *o, const char *name, bool *ret, struct error *err)
{
	json_t *value = json_object_field(o, name);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return wrong_type(o, name, value, "true or false", err);
	*ret = json_is_true(value);
	return 1;
}

int json_object_int64(struct json_object *o, const char *name, int64_t *ret, struct error *err)
{
	json_t *value = json_object_field(o, name);

	if (!value)
		return 0;
	if (!json_is_integer(value))
		return wrong_type(o, name, value, "a whole number", err);
	*ret = json_integer_value(value);
	return 1;
}

int json_object_time(struct json_object *o, const char *name, int64_t *ret_ns, struct error *err)
{
	const char *text = NULL;
	char path[JSON_PATH_MAX];
	int r = json_object_string(o, name, &text, err);

	if (r <= 0)
		return r;
	if (clock_parse(text, ret_ns) < 0) {
		json_object_path(o, name, path);
		r = error_set(err, EINVAL, "not an RFC 3339 time");
		error_field(err, "%s", path);
		error_remedy(err, "write it as 2026-01-02T03:04:05Z");
		return r;
	}
	return 1;
}

int json_object_array(struct json_object *o, const char *name, json_t **ret, struct error *err)
{
	json_t *value = json_object_field(o, name);

	if (!value)
		return 0;
	if (!json_is_array(value))
		return wrong_type(o, name, value, "an array", err);
	*ret = value;
	return 1;
}

int json_object_object(struct json_object *o, const char *name, json_t **ret, struct error *err)
{
	json_t *value = json_object_field(o, name);

	if (!value)
		return 0;
	if (!json_is_object(value))
		return wrong_type(o, name, value, "an object", err);
	*ret = value;
	return 1;
}

int json_object_end(const struct json_object *o, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(o->value, key, value)
	{
		bool known = false;

		for (size_t i = 0; i < o->n_asked && !known; i++)
			known = strcmp(o->asked[i], key) == 0;
		if (!known) {
			char path[JSON_PATH_MAX];

			json_object_path(o, key, path);
			int r = error_set(err, EINVAL, "unknown field");
			error_field(err, "%s", path);
			error_remedy(err, "check the spelling, or leave it out");
			return r;
		}
	}
	return 0;
}

int json_put_new(json_t *object, const char *name, json_t *value)
{
	return value && json_object_set_new(object, name, value) == 0 ? 0 : -ENOMEM;
}

int json_put_string(json_t *object, const char *name, const char *value)
{
	return json_put_new(object, name, json_string(value));
}

int json_put_string_if(json_t *object, const char *name, const char *value)
{
	return value && value[0] ? json_put_string(object, name, value) : 0;
}

int json_put_int(json_t *object, const char *name, int64_t value)
{
	return json_put_new(object, name, json_integer(value));
}

int json_put_int_if(json_t *object, const char *name, int64_t value)
{
	return value ? json_put_int(object, name, value) : 0;
}

int json_put_bool(json_t *object, const char *name, bool value)
{
	return json_put_new(object, name, json_boolean(value));
}

int json_put_bool_if(json_t *object, const char *name, bool value)
{
	return value ? json_put_bool(object, name, value) : 0;
}

int json_put_time_if(json_t *object, const char *name, int64_t ns)
{
	char text[CLOCK_RFC3339_MAX];

	if (ns == 0)
		return 0;
	clock_format(ns, text);
	return json_put_string(object, name, text);
}
