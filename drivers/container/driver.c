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
#include "core/strlist.h"
#include "drivers/container/argv.h"
#include "drivers/container/check.h"
#include "drivers/container/config.h"
#include "drivers/container/internal.h"

/* A container whose shim was killed: a runtime that is busy gets some time. */
#define REMOVE_TRIES 10
#define REMOVE_PAUSE_MS 200
#define REMOVE_TIMEOUT_MS 60000
#define REMOVE_OUTPUT_MAX 4096

static struct tracked_list *bucket(struct container *c, uint32_t serial)
{
	return &c->tracked[serial % CONTAINER_BUCKETS];
}

static struct container *of(struct driver *d)
{
	return (struct container *)d;
}

void container_name(const struct container *c, uint32_t serial, uint32_t attempt,
		    char ret[static CONTAINER_ID_MAX])
{
	(void)snprintf(ret, CONTAINER_ID_MAX, "cloop-%s-%08" PRIx32 ".%" PRIu32, c->instance, serial,
		       attempt);
}

bool container_name_parse(const struct container *c, const char *name, uint32_t *ret_serial,
			  uint32_t *ret_attempt)
{
	char again[CONTAINER_ID_MAX];
	uint32_t serial, attempt;
	size_t len = strlen(c->instance);

	if (strncmp(name, "cloop-", 6) != 0 || strncmp(name + 6, c->instance, len) != 0 ||
	    sscanf(name + 6 + len, "-%8" SCNx32 ".%" SCNu32, &serial, &attempt) != 2)
		return false;
	container_name(c, serial, attempt, again);
	if (strcmp(name, again) != 0)
		return false;
	*ret_serial = serial;
	*ret_attempt = attempt;
	return true;
}

static int config_check(struct driver *d, struct json_object *o, json_t **ret, struct error *err)
{
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	int r = container_config_read(o, &config, err);

	(void)d;
	/* Its client stays, and its containers are another process's children: no shim supervises them. */
	if (r >= 0 && config.runtime == CONTAINER_DOCKER) {
		r = error_set_kind(err, EOPNOTSUPP, ERROR_UNSUPPORTED, "containers of docker cannot be supervised");
		error_field(err, "runtime");
		error_remedy(err, "write podman");
	}
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

	if (r >= 0)
		r = driver_shims_check(of(d)->shims, err);
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

/* --- sessions ------------------------------------------------------------------------------- */

/* A session of ours, from its launch or adoption to its end. */
struct tracked {
	LIST_ENTRY(tracked) link;
	struct container *container;
	uint32_t serial, attempt;
	struct container_command command; /* of a launch; remove and env in any case */
	char *image;                      /* what it runs; "" until that is known */
	/* While the image is being found out. */
	enum {
		STAGE_BASE,  /* which image the reference means */
		STAGE_SETUP, /* whether its setup commands are baked in already */
		STAGE_BUILT, /* which image came out of that */
	} stage;
	struct container_config config;
	char **setup; /* commands */
	size_t n_setup;
	bool no_network;
	char *base, *tag;
	char *preamble; /* what the build said */
	bool resolving;
	bool forgotten; /* asked for again meanwhile: the answer is for nobody */
	struct launch_request request;
	struct launch_container extra;
	char *work_dir;
	uint32_t *groups;
	/* While the container of a killed shim is being removed. */
	struct error lost;
	unsigned remove_tries;
	uint64_t run;
	uv_timer_t *timer;
};

static struct tracked *find(struct container *c, uint32_t serial)
{
	struct tracked *t;

	LIST_FOREACH (t, bucket(c, serial), link)
		if (t->serial == serial && !t->forgotten)
			return t;
	return NULL;
}

bool container_tracks(struct container *c, uint32_t serial, uint32_t attempt)
{
	struct tracked *t = find(c, serial);

	return t && t->attempt == attempt;
}

static void free_timer(uv_handle_t *timer)
{
	free(timer);
}

static struct tracked *tracked_free(struct tracked *t)
{
	if (!t)
		return NULL;
	LIST_REMOVE(t, link);
	shim_client_run_cancel(driver_shims_client(t->container->shims), t->run);
	if (t->timer)
		uv_close((uv_handle_t *)t->timer, free_timer);
	container_command_clear(&t->command);
	container_config_clear(&t->config);
	(void)strlist_free(t->setup, t->n_setup);
	free(t->base);
	free(t->tag);
	free(t->preamble);
	free(t->image);
	free(t->work_dir);
	free(t->groups);
	free(t);
	return NULL;
}

static struct tracked *tracked_new(struct container *c, uint32_t serial, uint32_t attempt)
{
	struct tracked *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->container = c;
	t->serial = serial;
	t->attempt = attempt;
	LIST_INSERT_HEAD(bucket(c, serial), t, link);
	t->image = strdup("");
	return t->image ? t : tracked_free(t);
}

/* Nobody waits for the launch any more: its driver was asked again, or the daemon ends. */
static void forget(struct tracked *t)
{
	if (t->resolving)
		t->forgotten = true;
	else
		(void)tracked_free(t);
}

/* --- launching ------------------------------------------------------------------------------ */

/* Everything but the image, which is found out meanwhile. */
static int fill(struct tracked *t, const struct executor_launch *launch,
		const struct container_config *config, struct error *err)
{
	struct container *c = t->container;
	const struct spec *spec = launch->spec;
	unsigned abilities = driver_shims_abilities(c->shims);
	struct resource_limits limits = container_limits(config, spec);
	char name[CONTAINER_ID_MAX];

	container_name(c, launch->serial, launch->attempt, name);
	/* Without control groups nothing here enforces even the limit that nobody asked for. */
	if (!(abilities & SHIM_CAN_PIDS) && spec->limits.pids == 0)
		limits.pids = 0;
	const struct container_plan plan = {
		.config = config,
		.spec = spec,
		.name = name,
		.executor = launch->executor,
		.handle = launch->handle,
		.base_env = c->base_env,
		.n_base_env = c->n_base_env,
		.rootless = geteuid() != 0,
		.group = (abilities & (SHIM_CAN_KILL | SHIM_CAN_PIDS)) != 0,
		.own_memory = (abilities & SHIM_CAN_MEMORY) != 0,
	};
	int r = container_command_build(&plan, &t->command, err);
	if (r < 0)
		return r;
	t->work_dir = strdup(spec->work_dir);
	t->groups = calloc(launch->n_groups + 1, sizeof(*t->groups));
	if (!t->work_dir || !t->groups)
		return error_oom(err);
	for (size_t i = 0; i < launch->n_groups; i++)
		t->groups[i] = launch->groups[i];
	t->extra = (struct launch_container){
		.flags = is_admin(c, launch) ? LAUNCH_AS_OWNER : 0,
		.edits = t->command.edits,
		.n_edits = t->command.n_edits,
		.remove = (const char *const *)t->command.remove,
		.n_remove = t->command.n_remove,
		.paths = (const char *const *)t->command.paths,
		.n_paths = t->command.n_paths,
		.n_runtime_env = t->command.n_runtime_env,
		.env_file = t->command.env_file,
		.private_uid = launch->uid ? launch->uid : CONTAINER_NOBODY,
		.private_gid = launch->gid ? launch->gid : CONTAINER_NOBODY,
	};
	t->request = (struct launch_request){
		.serial = launch->serial,
		.attempt = launch->attempt,
		.uid = launch->uid,
		.gid = launch->gid,
		.groups = t->groups,
		.n_groups = launch->n_groups,
		.argv = (const char *const *)t->command.argv,
		.n_argv = t->command.n_argv,
		.env = (const char *const *)t->command.env,
		.n_env = t->command.n_env,
		.work_dir = t->work_dir,
		.timeout_ms = driver_timeout_ms(spec->timeout_minutes),
		.log_quota_bytes = launch->log_quota_bytes,
		.forbidden_dev = driver_shims_options(c->shims)->forbidden_dev,
		.cpu_millis = limits.cpu_millis,
		.memory_mb = limits.memory_mb,
		.pids = limits.pids,
		.container = &t->extra,
	};
	return 0;
}

/* What was only for the launch, values of variables among it. */
static void drop_launch(struct tracked *t)
{
	struct container_command *c = &t->command;

	for (size_t i = c->n_runtime_env; i < c->n_env; i++)
		free(take_ptr(c->env[i]));
	c->n_env = c->n_runtime_env;
	(void)strlist_free(take_ptr(c->argv), c->n_argv);
	c->n_argv = 0;
	free(take_ptr(c->env_file));
	free(take_ptr(t->work_dir));
	free(take_ptr(t->groups));
}

static void fail_launch(struct tracked *t, const struct error *err)
{
	struct container *c = t->container;
	uint32_t serial = t->serial;
	struct error copy = *err;

	(void)tracked_free(t);
	driver_shims_say_failed(c->shims, serial, &copy);
}

/* Everything is known: the shim begins. */
static void hand_over(struct tracked *t, const char *image)
{
	struct container *c = t->container;
	struct error err;

	free(t->image);
	t->image = strdup(image);
	t->extra.preamble = t->preamble ? t->preamble : "";
	int r = t->image ? container_command_set_image(&t->command, image, &err) : error_oom(&err);
	if (r == 0)
		r = driver_shims_launch(c->shims, &c->driver, &t->request, &err);
	if (r == -EAGAIN && !c->driver.ready)
		(void)tracked_free(t);
	else if (r < 0)
		fail_launch(t, &err);
	else
		drop_launch(t);
}

static void on_image(void *user, const char *image, const struct error *failed);

static int resolve(struct tracked *t, const char *reference, struct error *err)
{
	const struct container_command *command = &t->command;
	AUTO_FREE char **env = calloc(command->n_runtime_env + 1, sizeof(char *));

	if (!env)
		return error_oom(err);
	memcpy(env, command->env, command->n_runtime_env * sizeof(char *));
	t->resolving = true;
	int r = container_images_resolve(t->container->images, &t->config, env, reference, on_image, t, err);
	if (r < 0)
		t->resolving = false;
	return r;
}

static void on_built(void *user, const char *text, const struct error *failed)
{
	struct tracked *t = user;
	struct error err;

	t->resolving = false;
	if (t->forgotten || (failed && !t->container->driver.ready)) {
		(void)tracked_free(t);
		return;
	}
	if (failed) {
		fail_launch(t, failed);
		return;
	}
	free(t->preamble);
	t->preamble = strdup(text);
	t->stage = STAGE_BUILT;
	if (resolve(t, t->tag, &err) < 0)
		fail_launch(t, &err);
}

static int build(struct tracked *t, struct error *err)
{
	const struct container_command *command = &t->command;
	const struct spec spec = {.setup_commands = t->setup,
				  .n_setup_commands = t->n_setup,
				  .disable_network = t->no_network};
	AUTO_FREE char **env = calloc(command->n_runtime_env + 1, sizeof(char *));

	if (!env)
		return error_oom(err);
	memcpy(env, command->env, command->n_runtime_env * sizeof(char *));
	t->resolving = true;
	int r = container_builds_make(t->container->builds, &t->config, env, t->base, &spec, t->tag,
				      on_built, t, err);
	if (r < 0)
		t->resolving = false;
	return r;
}

/* The base is known: is there an image with the commands baked in? */
static int look_for_setup(struct tracked *t, const char *base, struct error *err)
{
	t->base = strdup(base);
	t->tag = container_build_tag(base, t->setup, t->n_setup);
	if (!t->base || !t->tag)
		return error_oom(err);
	t->stage = STAGE_SETUP;
	return resolve(t, t->tag, err);
}

static void on_image(void *user, const char *image, const struct error *failed)
{
	struct tracked *t = user;
	struct error err;
	int r = 0;

	t->resolving = false;
	/* Without a connection the session is looked for again when there is one. */
	if (t->forgotten || (failed && !t->container->driver.ready)) {
		(void)tracked_free(t);
		return;
	}
	if (failed && failed->code == ENOENT && t->stage == STAGE_SETUP)
		r = build(t, &err);
	else if (failed) {
		fail_launch(t, failed);
		return;
	} else if (t->stage == STAGE_BASE && t->n_setup > 0)
		r = look_for_setup(t, image, &err);
	else {
		hand_over(t, image);
		return;
	}
	if (r < 0)
		fail_launch(t, &err);
}

static int launch(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	struct container *c = of(d);
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	struct tracked *t = find(c, launch->serial);

	if (t)
		forget(t);
	int r = container_config_load(launch->config->options, &config, err);
	/* The abilities may have changed with the launcher since the spec was taken. */
	if (r >= 0)
		r = container_check(&config, launch->spec, driver_shims_abilities(c->shims), err);
	if (r < 0)
		return r;
	t = tracked_new(c, launch->serial, launch->attempt);
	if (!t)
		return error_oom(err);
	r = fill(t, launch, &config, err);
	if (r < 0) {
		(void)tracked_free(t);
		return r;
	}
	const char *image = container_image(&config, launch->spec);
	AUTO_FREE char *reference = strdup(image);
	t->config = config;
	config = (struct container_config){0};
	t->no_network = launch->spec->disable_network;
	t->n_setup = launch->spec->n_setup_commands;
	t->setup = strlist_dup(launch->spec->setup_commands, t->n_setup);
	if (!reference || (t->n_setup > 0 && !t->setup))
		r = error_oom(err);
	else
		r = resolve(t, reference, err);
	if (r < 0)
		(void)tracked_free(t);
	return r;
}

static int adopt(struct driver *d, uint32_t serial, uint32_t attempt,
		 const struct executor_config *executor, bool *ret_found, struct error *err)
{
	struct container *c = of(d);
	AUTO_CONTAINER_CONFIG struct container_config config = {0};
	struct tracked *t = find(c, serial);
	char name[CONTAINER_ID_MAX];
	int r = 0;

	if (t && t->resolving) {
		forget(t);
		t = NULL;
	}
	if (!t) {
		t = tracked_new(c, serial, attempt);
		if (!t)
			return error_oom(err);
		container_name(c, serial, attempt, name);
		r = container_config_load(executor->options, &config, err);
		if (r >= 0)
			r = container_remove_build(&config, name, &t->command, err);
		if (r >= 0)
			r = container_runtime_env(&config, c->base_env, c->n_base_env, &t->command, err);
	}
	if (r >= 0)
		r = driver_shims_adopt(c->shims, d, serial, attempt, ret_found, err);
	if (r < 0 || !*ret_found)
		(void)tracked_free(t);
	return r;
}

/* --- what the shims report ------------------------------------------------------------------ */

static void on_started(struct driver *d, uint32_t serial, uint32_t attempt,
		       const struct shim_started *started)
{
	struct tracked *t = find(of(d), serial);

	(void)attempt;
	driver_shims_say_started(of(d)->shims, serial, started, t ? t->image : "");
}

static void on_failed(struct driver *d, uint32_t serial, uint32_t attempt, const struct error *err)
{
	(void)attempt;
	(void)tracked_free(find(of(d), serial));
	driver_shims_say_failed(of(d)->shims, serial, err);
}

static void on_exited(struct driver *d, uint32_t serial, uint32_t attempt,
		      const struct shim_exit *exit)
{
	(void)attempt;
	(void)tracked_free(find(of(d), serial));
	driver_shims_say_exited(of(d)->shims, serial, exit);
}

static void say_lost(struct tracked *t)
{
	struct container *c = t->container;
	uint32_t serial = t->serial;
	struct error err = t->lost;

	(void)tracked_free(t);
	driver_shims_say_lost(c->shims, serial, &err);
}

static void remove_container(uv_timer_t *timer);

/* Not gone yet: the runtime may have been about to do it itself, or its storage is locked. */
static void removed(void *user, const struct run_result *result, const struct error *err)
{
	struct tracked *t = user;

	t->run = 0;
	if ((!err && result && result->exit_code == 0) || ++t->remove_tries >= REMOVE_TRIES) {
		say_lost(t);
		return;
	}
	(void)uv_timer_start(t->timer, remove_container, REMOVE_PAUSE_MS * t->remove_tries, 0);
}

static void remove_container(uv_timer_t *timer)
{
	struct tracked *t = timer->data;
	const struct run_command command = {
		.argv = t->command.remove,
		.env = t->command.env,
		.uid = geteuid(),
		.gid = getegid(),
		.timeout_ms = REMOVE_TIMEOUT_MS,
		.output_max_bytes = REMOVE_OUTPUT_MAX,
	};
	struct error err;

	int r = shim_client_run(driver_shims_client(t->container->shims), &command, removed, t, &t->run,
				&err);
	if (r < 0)
		removed(t, NULL, &err);
}

/* The shim's processes are dead; the runtime still believes in the container. */
static void on_lost(struct driver *d, uint32_t serial, uint32_t attempt, const struct error *err)
{
	struct container *c = of(d);
	struct tracked *t = find(c, serial);

	(void)attempt;
	if (t && !t->timer)
		t->timer = calloc(1, sizeof(*t->timer));
	if (!t || !t->timer) {
		(void)tracked_free(t);
		driver_shims_say_lost(c->shims, serial, err);
		return;
	}
	t->lost = *err;
	(void)uv_timer_init(driver_shims_options(c->shims)->loop, t->timer);
	t->timer->data = t;
	remove_container(t->timer);
}

static const struct driver_shim_ops shim_ops = {
	.started = on_started,
	.failed = on_failed,
	.exited = on_exited,
	.lost = on_lost,
};

/* --- the driver ----------------------------------------------------------------------------- */

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
	.probe = container_probe,
	.preflight = container_preflight,
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
	c->images = container_images_new(shims);
	c->builds = container_builds_new(shims);
	int r = c->images && c->builds ? fill_base_env(c) : -ENOMEM;
	if (r == 0 && fstat(driver_shims_options(shims)->sessions_fd, &st) < 0)
		r = -errno;
	if (r < 0) {
		(void)container_free(c);
		return error_set(err, -r, "cannot set up the container driver: %s", strerror(-r));
	}
	(void)snprintf(c->instance, sizeof(c->instance), "%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev,
		       (uint64_t)st.st_ino);
	driver_shims_add(shims, &c->driver, &shim_ops);
	*ret = c;
	return 0;
}

struct container *container_free(struct container *c)
{
	if (!c)
		return NULL;
	container_probes_free(c);
	c->builds = container_builds_free(c->builds);
	c->images = container_images_free(c->images);
	for (size_t i = 0; i < CONTAINER_BUCKETS; i++)
		while (!LIST_EMPTY(&c->tracked[i]))
			(void)tracked_free(LIST_FIRST(&c->tracked[i]));
	for (size_t i = 0; i < c->n_base_env; i++)
		free(c->base_env[i]);
	free(c);
	return NULL;
}

struct driver *container_driver(struct container *c)
{
	return &c->driver;
}
