/*
 * What an executor can do, and what a workload needs of it.
 *
 * Source: the reference's Capabilities, Isolation, the Kind constants, Requirements and
 * IsVirtualizedRuntime.
 */
#ifndef CLOOP_CORE_CAPABILITIES_H
#define CLOOP_CORE_CAPABILITIES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/label.h"
#include "core/owner.h"
#include "core/text.h"

/* The kinds of drivers. The first four are the reference's. */
#define KIND_LOCALPROCESS "localprocess"
#define KIND_CONTAINER "container"
#define KIND_REMOTE "remote"
#define KIND_KUBERNETES "kubernetes"
#define KIND_CONTAINERD "containerd"

/*
 * How a driver separates a workload from the hub's host. Not an order: a container and a remote
 * device are differently isolated, not more or less. A driver that declares nothing
 * (ISOLATION_UNDECLARED) counts as not isolated wherever safety is decided.
 */
enum isolation {
	ISOLATION_UNDECLARED = 0,
	ISOLATION_NONE,
	ISOLATION_CONTAINER,
	ISOLATION_VM,
	ISOLATION_REMOTE,
	ISOLATION_UNKNOWN, /* a word that is none of the others: not isolated, never in a set */
};

/* The word ("" for undeclared), and back. */
const char *isolation_name(enum isolation isolation);
enum isolation isolation_parse(const char *word);

/*
 * Whether there is any boundary between the workload and the hub's host. Fails closed: undeclared
 * and unknown are not isolated.
 */
bool isolation_isolates_from_host(enum isolation isolation);

/* Of the machine that this was built for, in the words of the reference; "" for others. */
#if defined(__x86_64__)
#define CAPABILITIES_ARCH "amd64"
#elif defined(__aarch64__)
#define CAPABILITIES_ARCH "arm64"
#elif defined(__riscv) && __riscv_xlen == 64
#define CAPABILITIES_ARCH "riscv64"
#else
#define CAPABILITIES_ARCH ""
#endif

struct capabilities {
	enum isolation isolation;
	bool virtualized; /* behind a hypervisor; only when the driver is certain */
	bool supports_stream;
	bool supports_signal;
	bool supports_resource_limits;
	bool shares_host_filesystem; /* work_dir is a path of the hub's host */
	bool network_egress;
	bool filtered_egress; /* bounded by a policy that cloop itself installs */
	bool supports_image_override;
	bool supports_sandbox_build;
	bool supports_workspace_provisioning;
	bool supports_write_back;
	bool supports_sandbox_mounts;
	bool supports_host_mounts;
	bool supports_secret_files;
	bool secret_files_from_host_path; /* the workload reads them where the hub wrote them */
	int64_t max_concurrent;           /* 0: unbounded or unknown */
	const char *platform;             /* "linux"; NULL or "" when not reported; borrowed */
	const char *arch;                 /* "amd64"; the same */
};

/* The object in the reference's field order, empty optional fields left out. NULL: no memory. */
json_t *capabilities_to_json(const struct capabilities *c);

/*
 * Reads the reference's form. platform and arch borrow from `value`, which must outlive *ret.
 * EINVAL for unknown fields and wrong types.
 */
int capabilities_from_json(json_t *value, const char *path, struct capabilities *ret,
			   struct error *err);

/*
 * Whether the name of a runtime, in the OCI or the Kubernetes spelling, is one of Kata Containers:
 * "kata", "katacontainers", "kata-*", "kata.*", or containing ".kata.". Case and surrounding white
 * space do not matter; NULL is no name, and a NUL in a view is a byte like any other. Everything
 * else is not: a false positive would place a workload that must run behind a hypervisor where
 * there is none.
 */
bool runtime_is_virtualized(const char *name);
bool runtime_view_is_virtualized(struct text_view name);

/* Programs that one workload calls, and the length of a name: more says nothing about a node. */
#define REQUIREMENTS_HARNESSES_MAX 64
#define REQUIREMENTS_TEXT_BYTES_MAX 256

/* What a workload needs of a node. All zero means "anything healthy". */
struct requirements {
	char *executor_id;         /* pins the placement; NULL or "": anywhere */
	struct spec_label *labels; /* every key present with the same value */
	size_t n_labels;
	char **harnesses; /* programs the workload will call */
	size_t n_harnesses;
	char *platform;
	char *arch;
	int64_t min_memory_mb;
	bool require_isolation;
	unsigned allowed_isolations; /* set of 1 << enum isolation; 0: any */
	bool require_virtualization;
	bool require_container_runtime;
	bool require_network_egress;
	bool require_resource_limits;
	bool require_image_override;
	bool require_sandbox_build;
	bool require_sandbox_mounts;
	bool require_host_mounts;
	bool require_workspace_provisioning;
	bool require_host_filesystem_workspace;
	bool require_write_back;
	bool require_secret_files;
	bool require_revocation;
	bool require_stream;
	bool require_signal;
	bool forbid_degraded;
	bool ignore_capacity;
};

/*
 * Reads an object whose fields are named as above ("allowed_isolations" is an array of words).
 * EINVAL for unknown fields, wrong types, unknown words.
 */
int requirements_from_json(json_t *value, const char *path, struct requirements *ret,
			   struct error *err);

/* The same object, empty fields left out; NULL when out of memory. */
json_t *requirements_to_json(const struct requirements *q);

/* Adds the require_… flags of `from`: what a spec implies joins what its caller asked for. */
void requirements_add_flags(struct requirements *into, const struct requirements *from);

/* Frees what it owns and zeroes it. Fits CLEANUP(). */
void requirements_clear(struct requirements *r);
#define AUTO_REQUIREMENTS CLEANUP(requirements_clear)

#endif
