#include "drivers/localprocess/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/owner.h"
#include "drivers/localprocess/localprocess.h"
#include "drivers/shim/client.h"

#define MS_PER_MINUTE INT64_C(60000)

struct localprocess {
	struct driver driver; /* first: driver_ops are given this */
	struct shim_client *client;
	struct localprocess_options options;
};

static struct localprocess *of(struct driver *d)
{
	return (struct localprocess *)d;
}

static void capabilities(struct driver *d, const struct executor_config *config,
			 struct capabilities *ret)
{
	(void)config;
	*ret = localprocess_capabilities(*of(d)->options.abilities);
}

static int check(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	uint32_t abilities = *of(d)->options.abilities;

	/* Before a launcher has said what it can do, launch() is where that is judged. */
	return localprocess_check(launch->spec, abilities ? abilities : ~0U, err);
}

/* A test build may scale the minute, so that a timeout is reached while a test looks on. */
static int64_t minute_ms(void)
{
#ifdef CLOOP_TEST_HOOKS
	const char *text = getenv("CLOOP_MINUTE_MS");

	if (text)
		return strtoll(text, NULL, 10);
#endif
	return MS_PER_MINUTE;
}

static int launch(struct driver *d, const struct executor_launch *launch, struct error *err)
{
	struct localprocess *l = of(d);
	const struct spec *spec = launch->spec;
	CLEANUP(localprocess_environment_clear) struct localprocess_environment env = {0};

	/* The abilities may have changed with the launcher since the spec was taken. */
	int r = localprocess_check(spec, *l->options.abilities, err);
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
		.timeout_ms = spec->timeout_minutes * minute_ms(),
		.log_quota_bytes = launch->log_quota_bytes,
		.forbidden_dev = l->options.forbidden_dev,
		.cpu_millis = spec->limits.cpu_millis,
		.memory_mb = spec->limits.memory_mb,
		.pids = spec->limits.pids,
	};
	return shim_client_launch(l->client, &request, err);
}

static int adopt(struct driver *d, uint32_t serial, uint32_t attempt, bool *ret_found,
		 struct error *err)
{
	struct session_started started;
	enum shim_adoption adoption;

	int r = shim_client_adopt(of(d)->client, serial, attempt, &adoption, &started, err);
	/* EEXIST: it was adopted before the launcher was started again; its events still come. */
	if (r < 0 && r != -EEXIST)
		return r;
	*ret_found = r == -EEXIST || adoption != SHIM_ADOPT_NEVER;
	return 0;
}

struct signalling {
	executor_signal_fn *done;
	void *user;
};

static void signalled(void *arg, int error)
{
	struct signalling *s = arg;
	struct error err;

	if (error)
		(void)error_set(&err, error, "the session's supervisor refused: %s", strerror(error));
	s->done(s->user, -error, error ? &err : NULL);
	free(s);
}

static int send_signal(struct driver *d, uint32_t serial, uint32_t attempt,
		       const struct signal_key *key, enum signal_kind signal, executor_signal_fn *done,
		       void *user, struct error *err)
{
	static const enum shim_signal signals[] = {
		[SIGNAL_INTERRUPT] = SHIM_SIGNAL_INTERRUPT,
		[SIGNAL_TERMINATE] = SHIM_SIGNAL_TERMINATE,
		[SIGNAL_KILL] = SHIM_SIGNAL_KILL,
	};
	struct signalling *s = malloc(sizeof(*s));
	uint8_t bytes[SHIM_KEY_BYTES];

	_Static_assert(sizeof(*key) == SHIM_KEY_BYTES, "a key is two words");
	if (!s)
		return error_oom(err);
	*s = (struct signalling){.done = done, .user = user};
	memcpy(bytes, key, sizeof(bytes));
	int r = shim_client_signal(of(d)->client, serial, attempt, bytes, signals[signal], signalled, s, err);
	if (r < 0)
		free(s);
	/* write() must not be told to try again: shells do not. */
	return r == -EAGAIN ? error_set(err, EBUSY, "too many signals of this session wait") : r;
}

static const struct driver_ops ops = {
	.kind = KIND_LOCALPROCESS,
	.capabilities = capabilities,
	.check = check,
	.launch = launch,
	.adopt = adopt,
	.signal = send_signal,
};

/* --- what the shims report ------------------------------------------------------------------ */

static void on_ready(void *user, unsigned abilities)
{
	struct localprocess *l = user;

	*l->options.abilities = abilities | LOCALPROCESS_ABILITIES_KNOWN;
	l->driver.ready = true;
	l->options.events->ready(l->options.user, &l->driver);
}

static void on_disconnected(void *user)
{
	struct localprocess *l = user;

	l->driver.ready = false;
}

static void on_started(void *user, uint64_t serial, uint32_t attempt, const struct shim_started *started)
{
	struct localprocess *l = user;
	const struct executor_started s = {
		.pid = started->pid,
		.started_at_ns = started->started_at_ns,
		.deadline_ns = started->deadline_at_ns,
		.image = "",
	};

	(void)attempt;
	l->options.events->started(l->options.user, (uint32_t)serial, &s);
}

static void on_failed(void *user, uint64_t serial, uint32_t attempt, const struct error *err)
{
	struct localprocess *l = user;

	(void)attempt;
	l->options.events->failed(l->options.user, (uint32_t)serial, err);
}

static enum session_cause cause_of(const struct shim_exit *exit)
{
	switch (exit->cause) {
	case SHIM_CAUSE_EXIT:
		return SESSION_CAUSE_EXIT;
	case SHIM_CAUSE_TIMEOUT:
		return SESSION_CAUSE_TIMEOUT;
	case SHIM_CAUSE_OOM:
		return SESSION_CAUSE_OOM;
	default:
		return SESSION_CAUSE_SIGNAL;
	}
}

static void on_exited(void *user, uint64_t serial, uint32_t attempt, const struct shim_exit *exit)
{
	struct localprocess *l = user;
	const struct executor_exit e = {
		.cause = cause_of(exit),
		.exit_code = exit->code,
		.signal = exit->signal,
		.started_at_ns = exit->started_at_ns,
		.finished_at_ns = exit->finished_at_ns,
		.pid = exit->pid,
		.log_bytes = exit->log_bytes,
		.log_dropped_bytes = exit->log_dropped_bytes,
		.reason = "",
	};

	(void)attempt;
	l->options.events->ended(l->options.user, (uint32_t)serial, &e);
}

static void on_lost(void *user, uint64_t serial, uint32_t attempt, const struct error *err)
{
	struct localprocess *l = user;
	const struct executor_exit e = {
		.cause = SESSION_CAUSE_LOST,
		.exit_code = -1,
		.finished_at_ns = clock_now_ns(),
		.reason = err->reason,
	};

	(void)attempt;
	l->options.events->ended(l->options.user, (uint32_t)serial, &e);
}

int localprocess_new(const struct localprocess_options *options, struct localprocess **ret,
		     struct error *err)
{
	static const struct shim_client_ops client_ops = {
		.ready = on_ready,
		.started = on_started,
		.failed = on_failed,
		.exited = on_exited,
		.lost = on_lost,
		.disconnected = on_disconnected,
	};
	const struct shim_client_config config = {
		.sessions_fd = options->sessions_fd,
		.runtime_fd = options->runtime_fd,
		.epoch = options->epoch,
		.forbidden_dev = options->forbidden_dev,
	};
	struct localprocess *l = calloc(1, sizeof(*l));

	if (!l)
		return error_oom(err);
	l->driver.ops = &ops;
	l->options = *options;
	int r = shim_client_new(options->loop, &config, &client_ops, l, &l->client, err);
	if (r < 0) {
		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

struct localprocess *localprocess_free(struct localprocess *l)
{
	if (!l)
		return NULL;
	l->client = shim_client_free(l->client);
	free(l);
	return NULL;
}

struct driver *localprocess_driver(struct localprocess *l)
{
	return &l->driver;
}
