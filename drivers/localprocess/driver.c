#include "drivers/localprocess/driver.h"

#include <stdlib.h>

#include "core/owner.h"
#include "drivers/localprocess/localprocess.h"
#include "drivers/localprocess/probe.h"

struct localprocess {
	struct driver driver; /* first: driver_ops are given this */
	struct driver_shims *shims;
	struct host_probes *probes;
};

static struct localprocess *of(struct driver *d)
{
	return (struct localprocess *)d;
}

static void capabilities(struct driver *d, const struct executor_config *config,
			 struct capabilities *ret)
{
	(void)config;
	*ret = localprocess_capabilities(driver_shims_abilities(of(d)->shims));
}

static int check(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	int r = driver_shims_check(of(d)->shims, err);

	/* Before a launcher has said what it can do, launch() is where that is judged. */
	return r < 0 ? r : localprocess_check(launch->spec, driver_shims_abilities(of(d)->shims), err);
}

static int launch(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	struct driver_shims *shims = of(d)->shims;
	const struct driver_shims_options *options = driver_shims_options(shims);
	const struct spec *spec = launch->spec;
	CLEANUP(localprocess_environment_clear) struct localprocess_environment env = {0};

	/* The abilities may have changed with the launcher since the spec was taken. */
	int r = localprocess_check(spec, driver_shims_abilities(shims), err);
	if (r >= 0)
		r = localprocess_environment(spec, launch->uid, &env, err);
	if (r < 0)
		return r;
	const struct launch_request request = {
		.serial = launch->serial,
		.attempt = launch->attempt,
		.uid = launch->uid,
		.gid = launch->gid,
		.groups = launch->groups,
		.n_groups = launch->n_groups,
		.argv = (const char *const *)spec->argv,
		.n_argv = spec->n_argv,
		.env = (const char *const *)env.list,
		.n_env = env.n,
		.work_dir = spec->work_dir[0] ? spec->work_dir : "/",
		.timeout_ms = driver_timeout_ms(spec->timeout_minutes),
		.log_quota_bytes = launch->log_quota_bytes,
		.forbidden_dev = options->forbidden_dev,
		.cpu_millis = spec->limits.cpu_millis,
		.memory_mb = spec->limits.memory_mb,
		.pids = spec->limits.pids,
	};
	return driver_shims_launch(shims, d, &request, err);
}

static int adopt(struct driver *d, uint32_t serial, uint32_t attempt,
		 const struct executor_config *config, bool *ret_found, struct error *err)
{
	(void)config;
	return driver_shims_adopt(of(d)->shims, d, serial, attempt, ret_found, err);
}

static int send_signal(struct driver *d, uint32_t serial, uint32_t attempt,
		       const struct signal_key *key, enum signal_kind signal, executor_signal_fn *done,
		       void *user, struct error *err)
{
	return driver_shims_signal(of(d)->shims, serial, attempt, key, signal, done, user, err);
}

static int probe(struct driver *d, const struct executor_probe *probe, executor_probe_fn *done,
		 void *user, struct error *err)
{
	return host_probe(of(d)->probes, probe, done, user, err);
}

static int preflight(struct driver *d, const struct executor_probe *probe,
		     executor_preflight_fn *done, void *user, struct error *err)
{
	return host_preflight(of(d)->probes, probe, done, user, err);
}

static const struct driver_ops ops = {
	.kind = KIND_LOCALPROCESS,
	.capabilities = capabilities,
	.check = check,
	.launch = launch,
	.adopt = adopt,
	.signal = send_signal,
	.probe = probe,
	.preflight = preflight,
};

int localprocess_new(struct driver_shims *shims, struct localprocess **ret, struct error *err)
{
	struct localprocess *l = calloc(1, sizeof(*l));

	if (!l)
		return error_oom(err);
	l->driver.ops = &ops;
	l->shims = shims;
	const struct host_probes_options probes = {
		.loop = driver_shims_options(shims)->loop,
		.client = driver_shims_client(shims),
		.sessions_fd = driver_shims_options(shims)->sessions_fd,
		.abilities = driver_shims_options(shims)->abilities,
	};
	l->probes = host_probes_new(&probes);
	if (!l->probes) {
		free(l);
		return error_oom(err);
	}
	driver_shims_add(shims, &l->driver, NULL);
	*ret = l;
	return 0;
}

struct localprocess *localprocess_free(struct localprocess *l)
{
	if (!l)
		return NULL;
	l->probes = host_probes_free(l->probes);
	free(l);
	return NULL;
}

struct driver *localprocess_driver(struct localprocess *l)
{
	return &l->driver;
}
