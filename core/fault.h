/*
 * Fault points: the named places where a test makes a process die, stop or fail.
 *
 * They exist only in builds with -Dtest_hooks=true; otherwise fault_point() is the constant 0 and
 * the compiler removes it with the branch behind it. libc only, so that the launcher can use it;
 * nothing is allocated, so that it may stand between fork and exec.
 *
 * The environment variable CLOOP_FAULT holds a list, separated by commas, of
 *
 *	name:action[:count-file]
 *
 * with the actions `kill` (SIGKILL to the process itself), `kill-both` (SIGKILL to its parent, then
 * to itself), `stop` (SIGSTOP, goes on after SIGCONT) and `eio`, `enospc`, `enomem`, `eagain`
 * (fault_point() returns that errno, negative). Without a count file it happens each time. The count
 * file holds one number n, or two, "skip n": the first `skip` passes do nothing, the next n act,
 * those after that do nothing, nor does a file that is not there. The file is locked while it is read
 * and written, so it counts over all processes and lives. Of several entries of one name the first
 * that acts does so.
 */
#ifndef CLOOP_CORE_FAULT_H
#define CLOOP_CORE_FAULT_H

#ifdef CLOOP_TEST_HOOKS
/* Returns 0, or the negative errno that the test asks for. */
int fault_point(const char *name);
#else
static inline int fault_point(const char *name)
{
	(void)name;
	return 0;
}
#endif

#endif
