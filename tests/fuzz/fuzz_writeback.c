/*
 * What a sandbox can send: output with a sentinel in it, names of branches, paths, links, URLs. The
 * same bytes are tried as each of them.
 */
#include <errno.h>
#include <string.h>

#include "core/json.h"
#include "core/owner.h"
#include "core/pathname.h"
#include "core/repourl.h"
#include "core/writeback_inspect.h"
#include "core/writeback_result.h"
#include "tests/fuzz/fuzz.h"

/* What was found can be written, and is then found again. */
static void check_sentinel(const char *data, size_t size)
{
	AUTO_WRITEBACK_RESULT struct writeback_result found = {0}, again = {0};
	AUTO_FREE char *line = NULL;

	if (writeback_sentinel_scan(data, size, &found) <= 0)
		return;
	/* Escapes may make it longer than what was read. */
	if (writeback_sentinel_make(&found, &line, NULL) < 0)
		return;
	MUST(writeback_sentinel_scan(line, strlen(line), &again) == 1);
	AUTO_JSON json_t *a = writeback_result_to_json(&found);
	AUTO_JSON json_t *b = writeback_result_to_json(&again);
	MUST(a && b && json_equal(a, b));
}

static void check_path(const char *data, size_t size)
{
	if (writeback_check_path(data, size, NULL) < 0)
		return;
	MUST(size > 0 && data[0] != '/' && !memchr(data, '\0', size));
	AUTO_FREE char *clean = pathname_clean(data, size);
	MUST(clean && strlen(clean) == size && memcmp(clean, data, size) == 0);
	MUST(!pathname_has_dotdot(data, size));
	MUST(memmem(data, size, "/.git/", 6) == NULL);
}

/* The first line is where the link is, the rest where it points. */
static void check_link(const char *data, size_t size)
{
	const char *newline = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t path_len = newline ? (size_t)(newline - data) : 0;
	struct bundle_entry e = {.path = data, .path_len = path_len, .mode = MODE_SYMLINK};

	if (!newline)
		return;
	e.link_target = newline + 1;
	e.link_target_len = size - path_len - 1;
	if (writeback_check_entry(&e, NULL, NULL) < 0)
		return;
	MUST(e.link_target_len > 0 && e.link_target[0] != '/');
}

static void check_branch(const char *data, size_t size)
{
	if (writeback_check_branch(data, size, NULL) < 0)
		return;
	struct text_view v = text_trim(data, size);
	MUST(v.len > 6 && memcmp(v.data, "cloop/", 6) == 0);
	MUST(memmem(v.data, v.len, "..", 2) == NULL);
}

static void check_url(const char *data, size_t size)
{
	struct repo_url url;

	if (!repo_url_parse((struct text_view){data, size}, &url))
		return;
	AUTO_FREE char *path = repo_url_decoded_path(&url);
	MUST(path && strlen(path) <= url.path.len);
	MUST(url.host.len == 0 || !memchr(url.host.data, '/', url.host.len));
	MUST(url.host.len == 0 || !memchr(url.host.data, '@', url.host.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *data = (const char *)bytes;

	check_sentinel(data, size);
	check_path(data, size);
	check_link(data, size);
	check_branch(data, size);
	check_url(data, size);
	return 0;
}
