#include "core/handle_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"

static int require(const char *value, const char *field, const char *reason, struct error *err)
{
	int r;

	if (text_trimmed(value).len > 0)
		return 0;
	r = error_set(err, EINVAL, "%s", reason);
	error_field(err, "%s", field);
	return r;
}

int handle_record_validate(const struct handle_record *r, struct error *err)
{
	int e;

	if ((e = require(r->handle_id, "handle_id", "must name the handle", err)) < 0 ||
	    (e = require(r->executor_id, "executor_id", "must name the executor", err)) < 0 ||
	    (e = require(r->external_id, "external_id",
			 "must be what the runtime calls the workload", err)) < 0)
		return e;
	return 0;
}

static int copy_meta(struct handle_record *ret, const struct handle_record *r)
{
	if (r->n_meta == 0)
		return 0;
	ret->meta = calloc(r->n_meta, sizeof(*ret->meta));
	if (!ret->meta)
		return -ENOMEM;
	ret->n_meta = r->n_meta;
	for (size_t i = 0; i < r->n_meta; i++) {
		ret->meta[i].key = strdup(r->meta[i].key);
		ret->meta[i].value = strdup(r->meta[i].value);
		if (!ret->meta[i].key || !ret->meta[i].value)
			return -ENOMEM;
	}
	return 0;
}

static int copy_secrets(struct handle_record *ret, const struct handle_record *r)
{
	if (r->n_secrets == 0)
		return 0;
	ret->secrets = calloc(r->n_secrets, sizeof(*ret->secrets));
	if (!ret->secrets)
		return -ENOMEM;
	ret->n_secrets = r->n_secrets;
	for (size_t i = 0; i < r->n_secrets; i++)
		if (secret_binding_copy(&ret->secrets[i], &r->secrets[i]) < 0)
			return -ENOMEM;
	return 0;
}

int handle_record_copy(struct handle_record *ret, const struct handle_record *r)
{
	struct handle_record copy = {
		.handle_id = strdup(text_or_empty(r->handle_id)),
		.executor_id = strdup(text_or_empty(r->executor_id)),
		.driver = strdup(text_or_empty(r->driver)),
		.external_id = strdup(text_or_empty(r->external_id)),
		.project_path = strdup(text_or_empty(r->project_path)),
		.task_id = r->task_id,
		.pid = r->pid,
		.image = strdup(text_or_empty(r->image)),
		.started_at = r->started_at,
		.deadline = r->deadline,
		.secrets_recorded = r->secrets_recorded,
	};

	if (!copy.handle_id || !copy.executor_id || !copy.driver || !copy.external_id ||
	    !copy.project_path || !copy.image || copy_meta(&copy, r) < 0 ||
	    copy_secrets(&copy, r) < 0) {
		handle_record_clear(&copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

void handle_record_clear(struct handle_record *r)
{
	free(r->handle_id);
	free(r->executor_id);
	free(r->driver);
	free(r->external_id);
	free(r->project_path);
	free(r->image);
	labels_free(r->meta, r->n_meta);
	secret_bindings_free(r->secrets, r->n_secrets);
	*r = (struct handle_record){0};
}

struct handle_record *handle_records_free(struct handle_record *records, size_t n)
{
	for (size_t i = 0; records && i < n; i++)
		handle_record_clear(&records[i]);
	free(records);
	return NULL;
}

json_t *handle_record_to_json(const struct handle_record *r)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "handle_id", text_or_empty(r->handle_id)) < 0 ||
	    json_put_string(o, "executor_id", text_or_empty(r->executor_id)) < 0 ||
	    json_put_string(o, "driver", text_or_empty(r->driver)) < 0 ||
	    json_put_string(o, "external_id", text_or_empty(r->external_id)) < 0 ||
	    json_put_string_if(o, "project_path", r->project_path) < 0 ||
	    json_put_int_if(o, "task_id", r->task_id) < 0 ||
	    json_put_int_if(o, "pid", r->pid) < 0 || json_put_string_if(o, "image", r->image) < 0 ||
	    json_put_time_if(o, "started_at", r->started_at) < 0 ||
	    json_put_time_if(o, "deadline", r->deadline) < 0)
		return NULL;
	if (r->n_meta > 0 && json_put_new(o, "meta", labels_to_json(r->meta, r->n_meta)) < 0)
		return NULL;
	if (r->n_secrets > 0 &&
	    json_put_new(o, "secrets", secret_bindings_to_json(r->secrets, r->n_secrets)) < 0)
		return NULL;
	if (json_put_bool_if(o, "secrets_recorded", r->secrets_recorded) < 0)
		return NULL;
	return take_ptr(o);
}

static int read_meta(struct json_object *o, struct handle_record *r, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *meta = NULL;
	int e = json_object_object(o, "meta", &meta, err);

	if (e <= 0)
		return e;
	json_object_path(o, "meta", path);
	return labels_from_json(meta, path, &r->meta, &r->n_meta, err);
}

static int read_secrets(struct json_object *o, struct handle_record *r, struct error *err)
{
	char path[JSON_PATH_MAX];
	json_t *array = NULL;
	int e = json_object_array(o, "secrets", &array, err);

	if (e <= 0)
		return e;
	json_object_path(o, "secrets", path);
	return secret_bindings_from_json(array, path, &r->secrets, &r->n_secrets, err);
}

int handle_record_from_json(json_t *value, const char *path, struct handle_record *ret,
			    struct error *err)
{
	struct handle_record r = {0};
	struct json_object o;
	int e;

	if ((e = json_object_begin(&o, value, path, err)) < 0 ||
	    (e = field_text(&o, "handle_id", &r.handle_id, err)) < 0 ||
	    (e = field_text(&o, "executor_id", &r.executor_id, err)) < 0 ||
	    (e = field_text(&o, "driver", &r.driver, err)) < 0 ||
	    (e = field_text(&o, "external_id", &r.external_id, err)) < 0 ||
	    (e = field_text(&o, "project_path", &r.project_path, err)) < 0 ||
	    (e = json_object_int64(&o, "task_id", &r.task_id, err)) < 0 ||
	    (e = json_object_int64(&o, "pid", &r.pid, err)) < 0 ||
	    (e = field_text(&o, "image", &r.image, err)) < 0 ||
	    (e = json_object_time(&o, "started_at", &r.started_at, err)) < 0 ||
	    (e = json_object_time(&o, "deadline", &r.deadline, err)) < 0 ||
	    (e = read_meta(&o, &r, err)) < 0 || (e = read_secrets(&o, &r, err)) < 0 ||
	    (e = json_object_bool(&o, "secrets_recorded", &r.secrets_recorded, err)) < 0 ||
	    (e = json_object_end(&o, err)) < 0) {
		handle_record_clear(&r);
		if (err && err->kind == ERROR_INVALID_SPEC)
			err->kind = ERROR_KIND_NONE;
		return e;
	}
	*ret = r;
	return 0;
}

/* The store in memory: rows in the order in which their handles first came. */
struct memory_store {
	struct handle_store store; /* first, so that a pointer to it is one to this */
	struct handle_record *rows;
	size_t n, cap;
};

static struct memory_store *memory_of(struct handle_store *store)
{
	return (struct memory_store *)store;
}

static size_t find(const struct memory_store *m, const char *handle_id)
{
	size_t i = 0;

	while (i < m->n && strcmp(m->rows[i].handle_id, handle_id) != 0)
		i++;
	return i;
}

static int memory_put(struct handle_store *store, const struct handle_record *r, struct error *err)
{
	struct memory_store *m = memory_of(store);
	struct handle_record copy;
	int e = handle_record_validate(r, err);

	if (e < 0)
		return e;
	size_t at = find(m, r->handle_id);
	if (at == m->n && m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 16;
		struct handle_record *grown = reallocarray(m->rows, cap, sizeof(*grown));

		if (!grown)
			return error_oom(err);
		m->rows = grown;
		m->cap = cap;
	}
	if (handle_record_copy(&copy, r) < 0)
		return error_oom(err);
	if (at < m->n)
		handle_record_clear(&m->rows[at]);
	else
		m->n++;
	m->rows[at] = copy;
	return 0;
}

static int compare_age(const void *a, const void *b)
{
	const struct handle_record *x = a, *y = b;

	if (x->started_at != y->started_at)
		return x->started_at < y->started_at ? -1 : 1;
	return strcmp(x->handle_id, y->handle_id);
}

static int memory_list(struct handle_store *store, const char *executor_id,
		       struct handle_record **ret, size_t *ret_n, struct error *err)
{
	struct memory_store *m = memory_of(store);
	struct handle_record *rows = calloc(m->n + 1, sizeof(*rows));
	size_t n = 0;

	if (!rows)
		return error_oom(err);
	for (size_t i = 0; i < m->n; i++) {
		if (executor_id[0] && strcmp(executor_id, m->rows[i].executor_id) != 0)
			continue;
		if (handle_record_copy(&rows[n], &m->rows[i]) < 0) {
			handle_records_free(rows, n);
			return error_oom(err);
		}
		n++;
	}
	qsort(rows, n, sizeof(*rows), compare_age);
	*ret = rows;
	*ret_n = n;
	return 0;
}

static int memory_remove(struct handle_store *store, const char *handle_id, struct error *err)
{
	struct memory_store *m = memory_of(store);
	size_t at = find(m, handle_id);

	(void)err;
	if (at == m->n)
		return 0;
	handle_record_clear(&m->rows[at]);
	memmove(&m->rows[at], &m->rows[at + 1], (m->n - at - 1) * sizeof(m->rows[0]));
	m->n--;
	return 0;
}

struct handle_store *handle_store_new_memory(void)
{
	struct memory_store *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->store = (struct handle_store){
		.put = memory_put, .list = memory_list, .remove = memory_remove};
	return &m->store;
}

struct handle_store *handle_store_free_memory(struct handle_store *store)
{
	if (store) {
		struct memory_store *m = memory_of(store);

		handle_records_free(m->rows, m->n);
		free(m);
	}
	return NULL;
}

size_t handle_store_memory_len(const struct handle_store *store)
{
	return ((const struct memory_store *)store)->n;
}

static void begin_report(struct error *report)
{
	if (report)
		*report = (struct error){0};
}

void handle_store_record(struct handle_store *store, const struct handle_record *r,
			 struct error *report)
{
	begin_report(report);
	if (store)
		(void)store->put(store, r, report);
}

void handle_store_forget(struct handle_store *store, const char *handle_id, struct error *report)
{
	begin_report(report);
	if (store)
		(void)store->remove(store, handle_id, report);
}

void handle_store_load(struct handle_store *store, const char *executor_id,
		       struct handle_record **ret, size_t *ret_n, struct error *report)
{
	*ret = NULL;
	*ret_n = 0;
	begin_report(report);
	if (store)
		(void)store->list(store, executor_id, ret, ret_n, report);
}
