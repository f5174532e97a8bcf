#include "drivers/localprocess/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/owner.h"
#include "core/strlist.h"
#include "drivers/health_check.h"
#include "drivers/localprocess/localprocess.h"

/* Below this the sessions directory is nearly full for whoever writes logs. */
#define DISK_WARN_BYTES (UINT64_C(1) << 30)
#define GROUP_TEXT_BYTES 16384

/* One question that has no answer yet. */
struct asked {
	LIST_ENTRY(asked) entry;
	struct host_probes *owner; /* NULL: it is gone, and nobody waits */
	struct executor_health_check check; /* of a preflight: a copy */
	int64_t timeout_ms;                 /* of what runs now */
	int64_t probe_ms;
	executor_probe_fn *probed;
	executor_preflight_fn *preflighted;
	void *user;
	/* Preflight: looked at on the thread pool. */
	uv_work_t work;
	int sessions_fd;
	int disk_error;
	uint64_t disk_free_bytes;
	bool writable, has_group, has_admin_group;
	struct buf report;
};

LIST_HEAD(asked_list, asked);

struct host_probes {
	struct host_probes_options options;
	struct asked_list asked;
};

struct host_probes *host_probes_new(const struct host_probes_options *options)
{
	struct host_probes *h = calloc(1, sizeof(*h));

	if (h) {
		h->options = *options;
		LIST_INIT(&h->asked);
	}
	return h;
}

static void asked_free(struct asked *a)
{
	if (a->owner)
		LIST_REMOVE(a, entry);
	(void)strlist_free(a->check.argv, a->check.n_argv);
	buf_free(&a->report);
	free(a);
}

struct host_probes *host_probes_free(struct host_probes *h)
{
	struct asked *a;

	while (h && (a = LIST_FIRST(&h->asked))) {
		/* The thread pool still writes to it: it goes when that has come back. */
		if (a->work.data) {
			LIST_REMOVE(a, entry);
			a->owner = NULL;
		} else {
			asked_free(a);
		}
	}
	free(h);
	return NULL;
}

static struct asked *asked_new(struct host_probes *h, const struct executor_probe *probe, void *user)
{
	struct asked *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->owner = h;
	a->probe_ms = probe->timeout_ms;
	a->timeout_ms = probe->timeout_ms;
	a->user = user;
	a->report = BUF_INIT(PREFLIGHT_REPORT_BYTES_MAX);
	LIST_INSERT_HEAD(&h->asked, a, entry);
	return a;
}

static int run_check(struct host_probes *h, const struct executor_health_check *check,
		     int64_t timeout_ms, run_done_fn *done, void *user, struct error *err)
{
	CLEANUP(localprocess_environment_clear) struct localprocess_environment env = {0};
	int r = localprocess_minimal_environment(geteuid(), &env, err);

	if (r < 0)
		return r;
	struct run_command command = health_check_command(check, env.list, timeout_ms);
	return shim_client_run(h->options.client, &command, done, user, NULL, err);
}

/* --- probes --------------------------------------------------------------------------------- */

static void answer(struct asked *a, const struct error *err)
{
	executor_probe_fn *done = a->probed;
	void *user = a->user;

	asked_free(a);
	done(user, err);
}

static void check_ended(void *user, const struct run_result *result, const struct error *failure)
{
	struct asked *a = user;
	struct error err;
	int r = health_check_verdict(result, failure, a->timeout_ms, &err);

	answer(a, r < 0 ? &err : NULL);
}

static void launcher_answered(void *user, const struct error *err)
{
	answer(user, err);
}

int host_probe(struct host_probes *h, const struct executor_probe *probe, executor_probe_fn *done,
	       void *user, struct error *err)
{
	const struct executor_health_check *check = &probe->config->health_check;
	struct asked *a = asked_new(h, probe, user);
	int r;

	if (!a)
		return error_oom(err);
	a->probed = done;
	if (check->n_argv > 0) {
		a->timeout_ms = health_check_timeout_ms(check, probe->timeout_ms);
		r = run_check(h, check, a->timeout_ms, check_ended, a, err);
	} else {
		r = shim_client_ping(h->options.client, launcher_answered, a, err);
	}
	if (r < 0)
		asked_free(a);
	return r;
}

/* --- preflights: one thing after the other -------------------------------------------------- */

static void note(struct asked *a, const char *verdict, const char *name, const char *detail)
{
	buf_printf(&a->report, "%s %s: %s\n", verdict, name, detail);
}

static void note_error(struct asked *a, const char *name, const struct error *err)
{
	char sentence[ERROR_REASON_MAX + ERROR_FIELD_MAX + ERROR_REMEDY_MAX];

	(void)error_sentence(err, sentence, sizeof(sentence));
	note(a, "fail", name, sentence);
}

static void report(struct asked *a)
{
	AUTO_FREE char *text = a->report.failed ? NULL : buf_take(&a->report);
	executor_preflight_fn *done = a->preflighted;
	void *user = a->user;
	struct error err;

	asked_free(a);
	if (!text)
		(void)error_oom(&err);
	done(user, text, text ? NULL : &err);
}

static void last_check_ended(void *user, const struct run_result *result, const struct error *failure)
{
	struct asked *a = user;
	struct error err;

	if (health_check_verdict(result, failure, a->timeout_ms, &err) < 0)
		note_error(a, "health_check", &err);
	else
		note(a, "ok", "health_check", "exited with 0");
	report(a);
}

static void look_at_check(struct asked *a)
{
	struct error err;

	if (a->check.n_argv == 0) {
		report(a);
		return;
	}
	a->timeout_ms = health_check_timeout_ms(&a->check, a->probe_ms);
	if (run_check(a->owner, &a->check, a->timeout_ms, last_check_ended, a, &err) < 0) {
		note_error(a, "health_check", &err);
		report(a);
	}
}

static void true_ended(void *user, const struct run_result *result, const struct error *failure)
{
	struct asked *a = user;

	if (failure)
		note_error(a, "run", failure);
	else if (result->exit_code != 0)
		note(a, "fail", "run",
		     result->timed_out ? "/bin/true did not end in time" : "/bin/true failed");
	else
		note(a, "ok", "run", "/bin/true exited with 0");
	look_at_check(a);
}

static void run_true(struct asked *a)
{
	static char program[] = "/bin/true";
	static char *argv[] = {program, NULL};
	const struct executor_health_check check = {.argv = argv, .n_argv = 1};
	struct error err;

	if (run_check(a->owner, &check, a->probe_ms, true_ended, a, &err) < 0) {
		note_error(a, "run", &err);
		look_at_check(a);
	}
}

static void launcher_seen(void *user, const struct error *err)
{
	struct asked *a = user;

	if (err)
		note_error(a, "launcher", err);
	else
		note(a, "ok", "launcher", "it answers");
	run_true(a);
}

static void note_abilities(struct asked *a)
{
	static const struct {
		unsigned ability;
		const char *name, *can, *cannot;
	} abilities[] = {
		{SHIM_CAN_CPU, "cgroup.cpu", "resource_limits.cpu_millis is enforced",
		 "a spec with resource_limits.cpu_millis is refused"},
		{SHIM_CAN_MEMORY, "cgroup.memory", "resource_limits.memory_mb is enforced",
		 "a spec with resource_limits.memory_mb is refused"},
		{SHIM_CAN_PIDS, "cgroup.pids", "resource_limits.pids is enforced",
		 "a spec with resource_limits.pids is refused"},
		{SHIM_CAN_KILL, "cgroup.kill", "a workload is killed in one step",
		 "a workload is killed process by process"},
	};
	unsigned can = *a->owner->options.abilities;

	for (size_t i = 0; i < ARRAY_SIZE(abilities); i++) {
		bool has = (can & abilities[i].ability) != 0;

		note(a, has ? "ok" : "warn", abilities[i].name,
		     has ? abilities[i].can : abilities[i].cannot);
	}
	if (can & SHIM_CAN_SETUID)
		note(a, "ok", "user", "workloads run as the user who starts them");
	else
		note(a, "warn", "user", "the service is not root: workloads run as its own user alone");
}

static void note_places(struct asked *a)
{
	char text[128];

	if (a->disk_error != 0)
		note(a, "fail", "sessions", strerrordesc_np(a->disk_error));
	else if (!a->writable)
		note(a, "fail", "sessions", "the sessions directory cannot be written to");
	else {
		(void)snprintf(text, sizeof(text), "writable, %llu MiB free",
			       (unsigned long long)(a->disk_free_bytes >> 20));
		note(a, a->disk_free_bytes < DISK_WARN_BYTES ? "warn" : "ok", "sessions", text);
	}
	note(a, a->has_group ? "ok" : "warn", "group.cloop",
	     a->has_group ? "its members start work" : "missing: root alone starts work (groupadd cloop)");
	note(a, a->has_admin_group ? "ok" : "warn", "group.cloop-admin",
	     a->has_admin_group ? "its members administer"
				: "missing: root alone administers (groupadd cloop-admin)");
}

static bool has_group(const char *name)
{
	AUTO_FREE char *text = malloc(GROUP_TEXT_BYTES);
	struct group group, *found = NULL;

	return text && getgrnam_r(name, &group, text, GROUP_TEXT_BYTES, &found) == 0 && found;
}

/* On the thread pool: a disk or a name service may take its time. */
static void look(uv_work_t *work)
{
	struct asked *a = work->data;
	struct statvfs st;

	if (fstatvfs(a->sessions_fd, &st) < 0)
		a->disk_error = errno;
	else
		a->disk_free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	a->writable = faccessat(a->sessions_fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
	a->has_group = has_group("cloop");
	a->has_admin_group = has_group("cloop-admin");
}

static void looked(uv_work_t *work, int status)
{
	struct asked *a = work->data;
	struct error err;

	a->sessions_fd = close_fd(a->sessions_fd);
	if (!a->owner || status < 0) {
		asked_free(a);
		return;
	}
	a->work.data = NULL;
	note_abilities(a);
	note_places(a);
	if (shim_client_ping(a->owner->options.client, launcher_seen, a, &err) < 0)
		launcher_seen(a, &err);
}

int host_preflight(struct host_probes *h, const struct executor_probe *probe,
		   executor_preflight_fn *done, void *user, struct error *err)
{
	const struct executor_health_check *check = &probe->config->health_check;
	struct asked *a = asked_new(h, probe, user);

	if (!a)
		return error_oom(err);
	a->preflighted = done;
	a->check.timeout_ms = check->timeout_ms;
	if (check->n_argv > 0) {
		/* With the NULL at its end. */
		a->check.argv = calloc(check->n_argv + 1, sizeof(char *));
		if (!a->check.argv) {
			asked_free(a);
			return error_oom(err);
		}
		for (; a->check.n_argv < check->n_argv; a->check.n_argv++) {
			a->check.argv[a->check.n_argv] = strdup(check->argv[a->check.n_argv]);
			if (!a->check.argv[a->check.n_argv]) {
				asked_free(a);
				return error_oom(err);
			}
		}
	}
	a->sessions_fd = fcntl(h->options.sessions_fd, F_DUPFD_CLOEXEC, 3);
	int r = a->sessions_fd < 0 ? -errno : 0;
	a->work.data = a;
	if (r == 0)
		r = uv_queue_work(h->options.loop, &a->work, look, looked);
	if (r < 0) {
		a->sessions_fd = close_fd(a->sessions_fd);
		asked_free(a);
		return error_set(err, -r, "the host cannot be looked at: %s", uv_strerror(r));
	}
	return 0;
}
