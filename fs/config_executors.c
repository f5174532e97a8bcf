#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fleet.h"
#include "core/fleet_policy.h"
#include "core/json.h"
#include "core/owner.h"
#include "core/store/event.h"
#include "core/store/store.h"
#include "core/strlist.h"
#include "fs/config_internal.h"
#include "fs/context.h"
#include "fs/fleet_change.h"
#include "fs/watch.h"

/* --- changes of the fleet that no request asks for ------------------------------------------ */

struct config_op {
	struct store_op op; /* first */
	struct config_dir *cd;
	struct fleet_change change;
};

static int apply_op(struct store_tx *tx, struct store_op *op, struct error *err)
{
	return fleet_change_apply(tx, &((struct config_op *)op)->change, err);
}

static void op_free(struct config_op *op)
{
	fleet_change_clear(&op->change);
	free(op);
}

static void op_done(struct store_op *op, int result, const struct error *err)
{
	struct config_op *o = (struct config_op *)op;
	struct config_dir *cd = o->cd;

	if (result >= 0) {
		fleet_change_done(cd->hub, &o->change);
	} else {
		struct executor *e = fleet_get(cd->hub->fleet, o->change.serial);

		if (e && o->change.kind == FLEET_REMOVE)
			e->removing = false;
		hub_log("executor %s cannot be changed as its file says: %s", o->change.name, err->reason);
	}
	op_free(o);
	config_dir_op_done(cd, result < 0);
}

/* A change to be completed and submitted; NULL when out of memory. */
static struct config_op *op_begin(struct config_dir *cd, enum fleet_change_kind kind, int64_t serial,
				  const char *id)
{
	struct config_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->cd = cd;
	op->op = (struct store_op){.apply = apply_op, .done = op_done};
	op->change = (struct fleet_change){
		.kind = kind,
		.serial = serial,
		.uid = cd->hub->uid,
		.at_ns = clock_now_ns(),
		.name = strdup(id),
		.source = EXECUTOR_SOURCE_FILE,
		.reason = strdup(""),
	};
	if (asprintf(&op->change.file, CONFIG_EXECUTORS_DIR "/%s.json", id) < 0)
		op->change.file = NULL;
	if (op->change.name && op->change.reason && op->change.file)
		return op;
	op_free(op);
	return NULL;
}

static void op_submit(struct config_op *op)
{
	op->cd->n_ops++;
	store_submit(op->cd->hub->store, &op->op);
}

/* Memory is back by the next look. */
static void out_of_memory(struct config_dir *cd)
{
	hub_log("out of memory while looking at the configuration directory");
	cd->again = true;
}

/* --- what a file that is there means -------------------------------------------------------- */

static int set_config(struct config_op *op, const struct config_entry *entry)
{
	op->change.config_text = strdup(entry->text);
	op->change.config_kind = strdup(entry->config.kind);
	return op->change.config_text && op->change.config_kind ? 0 : -ENOMEM;
}

/* Registers it, or with an error only shows it. */
static void add(struct config_dir *cd, const struct config_entry *entry, const char *error)
{
	struct hub *hub = cd->hub;
	struct config_op *op = op_begin(cd, FLEET_ADD, fleet_next_serial(hub->fleet), entry->id);
	int r = op ? 0 : -ENOMEM;

	if (op && error) {
		op->change.config_error = strdup(error);
		r = op->change.config_error ? 0 : -ENOMEM;
	} else if (op) {
		r = set_config(op, entry);
	}
	if (r == 0) {
		op_submit(op);
		return;
	}
	if (op)
		op_free(op);
	out_of_memory(cd);
}

static void configure(struct config_dir *cd, const struct executor *e, const struct config_entry *entry)
{
	struct config_op *op = op_begin(cd, FLEET_CONFIGURE, e->record.serial, e->record.name);

	if (op && set_config(op, entry) == 0) {
		op_submit(op);
		return;
	}
	if (op)
		op_free(op);
	out_of_memory(cd);
}

/* Shows what is wrong; "" when nothing is any more. */
static void set_error(struct config_dir *cd, const struct executor *e, const char *error)
{
	if (strcmp(e->record.config_error, error) == 0)
		return;
	struct config_op *op = op_begin(cd, FLEET_CONFIG_ERROR, e->record.serial, e->record.name);
	char *copy = op ? strdup(error) : NULL;

	if (!copy) {
		if (op)
			op_free(op);
		out_of_memory(cd);
		return;
	}
	op->change.config_error = copy;
	if (error[0])
		hub_log("%s", error);
	op_submit(op);
}

/* Why its last cordon was laid, if it was because of its file. */
static char *cordon_reason(const char *id)
{
	char *reason;

	return asprintf(&reason, "its file " CONFIG_EXECUTORS_DIR "/%s.json was removed", id) < 0 ? NULL
												: reason;
}

static void change_state(struct config_dir *cd, const struct executor *e, enum fleet_change_kind kind,
			 char *reason)
{
	struct config_op *op = op_begin(cd, kind, e->record.serial, e->record.name);

	if (!op) {
		free(reason);
		out_of_memory(cd);
		return;
	}
	if (reason) {
		free(op->change.reason);
		op->change.reason = reason;
	}
	op_submit(op);
}

static bool is_cordoned_by_file(const struct executor *e)
{
	AUTO_FREE char *reason = cordon_reason(e->record.name);

	return reason && node_state_parse(e->record.health.state) == NODE_CORDONED &&
	       strcmp(e->record.health.reason, reason) == 0;
}

/* The file is there (again): what was laid on it because it was not is lifted. */
static void stay(struct config_dir *cd, struct executor *e)
{
	e->leaving = false;
	if (is_cordoned_by_file(e))
		change_state(cd, e, FLEET_UNCORDON, NULL);
}

static char *sentence_of(const struct config_entry *entry, const struct error *err)
{
	char text[ERROR_REASON_MAX + ERROR_FIELD_MAX + ERROR_REMEDY_MAX];
	char *sentence;

	(void)error_sentence(err, text, sizeof(text));
	return asprintf(&sentence, "%s: %s", entry->file, text) < 0 ? NULL : sentence;
}

static void decide_taken(struct config_dir *cd, const struct executor *e, const struct config_entry *entry)
{
	struct error err;

	(void)error_set(&err, EEXIST, "there is an executor %s already that does not come from a file",
			entry->id);
	error_remedy(&err, "rename the file, or rmdir executors/%s", entry->id);
	AUTO_FREE char *sentence = sentence_of(entry, &err);
	if (sentence)
		set_error(cd, e, sentence);
	else
		out_of_memory(cd);
}

static void decide(struct config_dir *cd, const struct config_entry *entry)
{
	struct fleet *fleet = cd->hub->fleet;
	struct executor *e = fleet_find(fleet, entry->id);
	struct error err = entry->err;

	if (e && e->record.source != EXECUTOR_SOURCE_FILE) {
		decide_taken(cd, e, entry);
		return;
	}
	if (e && e->removing)
		return; /* its end is being committed: seen by the look after that */
	int r = entry->result;
	bool same = r == 0 && e && strcmp(e->record.config, entry->text) == 0;
	if (r == 0 && !same)
		r = fleet_check_config(fleet, entry->id, e, &entry->config, &err);
	if (e)
		stay(cd, e);
	if (r < 0) {
		AUTO_FREE char *sentence = sentence_of(entry, &err);

		if (!sentence)
			out_of_memory(cd);
		else if (e)
			set_error(cd, e, sentence);
		else
			add(cd, entry, sentence);
	} else if (!e) {
		add(cd, entry, NULL);
	} else if (!same || e->record.config_error[0]) {
		configure(cd, e, entry);
	}
}

/* --- what a file that is not there means ---------------------------------------------------- */

void config_executor_leaves(struct config_dir *cd, int64_t serial)
{
	struct executor *e = fleet_get(cd->hub->fleet, serial);
	struct config_op *op = op_begin(cd, FLEET_REMOVE, serial, e->record.name);

	if (!op) {
		out_of_memory(cd);
		return;
	}
	e->removing = true;
	cd->again = true; /* the file may come back before this is committed */
	op_submit(op);
}

static void leave(struct config_dir *cd, struct executor *e)
{
	if (e->removing)
		return;
	e->leaving = true;
	if (e->inflight == 0)
		config_executor_leaves(cd, e->record.serial);
	else if (!node_state_admin_held(node_state_parse(e->record.health.state)))
		change_state(cd, e, FLEET_CORDON, cordon_reason(e->record.name));
}

/* --- files that are no executor's ----------------------------------------------------------- */

struct told_op {
	struct store_op op; /* first */
	struct config_dir *cd;
	int64_t at_ns;
	char *event;
};

static int apply_told(struct store_tx *tx, struct store_op *op, struct error *err)
{
	const struct told_op *t = (const struct told_op *)op;

	return event_append(tx, t->at_ns, t->event, NULL, err);
}

static void told(struct store_op *op, int result, const struct error *err)
{
	struct told_op *t = (struct told_op *)op;
	struct config_dir *cd = t->cd;

	(void)err; /* the log has the sentence */
	if (result >= 0)
		hub_event(cd->hub);
	free(t->event);
	free(t);
	config_dir_op_done(cd, result < 0);
}

static void tell(struct config_dir *cd, const char *file, const char *sentence)
{
	struct told_op *t = calloc(1, sizeof(*t));
	AUTO_JSON json_t *o = json_object();

	hub_log("%s", sentence);
	if (t && o && json_put_string(o, "type", "config.refused") == 0 &&
	    json_put_string(o, "file", file) == 0 && json_put_string(o, "reason", sentence) == 0)
		t->event = json_text(o);
	if (!t || !t->event) {
		free(t);
		return;
	}
	t->op = (struct store_op){.apply = apply_told, .done = told};
	t->cd = cd;
	t->at_ns = clock_now_ns();
	cd->n_ops++;
	store_submit(cd->hub->store, &t->op);
}

/* Takes the sentence. Says it unless that was done before, and keeps it among those that hold now. */
static void complain(struct config_dir *cd, const char *file, char *sentence, char **now, size_t *n)
{
	if (!sentence)
		return;
	if (!strlist_contains(cd->complaints, cd->n_complaints, sentence))
		tell(cd, file, sentence);
	now[(*n)++] = sentence;
}

static void complain_of_all(struct config_dir *cd)
{
	const struct config_snapshot *s = &cd->snapshot;
	char **now = calloc(s->n + 2, sizeof(*now));
	size_t n = 0;

	if (!now)
		return; /* said at the next look */
	if (s->dir_result < 0)
		complain(cd, CONFIG_EXECUTORS_DIR, strdup(s->dir_err.reason), now, &n);
	for (size_t i = 0; i < s->n; i++)
		if (!s->entries[i].id)
			complain(cd, s->entries[i].file, sentence_of(&s->entries[i], &s->entries[i].err), now,
				 &n);
	(void)strlist_free(cd->complaints, cd->n_complaints);
	cd->complaints = now;
	cd->n_complaints = n;
}

/* --- all of it ------------------------------------------------------------------------------ */

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Executors whose file is not among the ids. A FLEET_REMOVE follows later, so the list stays. */
static void decide_absent(struct config_dir *cd, const char **ids, size_t n)
{
	struct executor *e;

	for (size_t i = 0; (e = fleet_at(cd->hub->fleet, i)); i++) {
		const char *id = e->record.name;

		if (bsearch(&id, ids, n, sizeof(*ids), compare_ids))
			continue;
		if (e->record.source == EXECUTOR_SOURCE_FILE)
			leave(cd, e);
		else if (e->record.config_error[0])
			set_error(cd, e, ""); /* nothing takes its id any more */
	}
}

void config_executors_reconcile(struct config_dir *cd)
{
	const struct config_snapshot *s = &cd->snapshot;
	const char **ids = calloc(s->n + 1, sizeof(*ids));
	size_t n = 0;

	complain_of_all(cd);
	if (!ids) {
		out_of_memory(cd);
		return;
	}
	if (s->dir_result == 0) {
		for (size_t i = 0; i < s->n; i++) {
			if (!s->entries[i].id)
				continue;
			ids[n++] = s->entries[i].id;
			decide(cd, &s->entries[i]);
		}
		qsort(ids, n, sizeof(*ids), compare_ids);
		decide_absent(cd, ids, n);
	}
	free(ids);
}
