/*
 * Executor rows: what is registered, how it is configured, and what the supervisor knows of it.
 *
 * The health fields are the reference's Health; a row that was never probed has state "", which its
 * Normalize reads as ready. Config is the canonical JSON of the last accepted `config` document, ""
 * before the first one. Functions run on the writer or the reader; those that change something only
 * on the writer.
 */
#ifndef CLOOP_CORE_EXECUTOR_RECORD_H
#define CLOOP_CORE_EXECUTOR_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/owner.h"

struct store_tx;

enum executor_source {
	EXECUTOR_SOURCE_MKDIR,
	EXECUTOR_SOURCE_FILE, /* executors.d: the tree cannot change or remove it */
	EXECUTOR_SOURCE_BUILTIN,
};

struct executor_record_health {
	char *state; /* "" or the reference's NodeState */
	char *reason;
	int64_t consecutive_failures;
	int64_t last_seen_ns;
	int64_t last_probe_ns;
	int64_t state_changed_at_ns;
};

struct executor_record {
	int64_t serial; /* never given out twice: a name that comes again is another executor */
	char *name;
	char *kind;
	char *config;
	char *config_error; /* why a newer document was not taken; "" when none was refused */
	enum executor_source source;
	struct executor_record_health health;
	int64_t created_at_ns;
	int64_t changed_at_ns; /* of config */
};

void executor_record_clear(struct executor_record *e);
#define AUTO_EXECUTOR_RECORD CLEANUP(executor_record_clear)

struct executor_record_list {
	struct executor_record *rows;
	size_t n;
};
void executor_record_list_clear(struct executor_record_list *list);
#define AUTO_EXECUTOR_RECORD_LIST CLEANUP(executor_record_list_clear)

/* As session_last_serial(). */
int executor_record_last_serial(struct store_tx *tx, int64_t *ret, struct error *err);

/* -EEXIST with ERROR_ALREADY_REGISTERED when the name is taken. */
int executor_record_insert(struct store_tx *tx, const struct executor_record *e, struct error *err);

/*
 * Inserts a built-in executor unless that was done before in the life of this store, so that one
 * that was removed stays removed. Returns 1 when it was inserted, 0 when not.
 */
int executor_record_seed(struct store_tx *tx, const struct executor_record *e, struct error *err);

/* Changes by serial: -ENOENT with ERROR_EXECUTOR_NOT_FOUND. Accepting a config clears its error. */
int executor_record_set_config(struct store_tx *tx, int64_t serial, const char *kind,
			       const char *config, int64_t changed_at_ns, struct error *err);
int executor_record_set_config_error(struct store_tx *tx, int64_t serial, const char *config_error,
				     struct error *err);
int executor_record_set_health(struct store_tx *tx, int64_t serial,
			       const struct executor_record_health *health, struct error *err);
/* With its preflight. */
int executor_record_delete(struct store_tx *tx, int64_t serial, struct error *err);

/* Getters: 0, or -ENOENT with ERROR_EXECUTOR_NOT_FOUND. Clear *ret afterwards. */
int executor_record_get(struct store_tx *tx, int64_t serial, struct executor_record *ret,
			struct error *err);
int executor_record_get_by_name(struct store_tx *tx, const char *name, struct executor_record *ret,
				struct error *err);

/* The last report of its preflight, and when that was (either may be NULL). -ENOENT: there is none. */
int executor_record_set_preflight(struct store_tx *tx, int64_t serial, int64_t at_ns,
				  const char *report, struct error *err);
int executor_record_get_preflight(struct store_tx *tx, int64_t serial, int64_t *ret_at_ns,
				  char **ret_report, struct error *err);

/* All of them, in order of name. */
int executor_record_list(struct store_tx *tx, struct executor_record_list *ret, struct error *err);

#endif
