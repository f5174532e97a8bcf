/*
 * What one git workspace gets to be fetched with, and the refusal when no grant gives it.
 *
 * A credential is good for one URL only. When the hub puts a proxy between the sandbox and the
 * forge, the credential is the proxy's and so is the URL; the two travel together, so that nobody
 * can send the one to the other's host.
 *
 * Source: the reference's WorkspaceAccess and WorkspaceGrantError.
 */
#ifndef CLOOP_CORE_WORKSPACE_ACCESS_H
#define CLOOP_CORE_WORKSPACE_ACCESS_H

#include "core/error.h"
#include "core/workspace.h"

/*
 * Routes w to the repository of an access: replaces w->repo unless `repo` is blank. Call it once
 * and use the result for the fetch and for the push. Returns 0 or -ENOMEM, w is then unchanged.
 */
int workspace_apply_access(struct workspace *w, const char *repo);

/* Two different faults with two different remedies. */
enum grant_fault {
	GRANT_FAULT_NONE_EXISTS, /* ENOKEY: nobody granted anything for this repository */
	GRANT_FAULT_EXCLUDES,    /* EKEYREJECTED: there is a grant, but it leaves this one out */
};

/* Everything borrowed; "" or NULL where it is not known. */
struct grant_denial {
	enum grant_fault fault;
	const struct workspace *workspace;
	const char *executor_id;
	const char *project_path;
};

/*
 * Fills err with ERROR_WORKSPACE_GRANT_MISSING: repository, executor, project, the grant that was
 * named, and as remedy what to write where. Returns the negative errno of the fault.
 */
int workspace_grant_deny(const struct grant_denial *denial, struct error *err);

#endif
