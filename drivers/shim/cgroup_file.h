/* Reading and writing the small files of a control group; private to cgroup*.c. */
#ifndef CLOOP_DRIVERS_SHIM_CGROUP_FILE_H
#define CLOOP_DRIVERS_SHIM_CGROUP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a whole file as text. Returns its length, at most size - 1, or a negative errno. */
int cgroup_file_read(int dir, const char *name, char *ret, size_t size);

/* One write() of the text, as these files want it. */
int cgroup_file_write(int dir, const char *name, const char *text);
int cgroup_file_write_number(int dir, const char *name, int64_t value);

/* The number behind a key ("oom_kill 3"), 0 when there is no such line or no such file. */
uint64_t cgroup_file_key(int dir, const char *name, const char *key);

/* A mounted hierarchy, as a line of /proc/self/mountinfo tells; points into the line. */
struct cgroup_mount {
	const char *path, *options;
	bool unified;
};

/* Takes a line apart. False when it is of no control groups. */
bool cgroup_mount_parse(char *line, struct cgroup_mount *ret);

/* Removes the groups below dir, deepest first; depth is 0. */
void cgroup_remove_below(int dir, int depth);

#endif
