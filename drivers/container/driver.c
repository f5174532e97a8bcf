#include "drivers/container/driver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/executor_config.h"
#include "core/owner.h"
#include "drivers/container/argv.h"
#include "drivers/container/check.h"
#include "drivers/container/config.h"

/* "cloop-<instance>-<serial in hex>.<attempt>" */
#define NAME_MAX_BYTES 96
#define BASE_ENV_MAX 8

struct container {
	struct driver driver; /* first: driver_ops are given this */
	struct driver_shims *shims;
	gid_t gid_admin;
	char instance[40]; /* tells the containers of daemons apart that share a runtime */
	char *base_env[BASE_ENV_MAX];
	size_t n_base_env;
};

static struct container *of(struct driver *d)
{
	return (struct container *)d;
}

static void container_name(const struct container *c, uint32_t serial, uint32_t attempt,
			   char ret[static NAME_MAX_BYTES])
{
	(void)snprintf(ret, NAME_MAX_BYTES, "cloop-%s-%08" PRIx32 ".%" PRIu32, c->instance, serial,
		       attempt);
}

static int config_check(struct driver *d, struct json_object *o, json_t **ret, struct error *err)
{
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	int r = container_config_read(o, &config, err);

	(void)d;
	if (r < 0)
		return r;
	*ret = container_config_to_json(&config);
	return *ret ? 0 : error_oom(err);
}

static void capabilities(struct driver *d, const struct executor_config *executor,
			 struct capabilities *ret)
{
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	struct error err;

	/* It was accepted before, so only memory can be missing: then nothing is claimed. */
	if (container_config_load(executor->options, &config, &err) < 0) {
		*ret = (struct capabilities){0};
		return;
	}
	*ret = container_capabilities(&config, driver_shims_abilities(of(d)->shims));
}

static int check(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	int r = container_config_load(launch->config->options, &config, err);

	return r < 0 ? r
		     : container_check(&config, launch->spec, driver_shims_abilities(of(d)->shims), err);
}

static bool is_admin(const struct container *c, const struct executor_launch *launch)
{
	bool admin = launch->uid == 0 || (c->gid_admin != 0 && launch->gid == c->gid_admin);

	for (size_t i = 0; i < launch->n_groups && !admin; i++)
		admin = c->gid_admin != 0 && launch->groups[i] == c->gid_admin;
	return admin;
}

static int launch(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	struct container *c = of(d);
	const struct driver_shims_options *options = driver_shims_options(c->shims);
	unsigned abilities = driver_shims_abilities(c->shims);
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	AUTO_CONTAINER_COMMAND struct container_command command = {0};
	char name[NAME_MAX_BYTES];

	int r = container_config_load(launch->config->options, &config, err);
	if (r >= 0)
		r = container_check(&config, launch->spec, abilities, err);
	if (r < 0)
		return r;
	container_name(c, launch->serial, launch->attempt, name);
	struct resource_limits limits = container_limits(&config, launch->spec);
	const struct container_plan plan = {
		.config = &config,
		.spec = launch->spec,
		.image = container_image(&config, launch->spec),
		.name = name,
		.executor = launch->executor,
		.handle = launch->handle,
		.base_env = c->base_env,
		.n_base_env = c->n_base_env,
		.rootless = geteuid() != 0,
		.group = abilities != 0,
		.own_memory = (abilities & SHIM_CAN_MEMORY) != 0,
	};
	r = container_command_build(&plan, &command, err);
	if (r < 0)
		return r;
	uid_t private_uid = launch->uid ? launch->uid : CONTAINER_NOBODY;
	const struct launch_container extra = {
		.flags = is_admin(c, launch) ? LAUNCH_AS_OWNER : 0,
		.edits = command.edits,
		.n_edits = command.n_edits,
		.remove = (const char *const *)command.remove,
		.n_remove = command.n_remove,
		.paths = (const char *const *)command.paths,
		.n_paths = command.n_paths,
		.n_runtime_env = command.n_runtime_env,
		.env_file = command.env_file,
		.private_uid = private_uid,
		.private_gid = launch->gid ? launch->gid : CONTAINER_NOBODY,
	};
	const struct launch_request request = {
		.serial = launch->serial,
		.attempt = launch->attempt,
		.uid = launch->uid,
		.gid = launch->gid,
		.groups = launch->groups,
		.n_groups = launch->n_groups,
		.argv = (const char *const *)command.argv,
		.n_argv = command.n_argv,
		.env = (const char *const *)command.env,
		.n_env = command.n_env,
		.work_dir = launch->spec->work_dir,
		.timeout_ms = driver_timeout_ms(launch->spec->timeout_minutes),
		.log_quota_bytes = launch->log_quota_bytes,
		.forbidden_dev = options->forbidden_dev,
		.cpu_millis = limits.cpu_millis,
		.memory_mb = limits.memory_mb,
		.pids = limits.pids,
		.container = &extra,
	};
	return driver_shims_launch(c->shims, d, &request, err);
}

static int adopt(struct driver *d, uint32_t serial, uint32_t attempt, bool *ret_found,
		 struct error *err)
{
	return driver_shims_adopt(of(d)->shims, d, serial, attempt, ret_found, err);
}

static int send_signal(struct driver *d, uint32_t serial, uint32_t attempt,
		       const struct signal_key *key, enum signal_kind signal, executor_signal_fn *done,
		       void *user, struct error *err)
{
	return driver_shims_signal(of(d)->shims, serial, attempt, key, signal, done, user, err);
}

static const struct driver_ops ops = {
	.kind = KIND_CONTAINER,
	.config_check = config_check,
	.capabilities = capabilities,
	.check = check,
	.launch = launch,
	.adopt = adopt,
	.signal = send_signal,
};

/* What a runtime needs of the daemon's environment; all else is the operator's, in runtime_env. */
static int fill_base_env(struct container *c)
{
	static const char *const kept[] = {"HOME", "PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"};
	static const char *const others[] = {"/root", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const char *value = getenv(kept[i]);

		if (!value && i < ARRAY_SIZE(others))
			value = others[i];
		/* root's runtime has no session of a desktop. */
		if (!value || (i >= ARRAY_SIZE(others) && geteuid() == 0))
			continue;
		if (asprintf(&c->base_env[c->n_base_env], "%s=%s", kept[i], value) < 0)
			return -ENOMEM;
		c->n_base_env++;
	}
	return 0;
}

int container_new(struct driver_shims *shims, gid_t gid_admin, struct container **ret,
		  struct error *err)
{
	struct container *c = calloc(1, sizeof(*c));
	struct stat st;

	if (!c)
		return error_oom(err);
	c->driver.ops = &ops;
	c->shims = shims;
	c->gid_admin = gid_admin;
	int r = fill_base_env(c);
	if (r == 0 && fstat(driver_shims_options(shims)->sessions_fd, &st) < 0)
		r = -errno;
	if (r < 0) {
		(void)container_free(c);
		return error_set(err, -r, "cannot set up the container driver: %s", strerror(-r));
	}
	(void)snprintf(c->instance, sizeof(c->instance), "%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev,
		       (uint64_t)st.st_ino);
	driver_shims_add(shims, &c->driver, NULL);
	*ret = c;
	return 0;
}

struct container *container_free(struct container *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_base_env; i++)
		free(c->base_env[i]);
	free(c);
	return NULL;
}

struct driver *container_driver(struct container *c)
{
	return &c->driver;
}
