#include "core/policy.h"

#include <errno.h>

#include "core/buf.h"
#include "core/field.h"

bool host_policy_allows(const struct host_policy *policy)
{
	return !policy->forbidden;
}

void host_policy_apply(struct host_policy *policy, bool allowed)
{
	if (!allowed)
		policy->forbidden = true;
}

bool host_policy_set(struct host_policy *policy, bool allowed)
{
	bool previous = !policy->forbidden;

	policy->forbidden = !allowed;
	return previous;
}

/* "a, b, c and 4 more": no more names than a remedy has room for beside its own words. */
#define ALTERNATIVES_BYTES_MAX 120

static void put_alternatives(struct buf *out, char *const *alternatives, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && out->len + strlen(alternatives[i]) + 2 > ALTERNATIVES_BYTES_MAX) {
			buf_printf(out, " and %zu more", n - i);
			return;
		}
		buf_printf(out, "%s%s", i > 0 ? ", " : "", alternatives[i]);
	}
}

int host_execution_deny(const char *executor_id, const char *project_path, const char *cause,
			char *const *alternatives, size_t n, struct error *err)
{
	static const char loosen[] = "set executors.allow_host_process to true in hub.json and "
				     "restart";
	const char *project = text_or_empty(project_path);
	struct buf ids = BUF_INIT(ERROR_REMEDY_MAX);
	int r;

	r = error_set_kind(
		err, EACCES, ERROR_HOST_EXECUTION_DENIED,
		"executor %s does not isolate workloads from the hub's host and %s%s%s%s",
		executor_id, cause ? cause : "host execution is denied by policy",
		project[0] ? " (project " : "", project, project[0] ? ")" : "");
	put_alternatives(&ids, alternatives, n);
	if (ids.data)
		error_remedy(err, "use an executor that isolates (%s), or %s", ids.data, loosen);
	else
		error_remedy(err,
			     "register one that isolates (mkdir /cloop/executors/<id>, then write "
			     "its config), or %s",
			     loosen);
	buf_free(&ids);
	return r;
}
