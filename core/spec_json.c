#include "core/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/spec_internal.h"
#include "core/strlist.h"

static int read_labels(struct json_object *o, struct spec *spec, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *object = NULL;
	int r = json_object_object(o, "labels", &object, err);

	if (r <= 0)
		return r;
	json_object_path(o, "labels", path);
	return labels_from_json(object, path, &spec->labels, &spec->n_labels, err);
}

static int read_limits(struct json_object *o, struct spec *spec, struct error *err)
{
	struct resource_limits *l = &spec->limits;
	json_t *value = json_object_field(o, "resource_limits");
	char path[JSON_PATH_MAX];
	struct json_object in;
	int r;

	if (!value)
		return 0;
	json_object_path(o, "resource_limits", path);
	if ((r = json_object_begin(&in, value, path, err)) < 0 ||
	    (r = json_object_int64(&in, "cpu_millis", &l->cpu_millis, err)) < 0 ||
	    (r = json_object_int64(&in, "memory_mb", &l->memory_mb, err)) < 0 ||
	    (r = json_object_int64(&in, "disk_mb", &l->disk_mb, err)) < 0 ||
	    (r = json_object_int64(&in, "pids", &l->pids, err)) < 0)
		return r;
	return json_object_end(&in, err);
}

static int read_env(struct json_object *o, struct spec *spec, struct error *err)
{
	int r = field_list(o, "env", &spec->env, &spec->n_env, err);

	if (r > 0)
		spec->env_set = true;
	return r;
}

static int read_mounts(struct json_object *o, struct spec *spec, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *array = NULL;
	int r = json_object_array(o, "mounts", &array, err);

	if (r <= 0)
		return r;
	json_object_path(o, "mounts", path);
	return spec_mounts_from_json(array, path, &spec->mounts, &spec->n_mounts, err);
}

static int read_host_mounts(struct json_object *o, struct spec *spec, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *array = NULL;
	int r = json_object_array(o, "host_mounts", &array, err);

	if (r <= 0)
		return r;
	json_object_path(o, "host_mounts", path);
	return host_mounts_from_json(array, path, &spec->host_mounts, &spec->n_host_mounts, err);
}

static int read_secrets(struct json_object *o, struct spec *spec, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *array = NULL;
	int r = json_object_array(o, "secrets", &array, err);

	if (r <= 0)
		return r;
	json_object_path(o, "secrets", path);
	return secret_bindings_from_json(array, path, &spec->secrets, &spec->n_secrets, err);
}

static int read_workspace(struct json_object *o, struct spec *spec, struct error *err)
{
	json_t *value = json_object_field(o, "workspace");
	struct workspace w;
	char path[JSON_PATH_MAX];

	if (!value)
		return 0;
	json_object_path(o, "workspace", path);
	int r = workspace_from_json(value, path, &w, err);
	if (r < 0)
		return r;
	workspace_clear(&spec->workspace);
	spec->workspace = w;
	return 0;
}

static int read_write_back(struct json_object *o, struct spec *spec, struct error *err)
{
	json_t *value = json_object_field(o, "write_back");
	struct writeback w;
	char path[JSON_PATH_MAX];

	if (!value)
		return 0;
	json_object_path(o, "write_back", path);
	int r = writeback_from_json(value, path, &w, err);
	if (r < 0)
		return r;
	writeback_clear(&spec->write_back);
	spec->write_back = w;
	return 0;
}

/* Replaces a "" that spec_new() made. */
static int read_text(struct json_object *o, const char *name, char **slot, struct error *err)
{
	char *text = NULL;
	int r = field_text(o, name, &text, err);

	if (r < 0)
		return r;
	free(*slot);
	*slot = text;
	return 0;
}

static int refuse_secret_files(struct json_object *o, struct error *err)
{
	if (!json_object_get(o->value, "secret_files"))
		return 0;
	int r = field_refuse(err, o->path, "secret_files", "cannot be written in a spec");

	error_remedy(err, "store the value as a secret and grant it; a lease delivers the file");
	return r;
}

static int read_spec(json_t *value, const char *path, struct spec *spec, struct error *err)
{
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = refuse_secret_files(&o, err)) < 0 ||
	    (r = read_text(&o, "work_dir", &spec->work_dir, err)) < 0 ||
	    (r = field_list(&o, "argv", &spec->argv, &spec->n_argv, err)) < 0 ||
	    (r = read_env(&o, spec, err)) < 0 || (r = read_labels(&o, spec, err)) < 0 ||
	    (r = read_limits(&o, spec, err)) < 0 ||
	    (r = json_object_int64(&o, "timeout_minutes", &spec->timeout_minutes, err)) < 0 ||
	    (r = read_text(&o, "image", &spec->image, err)) < 0 ||
	    (r = field_list(&o, "setup_commands", &spec->setup_commands, &spec->n_setup_commands,
			    err)) < 0 ||
	    (r = read_mounts(&o, spec, err)) < 0 || (r = read_host_mounts(&o, spec, err)) < 0 ||
	    (r = json_object_bool(&o, "disable_network", &spec->disable_network, err)) < 0 ||
	    (r = read_text(&o, "sandbox_hash", &spec->sandbox_hash, err)) < 0 ||
	    (r = read_secrets(&o, spec, err)) < 0 || (r = read_workspace(&o, spec, err)) < 0 ||
	    (r = read_write_back(&o, spec, err)) < 0)
		return r;
	return json_object_end(&o, err);
}

int spec_read_json(json_t *value, const char *path, struct spec **ret, struct error *err)
{
	AUTO_SPEC struct spec *spec = spec_new();

	if (!spec)
		return error_oom(err);
	int r = read_spec(value, path, spec, err);
	if (r < 0)
		return field_refused(r, err);
	*ret = take_ptr(spec);
	return 0;
}

/* Stores what is compared without surrounding white space without it. */
static void trim_values(struct spec *spec)
{
	text_trim_in_place(spec->image);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		text_trim_in_place(spec->mounts[i].source);
		text_trim_in_place(spec->mounts[i].target);
	}
	for (size_t i = 0; i < spec->n_host_mounts; i++) {
		text_trim_in_place(spec->host_mounts[i].name);
		text_trim_in_place(spec->host_mounts[i].source);
		text_trim_in_place(spec->host_mounts[i].target);
	}
	text_trim_in_place(spec->workspace.repo);
	text_trim_in_place(spec->workspace.ref);
	text_trim_in_place(spec->workspace.credential_grant);
	text_trim_in_place(spec->write_back.branch);
	if (spec->write_back.mode == WRITEBACK_NONE)
		text_trim_in_place(spec->write_back.message);
}

int spec_from_json(json_t *value, const char *path, struct spec **ret, struct error *err)
{
	AUTO_SPEC struct spec *spec = NULL;
	int r;

	if ((r = spec_read_json(value, path, &spec, err)) < 0 ||
	    (r = spec_check(spec, path, err)) < 0)
		return r;
	if (spec->work_dir[0] && spec->work_dir[0] != '/') {
		r = field_refuse(err, path, "work_dir", "must be an absolute path");
		error_remedy(err, "begin it with a slash, or leave it out");
		return r;
	}
	trim_values(spec);
	*ret = take_ptr(spec);
	return 0;
}

int spec_parse(const char *text, size_t len, struct spec **ret, struct error *err)
{
	AUTO_JSON json_t *value = NULL;
	int r;

	if (len > SPEC_TEXT_BYTES_MAX)
		return error_set_kind(err, EFBIG, ERROR_INVALID_SPEC,
				      "the spec is larger than %d bytes", SPEC_TEXT_BYTES_MAX);
	r = json_parse(text, len, &value, err);
	if (r < 0)
		return field_refused(r, err);
	return spec_from_json(value, "", ret, err);
}

static int put_list_if(json_t *o, const char *name, char *const *list, size_t n)
{
	return n > 0 ? json_put_new(o, name, strlist_to_json(list, n)) : 0;
}

static json_t *limits_to_json(const struct resource_limits *l)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_int_if(o, "cpu_millis", l->cpu_millis) < 0 ||
	    json_put_int_if(o, "memory_mb", l->memory_mb) < 0 ||
	    json_put_int_if(o, "disk_mb", l->disk_mb) < 0 ||
	    json_put_int_if(o, "pids", l->pids) < 0)
		return NULL;
	return take_ptr(o);
}

static int put_process(json_t *o, const struct spec *spec)
{
	if (json_put_string(o, "work_dir", text_or_empty(spec->work_dir)) < 0 ||
	    json_put_new(o, "argv", strlist_to_json(spec->argv, spec->n_argv)) < 0)
		return -ENOMEM;
	if ((spec->env_set || spec->n_env > 0) &&
	    json_put_new(o, "env", strlist_to_json(spec->env, spec->n_env)) < 0)
		return -ENOMEM;
	if (spec->n_labels > 0 &&
	    json_put_new(o, "labels", labels_to_json(spec->labels, spec->n_labels)) < 0)
		return -ENOMEM;
	if (!resource_limits_is_zero(&spec->limits) &&
	    json_put_new(o, "resource_limits", limits_to_json(&spec->limits)) < 0)
		return -ENOMEM;
	return json_put_int_if(o, "timeout_minutes", spec->timeout_minutes);
}

static int put_sandbox(json_t *o, const struct spec *spec)
{
	if (json_put_string_if(o, "image", spec->image) < 0 ||
	    put_list_if(o, "setup_commands", spec->setup_commands, spec->n_setup_commands) < 0)
		return -ENOMEM;
	if (spec->n_mounts > 0 &&
	    json_put_new(o, "mounts", spec_mounts_to_json(spec->mounts, spec->n_mounts)) < 0)
		return -ENOMEM;
	if (spec->n_host_mounts > 0 &&
	    json_put_new(o, "host_mounts",
			 host_mounts_to_json(spec->host_mounts, spec->n_host_mounts)) < 0)
		return -ENOMEM;
	if (json_put_bool_if(o, "disable_network", spec->disable_network) < 0 ||
	    json_put_string_if(o, "sandbox_hash", spec->sandbox_hash) < 0)
		return -ENOMEM;
	return 0;
}

static int put_delivery(json_t *o, const struct spec *spec)
{
	if (spec->n_secrets > 0 &&
	    json_put_new(o, "secrets", secret_bindings_to_json(spec->secrets, spec->n_secrets)) < 0)
		return -ENOMEM;
	if (!workspace_is_zero(&spec->workspace) &&
	    json_put_new(o, "workspace", workspace_to_json(&spec->workspace)) < 0)
		return -ENOMEM;
	if (!writeback_is_zero(&spec->write_back) &&
	    json_put_new(o, "write_back", writeback_to_json(&spec->write_back)) < 0)
		return -ENOMEM;
	return 0;
}

json_t *spec_to_json(const struct spec *spec)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || put_process(o, spec) < 0 || put_sandbox(o, spec) < 0 || put_delivery(o, spec) < 0)
		return NULL;
	return take_ptr(o);
}

char *spec_text(const struct spec *spec)
{
	AUTO_JSON json_t *value = spec_to_json(spec);

	return value ? json_text(value) : NULL;
}
