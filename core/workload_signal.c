#include "core/workload_signal.h"

#include <errno.h>
#include <string.h>

static const char *const names[] = {
	[SIGNAL_INTERRUPT] = "interrupt",
	[SIGNAL_TERMINATE] = "terminate",
	[SIGNAL_KILL] = "kill",
};

const char *signal_name(enum signal_kind signal)
{
	return names[signal];
}

int signal_parse(const char *word, enum signal_kind *ret, struct error *err)
{
	for (int s = SIGNAL_INTERRUPT; s <= SIGNAL_KILL; s++)
		if (strcmp(word, names[s]) == 0) {
			*ret = (enum signal_kind)s;
			return 0;
		}
	int r = error_set_kind(err, EINVAL, ERROR_INVALID_SIGNAL, "no such signal");
	error_remedy(err, "write interrupt, terminate or kill");
	return r;
}
