#include "core/project.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/pathname.h"
#include "core/spec.h"
#include "core/sorted.h"
#include "core/store/event.h"
#include "core/store/meta.h"
#include "core/store/query.h"
#include "core/text.h"

/* When a project came or went: the time of the directory, also for the next hub. */
#define META_PROJECTS_CHANGED "projects_changed_at"

static const char no_requirements[] = "{}";

void project_clear(struct project *p)
{
	free(p->name);
	free(p->path);
	free(p->binding);
	free(p->requirements);
	*p = (struct project){0};
}

int project_path_clean(const char *text, char **ret, struct error *err)
{
	size_t len = strlen(text);
	const char *reason = NULL;

	if (len > SPEC_PATH_BYTES_MAX)
		reason = "is longer than a path can be";
	else if (len > 0 && text[0] != '/')
		reason = "is a relative path";
	else if (!text_utf8_valid(text, len))
		reason = "is not UTF-8";
	for (size_t i = 0; i < len && !reason; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			reason = "holds a control character";
	if (reason) {
		int r = error_set(err, EINVAL, "%s", reason);
		error_field(err, "path");
		error_remedy(err, "write an absolute path, or an empty line for none");
		return r;
	}
	char *clean = len > 0 ? pathname_clean(text, len) : strdup("");
	if (!clean)
		return error_oom(err);
	*ret = clean;
	return 0;
}

/* --- rows ----------------------------------------------------------------------------------- */

#define PROJECT_COLUMNS "serial, name, path, binding, requirements, created_at, changed_at"

static int read_project(struct store_query *q, struct project *ret, struct error *err)
{
	AUTO_PROJECT struct project p = {
		.serial = store_query_column_int(q, 0),
		.created_at_ns = store_query_column_int(q, 5),
		.changed_at_ns = store_query_column_int(q, 6),
	};
	char **texts[] = {&p.name, &p.path, &p.binding, &p.requirements};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = store_query_column_dup(q, (int)i + 1, texts[i], err);
	if (r < 0)
		return r;
	*ret = p;
	p = (struct project){0};
	return 0;
}

static int absent(struct error *err)
{
	return error_set(err, ENOENT, "there is no such project");
}

static int get_row(struct store_tx *tx, int64_t serial, struct project *ret, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "SELECT " PROJECT_COLUMNS " FROM project WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, serial);
	r = store_query_next(&q, err);
	if (r == 0)
		return absent(err);
	return r < 0 ? r : read_project(&q, ret, err);
}

static int apply_add(struct store_tx *tx, const struct project_change *c, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx,
				  "INSERT INTO project (" PROJECT_COLUMNS ") VALUES (?, ?, '', '', ?, ?, ?)",
				  err);

	if (r < 0)
		return r;
	store_query_int(&q, c->serial);
	store_query_text(&q, c->name);
	store_query_text(&q, no_requirements);
	store_query_int(&q, c->at_ns);
	store_query_int(&q, c->at_ns);
	r = store_query_run(&q, err);
	if (r == -EEXIST)
		return error_set(err, EEXIST, "there is a project %s already", c->name);
	return r < 0 ? r : meta_set_int(tx, META_PROJECTS_CHANGED, c->at_ns, err);
}

static int apply_remove(struct store_tx *tx, const struct project_change *c, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, "DELETE FROM project WHERE serial = ?", err);

	if (r < 0)
		return r;
	store_query_int(&q, c->serial);
	r = store_query_run(&q, err);
	if (r == 0)
		return absent(err);
	return r < 0 ? r : meta_set_int(tx, META_PROJECTS_CHANGED, c->at_ns, err);
}

static int apply_set(struct store_tx *tx, const struct project_change *c, const char *sql,
		     struct error *err)
{
	AUTO_QUERY struct store_query q = {0};
	int r = store_query_begin(&q, tx, sql, err);

	if (r < 0)
		return r;
	store_query_text(&q, c->text);
	store_query_int(&q, c->at_ns);
	store_query_int(&q, c->serial);
	r = store_query_run(&q, err);
	if (r == -EEXIST) {
		r = error_set(err, EEXIST, "is the path of another project");
		error_field(err, "path");
		error_remedy(err, "grep -x PATH projects/*/path finds it");
		return r;
	}
	return r == 0 ? absent(err) : r < 0 ? r : 0;
}

/* What a change is called in the events, and the statement that sets its text. */
static const struct {
	const char *type, *field, *sql;
} kinds[] = {
	[PROJECT_ADD] = {"config.project_added", NULL, NULL},
	[PROJECT_REMOVE] = {"config.project_removed", NULL, NULL},
	[PROJECT_PATH] = {"config.project_path", "path",
			  "UPDATE project SET path = ?, changed_at = ? WHERE serial = ?"},
	[PROJECT_BIND] = {"config.project_binding", "executor_id",
			  "UPDATE project SET binding = ?, changed_at = ? WHERE serial = ?"},
	[PROJECT_REQUIRE] = {"config.project_requirements", NULL,
			     "UPDATE project SET requirements = ?, changed_at = ? WHERE serial = ?"},
};

static int append_event(struct store_tx *tx, const struct project_change *c, struct error *err)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "type", kinds[c->kind].type) < 0 ||
	    json_put_int(o, "uid", c->uid) < 0 || json_put_string(o, "project", c->name) < 0 ||
	    (kinds[c->kind].field && json_put_string(o, kinds[c->kind].field, c->text) < 0))
		return error_oom(err);
	AUTO_FREE char *text = json_text(o);
	return text ? event_append(tx, c->at_ns, text, NULL, err) : error_oom(err);
}

int project_change_apply(struct store_tx *tx, struct project_change *c, struct error *err)
{
	int r;

	if (c->kind == PROJECT_ADD)
		r = apply_add(tx, c, err);
	else if (c->kind == PROJECT_REMOVE)
		r = apply_remove(tx, c, err);
	else
		r = apply_set(tx, c, kinds[c->kind].sql, err);
	if (r == 0)
		r = append_event(tx, c, err);
	if (r < 0 || c->kind == PROJECT_REMOVE)
		return r;
	project_clear(&c->after);
	return get_row(tx, c->serial, &c->after, err);
}

void project_change_clear(struct project_change *c)
{
	free(c->name);
	free(c->text);
	project_clear(&c->after);
	*c = (struct project_change){0};
}

/* --- in memory ------------------------------------------------------------------------------ */

struct projects {
	struct project **by_name;   /* sorted by name */
	struct project **by_serial; /* the same ones */
	size_t n, cap;
	int64_t last_serial;
	int64_t changed_ns;
};

struct projects *projects_new(void)
{
	return calloc(1, sizeof(struct projects));
}

static void project_free(struct project *p)
{
	project_clear(p);
	free(p);
}

struct projects *projects_free(struct projects *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n; i++)
		project_free(p->by_name[i]);
	free(p->by_name);
	free(p->by_serial);
	free(p);
	return NULL;
}

/* The place of the first that is not lower. */
static int compare_name(const void *item, const void *name)
{
	const struct project *const *p = item;

	return strcmp((*p)->name, name);
}

static size_t place_of_name(const struct projects *p, const char *name)
{
	return sorted_place(p->by_name, p->n, sizeof(struct project *), name, compare_name);
}

static int compare_serial(const void *item, const void *serial)
{
	const struct project *const *p = item;

	return (*p)->serial < *(const int64_t *)serial ? -1 : 0;
}

static size_t place_of_serial(const struct projects *p, int64_t serial)
{
	return sorted_place(p->by_serial, p->n, sizeof(struct project *), &serial, compare_serial);
}

struct project *projects_find(struct projects *p, const char *name)
{
	size_t i = place_of_name(p, name);

	return i < p->n && strcmp(p->by_name[i]->name, name) == 0 ? p->by_name[i] : NULL;
}

struct project *projects_from(struct projects *p, int64_t serial)
{
	size_t i = place_of_serial(p, serial);

	return i < p->n ? p->by_serial[i] : NULL;
}

struct project *projects_get(struct projects *p, int64_t serial)
{
	struct project *found = projects_from(p, serial);

	return found && found->serial == serial ? found : NULL;
}

int64_t projects_changed_ns(const struct projects *p)
{
	return p->changed_ns;
}

int64_t projects_next_serial(struct projects *p)
{
	return ++p->last_serial;
}

static int grow(struct projects *p)
{
	size_t cap = p->cap ? p->cap * 2 : 16;
	struct project **list = reallocarray(p->by_name, cap, sizeof(struct project *));

	if (!list)
		return -ENOMEM;
	p->by_name = list;
	list = reallocarray(p->by_serial, cap, sizeof(struct project *));
	if (!list)
		return -ENOMEM;
	p->by_serial = list;
	p->cap = cap;
	return 0;
}

/* Takes the row. */
static int insert(struct projects *p, struct project *row)
{
	if (p->n == p->cap && grow(p) < 0)
		return -ENOMEM;
	struct project *project = malloc(sizeof(*project));
	if (!project)
		return -ENOMEM;
	size_t at = place_of_name(p, row->name), at_serial = place_of_serial(p, row->serial);
	sorted_open_gap(p->by_name, p->n, sizeof(struct project *), at);
	sorted_open_gap(p->by_serial, p->n, sizeof(struct project *), at_serial);
	p->by_name[at] = p->by_serial[at_serial] = project;
	p->n++;
	*project = *row;
	*row = (struct project){0};
	return 0;
}

int projects_load(struct projects *p, struct store_tx *tx, struct error *err)
{
	AUTO_QUERY struct store_query q = {0};

	int r = store_last_serial(tx, "project", &p->last_serial, err);
	if (r >= 0)
		r = meta_get_int(tx, META_PROJECTS_CHANGED, &p->changed_ns, err);
	if (r >= 0 || r == -ENOENT)
		r = store_query_begin(&q, tx, "SELECT " PROJECT_COLUMNS " FROM project ORDER BY name",
				      err);
	if (r < 0)
		return r;
	while ((r = store_query_next(&q, err)) > 0) {
		AUTO_PROJECT struct project row = {0};

		r = read_project(&q, &row, err);
		if (r < 0)
			return r;
		if (insert(p, &row) < 0)
			return error_oom(err);
	}
	return r;
}

static void remove_at(struct projects *p, size_t at)
{
	struct project *gone = p->by_name[at];

	sorted_close_gap(p->by_name, p->n, sizeof(struct project *), at);
	sorted_close_gap(p->by_serial, p->n, sizeof(struct project *), place_of_serial(p, gone->serial));
	p->n--;
	project_free(gone);
}

void projects_changed(struct projects *p, struct project_change *c)
{
	struct project *known = projects_get(p, c->serial);

	if (c->kind == PROJECT_ADD || c->kind == PROJECT_REMOVE)
		p->changed_ns = c->at_ns;
	if (c->kind == PROJECT_REMOVE) {
		if (known)
			remove_at(p, place_of_name(p, known->name));
	} else if (known) {
		c->after.sessions_ns = known->sessions_ns;
		c->after.removing = known->removing;
		project_clear(known);
		*known = c->after;
		c->after = (struct project){0};
	} else if (c->kind == PROJECT_ADD) {
		/* Out of memory: it is there for the next hub. */
		(void)insert(p, &c->after);
	}
}
