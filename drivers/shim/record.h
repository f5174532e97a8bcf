/*
 * The launch record: everything a shim needs to know to run one workload, in one flat piece of
 * memory. A specification may be 1 MiB, so it is never sent inline: it lies in a sealed memfd that
 * travels with the LAUNCH message. libc only.
 *
 * Layout: a launch_header; n_groups gids of 4 bytes; n_edits launch_edits; then strings, each with
 * its NUL: work_dir, n_argv arguments, n_env times "NAME=value", n_remove arguments, n_paths paths,
 * and for a container env_file and preamble. Nothing follows. The reader trusts nothing: seals, sizes, counts and
 * strings are checked, and because of the seals they stay as they were checked.
 *
 * A record of a container (LAUNCH_CONTAINER) is of a runtime's client: argv is the client's, and
 * work_dir, mounts and user are those of the sandbox. What only the shim can find out (who owns a
 * directory, where the session's folder is) it puts into argv where an edit says so.
 *
 * The values in env may be secret. They are in the memfd and in the mapping only, and both go away
 * when the workload runs.
 */
#ifndef CLOOP_DRIVERS_SHIM_RECORD_H
#define CLOOP_DRIVERS_SHIM_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* A document is at most 1 MiB; to that the hub adds its inherited environment and what leases put
 * into it, which execve() bounds at 6 MiB with all pointers. */
#define LAUNCH_RECORD_MAX ((size_t)4 << 20)
/* Arguments and environment together. execve() itself refuses more pointers than its 6 MiB hold. */
#define LAUNCH_STRINGS_MAX 262144U
/* The kernel's own NGROUPS_MAX. */
#define LAUNCH_GROUPS_MAX 65536U
/* Failover re-dispatches a handful of times; this bounds the names of files. */
#define LAUNCH_ATTEMPT_MAX 9999U

/* The directory that a container works in, those of the spec and those of grants. */
#define LAUNCH_PATHS_MAX 52U
/* All paths, and the other things that a shim fills in, once each. */
#define LAUNCH_EDITS_MAX 64U
/* A runtime's command for removing one container. */
#define LAUNCH_REMOVE_MAX 64U

enum launch_mode {
	LAUNCH_PROCESS = 0,
	LAUNCH_CONTAINER = 1,
};

enum launch_flag {
	/* The sandbox runs as whoever owns work_dir; without, the caller must own it. */
	LAUNCH_AS_OWNER = 1 << 0,
};

/* What is done to an argument. Values are part of the record. */
enum launch_edit_kind {
	LAUNCH_EDIT_FILE = 1, /* a name in the session's folder: the folder's path goes before it */
	LAUNCH_EDIT_WORK,     /* begins with ':': the path of the directory goes before it */
	LAUNCH_EDIT_BELOW,    /* the same for the next of paths, which is below work_dir */
	LAUNCH_EDIT_HOST,     /* the same for the next of paths, which is absolute */
	LAUNCH_EDIT_USER,     /* becomes "uid:gid" of the sandbox */
	LAUNCH_EDIT_GROUP,    /* becomes the control group in which the runtime makes its own */
	LAUNCH_EDIT_ENV_FILE, /* becomes the path of a file that holds env_file */
};

struct launch_edit {
	uint32_t arg;
	uint32_t kind; /* enum launch_edit_kind */
};

struct launch_header {
	char magic[8]; /* LAUNCH_MAGIC */
	uint32_t version;
	uint32_t size; /* of the whole record, in bytes */
	uint64_t serial;
	uint32_t attempt; /* from 1 */
	uint32_t uid;
	uint32_t gid;
	uint32_t n_groups;
	uint32_t n_argv;
	uint32_t n_env;
	int64_t timeout_ms;       /* 0: none */
	uint64_t log_quota_bytes; /* 0: LOG_QUOTA_MAX_BYTES (log_format.h) */
	uint64_t forbidden_dev;   /* st_dev of the mount itself; 0: none */
	int64_t cpu_millis;       /* thousandths of a CPU; 0: no limit */
	int64_t memory_mb;        /* MiB; 0: no limit */
	int64_t pids;             /* 0: no limit */
	uint32_t mode;            /* enum launch_mode; all below is 0 for a process */
	uint32_t flags;           /* enum launch_flag, or-ed */
	uint32_t n_edits;
	uint32_t n_remove;
	uint32_t n_paths;
	uint32_t n_runtime_env; /* how many of env, from the first, are the runtime's own */
	uint32_t private_uid;   /* who owns a work_dir that the shim makes; not 0 */
	uint32_t private_gid;
};

#define LAUNCH_MAGIC "clooplnc"
#define LAUNCH_VERSION 2U

/* What the hub asks for. All pointers are borrowed. */
struct launch_request {
	uint64_t serial;
	uint32_t attempt;
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t n_groups;
	const char *const *argv; /* argv[0] without a slash is sought in the PATH of env */
	size_t n_argv;
	const char *const *env; /* complete: nothing is inherited */
	size_t n_env;
	const char *work_dir; /* absolute */
	int64_t timeout_ms;
	uint64_t log_quota_bytes;
	dev_t forbidden_dev;
	int64_t cpu_millis;
	int64_t memory_mb;
	int64_t pids;
	const struct launch_container *container; /* NULL: a process */
};

/* The rest of a container's record. work_dir may be "": the shim makes one that goes with it. */
struct launch_container {
	uint32_t flags;
	const struct launch_edit *edits;
	size_t n_edits;
	const char *const *remove; /* removes the container, also one that is not there */
	size_t n_remove;
	const char *const *paths; /* for BELOW and HOST, in the order of their edits */
	size_t n_paths;
	size_t n_runtime_env;
	const char *env_file; /* "" when no edit is ENV_FILE */
	const char *preamble; /* lines for the log, before the workload's own; "" for none */
	uid_t private_uid;
	gid_t private_gid;
};

/*
 * Writes the record into a new sealed memfd. Errors, with the field: EINVAL for what no reader
 * would accept, E2BIG for too much of it. For the hub (uses core/error.h).
 */
int launch_record_encode(const struct launch_request *request, int *ret_fd, struct error *err);

/* A record that was mapped and checked. Strings and groups point into the mapping. */
struct launch_record {
	const struct launch_header *header;
	const uint32_t *groups;
	const char *work_dir;
	char **argv; /* ends with NULL */
	char **env;  /* ends with NULL */
	const struct launch_edit *edits;
	char **remove; /* ends with NULL */
	char **paths;  /* ends with NULL */
	const char *env_file, *preamble;
	void *mapping;
	size_t mapping_size;
	void *pointers;
	size_t pointers_size;
};

/* Checks len bytes as they would be read from a memfd, and nothing else: 0, -EINVAL or -E2BIG. */
int launch_record_check(const void *data, size_t len);

/*
 * Maps and checks the record in fd, which must be sealed against writing, growing and shrinking.
 * Errors: -EINVAL (not a record, not sealed), -E2BIG, or what the system said.
 */
int launch_record_map(int fd, struct launch_record *ret);

/* Unmaps; accepts one that is all zero, and leaves it so. */
void launch_record_unmap(struct launch_record *record);

/* The value of a variable in the record's environment (the first one), NULL when absent. */
const char *launch_record_env(const struct launch_record *record, const char *name);

#endif
