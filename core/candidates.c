#include "core/candidates.h"

#include <errno.h>
#include <stdlib.h>

#include "core/json.h"

void candidates_clear(struct candidates *c)
{
	free(c->list);
	free(c->executors);
	*c = (struct candidates){0};
}

static void fill(struct candidate *c, const struct executor *e)
{
	*c = (struct candidate){
		.executor_id = e->record.name,
		.state = node_state_parse(e->record.health.state),
		.labels = e->config.labels,
		.n_labels = e->config.n_labels,
		.harnesses = e->config.harnesses,
		.n_harnesses = e->config.n_harnesses,
		.container_runtimes = e->config.container_runtimes,
		.n_container_runtimes = e->config.n_container_runtimes,
		.memory_mb = e->config.memory_mb,
		.in_flight = (int64_t)e->inflight,
		.in_flight_known = true,
	};
	e->driver->ops->capabilities(e->driver, &e->config, &c->capabilities);
	c->capabilities.max_concurrent = e->config.max_concurrent;
}

static bool is_candidate(const struct executor *e)
{
	return e->driver && !e->removing;
}

int candidates_gather(struct fleet *fleet, struct candidates *ret)
{
	AUTO_CANDIDATES struct candidates c = {0};
	size_t n = fleet_len(fleet);

	c.list = calloc(n + 1, sizeof(*c.list));
	c.executors = calloc(n + 1, sizeof(struct executor *));
	if (!c.list || !c.executors)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct executor *e = fleet_at(fleet, i);

		if (!is_candidate(e))
			continue;
		fill(&c.list[c.n], e);
		c.executors[c.n++] = e;
	}
	*ret = c;
	c = (struct candidates){0};
	return 0;
}

int fleet_select(struct fleet *fleet, const struct requirements *req, bool host_allowed,
		 struct executor **ret, struct placement_refusal *ret_refusal, struct error *err)
{
	AUTO_CANDIDATES struct candidates c = {0};
	size_t chosen;

	if (candidates_gather(fleet, &c) < 0)
		return error_oom(err);
	int r = placement_select(c.list, c.n, req, host_allowed, &chosen, ret_refusal, err);
	if (r == 0)
		*ret = c.executors[chosen];
	return r;
}

static int compare_choices(const void *a, const void *b)
{
	const struct candidate *const *x = a, *const *y = b;

	return placement_is_better(*x, *y) ? -1 : placement_is_better(*y, *x);
}

json_t *fleet_survey(struct fleet *fleet, const struct requirements *req, bool host_allowed)
{
	AUTO_CANDIDATES struct candidates c = {0};
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
	AUTO_JSON json_t *ids = json_array();

	if (!ids || candidates_gather(fleet, &c) < 0)
		return NULL;
	AUTO_FREE const struct candidate **fit = calloc(c.n + 1, sizeof(*fit));
	size_t n_fit = 0;
	refusal.rejections = calloc(c.n + 1, sizeof(*refusal.rejections));
	if (!fit || !refusal.rejections)
		return NULL;
	for (size_t i = 0; i < c.n; i++) {
		struct placement_rejection *r = &refusal.rejections[refusal.n_rejections];

		r->executor_id = c.list[i].executor_id;
		r->constraint = placement_reject(&c.list[i], req, host_allowed, r->detail);
		if (r->constraint == CONSTRAINT_NONE)
			fit[n_fit++] = &c.list[i];
		else
			refusal.n_rejections++;
	}
	qsort(fit, n_fit, sizeof(*fit), compare_choices);
	for (size_t i = 0; i < n_fit; i++)
		if (json_array_append_new(ids, json_string(fit[i]->executor_id)) < 0)
			return NULL;
	AUTO_JSON json_t *o = placement_refusal_to_json(&refusal);
	AUTO_JSON json_t *survey = json_object();
	if (!o || !survey || json_put_new(survey, "candidates", take_ptr(ids)) < 0 ||
	    json_object_set(survey, "rejections", json_object_get(o, "rejections")) < 0)
		return NULL;
	return take_ptr(survey);
}

/* Borrowed ids of those that isolate; the caller frees the array. */
static int isolated_ids(const struct candidates *c, char ***ret, size_t *ret_n)
{
	char **ids = calloc(c->n + 1, sizeof(*ids));
	size_t n = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		if (isolation_isolates_from_host(c->list[i].capabilities.isolation))
			ids[n++] = c->executors[i]->record.name;
	*ret = ids;
	*ret_n = n;
	return 0;
}

int fleet_check_bound(struct fleet *fleet, const struct executor *bound,
		      const struct requirements *req, bool host_allowed, const char *project_path,
		      enum constraint *ret_constraint, struct error *err)
{
	AUTO_CANDIDATES struct candidates c = {0};
	AUTO_FREE char **ids = NULL;
	struct candidate candidate;
	size_t n = 0;

	if (candidates_gather(fleet, &c) < 0 || isolated_ids(&c, &ids, &n) < 0)
		return error_oom(err);
	fill(&candidate, bound);
	candidate.state = NODE_READY;
	candidate.in_flight_known = false;
	return placement_check_bound(&candidate, req, host_allowed, project_path, ids, n,
				     ret_constraint, err);
}
