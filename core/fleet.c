#include "core/fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/health.h"
#include "core/json.h"
#include "core/policy.h"
#include "core/registry.h"
#include "core/sorted.h"
#include "core/store/event.h"
#include "core/store/meta.h"

struct fleet {
	struct driver *const *drivers;
	struct executor **list;      /* sorted by id */
	struct executor **by_serial; /* the same ones */
	size_t n, cap;
	char *default_id; /* "" when there is none */
	int64_t last_serial;
	int64_t changed_ns;
	struct host_policy host_policy;
	void (*listener)(void *user, const struct fleet_change *c);
	void *listener_user;
};

static void executor_free(struct executor *e)
{
	executor_record_clear(&e->record);
	executor_config_clear(&e->config);
	free(e->probe_failure);
	free(e);
}

struct fleet *fleet_new(struct driver *const *drivers)
{
	struct fleet *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->drivers = drivers;
	r->default_id = strdup("");
	return r->default_id ? r : fleet_free(r);
}

struct fleet *fleet_free(struct fleet *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < r->n; i++)
		executor_free(r->list[i]);
	free(r->list);
	free(r->by_serial);
	free(r->default_id);
	free(r);
	return NULL;
}

static int compare_id(const void *item, const void *id)
{
	const struct executor *const *e = item;

	return strcmp((*e)->record.name, id);
}

/* The place of an id, or where it would go. */
static size_t place_of(const struct fleet *r, const char *id, bool *ret_found)
{
	size_t at = sorted_place(r->list, r->n, sizeof(struct executor *), id, compare_id);

	*ret_found = at < r->n && strcmp(r->list[at]->record.name, id) == 0;
	return at;
}

struct executor *fleet_find(struct fleet *r, const char *id)
{
	bool found;
	size_t i = place_of(r, id, &found);

	return found ? r->list[i] : NULL;
}

static int compare_serial(const void *item, const void *serial)
{
	const struct executor *const *e = item;

	return (*e)->record.serial < *(const int64_t *)serial ? -1 : 0;
}

/* The place of the first serial that is not lower. */
static size_t place_of_serial(const struct fleet *r, int64_t serial)
{
	return sorted_place(r->by_serial, r->n, sizeof(struct executor *), &serial, compare_serial);
}

struct executor *fleet_from(struct fleet *r, int64_t serial)
{
	size_t i = place_of_serial(r, serial);

	return i < r->n ? r->by_serial[i] : NULL;
}

struct executor *fleet_get(struct fleet *r, int64_t serial)
{
	struct executor *e = fleet_from(r, serial);

	return e && e->record.serial == serial ? e : NULL;
}

size_t fleet_len(const struct fleet *r)
{
	return r->n;
}

struct executor *fleet_at(struct fleet *r, size_t index)
{
	return index < r->n ? r->list[index] : NULL;
}

struct executor *fleet_default(struct fleet *r)
{
	return r->default_id[0] ? fleet_find(r, r->default_id) : NULL;
}

struct driver *const *fleet_drivers(const struct fleet *r)
{
	return r->drivers;
}

struct driver *fleet_driver(struct fleet *r, const char *kind)
{
	for (size_t i = 0; r->drivers[i]; i++)
		if (strcmp(r->drivers[i]->ops->kind, kind) == 0)
			return r->drivers[i];
	return NULL;
}

struct host_policy *fleet_host_policy(struct fleet *r)
{
	return &r->host_policy;
}

int64_t fleet_changed_ns(const struct fleet *r)
{
	return r->changed_ns;
}

int64_t fleet_next_serial(struct fleet *r)
{
	return ++r->last_serial;
}

/* Takes the record. A stored config that does not parse leaves the executor unconfigured. */
static void executor_set_record(struct fleet *r, struct executor *e, struct executor_record *record)
{
	executor_record_clear(&e->record);
	executor_config_clear(&e->config);
	e->record = *record;
	*record = (struct executor_record){0};
	e->driver = NULL;
	if (e->record.config[0] && executor_config_parse(e->record.config, strlen(e->record.config),
							 r->drivers, &e->config, NULL) == 0)
		e->driver = fleet_driver(r, e->config.kind);
}

static int grow(struct fleet *r)
{
	size_t cap = r->cap ? r->cap * 2 : 8;
	struct executor **list = reallocarray(r->list, cap, sizeof(struct executor *));

	if (!list)
		return -ENOMEM;
	r->list = list;
	list = reallocarray(r->by_serial, cap, sizeof(struct executor *));
	if (!list)
		return -ENOMEM;
	r->by_serial = list;
	r->cap = cap;
	return 0;
}

static int insert(struct fleet *r, struct executor_record *record)
{
	bool found;
	size_t at = place_of(r, record->name, &found);

	if (r->n == r->cap && grow(r) < 0)
		return -ENOMEM;
	struct executor *e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	size_t at_serial = place_of_serial(r, record->serial);
	sorted_open_gap(r->list, r->n, sizeof(struct executor *), at);
	sorted_open_gap(r->by_serial, r->n, sizeof(struct executor *), at_serial);
	r->list[at] = r->by_serial[at_serial] = e;
	r->n++;
	executor_set_record(r, e, record);
	return 0;
}

/* Frees the one at that place of the list. */
static void drop(struct fleet *r, size_t at)
{
	struct executor *e = r->list[at];

	sorted_close_gap(r->list, r->n, sizeof(struct executor *), at);
	sorted_close_gap(r->by_serial, r->n, sizeof(struct executor *),
			 place_of_serial(r, e->record.serial));
	r->n--;
	executor_free(e);
}

int fleet_load(struct fleet *r, struct store_tx *tx, struct error *err)
{
	AUTO_EXECUTOR_RECORD_LIST struct executor_record_list rows = {0};
	AUTO_FREE char *id = NULL;

	int x = executor_record_last_serial(tx, &r->last_serial, err);
	if (x >= 0)
		x = executor_record_list(tx, &rows, err);
	if (x < 0)
		return x;
	for (size_t i = 0; i < rows.n; i++) {
		if (rows.rows[i].changed_at_ns > r->changed_ns)
			r->changed_ns = rows.rows[i].changed_at_ns;
		if (insert(r, &rows.rows[i]) < 0)
			return error_oom(err);
	}
	x = meta_get_text(tx, META_DEFAULT_EXECUTOR, &id, err);
	if (x < 0 && x != -ENOENT)
		return x;
	if (id) {
		free(r->default_id);
		r->default_id = take_ptr(id);
	}
	return 0;
}

const char *executor_state(const struct executor *e)
{
	if (!e->record.config[0])
		return STATE_UNCONFIGURED;
	return node_state_name(node_state_parse(e->record.health.state));
}

int executor_check_schedulable(const struct executor *e, struct error *err)
{
	const char *id = e->record.name, *state = executor_state(e), *reason = e->record.health.reason;
	int x;

	if (!e->driver) {
		x = error_set(err, EHOSTUNREACH, "executor %s is not configured", id);
		error_remedy(err, "echo '{\"kind\":\"localprocess\"}' > executors/%s/config", id);
		return x;
	}
	if (node_state_admin_held(node_state_parse(state))) {
		/* The reason that stands for none begins with the state itself. */
		if (strncmp(reason, state, strlen(state)) == 0)
			x = error_set(err, EBUSY, "executor %s is %s", id, reason);
		else
			x = error_set(err, EBUSY, "executor %s is %s: %s", id, state, reason);
		error_remedy(err, "echo uncordon > executors/%s/state, or use another executor", id);
		return x;
	}
	if (!node_state_schedulable(node_state_parse(state)))
		return error_set(err, EHOSTUNREACH, "executor %s is %s%s%s", id, state,
				 reason[0] ? ": " : "", reason);
	if (e->removing)
		return error_set(err, EBUSY, "executor %s is being removed", id);
	if (e->leaving)
		return error_set(err, EBUSY, "executor %s goes when its work has ended: its file was removed",
				 id);
	if (e->config.max_concurrent > 0 && e->inflight >= (uint64_t)e->config.max_concurrent) {
		x = error_set(err, EBUSY, "executor %s runs %llu sessions, as many as its max_concurrent allows",
			      id, (unsigned long long)e->inflight);
		error_remedy(err, "wait for one to end, or raise max_concurrent in executors/%s/config", id);
		return x;
	}
	return 0;
}

/* --- changes: the writer's part ------------------------------------------------------------- */

static int append_event(struct store_tx *tx, const struct fleet_change *c, const char *type,
			const char *from, const char *to, struct error *err)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "type", type) < 0 || json_put_int(o, "uid", c->uid) < 0 ||
	    json_put_string(o, "executor_id", c->name) < 0 ||
	    json_put_string_if(o, "file", c->file) < 0 || json_put_string_if(o, "from", from) < 0 ||
	    json_put_string_if(o, "to", to) < 0 || json_put_string_if(o, "reason", c->reason) < 0)
		return error_oom(err);
	AUTO_FREE char *text = json_text(o);
	return text ? event_append(tx, c->at_ns, text, NULL, err) : error_oom(err);
}

/* Sets the default, and tells what it is now. */
static int set_default(struct store_tx *tx, struct fleet_change *c, const char *id,
		       struct error *err)
{
	free(c->default_id);
	c->default_id = strdup(id);
	if (!c->default_id)
		return error_oom(err);
	return id[0] ? meta_set_text(tx, META_DEFAULT_EXECUTOR, id, err)
		     : meta_delete(tx, META_DEFAULT_EXECUTOR, err);
}

static int get_default(struct store_tx *tx, char **ret, struct error *err)
{
	int x = meta_get_text(tx, META_DEFAULT_EXECUTOR, ret, err);

	if (x == -ENOENT) {
		*ret = strdup("");
		return *ret ? 0 : error_oom(err);
	}
	return x;
}

/* The registered executors as the rules of registration know them (core/registry.h). */
static int load_registry(struct store_tx *tx, struct registry **ret, struct error *err)
{
	static const struct host_policy policy = {.forbidden = false};
	AUTO_EXECUTOR_RECORD_LIST struct executor_record_list rows = {0};
	AUTO_REGISTRY struct registry *r = registry_new(&policy);
	AUTO_FREE char *id = NULL;

	if (!r)
		return error_oom(err);
	int x = executor_record_list(tx, &rows, err);
	for (size_t i = 0; i < rows.n && x >= 0; i++)
		if (rows.rows[i].config[0])
			x = registry_register(r, rows.rows[i].name, ISOLATION_NONE, NULL, err);
	if (x >= 0)
		x = get_default(tx, &id, err);
	if (x >= 0 && id[0] && registry_find(r, id))
		x = registry_set_default(r, id, err);
	if (x < 0)
		return x;
	*ret = take_ptr(r);
	return 0;
}

/* Tells of it with another reason than the change has. */
static int append_refusal(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	char *reason = c->reason;

	c->reason = c->config_error;
	int x = append_event(tx, c, "config.refused", NULL, NULL, err);
	c->reason = reason;
	return x;
}

static int apply_config_error(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	int x = executor_record_set_config_error(tx, c->serial, c->config_error, err);

	return x < 0 || !c->config_error[0] ? x : append_refusal(tx, c, err);
}

static int apply_configure(struct store_tx *tx, struct fleet_change *c, struct error *err);

static int apply_add(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	static char empty[] = "";
	const struct executor_record row = {
		.serial = c->serial,
		.name = c->name,
		.kind = empty,
		.config = empty,
		.config_error = empty,
		.source = c->source,
		.health = {.state = empty, .reason = empty, .state_changed_at_ns = c->at_ns},
		.created_at_ns = c->at_ns,
		.changed_at_ns = c->at_ns,
	};
	int x = executor_record_insert(tx, &row, err);

	if (x >= 0)
		x = append_event(tx, c, "executor.added", NULL, NULL, err);
	if (x >= 0 && c->config_text)
		x = apply_configure(tx, c, err);
	if (x >= 0 && c->config_error)
		x = apply_config_error(tx, c, err);
	return x;
}

static int apply_remove(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	AUTO_REGISTRY struct registry *r = NULL;

	int x = load_registry(tx, &r, err);
	if (x >= 0)
		x = executor_record_delete(tx, c->serial, err);
	if (x < 0)
		return x;
	registry_unregister(r, c->name);
	x = set_default(tx, c, registry_default_id(r), err);
	return x < 0 ? x : append_event(tx, c, "executor.removed", NULL, NULL, err);
}

static int apply_configure(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	AUTO_EXECUTOR_RECORD struct executor_record before = {0};
	AUTO_REGISTRY struct registry *r = NULL;

	int x = executor_record_get(tx, c->serial, &before, err);
	if (x >= 0)
		x = load_registry(tx, &r, err);
	if (x >= 0)
		x = registry_ensure(r, c->name, ISOLATION_NONE, NULL, err);
	if (x >= 0)
		x = executor_record_set_config(tx, c->serial, c->config_kind, c->config_text, c->at_ns, err);
	if (x >= 0)
		x = set_default(tx, c, registry_default_id(r), err);
	if (x < 0)
		return x;
	return append_event(tx, c, before.config[0] ? "config.accepted" : "executor.registered",
			    NULL, NULL, err);
}

/* The rules of states work on values; the row holds texts. */
static struct health health_of(const struct executor_record_health *h)
{
	struct health health = {
		.state = node_state_parse(h->state),
		.consecutive_failures = h->consecutive_failures,
		.last_seen = h->last_seen_ns,
		.last_probe = h->last_probe_ns,
		.state_changed_at = h->state_changed_at_ns,
	};

	(void)snprintf(health.reason, sizeof(health.reason), "%s", h->reason);
	return health;
}

static int apply_state(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	AUTO_EXECUTOR_RECORD struct executor_record row = {0};
	struct health_transition t = {0};
	bool changed;

	int x = executor_record_get(tx, c->serial, &row, err);
	if (x < 0)
		return x;
	struct health health = health_of(&row.health);
	if (c->kind == FLEET_CORDON)
		changed = health_cordon(&health, c->reason, c->at_ns, &t);
	else if (c->kind == FLEET_DRAIN)
		changed = health_drain(&health, c->reason, c->at_ns, &t);
	else if (c->kind == FLEET_UNCORDON)
		changed = health_uncordon(&health, c->at_ns, c->policy, &t);
	else
		changed = health_observe_probe(&health, c->reason, c->at_ns, c->policy, &t);
	c->transition = (struct fleet_transition){.changed = changed, .from = t.from, .to = t.to};
	const struct executor_record_health after = {
		.state = (char *)(uintptr_t)node_state_name(health.state),
		.reason = health.reason,
		.consecutive_failures = health.consecutive_failures,
		.last_seen_ns = health.last_seen,
		.last_probe_ns = health.last_probe,
		.state_changed_at_ns = health.state_changed_at,
	};
	x = executor_record_set_health(tx, c->serial, &after, err);
	if (x < 0 || !changed)
		return x;
	free(c->reason);
	c->reason = strdup(t.reason);
	if (!c->reason)
		return error_oom(err);
	return append_event(tx, c, "executor.state_change", node_state_name(t.from),
			    node_state_name(t.to), err);
}

int fleet_change_apply(struct store_tx *tx, struct fleet_change *c, struct error *err)
{
	int x = 0;

	switch (c->kind) {
	case FLEET_ADD:
		x = apply_add(tx, c, err);
		break;
	case FLEET_REMOVE:
		return apply_remove(tx, c, err);
	case FLEET_CONFIGURE:
		x = apply_configure(tx, c, err);
		break;
	case FLEET_CORDON:
	case FLEET_DRAIN:
	case FLEET_UNCORDON:
	case FLEET_PROBED:
		x = apply_state(tx, c, err);
		break;
	case FLEET_DEFAULT:
		x = set_default(tx, c, c->name, err);
		if (x >= 0)
			x = append_event(tx, c, "executor.default", NULL, NULL, err);
		break;
	case FLEET_CONFIG_ERROR:
		x = apply_config_error(tx, c, err);
		break;
	}
	if (x < 0)
		return x;
	executor_record_clear(&c->after);
	return executor_record_get(tx, c->serial, &c->after, err);
}

/* --- changes: the loop's part --------------------------------------------------------------- */

/* What a probe can change; the config is as it was. */
static void executor_take_health(struct executor *e, struct fleet_change *c)
{
	const struct executor_record_health before = e->record.health;

	e->record.health = c->after.health;
	c->after.health = before;
	free(e->probe_failure);
	e->probe_failure = NULL;
	if (e->record.health.consecutive_failures > 0)
		e->probe_failure = take_ptr(c->reason);
}

void fleet_changed(struct fleet *r, struct fleet_change *c)
{
	bool found;
	size_t at = place_of(r, c->name, &found);

	if (c->default_id) {
		if (strcmp(r->default_id, c->default_id) != 0)
			r->changed_ns = c->at_ns;
		free(r->default_id);
		r->default_id = take_ptr(c->default_id);
	}
	if (c->kind == FLEET_REMOVE) {
		if (found && r->list[at]->record.serial == c->serial)
			drop(r, at);
		r->changed_ns = c->at_ns;
	} else if (c->kind == FLEET_ADD) {
		if (!found && insert(r, &c->after) == 0)
			r->changed_ns = c->at_ns;
	} else if (found && r->list[at]->record.serial == c->serial) {
		if (c->kind == FLEET_PROBED)
			executor_take_health(r->list[at], c);
		else
			executor_set_record(r, r->list[at], &c->after);
	}
	if (r->listener)
		r->listener(r->listener_user, c);
}

void fleet_listen(struct fleet *r, void (*changed)(void *user, const struct fleet_change *c), void *user)
{
	r->listener = changed;
	r->listener_user = user;
}

void fleet_change_clear(struct fleet_change *c)
{
	free(c->name);
	free(c->config_text);
	free(c->config_kind);
	free(c->config_error);
	free(c->file);
	free(c->reason);
	free(c->default_id);
	executor_record_clear(&c->after);
	*c = (struct fleet_change){0};
}
