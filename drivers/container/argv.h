/*
 * What a container runtime is called with: one pure function of an executor's config, a spec, the
 * session; the image is put in when it is known.
 *
 * Whatever is asked for: nothing is pulled; no capability, no new privileges, a read-only root, a
 * tmpfs of CONTAINER_TMP on /tmp, a user that is not root, the working directory as the only thing of
 * the host that can be written to, no network unless the executor has one and the spec does not
 * decline it, labels by which the container is found again. Limits on memory count swap as well.
 *
 * Variables of the spec are in the arguments by name only. Their values are in the client's own
 * environment, except those whose names mean something to the runtime itself (PATH, LD_…,
 * CONTAINERS_… and the like): these are read from a file in memory, or a spec could lead a runtime
 * that runs as root. An `env` that is not given is an empty one.
 *
 * Podman's client leaves once the container runs, and leaves its monitor to the shim
 * (drivers/shim/shim_internal.h). Docker's stays.
 */
#ifndef CLOOP_DRIVERS_CONTAINER_ARGV_H
#define CLOOP_DRIVERS_CONTAINER_ARGV_H

#include <stdbool.h>
#include <stddef.h>

#include "core/spec.h"
#include "drivers/container/config.h"
#include "drivers/shim/record.h"

/* Where the working directory is in the sandbox. */
#define CONTAINER_WORK_DIR "/workspace"
#define CONTAINER_TMP "size=512m"

#define CONTAINER_LABEL_MANAGED "cloop.managed"
#define CONTAINER_LABEL_EXECUTOR "cloop.executor"
#define CONTAINER_LABEL_HANDLE "cloop.handle"

/* All is borrowed. */
struct container_plan {
	const struct container_config *config;
	const struct spec *spec;
	const char *name;     /* of the container */
	const char *executor; /* its id */
	const char *handle;   /* "<session>.<attempt>" */
	/* PATH, HOME and the like, "NAME=value"; runtime_env of the config goes over them. */
	char *const *base_env;
	size_t n_base_env;
	const char *secrets_source; /* a directory of the host, NULL: none */
	const char *secrets_target;
	bool rootless;   /* the runtime runs as an ordinary user: the same user inside */
	bool group;      /* the container's groups are below one of the session */
	bool own_memory; /* the memory limit is on that group: the runtime is given none */
};

struct container_command {
	char **argv; /* ends with NULL, as do the others */
	size_t n_argv;
	size_t image_arg; /* where in argv the image is */
	char **env; /* the runtime's own, then values of variables */
	size_t n_env;
	size_t n_runtime_env;
	char **remove;
	size_t n_remove;
	char **paths;
	size_t n_paths;
	struct launch_edit edits[LAUNCH_EDITS_MAX];
	size_t n_edits;
	char *env_file; /* "" when there is none */
};

/* The limits that apply: the spec's where it has any, else the executor's. */
struct resource_limits container_limits(const struct container_config *config,
					const struct spec *spec);

/*
 * Errors: EINVAL with the field for a variable that no runtime can be given, ENOMEM. *ret is
 * untouched then.
 */
int container_command_build(const struct container_plan *plan, struct container_command *ret,
			    struct error *err);

/* The command that removes a container, also one that is not there; for tests and the driver. */
int container_remove_build(const struct container_config *config, const char *name,
			   struct container_command *ret, struct error *err);

/* The runtime's own environment; adds to ret->env. */
int container_runtime_env(const struct container_config *config, char *const *base, size_t n_base,
			  struct container_command *ret, struct error *err);

/* Puts the image in its place: "" until then. */
int container_command_set_image(struct container_command *c, const char *image, struct error *err);

void container_command_clear(struct container_command *c);
#define AUTO_CONTAINER_COMMAND CLEANUP(container_command_clear)

/* Whether a variable of this name would mean something to a runtime, its helpers or the linker. */
bool container_variable_is_runtimes(const char *name);

#endif
