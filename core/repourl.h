/*
 * The URL of a git repository, taken apart without copying.
 *
 * Accepts what the reference's URL parser accepts, and then less: no control character, space or
 * backslash anywhere, and a host of letters, digits, "-", "_", ".", "~" and bytes above ASCII, with
 * an optional port, or an IPv6 literal in brackets. Anything else could be read differently by git,
 * by curl and by us, and the host decides who gets a credential.
 */
#ifndef CLOOP_CORE_REPOURL_H
#define CLOOP_CORE_REPOURL_H

#include <stdbool.h>

#include "core/text.h"

struct repo_url {
	bool https;            /* the scheme, in any case */
	bool has_user;         /* there is an @ in the authority, even with nothing before it */
	struct text_view host; /* with the port, as spelled; empty without an authority */
	struct text_view path; /* still percent-encoded; empty where "scheme:" has no slash after */
	bool has_query;        /* there is a '?', even with nothing after it */
	bool has_fragment;     /* there is a '#' */
};

/* Returns false, leaving *ret alone, when the text is not such a URL. */
bool repo_url_parse(struct text_view text, struct repo_url *ret);

/* Whether the path has anything but slashes. */
bool repo_url_has_path(const struct repo_url *url);

/*
 * The path with its %XX decoded; a decoded NUL becomes 0x7f, so that it cannot hide what follows.
 * NULL when out of memory. Caller frees.
 */
char *repo_url_decoded_path(const struct repo_url *url);

#endif
