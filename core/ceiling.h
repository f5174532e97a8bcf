/*
 * The ceiling of an isolated executor: what an operator lets a workload ask for at most. A workload
 * may ask for less, never for more, and never for a capability that the ceiling does not name.
 * Isolation itself is the runtime's; this decides whether the runtime is asked at all, and whether
 * what it answers can be true.
 *
 * Pure: no I/O, no clock. Everything is borrowed. A ceiling that is all zero denies everything: it
 * allows no image and no limit fits under it. That is what an executor has until it is configured.
 *
 * Source: the second reference's Policy, Spec, Limits, Result, Usage, PolicyExecutor and
 * SupervisedBackend. Where it does not say what a name may be made of, the narrower reading holds:
 * a host is an ASCII name or an address with an optional port, spelled in one way only.
 *
 * Errors: EINVAL for what is malformed whatever the ceiling is, EACCES for what exceeds it, each
 * with the field; EFBIG for too much input; EPROTO for an answer of the runtime that cannot be
 * true. No sentence holds the value of a variable or of an argument.
 */
#ifndef CLOOP_CORE_CEILING_H
#define CLOOP_CORE_CEILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/label.h"
#include "core/text.h"

/* Every one must be asked for and fit under the ceiling; GPUs only where they are asked for. */
struct isolated_limits {
	uint64_t cpu_millis;
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	uint64_t pids;
	uint64_t execution_time_ns;
	uint64_t output_bytes;
	uint64_t gpu_device_count;
};

enum network_mode {
	NETWORK_MODE_UNKNOWN = 0, /* absent or a word that is none of the others; never valid */
	NETWORK_MODE_NONE,
	NETWORK_MODE_ALLOWLIST,
};

/* The word ("" for unknown), and back. */
const char *network_mode_name(enum network_mode mode);
enum network_mode network_mode_parse(const char *word);

/* Where an archive of the workspace is unpacked; with one, the working directory is below. */
#define ISOLATED_SOURCE_DIR "/workspace/source"

/* What is asked for. */
struct isolated_spec {
	const char *image_digest;
	char *const *entrypoint;
	size_t n_entrypoint;
	const char *working_directory; /* "" or "/", with an archive a directory of its tree */
	const struct spec_label *environment;
	size_t n_environment;
	bool workspace_archive;
	bool read_only_root;
	enum network_mode network;
	char *const *allowed_hosts; /* for the allowlist only */
	size_t n_allowed_hosts;
	bool allow_gpu;
	bool privileged; /* always refused, as the next two are */
	size_t n_host_mounts;
	bool expose_runtime_socket;
	bool no_new_privileges; /* must be set */
	struct isolated_limits limits;
};

struct ceiling {
	char *const *allowed_images; /* digests, compared byte by byte */
	size_t n_allowed_images;
	char *const *allowed_network_hosts; /* compared byte by byte, with case and port */
	size_t n_allowed_network_hosts;
	size_t max_allowed_images;
	size_t max_environment; /* variables */
	size_t max_arguments;   /* elements of the entrypoint */
	size_t max_allowed_hosts;
	size_t max_string_bytes; /* of each string that a workload gives */
	uint64_t max_input_bytes;
	struct isolated_limits limits;
	bool permit_gpu;
	bool permit_network;
	bool require_read_only_root;
};

/* Whether a ceiling makes sense: it keeps to its own maxima and names hosts that are hosts. */
int ceiling_check(const struct ceiling *c, struct error *err);

/* Whether a workload may be started. */
int ceiling_check_spec(const struct ceiling *c, const struct isolated_spec *spec,
		       struct error *err);
int ceiling_check_input(const struct ceiling *c, uint64_t bytes, struct error *err);

/*
 * Whether text is a host, with an optional port: letters, digits, '-' and dots between, or an IPv6
 * address in brackets. No wildcard, no dot at the end, no underscore, no port 0, no other name in
 * brackets, no zone.
 */
bool network_host_valid(struct text_view text);

/* How much a workload is said to have used. */
struct isolated_usage {
	uint64_t cpu_millis;
	uint64_t peak_memory_bytes;
	uint64_t disk_written_bytes;
	int64_t duration_ns;
};

/* Whether an answer of a runtime can be true of a workload that was given these limits. */
int isolated_result_check(const struct isolated_limits *limits, int64_t exit_code,
			  uint64_t output_bytes, const struct isolated_usage *usage,
			  struct error *err);

/*
 * The only name that a runtime may know a workload by: "sha256:" and the hexadecimal SHA-256 of
 * EXECUTION_ID_DOMAIN, a NUL and the id. No name is ever made of what a caller wrote.
 */
#define EXECUTION_ID_DOMAIN "TOS-AI-EXECUTION-ID-V1"
#define EXECUTION_ID_BYTES_MAX 128
#define EXECUTION_DIGEST_LEN 71

int execution_digest(const char *id, size_t len, char ret[static EXECUTION_DIGEST_LEN + 1],
		     struct error *err);

/* Workloads of one backend at the same time: there is no queue, so this bounds all of them. */
#define ISOLATED_ACTIVE_MAX 256

int isolated_max_active_check(int64_t max_active, struct error *err);

#endif
