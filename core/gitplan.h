/*
 * The git commands that fetch a workspace, and the environment they run in. Pure: the same plan is
 * carried out by every driver, and tests need no git.
 *
 * The environment is closed: the executor's own configuration could hold a credential helper or an
 * insteadOf rewrite that points the fetch elsewhere. The credential travels in the environment of
 * the one authenticated command, as a header bound to the origin of the repository: never in argv,
 * never in a file, never in a spec.
 *
 * Source: the reference's GitPlan, GitStep, GitBaseEnv, GitCredential and GitCredentialEnv.
 */
#ifndef CLOOP_CORE_GITPLAN_H
#define CLOOP_CORE_GITPLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"
#include "core/workspace.h"

#define GIT_STEPS 4

struct git_step {
	const char *name; /* "init", "remote", "fetch", "checkout" */
	char **argv;      /* NULL after the last; never goes through a shell */
	size_t n_argv;
	bool authenticated; /* true for exactly one step of a plan */
};

struct git_plan {
	struct git_step steps[GIT_STEPS];
};

/*
 * The commands that bring w into the directory dir, in order. It is init, fetch and checkout
 * instead of clone, because only a fetch can name a commit. EINVAL, ERROR_INVALID_SPEC when w is
 * not a valid git workspace or dir is blank.
 */
int git_plan_make(const struct workspace *w, const char *dir, struct git_plan *ret,
		  struct error *err);
void git_plan_clear(struct git_plan *plan);

/* The environment of every step, NULL after the last. Static storage. */
#define GIT_BASE_ENV_LEN 6
const char *const *git_base_env(void);

/* Material of one lease. Everything borrowed; never part of a spec. */
struct git_credential {
	const char *username; /* blank: "x-access-token" */
	const char *password;
};

bool git_credential_is_empty(const struct git_credential *c);

/*
 * "Basic …", "" when there is no password. Secret: the caller wipes and frees it. NULL when out of
 * memory.
 */
char *git_credential_header(const struct git_credential *c);

/*
 * Every string that must not leave the executor in output: the password, its encoded form and the
 * header. An empty list without a credential. Secret; free with git_secrets_free().
 */
int git_credential_secrets(const struct git_credential *c, char ***ret, size_t *ret_n);

/*
 * What the authenticated step gets on top of git_base_env(). An empty list without a credential.
 * Errors: EINVAL when there is a credential but w has no https URL to bind it to. Secret; free with
 * git_secrets_free().
 */
int git_credential_env(const struct workspace *w, const struct git_credential *c, char ***ret,
		       size_t *ret_n, struct error *err);

/* Wipes and frees a list of strings. Returns NULL. */
char **git_secrets_free(char **list, size_t n);

#endif
