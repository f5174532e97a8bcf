/*
 * Whether an executor's runtime can take work, and what it lacks. A probe lists the executor's
 * containers, which shows that the runtime works, and removes those that no session is known of.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/executor_config.h"
#include "core/field.h"
#include "core/json.h"
#include "core/owner.h"
#include "core/strlist.h"
#include "drivers/container/argv.h"
#include "drivers/container/internal.h"

#define ARGV_MAX 12
#define PROBE_OUTPUT_MAX ((size_t)1 << 20)
#define REMOVE_TIMEOUT_MS 60000
/* Orphans that one probe takes away; the next one goes on. */
#define REMOVES_MAX 16
#define LINE_MAX_BYTES 256

/* A probe or a preflight that is under way. */
struct probing {
	LIST_ENTRY(probing) link;
	struct container *container;
	struct container_config config;
	struct container_command command; /* env */
	char *executor;
	char **health_argv;
	size_t n_health_argv;
	int64_t health_timeout_ms;
	int64_t until_ns; /* CLOCK_BOOTTIME */
	executor_probe_fn *probed;
	executor_preflight_fn *reported;
	void *user;
	size_t step;
	struct buf report;
	uint64_t run;
};

static struct probing *probing_free(struct probing *p)
{
	if (!p)
		return NULL;
	LIST_REMOVE(p, link);
	shim_client_run_cancel(driver_shims_client(p->container->shims), p->run);
	container_config_clear(&p->config);
	container_command_clear(&p->command);
	(void)strlist_free(p->health_argv, p->n_health_argv);
	free(p->executor);
	buf_free(&p->report);
	free(p);
	return NULL;
}

void container_probes_free(struct container *c)
{
	while (!LIST_EMPTY(&c->probing))
		(void)probing_free(LIST_FIRST(&c->probing));
}

static int begin(struct container *c, const struct executor_probe *probe, struct probing **ret,
		 struct error *err)
{
	const struct executor_health_check *health = &probe->config->health_check;
	struct probing *p = calloc(1, sizeof(*p));

	if (!p)
		return error_oom(err);
	p->container = c;
	LIST_INSERT_HEAD(&c->probing, p, link);
	p->report = BUF_INIT(PREFLIGHT_REPORT_BYTES_MAX);
	p->until_ns = clock_boot_ns() + probe->timeout_ms * CLOCK_NS_PER_MS;
	p->executor = strdup(probe->id);
	p->health_timeout_ms = health->timeout_ms;
	p->health_argv = strlist_dup(health->argv, health->n_argv);
	p->n_health_argv = health->n_argv;
	int r = container_config_load(probe->config->options, &p->config, err);
	if (r >= 0)
		r = container_runtime_env(&p->config, c->base_env, c->n_base_env, &p->command, err);
	if (r >= 0 && (!p->executor || (health->n_argv > 0 && !p->health_argv)))
		r = error_oom(err);
	if (r < 0) {
		(void)probing_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

/* What is left of the time, at least a millisecond: a run that is out of time says so itself. */
static int64_t left_ms(const struct probing *p, int64_t most_ms)
{
	int64_t left = (p->until_ns - clock_boot_ns()) / CLOCK_NS_PER_MS;

	if (most_ms > 0 && most_ms < left)
		left = most_ms;
	if (left > RUN_TIMEOUT_MAX_MS)
		left = RUN_TIMEOUT_MAX_MS;
	return left > 0 ? left : 1;
}

static int run(struct probing *p, char *const *argv, int64_t most_ms, run_done_fn *done, struct error *err)
{
	const struct run_command command = {
		.argv = argv,
		.env = p->command.env,
		.uid = geteuid(),
		.gid = getegid(),
		.timeout_ms = left_ms(p, most_ms),
		.output_max_bytes = PROBE_OUTPUT_MAX,
	};

	return shim_client_run(driver_shims_client(p->container->shims), &command, done, p, &p->run, err);
}

/* Why a program was of no use; 0 when it was. */
static int judge(const struct run_result *result, const struct error *failed, const char *what,
		 struct error *err)
{
	char line[LINE_MAX_BYTES];

	if (failed)
		return error_set(err, failed->code, "%s: %s", what, failed->reason);
	if (result->timed_out)
		return error_set(err, ETIMEDOUT, "%s does not answer in time", what);
	if (result->exit_code == 0)
		return 0;
	container_last_line(result->err_len > 0 ? result->err : result->out, line, sizeof(line));
	if (result->exit_code < 0)
		return error_set(err, EIO, "%s was ended by signal %d", what, result->signal);
	return error_set(err, EIO, "%s failed with %d: %s", what, result->exit_code, line);
}

/* --- probes --------------------------------------------------------------------------------- */

static void say_probed(struct probing *p, const struct error *err)
{
	executor_probe_fn *probed = p->probed;
	void *user = p->user;

	(void)probing_free(p);
	probed(user, err);
}

static void health_checked(void *user, const struct run_result *result, const struct error *failed)
{
	struct probing *p = user;
	struct error err;

	p->run = 0;
	say_probed(p, judge(result, failed, "the health check", &err) < 0 ? &err : NULL);
}

struct sweeping {
	struct probing *probing;
	unsigned n;
};

static bool tracks(void *user, const char *name)
{
	struct container *c = ((struct sweeping *)user)->probing->container;
	uint32_t serial, attempt;

	/* Of another daemon on the same runtime: that one knows. */
	if (!container_name_parse(c, name, &serial, &attempt))
		return true;
	return container_tracks(c, serial, attempt);
}

/* It is asked for again by the next probe when this does not work. */
static void removed(void *user, const struct run_result *result, const struct error *err)
{
	(void)user;
	(void)result;
	(void)err;
}

static void remove_orphan(void *user, const char *name)
{
	struct sweeping *s = user;
	struct probing *p = s->probing;
	AUTO_CONTAINER_COMMAND struct container_command command = {0};
	struct error err;

	if (s->n++ >= REMOVES_MAX || container_remove_build(&p->config, name, &command, &err) < 0)
		return;
	const struct run_command remove = {
		.argv = command.remove,
		.env = p->command.env,
		.uid = geteuid(),
		.gid = getegid(),
		.timeout_ms = REMOVE_TIMEOUT_MS,
	};
	(void)shim_client_run(driver_shims_client(p->container->shims), &remove, removed, NULL, NULL, &err);
}

static void listed(void *user, const struct run_result *result, const struct error *failed)
{
	struct probing *p = user;
	struct sweeping sweeping = {.probing = p};
	const struct container_sweep sweep = {
		.executor = p->executor,
		.grace_s = p->config.grace_s,
		.now_s = clock_now_ns() / CLOCK_NS_PER_S,
		.tracks = tracks,
		.user = &sweeping,
	};
	struct error err;

	p->run = 0;
	int r = judge(result, failed, container_runtime_name(p->config.runtime), &err);
	if (r == 0 && p->config.runtime == CONTAINER_PODMAN && !result->truncated)
		(void)container_sweep(&sweep, result->out, result->out_len, remove_orphan);
	if (r == 0 && p->n_health_argv > 0) {
		r = run(p, p->health_argv, p->health_timeout_ms, health_checked, &err);
		if (r == 0)
			return;
	}
	say_probed(p, r < 0 ? &err : NULL);
}

int container_probe(struct driver *d, const struct executor_probe *probe, executor_probe_fn *done,
		    void *user, struct error *err)
{
	struct container *c = (struct container *)d;
	struct probing *p;
	int r = begin(c, probe, &p, err);

	if (r < 0)
		return r;
	AUTO_FREE char *filter = NULL;
	if (asprintf(&filter, "label=%s=%s", CONTAINER_LABEL_EXECUTOR, p->executor) < 0) {
		filter = NULL;
		(void)probing_free(p);
		return error_oom(err);
	}
	char *argv[ARGV_MAX] = {(char *)(uintptr_t)container_runtime_name(p->config.runtime),
				(char *)(uintptr_t) "ps", (char *)(uintptr_t) "--all",
				(char *)(uintptr_t) "--filter", filter, (char *)(uintptr_t) "--format",
				(char *)(uintptr_t)(p->config.runtime == CONTAINER_DOCKER ? "{{.Names}}"
											  : "json")};
	p->probed = done;
	p->user = user;
	r = run(p, argv, 0, listed, err);
	if (r < 0)
		(void)probing_free(p);
	return r;
}

/* --- preflight ------------------------------------------------------------------------------ */

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

__attribute__((format(printf, 4, 5))) static void line(struct probing *p, enum verdict verdict,
						       const char *name, const char *fmt, ...)
{
	static const char *const words[] = {"ok", "warn", "fail"};
	char text[LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_one_line(text);
	buf_printf(&p->report, "%s %s: %s\n", words[verdict], name, text);
}

/*
 * One thing to look at. ask() fills the arguments after the runtime's name, or says all there is to
 * say and returns false; told() judges what the runtime said.
 */
struct check {
	const char *name;
	bool (*ask)(struct probing *p, const char **argv);
	/* NULL: what it says is the detail. */
	void (*told)(struct probing *p, const struct check *check, const struct run_result *result);
	enum verdict failed; /* what it means when the runtime refuses */
};

static bool is_docker(const struct probing *p)
{
	return p->config.runtime == CONTAINER_DOCKER;
}

static bool ask_runtime(struct probing *p, const char **argv)
{
	(void)p;
	argv[0] = "--version";
	return true;
}

static bool ask_daemon(struct probing *p, const char **argv)
{
	argv[0] = is_docker(p) ? "version" : "info";
	argv[1] = "--format";
	argv[2] = is_docker(p) ? "{{.Server.Version}}"
			       : "no daemon; {{.Store.GraphDriverName}} in {{.Store.GraphRoot}}";
	return true;
}

static bool ask_limits(struct probing *p, const char **argv)
{
	unsigned abilities = driver_shims_abilities(p->container->shims);
	static const struct {
		unsigned ability;
		const char *name;
	} limits[] = {{SHIM_CAN_MEMORY, "memory"}, {SHIM_CAN_CPU, "cpu"}, {SHIM_CAN_PIDS, "pids"}};
	char lacking[64] = "";

	(void)argv;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (!(abilities & limits[i].ability)) {
			(void)strcat(lacking, " ");
			(void)strcat(lacking, limits[i].name);
		}
	if (lacking[0])
		line(p, VERDICT_WARN, "cgroup", "no limit can be enforced on:%s; specs that ask are refused",
		     lacking);
	else
		line(p, VERDICT_OK, "cgroup", "memory, cpu and pids are enforced");
	return false;
}

static bool ask_image(struct probing *p, const char **argv)
{
	if (!p->config.image[0]) {
		line(p, VERDICT_WARN, "image", "the config names none: every spec must");
		return false;
	}
	argv[0] = "image";
	argv[1] = "inspect";
	argv[2] = p->config.image;
	return true;
}

static void told_image(struct probing *p, const struct check *check, const struct run_result *result)
{
	struct container_image_facts facts = {0};
	struct error err;

	if (container_image_parse(result->out, result->out_len, p->config.image, &facts, &err) < 0)
		line(p, VERDICT_FAIL, check->name, "%s", err.reason);
	else
		line(p, VERDICT_OK, check->name, "%s is %s", p->config.image, facts.image);
	container_image_facts_clear(&facts);
}

static bool ask_network(struct probing *p, const char **argv)
{
	if (strcmp(p->config.network, "none") == 0) {
		line(p, VERDICT_OK, "network", "none");
		return false;
	}
	argv[0] = "network";
	argv[1] = "inspect";
	argv[2] = "--format";
	argv[3] = "{{.Name}}";
	argv[4] = p->config.network;
	return true;
}

static bool ask_oci_runtime(struct probing *p, const char **argv)
{
	if (!p->config.oci_runtime[0]) {
		line(p, VERDICT_OK, "oci-runtime", "the runtime's own choice");
		return false;
	}
	if (is_docker(p)) {
		argv[0] = "info";
		argv[1] = "--format";
		argv[2] = "{{json .Runtimes}}";
		return true;
	}
	argv[0] = "--runtime";
	argv[1] = p->config.oci_runtime;
	argv[2] = "info";
	argv[3] = "--format";
	argv[4] = "{{.Host.OCIRuntime.Name}} is {{.Host.OCIRuntime.Path}}";
	return true;
}

static void told_oci_runtime(struct probing *p, const struct check *check,
			     const struct run_result *result)
{
	char said[LINE_MAX_BYTES];

	if (is_docker(p)) {
		json_t *runtimes = NULL;

		(void)json_read(result->out, result->out_len, 0, &runtimes, NULL);
		if (json_object_get(runtimes, p->config.oci_runtime))
			line(p, VERDICT_OK, check->name, "%s is registered", p->config.oci_runtime);
		else
			line(p, VERDICT_FAIL, check->name, "%s is not registered with docker",
			     p->config.oci_runtime);
		json_decref(runtimes);
		return;
	}
	container_last_line(result->out, said, sizeof(said));
	line(p, VERDICT_OK, check->name, "%s", said);
}

static bool ask_kvm(struct probing *p, const char **argv)
{
	(void)argv;
	if (!runtime_is_virtualized(p->config.oci_runtime))
		return false;
	AUTO_CLOSE int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		line(p, VERDICT_OK, "kvm", "/dev/kvm can be used");
	else
		line(p, VERDICT_FAIL, "kvm", "/dev/kvm cannot be opened: %s", strerrordesc_np(errno));
	return false;
}

static bool ask_uid_mapping(struct probing *p, const char **argv)
{
	(void)argv;
	if (geteuid() == 0)
		line(p, VERDICT_OK, "uid-mapping", "a container runs as its directory's owner, never as root");
	else
		line(p, VERDICT_FAIL, "uid-mapping",
		     "the daemon is not root, and its helpers may gain no rights, which podman then needs");
	return false;
}

static const struct check checks[] = {
	{"runtime", ask_runtime, NULL, VERDICT_FAIL},
	{"daemon", ask_daemon, NULL, VERDICT_FAIL},
	{"cgroup", ask_limits, NULL, VERDICT_FAIL},
	{"image", ask_image, told_image, VERDICT_FAIL},
	{"network", ask_network, NULL, VERDICT_FAIL},
	/* podman cannot list those that it knows, and one that it names may be found at a start. */
	{"oci-runtime", ask_oci_runtime, told_oci_runtime, VERDICT_WARN},
	{"kvm", ask_kvm, NULL, VERDICT_FAIL},
	{"uid-mapping", ask_uid_mapping, NULL, VERDICT_FAIL},
};

static void looked_at(void *user, const struct run_result *result, const struct error *failed);

/* Goes on to the next thing that a program has to be run for. 0: one is, 1: there is none. */
static int advance(struct probing *p, struct error *err)
{
	for (; p->step < ARRAY_SIZE(checks); p->step++) {
		const char *argv[ARGV_MAX] = {container_runtime_name(p->config.runtime)};

		if (!checks[p->step].ask(p, argv + 1))
			continue;
		return run(p, (char *const *)(uintptr_t)argv, 0, looked_at, err);
	}
	return 1;
}

static void say_reported(struct probing *p, const struct error *err)
{
	executor_preflight_fn *reported = p->reported;
	AUTO_FREE char *report = buf_take(&p->report);
	void *user = p->user;

	(void)probing_free(p);
	reported(user, err ? NULL : (report ? report : ""), err);
}

static void looked_at(void *user, const struct run_result *result, const struct error *failed)
{
	struct probing *p = user;
	const struct check *check = &checks[p->step];
	char said[LINE_MAX_BYTES];
	struct error err;

	p->run = 0;
	if (judge(result, failed, container_runtime_name(p->config.runtime), &err) < 0) {
		line(p, check->failed, check->name, "%s", err.reason);
	} else if (check->told) {
		check->told(p, check, result);
	} else {
		container_last_line(result->out, said, sizeof(said));
		line(p, VERDICT_OK, check->name, "%s", said);
	}
	p->step++;
	int r = advance(p, &err);
	if (r != 0)
		say_reported(p, r < 0 ? &err : NULL);
}

int container_preflight(struct driver *d, const struct executor_probe *probe,
			executor_preflight_fn *done, void *user, struct error *err)
{
	struct container *c = (struct container *)d;
	struct probing *p;
	int r = begin(c, probe, &p, err);

	if (r < 0)
		return r;
	p->reported = done;
	p->user = user;
	/* The first one always runs a program. */
	r = advance(p, err);
	if (r < 0)
		(void)probing_free(p);
	return r;
}
