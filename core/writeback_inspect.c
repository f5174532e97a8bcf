#include "core/writeback_inspect.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/owner.h"
#include "core/pathname.h"

static const char *const reason_names[WRITEBACK_REASONS] = {
	[WRITEBACK_REASON_UNSPECIFIED] = "unspecified",
	[WRITEBACK_REASON_BAD_BRANCH] = "bad_branch",
	[WRITEBACK_REASON_BAD_COMMIT] = "bad_commit",
	[WRITEBACK_REASON_EMPTY_RANGE] = "empty_range",
	[WRITEBACK_REASON_UNKNOWN_BASE] = "unknown_base",
	[WRITEBACK_REASON_FSCK] = "fsck",
	[WRITEBACK_REASON_REF_MOVED] = "ref_moved",
	[WRITEBACK_REASON_NOT_DESCENDANT] = "not_descendant",
	[WRITEBACK_REASON_TOO_MANY_COMMITS] = "too_many_commits",
	[WRITEBACK_REASON_PATH] = "path",
	[WRITEBACK_REASON_MODE] = "mode",
};

const char *writeback_reason_name(enum writeback_reason reason)
{
	return reason_names[(size_t)reason < WRITEBACK_REASONS ? reason
							       : WRITEBACK_REASON_UNSPECIFIED];
}

int writeback_reject(struct writeback_rejection *ret, enum writeback_reason code, struct error *err,
		     const char *fmt, ...)
{
	char reason[ERROR_REASON_MAX];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	if (ret)
		*ret = (struct writeback_rejection){.code = code};
	return error_set_kind(err, EBADMSG, ERROR_WRITEBACK_REJECTED, "%s",
			      n < 0 ? "rejected" : reason);
}

/*
 * The next byte of an element as HFS+ compares it, in lower case and without the code points it
 * ignores (U+200C–200F, U+202A–202E, U+206A–206F, U+FEFF). 0 at the end; a path holds no NUL.
 */
static char next_folded(const char *element, size_t len, size_t *pos)
{
	const unsigned char *p = (const unsigned char *)element;

	for (;;) {
		size_t i = *pos, left = len - i;

		if (left == 0)
			return '\0';
		if (left >= 3 &&
		    ((p[i] == 0xe2 && p[i + 1] == 0x80 &&
		      ((p[i + 2] >= 0x8c && p[i + 2] <= 0x8f) ||
		       (p[i + 2] >= 0xaa && p[i + 2] <= 0xae))) ||
		     (p[i] == 0xe2 && p[i + 1] == 0x81 && p[i + 2] >= 0xaa && p[i + 2] <= 0xaf) ||
		     (p[i] == 0xef && p[i + 1] == 0xbb && p[i + 2] == 0xbf))) {
			*pos += 3;
			continue;
		}
		/* A dotted capital I is an i in lower case. */
		if (left >= 2 && p[i] == 0xc4 && p[i + 1] == 0xb0) {
			*pos += 2;
			return 'i';
		}
		*pos += 1;
		return p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 'a' - 'A') : (char)p[i];
	}
}

static bool is_spelled(const char *element, size_t len, const char *name)
{
	size_t pos = 0;
	char c;

	for (; *name; name++)
		if (next_folded(element, len, &pos) != *name)
			return false;
	/* Dots and spaces at the end do not count, nor does a stream after a colon. */
	do
		c = next_folded(element, len, &pos);
	while (c == '.' || c == ' ');
	return c == '\0' || c == ':';
}

static bool is_dotgit(const char *element, size_t len)
{
	return is_spelled(element, len, ".git") || is_spelled(element, len, ".git~1") ||
	       is_spelled(element, len, "git~1");
}

/* Why a path is refused, NULL when it is not. */
static const char *path_fault(const char *path, size_t len)
{
	struct text_view v = {path, len};
	const char *element;
	size_t n;

	if (len == 0)
		return "the path is empty";
	if (len > MAX_WRITEBACK_PATH_LEN)
		return "the path is longer than 4096 bytes";
	if (text_has_control(v))
		return "the path contains a control character";
	if (text_has_any(v, "\\"))
		return "the path contains a backslash";
	if (path[0] == '/')
		return "the path is absolute";
	if (pathname_has_dotdot(path, len))
		return "the path contains a \"..\" element";
	if (!pathname_is_clean(path, len))
		return "the path is not clean";
	if (len == 1 && path[0] == '.')
		return "the path is the root of the tree";
	for (size_t pos = 0; pathname_element(path, len, &pos, &element, &n);)
		if (is_dotgit(element, n))
			return "the path leads into .git";
	return NULL;
}

/* Bytes of a foreign path that a sentence shows. */
#define SHOWN_PATH_MAX 200

static int shown(size_t len)
{
	return (int)(len > SHOWN_PATH_MAX ? SHOWN_PATH_MAX : len);
}

int writeback_check_path(const char *path, size_t len, struct error *err)
{
	const char *fault = path_fault(path, len);

	if (!fault)
		return 0;
	return writeback_reject(NULL, WRITEBACK_REASON_PATH, err, "%s: %.*s", fault, shown(len),
				path);
}

/* Where the link points, lexically, from the directory it is in. NULL when out of memory. */
static char *resolve_link(const struct bundle_entry *e)
{
	const char *slash = memrchr(e->path, '/', e->path_len);
	size_t dir = slash ? (size_t)(slash - e->path) + 1 : 0;
	AUTO_FREE char *joined = malloc(dir + e->link_target_len + 1);

	if (!joined)
		return NULL;
	memcpy(joined, e->path, dir);
	memcpy(joined + dir, e->link_target, e->link_target_len);
	return pathname_clean(joined, dir + e->link_target_len);
}

static const char *link_fault(const struct bundle_entry *e, char **ret_resolved)
{
	struct text_view target = {e->link_target, e->link_target_len};

	if (!e->link_target || target.len == 0)
		return "the link points nowhere";
	if (target.len > MAX_WRITEBACK_PATH_LEN)
		return "the link is longer than 4096 bytes";
	if (text_has_control(target) || text_has_any(target, "\\"))
		return "the link contains a control character or a backslash";
	if (target.data[0] == '/')
		return "the link is absolute";
	*ret_resolved = resolve_link(e);
	if (!*ret_resolved)
		return NULL;
	if (pathname_has_dotdot(*ret_resolved, strlen(*ret_resolved)))
		return "the link leads out of the tree";
	if (strcmp(*ret_resolved, ".") == 0)
		return NULL;
	return path_fault(*ret_resolved, strlen(*ret_resolved));
}

static int check_link(const struct bundle_entry *e, struct writeback_rejection *ret,
		      struct error *err)
{
	AUTO_FREE char *resolved = NULL;
	const char *fault = link_fault(e, &resolved);

	if (!fault)
		return resolved ? 0 : error_oom(err);
	int r = writeback_reject(ret, WRITEBACK_REASON_PATH, err, "%s: %.*s -> %.*s", fault,
				 shown(e->path_len), e->path, shown(e->link_target_len),
				 e->link_target ? e->link_target : "");
	if (ret) {
		ret->entry = e;
		ret->target = e->link_target;
	}
	return r;
}

int writeback_check_entry(const struct bundle_entry *e, struct writeback_rejection *ret,
			  struct error *err)
{
	static const char *const plain[] = {MODE_ABSENT, MODE_FILE, MODE_EXEC, MODE_TREE};
	const char *fault = path_fault(e->path, e->path_len);
	int r;

	if (fault) {
		r = writeback_reject(ret, WRITEBACK_REASON_PATH, err, "%s: %.*s", fault,
				     shown(e->path_len), e->path);
		if (ret)
			ret->entry = e;
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (strcmp(e->mode, plain[i]) == 0)
			return 0;
	if (strcmp(e->mode, MODE_SYMLINK) == 0)
		return check_link(e, ret, err);
	if (strcmp(e->mode, MODE_SUBMODULE) == 0)
		r = writeback_reject(ret, WRITEBACK_REASON_MODE, err,
				     "submodules are not accepted: %.*s", shown(e->path_len),
				     e->path);
	else
		r = writeback_reject(ret, WRITEBACK_REASON_MODE, err,
				     "the mode %.16s is not accepted: %.*s", e->mode,
				     shown(e->path_len), e->path);
	if (ret) {
		ret->entry = e;
		ret->mode = e->mode;
	}
	return r;
}

int writeback_inspect(const char *branch, const char *commit_sha,
		      const struct bundle_entry *entries, size_t n, struct writeback_rejection *ret,
		      struct error *err)
{
	int r = 0;

	if (n > MAX_WRITEBACK_FILES)
		r = writeback_reject(ret, WRITEBACK_REASON_TOO_MANY_COMMITS, err,
				     "the range changes %zu paths, more than %d", n,
				     MAX_WRITEBACK_FILES);
	for (size_t i = 0; i < n && r == 0; i++)
		r = writeback_check_entry(&entries[i], ret, err);
	if (r == -EBADMSG && ret) {
		ret->branch = branch;
		ret->commit_sha = commit_sha;
	}
	return r;
}
