#include "fs/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/fleet.h"
#include "core/json.h"
#include "core/owner.h"
#include "core/store/event.h"
#include "core/store/meta.h"
#include "core/store/store.h"
#include "fs/area.h"
#include "fs/config_dir.h"
#include "fs/config_scan.h"
#include "fs/context.h"
#include "fs/policy.h"
#include "fs/retention.h"
#include "fs/supervise.h"
#include "fs/watch.h"

#define META_TEXT "hub_config"
#define META_MOUNT "hub_config_mount"

struct settings {
	struct hub_config config; /* in force */
	char *text;               /* what it was read from; "" for no file */
	struct policy_record policy;
	char *refused; /* what is wrong with the file as it is now; NULL: nothing */
	char *waiting; /* the text of which a part waits for a restart; NULL: nothing waits */
	bool busy;     /* a change is being committed */
	bool missed;   /* the file was looked at meanwhile */
};

const struct hub_config *settings_get(const struct hub *hub)
{
	return &hub->settings->config;
}

struct policy_record settings_policy(const struct hub *hub)
{
	return hub->settings->policy;
}

void settings_set_policy(struct hub *hub, struct policy_record policy)
{
	hub->settings->policy = policy;
	(void)host_policy_set(fleet_host_policy(hub->fleet), policy.origin == POLICY_ALLOWED);
}

void settings_apply(struct hub *hub)
{
	struct dispatch_limits *limits = dispatch_limits(hub->dispatch);
	const struct hub_config *c = &hub->settings->config;

	limits->log_quota_bytes = (uint64_t)c->log_quota_bytes;
	limits->disk_floor_bytes = c->disk_floor_bytes;
	dispatch_set_max_attempts(hub->dispatch, c->failover_max_attempts);
	settings_set_policy(hub, hub->settings->policy);
	if (hub->retention)
		retention_look(hub);
	if (hub->supervise)
		supervise_configure(hub, &c->supervisor);
}

void settings_status(struct hub *hub, struct buf *out)
{
	const struct settings *s = hub->settings;

	if (s->refused)
		buf_printf(out, "warning: %s; the settings before it are in force\n", s->refused);
	if (s->waiting)
		buf_puts(out, "warning: " HUB_CONFIG_NAME " allows host execution, which waits for a restart\n");
}

struct settings *settings_free(struct settings *s)
{
	if (!s)
		return NULL;
	free(s->text);
	free(s->refused);
	free(s->waiting);
	free(s);
	return NULL;
}

/* "hub.json: retention.age: is no duration; write …". */
static char *sentence_of(const struct error *err)
{
	char text[ERROR_REASON_MAX + ERROR_FIELD_MAX + ERROR_REMEDY_MAX];
	char *sentence;

	(void)error_sentence(err, text, sizeof(text));
	return asprintf(&sentence, HUB_CONFIG_NAME ": %s", text) < 0 ? NULL : sentence;
}

/* --- the start ------------------------------------------------------------------------------ */

struct begin_op {
	struct store_op op; /* first */
	uint64_t mount_id;
	const struct config_snapshot *file;
	struct settings *settings;
	int result;
	struct error err;
};

/* Takes over what an earlier hub of this mount had in force. Returns 1 when there is such. */
static int take_over(struct store_tx *tx, struct begin_op *b, struct error *err)
{
	AUTO_FREE char *text = NULL;
	int64_t mount = 0;

	int r = meta_get_int(tx, META_MOUNT, &mount, err);
	if (r >= 0 && mount == (int64_t)(b->mount_id & INT64_MAX))
		r = meta_get_text(tx, META_TEXT, &text, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!text)
		return 0;
	struct hub_config config = hub_config_default();
	/* What another build of cloop took may mean nothing to this one: then the file decides. */
	if (text[0] && hub_config_parse(text, strlen(text), &config, NULL) < 0)
		return 0;
	b->settings->config = config;
	b->settings->text = take_ptr(text);
	return 1;
}

static int take_file(struct store_tx *tx, struct begin_op *b, struct error *err)
{
	const struct config_snapshot *file = b->file;

	if (file->hub_result < 0 && file->hub_result != -ENOENT) {
		AUTO_FREE char *sentence = sentence_of(&file->hub_err);

		int r = error_set(err, -file->hub_result, "%s", sentence ? sentence : HUB_CONFIG_NAME);
		error_remedy(err, "correct the file, or remove it to serve with the defaults");
		return r;
	}
	b->settings->config = file->hub;
	b->settings->text = file->hub_text ? strdup(file->hub_text) : NULL;
	if (!b->settings->text)
		return error_oom(err);
	int r = meta_set_int(tx, META_MOUNT, (int64_t)(b->mount_id & INT64_MAX), err);
	return r < 0 ? r : meta_set_text(tx, META_TEXT, b->settings->text, err);
}

static int apply_begin(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct begin_op *b = (struct begin_op *)op;

	int r = take_over(tx, b, err);
	if (r == 0)
		r = take_file(tx, b, err);
	return r < 0 ? r
		     : policy_record_begin(tx, b->mount_id, b->settings->config.host_process,
					   clock_now_ns(), &b->settings->policy, err);
}

static void begun(struct store_op *op, int result, const struct error *err)
{
	struct begin_op *b = (struct begin_op *)op;

	b->result = result;
	if (result < 0)
		b->err = *err;
}

int settings_begin(struct hub *hub, struct error *err)
{
	static struct driver *const no_drivers[] = {NULL};
	CLEANUP(config_snapshot_clear) struct config_snapshot file;
	struct settings *s = calloc(1, sizeof(*s));
	struct begin_op b = {
		.op = {.apply = apply_begin, .done = begun},
		.mount_id = area_header(hub->area)->mount_id,
		.file = &file,
		.settings = s,
	};

	config_scan(hub->options->config_dir, no_drivers, -1, true, &file);
	if (!s)
		return error_oom(err);
	store_submit(hub->store, &b.op);
	store_flush(hub->store);
	if (b.result < 0) {
		(void)settings_free(s);
		*err = b.err;
		return b.result;
	}
	hub->settings = s;
	return 0;
}

/* --- later ---------------------------------------------------------------------------------- */

struct settings_op {
	struct store_op op; /* first */
	struct hub *hub;
	int64_t at_ns;
	char *event;
	char *text; /* NULL: nothing is taken */
	struct hub_config config;
	bool forbids;
};

static int apply_settings(struct store_tx *tx, struct store_op *op, struct error *err)
{
	struct settings_op *s = (struct settings_op *)op;
	int r = 0;

	if (s->text)
		r = meta_set_text(tx, META_TEXT, s->text, err);
	if (r >= 0 && s->forbids)
		r = policy_record_forbid(tx, POLICY_FORBIDDEN_BY_FILE, s->at_ns, err);
	return r < 0 ? r : event_append(tx, s->at_ns, s->event, NULL, err);
}

static void op_free(struct settings_op *op)
{
	free(op->event);
	free(op->text);
	free(op);
}

static void settings_committed(struct store_op *op, int result, const struct error *err)
{
	struct settings_op *s = (struct settings_op *)op;
	struct hub *hub = s->hub;
	struct settings *settings = hub->settings;

	settings->busy = false;
	if (result < 0) {
		/* Looked at again with the next scan. */
		hub_log(HUB_CONFIG_NAME ": cannot be taken: %s", err->reason);
		free(take_ptr(settings->refused));
	} else {
		if (s->text) {
			free(settings->text);
			settings->text = take_ptr(s->text);
			settings->config = s->config;
			if (s->forbids && settings->policy.origin == POLICY_ALLOWED)
				settings->policy = (struct policy_record){
					.origin = POLICY_FORBIDDEN_BY_FILE, .since_ns = s->at_ns};
			settings_apply(hub);
			watch_modified(hub, policy_node());
			hub_log(HUB_CONFIG_NAME ": taken");
		}
		hub_event(hub);
	}
	op_free(s);
	if (settings->missed) {
		settings->missed = false;
		config_dir_look(hub);
	}
}

/* Commits an event, and with text what it tells about. */
static void commit(struct hub *hub, const char *type, const char *reason, const char *text,
		   const struct hub_config *config)
{
	struct settings_op *op = calloc(1, sizeof(*op));
	AUTO_JSON json_t *o = json_object();

	if (op) {
		op->event = o && json_put_string(o, "type", type) == 0 &&
					    json_put_string(o, "file", HUB_CONFIG_NAME) == 0 &&
					    json_put_string_if(o, "reason", reason) == 0
				    ? json_text(o)
				    : NULL;
		op->text = text ? strdup(text) : NULL;
	}
	if (!op || !op->event || (text && !op->text)) {
		hub_log(HUB_CONFIG_NAME ": out of memory");
		if (op)
			op_free(op);
		return;
	}
	op->op = (struct store_op){.apply = apply_settings, .done = settings_committed};
	op->hub = hub;
	op->at_ns = clock_now_ns();
	op->config = *config;
	op->forbids = text && config->host_process == HOST_PROCESS_FORBIDDEN;
	hub->settings->busy = true;
	store_submit(hub->store, &op->op);
}

static void refuse(struct hub *hub, const struct error *err)
{
	struct settings *s = hub->settings;
	char *sentence = sentence_of(err);

	if (!sentence || (s->refused && strcmp(s->refused, sentence) == 0)) {
		free(sentence);
		return;
	}
	free(s->refused);
	s->refused = sentence;
	hub_log("%s; the settings before it stay in force", sentence);
	commit(hub, "config.refused", sentence, NULL, &s->config);
}

static void take(struct hub *hub, const struct config_snapshot *snapshot)
{
	static const char waits[] = "executors.allow_host_process waits for a restart";
	struct settings *s = hub->settings;
	bool loosens = s->policy.origin != POLICY_ALLOWED &&
		       (snapshot->hub.host_process == HOST_PROCESS_ALLOWED ||
			(s->policy.origin == POLICY_FORBIDDEN_BY_FILE &&
			 snapshot->hub.host_process == HOST_PROCESS_UNSAID));

	free(take_ptr(s->refused));
	free(take_ptr(s->waiting));
	if (loosens) {
		s->waiting = strdup(waits);
		hub_log(HUB_CONFIG_NAME ": %s", waits);
	}
	if (snapshot->hub.host_process == HOST_PROCESS_FORBIDDEN)
		(void)host_policy_set(fleet_host_policy(hub->fleet), false);
	commit(hub, "config.accepted", loosens ? waits : NULL, snapshot->hub_text, &snapshot->hub);
}

void settings_scanned(struct hub *hub, struct config_snapshot *snapshot)
{
	struct settings *s = hub->settings;

	if (s->busy) {
		s->missed = true;
		return;
	}
	if (snapshot->hub_result == -ENOENT && !snapshot->hub_text)
		return; /* out of memory: the next look comes to it */
	if (snapshot->hub_result < 0 && snapshot->hub_result != -ENOENT)
		refuse(hub, &snapshot->hub_err);
	else if (strcmp(s->text, snapshot->hub_text) != 0)
		take(hub, snapshot);
	else
		free(take_ptr(s->refused));
}
