#include "core/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/spec_internal.h"
#include "core/strlist.h"

struct spec *spec_new(void)
{
	struct spec *spec = calloc(1, sizeof(*spec));

	if (!spec)
		return NULL;
	spec->work_dir = strdup("");
	spec->image = strdup("");
	spec->sandbox_hash = strdup("");
	spec->workspace.repo = strdup("");
	spec->workspace.ref = strdup("");
	spec->workspace.credential_grant = strdup("");
	spec->write_back.branch = strdup("");
	spec->write_back.message = strdup("");
	if (!spec->work_dir || !spec->image || !spec->sandbox_hash || !spec->workspace.repo ||
	    !spec->workspace.ref || !spec->workspace.credential_grant || !spec->write_back.branch ||
	    !spec->write_back.message)
		return spec_free(spec);
	return spec;
}

struct spec *spec_free(struct spec *spec)
{
	if (!spec)
		return NULL;
	free(spec->work_dir);
	strlist_free(spec->argv, spec->n_argv);
	strlist_free(spec->env, spec->n_env);
	labels_free(spec->labels, spec->n_labels);
	free(spec->image);
	strlist_free(spec->setup_commands, spec->n_setup_commands);
	spec_mounts_free(spec->mounts, spec->n_mounts);
	host_mounts_free(spec->host_mounts, spec->n_host_mounts);
	free(spec->sandbox_hash);
	secret_bindings_free(spec->secrets, spec->n_secrets);
	secret_files_free(spec->secret_files, spec->n_secret_files);
	workspace_clear(&spec->workspace);
	writeback_clear(&spec->write_back);
	free(spec);
	return NULL;
}

static int check_work_dir(const struct spec *spec, const char *path, struct error *err)
{
	if (strlen(text_or_empty(spec->work_dir)) > SPEC_PATH_BYTES_MAX)
		return field_refuse(err, path, "work_dir", "is longer than %d bytes",
				    SPEC_PATH_BYTES_MAX);
	return 0;
}

static int refuse_item(struct error *err, const char *path, const char *name, size_t i,
		       const char *reason)
{
	char at[JSON_PATH_MAX];

	field_path_at(at, path, name, i);
	return field_refuse(err, at, "", "%s", reason);
}

static int check_argv(const struct spec *spec, const char *path, struct error *err)
{
	if (spec->n_argv == 0) {
		int r = field_refuse(err, path, "argv", "must name the program to run");
		error_remedy(err, "write it as [\"program\",\"argument\"]");
		return r;
	}
	if (text_trimmed(spec->argv[0]).len == 0)
		return refuse_item(err, path, "argv", 0, "must name the program to run");
	for (size_t i = 0; i < spec->n_argv; i++)
		if (strlen(spec->argv[i]) > SPEC_ARG_BYTES_MAX)
			return refuse_item(err, path, "argv", i,
					   "is longer than the kernel takes (131071 bytes)");
	return 0;
}

/* Orders entries by the name they set; all of them were checked to have one. */
static int compare_names(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	size_t nx = strcspn(x, "="), ny = strcspn(y, "=");
	int c = memcmp(x, y, nx < ny ? nx : ny);

	return c ? c : (nx > ny) - (nx < ny);
}

static int refuse_twice(const struct spec *spec, const char *one, const char *other,
			const char *path, struct error *err)
{
	size_t i = spec->n_env - 1;

	while (i > 0 && spec->env[i] != one && spec->env[i] != other)
		i--;
	int r = refuse_item(err, path, "env", i, "sets a variable that another entry sets too");
	error_remedy(err, "keep one of the two");
	return r;
}

static int check_env_unique(const struct spec *spec, const char *path, struct error *err)
{
	if (spec->n_env < 2)
		return 0;
	AUTO_FREE const char **sorted = calloc(spec->n_env, sizeof(*sorted));

	if (!sorted)
		return error_oom(err);
	for (size_t i = 0; i < spec->n_env; i++)
		sorted[i] = spec->env[i];
	qsort(sorted, spec->n_env, sizeof(*sorted), compare_names);
	for (size_t i = 1; i < spec->n_env; i++)
		if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
			return refuse_twice(spec, sorted[i - 1], sorted[i], path, err);
	return 0;
}

static int check_env(const struct spec *spec, const char *path, struct error *err)
{
	for (size_t i = 0; i < spec->n_env; i++) {
		const char *entry = spec->env[i];
		const char *equals = strchr(entry, '=');

		if (strlen(entry) > SPEC_ARG_BYTES_MAX)
			return refuse_item(err, path, "env", i,
					   "is longer than the kernel takes (131071 bytes)");
		if (!equals || equals == entry) {
			int r = refuse_item(err, path, "env", i,
					    "must have the form NAME=VALUE with a name");
			error_remedy(err, "write NAME= for an empty value");
			return r;
		}
	}
	return check_env_unique(spec, path, err);
}

static size_t exec_bytes(char *const *list, size_t n)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += strlen(list[i]) + 1 + sizeof(char *);
	return total;
}

static int check_exec_size(const struct spec *spec, const char *path, struct error *err)
{
	size_t argv = exec_bytes(spec->argv, spec->n_argv);
	size_t env = exec_bytes(spec->env, spec->n_env);

	if (argv + env <= SPEC_EXEC_BYTES_MAX)
		return 0;
	int r = field_refuse(err, path, argv >= env ? "argv" : "env",
			     "arguments and environment together are larger than %d bytes",
			     SPEC_EXEC_BYTES_MAX);
	error_remedy(err, "pass the data in a file");
	return r;
}

static int check_limits(const struct spec *spec, const char *path, struct error *err)
{
	const struct resource_limits *l = &spec->limits;
	char at[JSON_PATH_MAX];
	int r;

	field_path(at, path, "resource_limits");
	if ((r = field_check_range(err, at, "cpu_millis", l->cpu_millis,
				   SPEC_LIMIT_CPU_MILLIS_MAX)) < 0 ||
	    (r = field_check_range(err, at, "memory_mb", l->memory_mb, SPEC_LIMIT_MB_MAX)) < 0 ||
	    (r = field_check_range(err, at, "disk_mb", l->disk_mb, SPEC_LIMIT_MB_MAX)) < 0 ||
	    (r = field_check_range(err, at, "pids", l->pids, SPEC_LIMIT_PIDS_MAX)) < 0)
		return r;
	return 0;
}

static int check_image(const struct spec *spec, const char *path, struct error *err)
{
	struct text_view image = text_trimmed(spec->image);

	if (image.len > SPEC_IMAGE_BYTES_MAX)
		return field_refuse(err, path, "image", "is longer than %d bytes",
				    SPEC_IMAGE_BYTES_MAX);
	/* It becomes an argument of a container runtime's program. */
	if (image.len > 0 && image.data[0] == '-')
		return field_refuse(err, path, "image", "must not begin with a dash");
	if (text_has_control(image) || text_has_any(image, " "))
		return field_refuse(err, path, "image",
				    "must not contain white space or a control character");
	return 0;
}

static int check_setup_commands(const struct spec *spec, const char *path, struct error *err)
{
	if (spec->n_setup_commands > SPEC_SETUP_COMMANDS_MAX)
		return field_refuse(err, path, "setup_commands", "has more than %d entries",
				    SPEC_SETUP_COMMANDS_MAX);
	for (size_t i = 0; i < spec->n_setup_commands; i++) {
		const char *command = spec->setup_commands[i];

		if (text_trimmed(command).len == 0)
			return refuse_item(err, path, "setup_commands", i, "must not be empty");
		if (strlen(command) > SPEC_SETUP_COMMAND_BYTES_MAX)
			return refuse_item(err, path, "setup_commands", i,
					   "is longer than 8192 bytes");
		if (strpbrk(command, "\r\n")) {
			/* A line break would begin another instruction of the build file. */
			int r = refuse_item(err, path, "setup_commands", i, "must be one line");
			error_remedy(err, "give each line an entry of its own");
			return r;
		}
	}
	return 0;
}

static int check_hash(const struct spec *spec, const char *path, struct error *err)
{
	const char *hash = text_or_empty(spec->sandbox_hash);
	struct text_view v = {hash, strlen(hash)};

	if (v.len > SPEC_HASH_BYTES_MAX)
		return field_refuse(err, path, "sandbox_hash", "is longer than %d bytes",
				    SPEC_HASH_BYTES_MAX);
	if (text_has_control(v))
		return field_refuse(err, path, "sandbox_hash",
				    "must not contain a control character");
	return 0;
}

/* What no field can see alone. */
static int check_together(const struct spec *spec, const char *path, struct error *err)
{
	bool git = spec->workspace.kind == WORKSPACE_GIT;
	char at[JSON_PATH_MAX];
	int r;

	if (git && spec->disable_network) {
		r = field_refuse(err, path, "disable_network",
				 "a git workspace cannot be fetched without network");
		error_remedy(err, "leave disable_network out, or use another kind of workspace");
		return r;
	}
	if (spec->write_back.mode == WRITEBACK_NONE)
		return 0;
	if (spec->write_back.mode == WRITEBACK_PUSH && spec->disable_network) {
		r = field_refuse(err, path, "write_back.mode", "cannot push without network");
		error_remedy(err, "leave disable_network out, or set mode to \"bundle\"");
		return r;
	}
	if (!git) {
		r = field_refuse(err, path, "write_back", "needs a workspace of kind git");
		error_remedy(err, "set workspace.kind to \"git\", or leave write_back out");
		return r;
	}
	struct text_view ref = text_trimmed(spec->workspace.ref);
	if (commit_sha_check(ref.data, ref.len, NULL) == 0)
		return 0;
	field_path(at, path, "workspace");
	r = field_refuse(err, at, "ref",
			 "must be a full commit when there is a write-back: 40 lower-case "
			 "hexadecimal digits");
	error_remedy(err, "give what `git rev-parse` prints");
	return r;
}

static int check_parts(const struct spec *spec, const char *path, struct error *err)
{
	char at[JSON_PATH_MAX];
	int r;

	field_path(at, path, "labels");
	if ((r = labels_validate(spec->labels, spec->n_labels, at, err)) < 0)
		return r;
	field_path(at, path, "mounts");
	if ((r = spec_mounts_validate(spec->mounts, spec->n_mounts, at, err)) < 0)
		return r;
	field_path(at, path, "host_mounts");
	if ((r = host_mounts_validate(spec->host_mounts, spec->n_host_mounts, at, err)) < 0)
		return r;
	field_path(at, path, "secrets");
	if ((r = secret_bindings_validate(spec->secrets, spec->n_secrets, at, err)) < 0)
		return r;
	field_path(at, path, "secret_files");
	if ((r = secret_files_validate(spec->secret_files, spec->n_secret_files, at, err)) < 0)
		return r;
	field_path(at, path, "workspace");
	if ((r = workspace_validate(&spec->workspace, at, err)) < 0)
		return r;
	field_path(at, path, "write_back");
	return writeback_validate(&spec->write_back, at, err);
}

int spec_check(const struct spec *spec, const char *path, struct error *err)
{
	int r;

	if ((r = check_work_dir(spec, path, err)) < 0 || (r = check_argv(spec, path, err)) < 0 ||
	    (r = check_env(spec, path, err)) < 0 || (r = check_exec_size(spec, path, err)) < 0 ||
	    (r = check_limits(spec, path, err)) < 0 ||
	    (r = field_check_range(err, path, "timeout_minutes", spec->timeout_minutes,
				   SPEC_TIMEOUT_MINUTES_MAX)) < 0 ||
	    (r = check_image(spec, path, err)) < 0 ||
	    (r = check_setup_commands(spec, path, err)) < 0 ||
	    (r = check_hash(spec, path, err)) < 0 || (r = check_parts(spec, path, err)) < 0)
		return r;
	return check_together(spec, path, err);
}

int spec_validate(const struct spec *spec, struct error *err)
{
	return spec_check(spec, "", err);
}

const char *spec_label(const struct spec *spec, const char *key)
{
	return labels_get(spec->labels, spec->n_labels, key);
}

bool resource_limits_is_zero(const struct resource_limits *l)
{
	return l->cpu_millis == 0 && l->memory_mb == 0 && l->disk_mb == 0 && l->pids == 0;
}

bool spec_needs_secret_files(const struct spec *spec)
{
	if (spec->n_secret_files > 0)
		return true;
	for (size_t i = 0; i < spec->n_secrets; i++)
		if (spec->secrets[i].n_files > 0)
			return true;
	return false;
}

size_t spec_revocable_secrets(const struct spec *spec, const struct secret_binding **ret,
			      size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < spec->n_secrets; i++) {
		if (!secret_binding_revocable(&spec->secrets[i]))
			continue;
		if (ret && n < max)
			ret[n] = &spec->secrets[i];
		n++;
	}
	return n;
}

void spec_sandbox_requirements(const struct spec *spec, struct requirements *ret)
{
	*ret = (struct requirements){
		.require_image_override = text_trimmed(spec->image).len > 0,
		.require_sandbox_build = spec->n_setup_commands > 0,
		.require_sandbox_mounts = spec->n_mounts > 0,
		.require_host_mounts = spec->n_host_mounts > 0,
		.require_resource_limits = !resource_limits_is_zero(&spec->limits),
		.require_workspace_provisioning = workspace_needs_provisioning(&spec->workspace),
		.require_host_filesystem_workspace = spec->workspace.kind == WORKSPACE_BIND,
		.require_write_back = spec->write_back.mode != WRITEBACK_NONE,
		.require_secret_files = spec_needs_secret_files(spec),
		.require_revocation = spec_revocable_secrets(spec, NULL, 0) > 0,
	};
}

/* A string that is to be replaced when all the new ones exist. */
struct move {
	char **slot;
	char *text;
};

/* The moved form of slot, whose first `skip` bytes stay; *ret is NULL when nothing moves. */
static int moved_text(const char *text, size_t skip, const char *from, const char *to, char **ret)
{
	size_t n = strlen(from);
	const char *value = text + skip;

	*ret = NULL;
	if (strncmp(value, from, n) != 0 || (value[n] != '\0' && value[n] != '/'))
		return 0;
	size_t to_len = strlen(to), rest = strlen(value + n);
	char *moved = malloc(skip + to_len + rest + 1);

	if (!moved)
		return -ENOMEM;
	memcpy(moved, text, skip);
	memcpy(moved + skip, to, to_len);
	memcpy(moved + skip + to_len, value + n, rest + 1);
	*ret = moved;
	return 0;
}

static int plan_move(struct move *moves, size_t *n, char **slot, size_t skip, const char *from,
		     const char *to)
{
	char *text;
	int r = *slot ? moved_text(*slot, skip, from, to, &text) : 0;

	if (!*slot || r < 0 || !text)
		return r;
	moves[(*n)++] = (struct move){.slot = slot, .text = text};
	return 0;
}

static int plan_moves(struct spec *spec, struct move *moves, size_t *n, const char *from,
		      const char *to)
{
	int r = 0;

	for (size_t i = 0; i < spec->n_env && r == 0; i++) {
		const char *equals = strchr(spec->env[i], '=');

		if (equals)
			r = plan_move(moves, n, &spec->env[i], (size_t)(equals - spec->env[i]) + 1,
				      from, to);
	}
	for (size_t i = 0; i < spec->n_secrets && r == 0; i++) {
		struct secret_binding *b = &spec->secrets[i];

		r = plan_move(moves, n, &b->dir, 0, from, to);
		for (size_t k = 0; k < b->n_files && r == 0; k++)
			r = plan_move(moves, n, &b->files[k], 0, from, to);
	}
	for (size_t i = 0; i < spec->n_secret_files && r == 0; i++)
		r = plan_move(moves, n, &spec->secret_files[i].dir, 0, from, to);
	return r;
}

int spec_relocate_secrets(struct spec *spec, const char *from, const char *to, struct error *err)
{
	AUTO_FREE char *old = text_trim_dup(from);
	AUTO_FREE char *new = text_trim_dup(to);
	size_t max = spec->n_env + spec->n_secrets + spec->n_secret_files, n = 0;

	if (!old || !new)
		return error_oom(err);
	if (!old[0] || !new[0] || strcmp(old, new) == 0)
		return 0;
	for (size_t i = 0; i < spec->n_secrets; i++)
		max += spec->secrets[i].n_files;
	AUTO_FREE struct move *moves = calloc(max + 1, sizeof(*moves));
	if (!moves)
		return error_oom(err);
	int r = plan_moves(spec, moves, &n, old, new);
	for (size_t i = 0; i < n; i++) {
		if (r < 0) {
			free(moves[i].text);
			continue;
		}
		free(*moves[i].slot);
		*moves[i].slot = moves[i].text;
	}
	return r < 0 ? error_oom(err) : 0;
}
