/* What the files of the shim share: one session and the phase it is in. */
#ifndef CLOOP_DRIVERS_SHIM_SHIM_INTERNAL_H
#define CLOOP_DRIVERS_SHIM_SHIM_INTERNAL_H

#include <limits.h>

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

/* Children that ended before it was known which of them is the container's monitor. */
#define SHIM_EARLY_MAX 32U

/*
 * A container. The shim starts the runtime's client, which leaves when the container runs; the
 * runtime's monitor then is the shim's child, ends when the container has ended and is removed, and
 * passes on its exit code. Where one of them was killed, the shim removes the container itself.
 * shim_session.pid is the client, later the monitor.
 */
struct shim_container {
	bool on;
	bool client_done;
	bool cut_short; /* killed before the client was done */
	bool dead;      /* the container's processes are; what is written now is not theirs */
	bool removed;
	bool killed;    /* because somebody asked for it, or the deadline passed */
	pid_t init;        /* the container's first process; 0: not known */
	int init_signal;   /* ended by us, since it would have ended itself by this signal */
	uint64_t pending;  /* signals that came before it ran: 1 << number */
	int oom_fd;        /* cgroup_watch_oom() */
	int64_t limit_ns;  /* CLOCK_BOOTTIME: what runs then is killed; 0: none yet */
	pid_t remover;
	int remove_tries;
	char **remove_argv, **remove_env; /* in remove_memory */
	void *remove_memory;
	char bundle[PATH_MAX]; /* goes when the container is removed; "": not known */
	size_t n_early;
	struct {
		pid_t pid;
		int status;
	} early[SHIM_EARLY_MAX];
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
	struct shim_container container;
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
/* Says why a launch failed; returns -1. */
int shim_launch_fail(struct shim_session *s, enum shim_step step, int r, const char *path);
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

/* shim_container.c */
/* What a container's launch needs beside that of a process: folders, room, the group's path. */
int shim_container_prepare(struct shim *shim, struct workload_client *ret);
void shim_container_free_client(struct workload_client *client);
/* A child has ended. */
void shim_container_reaped(struct shim *shim, pid_t pid, int status);
/* The main process was executed: keeps what the record says about the end. */
void shim_container_executed(struct shim *shim);
void shim_container_signal(struct shim *shim, int sig);
void shim_container_kill(struct shim *shim);
/* Its first process ended, so all of them did: what they wrote is in the pipes. */
void shim_container_died(struct shim_session *s);
/* Kills what does not end by itself; how long to wait for that, -1: no need. */
void shim_container_turn(struct shim *shim);
int shim_container_timeout_ms(const struct shim *shim);
/* One round of the end: true when neither processes nor the container are left. */
bool shim_container_gone(struct shim *shim);
/* Cause, code and signal of the end, from the monitor's status. */
void shim_container_describe_end(struct shim *shim);
void shim_container_release(struct shim_container *c);

/* shim.c */
void shim_begin_running(struct shim *shim);
/* What the workload left in its pipes goes into the log. */
void shim_drain(struct shim_session *s);

/* shim_kill.c */
/* Signals every process of the session. */
void shim_signal_all(struct shim *shim, int sig);
/* One round of ending everything that is left; true when nothing is. */
bool shim_kill_all(struct shim *shim);

#endif
