/*
 * Durations as an operator writes them: a whole number and one unit, "30d", "12h", "90m", "45s",
 * "500ms".
 */
#ifndef CLOOP_CORE_DURATION_H
#define CLOOP_CORE_DURATION_H

#include <stdint.h>

/* Nanoseconds. 0, or -EINVAL for anything else, and for what does not fit (292 years). */
int duration_parse(const char *text, int64_t *ret_ns);

/* "90m" and the NUL: the largest unit that leaves nothing over. */
#define DURATION_MAX 24

/* For whole milliseconds, which is all that duration_parse() gives. */
void duration_format(int64_t ns, char buf[static DURATION_MAX]);

#endif
