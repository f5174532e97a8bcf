/*
 * Projects: where work belongs, which executor it is bound to, and what it needs.
 *
 * A project has a path, absolute and cleaned, which is never resolved here; no two have the same.
 * Its binding names an executor, registered or not: a binding is configuration. Its requirements are
 * canonical JSON (core/requirements.h), "{}" when it has none.
 *
 * Where its work goes, in this order, and never anywhere else:
 *
 *	binding		that executor; one that is not registered is ENOENT, never a fallback
 *	requirements	the best of the fleet
 *	neither		the default executor; ENXIO when there is none
 *
 * Projects live in memory, by name and by serial, and follow the store as the fleet does: a change
 * is decided and written on the writer (project_change_apply()) and repeated in memory after the
 * commit (projects_changed()).
 *
 * Errors: ENOENT (no such project), EEXIST (the name, or the path, is another project's), EINVAL
 * with the field.
 *
 * Source: the reference's Registry (Bind, Resolve) and the design's projects.
 */
#ifndef CLOOP_CORE_PROJECT_H
#define CLOOP_CORE_PROJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

struct store_tx;

struct project {
	int64_t serial; /* never given out twice */
	char *name;
	char *path;         /* "": not said */
	char *binding;      /* "": not bound */
	char *requirements; /* canonical JSON */
	int64_t created_at_ns;
	int64_t changed_at_ns;
	bool removing;       /* its rmdir is being committed: nothing is started in it any more */
	int64_t sessions_ns; /* when one of its sessions came or went; 0: not since the hub began */
};

void project_clear(struct project *p);
#define AUTO_PROJECT CLEANUP(project_clear)

/* The cleaned form of a path that somebody wrote; "" stays "". EINVAL with field "path". */
int project_path_clean(const char *text, char **ret, struct error *err);

/* --- in memory ------------------------------------------------------------------------------ */

struct projects;

struct projects *projects_new(void);
struct projects *projects_free(struct projects *p);
int projects_load(struct projects *p, struct store_tx *tx, struct error *err);

struct project *projects_get(struct projects *p, int64_t serial);
struct project *projects_find(struct projects *p, const char *name);

/* The project with the lowest serial that is not below this one; NULL when there is none. */
struct project *projects_from(struct projects *p, int64_t serial);

/* When a project came or went last; 0: never. */
int64_t projects_changed_ns(const struct projects *p);

/* The serial for the next PROJECT_ADD. */
int64_t projects_next_serial(struct projects *p);

/* --- changes -------------------------------------------------------------------------------- */

enum project_change_kind {
	PROJECT_ADD,     /* name */
	PROJECT_REMOVE,
	PROJECT_PATH,    /* text: cleaned, or "" */
	PROJECT_BIND,    /* text: an executor's id, or "" */
	PROJECT_REQUIRE, /* text: canonical JSON */
};

struct project_change {
	enum project_change_kind kind;
	int64_t serial;
	uint32_t uid; /* who asked; for the event */
	int64_t at_ns;
	char *name;
	char *text;
	struct project after; /* the row as it is now (not for PROJECT_REMOVE) */
};

/* The writer's part: the row and the event. */
int project_change_apply(struct store_tx *tx, struct project_change *c, struct error *err);

/* The loop's part, after the commit. Takes what it needs out of c. */
void projects_changed(struct projects *p, struct project_change *c);

void project_change_clear(struct project_change *c);

#endif
