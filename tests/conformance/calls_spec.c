/* Specs, mounts, secret files and what they demand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/field.h"
#include "core/redact.h"
#include "core/strlist.h"
#include "tests/conformance/calls.h"

static json_t *spec_validate_call(json_t *input)
{
	AUTO_SPEC struct spec *spec = NULL;
	struct error err = {0};
	int r = read_spec(input, &spec, &err);

	if (r == 0)
		r = spec_validate(spec, &err);
	return verdict_to_json(r, &err);
}

static json_t *spec_mounts_call(json_t *input)
{
	struct spec_mount *mounts = NULL;
	struct error err = {0};
	size_t n = 0;
	int r = spec_mounts_from_json(json_object_get(input, "mounts"), "mounts", &mounts, &n,
				      &err);

	if (r == 0)
		r = spec_mounts_validate(mounts, n, "mounts", &err);
	spec_mounts_free(mounts, n);
	return verdict_to_json(r, &err);
}

static json_t *host_mounts_call(json_t *input)
{
	struct host_mount *mounts = NULL;
	struct error err = {0};
	size_t n = 0;
	int r = host_mounts_from_json(json_object_get(input, "mounts"), "mounts", &mounts, &n,
				      &err);

	if (r == 0)
		r = host_mounts_validate(mounts, n, "mounts", &err);
	host_mounts_free(mounts, n);
	return verdict_to_json(r, &err);
}

static json_t *secret_files_call(json_t *input)
{
	struct secret_file *files = NULL;
	struct error err = {0};
	size_t n = 0;
	int r = read_secret_files(json_object_get(input, "files"), &files, &n, &err);

	if (r == 0)
		r = secret_files_validate(files, n, "files", &err);
	secret_files_free(files, n);
	return verdict_to_json(r, &err);
}

/* One file, either as the input or under "file". */
static int read_one_file(json_t *input, struct secret_file **ret)
{
	json_t *value = json_object_get(input, "file");
	AUTO_JSON json_t *array = json_array();
	size_t n;

	if (!array || json_array_append(array, value ? value : input) < 0)
		return -ENOMEM;
	return read_secret_files(array, ret, &n, NULL);
}

static json_t *secret_file_call(json_t *input)
{
	struct secret_file *f = NULL;
	char mode[16];

	if (read_one_file(input, &f) < 0)
		return NULL;
	AUTO_FREE char *path = secret_file_path(f);
	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)secret_file_mode(f));
	secret_files_free(f, 1);
	return json_pack("{s:s, s:s}", "file_mode_octal", mode, "path", path);
}

static json_t *secret_file_string_call(json_t *input)
{
	struct secret_file *f = NULL;

	if (read_one_file(input, &f) < 0)
		return NULL;
	AUTO_FREE char *text = secret_file_describe(f);
	secret_files_free(f, 1);
	return json_pack("{s:s}", "text", text);
}

static json_t *secret_file_dirs_call(json_t *input)
{
	struct secret_file *files = NULL;
	char **dirs = NULL;
	size_t n = 0, n_dirs = 0;

	if (read_secret_files(json_object_get(input, "files"), &files, &n, NULL) < 0 ||
	    secret_files_dirs(files, n, &dirs, &n_dirs) < 0)
		return NULL;
	json_t *answer = json_pack("{s:o}", "dirs", strlist_to_json(dirs, n_dirs));
	strlist_free(dirs, n_dirs);
	secret_files_free(files, n);
	return answer;
}

static json_t *spec_json_call(json_t *input)
{
	AUTO_SPEC struct spec *spec = NULL;

	if (read_spec(json_object_get(input, "spec"), &spec, NULL) < 0)
		return json_pack("{s:b}", "ok", 0);
	AUTO_FREE char *text = spec_text(spec);
	return json_pack("{s:s}", "json", text);
}

static json_t *sandbox_requirements_call(json_t *input)
{
	AUTO_SPEC struct spec *spec = NULL;

	if (read_spec(input, &spec, NULL) < 0)
		return json_pack("{s:b}", "ok", 0);
	return verdict_sandbox_requirements(spec);
}

static json_t *files_to_json(const struct spec *spec)
{
	AUTO_JSON json_t *array = json_array();

	for (size_t i = 0; array && i < spec->n_secret_files; i++) {
		const struct secret_file *f = &spec->secret_files[i];

		if (json_array_append_new(array, json_pack("{s:s, s:s, s:I}", "dir", f->dir, "name",
							   f->name, "content_len",
							   (json_int_t)f->content_len)) < 0)
			return NULL;
	}
	return take_ptr(array);
}

static json_t *relocate_call(json_t *input)
{
	AUTO_SPEC struct spec *spec = NULL;

	if (read_spec(json_object_get(input, "spec"), &spec, NULL) < 0 ||
	    spec_relocate_secrets(spec, get_text(input, "from"), get_text(input, "to"), NULL) < 0)
		return json_pack("{s:b}", "ok", 0);
	return json_pack("{s:o, s:o, s:o}", "env", strlist_to_json(spec->env, spec->n_env),
			 "secret_files", files_to_json(spec), "secrets",
			 secret_bindings_to_json(spec->secrets, spec->n_secrets));
}

static json_t *redact_call(json_t *input)
{
	json_t *list = json_object_get(input, "secrets");
	struct text_view text = get_view(input, "text");
	size_t n = json_array_size(list), len = 0;
	AUTO_FREE struct text_view *secrets = calloc(n + 1, sizeof(*secrets));
	AUTO_FREE char *out = NULL;

	for (size_t i = 0; secrets && i < n; i++) {
		json_t *item = json_array_get(list, i);

		secrets[i] = (struct text_view){text_or_empty(json_string_value(item)),
						json_string_length(item)};
	}
	if (!secrets || redact_text(text.data, text.len, secrets, n, &out, &len) < 0)
		return NULL;
	return json_pack("{s:o}", "text", json_stringn(out, len));
}

static json_t *device_call(json_t *input)
{
	AUTO_FREE char *name = device_work_dir(get_text(input, "work_dir"));

	return json_pack("{s:s}", "name", name);
}

static json_t *virtualized_call(json_t *input)
{
	return json_pack("{s:b}", "virtualized", runtime_view_is_virtualized(get_view(input, "name")));
}

const struct call spec_calls[] = {
	{"Spec.Validate", spec_validate_call},
	{"ValidateSpecMounts", spec_mounts_call},
	{"ValidateHostMounts", host_mounts_call},
	{"ValidateSecretFiles", secret_files_call},
	{"SecretFile", secret_file_call},
	{"SecretFile/String", secret_file_string_call},
	{"SecretFile/SecretFileDirs", secret_file_dirs_call},
	{"SecretFile/json(Spec)", spec_json_call},
	{"SandboxRequirements", sandbox_requirements_call},
	{"RelocateSecrets", relocate_call},
	{"RedactSecrets", redact_call},
	{"DeviceWorkDir", device_call},
	{"IsVirtualizedRuntime", virtualized_call},
	{NULL, NULL},
};
