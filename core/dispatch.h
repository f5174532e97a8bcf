/*
 * Dispatch: sessions from the request that asks for them to their end.
 *
 * A launch is: check, commit the row (pending), ask the driver, answer. The row is the truth: a new
 * hub resolves every live row with the driver (adopt, finish, launch now, or failed with the
 * reason), so a workload is launched once however often the hub dies in between.
 *
 * Live sessions are in memory; finished ones are read from the store when somebody looks, through a
 * small cache, so that a million of them cost nothing. Everything here runs on the loop thread,
 * except the dispatch_apply_* functions, which are the writer's.
 */
#ifndef CLOOP_CORE_DISPATCH_H
#define CLOOP_CORE_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "core/executor.h"
#include "core/fleet.h"
#include "core/session.h"
#include "core/session_view.h"

struct dispatch;
struct store;
struct store_tx;

/* The label that chooses a session's id. */
#define SESSION_LABEL "cloop.session"

/* A chosen id: [a-z0-9][a-z0-9._-]*, at most this long, and not in the form of an automatic one. */
#define SESSION_ID_MAX 64

/* A session that looks for another executor. Everything is borrowed for the call. */
struct dispatch_placing {
	const struct session *session; /* with its spec, requirements and groups */
	const struct spec *spec;
	const uint32_t *groups;
	size_t n_groups;
	const char *avoid; /* the executor that it lost: chosen only when nobody else takes it */
};

struct dispatch_hooks {
	/* A session's state changed (also its first appearance, and its end). */
	void (*changed)(void *user, uint32_t serial);
	/*
	 * It came into, or went out of, the list of all; executor_serial: also out of that of what is
	 * in flight there, 0: it had ended before; project_serial: whose session it was, 0: nobody's.
	 */
	void (*created)(void *user, uint32_t serial, const char *name);
	void (*removed)(void *user, uint32_t serial, const char *name, int64_t executor_serial,
			int64_t project_serial);
	/* It stopped, or began, to be in flight on its executor. */
	void (*inflight)(void *user, int64_t executor_serial);
	/* Events were committed. */
	void (*told)(void *user);
	/* One line for the daemon's log. */
	void (*log)(void *user, const char *line);
	/*
	 * The session was lost with its log half written: makes that whole, elsewhere than in the
	 * loop, and then calls dispatch_mended().
	 */
	void (*mend)(void *user, uint32_t serial, uint64_t log_quota_bytes);
	/* Removes what the drivers keep of a forgotten session; may take its time elsewhere. */
	void (*forget)(void *user, uint32_t serial);
	/*
	 * Chooses another executor for a session that lost its own: one that takes it, now. Errors as
	 * placement_select(); the session then waits, and shows the reason.
	 */
	int (*place)(void *user, const struct dispatch_placing *placing, struct executor **ret,
		     struct error *err);
	/*
	 * A session stopped being in flight on one executor (from, 0: on none) and began on another one
	 * (to, 0: on none).
	 */
	void (*moved)(void *user, const struct session *s, int64_t from, int64_t to);
	/* It is at its next attempt. */
	void (*attempted)(void *user, const struct session *s);
};

/* What new sessions are measured against. The hub keeps it up to date, from its settings and the disk. */
struct dispatch_limits {
	uint64_t log_quota_bytes; /* of those whose executor says none */
	int64_t disk_free_bytes, disk_floor_bytes; /* core/disk_floor.h */
};

/* Who asks for a launch, and with what. Everything is borrowed for the call. */
struct dispatch_start {
	struct executor *executor; /* NULL: choose() names it */
	/*
	 * Asked when the session does not exist already, so that a retry is answered whatever the
	 * fleet looks like by then. Refuses as dispatch_start() does.
	 */
	int (*choose)(void *user, struct executor **ret, struct error *err);
	void *choose_user;
	struct spec *spec; /* taken on success */
	/*
	 * Canonical JSON, for placing it again; NULL: it was not placed. same_requirements: they
	 * were written with the spec, so other ones make another request.
	 */
	const char *requirements;
	bool same_requirements;
	uint64_t start_file; /* through which it is asked for: the same number, the same file */
	int64_t project_serial; /* 0: in no project */
	const char *project_path; /* NULL: not said */
	uid_t uid;
	gid_t gid;
	const uint32_t *groups;
	size_t n_groups;
	uint64_t origin_mount, origin_unique;
};

/*
 * Answers a start. `s` is NULL on failure; committed says that a row was written, which the caller
 * must take back with dispatch_apply_take_back() in the commit that records the refusal, and then
 * call dispatch_taken_back().
 */
typedef void dispatch_started_fn(void *user, const struct session *s, const struct error *err,
				 uint32_t committed);

int dispatch_new(struct store *store, struct fleet *fleet, const char *boot_id,
		 const struct dispatch_hooks *hooks, void *user, struct dispatch **ret,
		 struct error *err);
struct dispatch *dispatch_free(struct dispatch *d);

/* To be read and changed by whoever has d. At first: the default quota, and no floor. */
struct dispatch_limits *dispatch_limits(struct dispatch *d);

/*
 * Reads the live rows; resolving them begins when their driver is ready. changed_ns: when a session
 * came or went last, as far as is known.
 */
int dispatch_load(struct dispatch *d, int64_t changed_ns, struct error *err);

/* The log of a lost session is as whole as it can be, and holds so much: the session has ended. */
void dispatch_mended(struct dispatch *d, uint32_t serial, uint64_t log_bytes);

/* Once a second or so: what could not be done before (a full disk, say) is tried again. */
void dispatch_tick(struct dispatch *d);

/* What drivers report to. */
extern const struct executor_events dispatch_events;

/*
 * Starts a workload. 0: done() follows, perhaps before this returns (the same uid asking again for
 * the same spec is answered with the existing session). Negative: refused, nothing was written.
 */
int dispatch_start(struct dispatch *d, struct dispatch_start *start, dispatch_started_fn *done,
		   void *user, struct error *err);

/* Whether the id that a spec chooses, if it does, is one: EINVAL with the field. */
int dispatch_check_id(const struct spec *spec, struct error *err);

/*
 * For a replayed request: when an earlier hub wrote its session, done() follows as if this hub had.
 * Returns false when there is none.
 */
bool dispatch_resume(struct dispatch *d, uint64_t origin_mount, uint64_t origin_unique,
		     dispatch_started_fn *done, void *user);

/* The writer's part, and the loop's, of taking back a session that could not be started. */
int dispatch_apply_take_back(struct store_tx *tx, uint32_t serial, struct error *err);
void dispatch_taken_back(struct dispatch *d, uint32_t serial);

/* Its row could not be removed: the session stays, failed, and says why it was not started. */
void dispatch_give_up(struct dispatch *d, uint32_t serial, const struct error *err);

/* The answer was written: the session need not remember which request asked for it. */
void dispatch_answered(struct dispatch *d, uint32_t serial);

/* Signals a session; done() follows. One that has ended succeeds. */
int dispatch_signal(struct dispatch *d, uint32_t serial, const struct signal_key *key,
		    enum signal_kind signal, executor_signal_fn *done, void *user,
		    struct error *err);

/*
 * Failover (core/failover.h). dispatch_tick() claims what is in flight on unreachable executors, and
 * places what waits for one; the supervisor calls these when it knows earlier.
 */
void dispatch_executor_lost(struct dispatch *d, int64_t executor_serial);
void dispatch_executor_fit(struct dispatch *d);

/* failover.max_attempts; from 0 to FAILOVER_ATTEMPTS_MAX. */
void dispatch_set_max_attempts(struct dispatch *d, int64_t max_attempts);

/*
 * `retry`: lets a quarantined session go on, and looks for an executor now. done() follows. EINVAL for
 * a session that does not wait for one.
 */
int dispatch_retry(struct dispatch *d, uint32_t serial, uint32_t uid, executor_signal_fn *done,
		   void *user, struct error *err);

/* Whether a session is in flight on that executor. */
bool dispatch_in_flight_on(struct dispatch *d, uint32_t serial, int64_t executor_serial);

/* Forgets a finished session: the writer's part, and the loop's. */
int dispatch_apply_remove(struct store_tx *tx, uint32_t serial, uid_t uid, int64_t at_ns,
			  struct error *err);
void dispatch_removed(struct dispatch *d, uint32_t serial, const char *name);

/* The canonical spec of a session; the caller frees it. Errors: ESTALE, and the store's. */
int dispatch_spec(struct dispatch *d, uint32_t serial, char **ret);

/*
 * A session by serial, NULL when there is none (any more). Valid until the loop runs on. Its spec and
 * groups are not there: they are read when they are needed.
 */
const struct session *dispatch_get(struct dispatch *d, uint32_t serial);

/* By name: 0, -ENOENT, or what the store failed with. */
int dispatch_find(struct dispatch *d, const char *name, uint32_t *ret);

/* All sessions with serials from `from` on, in order, until fn returns false. */
int dispatch_list(struct dispatch *d, uint64_t from,
		  bool (*fn)(void *user, uint32_t serial, const char *name), void *user);

/* The same of one project's. */
int dispatch_list_project(struct dispatch *d, int64_t project_serial, uint64_t from,
			  bool (*fn)(void *user, uint32_t serial, const char *name), void *user);

/* Live sessions only, of one executor (0: all), in order of serial. */
void dispatch_each_live(struct dispatch *d, int64_t executor_serial,
			bool (*fn)(void *user, const struct session *s), void *user);

/* When a session appeared or was removed last. */
int64_t dispatch_changed_ns(const struct dispatch *d);

/* The serial of the latest session that there ever was; 0: none. */
int64_t dispatch_last_serial(const struct dispatch *d);

size_t dispatch_count_live(const struct dispatch *d);

/* Of one project: in flight, or about to be. */
size_t dispatch_count_project(const struct dispatch *d, int64_t project_serial);

#endif
