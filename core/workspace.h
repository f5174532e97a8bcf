/*
 * How the source tree of a workload gets to the place where the workload runs.
 *
 *   unspecified  the spec says nothing; the driver keeps what it does anyway
 *   bind         the tree is already in work_dir, because the executor shares the hub's files
 *   git          the executor fetches repo at ref into work_dir before the workload starts
 *   none         an intentionally empty directory
 *
 * A workspace names a grant and never holds a credential, so it can be logged and stored.
 *
 * Source of the rules: the reference's Workspace. Text fields are checked without surrounding white
 * space, lengths are bytes. A repo is an https URL with a host and a path, without user, query or
 * fragment. A ref must not be read by git as an option or a refspec: it does not begin with '-',
 * '+' or '^', and holds no white space, control character, "..", "@{" or one of ~^:?*[\.
 */
#ifndef CLOOP_CORE_WORKSPACE_H
#define CLOOP_CORE_WORKSPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* The reference's bounds. */
#define MAX_WORKSPACE_REPO_LEN 2048
#define MAX_WORKSPACE_REF_LEN 255
#define MAX_WORKSPACE_DEPTH 100000
#define MAX_WORKSPACE_GRANT_LEN 128

/* 2^40 MB: so that the number of bytes fits an int64_t with room to add. */
#define WORKSPACE_SIZE_MB_MAX (INT64_C(1) << 40)

enum workspace_kind {
	WORKSPACE_UNSPECIFIED = 0,
	WORKSPACE_BIND,
	WORKSPACE_GIT,
	WORKSPACE_NONE,
	WORKSPACE_UNKNOWN, /* a word that is none of the others; never valid */
};

struct workspace {
	enum workspace_kind kind;
	char *repo;
	char *ref;     /* "": the remote's default branch */
	int64_t depth; /* 0: full history */
	char *credential_grant;
	int64_t size_limit_mb; /* 0: the executor's own default */
};

/* The word ("" for unspecified), and back. */
const char *workspace_kind_name(enum workspace_kind kind);
enum workspace_kind workspace_kind_parse(const char *word);

/* EINVAL, ERROR_INVALID_SPEC; path names the workspace in errors. */
int workspace_validate(const struct workspace *w, const char *path, struct error *err);

/* Whether every field has its zero value: such a workspace is not written. */
bool workspace_is_zero(const struct workspace *w);

/* Whether the executor must fetch before the workload can start: kind git only. */
bool workspace_needs_provisioning(const struct workspace *w);

/* Whether fetching needs a leased credential: kind git with a grant. */
bool workspace_requires_credential(const struct workspace *w);

/*
 * "https://host/" with the port, the prefix that a credential's header is bound to: an unbound
 * header would go wherever a redirect points. *ret is NULL, and nothing may be authenticated, when
 * repo is not an https URL with a host. Returns 0 or -ENOMEM; caller frees.
 */
int workspace_base_url(const struct workspace *w, char **ret);

/* The host with its port, as spelled; "" when repo has none. NULL when out of memory. */
char *workspace_host(const struct workspace *w);

/*
 * "owner/name", decoded and without one ".git", for matching a grant's list of repositories. Only a
 * path of exactly two elements has this form, neither of them "." or ".."; otherwise *ret is NULL.
 * Returns 0 or -ENOMEM; caller frees.
 */
int workspace_repo_path(const struct workspace *w, char **ret);

/* For a log or an audit row: "git https://host/owner/name@main depth 1 grant ci". Caller frees. */
char *workspace_describe(const struct workspace *w);

/* Reads structure and types; the values are left as written. */
int workspace_from_json(json_t *value, const char *path, struct workspace *ret, struct error *err);
json_t *workspace_to_json(const struct workspace *w);
void workspace_clear(struct workspace *w);

#endif
