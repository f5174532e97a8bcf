/*
 * A session's folder: <sessions-dir>/<shard>/<serial in hex>, mode 0700, written by the shim that
 * handles the session and read by the hub. libc only.
 *
 *	lock        whoever handles the session holds an OFD write lock on it; close-on-exec, so
 *	            that no workload inherits it
 *	started     attempt 1 has been started: a session_started record. Created with O_EXCL under
 *	            the lock and synced, with its directory, before anything is executed
 *	exit        attempt 1 is over: a session_exit record, renamed into place when it and the log
 *	            are on disk (exit.new before; its room on the disk is taken at the start, so
 *	            that a disk that fills up loses no exit code)
 *	started.N   exit.N  the same of attempt N > 1
 *	signals     keys of the signals that were applied (shim_control.h)
 *	log index log.tail  of all attempts together (log_writer.h)
 *
 * What that says about an attempt:
 *
 *	exit is there                  finished
 *	started, the lock is held      being handled: running, starting or ending
 *	started, the lock is free      lost: its shim was killed, or the machine went down
 *	no started                     never ran, and may be launched
 *
 * A launch that fails (no such program, no such directory, …) takes away what it made, `started`
 * last: it never ran, so it may be launched again, and nothing is left behind.
 *
 * The folder may lie under hostile eyes only as far as root's own directories do; still nothing is
 * opened through a symbolic link, and a folder that belongs to someone else, or that others can
 * write to, is refused (-EPERM).
 */
#ifndef CLOOP_DRIVERS_SHIM_SESSION_DIR_H
#define CLOOP_DRIVERS_SHIM_SESSION_DIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/boot_id.h"
#include "drivers/shim/protocol.h"

/* "3f" and "000000000000003f", each with its NUL. The shard is the serial's last byte: 256 folders
 * keep directories small at a million sessions. */
#define SESSION_SHARDS 256
#define SESSION_SHARD_MAX 3
#define SESSION_NAME_MAX 17

/* What a container has there: pids and id as its runtime writes them, a mount point, and the working
 * directory of one that was given none. */
#define SHIM_CONTAINER_ID "container.id"
#define SHIM_CONTAINER_MONITOR_PID "monitor.pid"
#define SHIM_CONTAINER_INIT_PID "init.pid"
#define SESSION_PRIVATE "work"

struct session_started {
	char magic[8];
	uint32_t version;
	uint32_t attempt;
	uint64_t serial;
	uint8_t boot_id[BOOT_ID_BYTES];
	int64_t claimed_at_ns;    /* real time */
	int64_t deadline_boot_ns; /* CLOCK_BOOTTIME; 0: none */
	int64_t deadline_at_ns;   /* real time, informative */
	uint64_t shim_starttime;
	int32_t shim_pid;
	/* Written by the workload itself before it executes anything; 0 until then. */
	int32_t pid;
	uint64_t pid_starttime;
};

#define SESSION_STARTED_MAGIC "cloopsta"
#define SESSION_EXIT_MAGIC "cloopend"
#define SESSION_RECORD_VERSION 1U

struct session_exit {
	char magic[8];
	uint32_t version;
	uint32_t attempt;
	uint64_t serial;
	struct shim_exit exit;
};

void session_dir_shard(uint64_t serial, char ret[static SESSION_SHARD_MAX]);
void session_dir_name(uint64_t serial, char ret[static SESSION_NAME_MAX]);

/*
 * Makes the shards that are not there yet and syncs their names: for the launcher when it starts,
 * so that no launch has to. Errors: those of mkdir(2) and fsync(2).
 */
int session_dir_prepare(int sessions_fd);

/* Opens the folder. Returns a descriptor, or -ENOENT when there is none, -ELOOP, -ENOTDIR,
 * -EPERM. */
int session_dir_open(int sessions_fd, uint64_t serial);

/*
 * Creates the folder when it is missing, opens it and takes the lock. Returns 0 with both
 * descriptors; -EAGAIN when the lock is held; or what failed.
 */
int session_dir_enter(int sessions_fd, uint64_t serial, int *ret_dir, int *ret_lock);

/* Whether somebody holds the lock: 1, 0 (also when there is no lock file), or a negative errno. */
int session_dir_locked(int dir);

/*
 * Creates `started` of record->attempt (magic, version and boot id are filled in) and the room for
 * `exit`, and syncs files and directories. Returns a descriptor for session_started_set_pid();
 * -EEXIST when this attempt has been started before. sessions_fd is for syncing the folders above.
 */
int session_started_create(int sessions_fd, int dir, struct session_started *record);

/* Records which process is the workload. Called by the workload's process itself. */
int session_started_set_pid(int started_fd, int32_t pid, uint64_t starttime);

/* -ENOENT when there is none, -EBADMSG when it is not one of this serial and attempt. */
int session_started_read(int dir, uint64_t serial, uint32_t attempt, struct session_started *ret);

/* Makes the exit record durable; may be repeated when it failed. */
int session_exit_write(int dir, uint64_t serial, uint32_t attempt, const struct shim_exit *exit);

/* -ENOENT when there is none, -EBADMSG when it is not one of this serial and attempt. */
int session_exit_read(int dir, uint64_t serial, uint32_t attempt, struct shim_exit *ret);

/* Removes the private working directory, whatever a workload has made of it. 0 also when there is
 * none. */
int session_private_remove(int dir);

/*
 * Takes away what a failed launch of this attempt made; claimed: it made `started`. For attempt 1
 * that is everything, and the folder itself when it is empty then. The caller holds the lock.
 */
void session_launch_undo(int sessions_fd, int dir, uint64_t serial, uint32_t attempt, bool claimed);

/*
 * Removes a session's folder with everything in it. Returns 0, also when there is none; -EBUSY
 * while the lock is held. Freeing a large log takes time: not for the loop's thread.
 */
int shim_session_remove(int sessions_fd, uint64_t serial);

#endif
