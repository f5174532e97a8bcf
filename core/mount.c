#include "core/mount.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/pathname.h"

/* What either side of a mount may not hold, and its length. */
static int check_value(struct text_view v, const char *path, const char *name, struct error *err)
{
	if (v.len == 0)
		return field_refuse(err, path, name, "must not be empty");
	if (v.len > MOUNT_PATH_BYTES_MAX)
		return field_refuse(err, path, name, "is longer than %d bytes",
				    MOUNT_PATH_BYTES_MAX);
	if (text_has_any(v, ":\\\r\n"))
		return field_refuse(err, path, name,
				    "must not contain a colon, a backslash or a line break");
	return 0;
}

static int check_absolute(struct text_view v, const char *path, const char *name, struct error *err)
{
	int r = check_value(v, path, name, err);

	if (r < 0)
		return r;
	if (v.data[0] != '/') {
		r = field_refuse(err, path, name, "must be an absolute path");
		error_remedy(err, "begin it with a slash");
		return r;
	}
	if (!pathname_is_clean(v.data, v.len)) {
		r = field_refuse(err, path, name,
				 "must be a clean path: no empty, \".\" or \"..\" element and no "
				 "trailing slash");
		return r;
	}
	return 0;
}

static int check_target(struct text_view v, const char *path, struct error *err)
{
	int r = check_absolute(v, path, "target", err);

	if (r == 0 && v.len == 1)
		r = field_refuse(err, path, "target", "must not be the root of the sandbox");
	return r;
}

static int check_spec_mount(const struct spec_mount *m, const char *path, struct error *err)
{
	struct text_view source = text_trimmed(m->source);
	int r = check_value(source, path, "source", err);

	if (r < 0)
		return r;
	if (source.data[0] == '/') {
		r = field_refuse(err, path, "source", "must be relative to the workspace");
		error_remedy(err, "leave the leading slash out, or ask for a host mount");
		return r;
	}
	if (pathname_has_dotdot(source.data, source.len))
		return field_refuse(err, path, "source", "must not contain a \"..\" element");
	if (!pathname_is_clean(source.data, source.len))
		return field_refuse(err, path, "source",
				    "must be a clean path: no empty or \".\" element and no "
				    "trailing slash");
	return check_target(text_trimmed(m->target), path, err);
}

static int check_host_mount(const struct host_mount *m, const char *path, struct error *err)
{
	struct text_view name = text_trimmed(m->name);
	int r;

	if (name.len > MOUNT_NAME_BYTES_MAX)
		return field_refuse(err, path, "name", "is longer than %d bytes",
				    MOUNT_NAME_BYTES_MAX);
	r = check_absolute(text_trimmed(m->source), path, "source", err);
	if (r < 0)
		return r;
	return check_target(text_trimmed(m->target), path, err);
}

static int refuse_duplicate(const char *path, size_t first, struct error *err)
{
	return field_refuse(err, path, "target", "is also the target of entry %zu", first);
}

static bool same_text(const char *a, const char *b)
{
	struct text_view x = text_trimmed(a), y = text_trimmed(b);

	return x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
}

int spec_mounts_validate(const struct spec_mount *mounts, size_t n, const char *path,
			 struct error *err)
{
	if (n > MAX_SPEC_MOUNTS)
		return field_refuse(err, path, "", "at most %d mounts are allowed, not %zu",
				    MAX_SPEC_MOUNTS, n);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = check_spec_mount(&mounts[i], at, err);
		if (r < 0)
			return r;
		for (size_t k = 0; k < i; k++)
			if (same_text(mounts[k].target, mounts[i].target))
				return refuse_duplicate(at, k, err);
	}
	return 0;
}

int host_mounts_validate(const struct host_mount *mounts, size_t n, const char *path,
			 struct error *err)
{
	if (n > MAX_HOST_MOUNTS)
		return field_refuse(err, path, "", "at most %d host mounts are allowed, not %zu",
				    MAX_HOST_MOUNTS, n);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = check_host_mount(&mounts[i], at, err);
		if (r < 0)
			return r;
		for (size_t k = 0; k < i; k++)
			if (same_text(mounts[k].target, mounts[i].target))
				return refuse_duplicate(at, k, err);
	}
	return 0;
}

static int read_spec_mount(json_t *value, const char *path, struct spec_mount *m, struct error *err)
{
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = field_text(&o, "source", &m->source, err)) < 0 ||
	    (r = field_text(&o, "target", &m->target, err)) < 0 ||
	    (r = json_object_bool(&o, "read_only", &m->read_only, err)) < 0)
		return r;
	return json_object_end(&o, err);
}

int spec_mounts_from_json(json_t *array, const char *path, struct spec_mount **ret, size_t *ret_n,
			  struct error *err)
{
	size_t n = json_array_size(array);
	struct spec_mount *mounts = n > 0 ? calloc(n, sizeof(*mounts)) : NULL;

	if (n > 0 && !mounts)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = read_spec_mount(json_array_get(array, i), at, &mounts[i], err);
		if (r < 0) {
			spec_mounts_free(mounts, n);
			return field_refused(r, err);
		}
	}
	*ret = mounts;
	*ret_n = n;
	return 0;
}

static int read_host_mount(json_t *value, const char *path, struct host_mount *m, struct error *err)
{
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = field_text(&o, "name", &m->name, err)) < 0 ||
	    (r = field_text(&o, "source", &m->source, err)) < 0 ||
	    (r = field_text(&o, "target", &m->target, err)) < 0 ||
	    (r = json_object_bool(&o, "read_only", &m->read_only, err)) < 0)
		return r;
	return json_object_end(&o, err);
}

int host_mounts_from_json(json_t *array, const char *path, struct host_mount **ret, size_t *ret_n,
			  struct error *err)
{
	size_t n = json_array_size(array);
	struct host_mount *mounts = n > 0 ? calloc(n, sizeof(*mounts)) : NULL;

	if (n > 0 && !mounts)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = read_host_mount(json_array_get(array, i), at, &mounts[i], err);
		if (r < 0) {
			host_mounts_free(mounts, n);
			return field_refused(r, err);
		}
	}
	*ret = mounts;
	*ret_n = n;
	return 0;
}

json_t *spec_mounts_to_json(const struct spec_mount *mounts, size_t n)
{
	AUTO_JSON json_t *array = json_array();

	if (!array)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		AUTO_JSON json_t *o = json_object();

		if (!o || json_put_string(o, "source", text_or_empty(mounts[i].source)) < 0 ||
		    json_put_string(o, "target", text_or_empty(mounts[i].target)) < 0 ||
		    json_put_bool_if(o, "read_only", mounts[i].read_only) < 0 ||
		    json_array_append(array, o) < 0)
			return NULL;
	}
	return take_ptr(array);
}

json_t *host_mounts_to_json(const struct host_mount *mounts, size_t n)
{
	AUTO_JSON json_t *array = json_array();

	if (!array)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		AUTO_JSON json_t *o = json_object();

		if (!o || json_put_string_if(o, "name", mounts[i].name) < 0 ||
		    json_put_string(o, "source", text_or_empty(mounts[i].source)) < 0 ||
		    json_put_string(o, "target", text_or_empty(mounts[i].target)) < 0 ||
		    json_put_bool_if(o, "read_only", mounts[i].read_only) < 0 ||
		    json_array_append(array, o) < 0)
			return NULL;
	}
	return take_ptr(array);
}

struct spec_mount *spec_mounts_free(struct spec_mount *mounts, size_t n)
{
	for (size_t i = 0; mounts && i < n; i++) {
		free(mounts[i].source);
		free(mounts[i].target);
	}
	free(mounts);
	return NULL;
}

struct host_mount *host_mounts_free(struct host_mount *mounts, size_t n)
{
	for (size_t i = 0; mounts && i < n; i++) {
		free(mounts[i].name);
		free(mounts[i].source);
		free(mounts[i].target);
	}
	free(mounts);
	return NULL;
}
