#include "drivers/localprocess/localprocess.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/owner.h"
#include "drivers/shim/protocol.h"

/* Longer lines of /etc/passwd are no accounts. */
#define PASSWD_LINE_MAX 4096

struct capabilities localprocess_capabilities(unsigned abilities)
{
	return (struct capabilities){
		.isolation = ISOLATION_NONE,
		.supports_stream = true,
		.supports_signal = true,
		.supports_resource_limits = (abilities & SHIM_CAN_LIMIT) == SHIM_CAN_LIMIT,
		.shares_host_filesystem = true,
		.network_egress = true,
		.supports_secret_files = true,
		.secret_files_from_host_path = true,
		.platform = "linux",
		.arch = CAPABILITIES_ARCH,
	};
}

static int unsupported(struct error *err, const char *field, const char *reason, const char *remedy)
{
	int r = error_set_kind(err, EOPNOTSUPP, ERROR_UNSUPPORTED, "%s", reason);

	error_field(err, "%s", field);
	error_remedy(err, "%s", remedy);
	return r;
}

int localprocess_check(const struct spec *spec, unsigned abilities, struct error *err)
{
	static const char elsewhere[] = "use an executor whose capabilities have it, or leave it out";
	static const char no_limit[] = "the daemon has no control group in which it could enforce this";
	const struct {
		bool asked;
		const char *field, *reason;
	} cases[] = {
		{spec->image[0] != '\0', "image", "a local process has no image"},
		{spec->n_setup_commands > 0, "setup_commands", "a local process has no image to bake them into"},
		{spec->n_mounts > 0, "mounts", "a local process has no mounts of its own"},
		{spec->n_host_mounts > 0, "host_mounts", "a local process has no mounts of its own"},
		{spec->disable_network, "disable_network", "a local process shares the host's network"},
		{spec->workspace.kind == WORKSPACE_GIT, "workspace.kind", "a local process gets no fetched tree"},
		{spec->workspace.kind == WORKSPACE_NONE, "workspace.kind", "a local process gets no empty tree of its own"},
		{spec->write_back.mode != WRITEBACK_NONE, "write_back.mode",
		 "a local process leaves its changes where they are"},
		{spec->n_secret_files > 0, "secret_files", "a local process reads files where the hub wrote them"},
		{spec->limits.disk_mb > 0, "resource_limits.disk_mb", "a local process has no disk of its own to limit"},
		{spec->limits.cpu_millis > 0 && !(abilities & SHIM_CAN_CPU), "resource_limits.cpu_millis", no_limit},
		{spec->limits.memory_mb > 0 && !(abilities & SHIM_CAN_MEMORY), "resource_limits.memory_mb", no_limit},
		{spec->limits.pids > 0 && !(abilities & SHIM_CAN_PIDS), "resource_limits.pids", no_limit},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (cases[i].asked)
			return unsupported(err, cases[i].field, cases[i].reason, elsewhere);
	if (spec->work_dir[0] && spec->work_dir[0] != '/') {
		int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "is a relative path");

		error_field(err, "work_dir");
		error_remedy(err, "write an absolute path");
		return r;
	}
	return 0;
}

/* --- environment ---------------------------------------------------------------------------- */

void localprocess_environment_clear(struct localprocess_environment *env)
{
	for (size_t i = 0; env->list && i < env->n; i++)
		free(env->list[i]);
	free(env->list);
	*env = (struct localprocess_environment){0};
}

/* Takes the text; NULL is out of memory. */
static int add(struct localprocess_environment *env, char *text)
{
	char **list = text ? reallocarray(env->list, env->n + 2, sizeof(char *)) : NULL;

	if (!list) {
		free(text);
		return -ENOMEM;
	}
	env->list = list;
	list[env->n++] = text;
	list[env->n] = NULL;
	return 0;
}

static int add_pair(struct localprocess_environment *env, const char *key, const char *value)
{
	char *text = NULL;

	return add(env, asprintf(&text, "%s=%s", key, value) < 0 ? NULL : text);
}

static int add_all(struct localprocess_environment *env, char *const *list)
{
	int r = 0;

	for (; list && *list && r == 0; list++)
		r = add(env, strdup(*list));
	return r;
}

static int add_inherited(struct localprocess_environment *env)
{
	int r = 0;

	for (char **e = environ; *e && r == 0; e++)
		if (strncmp(*e, "CLOOP_", 6) != 0)
			r = add(env, strdup(*e));
	return r;
}

/* name:password:uid:gid:comment:home:shell. NSS may block, and does not know what the file lacks here. */
static int add_account(struct localprocess_environment *env, uid_t uid)
{
	AUTO_FCLOSE FILE *f = fopen("/etc/passwd", "re");
	char line[PASSWD_LINE_MAX];

	while (f && fgets(line, sizeof(line), f)) {
		char *rest = line, *fields[7];
		size_t n = 0;

		line[strcspn(line, "\n")] = '\0';
		while (n < ARRAY_SIZE(fields) && rest)
			fields[n++] = strsep(&rest, ":");
		char *end;
		if (n < 6 || !fields[2][0] || strtoul(fields[2], &end, 10) != uid || *end)
			continue;
		int r = add_pair(env, "HOME", fields[5][0] ? fields[5] : "/");
		if (r == 0)
			r = add_pair(env, "USER", fields[0]);
		return r < 0 ? r : add_pair(env, "LOGNAME", fields[0]);
	}
	return add_pair(env, "HOME", "/");
}

static int add_minimal(struct localprocess_environment *env, uid_t uid)
{
	int r = add_pair(env, "PATH", "/usr/local/bin:/usr/bin:/bin");

	if (r == 0)
		r = add_pair(env, "LANG", "C.UTF-8");
	return r < 0 ? r : add_account(env, uid);
}

int localprocess_minimal_environment(uid_t uid, struct localprocess_environment *ret,
				     struct error *err)
{
	CLEANUP(localprocess_environment_clear) struct localprocess_environment env = {0};

	if (add_minimal(&env, uid) < 0)
		return error_oom(err);
	*ret = env;
	env = (struct localprocess_environment){0};
	return 0;
}

int localprocess_environment(const struct spec *spec, uid_t uid, struct localprocess_environment *ret,
			     struct error *err)
{
	CLEANUP(localprocess_environment_clear) struct localprocess_environment env = {0};
	int r;

	env.list = calloc(1, sizeof(char *));
	if (!env.list)
		return error_oom(err);
	if (spec->env_set)
		r = add_all(&env, spec->env);
	else if (uid == geteuid())
		r = add_inherited(&env);
	else
		r = add_minimal(&env, uid);
	if (r < 0)
		return error_oom(err);
	*ret = env;
	env = (struct localprocess_environment){0};
	return 0;
}
