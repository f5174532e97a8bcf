/* What the files of the shim share: one session and the phase it is in. */
#ifndef CLOOP_DRIVERS_SHIM_SHIM_INTERNAL_H
#define CLOOP_DRIVERS_SHIM_SHIM_INTERNAL_H

#include "drivers/shim/log_writer.h"
#include "drivers/shim/shim.h"

/* The hub, and a hub that takes over, with room for their remains; one more replaces the oldest. */
#define SHIM_HUBS_MAX 4
/* One session's `signal` file takes one write at a time, and a hub repeats only what was
 * unanswered. */
#define SHIM_KEYS_MAX 1024U

/*
 * Fault points (core/fault.h), in the order in which a launch meets them: launcher.launch,
 * launcher.fork, launcher.handed_over, shim.started (its file is made and empty),
 * shim.after_started, shim.claimed, shim.log_open, shim.clone, shim.cloned; in the new process
 * workload.cloned and workload.exec; shim.running, launcher.answer, launcher.answered,
 * shim.signal_recorded, shim.signal_applied; shim.ending, shim.before_sync, shim.before_exit,
 * shim.exit_record, shim.before_exited; shim.undo while a failed launch is undone.
 */

enum shim_phase {
	SHIM_PHASE_IDLE,
	SHIM_PHASE_LAUNCHING, /* cloned, nothing executed yet */
	SHIM_PHASE_RUNNING,
	SHIM_PHASE_ENDING,    /* the main process ended; the others are being ended */
	SHIM_PHASE_RECORDING, /* the exit record could not be written yet */
};

struct shim_session {
	enum shim_phase phase;
	uint64_t serial;
	uint32_t attempt;
	int dir_fd, lock_fd, started_fd;
	int listen_fd;
	int hub_fd[SHIM_HUBS_MAX];
	int signals_fd; /* the file of applied keys, -1 until there is one */
	uint32_t n_keys;
	struct launch_record record;
	struct log_writer log;
	bool has_log;
	struct cgroup cgroup;
	bool has_cgroup;
	int report_fd, out_fd, err_fd, pid_fd, timer_fd;
	pid_t pid;
	int wait_status;
	bool claimed; /* `started` is ours */
	bool reaped;  /* the main process */
	bool failed;  /* it never executed anything */
	bool timed_out;
	struct shim_failure failure;
	struct shim_started started;
	struct shim_exit exit;
	int write_tries;
};

struct shim {
	const struct shim_host *host;
	int launcher_fd; /* -1: the launcher is gone */
	int child_fd;    /* signalfd for SIGCHLD */
	int gate_fd;     /* the directory of sockets; locked while a session is claimed */
	struct shim_session s;
	uint8_t keys[SHIM_KEYS_MAX][SHIM_KEY_BYTES];
};

/* shim_launch.c: everything from the message to the clone. Returns 0, or -1 with s.failure
 * filled. */
int shim_launch(struct shim *shim, int record_fd, uint64_t serial, uint32_t attempt);
/* Closes all that a session holds. The lock goes last but for the hubs' connections. */
void shim_session_release(struct shim *shim);
void shim_session_init(struct shim_session *s);

/* shim_control.c: the session's socket. */
int shim_control_listen(struct shim *shim);
void shim_control_accept(struct shim *shim);
void shim_control_read(struct shim *shim, size_t hub);
void shim_control_tell(struct shim *shim, const struct shim_message *m);
/* Takes the name away, so that nobody new connects. */
void shim_control_unlink(const struct shim_host *host, uint64_t serial);
void shim_message_started(const struct shim_session *s, struct shim_message *ret);

/* shim_kill.c */
/* Signals every process of the session. */
void shim_signal_all(struct shim *shim, int sig);
/* One round of ending everything that is left; true when nothing is. */
bool shim_kill_all(struct shim *shim);

#endif
