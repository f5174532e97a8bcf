#include "core/revocation_json.h"

#include <errno.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/strlist.h"

static int put_list_if(json_t *o, const char *name, char *const *list, size_t n)
{
	return n > 0 ? json_put_new(o, name, strlist_to_json(list, n)) : 0;
}

json_t *revoke_report_to_json(const struct revoke_report *r)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "lease_id", text_or_empty(r->lease_id)) < 0 ||
	    json_put_string_if(o, "grant_id", r->grant_id) < 0 ||
	    json_put_string_if(o, "action", revoke_action_name(r->action)) < 0 ||
	    json_put_bool(o, "known", r->known) < 0 ||
	    put_list_if(o, "env_scrubbed", r->env_scrubbed, r->n_env_scrubbed) < 0 ||
	    json_put_int_if(o, "files_removed", r->files_removed) < 0 ||
	    json_put_bool_if(o, "egress_dropped", r->egress_dropped) < 0 ||
	    put_list_if(o, "killed", r->killed, r->n_killed) < 0 ||
	    json_put_string_if(o, "error", r->error) < 0)
		return NULL;
	return take_ptr(o);
}

json_t *revoke_outcome_to_json(const struct revoke_outcome *out)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "lease_id", text_or_empty(out->lease_id)) < 0 ||
	    json_put_string_if(o, "grant_id", out->grant_id) < 0 ||
	    json_put_string(o, "executor_id", text_or_empty(out->executor_id)) < 0 ||
	    json_put_string(o, "state", revoke_state_name(out->state)) < 0 ||
	    json_put_string_if(o, "action", revoke_action_name(out->action)) < 0 ||
	    json_put_string_if(o, "reason", out->reason) < 0 ||
	    json_put_time_if(o, "sent_at", out->sent_at) < 0 ||
	    json_put_time_if(o, "acked_at", out->acked_at) < 0)
		return NULL;
	if (out->has_ack && json_put_new(o, "ack", revoke_report_to_json(&out->ack)) < 0)
		return NULL;
	if (json_put_string_if(o, "error", out->error) < 0)
		return NULL;
	return take_ptr(o);
}

json_t *revoke_request_to_json(const struct revoke_request *q)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "lease_id", text_or_empty(q->lease_id)) < 0 ||
	    json_put_string_if(o, "grant_id", q->grant_id) < 0 ||
	    json_put_string_if(o, "reason", q->reason) < 0 ||
	    json_put_string_if(o, "action", revoke_action_name(q->action)) < 0)
		return NULL;
	return take_ptr(o);
}

static int refuse(const struct json_object *o, const char *name, const char *reason,
		  struct error *err)
{
	char path[JSON_PATH_MAX];

	json_object_path(o, name, path);
	int r = error_set(err, EINVAL, "%s", reason);
	error_field(err, "%s", path);
	return r;
}

static int check_length(const struct json_object *o, const char *name, const char *text, size_t max,
			struct error *err)
{
	return strlen(text_or_empty(text)) <= max ? 0 : refuse(o, name, "is too long", err);
}

static int read_names(struct json_object *o, const char *name, bool variables, char ***ret,
		      size_t *ret_n, struct error *err)
{
	int r = field_list(o, name, ret, ret_n, err);

	if (r < 0)
		return r;
	if (*ret_n > REVOKE_REPORT_ITEMS_MAX)
		return refuse(o, name, "has too many entries", err);
	for (size_t i = 0; i < *ret_n; i++) {
		r = check_length(o, name, (*ret)[i], REVOKE_REPORT_NAME_BYTES_MAX, err);
		if (r < 0)
			return r;
		if (variables && strchr((*ret)[i], '='))
			return refuse(o, name, "must hold names of variables, without a value",
				      err);
	}
	return 0;
}

static int read_report(json_t *value, const char *path, struct revoke_report *report,
		       struct error *err)
{
	const char *action = "";
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = field_text(&o, "lease_id", &report->lease_id, err)) < 0 ||
	    (r = field_text(&o, "grant_id", &report->grant_id, err)) < 0 ||
	    (r = json_object_string(&o, "action", &action, err)) < 0 ||
	    (r = json_object_bool(&o, "known", &report->known, err)) < 0 ||
	    (r = read_names(&o, "env_scrubbed", true, &report->env_scrubbed,
			    &report->n_env_scrubbed, err)) < 0 ||
	    (r = json_object_int64(&o, "files_removed", &report->files_removed, err)) < 0 ||
	    (r = json_object_bool(&o, "egress_dropped", &report->egress_dropped, err)) < 0 ||
	    (r = read_names(&o, "killed", false, &report->killed, &report->n_killed, err)) < 0 ||
	    (r = field_text(&o, "error", &report->error, err)) < 0 ||
	    (r = check_length(&o, "lease_id", report->lease_id, SECRET_ID_BYTES_MAX, err)) < 0 ||
	    (r = check_length(&o, "grant_id", report->grant_id, SECRET_ID_BYTES_MAX, err)) < 0 ||
	    (r = check_length(&o, "error", report->error, REVOKE_REPORT_ERROR_BYTES_MAX, err)) < 0)
		return r;
	if (report->files_removed < 0)
		return refuse(&o, "files_removed", "must not be negative", err);
	report->action = revoke_action_parse(action);
	text_one_line(report->error);
	return 0;
}

int revoke_report_from_json(json_t *value, const char *path, struct revoke_report *ret,
			    struct error *err)
{
	struct revoke_report report = {0};
	int r = read_report(value, path, &report, err);

	if (r < 0) {
		revoke_report_clear(&report);
		return r;
	}
	*ret = report;
	return 0;
}

int revoke_request_from_json(json_t *value, const char *path, struct revoke_request *ret,
			     struct error *err)
{
	struct revoke_request q = {.lease_id = "", .grant_id = "", .reason = ""};
	const char *action = "";
	struct json_object o;
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = json_object_string(&o, "lease_id", &q.lease_id, err)) < 0 ||
	    (r = json_object_string(&o, "grant_id", &q.grant_id, err)) < 0 ||
	    (r = json_object_string(&o, "reason", &q.reason, err)) < 0 ||
	    (r = json_object_string(&o, "action", &action, err)) < 0 ||
	    (r = check_length(&o, "lease_id", q.lease_id, SECRET_ID_BYTES_MAX, err)) < 0 ||
	    (r = check_length(&o, "grant_id", q.grant_id, SECRET_ID_BYTES_MAX, err)) < 0)
		return r;
	if (text_trimmed(q.lease_id).len == 0)
		return refuse(&o, "lease_id", "must name the lease", err);
	q.action = revoke_action_parse(action);
	*ret = q;
	return 0;
}
