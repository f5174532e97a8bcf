/*
 * Mounts of a workload: spec mounts, which re-expose a part of the workspace, and host mounts,
 * which bind any path of the executor's host.
 *
 * They are two types on purpose. A spec mount may come from a file in the repository, so its source
 * is relative to the workspace and cannot escape it. A host mount comes from a grant that a person
 * gave; nothing turns the one into the other.
 *
 * Source of the rules: the reference's SpecMount, HostMount, ValidateSpecMounts and
 * ValidateHostMounts. Values are checked, and compared, without surrounding white space. No value
 * may hold ':' (a runtime would read mount options after it), a backslash, NUL, CR or LF. A target
 * is absolute, clean and not "/" itself: that would hide the whole sandbox.
 */
#ifndef CLOOP_CORE_MOUNT_H
#define CLOOP_CORE_MOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* The reference's MaxSpecMounts and MaxHostMounts: past these a spec describes a file system. */
#define MAX_SPEC_MOUNTS 16
#define MAX_HOST_MOUNTS 32

/* PATH_MAX without its NUL: a longer path cannot be mounted. */
#define MOUNT_PATH_BYTES_MAX 4095
/* As secret brokers bound the handle of a granted repository. */
#define MOUNT_NAME_BYTES_MAX 128

struct spec_mount {
	char *source; /* relative to the workspace */
	char *target; /* absolute, in the sandbox */
	bool read_only;
};

struct host_mount {
	char *name;   /* the grant's handle for it, may be "" */
	char *source; /* absolute, on the executor's host */
	char *target; /* absolute, in the sandbox */
	bool read_only;
};

/*
 * Check a whole list: its length, each entry, and that no two have one target. `path` names the
 * list in errors ("mounts"). EINVAL, ERROR_INVALID_SPEC.
 */
int spec_mounts_validate(const struct spec_mount *mounts, size_t n, const char *path,
			 struct error *err);
int host_mounts_validate(const struct host_mount *mounts, size_t n, const char *path,
			 struct error *err);

/* Read an array; structure and types only. The caller frees *ret with the functions below. */
int spec_mounts_from_json(json_t *array, const char *path, struct spec_mount **ret, size_t *ret_n,
			  struct error *err);
int host_mounts_from_json(json_t *array, const char *path, struct host_mount **ret, size_t *ret_n,
			  struct error *err);

/* An array in the reference's form; NULL when out of memory. */
json_t *spec_mounts_to_json(const struct spec_mount *mounts, size_t n);
json_t *host_mounts_to_json(const struct host_mount *mounts, size_t n);

/* Return NULL. */
struct spec_mount *spec_mounts_free(struct spec_mount *mounts, size_t n);
struct host_mount *host_mounts_free(struct host_mount *mounts, size_t n);

#endif
