#include "core/executor_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"

void executor_config_clear(struct executor_config *c)
{
	free(c->kind);
	(void)labels_free(c->labels, c->n_labels);
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

int executor_config_parse(const char *text, size_t len, struct executor_config *ret,
			  struct error *err)
{
	AUTO_JSON json_t *value = NULL;
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0};
	struct json_object o;
	const char *kind = NULL;
	json_t *labels = NULL;
	int64_t quota = 0;

	int r = json_parse(text, len, &value, err);
	if (r < 0)
		return r;
	r = json_object_begin(&o, value, "", err);
	if (r < 0)
		return r;
	r = json_object_string(&o, "kind", &kind, err);
	if (r < 0)
		return r;
	if (r == 0) {
		r = error_set(err, EINVAL, "is missing");
		error_field(err, "kind");
		error_remedy(err, "write {\"kind\":\"localprocess\"}");
		return r;
	}
	c.kind = strdup(kind);
	if (!c.kind)
		return error_oom(err);
	r = json_object_object(&o, "labels", &labels, err);
	if (r > 0)
		r = labels_from_json(labels, "labels", &c.labels, &c.n_labels, err);
	if (r >= 0)
		r = labels_validate(c.labels, c.n_labels, "labels", err);
	if (r >= 0)
		r = read_bounded(&o, "max_concurrent", 0, MAX_CONCURRENT_MAX, &c.max_concurrent, err);
	if (r >= 0)
		r = read_bounded(&o, "log_quota_bytes", LOG_QUOTA_MIN, (int64_t)LOG_QUOTA_MAX, &quota, err);
	if (r >= 0)
		r = json_object_end(&o, err);
	if (r < 0)
		return r;
	c.log_quota_bytes = (uint64_t)quota;
	*ret = c;
	c = (struct executor_config){0};
	return 0;
}

char *executor_config_text(const struct executor_config *c)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "kind", c->kind) < 0)
		return NULL;
	if (c->n_labels > 0 && json_put_new(o, "labels", labels_to_json(c->labels, c->n_labels)) < 0)
		return NULL;
	if (json_put_int_if(o, "max_concurrent", c->max_concurrent) < 0 ||
	    json_put_int_if(o, "log_quota_bytes", (int64_t)c->log_quota_bytes) < 0)
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
	int r = error_set(err, EINVAL, "not a name of an %s", what);
	error_remedy(err, "use 1 to 63 of a-z, 0-9, dot, underscore and dash, beginning with a letter "
			  "or digit");
	return r;
}
