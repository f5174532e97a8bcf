#include "core/label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"

static int compare(const void *a, const void *b)
{
	const struct spec_label *x = a, *y = b;

	return strcmp(x->key, y->key);
}

static int read_label(const char *key, json_t *value, const char *path, struct spec_label *label,
		      struct error *err)
{
	if (!json_is_string(value))
		return field_refuse(err, path, key, "must be a string");
	if (strlen(json_string_value(value)) != json_string_length(value))
		return field_refuse(err, path, key, "must not contain a NUL byte");
	label->key = strdup(key);
	label->value = strdup(json_string_value(value));
	return label->key && label->value ? 0 : error_oom(err);
}

int labels_from_json(json_t *object, const char *path, struct spec_label **ret, size_t *ret_n,
		     struct error *err)
{
	size_t n = json_object_size(object), used = 0;
	struct spec_label *labels;
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return field_refuse(err, path, "", "must be an object of strings");
	labels = calloc(n + 1, sizeof(*labels));
	if (!labels)
		return error_oom(err);
	json_object_foreach(object, key, value)
	{
		int r = read_label(key, value, path, &labels[used++], err);

		if (r < 0) {
			labels_free(labels, used);
			return r;
		}
	}
	qsort(labels, n, sizeof(*labels), compare);
	*ret = labels;
	*ret_n = n;
	return 0;
}

int labels_validate(const struct spec_label *labels, size_t n, const char *path, struct error *err)
{
	if (n > LABELS_MAX)
		return field_refuse(err, path, "", "has more than %d entries", LABELS_MAX);
	for (size_t i = 0; i < n; i++) {
		struct text_view key = {labels[i].key, strlen(labels[i].key)};

		if (text_trim(key.data, key.len).len == 0)
			return field_refuse(err, path, "", "has an empty key");
		if (key.len > LABEL_KEY_BYTES_MAX)
			return field_refuse(err, path, "", "has a key longer than %d bytes",
					    LABEL_KEY_BYTES_MAX);
		if (text_has_control(key) || text_has_any(key, "="))
			return field_refuse(err, path, labels[i].key,
					    "must not have '=' or a control character in its name");
		if (strlen(labels[i].value) > LABEL_VALUE_BYTES_MAX)
			return field_refuse(err, path, labels[i].key, "is longer than %d bytes",
					    LABEL_VALUE_BYTES_MAX);
	}
	return 0;
}

json_t *labels_to_json(const struct spec_label *labels, size_t n)
{
	json_t *object = json_object();

	for (size_t i = 0; object && i < n; i++) {
		if (json_put_string(object, labels[i].key, labels[i].value) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

const char *labels_get(const struct spec_label *labels, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(labels[i].key, key) == 0)
			return labels[i].value;
	return NULL;
}

struct spec_label *labels_free(struct spec_label *labels, size_t n)
{
	for (size_t i = 0; labels && i < n; i++) {
		free(labels[i].key);
		free(labels[i].value);
	}
	free(labels);
	return NULL;
}
