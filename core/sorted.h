/*
 * Arrays that are kept in order: where something is, and room for what comes. The owner counts.
 */
#ifndef CLOOP_CORE_SORTED_H
#define CLOOP_CORE_SORTED_H

#include <stddef.h>
#include <string.h>

/*
 * The index of the first of n items of that size that is not below the key; n when all are.
 * compare is below 0 when the item is below the key, as that of bsearch(3) with its sides exchanged.
 */
static inline size_t sorted_place(const void *items, size_t n, size_t size, const void *key,
				  int (*compare)(const void *item, const void *key))
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare((const char *)items + mid * size, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Makes room at that index, for which the array has to be large enough. */
static inline void sorted_open_gap(void *items, size_t n, size_t size, size_t at)
{
	char *gap = (char *)items + at * size;

	memmove(gap + size, gap, (n - at) * size);
}

/* Closes over the item at that index, which was taken out. */
static inline void sorted_close_gap(void *items, size_t n, size_t size, size_t at)
{
	char *gap = (char *)items + at * size;

	memmove(gap, gap + size, (n - at - 1) * size);
}

#endif
