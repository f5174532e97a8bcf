/*
 * The registry: the configured executors, and which one is the default.
 *
 * It lives in memory, sorted by id, and follows the store: a change is a struct registry_change that
 * the writer applies to the rows (deciding there, so that two changes in one batch see each other)
 * and that registry_changed() then repeats in memory. An executor that has no accepted config yet is
 * in the tree but not registered: it takes no work.
 *
 * Rules from the reference: the first one registered becomes the default; when the default goes, the
 * lowest remaining id takes its place; cordoned and draining take no new work and leave running work
 * alone.
 */
#ifndef CLOOP_CORE_REGISTRY_H
#define CLOOP_CORE_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/executor.h"
#include "core/executor_config.h"
#include "core/executor_record.h"

struct registry;
struct store_tx;

struct executor {
	struct executor_record record; /* name is the id */
	struct executor_config config;
	struct driver *driver; /* NULL: no accepted config, or of a kind that this build lacks */
	uint64_t inflight;     /* pending and running sessions */
	bool removing;         /* its rmdir is being committed: takes no work any more */
};

/* The node states as words; the first is what the tree shows before a config was accepted. */
#define STATE_UNCONFIGURED "unconfigured"

/* Drivers by kind, borrowed for the registry's life; ends with NULL. */
struct registry *registry_new(struct driver *const *drivers);
struct registry *registry_free(struct registry *r);

/* Reads all rows. */
int registry_load(struct registry *r, struct store_tx *tx, struct error *err);

struct executor *registry_get(struct registry *r, int64_t serial);
struct executor *registry_find(struct registry *r, const char *id);
struct executor *registry_default(struct registry *r);

/* The executors in order of id: index from 0, NULL behind the last. */
struct executor *registry_at(struct registry *r, size_t index);

/* The driver of a kind, NULL when this build has none. */
struct driver *registry_driver(struct registry *r, const char *kind);

/* When an executor came or went, or the default changed, last. */
int64_t registry_changed_ns(const struct registry *r);

/* "unconfigured", or the state of its health ("" reads as ready). Static or the record's storage. */
const char *executor_state(const struct executor *e);

/*
 * Whether it takes new work: EHOSTUNREACH unconfigured or unreachable, EBUSY cordoned, draining,
 * being removed, or at its ceiling.
 */
int executor_check_schedulable(const struct executor *e, struct error *err);

enum registry_change_kind {
	REGISTRY_ADD,       /* name */
	REGISTRY_REMOVE,    /* serial */
	REGISTRY_CONFIGURE, /* serial, config_text (canonical), config_kind */
	REGISTRY_CORDON,    /* serial, reason */
	REGISTRY_DRAIN,
	REGISTRY_UNCORDON,
	REGISTRY_DEFAULT, /* serial */
};

struct registry_change {
	enum registry_change_kind kind;
	int64_t serial;
	uint32_t uid; /* who asked; for the event */
	int64_t at_ns;
	char *name;
	char *config_text, *config_kind;
	char *reason;

	/* What the writer found and did. */
	struct executor_record after; /* the row as it is now (not for REMOVE) */
	char *default_id;             /* the default as it is now; NULL: unchanged, "": none */
};

/* The writer's part. */
int registry_change_apply(struct store_tx *tx, struct registry_change *c, struct error *err);

/* The loop's part, after the commit. Takes what it needs out of c. */
void registry_changed(struct registry *r, struct registry_change *c);

void registry_change_clear(struct registry_change *c);

/* The serial for the next ADD. */
int64_t registry_next_serial(struct registry *r);

#endif
