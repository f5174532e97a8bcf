/*
 * A spec: everything about one workload to start.
 *
 * The JSON names are the reference's. A spec that somebody wrote is read strictly: unknown fields,
 * wrong types, duplicate keys and `secret_files` are refused with the path of the field; `null`
 * means absent.
 *
 * Canonical text: the reference's field order, no white space, labels sorted by key, what is empty
 * left out, except `work_dir`, `argv` and a given `env` (an empty one is not the same as none: none
 * inherits). Values that are compared without surrounding white space (mounts, workspace, branch,
 * image) are stored without it. Reading canonical text and writing it again gives the same bytes,
 * so two specs are the same when their texts are.
 *
 * Ownership: the spec owns everything it points to. Strings of a spec that was read are never NULL,
 * "" is absent; the checks take NULL for "".
 *
 * Errors: EINVAL with ERROR_INVALID_SPEC, the field's path and a remedy where there is one. No
 * sentence holds the value of a variable or of a secret.
 *
 * Source of the rules: the reference's Spec and its methods. Two rules go further: an environment
 * that names a variable twice is refused (programs differ in which of the two they read, so a
 * value that was checked, masked or moved could be another than the one in use), and so is an
 * entry without a name.
 */
#ifndef CLOOP_CORE_SPEC_H
#define CLOOP_CORE_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/capabilities.h"
#include "core/error.h"
#include "core/label.h"
#include "core/mount.h"
#include "core/owner.h"
#include "core/secret.h"
#include "core/workspace.h"
#include "core/writeback.h"

/*
 * A document in the tree, or a frame to a device, is at most 1 MiB. Canonical text can be a little
 * longer than what was written (full times, fields that are always there) and must read back.
 */
#define SPEC_TEXT_BYTES_MAX ((1024 + 64) * 1024)
/* MAX_ARG_STRLEN without the NUL: the kernel takes no longer argument or variable. */
#define SPEC_ARG_BYTES_MAX (128 * 1024 - 1)
/*
 * Arguments and variables together, each with its NUL and pointer. The kernel gives them a quarter
 * of the stack limit, 2 MiB by default, and the launcher adds a few variables.
 */
#define SPEC_EXEC_BYTES_MAX (1536 * 1024)
/* PATH_MAX without the NUL. */
#define SPEC_PATH_BYTES_MAX 4095
/* A registry reference with a digest is below 512 bytes. */
#define SPEC_IMAGE_BYTES_MAX 1024
/* Steps baked into an image; each is one line of a build file. */
#define SPEC_SETUP_COMMANDS_MAX 128
#define SPEC_SETUP_COMMAND_BYTES_MAX 8192
/* An identifier that is shown as a label. */
#define SPEC_HASH_BYTES_MAX 256
/* 100 years, so that now + timeout in nanoseconds fits an int64_t. */
#define SPEC_TIMEOUT_MINUTES_MAX INT64_C(52560000)
/* 2^40 MB, so that the number of bytes fits an int64_t with room to add. */
#define SPEC_LIMIT_MB_MAX (INT64_C(1) << 40)
/* A million processors: the quota in microseconds fits an int64_t with room to multiply. */
#define SPEC_LIMIT_CPU_MILLIS_MAX INT64_C(1000000000)
/* The kernel's PID_MAX_LIMIT: pids.max takes no more. */
#define SPEC_LIMIT_PIDS_MAX (INT64_C(4) * 1024 * 1024)

/* 0 means that no limit is asked for. */
struct resource_limits {
	int64_t cpu_millis; /* 1000 is one processor */
	int64_t memory_mb;
	int64_t disk_mb;
	int64_t pids;
};

struct spec {
	char *work_dir;
	char **argv; /* NULL after the last */
	size_t n_argv;
	char **env; /* "K=V", NULL after the last; NULL as a whole when there is none */
	size_t n_env;
	bool env_set;              /* env was given, even empty; false: inherit */
	struct spec_label *labels; /* sorted by key */
	size_t n_labels;
	struct resource_limits limits;
	int64_t timeout_minutes; /* 0: none */
	char *image;
	char **setup_commands;
	size_t n_setup_commands;
	struct spec_mount *mounts;
	size_t n_mounts;
	struct host_mount *host_mounts;
	size_t n_host_mounts;
	bool disable_network;
	char *sandbox_hash;
	struct secret_binding *secrets;
	size_t n_secrets;
	struct secret_file *secret_files; /* never serialised */
	size_t n_secret_files;
	struct workspace workspace;
	struct writeback write_back;
};

/* JSON document → validated spec that somebody wrote: work_dir is empty or absolute. */
int spec_parse(const char *text, size_t len, struct spec **ret, struct error *err);

/* The same from a parsed value; path prefixes the paths in errors ("spec", "" at the top). */
int spec_from_json(json_t *value, const char *path, struct spec **ret, struct error *err);

/*
 * Structure and types only, values as written: for text that cloop wrote itself (which is
 * validated afterwards with spec_validate()) and for what a hub sends to a device, where work_dir
 * is relative.
 */
int spec_read_json(json_t *value, const char *path, struct spec **ret, struct error *err);

/* The reference's Spec.Validate, with the bounds above. Labels of the tree are checked elsewhere.
 */
int spec_validate(const struct spec *spec, struct error *err);

/* Canonical JSON; NULL when out of memory. Caller frees. */
char *spec_text(const struct spec *spec);
json_t *spec_to_json(const struct spec *spec);

/* An empty spec for code that builds one; every string is "". NULL when out of memory. */
struct spec *spec_new(void);

/* Returns NULL. */
struct spec *spec_free(struct spec *spec);
OWNER_DEFINE(struct spec, spec, spec_free);
#define AUTO_SPEC CLEANUP(owner_specp)

/* NULL when absent. */
const char *spec_label(const struct spec *spec, const char *key);

bool resource_limits_is_zero(const struct resource_limits *limits);

/* Whether credential files must reach the workload: named by a binding, or carried along. */
bool spec_needs_secret_files(const struct spec *spec);

/*
 * The bindings that carry something to take back: fills at most `max` borrowed pointers (ret may be
 * NULL) and returns how many there are.
 */
size_t spec_revocable_secrets(const struct spec *spec, const struct secret_binding **ret,
			      size_t max);

/* What the spec demands of an executor. *ret is overwritten with flags only; it owns nothing. */
void spec_sandbox_requirements(const struct spec *spec, struct requirements *ret);

/*
 * Moves every reference to the lease directory `from` to `to`: values of env, bindings and secret
 * files. A value is moved when it is the directory or begins with it and a slash. Both are taken
 * without surrounding white space; nothing happens when one is empty or they are equal. Errors:
 * ENOMEM, the spec is then unchanged.
 */
int spec_relocate_secrets(struct spec *spec, const char *from, const char *to, struct error *err);

#endif
