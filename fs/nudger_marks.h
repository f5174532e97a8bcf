/*
 * Who watches what: the marks of inotify and fanotify on one file system, as /proc/<pid>/fdinfo
 * shows them to whoever may look. Processes that cannot be looked at do not count.
 */
#ifndef CLOOP_FS_NUDGER_MARKS_H
#define CLOOP_FS_NUDGER_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct marks {
	uint64_t *inodes; /* ascending, each once, after marks_finish() */
	size_t n, cap;
	bool everything; /* the mount or the file system is watched as a whole */
};

/* What is looked for. */
struct marks_of {
	uint64_t dev;      /* as the kernel writes it: major << 20 | minor */
	uint64_t mount_id; /* 0: unknown */
};

/*
 * Takes the marks out of one fdinfo text, which may end in the middle of a line: returns the bytes
 * that were used, and the rest is to be given again with what follows it. Adds at most `room`
 * marks.
 */
size_t marks_parse(struct marks *m, const struct marks_of *of, const char *text, size_t len,
		   size_t room);

/* Sorts, and drops what is there twice. */
void marks_finish(struct marks *m);

/* Adds those of every process below the directory proc_fd ("/proc"), but not of `except`. */
int marks_scan(struct marks *m, const struct marks_of *of, int proc_fd, pid_t except);

bool marks_have(const struct marks *m, uint64_t inode);
bool marks_equal(const struct marks *a, const struct marks *b);
void marks_clear(struct marks *m);

#endif
