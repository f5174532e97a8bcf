/*
 * The keys of an executor's config that are the container driver's own.
 *
 *	runtime        "podman" (default) or "docker": a name, sought in the runtime's PATH. The driver
 *	               runs podman only: driver_ops.config_check refuses the other
 *	runtime_env    an object of strings: the runtime's environment, beside PATH and HOME
 *	oci_runtime    what the runtime hands a container to: a name, never a path
 *	image          for specs that name none
 *	image_policy   {"registries": […], "repos": […], "require_digest": true}
 *	cpus           processors, 0.01 to 1048576; a spec may ask for other values
 *	memory         "512m", "2g", "1024k", or a number of MB; the same
 *	pids_limit     1 to 4194304, -1: none; default 1024
 *	network        "none" (default), or the name of one of the runtime's networks
 *	extra_args     more options of `run`, each beginning with "--", none that opens the sandbox
 *	selinux_label  "z" or "Z": how the working directory is labelled
 *	orphan_grace_period_seconds  0 to 604800, 0: the default, 600
 *
 * Everything is strict: a value that is wrong is refused, nothing is replaced by a default.
 *
 * Source: the reference's container keys; its rule for names of OCI runtimes: letters, digits, '.',
 * '_', '-', no leading dash, at most 64 bytes.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_CONFIG_H
#define CLOOP_DRIVERS_CONTAINER_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

/* The reference's bound for names that go into an option. */
#define CONTAINER_NAME_BYTES_MAX 64
/* More options than a command line that somebody reads has. */
#define CONTAINER_EXTRA_ARGS_MAX 64
#define CONTAINER_EXTRA_ARG_BYTES_MAX 1024
#define CONTAINER_RUNTIME_ENV_MAX 64
#define CONTAINER_POLICY_ENTRIES_MAX 256
#define CONTAINER_PIDS_DEFAULT 1024
#define CONTAINER_GRACE_DEFAULT_S 600
#define CONTAINER_GRACE_MAX_S 604800

enum container_runtime { CONTAINER_PODMAN, CONTAINER_DOCKER };

const char *container_runtime_name(enum container_runtime runtime);

struct container_config {
	enum container_runtime runtime;
	char *oci_runtime; /* "": the runtime's own choice */
	char *image;       /* "": the spec must name one */
	int64_t cpu_millis;
	int64_t memory_mb;
	int64_t pids_limit; /* -1: none */
	char *network;
	char *selinux_label;
	int64_t grace_s;
	char **extra_args;
	size_t n_extra_args;
	char **runtime_env; /* "NAME=value", sorted */
	size_t n_runtime_env;
	char **registries;
	size_t n_registries;
	char **repos;
	size_t n_repos;
	bool require_digest;
};

struct json_object;

/* Reads and checks the keys of a config that is being read. Errors: EINVAL with the field. */
int container_config_read(struct json_object *o, struct container_config *ret, struct error *err);

/* Whether a name is one that an environment variable can have everywhere: letters, digits and _. */
bool container_is_variable(const char *name);

/* The same from options in canonical form (executor_config.options, NULL: none). */
int container_config_load(json_t *options, struct container_config *ret, struct error *err);

/* Canonical form: what is not the default, in the order above. NULL when out of memory. */
json_t *container_config_to_json(const struct container_config *c);

void container_config_clear(struct container_config *c);
#define AUTO_CONTAINER_CONFIG CLEANUP(container_config_clear)

/*
 * Whether an image may be used: a reference that a runtime understands, and what the policy allows.
 * EINVAL for what is no reference, EACCES for what the policy refuses; the sentence names the rule.
 */
int container_image_check(const struct container_config *c, const char *image, struct error *err);

#endif
