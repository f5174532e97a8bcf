/*
 * The `config` document of an executor: flat JSON, unknown keys refused. It reads back canonical
 * and applies to new sessions.
 *
 * The keys here are those of every kind. A driver adds its own with driver_ops.config_check
 * (core/executor.h); they stand beside the others in the document, and in `options` here.
 */
#ifndef CLOOP_CORE_EXECUTOR_CONFIG_H
#define CLOOP_CORE_EXECUTOR_CONFIG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/label.h"
#include "core/owner.h"

/* Bytes of output that a session keeps, its ring aside. */
#define LOG_QUOTA_DEFAULT (UINT64_C(1) << 30)
#define LOG_QUOTA_MIN UINT64_C(4096)
#define LOG_QUOTA_MAX (UINT64_C(1) << 40)

/* More at once than one host could ever run; keeps arithmetic small. */
#define MAX_CONCURRENT_MAX 1000000

/* Programs, or runtimes, that a node has; and the length of a name. As requirements ask for them. */
#define EXECUTOR_LIST_MAX 64
#define EXECUTOR_LIST_TEXT_BYTES_MAX 256

/* A health check: arguments, the length of one, and its time. An hour of not knowing is too much. */
#define HEALTH_CHECK_ARGV_MAX 64
#define HEALTH_CHECK_ARG_BYTES_MAX 4096
#define HEALTH_CHECK_TIMEOUT_MAX_MS (INT64_C(600) * 1000)

/* 1 PiB: more than a node can have, and as bytes it still fits. */
#define EXECUTOR_MEMORY_MB_MAX (INT64_C(1) << 30)

struct driver;

/*
 * What an operator defines healthy to mean: a program that exits with 0. It runs as the hub's own
 * user, so whoever may write a config can run programs as that user.
 */
struct executor_health_check {
	char **argv; /* ends with NULL; NULL: none */
	size_t n_argv;
	int64_t timeout_ms; /* 0: as long as a probe may take */
};

struct executor_config {
	char *kind;
	struct spec_label *labels; /* sorted by key */
	size_t n_labels;
	int64_t max_concurrent; /* 0: no ceiling */
	uint64_t log_quota_bytes;
	char **harnesses; /* programs that workloads may call; sorted. None: not said */
	size_t n_harnesses;
	char **container_runtimes; /* sorted. None: not said */
	size_t n_container_runtimes;
	int64_t memory_mb; /* 0: not said */
	struct executor_health_check health_check;
	json_t *options;   /* the driver's own keys, canonical; NULL: none */
};

void executor_config_clear(struct executor_config *c);
#define AUTO_EXECUTOR_CONFIG CLEANUP(executor_config_clear)

/*
 * Parses and checks a document. drivers: all of this build, ends with NULL; the one of the kind reads
 * the keys of its own. Errors: EINVAL with the field; what config_check returns.
 */
int executor_config_parse(const char *text, size_t len, struct driver *const *drivers,
			  struct executor_config *ret, struct error *err);

/* Canonical JSON; what was not given is left out. NULL when out of memory. The caller frees it. */
char *executor_config_text(const struct executor_config *c);

/* 0, or EINVAL for a name that is not [a-z0-9][a-z0-9._-]{0,62}. `what` begins the sentence. */
int object_name_check(const char *what, const char *name, struct error *err);

#endif
