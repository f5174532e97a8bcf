/*
 * /projects and /projects/<name>: where work belongs, and which executor it goes to.
 */
#include "fs/projects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/executor_config.h"
#include "core/project.h"
#include "core/requirements.h"
#include "core/text.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/live.h"
#include "fs/render.h"
#include "fs/tables.h"
#include "fs/watch.h"

static struct project *project_at(const struct view *v)
{
	return projects_get(v->hub->projects, v->node.serial);
}

/* --- reading -------------------------------------------------------------------------------- */

static int render_path(const struct view *v, struct buf *out)
{
	const struct project *p = project_at(v);

	return p ? render_line(out, p->path) : -ESTALE;
}

static int render_binding(const struct view *v, struct buf *out)
{
	const struct project *p = project_at(v);

	return p ? render_line(out, p->binding) : -ESTALE;
}

static int render_requirements(const struct view *v, struct buf *out)
{
	const struct project *p = project_at(v);

	return p ? render_line(out, p->requirements) : -ESTALE;
}

/* --- changing ------------------------------------------------------------------------------- */

static void free_project_change(void *data)
{
	project_change_clear(data);
	free(data);
}

/* The change that a request commits; NULL when out of memory (and refused). */
static struct project_change *begin(struct change *c, enum project_change_kind kind, int64_t serial,
				    const char *name, const char *text)
{
	struct project_change *pc = calloc(1, sizeof(*pc));

	if (pc) {
		pc->kind = kind;
		pc->serial = serial;
		pc->uid = c->uid;
		pc->at_ns = clock_now_ns();
		pc->name = strdup(name);
		pc->text = strdup(text);
		c->data = pc;
		c->data_free = free_project_change;
	}
	if (!pc || !pc->name || !pc->text) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return NULL;
	}
	return pc;
}

static int apply(struct store_tx *tx, struct change *c, struct error *err)
{
	return project_change_apply(tx, c->data, err);
}

static void committed(struct change *c)
{
	struct project_change *pc = c->data;
	struct hub *hub = c->hub;
	const struct node list = {.kind = NODE_PROJECTS};
	const struct node dir = {.kind = NODE_PROJECT, .serial = (uint32_t)pc->serial};

	projects_changed(hub->projects, pc);
	hub_event(hub);
	if (pc->kind == PROJECT_ADD)
		watch_created(hub, list, pc->name, dir);
	else if (pc->kind == PROJECT_REMOVE)
		watch_deleted(hub, list, pc->name, dir);
	else
		watch_modified_all(hub, dir);
}

static void commit(struct change *c)
{
	c->apply = apply;
	c->committed = committed;
	change_commit(c);
}

/* The project that a change is about; refuses when it is gone. */
struct project *project_of_change(struct change *c)
{
	struct project *p = projects_get(c->hub->projects, c->node.serial);

	if (!p) {
		(void)error_set(&c->err, ESTALE, "the project was removed");
		change_refuse(c);
	}
	return p;
}

static void command_path(struct change *c, const char *word)
{
	struct project *p = project_of_change(c);
	AUTO_FREE char *path = NULL;

	if (!p)
		return;
	if (project_path_clean(word, &path, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	if (begin(c, PROJECT_PATH, p->serial, p->name, path))
		commit(c);
}

static void command_binding(struct change *c, const char *word)
{
	struct project *p = project_of_change(c);
	AUTO_FREE char *id = text_trim_dup(word);

	if (!p)
		return;
	if (!id) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	if (id[0] && object_name_check("executor", id, &c->err) < 0) {
		error_field(&c->err, "binding");
		change_refuse(c);
		return;
	}
	if (begin(c, PROJECT_BIND, p->serial, p->name, id))
		commit(c);
}

static void execute_requirements(struct change *c, const char *text, size_t len)
{
	AUTO_REQUIREMENTS struct requirements q = {0};
	struct project *p = project_of_change(c);

	if (!p)
		return;
	if (requirements_parse(text, len, &q, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	c->answer = requirements_text(&q);
	if (!c->answer) {
		(void)error_oom(&c->err);
		change_refuse(c);
		return;
	}
	if (begin(c, PROJECT_REQUIRE, p->serial, p->name, c->answer))
		commit(c);
}

static void projects_mkdir(struct change *c, const char *name)
{
	if (object_name_check("project", name, &c->err) < 0) {
		change_refuse(c);
		return;
	}
	if (projects_find(c->hub->projects, name)) {
		(void)error_set(&c->err, EEXIST, "there is a project %s already", name);
		change_refuse(c);
		return;
	}
	int64_t serial = projects_next_serial(c->hub->projects);
	if (!begin(c, PROJECT_ADD, serial, name, ""))
		return;
	c->made = (struct node){.kind = NODE_PROJECT, .serial = (uint32_t)serial};
	commit(c);
}

static void removal_failed(struct change *c)
{
	const struct project_change *pc = c->data;
	struct project *p = projects_get(c->hub->projects, pc->serial);

	if (p)
		p->removing = false;
}

static void projects_rmdir(struct change *c, const char *name)
{
	struct project *p = projects_find(c->hub->projects, name);

	if (!p) {
		(void)error_set(&c->err, ENOENT, "no such project");
		change_refuse(c);
		return;
	}
	size_t n = dispatch_count_project(c->hub->dispatch, p->serial);
	if (n > 0 || p->removing) {
		(void)error_set(&c->err, EBUSY, "%zu sessions of project %s are in flight", n, name);
		error_remedy(&c->err, "wait for projects/%s/sessions/*, or signal them", name);
		change_refuse(c);
		return;
	}
	if (!begin(c, PROJECT_REMOVE, p->serial, name, ""))
		return;
	p->removing = true;
	c->undo = removal_failed;
	commit(c);
}

/* --- tables --------------------------------------------------------------------------------- */

static int project_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	const struct project *p = projects_get(hub->projects, serial);

	if (!p)
		return -ESTALE;
	*ret = (struct object_info){.changed_ns = p->changed_at_ns, .created_ns = p->created_at_ns};
	return 0;
}

static int project_name(struct hub *hub, uint32_t serial, struct buf *out)
{
	const struct project *p = projects_get(hub->projects, serial);

	if (!p)
		return -ESTALE;
	buf_puts(out, p->name);
	return out->failed;
}

static int projects_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	int64_t changed = projects_changed_ns(hub->projects);

	(void)serial;
	*ret = (struct object_info){.created_ns = hub->started_ns,
				    .changed_ns = changed ? changed : hub->started_ns};
	return 0;
}

static int projects_lookup(struct hub *hub, uint32_t serial, const char *name, struct node *ret)
{
	const struct project *p = projects_find(hub->projects, name);

	(void)serial;
	if (!p)
		return -ENOENT;
	*ret = (struct node){.kind = NODE_PROJECT, .serial = (uint32_t)p->serial};
	return 0;
}

/* A position is a serial: stable whatever comes and goes. */
static int projects_list(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
			 node_emit_fn *emit, void *user)
{
	(void)serial;
	for (const struct project *p; (p = projects_from(hub->projects, (int64_t)from));) {
		const struct node node = {.kind = NODE_PROJECT, .serial = (uint32_t)p->serial};

		from = (uint64_t)p->serial + 1;
		if (!emit(user, p->name, node, S_IFDIR, base + from))
			return 0;
	}
	return 0;
}

const struct node_dir projects_dir = {
	.kind = NODE_PROJECTS,
	.path = "/projects",
	.doc = "The projects. `mkdir` makes one; `rmdir` forgets it, EBUSY while sessions of it run, and "
	       "leaves its finished sessions.",
	.mode = 02775,
	.owner = OWNER_ADMIN,
	.growing = true,
	.object = projects_object,
	.lookup = projects_lookup,
	.list = projects_list,
	.mkdir = projects_mkdir,
	.rmdir = projects_rmdir,
};

static const struct node_file project_files[] = {
	{.name = "path", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN, .render = render_path,
	 .command = command_path,
	 .doc = "Where its files are: an absolute path, which is cleaned and never followed; the work_dir "
		"of a spec that has none. An empty line: not said."},
	{.name = "binding", .type = FILE_CONTROL, .mode = 0664, .owner = OWNER_ADMIN,
	 .render = render_binding, .command = command_binding,
	 .doc = "The id of the executor that all its work goes to, registered or not; an empty line unbinds "
		"it. Work is never sent elsewhere instead."},
	{.name = "requirements", .type = FILE_DOCUMENT, .mode = 0664, .owner = OWNER_ADMIN,
	 .render = render_requirements, .execute = execute_requirements,
	 .doc = "What its work needs, in canonical JSON; {} is nothing. Without a binding the best executor "
		"that has it is chosen for each start."},
	{.name = "executor", .type = FILE_LINK, .owner = OWNER_ROOT, .render = project_render_executor,
	 .absent = project_executor_absent,
	 .doc = "Link to the executor that a start would go to now: bound, chosen, or the default; absent "
		"when there is none."},
	{.name = "start", .type = FILE_TRANSACTION, .mode = 0660, .owner = OWNER_CLOOP,
	 .execute = project_execute_start,
	 .doc = "Write a spec in JSON to start it in this project; reads as {\"session\",\"handle\"}, or as "
		"the refusal. ENOENT when it is bound to an executor that is not there."},
	{.name = "sessions", .type = FILE_DIR, .child = NODE_PROJECT_SESSIONS, .fixed = true,
	 .doc = "Links to its sessions."},
};

const struct node_dir project_dir = {
	.kind = NODE_PROJECT,
	.path = "/projects/<name>",
	.doc = "One project.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.files = project_files,
	.n_files = ARRAY_SIZE(project_files),
	.object = project_object,
	.name = project_name,
};

/* --- links to its sessions ------------------------------------------------------------------ */

static struct node links_of(int64_t project_serial)
{
	return (struct node){.kind = NODE_PROJECT_SESSIONS, .serial = (uint32_t)project_serial};
}

static struct node link_node(uint32_t session_serial)
{
	return (struct node){.kind = NODE_PROJECT_SESSION, .serial = session_serial, .file = 1};
}

static int project_sessions_object(struct hub *hub, uint32_t serial, struct object_info *ret)
{
	const struct project *p = projects_get(hub->projects, serial);
	int r = project_object(hub, serial, ret);

	if (r == 0)
		ret->changed_ns = p->sessions_ns ? p->sessions_ns : p->created_at_ns;
	return r;
}

static int project_sessions_lookup(struct hub *hub, uint32_t serial, const char *name,
				   struct node *ret)
{
	uint32_t found;

	if (dispatch_find(hub->dispatch, name, &found) < 0)
		return -ENOENT;
	const struct session *s = dispatch_get(hub->dispatch, found);
	if (!s || s->project_serial != serial)
		return -ENOENT;
	*ret = link_node(found);
	return 0;
}

struct list_context {
	node_emit_fn *emit;
	void *user;
	uint64_t base;
};

static bool list_one(void *user, uint32_t serial, const char *name)
{
	struct list_context *l = user;

	return l->emit(l->user, name, link_node(serial), S_IFLNK, l->base + serial + 1);
}

static int project_sessions_list(struct hub *hub, uint32_t serial, uint64_t from, uint64_t base,
				 node_emit_fn *emit, void *user)
{
	struct list_context l = {.emit = emit, .user = user, .base = base};

	return dispatch_list_project(hub->dispatch, serial, from, list_one, &l);
}

const struct node_dir project_sessions_dir = {
	.kind = NODE_PROJECT_SESSIONS,
	.path = "/projects/<name>/sessions",
	.doc = "Links to the project's sessions, running and finished, oldest first.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.growing = true,
	.object = project_sessions_object,
	.name = project_name,
	.lookup = project_sessions_lookup,
	.list = project_sessions_list,
};

static const struct node_file project_session_files[] = {
	{.name = "link", .type = FILE_LINK, .owner = OWNER_SESSION, .fixed = true,
	 .render = render_session_link, .doc = "Link to a session of the project."},
};

const struct node_dir project_session_dir = {
	.kind = NODE_PROJECT_SESSION,
	.path = "/projects/<name>/sessions",
	.doc = "Links to the project's sessions, running and finished, oldest first.",
	.mode = 0755,
	.owner = OWNER_ROOT,
	.hidden_rows = true,
	.files = project_session_files,
	.n_files = ARRAY_SIZE(project_session_files),
	.object = session_object,
	.name = session_name,
};

/* --- for others ----------------------------------------------------------------------------- */

void projects_session_created(struct hub *hub, int64_t project_serial, uint32_t serial,
			      const char *name)
{
	struct project *p = project_serial ? projects_get(hub->projects, project_serial) : NULL;

	if (!p)
		return;
	p->sessions_ns = clock_now_ns();
	watch_created(hub, links_of(project_serial), name, link_node(serial));
}

void projects_session_removed(struct hub *hub, int64_t project_serial, uint32_t serial,
			      const char *name)
{
	struct project *p = project_serial ? projects_get(hub->projects, project_serial) : NULL;

	if (!p)
		return;
	p->sessions_ns = clock_now_ns();
	watch_deleted(hub, links_of(project_serial), name, link_node(serial));
}

/* The project of a session, NULL when there is none. */
static const struct project *project_of_session(struct hub *hub, uint32_t session_serial)
{
	const struct session *s = dispatch_get(hub->dispatch, session_serial);

	return s && s->project_serial ? projects_get(hub->projects, s->project_serial) : NULL;
}

bool projects_session_has_none(struct hub *hub, uint32_t session_serial)
{
	return !project_of_session(hub, session_serial);
}

int projects_session_link(struct hub *hub, uint32_t session_serial, struct buf *out)
{
	const struct project *p = project_of_session(hub, session_serial);

	if (!p)
		return -ENOENT;
	buf_printf(out, "../../projects/%s", p->name);
	return out->failed;
}
