#include "core/strlist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

char **strlist_free(char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
	return NULL;
}

char **strlist_dup(char *const *list, size_t n)
{
	if (n == 0)
		return NULL;
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(list[i]);
		if (!copy[i])
			return strlist_free(copy, i);
	}
	return copy;
}

bool strlist_contains(char *const *list, size_t n, const char *value)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], value) == 0)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t strlist_sort_unique(char **list, size_t n)
{
	size_t kept = 0;

	if (n == 0)
		return 0;
	qsort(list, n, sizeof(*list), compare);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(list[kept], list[i]) == 0)
			free(list[i]);
		else
			list[++kept] = list[i];
	}
	kept++;
	for (size_t i = kept; i < n; i++)
		list[i] = NULL;
	return kept;
}

static int refuse_element(struct error *err, const char *path, size_t i, const char *reason)
{
	int r = error_set(err, EINVAL, "%s", reason);

	error_field(err, "%s[%zu]", path, i);
	return r;
}

int strlist_from_json(json_t *array, const char *path, char ***ret, size_t *ret_n,
		      struct error *err)
{
	size_t n = json_array_size(array);

	if (!json_is_array(array)) {
		int r = error_set(err, EINVAL, "must be an array of strings");
		error_field(err, "%s", path);
		return r;
	}
	if (n == 0) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	char **list = calloc(n + 1, sizeof(*list));
	if (!list)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		json_t *item = json_array_get(array, i);
		int r = 0;

		if (!json_is_string(item))
			r = refuse_element(err, path, i, "must be a string");
		else if (strlen(json_string_value(item)) != json_string_length(item))
			r = refuse_element(err, path, i, "must not contain a NUL byte");
		else if (!(list[i] = strdup(json_string_value(item))))
			r = error_oom(err);
		if (r < 0) {
			strlist_free(list, i);
			return r;
		}
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

json_t *strlist_to_json(char *const *list, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < n; i++) {
		if (json_array_append_new(array, json_string(list[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}
