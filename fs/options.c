#include "fs/options.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"

#define USAGE_REMEDY "see cloopd --help"

/* Which commands know an option. */
#define FOR(command) (1u << (command))
#define FOR_HUB (FOR(COMMAND_HUB) | FOR(COMMAND_HUB_CHECK_INIT))

enum option_type { OPTION_TEXT, OPTION_NUMBER, OPTION_TRUE, OPTION_FALSE };

struct option_row {
	const char *name;
	enum option_type type;
	unsigned commands;
	size_t offset;
};

static const struct option_row rows[] = {
	{"state-dir", OPTION_TEXT, FOR(COMMAND_SERVE) | FOR(COMMAND_STOP) | FOR_HUB,
	 offsetof(struct options, state_dir)},
	{"runtime-dir", OPTION_TEXT, FOR(COMMAND_SERVE) | FOR_HUB,
	 offsetof(struct options, runtime_dir)},
	{"config-dir", OPTION_TEXT, FOR(COMMAND_SERVE) | FOR_HUB,
	 offsetof(struct options, config_dir)},
	{"mountpoint", OPTION_TEXT, FOR(COMMAND_NUDGER) | FOR_HUB,
	 offsetof(struct options, mountpoint)},
	{"foreground", OPTION_TRUE, FOR(COMMAND_SERVE), offsetof(struct options, foreground)},
	{"no-allow-other", OPTION_FALSE, FOR(COMMAND_SERVE), offsetof(struct options, allow_other)},
	{"allow-other", OPTION_TRUE, FOR_HUB, offsetof(struct options, allow_other)},
	{"fuse-fd", OPTION_NUMBER, FOR_HUB, offsetof(struct options, fuse_fd)},
	{"area-fd", OPTION_NUMBER, FOR_HUB, offsetof(struct options, area_fd)},
	{"keeper-fd", OPTION_NUMBER, FOR_HUB, offsetof(struct options, keeper_fd)},
	{"nudger-fd", OPTION_NUMBER, FOR_HUB, offsetof(struct options, nudger_fd)},
	{"nudger-pid", OPTION_NUMBER, FOR_HUB, offsetof(struct options, nudger_pid)},
	{"socket-fd", OPTION_NUMBER, FOR(COMMAND_NUDGER), offsetof(struct options, socket_fd)},
};
_Static_assert(sizeof(pid_t) == sizeof(int), "every number of the table is an int");

static const struct {
	const char *name;
	enum options_command command;
} commands[] = {
	{"serve", COMMAND_SERVE},       {"stop", COMMAND_STOP},
	{"--version", COMMAND_VERSION}, {"--help", COMMAND_HELP},
	{"hub", COMMAND_HUB},           {"hub-check-init", COMMAND_HUB_CHECK_INIT},
	{"nudger", COMMAND_NUDGER},
};

static int usage(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int usage(struct error *err, const char *fmt, ...)
{
	char reason[ERROR_REASON_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	(void)error_set(err, EINVAL, "%s", reason);
	error_remedy(err, USAGE_REMEDY);
	return -EINVAL;
}

const char *options_help(void)
{
	return "Usage: cloopd serve [OPTION...] [MOUNTPOINT]\n"
	       "       cloopd stop [--state-dir DIR]\n"
	       "       cloopd --version | --help\n"
	       "\n"
	       "serve mounts the tree and returns when it can be used.\n"
	       "\n"
	       "  --state-dir DIR    what must not be lost   (/var/lib/cloop)\n"
	       "  --runtime-dir DIR  sockets                 (/run/cloop)\n"
	       "  --config-dir DIR   hub.json, executors.d   (/etc/cloop)\n"
	       "  --foreground       stay in the foreground, log to stderr\n"
	       "  --no-allow-other   let nobody else enter the tree\n"
	       "  MOUNTPOINT         absolute path           (/cloop)\n"
	       "\n"
	       "Run by an ordinary user, the defaults are below XDG_STATE_HOME, XDG_RUNTIME_DIR\n"
	       "and XDG_CONFIG_HOME; the tree is $XDG_RUNTIME_DIR/cloop. See cloopd(8).\n";
}

void options_clear(struct options *o)
{
	free(o->state_dir);
	free(o->runtime_dir);
	free(o->config_dir);
	free(o->mountpoint);
	*o = (struct options){0};
}

static const struct option_row *row_find(const char *name, size_t len, enum options_command command)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0 &&
		    (rows[i].commands & FOR(command)))
			return &rows[i];
	return NULL;
}

static int row_set(const struct option_row *row, const char *value, struct options *o,
		   struct error *err)
{
	char *field = (char *)o + row->offset;

	switch (row->type) {
	case OPTION_TEXT: {
		if (value[0] == '\0')
			return usage(err, "option --%s needs a path, not an empty text", row->name);
		char *copy = strdup(value);
		if (!copy)
			return error_oom(err);
		free(*(char **)(void *)field);
		*(char **)(void *)field = copy;
		return 0;
	}
	case OPTION_NUMBER: {
		char *end;
		errno = 0;
		long n = strtol(value, &end, 10);
		if (errno != 0 || end == value || *end || n < 0 || n > INT_MAX)
			return usage(err, "option --%s needs a number", row->name);
		*(int *)(void *)field = (int)n;
		return 0;
	}
	default:
		*(bool *)field = row->type == OPTION_TRUE;
		return 0;
	}
}

/* `base`/`name` in a new string. */
static int set_path(char **field, const char *base, const char *name, struct error *err)
{
	char *path;

	if (asprintf(&path, "%s/%s", base, name) < 0)
		return error_oom(err);
	*field = path;
	return 0;
}

/* A variable of the XDG specification; relative values are invalid and ignored. */
static const char *xdg(const struct options_environment *env, const char *name)
{
	const char *value = env->get(name);

	return value && value[0] == '/' ? value : NULL;
}

/* $VARIABLE/name, else ~/below_home/name. */
static int default_in_home(const struct options_environment *env, char **field,
			   const char *variable, const char *below_home, const char *option,
			   struct error *err)
{
	const char *base = xdg(env, variable), *home = xdg(env, "HOME");
	AUTO_FREE char *below = NULL;

	if (*field)
		return 0;
	if (!base && !home) {
		(void)error_set(err, ENOENT, "neither %s nor HOME is set", variable);
		error_remedy(err, "give %s", option);
		return -ENOENT;
	}
	if (!base) {
		int r = set_path(&below, home, below_home, err);
		if (r < 0)
			return r;
		base = below;
	}
	return set_path(field, base, "cloop", err);
}

static int default_in_runtime(const struct options_environment *env, char **field, const char *name,
			      struct error *err)
{
	const char *base = xdg(env, "XDG_RUNTIME_DIR");
	char run_user[sizeof("/run/user/") + 10];

	if (*field)
		return 0;
	if (!base) {
		(void)snprintf(run_user, sizeof(run_user), "/run/user/%u", env->uid);
		base = run_user;
	}
	return set_path(field, base, name, err);
}

static int defaults_of_user(const struct options_environment *env, struct options *o,
			    struct error *err)
{
	int r = default_in_home(env, &o->state_dir, "XDG_STATE_HOME", ".local/state", "--state-dir",
				err);

	if (r < 0 || o->command == COMMAND_STOP)
		return r;
	r = default_in_home(env, &o->config_dir, "XDG_CONFIG_HOME", ".config", "--config-dir", err);
	if (r == 0)
		r = default_in_runtime(env, &o->runtime_dir, "cloopd", err);
	if (r == 0)
		r = default_in_runtime(env, &o->mountpoint, "cloop", err);
	o->allow_other = false;
	return r;
}

static int defaults_of_root(struct options *o, struct error *err)
{
	static const struct {
		size_t offset;
		const char *dir, *name;
	} paths[] = {
		{offsetof(struct options, state_dir), "/var/lib", "cloop"},
		{offsetof(struct options, runtime_dir), "/run", "cloop"},
		{offsetof(struct options, config_dir), "/etc", "cloop"},
		{offsetof(struct options, mountpoint), "", "cloop"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char **field = (char **)(void *)((char *)o + paths[i].offset);
		int r = *field ? 0 : set_path(field, paths[i].dir, paths[i].name, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_option(int argc, char *const *argv, int *at, struct options *o, struct error *err)
{
	const char *name = argv[*at] + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct option_row *row = row_find(name, len, o->command);
	const char *value = equals ? equals + 1 : NULL;

	if (!row)
		return usage(err, "unknown option %s", argv[*at]);
	bool wants_value = row->type == OPTION_TEXT || row->type == OPTION_NUMBER;
	if (!wants_value && value)
		return usage(err, "option --%s takes no value", row->name);
	if (wants_value && !value) {
		if (*at + 1 >= argc)
			return usage(err, "option --%s needs a value", row->name);
		value = argv[++*at];
	}
	return row_set(row, value, o, err);
}

static int parse_arguments(int argc, char *const *argv, struct options *o, struct error *err)
{
	bool only_operands = false;

	for (int i = 2; i < argc; i++) {
		int r = 0;

		if (!only_operands && strcmp(argv[i], "--") == 0) {
			only_operands = true;
		} else if (!only_operands && strncmp(argv[i], "--", 2) == 0) {
			r = parse_option(argc, argv, &i, o, err);
		} else if (!only_operands && argv[i][0] == '-') {
			r = usage(err, "unknown option %s", argv[i]);
		} else if (o->command != COMMAND_SERVE || o->mountpoint) {
			r = usage(err, "unexpected argument %s", argv[i]);
		} else if (argv[i][0] == '\0') {
			r = usage(err, "the mountpoint is an empty text");
		} else {
			o->mountpoint = strdup(argv[i]);
			r = o->mountpoint ? 0 : error_oom(err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* The internal commands have no defaults: who starts them gives everything. */
static int check_internal(const struct options *o, struct error *err)
{
	bool complete = o->mountpoint != NULL;

	if (o->command == COMMAND_NUDGER)
		complete = complete && o->socket_fd >= 0;
	else
		complete = complete && o->state_dir && o->runtime_dir && o->config_dir &&
			   o->area_fd >= 0;
	if (o->command == COMMAND_HUB)
		complete = complete && o->fuse_fd >= 0 && o->keeper_fd >= 0;
	return complete ? 0
			: usage(err, "this command is started by the keeper, with all it needs");
}

int options_parse(int argc, char *const *argv, const struct options_environment *env,
		  struct options *ret, struct error *err)
{
	CLEANUP(options_clear)
	struct options o = {
		.fuse_fd = -1, .area_fd = -1, .keeper_fd = -1, .nudger_fd = -1, .socket_fd = -1};
	size_t c = 0;

	if (argc < 2)
		return usage(err, "no command given");
	while (c < ARRAY_SIZE(commands) && strcmp(argv[1], commands[c].name) != 0)
		c++;
	if (c == ARRAY_SIZE(commands))
		return usage(err, "unknown command %s", argv[1]);
	o.command = commands[c].command;
	o.allow_other = o.command == COMMAND_SERVE;

	int r = parse_arguments(argc, argv, &o, err);
	if (r < 0)
		return r;
	switch (o.command) {
	case COMMAND_SERVE:
	case COMMAND_STOP:
		o.mountpoint_is_default = !o.mountpoint;
		r = env->uid == 0 ? defaults_of_root(&o, err) : defaults_of_user(env, &o, err);
		break;
	case COMMAND_VERSION:
	case COMMAND_HELP:
		break;
	default:
		r = check_internal(&o, err);
	}
	if (r < 0)
		return r;
	*ret = o;
	o = (struct options){0};
	return 0;
}
