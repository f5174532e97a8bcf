#include "core/verdict.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/strlist.h"

const char *error_sentinel(enum error_kind kind)
{
	static const char *const names[] = {
		[ERROR_HANDLE_NOT_FOUND] = "ErrHandleNotFound",
		[ERROR_EXECUTOR_NOT_FOUND] = "ErrExecutorNotFound",
		[ERROR_ALREADY_REGISTERED] = "ErrAlreadyRegistered",
		[ERROR_NO_DEFAULT] = "ErrNoDefault",
		[ERROR_INVALID_SPEC] = "ErrInvalidSpec",
		[ERROR_INVALID_SIGNAL] = "ErrInvalidSignal",
		[ERROR_UNSUPPORTED] = "ErrUnsupported",
		[ERROR_HOST_EXECUTION_DENIED] = "ErrHostExecutionDenied",
		[ERROR_NO_PLACEMENT] = "ErrNoPlacement",
		[ERROR_SESSION_CLAIM_LOST] = "ErrSessionClaimLost",
		[ERROR_DRAIN_TIMEOUT] = "ErrDrainTimeout",
		[ERROR_BINDINGS_UNRESOLVED] = "ErrBindingsUnresolved",
		[ERROR_REVOCATION_UNSUPPORTED] = "ErrRevocationUnsupported",
		[ERROR_WORKSPACE_GRANT_MISSING] = "ErrWorkspaceGrantMissing",
		[ERROR_WORKSPACE_UNAVAILABLE] = "ErrWorkspaceUnavailable",
		[ERROR_WRITEBACK_REJECTED] = "ErrWriteBackRejected",
		[ERROR_WRITEBACK_UNAVAILABLE] = "ErrWriteBackUnavailable",
	};

	return (size_t)kind < ARRAY_SIZE(names) ? names[kind] : NULL;
}

json_t *verdict_to_json(int r, const struct error *err)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_bool(o, "ok", r >= 0) < 0)
		return NULL;
	if (r < 0 && error_sentinel(err->kind) &&
	    json_put_string(o, "sentinel", error_sentinel(err->kind)) < 0)
		return NULL;
	return take_ptr(o);
}

json_t *verdict_sentence(const struct error *err)
{
	char text[ERROR_REASON_MAX + ERROR_FIELD_MAX + ERROR_REMEDY_MAX];

	error_sentence(err, text, sizeof(text));
	return json_string(text);
}

int verdict_put_error(json_t *verdict, const struct error *err)
{
	int r = json_put_string_if(verdict, "field", err->field);

	return r < 0 ? r : json_put_new(verdict, "error", verdict_sentence(err));
}

json_t *verdict_sandbox_requirements(const struct spec *spec)
{
	struct requirements q;

	spec_sandbox_requirements(spec, &q);
	const struct {
		const char *name;
		bool required;
	} flags[] = {
		{"container_runtime", q.require_container_runtime},
		{"host_filesystem_workspace", q.require_host_filesystem_workspace},
		{"host_mounts", q.require_host_mounts},
		{"image_override", q.require_image_override},
		{"isolation", q.require_isolation},
		{"network_egress", q.require_network_egress},
		{"resource_limits", q.require_resource_limits},
		{"revocation", q.require_revocation},
		{"sandbox_build", q.require_sandbox_build},
		{"sandbox_mounts", q.require_sandbox_mounts},
		{"secret_files", q.require_secret_files},
		{"signal", q.require_signal},
		{"stream", q.require_stream},
		{"virtualization", q.require_virtualization},
		{"workspace_provisioning", q.require_workspace_provisioning},
		{"write_back", q.require_write_back},
	};
	AUTO_JSON json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (!o || json_put_bool(o, flags[i].name, flags[i].required) < 0)
			return NULL;
	return take_ptr(o);
}

json_t *verdict_workspace_predicates(const struct workspace *w)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_bool(o, "needs_provisioning", workspace_needs_provisioning(w)) < 0 ||
	    json_put_bool(o, "requires_credential", workspace_requires_credential(w)) < 0 ||
	    json_put_bool(o, "is_zero", workspace_is_zero(w)) < 0)
		return NULL;
	return take_ptr(o);
}

json_t *verdict_workspace_derivations(const struct workspace *w)
{
	AUTO_JSON json_t *o = json_object();
	AUTO_FREE char *host = workspace_host(w);
	AUTO_FREE char *base = NULL;
	AUTO_FREE char *path = NULL;

	if (!o || !host || workspace_base_url(w, &base) < 0 || workspace_repo_path(w, &path) < 0 ||
	    json_put_string(o, "base_url", text_or_empty(base)) < 0 ||
	    json_put_string(o, "host", host) < 0 ||
	    json_put_string(o, "repo_path", text_or_empty(path)) < 0 ||
	    json_put_bool(o, "repo_path_ok", path != NULL) < 0)
		return NULL;
	return take_ptr(o);
}

json_t *git_plan_to_json(const struct git_plan *plan)
{
	AUTO_JSON json_t *array = json_array();

	for (size_t i = 0; i < GIT_STEPS; i++) {
		const struct git_step *s = &plan->steps[i];
		AUTO_JSON json_t *o = json_object();

		if (!array || !o ||
		    json_put_new(o, "argv", strlist_to_json(s->argv, s->n_argv)) < 0 ||
		    json_put_bool(o, "authenticated", s->authenticated) < 0 ||
		    json_put_string(o, "name", s->name) < 0 || json_array_append(array, o) < 0)
			return NULL;
	}
	return take_ptr(array);
}

json_t *verdict_inspection(int r, const struct writeback_rejection *rejection,
			   const struct error *err)
{
	AUTO_JSON json_t *o = verdict_to_json(r, err);
	const struct bundle_entry *at = rejection->entry;

	if (r >= 0 || !o)
		return take_ptr(o);
	if (json_put_new(o, "path", at ? json_stringn(at->path, at->path_len) : json_string("")) < 0 ||
	    json_put_string(o, "code", writeback_reason_name(rejection->code)) < 0 ||
	    json_put_string(o, "branch", text_or_empty(rejection->branch)) < 0 ||
	    json_put_string(o, "commit_sha", text_or_empty(rejection->commit_sha)) < 0 ||
	    json_put_string(o, "mode", text_or_empty(rejection->mode)) < 0 ||
	    json_put_string(o, "target", text_or_empty(rejection->target)) < 0 ||
	    json_put_new(o, "error", verdict_sentence(err)) < 0)
		return NULL;
	return take_ptr(o);
}
