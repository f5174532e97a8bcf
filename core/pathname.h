/*
 * Lexical work on slash-separated paths: nothing here asks the file system.
 *
 * What is clean, and how paths are joined, is what the reference takes it to be, because such
 * paths cross its interfaces. Paths are bytes; a NUL is a byte
 * like any other, so callers that get text from outside refuse it first.
 */
#ifndef CLOOP_CORE_PATHNAME_H
#define CLOOP_CORE_PATHNAME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether cleaning would change nothing: not empty, no empty element, no trailing slash except "/"
 * itself, no "." except alone, and ".." only at the start of a relative path.
 */
bool pathname_is_clean(const char *path, size_t len);

/* Whether one of the elements is "..". */
bool pathname_has_dotdot(const char *path, size_t len);

/* The shortest path that means the same ("." for ""). NULL when out of memory. Caller frees. */
char *pathname_clean(const char *path, size_t len);

/* dir and name with a slash between, cleaned; empty parts are left out. "" when both are empty. */
char *pathname_join(const char *dir, const char *name);

/* Whether path is dir itself or lies below it, both taken as spelled. */
bool pathname_is_below(const char *path, const char *dir);

/*
 * Iterates over the elements: *pos starts at 0. Returns false at the end. Empty elements are
 * returned too.
 */
bool pathname_element(const char *path, size_t len, size_t *pos, const char **ret, size_t *ret_len);

#endif
