/*
 * Names, paths and URLs of any bytes: what the small lexical tools promise of each other. The first
 * byte chooses the tool, the rest is its text.
 */
#include <string.h>

#include "core/ceiling.h"
#include "core/owner.h"
#include "core/pathname.h"
#include "core/redact.h"
#include "core/repourl.h"
#include "core/text.h"
#include "tests/fuzz/fuzz.h"

static bool inside(struct text_view part, struct text_view whole)
{
	return part.len == 0 ||
	       (part.data >= whole.data && part.data + part.len <= whole.data + whole.len);
}

static void check_url(struct text_view v)
{
	struct repo_url url;

	if (!repo_url_parse(v, &url))
		return;
	MUST(inside(url.host, v) && inside(url.path, v));
	AUTO_FREE char *path = repo_url_decoded_path(&url);
	MUST(path && strlen(path) <= url.path.len);
	for (size_t i = 0; i < url.host.len; i++)
		MUST(!strchr("/@\\?# ", url.host.data[i]));
}

static void check_path(struct text_view v)
{
	AUTO_FREE char *clean = memchr(v.data, '\0', v.len) ? NULL : pathname_clean(v.data, v.len);

	if (!clean)
		return;

	size_t len = strlen(clean);
	AUTO_FREE char *twice = pathname_clean(clean, len);
	MUST(twice && strcmp(clean, twice) == 0);
	MUST(pathname_is_clean(clean, len));
	MUST(pathname_is_clean(v.data, v.len) == (v.len == len && memcmp(v.data, clean, len) == 0));
	MUST(clean[0] != '/' || !pathname_has_dotdot(clean, len));
}

static void check_host(struct text_view v)
{
	if (!network_host_valid(v))
		return;
	MUST(v.len <= 260);
	for (size_t i = 0; i < v.len; i++)
		MUST(v.data[i] > ' ' && !strchr("*_%/@\\", v.data[i]));
}

/* The secret ends at the first newline. */
static void check_redaction(struct text_view v)
{
	const char *newline = memchr(v.data, '\n', v.len);
	struct text_view secret = {v.data, newline ? (size_t)(newline - v.data) : 0};
	AUTO_FREE char *out = NULL;
	size_t len;

	if (!newline)
		return;
	struct text_view text = {newline + 1, v.len - secret.len - 1};
	MUST(redact_text(text.data, text.len, &secret, 1, &out, &len) == 0);
	MUST(out[len] == '\0');
	if (secret.len < REDACT_MIN_BYTES)
		MUST(len == text.len && memcmp(out, text.data, len) == 0);
	/* A secret with a byte of the marker may come together around one. */
	for (size_t i = 0; i < secret.len; i++)
		if (strchr(REDACT_MARKER, secret.data[i]))
			return;
	MUST(secret.len < REDACT_MIN_BYTES || !memmem(out, len, secret.data, secret.len));
}

static void check_text(struct text_view v)
{
	struct text_view once = text_trim(v.data, v.len);
	struct text_view twice = text_trim(once.data, once.len);

	MUST(inside(once, v));
	MUST(once.data == twice.data && once.len == twice.len);
	MUST(text_equal_fold(v, v));
	MUST(text_lower_prefix(v, "kata") <= v.len);
	struct text_view half = {v.data, v.len / 2};
	MUST(text_equal_fold(half, once) == text_equal_fold(once, half));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(struct text_view) = {
		check_url, check_path, check_host, check_redaction, check_text,
	};

	if (size > 1)
		checks[data[0] % ARRAY_SIZE(checks)](
			(struct text_view){(const char *)data + 1, size - 1});
	return 0;
}
