#include "drivers/container/check.h"

#include <errno.h>
#include <string.h>

#include "core/owner.h"
#include "drivers/container/argv.h"
#include "drivers/shim/protocol.h"

struct capabilities container_capabilities(const struct container_config *config, unsigned abilities)
{
	bool vm = runtime_is_virtualized(config->oci_runtime);

	return (struct capabilities){
		.isolation = vm ? ISOLATION_VM : ISOLATION_CONTAINER,
		.virtualized = vm,
		.supports_stream = true,
		.supports_signal = true,
		.supports_resource_limits = (abilities & SHIM_CAN_LIMIT) == SHIM_CAN_LIMIT,
		.shares_host_filesystem = true,
		.network_egress = strcmp(config->network, "none") != 0,
		.supports_image_override = true,
		.supports_sandbox_build = config->runtime == CONTAINER_PODMAN,
		.supports_sandbox_mounts = true,
		.supports_host_mounts = true,
		.platform = "linux",
		.arch = CAPABILITIES_ARCH,
	};
}

const char *container_image(const struct container_config *config, const struct spec *spec)
{
	return spec->image[0] ? spec->image : config->image;
}

static int unsupported(struct error *err, const char *field, const char *reason)
{
	int r = error_set_kind(err, EOPNOTSUPP, ERROR_UNSUPPORTED, "%s", reason);

	error_field(err, "%s", field);
	error_remedy(err, "use an executor whose capabilities have it, or leave it out");
	return r;
}

static int check_fields(const struct container_config *config, const struct spec *spec, unsigned abilities, struct error *err)
{
	static const char no_limit[] = "the daemon has no control group in which it could enforce this";
	const struct {
		bool asked;
		const char *field, *reason;
	} cases[] = {
		{spec->n_setup_commands > 0 && config->runtime != CONTAINER_PODMAN, "setup_commands",
		 "images are built with podman only"},
		{spec->workspace.kind == WORKSPACE_GIT, "workspace.kind", "a container gets no fetched tree"},
		{spec->workspace.kind == WORKSPACE_NONE && spec->work_dir[0], "workspace.kind",
		 "a working directory that is named is not empty"},
		{spec->write_back.mode != WRITEBACK_NONE, "write_back.mode",
		 "a container leaves its changes where they are"},
		{spec->n_secret_files > 0, "secret_files", "this executor delivers no files"},
		{spec->limits.disk_mb > 0, "resource_limits.disk_mb",
		 "a container runtime enforces no limit on a directory of the host"},
		{spec->limits.cpu_millis > 0 && !(abilities & SHIM_CAN_CPU), "resource_limits.cpu_millis",
		 no_limit},
		{spec->limits.memory_mb > 0 && !(abilities & SHIM_CAN_MEMORY), "resource_limits.memory_mb",
		 no_limit},
		{spec->limits.pids > 0 && !(abilities & SHIM_CAN_PIDS), "resource_limits.pids", no_limit},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (cases[i].asked)
			return unsupported(err, cases[i].field, cases[i].reason);
	return 0;
}

/* The driver's own places are not for mounts; anything below the working directory is. */
static int check_target(const char *list, size_t i, const char *target, struct error *err)
{
	static const char *const taken[] = {CONTAINER_WORK_DIR, "/tmp", "/proc", "/sys", "/dev"};

	for (size_t j = 0; j < ARRAY_SIZE(taken); j++) {
		size_t len = strlen(taken[j]);
		bool below = strncmp(target, taken[j], len) == 0 && target[len] == '/';

		if (strcmp(target, taken[j]) != 0 && (!below || j < 2))
			continue;
		int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "is where the sandbox has its own %s",
				       taken[j]);
		error_field(err, "%s[%zu].target", list, i);
		error_remedy(err, "choose another path in the sandbox");
		return r;
	}
	return 0;
}

static int check_mounts(const struct spec *spec, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < spec->n_mounts && r == 0; i++)
		r = check_target("mounts", i, spec->mounts[i].target, err);
	for (size_t i = 0; i < spec->n_host_mounts && r == 0; i++)
		r = check_target("host_mounts", i, spec->host_mounts[i].target, err);
	return r;
}

int container_check(const struct container_config *config, const struct spec *spec,
		    unsigned abilities, struct error *err)
{
	const char *image = container_image(config, spec);

	int r = check_fields(config, spec, abilities, err);
	if (r == 0)
		r = check_mounts(spec, err);
	if (r < 0)
		return r;
	if (!image[0]) {
		r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "neither the spec nor the executor names one");
		error_field(err, "image");
		error_remedy(err, "name an image in the spec, or in the executor's config");
		return r;
	}
	return container_image_check(config, image, err);
}
