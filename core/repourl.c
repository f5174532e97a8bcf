#include "core/repourl.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool has_bad_byte(struct text_view v)
{
	for (size_t i = 0; i < v.len; i++)
		if ((unsigned char)v.data[i] <= 0x20 || v.data[i] == 0x7f || v.data[i] == '\\')
			return true;
	return false;
}

static bool escapes_ok(struct text_view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (v.data[i] == '%' &&
		    (v.len - i < 3 || !is_hex(v.data[i + 1]) || !is_hex(v.data[i + 2])))
			return false;
	return true;
}

static bool port_ok(struct text_view v)
{
	if (v.len == 0)
		return true;
	if (v.data[0] != ':')
		return false;
	for (size_t i = 1; i < v.len; i++)
		if (!is_digit(v.data[i]))
			return false;
	return true;
}

static bool host_ok(struct text_view v)
{
	size_t i = 0;

	if (v.len > 0 && v.data[0] == '[') {
		const char *close = memchr(v.data, ']', v.len);

		if (!close || close == v.data + 1)
			return false;
		for (const char *p = v.data + 1; p < close; p++)
			if (!is_hex(*p) && *p != ':' && *p != '.')
				return false;
		i = (size_t)(close - v.data) + 1;
	} else {
		while (i < v.len && v.data[i] != ':') {
			char c = v.data[i];

			if (!is_alpha(c) && !is_digit(c) && !strchr("-_.~", c) &&
			    (unsigned char)c < 0x80)
				return false;
			i++;
		}
		if (i == 0 && v.len > 0)
			return false;
	}
	return port_ok((struct text_view){v.data + i, v.len - i});
}

/* The length of "scheme:", 0 when there is none. */
static size_t scheme_length(struct text_view v)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.data[i];

		if (is_alpha(c) || (i > 0 && (is_digit(c) || c == '+' || c == '-' || c == '.')))
			continue;
		return c == ':' && i > 0 ? i + 1 : 0;
	}
	return 0;
}

static struct text_view cut_at(struct text_view *v, char c, bool *ret_found)
{
	const char *at = v->len > 0 ? memchr(v->data, c, v->len) : NULL;
	struct text_view rest = {v->data + v->len, 0};

	*ret_found = at != NULL;
	if (at) {
		size_t n = (size_t)(at - v->data);

		rest = (struct text_view){at + 1, v->len - n - 1};
		v->len = n;
	}
	return rest;
}

bool repo_url_parse(struct text_view text, struct repo_url *ret)
{
	struct repo_url url = {0};
	size_t scheme;

	if (text.len == 0 || has_bad_byte(text))
		return false;
	cut_at(&text, '#', &url.has_fragment);
	cut_at(&text, '?', &url.has_query);
	scheme = scheme_length(text);
	url.https = scheme == 6 && strncasecmp(text.data, "https:", 6) == 0;
	text.data += scheme;
	text.len -= scheme;
	if (text.len >= 2 && text.data[0] == '/' && text.data[1] == '/') {
		struct text_view authority = {text.data + 2, text.len - 2};
		const char *slash = memchr(authority.data, '/', authority.len);

		if (slash)
			authority.len = (size_t)(slash - authority.data);
		text.data += 2 + authority.len;
		text.len -= 2 + authority.len;

		const char *at = memrchr(authority.data, '@', authority.len);
		url.has_user = at != NULL;
		url.host = authority;
		if (at) {
			size_t n = (size_t)(at - authority.data) + 1;

			url.host = (struct text_view){authority.data + n, authority.len - n};
		}
		if (!host_ok(url.host))
			return false;
	} else if (scheme > 0 && (text.len == 0 || text.data[0] != '/')) {
		/* What follows is opaque (the scp form without a user): no host and no path. */
		text.len = 0;
	} else if (scheme == 0 && text.len > 0 && text.data[0] != '/') {
		/* A colon in the first element would be the scheme of something else (scp form). */
		const char *slash = memchr(text.data, '/', text.len);
		size_t n = slash ? (size_t)(slash - text.data) : text.len;

		if (memchr(text.data, ':', n))
			return false;
	}
	if (!escapes_ok(text))
		return false;
	url.path = text;
	*ret = url;
	return true;
}

bool repo_url_has_path(const struct repo_url *url)
{
	for (size_t i = 0; i < url->path.len; i++)
		if (url->path.data[i] != '/')
			return true;
	return false;
}

static unsigned hex_value(char c)
{
	if (is_digit(c))
		return (unsigned)(c - '0');
	return (unsigned)((c | 0x20) - 'a') + 10;
}

char *repo_url_decoded_path(const struct repo_url *url)
{
	const char *path = url->path.data;
	char *out = malloc(url->path.len + 1);
	size_t used = 0;

	if (!out)
		return NULL;
	for (size_t i = 0; i < url->path.len; i++) {
		char c = path[i];

		/* The escapes were checked when the URL was parsed. */
		if (c == '%') {
			c = (char)(hex_value(path[i + 1]) << 4 | hex_value(path[i + 2]));
			i += 2;
		}
		out[used++] = c ? c : 0x7f;
	}
	out[used] = '\0';
	return out;
}
