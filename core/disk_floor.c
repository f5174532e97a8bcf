#include "core/disk_floor.h"

#include <errno.h>

static long long mib(int64_t bytes)
{
	return bytes >> 20;
}

int disk_floor_check(int64_t free_bytes, int64_t floor_bytes, struct error *err)
{
	if (free_bytes >= floor_bytes)
		return 0;
	int r = error_set(err, ENOSPC,
			  "the state directory has %lld MiB free, less than the %lld MiB below which "
			  "nothing is started",
			  mib(free_bytes), mib(floor_bytes));
	error_remedy(err, "free some (rmdir sessions/<id> forgets a finished session and its log), or lower "
			  "disk_floor_bytes in hub.json");
	return r;
}
