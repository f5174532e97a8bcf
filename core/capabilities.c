#include "core/capabilities.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/strlist.h"

static const char *const isolation_names[] = {
	[ISOLATION_UNDECLARED] = "",         [ISOLATION_NONE] = "none",
	[ISOLATION_CONTAINER] = "container", [ISOLATION_VM] = "vm",
	[ISOLATION_REMOTE] = "remote",
};

const char *isolation_name(enum isolation isolation)
{
	return (size_t)isolation < ARRAY_SIZE(isolation_names) ? isolation_names[isolation]
							       : "unknown";
}

enum isolation isolation_parse(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(isolation_names); i++)
		if (strcmp(isolation_names[i], word) == 0)
			return (enum isolation)i;
	return ISOLATION_UNKNOWN;
}

bool isolation_isolates_from_host(enum isolation isolation)
{
	return isolation == ISOLATION_CONTAINER || isolation == ISOLATION_VM ||
	       isolation == ISOLATION_REMOTE;
}

/* The boolean fields in the reference's order, around the two that are not booleans. */
struct flag {
	const char *name;
	size_t offset;
	bool omit_false;
};

#define CAP_FLAG(field, omit)                                                                      \
	{                                                                                          \
#field, offsetof(struct capabilities, field), omit                                 \
	}

static const struct flag capability_flags[] = {
	CAP_FLAG(virtualized, true),
	CAP_FLAG(supports_stream, false),
	CAP_FLAG(supports_signal, false),
	CAP_FLAG(supports_resource_limits, false),
	CAP_FLAG(shares_host_filesystem, false),
	CAP_FLAG(network_egress, false),
	CAP_FLAG(filtered_egress, false),
	CAP_FLAG(supports_image_override, false),
	CAP_FLAG(supports_sandbox_build, false),
	CAP_FLAG(supports_workspace_provisioning, false),
	CAP_FLAG(supports_write_back, false),
	CAP_FLAG(supports_sandbox_mounts, false),
	CAP_FLAG(supports_host_mounts, false),
	CAP_FLAG(supports_secret_files, false),
	CAP_FLAG(secret_files_from_host_path, true),
};

#define REQ_FLAG(field)                                                                            \
	{                                                                                          \
#field, offsetof(struct requirements, field), true                                 \
	}

static const struct flag requirement_flags[] = {
	REQ_FLAG(require_isolation),
	REQ_FLAG(require_virtualization),
	REQ_FLAG(require_container_runtime),
	REQ_FLAG(require_network_egress),
	REQ_FLAG(require_resource_limits),
	REQ_FLAG(require_image_override),
	REQ_FLAG(require_sandbox_build),
	REQ_FLAG(require_sandbox_mounts),
	REQ_FLAG(require_host_mounts),
	REQ_FLAG(require_workspace_provisioning),
	REQ_FLAG(require_host_filesystem_workspace),
	REQ_FLAG(require_write_back),
	REQ_FLAG(require_secret_files),
	REQ_FLAG(require_revocation),
	REQ_FLAG(require_stream),
	REQ_FLAG(require_signal),
};

static bool *flag_in(void *base, const struct flag *flag)
{
	return (bool *)((char *)base + flag->offset);
}

static bool flag_value(const void *base, const struct flag *flag)
{
	return *(const bool *)((const char *)base + flag->offset);
}

json_t *capabilities_to_json(const struct capabilities *c)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "isolation", isolation_name(c->isolation)) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(capability_flags); i++) {
		const struct flag *flag = &capability_flags[i];
		bool value = flag_value(c, flag);

		if ((value || !flag->omit_false) && json_put_bool(o, flag->name, value) < 0)
			return NULL;
	}
	if (json_put_int_if(o, "max_concurrent", c->max_concurrent) < 0 ||
	    json_put_string_if(o, "platform", c->platform) < 0 ||
	    json_put_string_if(o, "arch", c->arch) < 0)
		return NULL;
	return take_ptr(o);
}

int capabilities_from_json(json_t *value, const char *path, struct capabilities *ret,
			   struct error *err)
{
	struct capabilities c = {0};
	struct json_object o;
	const char *isolation = "";
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = json_object_string(&o, "isolation", &isolation, err)) < 0 ||
	    (r = json_object_int64(&o, "max_concurrent", &c.max_concurrent, err)) < 0 ||
	    (r = json_object_string(&o, "platform", &c.platform, err)) < 0 ||
	    (r = json_object_string(&o, "arch", &c.arch, err)) < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(capability_flags); i++) {
		const struct flag *flag = &capability_flags[i];

		r = json_object_bool(&o, flag->name, flag_in(&c, flag), err);
		if (r < 0)
			return r;
	}
	r = json_object_end(&o, err);
	if (r < 0)
		return r;
	c.isolation = isolation_parse(isolation);
	*ret = c;
	return 0;
}

bool runtime_is_virtualized(const char *name)
{
	return runtime_view_is_virtualized(text_trimmed(name));
}

bool runtime_view_is_virtualized(struct text_view name)
{
	struct text_view v = text_trim(name.data, name.len);
	size_t whole = text_lower_prefix(v, "katacontainers");

	if (whole == 0)
		whole = text_lower_prefix(v, "kata");
	if ((whole > 0 && whole == v.len) || text_lower_prefix(v, "kata-") > 0 ||
	    text_lower_prefix(v, "kata.") > 0)
		return true;
	for (size_t i = 0; i < v.len; i++)
		if (text_lower_prefix((struct text_view){v.data + i, v.len - i}, ".kata.") > 0)
			return true;
	return false;
}

static int read_isolations(struct json_object *o, unsigned *ret, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *array = NULL, *item;
	unsigned set = 0;
	size_t i;
	int r = json_object_array(o, "allowed_isolations", &array, err);

	if (r <= 0)
		return r;
	json_object_path(o, "allowed_isolations", path);
	json_array_foreach(array, i, item)
	{
		enum isolation isolation = isolation_parse(text_or_empty(json_string_value(item)));

		if (isolation == ISOLATION_UNKNOWN || isolation == ISOLATION_UNDECLARED) {
			r = error_set(err, EINVAL, "must be none, container, vm or remote");
			error_field(err, "%s[%zu]", path, i);
			return r;
		}
		set |= 1U << isolation;
	}
	*ret = set;
	return 1;
}

static int check_text(const char *text, const char *path, const char *name, struct error *err)
{
	char where[JSON_PATH_MAX];
	int r;

	if (strlen(text) <= REQUIREMENTS_TEXT_BYTES_MAX)
		return 0;
	field_path(where, path, name);
	r = error_set(err, EINVAL, "is longer than %d bytes", REQUIREMENTS_TEXT_BYTES_MAX);
	error_field(err, "%s", where);
	return r;
}

static int read_labels(struct json_object *o, struct requirements *q, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *object = NULL;
	int r = json_object_object(o, "labels", &object, err);

	if (r <= 0)
		return r;
	json_object_path(o, "labels", path);
	r = labels_from_json(object, path, &q->labels, &q->n_labels, err);
	return r < 0 ? r : labels_validate(q->labels, q->n_labels, path, err);
}

static int read_requirements(json_t *value, const char *path, struct requirements *q,
			     struct error *err)
{
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = field_text(&o, "executor_id", &q->executor_id, err)) < 0 ||
	    (r = read_labels(&o, q, err)) < 0 ||
	    (r = field_list(&o, "harnesses", &q->harnesses, &q->n_harnesses, err)) < 0 ||
	    (r = field_text(&o, "platform", &q->platform, err)) < 0 ||
	    (r = field_text(&o, "arch", &q->arch, err)) < 0 ||
	    (r = json_object_int64(&o, "min_memory_mb", &q->min_memory_mb, err)) < 0 ||
	    (r = read_isolations(&o, &q->allowed_isolations, err)) < 0 ||
	    (r = json_object_bool(&o, "forbid_degraded", &q->forbid_degraded, err)) < 0 ||
	    (r = json_object_bool(&o, "ignore_capacity", &q->ignore_capacity, err)) < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(requirement_flags); i++) {
		const struct flag *flag = &requirement_flags[i];

		r = json_object_bool(&o, flag->name, flag_in(q, flag), err);
		if (r < 0)
			return r;
	}
	if ((r = json_object_end(&o, err)) < 0 ||
	    (r = check_text(q->executor_id, path, "executor_id", err)) < 0 ||
	    (r = check_text(q->platform, path, "platform", err)) < 0 ||
	    (r = check_text(q->arch, path, "arch", err)) < 0)
		return r;
	if (q->n_harnesses > REQUIREMENTS_HARNESSES_MAX)
		return field_refuse(err, path, "harnesses", "has more than %d entries",
				    REQUIREMENTS_HARNESSES_MAX);
	for (size_t i = 0; i < q->n_harnesses; i++)
		if ((r = check_text(q->harnesses[i], path, "harnesses", err)) < 0)
			return r;
	return 0;
}

int requirements_from_json(json_t *value, const char *path, struct requirements *ret,
			   struct error *err)
{
	struct requirements q = {0};
	int r = read_requirements(value, path, &q, err);

	if (r < 0) {
		requirements_clear(&q);
		/* Not a spec: what is wrong is the request for a place. */
		if (err && err->kind == ERROR_INVALID_SPEC)
			err->kind = ERROR_KIND_NONE;
		return r;
	}
	*ret = q;
	return 0;
}

static json_t *isolations_to_json(unsigned set)
{
	AUTO_JSON json_t *array = json_array();

	if (!array)
		return NULL;
	for (unsigned i = ISOLATION_NONE; i < ISOLATION_UNKNOWN; i++)
		if ((set & 1U << i) &&
		    json_array_append_new(array, json_string(isolation_names[i])) < 0)
			return NULL;
	return take_ptr(array);
}

json_t *requirements_to_json(const struct requirements *q)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string_if(o, "executor_id", q->executor_id) < 0)
		return NULL;
	if (q->n_labels > 0 &&
	    json_put_new(o, "labels", labels_to_json(q->labels, q->n_labels)) < 0)
		return NULL;
	if (q->n_harnesses > 0 &&
	    json_put_new(o, "harnesses", strlist_to_json(q->harnesses, q->n_harnesses)) < 0)
		return NULL;
	if (json_put_string_if(o, "platform", q->platform) < 0 ||
	    json_put_string_if(o, "arch", q->arch) < 0 ||
	    json_put_int_if(o, "min_memory_mb", q->min_memory_mb) < 0)
		return NULL;
	if (q->allowed_isolations != 0 &&
	    json_put_new(o, "allowed_isolations", isolations_to_json(q->allowed_isolations)) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(requirement_flags); i++)
		if (json_put_bool_if(o, requirement_flags[i].name,
				     flag_value(q, &requirement_flags[i])) < 0)
			return NULL;
	if (json_put_bool_if(o, "forbid_degraded", q->forbid_degraded) < 0 ||
	    json_put_bool_if(o, "ignore_capacity", q->ignore_capacity) < 0)
		return NULL;
	return take_ptr(o);
}

void requirements_add_flags(struct requirements *into, const struct requirements *from)
{
	for (size_t i = 0; i < ARRAY_SIZE(requirement_flags); i++)
		if (flag_value(from, &requirement_flags[i]))
			*flag_in(into, &requirement_flags[i]) = true;
}

void requirements_clear(struct requirements *r)
{
	free(r->executor_id);
	labels_free(r->labels, r->n_labels);
	strlist_free(r->harnesses, r->n_harnesses);
	free(r->platform);
	free(r->arch);
	*r = (struct requirements){0};
}
