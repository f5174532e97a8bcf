/*
 * What hub, launcher and shim say to each other, over unix sockets of type SOCK_SEQPACKET, so that
 * a message arrives whole or not at all. libc only: all three use it.
 *
 *	hub ↔ launcher    <runtime-dir>/launcher.sock, bound by the keeper
 *	launcher ↔ shim   a socket pair, one a shim
 *	hub ↔ shim        <runtime-dir>/shims/<serial in hex>, one a session that is being handled
 *	hub ↔ runner      a socket pair, one a helper program, made by the hub
 *
 * A message is a header and the body that its type says, in the machine's own byte order. Both ends
 * check type and length; a message that is not exactly right ends the connection. A peer must be
 * root or have the same uid (SO_PEERCRED).
 *
 * Order on the launcher's socket. The hub says HELLO with its epoch; nothing else is accepted
 * before it. A HELLO with an epoch below the highest one seen ends that connection; otherwise it
 * ends the connection of the hub before. The launcher answers with HELLO when every LAUNCH of
 * earlier connections, also those to a launcher that died, is settled: the shim has the session's
 * lock and its `started` file exists, or it never will. After that the files of a session say all
 * there is to know about it (session_dir.h).
 *
 * Each LAUNCH is answered by STARTED or FAILED on the same connection, unless launcher or
 * connection dies. Each REAP is answered by REAPED, each PING by PONG with the same serial.
 *
 * On a shim's socket the shim says STARTED to each hub that connects, as soon as the workload runs;
 * then SIGNALLED for each SIGNAL; at the end EXITED, or FAILED when it never ran, and closes.
 *
 * A helper program (run.h). The hub puts RUN_RECORD into one end of a socket pair and sends the
 * other end to the launcher with RUN, which hands it to a process of its own, the runner
 * (runner.h). The runner answers on it: RUN_OUTPUT for each of the two streams, then RUN_EXITED
 * when nothing of the program is left, or FAILED when it never ran, and closes. An end of file
 * instead says that the runner or its launcher was killed. The hub ends a program by closing its
 * end; so does the hub's death.
 */
#ifndef CLOOP_DRIVERS_SHIM_PROTOCOL_H
#define CLOOP_DRIVERS_SHIM_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Raised when a message changes. Launcher and hub of different versions refuse each other. A shim
 * that outlives such an upgrade cannot be signalled; its end is still found, from its records. */
#define SHIM_PROTOCOL 2U

/* Names of the files in the runtime directory. */
#define SHIM_LAUNCHER_SOCKET "launcher.sock"
#define SHIM_SOCKETS_DIR "shims"

/* A path in a failure is for a sentence (core/error.h cuts it at 512 bytes), so it may be cut. */
#define SHIM_PATH_MAX 512

#define SHIM_KEY_BYTES 16

enum shim_message_type {
	SHIM_HELLO = 1, /* hub → launcher, and its answer */
	SHIM_LAUNCH,    /* hub → launcher → shim; carries the launch record (record.h) */
	SHIM_CLAIMED,   /* shim → launcher: lock and `started` are there */
	SHIM_STARTED,   /* shim → launcher → hub; shim → hub */
	SHIM_FAILED,    /* shim → launcher → hub; shim → hub: it never ran, nothing is left */
	SHIM_IDLE,      /* shim → launcher: the session is over, ready for another */
	SHIM_REAP,      /* hub → launcher: end what a dead shim left behind */
	SHIM_REAPED,    /* launcher → hub */
	SHIM_SIGNAL,    /* hub → shim */
	SHIM_SIGNALLED, /* shim → hub */
	SHIM_EXITED,    /* shim → hub: the exit record is on disk */
	SHIM_RUN,       /* hub → launcher; carries the runner's end of a socket pair */
	SHIM_RUN_RECORD, /* hub → runner; carries a launch record */
	SHIM_RUN_OUTPUT, /* runner → hub; carries the reading end of a stream */
	SHIM_RUN_EXITED, /* runner → hub: it ended, and all that it started */
	SHIM_PING,       /* hub → launcher; the serial is the hub's own number for it */
	SHIM_PONG,       /* launcher → hub */
};

/* Where a launch failed. Values are part of the protocol. */
enum shim_step {
	SHIM_STEP_RECORD = 1,          /* the launch record is not valid */
	SHIM_STEP_SHIM = 2,            /* no shim could be had */
	SHIM_STEP_SESSION_DIR = 3,     /* the session's folder */
	SHIM_STEP_ALREADY = 4,         /* this attempt has been started before; EEXIST */
	SHIM_STEP_LOG = 5,             /* log files */
	SHIM_STEP_CGROUP = 6,          /* the group, or a limit in it; path: which file */
	SHIM_STEP_PROCESS = 7,         /* pipes, clone, descriptors */
	SHIM_STEP_CREDENTIALS = 8,     /* setgroups, setresgid, setresuid, no_new_privs */
	SHIM_STEP_WORK_DIR = 9,        /* entering work_dir as the user; path: work_dir */
	SHIM_STEP_WORK_DIR_MOUNT = 10, /* work_dir is on the forbidden device */
	SHIM_STEP_EXEC = 11,           /* executing; path: the file */
	SHIM_STEP_EXEC_MOUNT = 12,     /* the file is on the forbidden device */
	SHIM_STEP_EXEC_SEARCH = 13,    /* argv[0] is in no directory of the workload's PATH */
	SHIM_STEP_INTERPRETER = 14,    /* the file is there, the interpreter it names is not */
	/* Of a container. */
	SHIM_STEP_OWNER = 20,       /* work_dir is somebody else's; path: work_dir */
	SHIM_STEP_ROOT = 21,        /* it would run as uid 0; path: work_dir */
	SHIM_STEP_BELOW = 22,       /* a mount of the spec; path: its source */
	SHIM_STEP_HOST_MOUNT = 23,  /* a mount that was granted; path: its source */
	SHIM_STEP_SANDBOX = 24,     /* what the sandbox needs on this side; path: what */
	SHIM_STEP_RUNTIME = 25,     /* the runtime refused; path: what it said */
	SHIM_STEP_RUNTIME_EXEC = 26, /* the runtime itself cannot be executed; path: its name */
};

/* What the launcher can enforce, found once when it starts. */
enum shim_ability {
	SHIM_CAN_CPU = 1 << 0,
	SHIM_CAN_MEMORY = 1 << 1,
	SHIM_CAN_PIDS = 1 << 2,
	SHIM_CAN_KILL = 1 << 3,   /* a group is killed in one step; without, process by process */
	SHIM_CAN_SETUID = 1 << 4, /* workloads may run as other users than the launcher's */
};

/* Without any of these, limits are not enforced. */
#define SHIM_CAN_LIMIT (SHIM_CAN_CPU | SHIM_CAN_MEMORY | SHIM_CAN_PIDS)

enum shim_signal {
	SHIM_SIGNAL_INTERRUPT = 1,
	SHIM_SIGNAL_TERMINATE = 2,
	SHIM_SIGNAL_KILL = 3,
};

/* Why a workload ended (the words of a session's `status`). Values are part of the exit record. */
enum shim_cause {
	SHIM_CAUSE_EXIT = 1,    /* code is valid */
	SHIM_CAUSE_SIGNAL = 2,  /* signal is valid; also for a kill that was asked for */
	SHIM_CAUSE_TIMEOUT = 3, /* the deadline passed and the shim killed it */
	SHIM_CAUSE_OOM = 4,     /* killed at its memory limit */
};

struct shim_header {
	uint32_t type; /* enum shim_message_type */
	uint32_t protocol;
	uint64_t serial; /* of the session; 0 in HELLO and IDLE */
	uint32_t attempt;
	uint32_t reserved;
};

struct shim_hello {
	uint64_t epoch;
	uint32_t abilities; /* in the answer: enum shim_ability, or-ed */
	int32_t launcher_pid;
};

struct shim_started {
	int64_t started_at_ns;    /* real time */
	int64_t deadline_at_ns;   /* real time, informative; 0: none */
	int64_t deadline_boot_ns; /* CLOCK_BOOTTIME, what counts; 0: none */
	uint64_t pid_starttime;   /* /proc/<pid>/stat, field 22 */
	int32_t pid;
	uint32_t reserved;
};

struct shim_failure {
	int32_t error; /* positive errno */
	uint32_t step; /* enum shim_step */
	char path[SHIM_PATH_MAX];
};

struct shim_exit {
	uint32_t cause;     /* enum shim_cause */
	int32_t code;       /* 0 to 255 when cause is EXIT, else -1 */
	int32_t signal;     /* the fatal signal, else 0 */
	uint32_t oom_kills; /* processes of the session that were killed at the memory limit */
	int64_t started_at_ns;
	int64_t finished_at_ns;     /* real time */
	uint64_t log_bytes;         /* that the workload wrote */
	uint64_t log_dropped_bytes; /* of those, in neither log nor log.tail */
	int32_t pid;
	uint32_t reserved;
};

struct shim_signal_request {
	uint8_t key[SHIM_KEY_BYTES]; /* mount id and `unique` of the request: applied once */
	uint32_t signal;             /* enum shim_signal */
	uint32_t reserved;
};

struct shim_signal_reply {
	uint8_t key[SHIM_KEY_BYTES];
	int32_t error; /* 0 or a positive errno */
	uint32_t reserved;
};

struct shim_reply {
	int32_t error; /* REAPED: 0, or EBUSY when a live shim holds the session's lock */
	uint32_t reserved;
};

enum shim_stream { SHIM_STREAM_STDOUT = 1, SHIM_STREAM_STDERR = 2 };

struct shim_run_output {
	uint32_t stream; /* enum shim_stream */
	uint32_t reserved;
};

struct shim_run_exit {
	int32_t code;       /* 0 to 255, -1 when a signal ended it */
	int32_t signal;     /* 0 when it exited */
	uint32_t timed_out; /* 1: its time was up and it was killed */
	uint32_t reserved;
};

struct shim_message {
	struct shim_header header;
	union {
		struct shim_hello hello;
		struct shim_started started;
		struct shim_failure failure;
		struct shim_exit exit;
		struct shim_signal_request signal;
		struct shim_signal_reply signalled;
		struct shim_reply reply;
		struct shim_run_output run_output;
		struct shim_run_exit run_exit;
	} body;
};

/* Begins a message: everything zero but type, protocol, serial and attempt. */
void shim_message_init(struct shim_message *m, enum shim_message_type type, uint64_t serial,
		       uint32_t attempt);

/*
 * Sends one message without waiting and without SIGPIPE, with a descriptor unless fd is -1. Returns
 * 0 or a negative errno: -EAGAIN when the peer does not keep up, -EPIPE when it is gone.
 */
int shim_message_send(int socket, const struct shim_message *m, int fd);

/*
 * Receives one message without waiting. Returns 1; 0 at end of file; -EAGAIN when there is none;
 * -EPROTO for one that is not exactly right, or another negative errno. *ret_fd is the descriptor
 * that came with it (close-on-exec) or -1; pass NULL to have it closed.
 */
int shim_message_recv(int socket, struct shim_message *ret, int *ret_fd);

/* Whether the peer of a unix socket is root or this process's own uid: 0, -EPERM or an error. */
int shim_peer_check(int socket);

#endif
