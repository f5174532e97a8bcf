/* Write-backs: what may be asked for, what comes back, what is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/writeback.h"
#include "core/writeback_inspect.h"
#include "core/writeback_result.h"
#include "tests/conformance/calls.h"

static json_t *validate_call(json_t *input)
{
	struct writeback w = {0};
	struct error err = {0};
	int r = writeback_from_json(input, "write_back", &w, &err);

	if (r == 0)
		r = writeback_validate(&w, "write_back", &err);
	writeback_clear(&w);
	return verdict_to_json(r, &err);
}

static json_t *cap_call(json_t *input)
{
	struct writeback w = {0};

	if (writeback_from_json(input, "write_back", &w, NULL) < 0)
		return json_pack("{s:b}", "ok", 0);
	int64_t cap = writeback_bundle_cap(&w);
	writeback_clear(&w);
	return json_pack("{s:I}", "cap", (json_int_t)cap);
}

static json_t *branch_call(json_t *input)
{
	struct text_view v = get_view(input, "branch");
	struct error err = {0};

	return verdict_to_json(writeback_check_branch(v.data, v.len, &err), &err);
}

static json_t *sha_call(json_t *input)
{
	struct text_view v = get_view(input, "sha");
	struct error err = {0};

	return verdict_to_json(commit_sha_check(v.data, v.len, &err), &err);
}

static json_t *short_sha_call(json_t *input)
{
	AUTO_FREE char *brief = commit_sha_short(get_text(input, "sha"));

	return json_pack("{s:s}", "short", brief);
}

static json_t *path_call(json_t *input)
{
	struct text_view v = get_view(input, "path");
	struct error err = {0};

	return verdict_to_json(writeback_check_path(v.data, v.len, &err), &err);
}

static struct bundle_entry read_entry(json_t *value)
{
	struct text_view path = get_view(value, "path"), target = get_view(value, "link_target");
	struct text_view mode = get_view(value, "mode");

	return (struct bundle_entry){.path = path.data,
				     .path_len = path.len,
				     /* No mode that git prints holds a NUL. */
				     .mode = memchr(mode.data, '\0', mode.len) ? "" : mode.data,
				     .link_target = target.data,
				     .link_target_len = target.len};
}

static json_t *entry_call(json_t *input)
{
	struct bundle_entry entry = read_entry(input);
	struct error err = {0};

	return verdict_to_json(writeback_check_entry(&entry, NULL, &err), &err);
}

static json_t *inspect_call(json_t *input)
{
	json_t *list = json_object_get(input, "entries");
	size_t n = json_array_size(list);
	AUTO_FREE struct bundle_entry *entries = calloc(n + 1, sizeof(*entries));
	struct writeback_rejection rejection = {0};
	struct error err = {0};

	for (size_t i = 0; entries && i < n; i++)
		entries[i] = read_entry(json_array_get(list, i));
	if (!entries)
		return NULL;
	int r = writeback_inspect(get_text(input, "branch"), get_text(input, "commit_sha"), entries,
				  n, &rejection, &err);
	return verdict_inspection(r, &rejection, &err);
}

static json_t *delivered_call(json_t *input)
{
	AUTO_WRITEBACK_RESULT struct writeback_result r = {0};

	if (writeback_result_from_json(input, &r, NULL) < 0)
		return json_pack("{s:b}", "delivered", 0);
	return json_pack("{s:b}", "delivered", writeback_result_delivered(&r));
}

static json_t *marshal_call(json_t *input)
{
	AUTO_WRITEBACK_RESULT struct writeback_result r = {0};
	AUTO_FREE char *line = NULL;

	if (writeback_result_from_json(input, &r, NULL) < 0 ||
	    writeback_sentinel_make(&r, &line, NULL) < 0)
		return json_pack("{s:b}", "ok", 0);
	return json_pack("{s:s, s:b}", "line", line, "ok", 1);
}

static json_t *scan_call(json_t *input)
{
	AUTO_WRITEBACK_RESULT struct writeback_result r = {0};
	struct text_view output = get_view(input, "output");

	if (writeback_sentinel_scan(output.data, output.len, &r) <= 0)
		return json_pack("{s:b}", "found", 0);
	return json_pack("{s:b, s:o}", "found", 1, "result", writeback_result_to_json(&r));
}

const struct call writeback_calls[] = {
	{"WriteBack.Validate", validate_call},
	{"WriteBack.BundleCap", cap_call},
	{"ValidateWriteBackBranch", branch_call},
	{"ValidateCommitSHA", sha_call},
	{"ShortSHA", short_sha_call},
	{"ValidateWriteBackPath", path_call},
	{"ValidateBundleEntry", entry_call},
	{"InspectWriteBack", inspect_call},
	{"WriteBackResult.Delivered", delivered_call},
	{"WriteBackSentinel.Marshal", marshal_call},
	{"WriteBackSentinel.Scan", scan_call},
	{NULL, NULL},
};
