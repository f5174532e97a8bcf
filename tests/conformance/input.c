#include "tests/conformance/calls.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"

const char *get_text(json_t *o, const char *name)
{
	return text_or_empty(json_string_value(json_object_get(o, name)));
}

struct text_view get_view(json_t *o, const char *name)
{
	json_t *value = json_object_get(o, name);

	return (struct text_view){text_or_empty(json_string_value(value)),
				  json_string_length(value)};
}

int64_t get_int(json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

double get_number(json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

bool get_bool(json_t *o, const char *name)
{
	return json_is_true(json_object_get(o, name));
}

char **get_list(json_t *o, const char *name, size_t *ret_n)
{
	json_t *array = json_object_get(o, name);
	size_t n = json_array_size(array);
	char **list = calloc(n + 1, sizeof(*list));

	for (size_t i = 0; list && i < n; i++)
		list[i] = (char *)text_or_empty(json_string_value(json_array_get(array, i)));
	*ret_n = list ? n : 0;
	return list;
}

json_t *number(double value)
{
	return nearbyint(value) >= value && nearbyint(value) <= value &&
			       fabs(value) < 9007199254740992.0
		       ? json_integer((json_int_t)value)
		       : json_real(value);
}

/* "mode" as a number or as "0600", "content" or so many bytes of "content_len". */
static int read_secret_file(json_t *value, struct secret_file *f, struct error *err)
{
	static const char *const names[] = {"dir", "name", "lease_id", "grant_id"};
	json_t *mode = json_object_get(value, "mode");
	struct text_view content = get_view(value, "content");
	int64_t len = get_int(value, "content_len");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct text_view v = get_view(value, names[i]);

		if (memchr(v.data, '\0', v.len))
			return field_refuse(err, "secret_files", names[i],
					    "must not contain a NUL byte");
	}
	if (!mode)
		mode = json_object_get(value, "mode_octal");
	f->dir = strdup(get_text(value, "dir"));
	f->name = strdup(get_text(value, "name"));
	f->lease_id = strdup(get_text(value, "lease_id"));
	f->grant_id = strdup(get_text(value, "grant_id"));
	f->mode = json_is_string(mode) ? strtoll(json_string_value(mode), NULL, 8)
				       : json_integer_value(mode);
	f->content_len = content.len > 0 ? content.len : len > 0 ? (size_t)len : 0;
	/* Of bytes that only have a number nobody reads one. */
	f->content = content.len > 0 ? malloc(content.len) : NULL;
	if (!f->dir || !f->name || !f->lease_id || !f->grant_id || (content.len > 0 && !f->content))
		return error_oom(err);
	if (f->content)
		memcpy(f->content, content.data, content.len);
	return 0;
}

int read_secret_files(json_t *array, struct secret_file **ret, size_t *ret_n, struct error *err)
{
	size_t n = json_array_size(array);
	struct secret_file *files = calloc(n + 1, sizeof(*files));

	if (!files)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		int r = read_secret_file(json_array_get(array, i), &files[i], err);

		if (r < 0) {
			secret_files_free(files, n);
			return r;
		}
	}
	*ret = files;
	*ret_n = n;
	return 0;
}

int read_spec(json_t *input, struct spec **ret, struct error *err)
{
	AUTO_JSON json_t *plain = json_is_object(input) ? json_copy(input) : json_object();
	AUTO_SPEC struct spec *spec = NULL;
	int r;

	if (!plain)
		return error_oom(err);
	json_object_del(plain, "secret_files");
	if ((r = spec_read_json(plain, "", &spec, err)) < 0 ||
	    (r = read_secret_files(json_object_get(input, "secret_files"), &spec->secret_files,
				   &spec->n_secret_files, err)) < 0)
		return r;
	*ret = take_ptr(spec);
	return 0;
}

int read_capabilities(json_t *value, struct capabilities *ret, bool *ret_can_revoke)
{
	AUTO_JSON json_t *plain = json_is_object(value) ? json_copy(value) : json_object();

	if (!plain)
		return -ENOMEM;
	*ret_can_revoke = get_bool(value, "can_revoke");
	json_object_del(plain, "can_revoke");
	/* The strings belong to `value`, which the copy shares. */
	return capabilities_from_json(plain, "capabilities", ret, NULL);
}
