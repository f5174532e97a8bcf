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
	(void)strlist_free(c->health_check.argv, c->health_check.n_argv);
	json_decref(c->options);
	*c = (struct executor_config){0};
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

static int refuse_check(struct error *err, const char *field, const char *reason)
{
	int r = error_set(err, EINVAL, "%s", reason);

	error_field(err, "health_check.%s", field);
	error_remedy(err, "write {\"argv\":[\"/path/to/program\"],\"timeout_ms\":5000}");
	return r;
}

static int check_argv(const struct executor_health_check *c, struct error *err)
{
	if (c->n_argv == 0 || text_trimmed(c->argv[0]).len == 0)
		return refuse_check(err, "argv", "names nothing to execute");
	if (c->n_argv > HEALTH_CHECK_ARGV_MAX)
		return refuse_check(err, "argv", "has too many entries");
	for (size_t i = 0; i < c->n_argv; i++)
		if (strlen(c->argv[i]) > HEALTH_CHECK_ARG_BYTES_MAX)
			return refuse_check(err, "argv", "has an entry of more than 4096 bytes");
	return 0;
}

/* Ends the list with NULL, as execve() wants it. */
static int end_argv(struct executor_health_check *c)
{
	char **argv = reallocarray(c->argv, c->n_argv + 1, sizeof(*argv));

	if (!argv)
		return -ENOMEM;
	argv[c->n_argv] = NULL;
	c->argv = argv;
	return 0;
}

static int read_health_check(struct json_object *o, const struct driver *driver,
			     struct executor_health_check *ret, struct error *err)
{
	json_t *value = NULL, *argv = NULL;
	struct json_object check;

	int r = json_object_object(o, "health_check", &value, err);
	if (r <= 0)
		return r;
	if (!driver->ops->probe) {
		r = error_set(err, EINVAL, "executors of this kind are not probed");
		error_field(err, "health_check");
		return r;
	}
	r = json_object_begin(&check, value, "health_check", err);
	if (r >= 0)
		r = json_object_array(&check, "argv", &argv, err);
	if (r > 0)
		r = strlist_from_json(argv, "health_check.argv", &ret->argv, &ret->n_argv, err);
	if (r >= 0)
		r = check_argv(ret, err);
	if (r >= 0 && end_argv(ret) < 0)
		r = error_oom(err);
	if (r >= 0)
		r = json_object_int64(&check, "timeout_ms", &ret->timeout_ms, err);
	if (r > 0 && (ret->timeout_ms < 1 || ret->timeout_ms > HEALTH_CHECK_TIMEOUT_MAX_MS))
		r = refuse_check(err, "timeout_ms", "must be from 1 to 600000");
	return r < 0 ? r : json_object_end(&check, err);
}

static int read_kind(struct json_object *o, struct driver *const *drivers, struct driver **ret,
		     struct error *err)
{
	AUTO_BUF struct buf kinds = BUF_INIT(ERROR_REMEDY_MAX - 64);
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
		r = field_int(o, "max_concurrent", 0, MAX_CONCURRENT_MAX, &c->max_concurrent, err);
	if (r >= 0)
		r = field_int(o, "log_quota_bytes", LOG_QUOTA_MIN, (int64_t)LOG_QUOTA_MAX, &quota, err);
	if (r >= 0)
		r = read_names(o, "harnesses", &c->harnesses, &c->n_harnesses, err);
	if (r >= 0)
		r = read_names(o, "container_runtimes", &c->container_runtimes,
			       &c->n_container_runtimes, err);
	if (r >= 0)
		r = field_int(o, "memory_mb", 0, EXECUTOR_MEMORY_MB_MAX, &c->memory_mb, err);
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
	if (r >= 0)
		r = read_health_check(&o, driver, &c.health_check, err);
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

static int put_health_check(json_t *o, const struct executor_health_check *c)
{
	AUTO_JSON json_t *check = c->n_argv > 0 ? json_object() : NULL;

	if (c->n_argv == 0)
		return 0;
	if (!check || json_put_new(check, "argv", strlist_to_json(c->argv, c->n_argv)) < 0 ||
	    json_put_int_if(check, "timeout_ms", c->timeout_ms) < 0)
		return -ENOMEM;
	return json_put_new(o, "health_check", take_ptr(check));
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
	    json_put_int_if(o, "memory_mb", c->memory_mb) < 0 ||
	    put_health_check(o, &c->health_check) < 0)
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
