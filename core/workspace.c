#include "core/workspace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/field.h"
#include "core/json.h"
#include "core/owner.h"
#include "core/repourl.h"

static const char *const kind_names[] = {
	[WORKSPACE_UNSPECIFIED] = "",
	[WORKSPACE_BIND] = "bind",
	[WORKSPACE_GIT] = "git",
	[WORKSPACE_NONE] = "none",
};

const char *workspace_kind_name(enum workspace_kind kind)
{
	return (size_t)kind < ARRAY_SIZE(kind_names) ? kind_names[kind] : "unknown";
}

enum workspace_kind workspace_kind_parse(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++)
		if (strcmp(kind_names[i], word) == 0)
			return (enum workspace_kind)i;
	return WORKSPACE_UNKNOWN;
}

static int refuse_git_only(const char *path, const char *name, struct error *err)
{
	int r = field_refuse(err, path, name, "is only for a workspace of kind git");

	error_remedy(err, "set kind to \"git\", or leave it out");
	return r;
}

static int check_no_git_fields(const struct workspace *w, const char *path, struct error *err)
{
	if (text_trimmed(w->repo).len > 0)
		return refuse_git_only(path, "repo", err);
	if (text_trimmed(w->ref).len > 0)
		return refuse_git_only(path, "ref", err);
	if (w->depth != 0)
		return refuse_git_only(path, "depth", err);
	if (text_trimmed(w->credential_grant).len > 0)
		return refuse_git_only(path, "credential_grant", err);
	return 0;
}

static int check_repo(const struct workspace *w, const char *path, struct error *err)
{
	struct text_view repo = text_trimmed(w->repo);
	struct repo_url url;
	int r;

	if (repo.len == 0)
		return field_refuse(err, path, "repo", "must name the repository to fetch");
	if (repo.len > MAX_WORKSPACE_REPO_LEN)
		return field_refuse(err, path, "repo", "is longer than %d bytes",
				    MAX_WORKSPACE_REPO_LEN);
	if (!repo_url_parse(repo, &url)) {
		r = field_refuse(err, path, "repo", "is not a URL that git can be given");
		error_remedy(err, "write it as https://host/owner/name.git");
		return r;
	}
	if (!url.https) {
		r = field_refuse(err, path, "repo", "must be an https URL");
		error_remedy(err, "write it as https://host/owner/name.git");
		return r;
	}
	if (url.has_user) {
		r = field_refuse(err, path, "repo", "must not carry a user name or password");
		error_remedy(err, "name a grant in credential_grant instead");
		return r;
	}
	if (url.has_query || url.has_fragment)
		return field_refuse(err, path, "repo", "must not have a query or a fragment");
	if (url.host.len == 0)
		return field_refuse(err, path, "repo", "names no host");
	if (!repo_url_has_path(&url))
		return field_refuse(err, path, "repo", "names no repository on its host");
	return 0;
}

static bool has_pair(struct text_view v, const char *pair)
{
	return v.data && v.len >= 2 && memmem(v.data, v.len, pair, 2) != NULL;
}

static int check_ref(const struct workspace *w, const char *path, struct error *err)
{
	struct text_view ref = text_trimmed(w->ref);

	if (ref.len == 0)
		return 0;
	if (ref.len > MAX_WORKSPACE_REF_LEN)
		return field_refuse(err, path, "ref", "is longer than %d bytes",
				    MAX_WORKSPACE_REF_LEN);
	if (ref.data[0] == '-' || ref.data[0] == '+')
		return field_refuse(err, path, "ref", "must not begin with '-' or '+'");
	if (text_has_control(ref) || text_has_any(ref, " ~^:?*[\\") || has_pair(ref, "..") ||
	    has_pair(ref, "@{"))
		return field_refuse(err, path, "ref",
				    "must be a branch, a tag or a commit: no white space, control "
				    "character, \"..\", \"@{\" or one of ~^:?*[\\");
	return 0;
}

static int check_grant(const struct workspace *w, const char *path, struct error *err)
{
	struct text_view grant = text_trimmed(w->credential_grant);

	if (grant.len > MAX_WORKSPACE_GRANT_LEN)
		return field_refuse(err, path, "credential_grant", "is longer than %d bytes",
				    MAX_WORKSPACE_GRANT_LEN);
	for (size_t i = 0; i < grant.len; i++) {
		char c = grant.data[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '-' || c == '_' || c == '.' || c == ':')
			continue;
		int r = field_refuse(err, path, "credential_grant",
				     "must consist of letters, digits and - _ . :");
		error_remedy(err, "name the grant, never write the credential itself");
		return r;
	}
	return 0;
}

int workspace_validate(const struct workspace *w, const char *path, struct error *err)
{
	int r;

	if (w->kind >= WORKSPACE_UNKNOWN)
		return field_refuse(err, path, "kind", "must be bind, git or none");
	r = field_check_range(err, path, "size_limit_mb", w->size_limit_mb, WORKSPACE_SIZE_MB_MAX);
	if (r < 0)
		return r;
	if (w->kind != WORKSPACE_GIT)
		return check_no_git_fields(w, path, err);
	if ((r = check_repo(w, path, err)) < 0 || (r = check_ref(w, path, err)) < 0 ||
	    (r = field_check_range(err, path, "depth", w->depth, MAX_WORKSPACE_DEPTH)) < 0)
		return r;
	return check_grant(w, path, err);
}

bool workspace_is_zero(const struct workspace *w)
{
	return w->kind == WORKSPACE_UNSPECIFIED && !text_or_empty(w->repo)[0] &&
	       !text_or_empty(w->ref)[0] && w->depth == 0 &&
	       !text_or_empty(w->credential_grant)[0] && w->size_limit_mb == 0;
}

bool workspace_needs_provisioning(const struct workspace *w)
{
	return w->kind == WORKSPACE_GIT;
}

bool workspace_requires_credential(const struct workspace *w)
{
	return w->kind == WORKSPACE_GIT && text_trimmed(w->credential_grant).len > 0;
}

int workspace_base_url(const struct workspace *w, char **ret)
{
	struct repo_url url;
	char *text = NULL;

	if (repo_url_parse(text_trimmed(w->repo), &url) && url.https && url.host.len > 0 &&
	    asprintf(&text, "https://%.*s/", (int)url.host.len, url.host.data) < 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}

char *workspace_host(const struct workspace *w)
{
	struct repo_url url;

	if (!repo_url_parse(text_trimmed(w->repo), &url))
		return strdup("");
	return strndup(url.host.len > 0 ? url.host.data : "", url.host.len);
}

/* Whether text is exactly two non-empty elements that name something. */
static bool is_owner_and_name(const char *text)
{
	const char *slash = strchr(text, '/');

	if (!slash || slash == text || !slash[1] || strchr(slash + 1, '/'))
		return false;
	return strncmp(text, "./", 2) != 0 && strncmp(text, "../", 3) != 0 &&
	       strcmp(slash + 1, ".") != 0 && strcmp(slash + 1, "..") != 0;
}

int workspace_repo_path(const struct workspace *w, char **ret)
{
	struct repo_url url;

	*ret = NULL;
	if (!repo_url_parse(text_trimmed(w->repo), &url))
		return 0;
	AUTO_FREE char *path = repo_url_decoded_path(&url);
	if (!path)
		return -ENOMEM;

	char *start = path + strspn(path, "/");
	size_t len = strlen(start);

	while (len > 0 && start[len - 1] == '/')
		len--;
	if (len >= 4 && memcmp(start + len - 4, ".git", 4) == 0)
		len -= 4;
	start[len] = '\0';
	if (!is_owner_and_name(start) || text_has_control((struct text_view){start, len}))
		return 0;
	*ret = strdup(start);
	return *ret ? 0 : -ENOMEM;
}

char *workspace_describe(const struct workspace *w)
{
	struct text_view repo = text_trimmed(w->repo), ref = text_trimmed(w->ref);
	struct text_view grant = text_trimmed(w->credential_grant);
	struct buf out = BUF_INIT(MAX_WORKSPACE_REPO_LEN + MAX_WORKSPACE_REF_LEN +
				  MAX_WORKSPACE_GRANT_LEN + 256);

	buf_puts(&out,
		 w->kind == WORKSPACE_UNSPECIFIED ? "unspecified" : workspace_kind_name(w->kind));
	if (repo.len > 0)
		buf_printf(&out, " %.*s", (int)repo.len, repo.data);
	if (ref.len > 0)
		buf_printf(&out, "@%.*s", (int)ref.len, ref.data);
	if (w->depth > 0)
		buf_printf(&out, " depth %" PRId64, w->depth);
	if (grant.len > 0)
		buf_printf(&out, " grant %.*s", (int)grant.len, grant.data);
	if (out.failed) {
		buf_free(&out);
		return NULL;
	}
	return buf_take(&out);
}

int workspace_from_json(json_t *value, const char *path, struct workspace *ret, struct error *err)
{
	struct workspace w = {0};
	struct json_object o;
	const char *kind = "";
	int r;

	if ((r = json_object_begin(&o, value, path, err)) < 0 ||
	    (r = json_object_string(&o, "kind", &kind, err)) < 0 ||
	    (r = field_text(&o, "repo", &w.repo, err)) < 0 ||
	    (r = field_text(&o, "ref", &w.ref, err)) < 0 ||
	    (r = json_object_int64(&o, "depth", &w.depth, err)) < 0 ||
	    (r = field_text(&o, "credential_grant", &w.credential_grant, err)) < 0 ||
	    (r = json_object_int64(&o, "size_limit_mb", &w.size_limit_mb, err)) < 0 ||
	    (r = json_object_end(&o, err)) < 0) {
		workspace_clear(&w);
		return field_refused(r, err);
	}
	w.kind = workspace_kind_parse(kind);
	*ret = w;
	return 0;
}

json_t *workspace_to_json(const struct workspace *w)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string_if(o, "kind", workspace_kind_name(w->kind)) < 0 ||
	    json_put_string_if(o, "repo", w->repo) < 0 ||
	    json_put_string_if(o, "ref", w->ref) < 0 || json_put_int_if(o, "depth", w->depth) < 0 ||
	    json_put_string_if(o, "credential_grant", w->credential_grant) < 0 ||
	    json_put_int_if(o, "size_limit_mb", w->size_limit_mb) < 0)
		return NULL;
	return take_ptr(o);
}

void workspace_clear(struct workspace *w)
{
	free(w->repo);
	free(w->ref);
	free(w->credential_grant);
	*w = (struct workspace){0};
}
