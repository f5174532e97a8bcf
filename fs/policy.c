#include "fs/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/policy.h"
#include "core/store/event.h"
#include "core/text.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/settings.h"
#include "fs/tables.h"
#include "fs/watch.h"

/* What a written denial commits. */
struct denial {
	struct policy_record before;
	int64_t at_ns;
	char *event;
};

static int render_host_execution(const struct view *v, struct buf *out)
{
	buf_puts(out, settings_policy(v->hub).origin == POLICY_ALLOWED ? "allowed\n" : "denied\n");
	return out->failed;
}

static int64_t policy_changed(const struct view *v)
{
	return settings_policy(v->hub).since_ns;
}

static void denial_free(void *data)
{
	struct denial *d = data;

	free(d->event);
	free(d);
}

static int apply_denial(struct store_tx *tx, struct change *c, struct error *err)
{
	const struct denial *d = c->data;

	int r = policy_record_forbid(tx, POLICY_FORBIDDEN_BY_HAND, d->at_ns, err);
	return r < 0 ? r : event_append(tx, d->at_ns, d->event, NULL, err);
}

static void denied(struct change *c)
{
	hub_event(c->hub);
	watch_modified(c->hub, policy_node());
}

static void not_denied(struct change *c)
{
	const struct denial *d = c->data;

	settings_set_policy(c->hub, d->before);
}

static char *event_text(uid_t uid)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "type", "config.policy") < 0 || json_put_int(o, "uid", uid) < 0 ||
	    json_put_string(o, "host_execution", "denied") < 0)
		return NULL;
	return json_text(o);
}

static void deny(struct change *c)
{
	struct denial *d = calloc(1, sizeof(*d));

	c->data = d;
	c->data_free = denial_free;
	if (d) {
		d->before = settings_policy(c->hub);
		d->at_ns = clock_now_ns();
		d->event = event_text(c->uid);
	}
	if (!d || !d->event) {
		if (!d)
			c->data_free = NULL;
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	const struct policy_record forbidden = {
		.origin = POLICY_FORBIDDEN_BY_HAND,
		.since_ns = d->before.since_ns ? d->before.since_ns : d->at_ns,
	};
	settings_set_policy(c->hub, forbidden);
	c->apply = apply_denial;
	c->committed = denied;
	c->undo = not_denied;
	change_commit(c);
}

static void command_host_execution(struct change *c, const char *command)
{
	struct text_view word = text_trim(command, strlen(command));
	bool allow = word.len == 7 && memcmp(word.data, "allowed", 7) == 0;
	enum policy_origin now = settings_policy(c->hub).origin;

	if (!allow && (word.len != 6 || memcmp(word.data, "denied", 6) != 0)) {
		(void)error_set(&c->err, EINVAL, "no such policy");
		error_remedy(&c->err, "write denied");
		change_refuse(c);
	} else if (allow && now != POLICY_ALLOWED) {
		(void)error_set(&c->err, EPERM, "host execution can only be tightened while the daemon runs");
		error_remedy(&c->err, "restart with a permissive configuration: set "
				      "executors.allow_host_process to true in hub.json, and restart");
		change_refuse(c);
	} else if (allow || now == POLICY_FORBIDDEN_BY_HAND) {
		change_finish(c);
	} else {
		deny(c);
	}
}

static const struct node_file policy_files[] = {
	{.name = "host_execution", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN,
	 .render = render_host_execution, .changed = policy_changed, .command = command_host_execution,
	 .doc = "`allowed` or `denied`: whether workloads may run on executors that do not isolate them from "
		"this host. Write `denied` to forbid it from now on; allowing it again takes hub.json and a "
		"restart."},
};

const struct node_dir policy_dir = {
	.kind = NODE_POLICY,
	.path = "/policy",
	.doc = "What may run at all.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.files = policy_files,
	.n_files = ARRAY_SIZE(policy_files),
};

struct node policy_node(void)
{
	return (struct node){.kind = NODE_POLICY, .file = node_find(&policy_dir, "host_execution")};
}
