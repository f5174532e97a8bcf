#include "core/workspace_access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/field.h"
#include "core/owner.h"

int workspace_apply_access(struct workspace *w, const char *repo)
{
	if (text_trimmed(repo).len == 0)
		return 0;
	char *copy = strdup(repo);
	if (!copy)
		return -ENOMEM;
	free(w->repo);
	w->repo = copy;
	return 0;
}

int workspace_grant_deny(const struct grant_denial *d, struct error *err)
{
	struct text_view grant = text_trimmed(d->workspace->credential_grant);
	struct text_view url = text_trimmed(d->workspace->repo);
	const char *executor = text_or_empty(d->executor_id);
	const char *project = text_or_empty(d->project_path);
	AUTO_FREE char *path = NULL;
	struct buf who = BUF_INIT(ERROR_REASON_MAX);

	if (workspace_repo_path(d->workspace, &path) < 0)
		return error_oom(err);
	if (executor[0])
		buf_printf(&who, " on executor %s", executor);
	if (project[0])
		buf_printf(&who, " for project %s", project);

	const char *where = who.data ? who.data : "";
	const char *what = path ? path : "this repository";
	int r;
	if (d->fault == GRANT_FAULT_EXCLUDES) {
		r = error_set_kind(err, EKEYREJECTED, ERROR_WORKSPACE_GRANT_MISSING,
				   "the grant %.*s does not cover %.*s%s", (int)grant.len,
				   grant.data, (int)url.len, url.data, where);
		error_remedy(err, "write a grant that covers %s to /cloop/grants/new", what);
	} else {
		r = error_set_kind(err, ENOKEY, ERROR_WORKSPACE_GRANT_MISSING,
				   "no grant can authenticate the fetch of %.*s%s", (int)url.len,
				   url.data, where);
		error_remedy(err, "grant a credential for %s: write it to /cloop/grants/new", what);
	}
	error_field(err, "workspace.credential_grant");
	buf_free(&who);
	return r;
}
