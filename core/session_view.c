#include "core/session_view.h"

#include <stdio.h>

#include "core/json.h"

void session_handle_id(const struct session *s, char buf[static SESSION_HANDLE_ID_MAX])
{
	(void)snprintf(buf, SESSION_HANDLE_ID_MAX, "%.64s.%lld", s->name, (long long)s->attempt);
}

json_t *session_handle_json(const struct session *s)
{
	AUTO_JSON json_t *o = json_object();
	char id[SESSION_HANDLE_ID_MAX];

	session_handle_id(s, id);
	if (!o || json_put_string(o, "id", id) < 0 ||
	    json_put_string(o, "executor_id", s->executor) < 0 || json_put_int_if(o, "pid", s->pid) < 0 ||
	    json_put_time_if(o, "started_at", s->started_at_ns) < 0 ||
	    json_put_string_if(o, "image", s->image) < 0)
		return NULL;
	return take_ptr(o);
}

json_t *session_status_json(const struct session *s)
{
	AUTO_JSON json_t *o = json_object();
	char id[SESSION_HANDLE_ID_MAX];
	bool finished = session_state_finished(s->state);

	session_handle_id(s, id);
	if (!o || json_put_string(o, "handle_id", id) < 0 ||
	    json_put_string(o, "executor_id", s->executor) < 0 ||
	    json_put_string(o, "state", session_state_name(s->state)) < 0 ||
	    json_put_int_if(o, "pid", finished ? 0 : s->pid) < 0 ||
	    json_put_int(o, "exit_code", finished ? s->exit_code : 0) < 0 ||
	    json_put_time_if(o, "started_at", s->started_at_ns) < 0 ||
	    json_put_time_if(o, "finished_at", s->finished_at_ns) < 0 ||
	    json_put_string_if(o, "error", s->error) < 0 ||
	    json_put_string_if(o, "cause", session_cause_name(s->cause)) < 0 ||
	    json_put_int_if(o, "signal", s->signal) < 0 ||
	    json_put_int(o, "log_bytes", s->log_bytes) < 0 ||
	    json_put_int(o, "log_dropped_bytes", s->log_dropped_bytes) < 0)
		return NULL;
	return take_ptr(o);
}

int session_wait_code(const struct session *s)
{
	switch (s->cause) {
	case SESSION_CAUSE_EXIT:
		return s->exit_code & 0xff;
	case SESSION_CAUSE_SIGNAL:
		return (128 + s->signal) & 0xff;
	case SESSION_CAUSE_TIMEOUT:
	case SESSION_CAUSE_OOM:
		return 137;
	default:
		return 255;
	}
}
