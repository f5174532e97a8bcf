/*
 * The hub's settings: hub.json (core/hub_config.h) as it is in force, and the host policy.
 *
 * The first hub of a mount refuses to start with a file that is wrong. From then on what is in force
 * is kept in the store: a file that becomes wrong leaves it as it is, also when the hub dies, and its
 * error is in the events and the log. A file that is removed brings the defaults back. What would
 * loosen (executors.allow_host_process) waits for the next mount.
 *
 * Belongs to the loop.
 */
#ifndef CLOOP_FS_SETTINGS_H
#define CLOOP_FS_SETTINGS_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/error.h"
#include "core/hub_config.h"
#include "core/policy_record.h"

struct config_snapshot;
struct hub;
struct settings;

/*
 * Before anything is served: decides what is in force. Reads the file, and may block. Errors: the
 * file is wrong and nothing earlier is in force; the store's.
 */
int settings_begin(struct hub *hub, struct error *err);
struct settings *settings_free(struct settings *s);

const struct hub_config *settings_get(const struct hub *hub);

/* Hands them to those that work by them. */
void settings_apply(struct hub *hub);

/* The file was looked at again. */
void settings_scanned(struct hub *hub, struct config_snapshot *snapshot);

/* Who forbids host execution, if anybody. */
struct policy_record settings_policy(const struct hub *hub);

/*
 * Forbids it in memory at once, so that nothing slips through while that is committed; the caller
 * commits policy_record_forbid(), or takes it back with what was there before.
 */
void settings_set_policy(struct hub *hub, struct policy_record policy);

/* A line for /status, when there is something to say. */
void settings_status(struct hub *hub, struct buf *out);

#endif
