#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "core/owner.h"
#include "core/json.h"
#include "drivers/container/argv.h"
#include "drivers/container/internal.h"

static const char *text_of(json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);

	if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
		return "";
	return json_string_value(value);
}

static bool is_ours(const struct container_sweep *s, json_t *labels)
{
	return strcmp(text_of(labels, CONTAINER_LABEL_MANAGED), "true") == 0 &&
	       strcmp(text_of(labels, CONTAINER_LABEL_EXECUTOR), s->executor) == 0 &&
	       text_of(labels, CONTAINER_LABEL_HANDLE)[0] != '\0';
}

static bool is_orphan(const struct container_sweep *s, json_t *container, const char *name)
{
	const char *state = text_of(container, "State");
	json_t *created = json_object_get(container, "Created");

	if (!is_ours(s, json_object_get(container, "Labels")) || s->tracks(s->user, name))
		return false;
	if (strcmp(state, "exited") == 0 || strcmp(state, "stopped") == 0)
		return true;
	/* A clock that went back, a time that is not there, a grace that is none: it stays. */
	if (s->grace_s <= 0 || !json_is_integer(created) || json_integer_value(created) <= 0 ||
	    json_integer_value(created) > s->now_s)
		return false;
	return s->now_s - json_integer_value(created) > s->grace_s;
}

int container_sweep(const struct container_sweep *sweep, const char *text, size_t len,
		    void (*remove)(void *user, const char *name))
{
	AUTO_JSON json_t *list = NULL;
	json_t *container;
	size_t i;

	if (json_read(text, len, 0, &list, NULL) == -ENOMEM)
		return -ENOMEM;
	if (!json_is_array(list))
		return -EBADMSG;
	json_array_foreach(list, i, container)
	{
		json_t *value = json_array_get(json_object_get(container, "Names"), 0);
		const char *name = json_is_string(value) ? json_string_value(value) : "";

		if (name[0] != '\0' && is_orphan(sweep, container, name))
			remove(sweep->user, name);
	}
	return (int)json_array_size(list);
}
