/*
 * What a driver elsewhere reports of a revocation: whatever is accepted has one text that reads
 * back as the same bytes and holds no variable with a value; whatever is refused says why.
 */
#include <errno.h>
#include <string.h>

#include "core/json.h"
#include "core/revocation_json.h"
#include "tests/fuzz/fuzz.h"

static void check_report(json_t *value)
{
	struct revoke_report report = {0}, again = {0};
	struct error err = {0};

	if (revoke_report_from_json(value, "ack", &report, &err) < 0) {
		MUST(err.code == ENOMEM || (err.code == EINVAL && err.reason[0] && err.field[0]));
		MUST(!report.lease_id);
		return;
	}
	AUTO_JSON json_t *shown = revoke_report_to_json(&report);
	MUST(shown && revoke_report_from_json(shown, "ack", &again, NULL) == 0);
	AUTO_JSON json_t *twice = revoke_report_to_json(&again);
	MUST(json_equal(shown, twice));
	for (size_t i = 0; i < report.n_env_scrubbed; i++)
		MUST(!strchr(report.env_scrubbed[i], '='));
	MUST(!strpbrk(report.error, "\n\r\x1b"));
	revoke_report_clear(&report);
	revoke_report_clear(&again);
}

static void check_request(json_t *value)
{
	struct revoke_request q, again;

	if (revoke_request_from_json(value, "", &q, NULL) < 0)
		return;
	MUST(q.lease_id[0]);
	AUTO_JSON json_t *shown = revoke_request_to_json(&q);
	MUST(shown && revoke_request_from_json(shown, "", &again, NULL) == 0);
	MUST(q.action == again.action && strcmp(q.reason, again.reason) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_JSON json_t *value = NULL;

	if (json_parse((const char *)data, size, &value, NULL) < 0)
		return 0;
	check_report(value);
	check_request(value);
	return 0;
}
