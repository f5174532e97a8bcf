#include "core/secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/field.h"
#include "core/json.h"
#include "core/pathname.h"
#include "core/strlist.h"

bool secret_binding_revocable(const struct secret_binding *b)
{
	return text_trimmed(b->lease_id).len > 0 &&
	       (b->n_env_keys > 0 || b->n_files > 0 || b->egress);
}

static int check_id(const char *value, const char *path, const char *name, struct error *err)
{
	if (strlen(text_or_empty(value)) > SECRET_ID_BYTES_MAX)
		return field_refuse(err, path, name, "is longer than %d bytes",
				    SECRET_ID_BYTES_MAX);
	return 0;
}

static int check_binding(const struct secret_binding *b, const char *path, struct error *err)
{
	char at[JSON_PATH_MAX];
	int r;

	if ((r = check_id(b->lease_id, path, "lease_id", err)) < 0 ||
	    (r = check_id(b->grant_id, path, "grant_id", err)) < 0 ||
	    (r = check_id(b->secret_name, path, "secret_name", err)) < 0 ||
	    (r = check_id(b->kind, path, "kind", err)) < 0)
		return r;
	if (strlen(text_or_empty(b->dir)) > SECRET_PATH_BYTES_MAX)
		return field_refuse(err, path, "dir", "is longer than %d bytes",
				    SECRET_PATH_BYTES_MAX);
	if (b->n_env_keys > SECRET_BINDING_ITEMS_MAX)
		return field_refuse(err, path, "env_keys", "has more than %d entries",
				    SECRET_BINDING_ITEMS_MAX);
	for (size_t i = 0; i < b->n_env_keys; i++) {
		if (!strchr(b->env_keys[i], '='))
			continue;
		field_path_at(at, path, "env_keys", i);
		r = field_refuse(err, at, "", "must be the name of a variable, without a value");
		error_remedy(err, "write only what stands before the =");
		return r;
	}
	if (b->n_files > SECRET_BINDING_ITEMS_MAX)
		return field_refuse(err, path, "files", "has more than %d entries",
				    SECRET_BINDING_ITEMS_MAX);
	for (size_t i = 0; i < b->n_files; i++) {
		if (strlen(b->files[i]) <= SECRET_PATH_BYTES_MAX)
			continue;
		field_path_at(at, path, "files", i);
		return field_refuse(err, at, "", "is longer than %d bytes", SECRET_PATH_BYTES_MAX);
	}
	return 0;
}

int secret_bindings_validate(const struct secret_binding *bindings, size_t n, const char *path,
			     struct error *err)
{
	if (n > SECRET_BINDINGS_MAX)
		return field_refuse(err, path, "", "has more than %d entries", SECRET_BINDINGS_MAX);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = check_binding(&bindings[i], at, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_binding(json_t *value, const char *path, struct secret_binding *b,
			struct error *err)
{
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = field_text(&o, "lease_id", &b->lease_id, err)) < 0 ||
	    (r = field_text(&o, "grant_id", &b->grant_id, err)) < 0 ||
	    (r = field_text(&o, "secret_name", &b->secret_name, err)) < 0 ||
	    (r = field_text(&o, "kind", &b->kind, err)) < 0 ||
	    (r = field_list(&o, "env_keys", &b->env_keys, &b->n_env_keys, err)) < 0 ||
	    (r = field_list(&o, "files", &b->files, &b->n_files, err)) < 0 ||
	    (r = field_text(&o, "dir", &b->dir, err)) < 0 ||
	    (r = json_object_bool(&o, "egress", &b->egress, err)) < 0 ||
	    (r = json_object_time(&o, "expires_at", &b->expires_at_ns, err)) < 0)
		return r;
	return json_object_end(&o, err);
}

int secret_bindings_from_json(json_t *array, const char *path, struct secret_binding **ret,
			      size_t *ret_n, struct error *err)
{
	size_t n = json_array_size(array);
	struct secret_binding *bindings = n > 0 ? calloc(n, sizeof(*bindings)) : NULL;

	if (n > 0 && !bindings)
		return error_oom(err);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = read_binding(json_array_get(array, i), at, &bindings[i], err);
		if (r < 0) {
			secret_bindings_free(bindings, n);
			return field_refused(r, err);
		}
	}
	*ret = bindings;
	*ret_n = n;
	return 0;
}

static int put_list_if(json_t *o, const char *name, char *const *list, size_t n)
{
	return n > 0 ? json_put_new(o, name, strlist_to_json(list, n)) : 0;
}

json_t *secret_bindings_to_json(const struct secret_binding *bindings, size_t n)
{
	AUTO_JSON json_t *array = json_array();

	if (!array)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct secret_binding *b = &bindings[i];
		AUTO_JSON json_t *o = json_object();

		if (!o || json_put_string(o, "lease_id", text_or_empty(b->lease_id)) < 0 ||
		    json_put_string_if(o, "grant_id", b->grant_id) < 0 ||
		    json_put_string_if(o, "secret_name", b->secret_name) < 0 ||
		    json_put_string_if(o, "kind", b->kind) < 0 ||
		    put_list_if(o, "env_keys", b->env_keys, b->n_env_keys) < 0 ||
		    put_list_if(o, "files", b->files, b->n_files) < 0 ||
		    json_put_string_if(o, "dir", b->dir) < 0 ||
		    json_put_bool_if(o, "egress", b->egress) < 0 ||
		    json_put_time_if(o, "expires_at", b->expires_at_ns) < 0 ||
		    json_array_append(array, o) < 0)
			return NULL;
	}
	return take_ptr(array);
}

int secret_binding_copy(struct secret_binding *ret, const struct secret_binding *b)
{
	struct secret_binding copy = {
		.lease_id = strdup(text_or_empty(b->lease_id)),
		.grant_id = strdup(text_or_empty(b->grant_id)),
		.secret_name = strdup(text_or_empty(b->secret_name)),
		.kind = strdup(text_or_empty(b->kind)),
		.env_keys = strlist_dup(b->env_keys, b->n_env_keys),
		.n_env_keys = b->n_env_keys,
		.files = strlist_dup(b->files, b->n_files),
		.n_files = b->n_files,
		.dir = strdup(text_or_empty(b->dir)),
		.egress = b->egress,
		.expires_at_ns = b->expires_at_ns,
	};

	if (!copy.lease_id || !copy.grant_id || !copy.secret_name || !copy.kind || !copy.dir ||
	    (b->n_env_keys > 0 && !copy.env_keys) || (b->n_files > 0 && !copy.files)) {
		secret_binding_clear(&copy);
		*ret = (struct secret_binding){0};
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

void secret_binding_clear(struct secret_binding *b)
{
	free(b->lease_id);
	free(b->grant_id);
	free(b->secret_name);
	free(b->kind);
	strlist_free(b->env_keys, b->n_env_keys);
	strlist_free(b->files, b->n_files);
	free(b->dir);
	*b = (struct secret_binding){0};
}

struct secret_binding *secret_bindings_free(struct secret_binding *bindings, size_t n)
{
	for (size_t i = 0; bindings && i < n; i++)
		secret_binding_clear(&bindings[i]);
	free(bindings);
	return NULL;
}

char *secret_bindings_describe(const struct secret_binding *bindings, size_t n)
{
	/* Every part is bounded, so this only grows as far as the bindings themselves. */
	struct buf out = BUF_INIT(SIZE_MAX / 2);

	for (size_t i = 0; i < n; i++) {
		const char *name = text_or_empty(bindings[i].secret_name);
		const char *kind = text_or_empty(bindings[i].kind);

		if (out.len > 0)
			buf_puts(&out, ", ");
		if (name[0] && kind[0])
			buf_printf(&out, "%s (%s)", name, kind);
		else if (name[0] || kind[0])
			buf_puts(&out, name[0] ? name : kind);
		else
			buf_puts(&out, text_or_empty(bindings[i].lease_id));
	}
	if (out.failed) {
		buf_free(&out);
		return NULL;
	}
	return out.data ? buf_take(&out) : strdup("");
}

int secret_bindings_env_keys(const struct secret_binding *bindings, size_t n, char ***ret,
			     size_t *ret_n)
{
	size_t total = 0, used = 0;

	for (size_t i = 0; i < n; i++)
		total += bindings[i].n_env_keys;
	if (total == 0) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	char **list = calloc(total + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < bindings[i].n_env_keys; k++) {
			list[used] = strdup(bindings[i].env_keys[k]);
			if (!list[used]) {
				strlist_free(list, used);
				return -ENOMEM;
			}
			used++;
		}
	}
	*ret_n = strlist_sort_unique(list, used);
	*ret = list;
	return 0;
}

mode_t secret_file_mode(const struct secret_file *f)
{
	return f->mode == 0 ? SECRET_FILE_DEFAULT_MODE : (mode_t)f->mode;
}

char *secret_file_path(const struct secret_file *f)
{
	return pathname_join(text_or_empty(f->dir), text_or_empty(f->name));
}

char *secret_file_describe(const struct secret_file *f)
{
	AUTO_FREE char *path = secret_file_path(f);
	char *text = NULL;

	if (!path || asprintf(&text, "%s (mode %04o, %zu bytes)", path,
			      (unsigned)secret_file_mode(f), f->content_len) < 0)
		return NULL;
	return text;
}

static int check_file(const struct secret_file *f, const char *path, struct error *err)
{
	const char *dir = text_or_empty(f->dir);
	const char *name = text_or_empty(f->name);

	if (dir[0] != '/')
		return field_refuse(err, path, "dir", "must be an absolute path");
	if (strlen(dir) > SECRET_PATH_BYTES_MAX)
		return field_refuse(err, path, "dir", "is longer than %d bytes",
				    SECRET_PATH_BYTES_MAX);
	if (!pathname_is_clean(dir, strlen(dir)))
		return field_refuse(
			err, path, "dir",
			"must be a clean path: no empty, \".\" or \"..\" element and no "
			"trailing slash");
	if (dir[1] == '\0')
		return field_refuse(err, path, "dir", "must not be the root");
	if (text_trimmed(name).len == 0)
		return field_refuse(err, path, "name", "must not be empty");
	if (strchr(name, '/') || strchr(name, '\\') || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return field_refuse(err, path, "name",
				    "must be a bare file name: no separator, not \".\" or \"..\"");
	if (strlen(name) > SECRET_NAME_BYTES_MAX)
		return field_refuse(err, path, "name", "is longer than %d bytes",
				    SECRET_NAME_BYTES_MAX);
	if (f->mode < 0 || f->mode > 0777 || (f->mode & 077) != 0)
		return field_refuse(err, path, "mode",
				    "must have permission bits of the owner only, as 0600");
	if (f->content_len > MAX_SECRET_FILE_BYTES)
		return field_refuse(err, path, "content", "is larger than %d bytes",
				    MAX_SECRET_FILE_BYTES);
	return 0;
}

int secret_files_validate(const struct secret_file *files, size_t n, const char *path,
			  struct error *err)
{
	if (n > SECRET_FILES_MAX)
		return field_refuse(err, path, "", "has more than %d entries", SECRET_FILES_MAX);
	for (size_t i = 0; i < n; i++) {
		char at[JSON_PATH_MAX];

		field_path_at(at, path, "", i);
		int r = check_file(&files[i], at, err);
		if (r < 0)
			return r;
		/* Both directories are clean, so equal paths are equal parts. */
		for (size_t k = 0; k < i; k++)
			if (strcmp(files[k].dir, files[i].dir) == 0 &&
			    strcmp(files[k].name, files[i].name) == 0)
				return field_refuse(err, at, "", "has the same path as entry %zu",
						    k);
	}
	return 0;
}

int secret_files_dirs(const struct secret_file *files, size_t n, char ***ret, size_t *ret_n)
{
	char **list = n > 0 ? calloc(n + 1, sizeof(*list)) : NULL;
	size_t used = 0;

	if (n > 0 && !list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *dir = text_or_empty(files[i].dir);

		if (strlist_contains(list, used, dir))
			continue;
		list[used] = strdup(dir);
		if (!list[used]) {
			strlist_free(list, used);
			return -ENOMEM;
		}
		used++;
	}
	*ret = list;
	*ret_n = used;
	return 0;
}

void secret_file_clear(struct secret_file *f)
{
	if (f->content)
		explicit_bzero(f->content, f->content_len);
	free(f->content);
	free(f->lease_id);
	free(f->grant_id);
	free(f->dir);
	free(f->name);
	*f = (struct secret_file){0};
}

struct secret_file *secret_files_free(struct secret_file *files, size_t n)
{
	for (size_t i = 0; files && i < n; i++)
		secret_file_clear(&files[i]);
	free(files);
	return NULL;
}
