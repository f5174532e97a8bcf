/*
 * What the rules say, as JSON: the answers of the dry runs, in the form of the rows that the rules are
 * held against (tests/conformance).
 *
 *	{"ok":true,…}
 *	{"ok":false,"sentinel":"ErrInvalidSpec",…}
 *
 * Each function returns a new object, NULL when out of memory.
 */
#ifndef CLOOP_CORE_VERDICT_H
#define CLOOP_CORE_VERDICT_H

#include <jansson.h>
#include <stddef.h>

#include "core/error.h"
#include "core/gitplan.h"
#include "core/spec.h"
#include "core/workspace.h"
#include "core/writeback_inspect.h"

/* The reference's name of a sentinel error, NULL when there is none. */
const char *error_sentinel(enum error_kind kind);

/* {"ok"}, and the sentinel of a refusal that has one. r < 0: refused. */
json_t *verdict_to_json(int r, const struct error *err);

/* The sentence that a person reads, as a string. */
json_t *verdict_sentence(const struct error *err);

/* Adds "field" and "error" to the verdict of a refusal. Returns 0 or -ENOMEM. */
int verdict_put_error(json_t *verdict, const struct error *err);

/* What a spec demands of an executor: each of the flags, by its name without "require_". */
json_t *verdict_sandbox_requirements(const struct spec *spec);

/* {"needs_provisioning","requires_credential","is_zero"} */
json_t *verdict_workspace_predicates(const struct workspace *w);

/* {"base_url","host","repo_path","repo_path_ok"} */
json_t *verdict_workspace_derivations(const struct workspace *w);

/* [{"argv","authenticated","name"}, …] */
json_t *git_plan_to_json(const struct git_plan *plan);

/* The verdict of writeback_inspect(): of a rejection with path, code, branch, commit_sha, mode, target
 * and error. */
json_t *verdict_inspection(int r, const struct writeback_rejection *rejection,
			   const struct error *err);

#endif
