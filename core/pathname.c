#include "core/pathname.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/owner.h"

bool pathname_element(const char *path, size_t len, size_t *pos, const char **ret, size_t *ret_len)
{
	/* One past the end means that the last element was returned; a trailing slash leaves an
	 * empty one. */
	if (*pos > len)
		return false;
	const char *start = path + *pos;
	const char *slash = memchr(start, '/', len - *pos);
	size_t n = slash ? (size_t)(slash - start) : len - *pos;

	*ret = start;
	*ret_len = n;
	*pos += n + 1;
	return true;
}

static bool is_dotdot(const char *element, size_t len)
{
	return len == 2 && element[0] == '.' && element[1] == '.';
}

static bool is_dot(const char *element, size_t len)
{
	return len == 1 && element[0] == '.';
}

bool pathname_has_dotdot(const char *path, size_t len)
{
	const char *element;
	size_t n;

	for (size_t pos = 0; pathname_element(path, len, &pos, &element, &n);)
		if (is_dotdot(element, n))
			return true;
	return false;
}

bool pathname_is_clean(const char *path, size_t len)
{
	if (len == 0)
		return false;
	if (len == 1)
		return true;

	bool rooted = path[0] == '/';
	bool names = rooted; /* ".." is no longer allowed */
	const char *element;
	size_t n;

	for (size_t pos = rooted ? 1 : 0; pathname_element(path, len, &pos, &element, &n);) {
		if (n == 0 || is_dot(element, n))
			return false;
		if (!is_dotdot(element, n))
			names = true;
		else if (names)
			return false;
	}
	return true;
}

char *pathname_clean(const char *path, size_t len)
{
	char *out = malloc(len + 2);
	bool rooted = len > 0 && path[0] == '/';
	size_t used = 0, floor; /* bytes below floor cannot be undone by ".." */
	const char *element;
	size_t n;

	if (!out)
		return NULL;
	if (rooted)
		out[used++] = '/';
	floor = used;
	for (size_t pos = 0; pathname_element(path, len, &pos, &element, &n);) {
		if (n == 0 || is_dot(element, n))
			continue;
		if (is_dotdot(element, n)) {
			if (used > floor) {
				while (used > floor && out[used - 1] != '/')
					used--;
				if (used > floor)
					used--;
				continue;
			}
			if (rooted)
				continue;
		}
		if (used > (rooted ? 1U : 0U))
			out[used++] = '/';
		memcpy(out + used, element, n);
		used += n;
		if (is_dotdot(element, n))
			floor = used;
	}
	if (used == 0)
		out[used++] = '.';
	out[used] = '\0';
	return out;
}

char *pathname_join(const char *dir, const char *name)
{
	AUTO_FREE char *raw = NULL;

	if (!dir[0] && !name[0])
		return strdup("");
	if (!dir[0])
		return pathname_clean(name, strlen(name));
	if (!name[0])
		return pathname_clean(dir, strlen(dir));
	if (asprintf(&raw, "%s/%s", dir, name) < 0) {
		raw = NULL;
		return NULL;
	}
	return pathname_clean(raw, strlen(raw));
}

bool pathname_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}
