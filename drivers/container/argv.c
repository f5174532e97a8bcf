#include "drivers/container/argv.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/buf.h"
#include "core/strlist.h"
#include "drivers/shim/session_dir.h"

/* podman reads a file of variables line by line and takes no longer ones. */
#define ENV_LINE_MAX 60000
/* --cpus of a runtime; smaller shares have no quota that a kernel takes. */
#define CPU_MILLIS_MIN 10

struct list {
	char **items;
	size_t n, room;
	bool failed;
};

static void add_take(struct list *l, char *text)
{
	if (text && l->n + 1 >= l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		char **items = reallocarray(l->items, room, sizeof(char *));

		if (items) {
			l->items = items;
			l->room = room;
		}
	}
	if (!text || l->n + 1 >= l->room) {
		l->failed = true;
		free(text);
		return;
	}
	l->items[l->n++] = text;
	l->items[l->n] = NULL;
}

__attribute__((format(printf, 2, 3))) static void add(struct list *l, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	add_take(l, text);
}

static void add_all(struct list *l, char *const *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_take(l, strdup(items[i]));
}

static void list_free(struct list *l)
{
	(void)strlist_free(l->items, l->n);
	*l = (struct list){0};
}

struct builder {
	const struct container_plan *plan;
	struct list argv, env, remove, paths;
	struct buf env_file;
	struct container_command *command; /* edits */
};

void container_command_clear(struct container_command *c)
{
	(void)strlist_free(c->argv, c->n_argv);
	(void)strlist_free(c->env, c->n_env);
	(void)strlist_free(c->remove, c->n_remove);
	(void)strlist_free(c->paths, c->n_paths);
	free(c->env_file);
	*c = (struct container_command){0};
}

int container_command_set_image(struct container_command *c, const char *image, struct error *err)
{
	char *copy = strdup(image);

	if (!copy)
		return error_oom(err);
	free(c->argv[c->image_arg]);
	c->argv[c->image_arg] = copy;
	return 0;
}

/* The next argument is completed by the shim. */
static void edit_next(struct builder *b, enum launch_edit_kind kind)
{
	struct container_command *c = b->command;

	/* One a mount, and these are bounded with room to spare. */
	c->edits[c->n_edits++] = (struct launch_edit){.arg = (uint32_t)b->argv.n, .kind = kind};
}

/* --- variables ------------------------------------------------------------------------------ */

bool container_variable_is_runtimes(const char *name)
{
	static const char *const names[] = {
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TERM", "TZ", "TZDIR", "PWD",
		"HOSTNAME", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "INVOCATION_ID",
		"http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy", "HTTP_PROXY",
		"HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY", "RES_OPTIONS", "LOCALDOMAIN",
		"HOSTALIASES", "MALLOC_TRACE", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS",
		"PS4", "CDPATH", "GLOBIGNORE", "KRB5_CONFIG", "NLSPATH", "LANG", "LANGUAGE", "LOCPATH",
		"EDITOR", "GCONV_PATH", "GETCONF_DIR",
	};
	static const char *const prefixes[] = {
		"LD_",      "GLIBC_",   "LC_",       "MALLOC_",    "XDG_",    "DBUS_",    "LISTEN_",
		"CONTAINER", "PODMAN",  "DOCKER",    "BUILDAH",    "STORAGE_", "REGISTRY", "SSL_",
		"GO",       "_CONTAINERS", "_CONMON", "_OCI", "_LIBCONTAINER", "_LIBPOD", "RUNC_", "CRUN_",
		"LIBPOD",   "CNI_",     "NETAVARK",  "AARDVARK",   "SLIRP",    "PASTA",    "CONMON",
		"KATA",     "RUNSC",    "GVISOR",    "SSH_",       "GPG",      "SYSTEMD_", "JOURNAL_",
		"OCI_",     "OTEL_",    "CLOOP_",    "TEST_",      "FUSE_",    "DISABLE_HC_", "SUPPRESS_",
		"BASH_FUNC_", "IMAGE_", "SKOPEO",    "FAKEROOT",   "PYTHON",   "PERL",     "COMPOSE_",
		"BUILDKIT",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(prefixes[i], name, strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static bool in_runtime_env(const struct builder *b, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < b->command->n_runtime_env; i++)
		if (strncmp(b->env.items[i], name, len) == 0 && b->env.items[i][len] == '=')
			return true;
	return false;
}

static int refuse_variable(struct error *err, size_t i, const char *reason)
{
	int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "%s", reason);

	error_field(err, "env[%zu]", i);
	error_remedy(err, "choose another name, or a value of one line");
	return r;
}

/* A line of the file: the name has no blank, is no comment, and neither has a line's end. */
static int add_env_line(struct builder *b, size_t i, const char *name, const char *entry,
			struct error *err)
{
	for (const char *p = name; *p; p++)
		if (*p == '#' || isspace((unsigned char)*p) || iscntrl((unsigned char)*p))
			return refuse_variable(err, i, "has a name that a container runtime cannot take");
	if (strpbrk(entry, "\r\n") || strlen(entry) > ENV_LINE_MAX)
		return refuse_variable(err, i,
				       "has a name that means something to the container runtime, and a "
				       "value that is too long or has more than one line");
	buf_printf(&b->env_file, "%s\n", entry);
	return 0;
}

static int add_variables(struct builder *b, struct error *err)
{
	const struct spec *spec = b->plan->spec;

	for (size_t i = 0; i < spec->n_env; i++) {
		const char *entry = spec->env[i], *equals = strchr(entry, '=');
		AUTO_FREE char *name = strndup(entry, (size_t)(equals - entry));
		int r = 0;

		if (!name)
			return error_oom(err);
		if (container_is_variable(name) && !container_variable_is_runtimes(name) &&
		    !in_runtime_env(b, name)) {
			add(&b->argv, "--env");
			add(&b->argv, "%s", name);
			add_take(&b->env, strdup(entry));
		} else {
			r = add_env_line(b, i, name, entry, err);
		}
		if (r < 0)
			return r;
	}
	if (b->env_file.len > 0) {
		add(&b->argv, "--env-file");
		edit_next(b, LAUNCH_EDIT_ENV_FILE);
		add(&b->argv, "env");
	}
	return 0;
}

static void build_runtime_env(struct list *l, const struct container_config *config,
			      char *const *base, size_t n_base)
{
	for (size_t i = 0; i < n_base; i++) {
		size_t len = strcspn(base[i], "=") + 1;
		bool replaced = false;

		for (size_t j = 0; j < config->n_runtime_env && !replaced; j++)
			replaced = strncmp(base[i], config->runtime_env[j], len) == 0;
		if (!replaced)
			add_take(l, strdup(base[i]));
	}
	add_all(l, config->runtime_env, config->n_runtime_env);
}

int container_runtime_env(const struct container_config *config, char *const *base, size_t n_base,
			  struct container_command *ret, struct error *err)
{
	struct list l = {0};

	build_runtime_env(&l, config, base, n_base);
	if (l.failed) {
		list_free(&l);
		return error_oom(err);
	}
	ret->env = l.items;
	ret->n_env = ret->n_runtime_env = l.n;
	return 0;
}

/* --- mounts --------------------------------------------------------------------------------- */

/* What is mounted there itself, not what others mounted below it: the tree, for one. */
static const char *bind_options(const struct builder *b, bool read_only)
{
	if (b->plan->config->runtime == CONTAINER_DOCKER)
		return read_only ? "ro" : "rw";
	return read_only ? "ro,bind,nosuid,nodev" : "rw,bind,nosuid,nodev";
}

static void add_mount(struct builder *b, enum launch_edit_kind kind, const char *source,
		      const char *target, bool read_only, const char *label)
{
	add(&b->argv, "--volume");
	edit_next(b, kind);
	add(&b->argv, ":%s:%s%s%s", target, bind_options(b, read_only), label[0] ? "," : "", label);
	if (source)
		add_take(&b->paths, strdup(source));
}

static void add_mounts(struct builder *b)
{
	const struct container_plan *p = b->plan;
	const struct spec *spec = p->spec;
	const char *label = p->config->selinux_label;

	add_mount(b, LAUNCH_EDIT_WORK, NULL, CONTAINER_WORK_DIR, false, label);
	for (size_t i = 0; i < spec->n_mounts; i++)
		add_mount(b, LAUNCH_EDIT_BELOW, spec->mounts[i].source, spec->mounts[i].target,
			  spec->mounts[i].read_only, label);
	/* Labels are for what belongs to the sandbox alone. */
	for (size_t i = 0; i < spec->n_host_mounts; i++)
		add_mount(b, LAUNCH_EDIT_HOST, spec->host_mounts[i].source, spec->host_mounts[i].target,
			  spec->host_mounts[i].read_only, "");
	if (p->secrets_source)
		add_mount(b, LAUNCH_EDIT_HOST, p->secrets_source, p->secrets_target, true, "");
}

/* --- the command ---------------------------------------------------------------------------- */

struct resource_limits container_limits(const struct container_config *config, const struct spec *spec)
{
	struct resource_limits limits = spec->limits;

	if (limits.cpu_millis == 0)
		limits.cpu_millis = config->cpu_millis;
	if (limits.memory_mb == 0)
		limits.memory_mb = config->memory_mb;
	if (limits.pids == 0 && config->pids_limit > 0)
		limits.pids = config->pids_limit;
	return limits;
}

static void add_limits(struct builder *b)
{
	const struct container_plan *p = b->plan;
	struct resource_limits limits = container_limits(p->config, p->spec);

	if (limits.memory_mb > 0 && !p->own_memory) {
		add(&b->argv, "--memory=%lldm", (long long)limits.memory_mb);
		add(&b->argv, "--memory-swap=%lldm", (long long)limits.memory_mb);
	}
	if (limits.cpu_millis >= CPU_MILLIS_MIN)
		add(&b->argv, "--cpus=%lld.%03lld", (long long)limits.cpu_millis / 1000,
		    (long long)limits.cpu_millis % 1000);
	add(&b->argv, "--pids-limit=%lld", (long long)(limits.pids > 0 ? limits.pids : -1));
}

static void add_file_option(struct builder *b, const char *option, const char *name)
{
	add(&b->argv, "%s", option);
	edit_next(b, LAUNCH_EDIT_FILE);
	add(&b->argv, "%s", name);
}

/* How the shim comes to be the supervisor. */
static void add_supervision(struct builder *b)
{
	const struct container_plan *p = b->plan;

	add_file_option(b, "--cidfile", SHIM_CONTAINER_ID);
	if (p->group) {
		add(&b->argv, "--cgroup-parent");
		edit_next(b, LAUNCH_EDIT_GROUP);
		add(&b->argv, "group");
	}
	if (p->config->runtime == CONTAINER_DOCKER) {
		add(&b->argv, "--log-driver=none");
		add(&b->argv, "--attach=stdout");
		add(&b->argv, "--attach=stderr");
		return;
	}
	add(&b->argv, "--detach");
	add(&b->argv, "--log-driver=passthrough");
	add_file_option(b, "--conmon-pidfile", SHIM_CONTAINER_MONITOR_PID);
	add_file_option(b, "--pidfile", SHIM_CONTAINER_INIT_PID);
	if (p->group)
		add(&b->argv, "--cgroups=no-conmon");
	/* Else the client's own proxies would be the sandbox's. */
	add(&b->argv, "--http-proxy=false");
	add(&b->argv, "--read-only-tmpfs=false");
	add(&b->argv, "--image-volume=ignore");
}

static void add_sandbox(struct builder *b)
{
	const struct container_plan *p = b->plan;
	const char *network = p->spec->disable_network ? "none" : p->config->network;

	add(&b->argv, "--pull=never");
	add(&b->argv, "--rm");
	add(&b->argv, "--name=%s", p->name);
	add(&b->argv, "--label=%s=true", CONTAINER_LABEL_MANAGED);
	add(&b->argv, "--label=%s=%s", CONTAINER_LABEL_EXECUTOR, p->executor);
	add(&b->argv, "--label=%s=%s", CONTAINER_LABEL_HANDLE, p->handle);
	add(&b->argv, "--cap-drop=all");
	add(&b->argv, "--security-opt=no-new-privileges");
	add(&b->argv, "--read-only");
	add(&b->argv, "--tmpfs=/tmp:rw,nosuid,nodev,exec,%s", CONTAINER_TMP);
	add(&b->argv, "--network=%s", network);
	if (p->rootless && p->config->runtime == CONTAINER_PODMAN)
		add(&b->argv, "--userns=keep-id");
	add(&b->argv, "--user");
	edit_next(b, LAUNCH_EDIT_USER);
	add(&b->argv, "user");
	add(&b->argv, "--workdir=%s", CONTAINER_WORK_DIR);
}

static void add_program(struct builder *b)
{
	const struct container_config *c = b->plan->config;

	add(&b->argv, "%s", container_runtime_name(c->runtime));
	if (c->runtime == CONTAINER_PODMAN)
		add(&b->argv, "--log-level=error");
	if (c->runtime == CONTAINER_PODMAN && c->oci_runtime[0])
		add(&b->argv, "--runtime=%s", c->oci_runtime);
	add(&b->argv, "run");
	if (c->runtime == CONTAINER_DOCKER && c->oci_runtime[0])
		add(&b->argv, "--runtime=%s", c->oci_runtime);
}

static void build_remove(struct list *l, const struct container_config *config, const char *name)
{
	add(l, "%s", container_runtime_name(config->runtime));
	add(l, "rm");
	add(l, "--force");
	if (config->runtime == CONTAINER_PODMAN) {
		add(l, "--ignore");
		add(l, "--time=0");
	} else {
		add(l, "--volumes");
	}
	add(l, "%s", name);
}

int container_remove_build(const struct container_config *config, const char *name,
			   struct container_command *ret, struct error *err)
{
	struct list l = {0};

	build_remove(&l, config, name);
	if (l.failed) {
		list_free(&l);
		return error_oom(err);
	}
	ret->remove = l.items;
	ret->n_remove = l.n;
	return 0;
}

static void builder_free(struct builder *b)
{
	list_free(&b->argv);
	list_free(&b->env);
	list_free(&b->remove);
	list_free(&b->paths);
	buf_free(&b->env_file);
}

int container_command_build(const struct container_plan *plan, struct container_command *ret,
			    struct error *err)
{
	struct container_command command = {0};
	CLEANUP(builder_free) struct builder b = {
		.plan = plan, .env_file = BUF_INIT(LAUNCH_RECORD_MAX), .command = &command};

	build_runtime_env(&b.env, plan->config, plan->base_env, plan->n_base_env);
	command.n_runtime_env = b.env.n;
	if (b.env.failed)
		return error_oom(err);
	add_program(&b);
	add_sandbox(&b);
	add_limits(&b);
	add_supervision(&b);
	add_mounts(&b);
	int r = add_variables(&b, err);
	if (r < 0)
		return r;
	add_all(&b.argv, plan->config->extra_args, plan->config->n_extra_args);
	command.image_arg = b.argv.n;
	add(&b.argv, "%s", "");
	add_all(&b.argv, plan->spec->argv, plan->spec->n_argv);
	build_remove(&b.remove, plan->config, plan->name);
	command.env_file = b.env_file.len > 0 ? buf_take(&b.env_file) : strdup("");
	if (b.argv.failed || b.env.failed || b.remove.failed || b.paths.failed ||
	    b.env_file.failed || !command.env_file) {
		free(command.env_file);
		return error_oom(err);
	}
	command.argv = b.argv.items;
	command.n_argv = b.argv.n;
	command.env = b.env.items;
	command.n_env = b.env.n;
	command.remove = b.remove.items;
	command.n_remove = b.remove.n;
	command.paths = b.paths.items;
	command.n_paths = b.paths.n;
	b.argv = b.env = b.remove = b.paths = (struct list){0};
	*ret = command;
	return 0;
}
