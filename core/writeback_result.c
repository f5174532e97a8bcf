#include "core/writeback_result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/field.h"
#include "core/json.h"
#include "core/text.h"
#include "core/writeback.h"

enum field_type { TEXT, NUMBER, FLAG };

/* In the reference's order; every one is left out when empty. */
static const struct field {
	const char *name;
	enum field_type type;
	size_t offset;
} fields[] = {
	{"mode", TEXT, offsetof(struct writeback_result, mode)},
	{"branch", TEXT, offsetof(struct writeback_result, branch)},
	{"commit_sha", TEXT, offsetof(struct writeback_result, commit_sha)},
	{"base_sha", TEXT, offsetof(struct writeback_result, base_sha)},
	{"pushed", FLAG, offsetof(struct writeback_result, pushed)},
	{"bundle_bytes", NUMBER, offsetof(struct writeback_result, bundle_bytes)},
	{"bundle_sha256", TEXT, offsetof(struct writeback_result, bundle_sha256)},
	{"commits", NUMBER, offsetof(struct writeback_result, commits)},
	{"files_changed", NUMBER, offsetof(struct writeback_result, files_changed)},
	{"skipped", FLAG, offsetof(struct writeback_result, skipped)},
	{"skip_reason", TEXT, offsetof(struct writeback_result, skip_reason)},
	{"error", TEXT, offsetof(struct writeback_result, error)},
};

static const char *text_of(const struct writeback_result *r, const struct field *f)
{
	return text_or_empty(*(char *const *)((const char *)r + f->offset));
}

static int64_t number_of(const struct writeback_result *r, const struct field *f)
{
	return *(const int64_t *)((const char *)r + f->offset);
}

static bool flag_of(const struct writeback_result *r, const struct field *f)
{
	return *(const bool *)((const char *)r + f->offset);
}

bool writeback_result_delivered(const struct writeback_result *r)
{
	return r && !r->skipped && !text_or_empty(r->error)[0] && text_or_empty(r->branch)[0] &&
	       text_or_empty(r->commit_sha)[0];
}

char *writeback_result_describe(const struct writeback_result *r)
{
	const char *mode = r ? text_or_empty(r->mode) : "";
	char *text = NULL;
	int n;

	if (!r)
		return strdup("no write-back");
	if (text_or_empty(r->error)[0]) {
		n = asprintf(&text, "write-back failed: %s", r->error);
	} else if (r->skipped) {
		const char *why = text_or_empty(r->skip_reason);

		n = asprintf(&text, "nothing to write back%s%s", why[0] ? ": " : "", why);
	} else if (!writeback_result_delivered(r)) {
		return strdup("no write-back");
	} else {
		AUTO_FREE char *sha = commit_sha_short(r->commit_sha);

		n = sha ? asprintf(&text, "%s %s at %s (%" PRId64 " commits, %" PRId64 " files)",
				   mode[0] ? mode : "branch", r->branch, sha, r->commits,
				   r->files_changed)
			: -1;
	}
	if (n < 0)
		return NULL;
	text_one_line(text);
	return text;
}

/* A JSON string with the reference's escapes. */
static void put_text(struct buf *out, const char *s)
{
	buf_puts(out, "\"");
	for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
		if (*p == '"' || *p == '\\') {
			buf_printf(out, "\\%c", *p);
		} else if (*p == '\n') {
			buf_puts(out, "\\n");
		} else if (*p == '\r') {
			buf_puts(out, "\\r");
		} else if (*p == '\t') {
			buf_puts(out, "\\t");
		} else if (*p == '\b') {
			buf_puts(out, "\\b");
		} else if (*p == '\f') {
			buf_puts(out, "\\f");
		} else if (*p < 0x20 || *p == '<' || *p == '>' || *p == '&') {
			buf_printf(out, "\\u%04x", *p);
		} else if (p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9)) {
			buf_printf(out, "\\u20%02x", p[2] - 0x80);
			p += 2;
		} else {
			buf_append(out, p, 1);
		}
	}
	buf_puts(out, "\"");
}

static void put_result(struct buf *out, const struct writeback_result *r)
{
	const char *comma = "";

	buf_puts(out, "{");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];

		if ((f->type == TEXT && !text_of(r, f)[0]) ||
		    (f->type == NUMBER && number_of(r, f) == 0) ||
		    (f->type == FLAG && !flag_of(r, f)))
			continue;
		buf_printf(out, "%s\"%s\":", comma, f->name);
		if (f->type == TEXT)
			put_text(out, text_of(r, f));
		else if (f->type == NUMBER)
			buf_printf(out, "%" PRId64, number_of(r, f));
		else
			buf_puts(out, "true");
		comma = ",";
	}
	buf_puts(out, "}");
}

int writeback_sentinel_make(const struct writeback_result *r, char **ret, struct error *err)
{
	static const char prefix[] = WRITEBACK_SENTINEL " ";
	struct buf out = BUF_INIT(sizeof(prefix) - 1 + MAX_WRITEBACK_SENTINEL_BYTES);

	buf_puts(&out, prefix);
	put_result(&out, r);
	if (out.failed) {
		int failed = out.failed;

		buf_free(&out);
		if (failed == -EFBIG)
			return error_set(err, EFBIG, "the result is larger than %d bytes",
					 MAX_WRITEBACK_SENTINEL_BYTES);
		return error_oom(err);
	}
	*ret = buf_take(&out);
	return 0;
}

static const struct field *find_field(const char *name)
{
	struct text_view v = {name, strlen(name)};

	/* The reference's decoder takes names in any case. */
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (text_equal_fold(v, (struct text_view){fields[i].name, strlen(fields[i].name)}))
			return &fields[i];
	return NULL;
}

static int read_field(struct writeback_result *r, const struct field *f, json_t *value,
		      struct error *err)
{
	void *slot = (char *)r + f->offset;

	if (json_is_null(value))
		return 0;
	if (f->type == TEXT && json_is_string(value) &&
	    strlen(json_string_value(value)) == json_string_length(value)) {
		char *copy = strdup(json_string_value(value));

		if (!copy)
			return error_oom(err);
		free(*(char **)slot);
		*(char **)slot = copy;
		return 0;
	}
	if (f->type == NUMBER && json_is_integer(value)) {
		*(int64_t *)slot = json_integer_value(value);
		return 0;
	}
	if (f->type == FLAG && json_is_boolean(value)) {
		*(bool *)slot = json_is_true(value);
		return 0;
	}
	int r2 = error_set(err, EINVAL, "has the wrong type or a NUL byte");
	error_field(err, "%s", f->name);
	return r2;
}

int writeback_result_from_json(json_t *value, struct writeback_result *ret, struct error *err)
{
	struct writeback_result result = {0};
	const char *name;
	json_t *item;
	int r = 0;

	if (!json_is_object(value) && !json_is_null(value))
		return error_set(err, EINVAL, "must be an object");
	json_object_foreach(value, name, item)
	{
		const struct field *f = find_field(name);

		if (f && (r = read_field(&result, f, item, err)) < 0)
			break;
	}
	if (r < 0) {
		writeback_result_clear(&result);
		return r;
	}
	*ret = result;
	return 0;
}

/* Returns 1 when the line is a sentinel, 0 when not. */
static int scan_line(struct text_view line, struct writeback_result *ret)
{
	static const char prefix[] = WRITEBACK_SENTINEL;
	struct text_view v = text_trim(line.data, line.len);
	struct error err = {0};

	if (v.len < sizeof(prefix) - 1 || memcmp(v.data, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	v = text_trim(v.data + sizeof(prefix) - 1, v.len - (sizeof(prefix) - 1));
	/* The parser passes over a NUL that follows a number or a word. */
	if (v.len == 0 || v.len > MAX_WRITEBACK_SENTINEL_BYTES || memchr(v.data, '\0', v.len))
		return 0;
	AUTO_JSON json_t *value = NULL;
	int r = json_read(v.data, v.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &value, NULL);
	/* Without memory no line is passed over: an earlier one would count. */
	if (r == 0)
		r = writeback_result_from_json(value, ret, &err);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	return 1;
}

int writeback_sentinel_scan(const char *output, size_t len, struct writeback_result *ret)
{
	size_t end = len;

	if (len == 0)
		return 0;
	/* From the end: what stands before the last good line does not matter. */
	for (;;) {
		const char *newline = end > 0 ? memrchr(output, '\n', end) : NULL;
		size_t start = newline ? (size_t)(newline - output) + 1 : 0;
		int r = scan_line((struct text_view){output + start, end - start}, ret);

		if (r != 0)
			return r;
		if (!newline)
			return 0;
		end = start - 1;
	}
}

json_t *writeback_result_to_json(const struct writeback_result *r)
{
	AUTO_JSON json_t *o = json_object();

	if (!o)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];
		int e = f->type == TEXT     ? json_put_string_if(o, f->name, text_of(r, f))
			: f->type == NUMBER ? json_put_int_if(o, f->name, number_of(r, f))
					    : json_put_bool_if(o, f->name, flag_of(r, f));

		if (e < 0)
			return NULL;
	}
	return take_ptr(o);
}

void writeback_result_clear(struct writeback_result *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].type == TEXT)
			free(*(char **)((char *)r + fields[i].offset));
	*r = (struct writeback_result){0};
}
