/*
 * Ownership: who frees what, in one place.
 *
 * A local that owns something carries a cleanup attribute, so that a function has one way out and
 * nothing leaks on an error path. Handing the thing on is written take_ptr(p) or take_fd(&fd),
 * which leaves NULL or -1 behind. Every destructor `x_free()` of the project accepts NULL and
 * half-built objects and returns NULL, so `p = x_free(p)` is always right.
 */
#ifndef CLOOP_CORE_OWNER_H
#define CLOOP_CORE_OWNER_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Defines owner_<name>p(), the cleanup function for `type *`, out of the destructor `fn`. */
#define OWNER_DEFINE(type, name, fn)                                                               \
	__attribute__((unused)) static inline void owner_##name##p(type **p)                       \
	{                                                                                          \
		if (*p)                                                                            \
			fn(*p);                                                                    \
	}                                                                                          \
	struct owner_##name##_semicolon

/* Moves a pointer out of a variable, leaving NULL. */
#define take_ptr(p)                                                                                \
	__extension__({                                                                            \
		__typeof__(p) *take_from_ = &(p);                                                  \
		__typeof__(p) taken_ = *take_from_;                                                \
		*take_from_ = NULL;                                                                \
		taken_;                                                                            \
	})

/* Moves a descriptor out of a variable, leaving -1. */
static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

/* Closes a descriptor without touching errno; accepts -1. Returns -1, so `fd = close_fd(fd)`. */
static inline int close_fd(int fd)
{
	if (fd >= 0) {
		int saved = errno;
		(void)close(fd);
		errno = saved;
	}
	return -1;
}

static inline void owner_freep(void *p)
{
	free(*(void **)p);
}

static inline void owner_closep(int *fd)
{
	*fd = close_fd(*fd);
}

static inline void owner_fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static inline void owner_closedirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

#define AUTO_FREE CLEANUP(owner_freep)
#define AUTO_CLOSE CLEANUP(owner_closep)
#define AUTO_FCLOSE CLEANUP(owner_fclosep)
#define AUTO_CLOSEDIR CLEANUP(owner_closedirp)

#endif
