#include "drivers/driver.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/owner.h"

#define MS_PER_MINUTE INT64_C(60000)

struct registered {
	struct driver *driver;
	const struct driver_shim_ops *ops;
};

/* Whose a session is. */
struct owned {
	uint32_t serial;
	const struct registered *owner;
};

struct driver_shims {
	struct driver_shims_options options;
	struct shim_client *client;
	struct registered drivers[DRIVER_SHIMS_DRIVERS_MAX];
	size_t n_drivers;
	void *owners; /* tsearch tree of struct owned */
	bool refused; /* the launcher does not answer; until it does */
};

static const char launcher_refuses[] = "cloop-launcher hangs up instead of answering: it belongs to "
				       "another version of cloopd, or does not come up";

static int by_serial(const void *a, const void *b)
{
	const struct owned *x = a, *y = b;

	return x->serial < y->serial ? -1 : x->serial > y->serial;
}

static struct owned *find(struct driver_shims *s, uint32_t serial)
{
	struct owned key = {.serial = serial};
	struct owned **found = tfind(&key, &s->owners, by_serial);

	return found ? *found : NULL;
}

static const struct registered *registered(const struct driver_shims *s, const struct driver *d)
{
	for (size_t i = 0; i < s->n_drivers; i++)
		if (s->drivers[i].driver == d)
			return &s->drivers[i];
	return NULL;
}

static int own(struct driver_shims *s, struct driver *d, uint32_t serial, struct error *err)
{
	struct owned *o = find(s, serial);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return error_oom(err);
		o->serial = serial;
		if (!tsearch(o, &s->owners, by_serial)) {
			free(o);
			return error_oom(err);
		}
	}
	o->owner = registered(s, d);
	return 0;
}

static void disown(struct driver_shims *s, uint32_t serial)
{
	struct owned *o = find(s, serial);

	if (o)
		(void)tdelete(o, &s->owners, by_serial);
	free(o);
}

static const struct registered *owner(struct driver_shims *s, uint64_t serial)
{
	static const struct registered nobody;
	struct owned *o = find(s, (uint32_t)serial);

	return o && o->owner ? o->owner : &nobody;
}

/* --- what the shims report ------------------------------------------------------------------ */

static void on_ready(void *user, unsigned abilities)
{
	struct driver_shims *s = user;

	*s->options.abilities = abilities | DRIVER_ABILITIES_KNOWN;
	s->refused = false;
	for (size_t i = 0; i < s->n_drivers; i++)
		s->drivers[i].driver->ready = true;
	for (size_t i = 0; i < s->n_drivers; i++)
		s->options.events->ready(s->options.user, s->drivers[i].driver);
}

static void on_disconnected(void *user)
{
	struct driver_shims *s = user;

	for (size_t i = 0; i < s->n_drivers; i++)
		s->drivers[i].driver->ready = false;
}

/* Starts are refused from now on; what runs goes on, and launches that were taken wait. */
static void on_refused(void *user)
{
	struct driver_shims *s = user;

	s->refused = true;
	s->options.log(s->options.user, launcher_refuses);
	for (size_t i = 0; i < s->n_drivers; i++)
		s->options.events->stalled(s->options.user, s->drivers[i].driver);
}

int driver_shims_check(const struct driver_shims *s, struct error *err)
{
	if (!s->refused)
		return 0;
	int r = error_set(err, EHOSTUNREACH, "%s", launcher_refuses);

	error_remedy(err, "install both of one version, then cloopd stop and cloopd serve");
	return r;
}

static void on_started(void *user, uint64_t serial, uint32_t attempt,
		       const struct shim_started *started)
{
	struct driver_shims *s = user;
	const struct registered *o = owner(s, serial);

	if (o->ops && o->ops->started)
		o->ops->started(o->driver, (uint32_t)serial, attempt, started);
	else
		driver_shims_say_started(s, (uint32_t)serial, started, "");
}

static void on_failed(void *user, uint64_t serial, uint32_t attempt, const struct error *err)
{
	struct driver_shims *s = user;
	const struct registered *o = owner(s, serial);

	if (o->ops && o->ops->failed)
		o->ops->failed(o->driver, (uint32_t)serial, attempt, err);
	else
		driver_shims_say_failed(s, (uint32_t)serial, err);
}

static void on_exited(void *user, uint64_t serial, uint32_t attempt, const struct shim_exit *exit)
{
	struct driver_shims *s = user;
	const struct registered *o = owner(s, serial);

	if (o->ops && o->ops->exited)
		o->ops->exited(o->driver, (uint32_t)serial, attempt, exit);
	else
		driver_shims_say_exited(s, (uint32_t)serial, exit);
}

static void on_lost(void *user, uint64_t serial, uint32_t attempt, const struct error *err)
{
	struct driver_shims *s = user;
	const struct registered *o = owner(s, serial);

	if (o->ops && o->ops->lost)
		o->ops->lost(o->driver, (uint32_t)serial, attempt, err);
	else
		driver_shims_say_lost(s, (uint32_t)serial, err);
}

void driver_shims_say_started(struct driver_shims *s, uint32_t serial,
			      const struct shim_started *started, const char *image)
{
	const struct executor_started e = {
		.pid = started->pid,
		.started_at_ns = started->started_at_ns,
		.deadline_ns = started->deadline_at_ns,
		.image = image,
	};

	s->options.events->started(s->options.user, serial, &e);
}

void driver_shims_say_failed(struct driver_shims *s, uint32_t serial, const struct error *err)
{
	disown(s, serial);
	s->options.events->failed(s->options.user, serial, err);
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

void driver_shims_say_exited(struct driver_shims *s, uint32_t serial, const struct shim_exit *exit)
{
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

	disown(s, serial);
	s->options.events->ended(s->options.user, serial, &e);
}

void driver_shims_say_lost(struct driver_shims *s, uint32_t serial, const struct error *err)
{
	const struct executor_exit e = {
		.cause = SESSION_CAUSE_LOST,
		.exit_code = -1,
		.finished_at_ns = clock_now_ns(),
		.reason = err->reason,
	};

	disown(s, serial);
	s->options.events->ended(s->options.user, serial, &e);
}

/* --- what drivers ask for ------------------------------------------------------------------- */

/* A test build may scale the minute, so that a timeout is reached while a test looks on. */
int64_t driver_timeout_ms(int64_t minutes)
{
#ifdef CLOOP_TEST_HOOKS
	const char *text = getenv("CLOOP_MINUTE_MS");

	if (text)
		return minutes * strtoll(text, NULL, 10);
#endif
	return minutes * MS_PER_MINUTE;
}

int driver_shims_launch(struct driver_shims *s, struct driver *d,
			const struct launch_request *request, struct error *err)
{
	int r = own(s, d, (uint32_t)request->serial, err);

	if (r < 0)
		return r;
	r = shim_client_launch(s->client, request, err);
	if (r < 0 && r != -EEXIST)
		disown(s, (uint32_t)request->serial);
	return r;
}

int driver_shims_adopt(struct driver_shims *s, struct driver *d, uint32_t serial, uint32_t attempt,
		       bool *ret_found, struct error *err)
{
	struct session_started started;
	enum shim_adoption adoption;

	int r = own(s, d, serial, err);
	if (r < 0)
		return r;
	r = shim_client_adopt(s->client, serial, attempt, &adoption, &started, err);
	/* EEXIST: it was adopted before the launcher was started again; its events still come. */
	if (r < 0 && r != -EEXIST)
		return r;
	*ret_found = r == -EEXIST || adoption != SHIM_ADOPT_NEVER;
	if (!*ret_found)
		disown(s, serial);
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

int driver_shims_signal(struct driver_shims *s, uint32_t serial, uint32_t attempt,
			const struct signal_key *key, enum signal_kind signal,
			executor_signal_fn *done, void *user, struct error *err)
{
	static const enum shim_signal signals[] = {
		[SIGNAL_INTERRUPT] = SHIM_SIGNAL_INTERRUPT,
		[SIGNAL_TERMINATE] = SHIM_SIGNAL_TERMINATE,
		[SIGNAL_KILL] = SHIM_SIGNAL_KILL,
	};
	struct signalling *w = malloc(sizeof(*w));
	uint8_t bytes[SHIM_KEY_BYTES];

	_Static_assert(sizeof(*key) == SHIM_KEY_BYTES, "a key is two words");
	if (!w)
		return error_oom(err);
	*w = (struct signalling){.done = done, .user = user};
	memcpy(bytes, key, sizeof(bytes));
	int r = shim_client_signal(s->client, serial, attempt, bytes, signals[signal], signalled, w, err);
	if (r < 0)
		free(w);
	/* write() must not be told to try again: shells do not. */
	return r == -EAGAIN ? error_set(err, EBUSY, "too many signals of this session wait") : r;
}

/* --- the whole ------------------------------------------------------------------------------ */

const struct driver_shims_options *driver_shims_options(const struct driver_shims *s)
{
	return &s->options;
}

struct shim_client *driver_shims_client(struct driver_shims *s)
{
	return s->client;
}

unsigned driver_shims_abilities(const struct driver_shims *s)
{
	uint32_t abilities = *s->options.abilities;

	return abilities ? abilities : ~0U;
}

void driver_shims_add(struct driver_shims *s, struct driver *d, const struct driver_shim_ops *ops)
{
	s->drivers[s->n_drivers++] = (struct registered){.driver = d, .ops = ops};
}

int driver_shims_new(const struct driver_shims_options *options, struct driver_shims **ret,
		     struct error *err)
{
	static const struct shim_client_ops client_ops = {
		.ready = on_ready,
		.started = on_started,
		.failed = on_failed,
		.exited = on_exited,
		.lost = on_lost,
		.disconnected = on_disconnected,
		.refused = on_refused,
	};
	const struct shim_client_config config = {
		.sessions_fd = options->sessions_fd,
		.runtime_fd = options->runtime_fd,
		.epoch = options->epoch,
		.forbidden_dev = options->forbidden_dev,
	};
	struct driver_shims *s = calloc(1, sizeof(*s));

	if (!s)
		return error_oom(err);
	s->options = *options;
	int r = shim_client_new(options->loop, &config, &client_ops, s, &s->client, err);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct driver_shims *driver_shims_free(struct driver_shims *s)
{
	if (!s)
		return NULL;
	s->client = shim_client_free(s->client);
	tdestroy(s->owners, free);
	free(s);
	return NULL;
}
