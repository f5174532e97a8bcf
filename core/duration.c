#include "core/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/owner.h"

/* The largest first. */
static const struct {
	const char *name;
	int64_t ns;
} units[] = {
	{"d", 86400 * CLOCK_NS_PER_S}, {"h", 3600 * CLOCK_NS_PER_S}, {"m", 60 * CLOCK_NS_PER_S},
	{"s", CLOCK_NS_PER_S},         {"ms", CLOCK_NS_PER_MS},
};

int duration_parse(const char *text, int64_t *ret_ns)
{
	int64_t n = 0, ns;
	size_t i = 0;

	for (; text[i] >= '0' && text[i] <= '9'; i++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, text[i] - '0', &n))
			return -EINVAL;
	if (i == 0)
		return -EINVAL;
	for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
		if (strcmp(text + i, units[u].name) != 0)
			continue;
		if (__builtin_mul_overflow(n, units[u].ns, &ns))
			return -EINVAL;
		*ret_ns = ns;
		return 0;
	}
	return -EINVAL;
}

void duration_format(int64_t ns, char buf[static DURATION_MAX])
{
	size_t u = 0;

	while (u + 1 < ARRAY_SIZE(units) && (ns < units[u].ns || ns % units[u].ns != 0))
		u++;
	(void)snprintf(buf, DURATION_MAX, "%" PRId64 "%s", ns / units[u].ns, units[u].name);
}
