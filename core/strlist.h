/*
 * Lists of strings, as argv and env are: an array of n owned strings with a NULL after the last,
 * so that it can be handed to execve() as it is. An empty list is NULL with n = 0.
 */
#ifndef CLOOP_CORE_STRLIST_H
#define CLOOP_CORE_STRLIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* Frees the strings and the array. Returns NULL. */
char **strlist_free(char **list, size_t n);

/* A deep copy; NULL when out of memory (or when n is 0). */
char **strlist_dup(char *const *list, size_t n);

bool strlist_contains(char *const *list, size_t n, const char *value);

/* Sorts by bytes and drops repetitions; returns the new count. */
size_t strlist_sort_unique(char **list, size_t n);

/*
 * Reads an array of strings. path names the array in errors ("argv"), its element is then
 * "argv[2]". Errors: EINVAL for an element that is not a string or holds a NUL.
 */
int strlist_from_json(json_t *array, const char *path, char ***ret, size_t *ret_n,
		      struct error *err);

/* A JSON array; NULL when out of memory. */
json_t *strlist_to_json(char *const *list, size_t n);

#endif
