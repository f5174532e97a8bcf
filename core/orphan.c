#include "core/orphan.h"

enum orphan_verdict orphan_judge(const struct orphan *orphan, int64_t now_ns, int64_t grace_ns)
{
	if (!orphan->dated || orphan->since_ns <= 0 || orphan->since_ns > now_ns || grace_ns <= 0 ||
	    now_ns - orphan->since_ns < grace_ns)
		return ORPHAN_LEAVE;
	return orphan->held ? ORPHAN_KILL : ORPHAN_REMOVE;
}
