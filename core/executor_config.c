#include "core/executor_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/executor.h"
#include "core/field.h"
#include "core/json.h"
#include "core/strlist.h"

void executor_config_clear(struct executor_config *c)
{
	free(c->kind);
	(void)labels_free(c->labels, c->n_labels);
	(void)strlist_free(c->harnesses, c->n_harnesses);
	(void)strlist_free(c->container_runtimes, c->n_container_runtimes);
	json_decref(c->options);
	*c = (struct executor_config){0};
}

static int read_bounded(struct json_object *o, const char *name, int64_t min, int64_t max,
			int64_t *ret, struct error *err)
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

static int check_entry(const char *text, const char *name, size_t i, struct error *err)
{
	struct text_view v = text_trimmed(text);
	const char *reason = NULL;

	if (v.len == 0 || v.len != strlen(text))
		reason = "is blank, or has white space around it";
	else if (v.len > EXECUTOR_LIST_TEXT_BYTES_MAX)
		reason = "is too long";
	else if (text_has_control(v))
		reason = "holds a control character";
	if (!reason)
		return 0;
	int r = error_set(err, EINVAL, "%s", reason);
	error_field(err, "%s[%zu]", name, i);
	return r;
}

/* A set of names. */
static int read_names(struct json_object *o, const char *name, char ***ret, size_t *ret_n,
		      struct error *err)
{
	json_t *array = NULL;
	char **list = NULL;
	size_t n = 0;

	int r = json_object_array(o, name, &array, err);
	if (r <= 0)
		return r;
	r = strlist_from_json(array, name, &list, &n, err);
	if (r < 0)
		return r;
	if (n > EXECUTOR_LIST_MAX) {
		r = error_set(err, EINVAL, "has more than %d entries", EXECUTOR_LIST_MAX);
		error_field(err, "%s", name);
	}
	for (size_t i = 0; i < n && r >= 0; i++)
		r = check_entry(list[i], name, i, err);
	if (r < 0) {
		strlist_free(list, n);
		return r;
	}
	*ret_n = strlist_sort_unique(list, n);
	*ret = list;
	return 0;
}

static int read_kind(struct json_object *o, struct driver *const *drivers, struct driver **ret,
		     struct error *err)
{
	struct buf kinds = BUF_INIT(ERROR_REMEDY_MAX - 64);
	const char *kind = NULL;

	int r = json_object_string(o, "kind", &kind, err);
	if (r < 0)
		return r;
	for (size_t i = 0; drivers[i]; i++) {
		if (kind && strcmp(drivers[i]->ops->kind, kind) == 0) {
			*ret = drivers[i];
			return 0;
		}
		buf_printf(&kinds, "%s%s", i > 0 ? ", " : "", drivers[i]->ops->kind);
	}
	r = error_set(err, EINVAL, "%s", kind ? "there is no driver of this kind" : "is missing");
	error_field(err, "kind");
	error_remedy(err, "write one of: %s", kinds.data ? kinds.data : "");
	buf_free(&kinds);
	return r;
}

static int read_common(struct json_object *o, struct executor_config *c, struct error *err)
{
	json_t *labels = NULL;
	int64_t quota = 0;

	int r = json_object_object(o, "labels", &labels, err);
	if (r > 0)
		r = labels_from_json(labels, "labels", &c->labels, &c->n_labels, err);
	if (r >= 0)
		r = labels_validate(c->labels, c->n_labels, "labels", err);
	if (r >= 0)
		r = read_bounded(o, "max_concurrent", 0, MAX_CONCURRENT_MAX, &c->max_concurrent, err);
	if (r >= 0)
		r = read_bounded(o, "log_quota_bytes", LOG_QUOTA_MIN, (int64_t)LOG_QUOTA_MAX, &quota, err);
	if (r >= 0)
		r = read_names(o, "harnesses", &c->harnesses, &c->n_harnesses, err);
	if (r >= 0)
		r = read_names(o, "container_runtimes", &c->container_runtimes,
			       &c->n_container_runtimes, err);
	if (r >= 0)
		r = read_bounded(o, "memory_mb", 0, EXECUTOR_MEMORY_MB_MAX, &c->memory_mb, err);
	c->log_quota_bytes = (uint64_t)quota;
	return r;
}

int executor_config_parse(const char *text, size_t len, struct driver *const *drivers,
			  struct executor_config *ret, struct error *err)
{
	AUTO_JSON json_t *value = NULL;
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0};
	struct driver *driver = NULL;
	struct json_object o;

	int r = json_parse(text, len, &value, err);
	if (r >= 0)
		r = json_object_begin(&o, value, "", err);
	if (r >= 0)
		r = read_kind(&o, drivers, &driver, err);
	if (r < 0)
		return r;
	c.kind = strdup(driver->ops->kind);
	if (!c.kind)
		return error_oom(err);
	r = read_common(&o, &c, err);
	if (r >= 0 && driver->ops->config_check)
		r = driver->ops->config_check(driver, &o, &c.options, err);
	if (r >= 0)
		r = json_object_end(&o, err);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct executor_config){0};
	return 0;
}

static int put_names(json_t *o, const char *name, char *const *list, size_t n)
{
	return n > 0 ? json_put_new(o, name, strlist_to_json(list, n)) : 0;
}

char *executor_config_text(const struct executor_config *c)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "kind", c->kind) < 0)
		return NULL;
	if (c->n_labels > 0 && json_put_new(o, "labels", labels_to_json(c->labels, c->n_labels)) < 0)
		return NULL;
	if (json_put_int_if(o, "max_concurrent", c->max_concurrent) < 0 ||
	    json_put_int_if(o, "log_quota_bytes", (int64_t)c->log_quota_bytes) < 0 ||
	    put_names(o, "harnesses", c->harnesses, c->n_harnesses) < 0 ||
	    put_names(o, "container_runtimes", c->container_runtimes, c->n_container_runtimes) < 0 ||
	    json_put_int_if(o, "memory_mb", c->memory_mb) < 0)
		return NULL;
	if (c->options && json_object_update_missing(o, c->options) < 0)
		return NULL;
	return json_text(o);
}

int object_name_check(const char *what, const char *name, struct error *err)
{
	size_t len = strlen(name);
	bool good = len >= 1 && len <= 63;

	for (size_t i = 0; i < len && good; i++) {
		char c = name[i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		good = alnum || (i > 0 && (c == '.' || c == '_' || c == '-'));
	}
	if (good)
		return 0;
	int r = error_set(err, EINVAL, "not a name of a%s %s", strchr("aeiou", what[0]) ? "n" : "", what);
	error_remedy(err, "use 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter "
			  "or digit");
	return r;
}
