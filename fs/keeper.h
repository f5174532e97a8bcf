/*
 * The keeper: the process that lives as long as the service, so that everything else may die.
 *
 * It mounts, keeps the mount's descriptor and the shared area (fs/area.h), and runs the launcher,
 * the nudger and the hub, which it starts again when they die. It is one poll loop; it makes no
 * system call that resolves a path through the mount, and never waits for a child.
 *
 * A dead hub is followed by another at once, then after growing delays. When the service has been
 * without a hub that said READY for KEEPER_OUTAGE_MS, or when KEEPER_DEATHS_MAX died within a
 * minute (those not counted that served and were killed from outside), the keeper answers every
 * request EIO (fs/fallback.h) and goes on trying; the next READY heals. A hub that is started again
 * executes the file that was accepted last, also when another one lies at its path meanwhile: only
 * SIGUSR2 takes that one, after it proved (hub-check-init) that it would negotiate the same INIT.
 * Nudger and launcher are started anew then, as they speak with the hub.
 *
 * Signals: SIGTERM and SIGINT stop, SIGUSR2 upgrades, SIGHUP does nothing. Exit status: 0 stopped
 * or unmounted, 1 refused or failed, 2 usage (fs/main.c).
 *
 * In builds with test hooks, CLOOP_LAUNCHER says where the launcher is.
 */
#ifndef CLOOP_FS_KEEPER_H
#define CLOOP_FS_KEEPER_H

struct options;

/* Without a hub for so long, callers get EIO instead of waiting (design, section 2). */
#define KEEPER_OUTAGE_MS 10000
#define KEEPER_DEATHS_MAX 5
#define KEEPER_MINUTE_MS 60000

/* Delays before the next hub: the first is at once. */
#define KEEPER_HUB_DELAY_MS 100
#define KEEPER_HUB_DELAY_MAX_MS 2000
#define KEEPER_OUTAGE_DELAY_MS 1000
#define KEEPER_OUTAGE_DELAY_MAX_MS 30000

/*
 * A hub that is not READY after so long is taken for hung and killed; each time the next one gets
 * twice the time, so that one with much to recover comes through.
 */
#define KEEPER_PATIENCE_MS 120000
#define KEEPER_PATIENCE_MAX_MS 1920000

/* Delays before the next launcher or nudger: the first is at once. */
#define KEEPER_HELPER_DELAY_MS 100
#define KEEPER_HELPER_DELAY_MAX_MS 5000

/* Stopping: what each step may take before it is cut short. */
#define KEEPER_STOP_HUB_MS 5000
#define KEEPER_STOP_CHILDREN_MS 2000
#define KEEPER_STOP_BUSY_MS 2000
#define KEEPER_STOP_RETRY_MS 50
#define KEEPER_KILLED_MS 2000 /* from SIGKILL to the end, when the kernel does not hold it */

#define KEEPER_CHECK_MS 10000 /* hub-check-init */

/* `cloopd stop` gives up then: longer than all of the above together. */
#define KEEPER_STOP_WAIT_MS 40000

/*
 * Runs the service and returns its exit status. Without `foreground`, the caller's process returns
 * when the tree can be used.
 */
int keeper_serve(const struct options *o);

/* Ends the keeper of a state directory and waits until it is gone. Returns the exit status. */
int keeper_stop(const struct options *o);

#endif
