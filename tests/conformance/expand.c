#include "tests/conformance/calls.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

/* Larger than any row needs; a typo must not take the machine down. */
#define EXPANDED_BYTES_MAX (64 << 20)
#define EXPANDED_ITEMS_MAX 1000000

static json_t *take_text(struct buf *b)
{
	json_t *value = b->failed ? NULL : json_stringn(b->data ? b->data : "", b->len);

	buf_free(b);
	return value;
}

static json_t *expand_repeat(json_t *o)
{
	struct text_view unit = get_view(o, "$repeat"), prefix = get_view(o, "prefix");
	struct text_view suffix = get_view(o, "suffix");
	struct buf b = BUF_INIT(EXPANDED_BYTES_MAX);
	int64_t n = get_int(o, "n");

	buf_append(&b, prefix.data, prefix.len);
	for (int64_t i = 0; i < n && !b.failed && unit.len > 0; i++)
		buf_append(&b, unit.data, unit.len);
	buf_append(&b, suffix.data, suffix.len);
	return take_text(&b);
}

static json_t *number_text(struct text_view v, int64_t index)
{
	struct buf b = BUF_INIT(EXPANDED_BYTES_MAX);

	for (size_t i = 0; i < v.len; i++) {
		if (v.len - i >= 2 && v.data[i] == '%' && v.data[i + 1] == 'i') {
			buf_printf(&b, "%lld", (long long)index);
			i++;
		} else {
			buf_append(&b, v.data + i, 1);
		}
	}
	return take_text(&b);
}

/* A copy with every %i replaced. */
static json_t *number_value(json_t *value, int64_t index)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(value))
		return number_text(
			(struct text_view){json_string_value(value), json_string_length(value)},
			index);
	if (!json_is_object(value) && !json_is_array(value))
		return json_incref(value);
	AUTO_JSON json_t *copy = json_is_object(value) ? json_object() : json_array();
	if (!copy)
		return NULL;
	json_array_foreach(value, i,
			   item) if (json_array_append_new(copy, number_value(item, index)) <
				     0) return NULL;
	json_object_foreach(value, key,
			    item) if (json_object_set_new(copy, key, number_value(item, index)) <
				      0) return NULL;
	return take_ptr(copy);
}

static json_t *expand_list(json_t *o)
{
	json_t *item = json_object_get(o, "$index_list");
	int64_t n = get_int(o, "n");
	AUTO_JSON json_t *list = json_array();

	if (!list || n > EXPANDED_ITEMS_MAX)
		return NULL;
	for (int64_t i = 0; i < n; i++) {
		AUTO_JSON json_t *numbered = number_value(item, i);

		if (!numbered || json_array_append_new(list, expand(numbered)) < 0)
			return NULL;
	}
	return take_ptr(list);
}

json_t *expand(json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_object_get(value, "$repeat"))
		return expand_repeat(value);
	if (json_object_get(value, "$index_list"))
		return expand_list(value);
	if (!json_is_object(value) && !json_is_array(value))
		return json_incref(value);
	AUTO_JSON json_t *copy = json_is_object(value) ? json_object() : json_array();
	if (!copy)
		return NULL;
	json_array_foreach(value, i,
			   item) if (json_array_append_new(copy, expand(item)) < 0) return NULL;
	json_object_foreach(value, key,
			    item) if (json_object_set_new(copy, key, expand(item)) < 0) return NULL;
	return take_ptr(copy);
}
