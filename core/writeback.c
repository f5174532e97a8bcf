#include "core/writeback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/json.h"
#include "core/owner.h"

static const char *const mode_names[] = {
	[WRITEBACK_NONE] = "",
	[WRITEBACK_PUSH] = "push",
	[WRITEBACK_BUNDLE] = "bundle",
};

const char *writeback_mode_name(enum writeback_mode mode)
{
	return (size_t)mode < ARRAY_SIZE(mode_names) ? mode_names[mode] : "unknown";
}

enum writeback_mode writeback_mode_parse(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(mode_names); i++)
		if (strcmp(mode_names[i], word) == 0)
			return (enum writeback_mode)i;
	return WRITEBACK_UNKNOWN;
}

static int refuse_without_mode(const char *path, const char *name, struct error *err)
{
	int r = field_refuse(err, path, name, "has no meaning without a mode");

	error_remedy(err, "set mode to \"push\" or \"bundle\", or leave it out");
	return r;
}

static int check_bundle_bytes(const struct writeback *w, const char *path, struct error *err)
{
	int r;

	if (w->mode != WRITEBACK_PUSH)
		return field_check_range(err, path, "max_bundle_bytes", w->max_bundle_bytes,
					 MAX_WRITEBACK_BUNDLE_BYTES);
	if (w->max_bundle_bytes == 0)
		return 0;
	r = field_refuse(err, path, "max_bundle_bytes", "has no meaning for a push");
	error_remedy(err, "leave it out, or set mode to \"bundle\"");
	return r;
}

int writeback_validate(const struct writeback *w, const char *path, struct error *err)
{
	const char *branch = text_or_empty(w->branch);
	char where[JSON_PATH_MAX];
	int r;

	if (w->mode >= WRITEBACK_UNKNOWN) {
		r = field_refuse(err, path, "mode", "must be push or bundle");
		error_remedy(err, "leave write_back out if nothing is to be returned");
		return r;
	}
	if (w->mode == WRITEBACK_NONE) {
		if (text_trimmed(w->branch).len > 0)
			return refuse_without_mode(path, "branch", err);
		if (text_trimmed(w->message).len > 0)
			return refuse_without_mode(path, "message", err);
		if (w->max_bundle_bytes != 0)
			return refuse_without_mode(path, "max_bundle_bytes", err);
		return 0;
	}
	r = writeback_check_branch(branch, strlen(branch), err);
	if (r < 0) {
		field_path(where, path, "branch");
		error_field(err, "%s", where);
		return field_refused(r, err);
	}
	if (strlen(text_or_empty(w->message)) > MAX_WRITEBACK_MESSAGE_LEN)
		return field_refuse(err, path, "message", "is longer than %d bytes",
				    MAX_WRITEBACK_MESSAGE_LEN);
	return check_bundle_bytes(w, path, err);
}

bool writeback_is_zero(const struct writeback *w)
{
	return w->mode == WRITEBACK_NONE && !text_or_empty(w->branch)[0] &&
	       !text_or_empty(w->message)[0] && w->max_bundle_bytes == 0;
}

int64_t writeback_bundle_cap(const struct writeback *w)
{
	if (w->max_bundle_bytes <= 0)
		return DEFAULT_WRITEBACK_BUNDLE_BYTES;
	if (w->max_bundle_bytes > MAX_WRITEBACK_BUNDLE_BYTES)
		return MAX_WRITEBACK_BUNDLE_BYTES;
	return w->max_bundle_bytes;
}

char *writeback_describe(const struct writeback *w)
{
	const char *name = writeback_mode_name(w->mode);
	struct text_view branch = text_trimmed(w->branch);
	char *text = NULL;
	int n;

	if (w->mode == WRITEBACK_NONE)
		n = asprintf(&text, "none");
	else if (w->mode == WRITEBACK_BUNDLE)
		n = asprintf(&text, "%s %.*s (at most %" PRId64 " bytes)", name, (int)branch.len,
			     branch.data, writeback_bundle_cap(w));
	else
		n = asprintf(&text, "%s %.*s", name, (int)branch.len, branch.data);
	return n < 0 ? NULL : text;
}

static int refuse_branch(struct error *err, const char *reason)
{
	int r = error_set(err, EINVAL, "%s", reason);

	error_remedy(err, "name it as " WRITEBACK_BRANCH_PREFIX "task-7");
	return r;
}

static bool ends_with(struct text_view v, const char *suffix)
{
	size_t n = strlen(suffix);

	return v.len >= n && memcmp(v.data + v.len - n, suffix, n) == 0;
}

static bool contains(struct text_view v, const char *part)
{
	return v.data && memmem(v.data, v.len, part, strlen(part)) != NULL;
}

int writeback_check_branch(const char *branch, size_t len, struct error *err)
{
	static const char prefix[] = WRITEBACK_BRANCH_PREFIX;
	struct text_view v = text_trim(branch, len);

	if (v.len == 0)
		return refuse_branch(err, "the branch must not be empty");
	if (v.len > MAX_WRITEBACK_BRANCH_LEN)
		return refuse_branch(err, "the branch is longer than 200 bytes");
	if (v.data[0] == '-')
		return refuse_branch(err, "the branch must not begin with a dash");
	if (v.len < sizeof(prefix) - 1 || memcmp(v.data, prefix, sizeof(prefix) - 1) != 0)
		return refuse_branch(err, "the branch must begin with " WRITEBACK_BRANCH_PREFIX);
	if (text_has_control(v) || text_has_any(v, " ~^:?*[\\"))
		return refuse_branch(err, "the branch must not contain white space, a control "
					  "character or one of ~^:?*[\\");
	if (contains(v, "..") || contains(v, "@{") || contains(v, "//"))
		return refuse_branch(err, "the branch must not contain \"..\", \"@{\" or \"//\"");
	if (contains(v, "/."))
		return refuse_branch(err, "no part of the branch may begin with a dot");
	if (ends_with(v, "/") || ends_with(v, ".") || ends_with(v, ".lock"))
		return refuse_branch(err, "the branch must not end with \"/\", \".\" or \".lock\"");
	return 0;
}

int commit_sha_check(const char *sha, size_t len, struct error *err)
{
	size_t digits = 0;
	int r;

	while (digits < len && ((sha[digits] >= '0' && sha[digits] <= '9') ||
				(sha[digits] >= 'a' && sha[digits] <= 'f')))
		digits++;
	if (len == COMMIT_SHA_LEN && digits == len)
		return 0;
	r = error_set(err, EINVAL, "must be a full commit: 40 lower-case hexadecimal digits");
	error_remedy(err, "give what `git rev-parse` prints");
	return r;
}

char *commit_sha_short(const char *sha)
{
	size_t n = strnlen(sha, COMMIT_SHA_SHORT_LEN + 1);

	if (n > COMMIT_SHA_SHORT_LEN)
		n = COMMIT_SHA_SHORT_LEN;
	while (n > 0 && ((unsigned char)sha[n] & 0xc0) == 0x80)
		n--;
	return strndup(sha, n);
}

int writeback_from_json(json_t *value, const char *path, struct writeback *ret, struct error *err)
{
	struct writeback w = {0};
	struct json_object o;
	const char *mode = "";
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = json_object_string(&o, "mode", &mode, err)) < 0 ||
	    (r = field_text(&o, "branch", &w.branch, err)) < 0 ||
	    (r = field_text(&o, "message", &w.message, err)) < 0 ||
	    (r = json_object_int64(&o, "max_bundle_bytes", &w.max_bundle_bytes, err)) < 0 ||
	    (r = json_object_end(&o, err)) < 0) {
		writeback_clear(&w);
		return field_refused(r, err);
	}
	w.mode = writeback_mode_parse(mode);
	*ret = w;
	return 0;
}

json_t *writeback_to_json(const struct writeback *w)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string_if(o, "mode", writeback_mode_name(w->mode)) < 0 ||
	    json_put_string_if(o, "branch", w->branch) < 0 ||
	    json_put_string_if(o, "message", w->message) < 0 ||
	    json_put_int_if(o, "max_bundle_bytes", w->max_bundle_bytes) < 0)
		return NULL;
	return take_ptr(o);
}

void writeback_clear(struct writeback *w)
{
	free(w->branch);
	free(w->message);
	*w = (struct writeback){0};
}
