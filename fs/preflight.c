#include "fs/preflight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/executor.h"
#include "core/fleet.h"
#include "core/owner.h"
#include "core/text.h"
#include "drivers/shim/log_reader.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/fleet_change.h"
#include "fs/logs.h"
#include "fs/supervise.h"
#include "fs/tables.h"
#include "fs/watch.h"

/* A workload that proves the whole way: argv, both streams, the log, the exit code. */
#define SMOKE_SPEC                                                                                 \
	"{\"argv\":[\"/bin/sh\",\"-c\",\"echo cloop smoke; echo cloop smoke >&2; exit 7\"],"       \
	"\"timeout_minutes\":1,\"labels\":{\"cloop.smoke\":\"true\"}}"
#define SMOKE_OUTPUT "cloop smoke\n"
#define SMOKE_EXIT_CODE 7
/* What the reason of an executor's state begins with. */
#define PREFLIGHT_REASON "preflight: "

struct preflight {
	LIST_ENTRY(preflight) entry;
	struct change *change;
	char *id;
	bool smoke;
	bool asked; /* the driver */
	struct buf report;
	uint32_t session;   /* the smoke that runs, or has ended; 0: none */
	char *session_name;
	bool session_ended;
	uint32_t take_back; /* a smoke whose start failed after its row was written; 0: none */
	struct fleet_change health;
};

static void preflight_free(void *data)
{
	struct preflight *p = data;

	LIST_REMOVE(p, entry);
	buf_free(&p->report);
	fleet_change_clear(&p->health);
	free(p->id);
	free(p->session_name);
	free(p);
}

static const struct executor *executor_at(const struct view *v)
{
	return fleet_get(v->hub->fleet, v->node.serial);
}

int preflight_render(const struct view *v, struct buf *out)
{
	AUTO_FREE char *report = NULL;

	if (!executor_at(v))
		return -ESTALE;
	int r = executor_record_get_preflight(store_reader(v->hub->store), v->node.serial, NULL, &report,
					      NULL);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	buf_puts(out, report);
	return out->failed;
}

int64_t preflight_changed(const struct view *v)
{
	int64_t at_ns = 0;

	if (executor_record_get_preflight(store_reader(v->hub->store), v->node.serial, &at_ns, NULL,
					  NULL) < 0)
		return 0;
	return at_ns;
}

/* --- the end -------------------------------------------------------------------------------- */

static int apply(struct store_tx *tx, struct change *c, struct error *err)
{
	struct preflight *p = c->data;

	int r = fleet_change_apply(tx, &p->health, err);
	if (r >= 0)
		r = executor_record_set_preflight(tx, p->health.serial, p->health.at_ns, p->report.data,
						  err);
	if (r >= 0 && p->take_back)
		r = dispatch_apply_take_back(tx, p->take_back, err);
	if (r >= 0 && p->session_ended)
		r = dispatch_apply_remove(tx, p->session, c->uid, p->health.at_ns, err);
	return r;
}

static void committed(struct change *c)
{
	struct preflight *p = c->data;
	const struct node file = {.kind = NODE_EXECUTOR,
				  .serial = (uint32_t)p->health.serial,
				  .file = node_find(&executor_dir, "preflight")};

	supervise_probed(c->hub, &p->health);
	watch_modified(c->hub, file);
	if (p->take_back)
		dispatch_taken_back(c->hub->dispatch, p->take_back);
	if (p->session_ended) {
		logs_forget(c->hub, p->session);
		dispatch_removed(c->hub->dispatch, p->session, p->session_name);
	}
}

static void not_committed(struct change *c)
{
	const struct preflight *p = c->data;

	if (p->take_back)
		dispatch_give_up(c->hub->dispatch, p->take_back, &c->err);
}

int preflight_judge(const char *report, char **ret_reason)
{
	AUTO_FREE char *reason = NULL;
	int n = 0;

	for (const char *line = report; *line; line += strcspn(line, "\n") + 1) {
		size_t len = strcspn(line, "\n");

		if (strncmp(line, "fail ", 5) == 0 && n++ == 0 &&
		    asprintf(&reason, "%s%.*s", PREFLIGHT_REASON, (int)(len - 5), line + 5) < 0) {
			reason = NULL;
			return -ENOMEM;
		}
		if (line[len] == '\0')
			break;
	}
	*ret_reason = take_ptr(reason);
	return n;
}

static void conclude(struct preflight *p)
{
	struct change *c = p->change;
	int failed = p->report.failed;

	if (failed == 0)
		failed = preflight_judge(p->report.data ? p->report.data : "", &p->health.reason);
	p->health.kind = FLEET_PROBED;
	p->health.serial = c->node.serial;
	p->health.uid = c->uid;
	p->health.at_ns = clock_now_ns();
	p->health.policy = supervise_config(c->hub)->policy;
	p->health.name = strdup(p->id);
	if (failed < 0 || !p->report.data || !p->health.name) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	c->apply = apply;
	c->committed = committed;
	c->undo = not_committed;
	if (failed == 0) {
		change_commit(c);
		return;
	}
	(void)error_set(&c->err, EIO, "%d of its checks failed: %s", failed,
			p->health.reason + strlen(PREFLIGHT_REASON));
	error_remedy(&c->err, "cat executors/%s/preflight", p->id);
	change_commit_refusal(c);
}

/* --- the smoke ------------------------------------------------------------------------------ */

static void smoke_failed(struct preflight *p, const char *what)
{
	buf_printf(&p->report, "fail smoke: %s\n", what);
	conclude(p);
}

static bool stream_is_whole(struct hub *hub, uint32_t serial, enum log_view view)
{
	char text[sizeof(SMOKE_OUTPUT) + 1];
	struct log_reader *reader;
	int error = 0;

	logs_forget(hub, serial); /* what a reader knew of a running one */
	reader = logs_get(hub, serial, &error);
	if (!reader)
		return false;
	ssize_t n = log_reader_pread(reader, view, text, sizeof(text), 0, NULL);
	return n == (ssize_t)strlen(SMOKE_OUTPUT) && memcmp(text, SMOKE_OUTPUT, (size_t)n) == 0;
}

static void smoke_ended(struct preflight *p, const struct session *s)
{
	struct hub *hub = p->change->hub;
	char what[ERROR_REASON_MAX];

	p->session_ended = true;
	if (s->state == SESSION_EXITED && s->exit_code == SMOKE_EXIT_CODE) {
		if (!stream_is_whole(hub, p->session, LOG_VIEW_STDOUT) ||
		    !stream_is_whole(hub, p->session, LOG_VIEW_STDERR)) {
			smoke_failed(p, "the session's log is not what it printed");
			return;
		}
		buf_puts(&p->report, "ok smoke: a session ran to its end, and its log is whole\n");
		conclude(p);
		return;
	}
	(void)snprintf(what, sizeof(what), "the session ended as %s, with code %d%s%s",
		       session_state_name(s->state), s->exit_code, s->error[0] ? ": " : "", s->error);
	smoke_failed(p, what);
}

static void smoke_started(void *user, const struct session *s, const struct error *err,
			  uint32_t row)
{
	struct preflight *p = user;
	char sentence[ERROR_REASON_MAX + ERROR_FIELD_MAX + ERROR_REMEDY_MAX];

	if (err) {
		p->take_back = row;
		(void)error_sentence(err, sentence, sizeof(sentence));
		smoke_failed(p, sentence);
		return;
	}
	p->session_name = strdup(s->name);
	if (!p->session_name) {
		smoke_failed(p, "out of memory");
		return;
	}
	p->session = (uint32_t)s->serial;
	if (session_state_finished(s->state))
		smoke_ended(p, s);
}

void preflight_session_changed(struct hub *hub, uint32_t serial)
{
	struct preflight *p;

	for (p = LIST_FIRST(&hub->preflights); p; p = LIST_NEXT(p, entry)) {
		const struct session *s;

		if (p->session != serial || p->session_ended)
			continue;
		s = dispatch_get(hub->dispatch, serial);
		if (s && session_state_finished(s->state))
			smoke_ended(p, s);
		return;
	}
}

static void smoke(struct preflight *p)
{
	struct change *c = p->change;
	const uint64_t mount = area_header(c->hub->area)->mount_id, unique = c->unique & INT64_MAX;
	AUTO_SPEC struct spec *spec = NULL;
	char sentence[ERROR_REASON_MAX + ERROR_FIELD_MAX + ERROR_REMEDY_MAX];
	struct error err;

	if (c->replayed && dispatch_resume(c->hub->dispatch, mount, unique, smoke_started, p))
		return;
	int r = spec_parse(SMOKE_SPEC, strlen(SMOKE_SPEC), &spec, &err);
	struct dispatch_start start = {
		.executor = fleet_get(c->hub->fleet, c->node.serial),
		.spec = spec,
		.uid = c->uid,
		.gid = c->gid,
		.groups = c->groups,
		.n_groups = c->n_groups,
		.origin_mount = mount,
		.origin_unique = unique,
	};
	if (r >= 0 && !start.executor)
		r = error_set(&err, ESTALE, "the executor was removed");
	if (r >= 0) {
		r = dispatch_start(c->hub->dispatch, &start, smoke_started, p, &err);
		spec = start.spec;
	}
	if (r < 0) {
		(void)error_sentence(&err, sentence, sizeof(sentence));
		smoke_failed(p, sentence);
	}
}

/* --- the beginning -------------------------------------------------------------------------- */

static void reported(void *user, const char *report, const struct error *err)
{
	struct preflight *p = user;
	struct change *c = p->change;

	if (err) {
		c->err = *err;
		change_refuse(c);
		return;
	}
	buf_puts(&p->report, report);
	if (p->smoke)
		smoke(p);
	else
		conclude(p);
}

static void ask_driver(struct preflight *p)
{
	struct change *c = p->change;
	const struct executor *e = fleet_get(c->hub->fleet, c->node.serial);
	int r;

	p->asked = true;
	if (!e || !e->driver || !e->driver->ops->preflight) {
		r = error_set(&c->err, ESTALE, "the executor was removed");
	} else {
		struct executor_probe request = supervise_request(c->hub, e);

		r = e->driver->ops->preflight(e->driver, &request, reported, p, &c->err);
	}
	if (r < 0)
		change_refuse(c);
}

void preflight_start(struct hub *hub)
{
	struct preflight *p, *next;

	for (p = LIST_FIRST(&hub->preflights); p; p = next) {
		next = LIST_NEXT(p, entry);
		if (!p->asked)
			ask_driver(p);
	}
}

static int begin(struct change *c, const struct executor *e, bool smoke)
{
	struct preflight *p = calloc(1, sizeof(*p));

	if (!p)
		return error_oom(&c->err);
	LIST_INSERT_HEAD(&c->hub->preflights, p, entry);
	c->data = p;
	c->data_free = preflight_free;
	p->change = c;
	p->smoke = smoke;
	p->report = BUF_INIT(PREFLIGHT_REPORT_BYTES_MAX + ERROR_REASON_MAX + ERROR_FIELD_MAX);
	p->id = strdup(e->record.name);
	if (!p->id)
		return error_oom(&c->err);
	/* One that is replayed comes before the drivers are ready. */
	if (supervise_started(c->hub))
		ask_driver(p);
	return 0;
}

void preflight_command(struct change *c, const char *command)
{
	const struct executor *e = fleet_get(c->hub->fleet, c->node.serial);
	struct text_view word = text_trim(command, strlen(command));
	bool run = word.len == 3 && strncmp(word.data, "run", 3) == 0;
	bool smoke = word.len == 5 && strncmp(word.data, "smoke", 5) == 0;

	if (!e) {
		(void)error_set_kind(&c->err, ESTALE, ERROR_EXECUTOR_NOT_FOUND, "the executor was removed");
	} else if (!run && !smoke) {
		(void)error_set(&c->err, EINVAL, "no such command for a preflight");
		error_remedy(&c->err, "write run, or smoke to also run a workload");
	} else if (!e->driver) {
		(void)error_set(&c->err, EHOSTUNREACH, "executor %s is not configured", e->record.name);
		error_remedy(&c->err, "write its config first");
	} else if (!e->driver->ops->preflight) {
		(void)error_set(&c->err, EOPNOTSUPP, "executors of kind %s have no preflight",
				e->config.kind);
	} else if (begin(c, e, smoke) >= 0) {
		return;
	}
	change_refuse(c);
}
