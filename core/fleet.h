/*
 * The fleet: the configured executors, and which one is the default.
 *
 * It lives in memory, sorted by id, and follows the store: a change is a struct fleet_change that
 * the writer applies to the rows (deciding there, so that two changes in one batch see each other)
 * and that fleet_changed() then repeats in memory. An executor that has no accepted config yet is
 * in the tree but not registered: it takes no work.
 *
 * Rules from the reference: the first one registered becomes the default; when the default goes, the
 * lowest remaining id takes its place; cordoned and draining take no new work and leave running work
 * alone.
 */
#ifndef CLOOP_CORE_FLEET_H
#define CLOOP_CORE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/executor.h"
#include "core/executor_config.h"
#include "core/executor_record.h"
#include "core/health.h"
#include "core/policy.h"

struct fleet;
struct store_tx;

struct executor {
	struct executor_record record; /* name is the id */
	struct executor_config config;
	struct driver *driver; /* NULL: no accepted config, or of a kind that this build lacks */
	char *probe_failure;   /* what the last probe found; NULL: nothing wrong, or not known */
	uint64_t inflight;     /* pending and running sessions */
	int64_t inflight_ns;   /* when that changed last; 0: not since the daemon looks */
	bool removing;         /* its removal is being committed: takes no work any more */
	bool leaving;          /* its file is gone: takes no work, and goes when nothing is in flight */
	bool preflight_due;    /* nothing has looked yet at what its config needs (fs/supervise.h) */
};

/* The node states as words; the first is what the tree shows before a config was accepted. */
#define STATE_UNCONFIGURED "unconfigured"

/* Drivers by kind, borrowed for the fleet's life; ends with NULL. */
struct fleet *fleet_new(struct driver *const *drivers);
struct fleet *fleet_free(struct fleet *r);

/* Reads all rows. */
int fleet_load(struct fleet *r, struct store_tx *tx, struct error *err);

struct executor *fleet_get(struct fleet *r, int64_t serial);
struct executor *fleet_find(struct fleet *r, const char *id);
struct executor *fleet_default(struct fleet *r);

size_t fleet_len(const struct fleet *r);

/* The executors in order of id: index from 0, NULL behind the last. */
struct executor *fleet_at(struct fleet *r, size_t index);

/* The executor with the lowest serial that is not below this one; NULL when there is none. */
struct executor *fleet_from(struct fleet *r, int64_t serial);

/* All drivers, ends with NULL. */
struct driver *const *fleet_drivers(const struct fleet *r);

/* The driver of a kind, NULL when this build has none. */
struct driver *fleet_driver(struct fleet *r, const char *kind);

/* Whether workloads may run without any boundary (core/policy.h, core/fleet_policy.h). */
struct host_policy *fleet_host_policy(struct fleet *r);

/* When an executor came or went, or the default changed, last. */
int64_t fleet_changed_ns(const struct fleet *r);

/* "unconfigured", or the state of its health ("" reads as ready). Static or the record's storage. */
const char *executor_state(const struct executor *e);

/*
 * Whether it takes new work: EHOSTUNREACH unconfigured or unreachable, EBUSY cordoned, draining,
 * being removed, or at its ceiling.
 */
int executor_check_schedulable(const struct executor *e, struct error *err);

enum fleet_change_kind {
	FLEET_ADD,       /* name; source; with config_text it is configured as well */
	FLEET_REMOVE,    /* serial */
	FLEET_CONFIGURE, /* serial, config_text (canonical), config_kind */
	FLEET_CORDON,    /* serial, reason */
	FLEET_DRAIN,
	FLEET_UNCORDON,
	FLEET_DEFAULT, /* serial */
	FLEET_PROBED,  /* serial, reason: what is wrong with it, NULL when it is fit */
	FLEET_CONFIG_ERROR, /* serial, config_error ("": none any more) */
};

/* What became of its state. */
struct fleet_transition {
	bool changed;
	enum node_state from, to;
};

struct fleet_change {
	enum fleet_change_kind kind;
	int64_t serial;
	uint32_t uid; /* who asked; for the event */
	int64_t at_ns;
	char *name;
	enum executor_source source;
	char *config_text, *config_kind;
	char *config_error; /* of ADD: NULL is none */
	char *file;         /* for the event: the file that asks for it; NULL: none */
	char *reason;
	struct health_policy policy; /* UNCORDON, PROBED: the thresholds in force */

	/* What the writer found and did. */
	struct fleet_transition transition; /* CORDON, DRAIN, UNCORDON, PROBED */
	struct executor_record after; /* the row as it is now (not for REMOVE) */
	char *default_id;             /* the default as it is now; NULL: unchanged, "": none */
};

/*
 * The writer's part. The result of a probe is folded into what the row says then, so it undoes nothing
 * that an operator did while it ran; ENOENT when the executor was removed meanwhile.
 */
int fleet_change_apply(struct store_tx *tx, struct fleet_change *c, struct error *err);

/* The loop's part, after the commit. Takes what it needs out of c. */
void fleet_changed(struct fleet *r, struct fleet_change *c);

void fleet_change_clear(struct fleet_change *c);

/* Tells of each fleet_changed(), whoever made it, as its last step. One listener. */
void fleet_listen(struct fleet *r, void (*changed)(void *user, const struct fleet_change *c),
		  void *user);

/* The serial for the next ADD. */
int64_t fleet_next_serial(struct fleet *r);

#endif
