/* Removes a test's directory with everything below it. */
#ifndef CLOOP_TESTS_UNIT_TREE_REMOVE_H
#define CLOOP_TESTS_UNIT_TREE_REMOVE_H

#include <ftw.h>
#include <stdio.h>

static int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline int tree_remove(const char *path)
{
	return nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
