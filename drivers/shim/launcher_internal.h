/* What the files of the launcher share. */
#ifndef CLOOP_DRIVERS_SHIM_LAUNCHER_INTERNAL_H
#define CLOOP_DRIVERS_SHIM_LAUNCHER_INTERNAL_H

#include "drivers/shim/shim.h"

/* Each running workload has a shim. More at once than a machine of any size runs. */
#define SHIMS_MAX 16384
/* Idle shims are 30 KiB each; as many as a burst of launches needs. */
#define SHIMS_IDLE_MAX 16
/* Dead shims whose remains are being ended at the same time; more wait in the hub. */
#define REAPS_MAX 1024
/* Helper programs at once; the hub has fewer (SHIM_CLIENT_RUNS_MAX) unless some cannot be ended. */
#define RUNS_MAX 512

enum slot_state {
	SLOT_FREE,
	SLOT_IDLE,
	SLOT_LAUNCHING, /* has a LAUNCH and has not said CLAIMED, STARTED or FAILED */
	SLOT_BUSY,
};

/* One shim. */
struct slot {
	enum slot_state state;
	int fd;
	pid_t pid;
	uint32_t attempt;
	uint64_t serial;
	uint64_t connection; /* which hub's connection asked */
	bool answered;       /* STARTED or FAILED was said */
};

/* A runner; pid 0: free. */
struct run_slot {
	pid_t pid;
	uint64_t group;
};

/* What a dead shim or runner left, until nothing of it is. */
struct reap {
	uint64_t serial;
	uint32_t attempt;
	bool check_lock;
	bool answer;
	uint64_t connection;
};

struct launcher {
	struct shim_host host;
	const char *cgroup_parent;
	char cgroup_instance[32];
	int listen_fd;
	int gate_fd; /* the directory of sockets, for earlier_shims_settled(); -1: they are */
	int signal_fd;
	int epoll_fd;       /* listener, signals, hubs, shims_epoll_fd */
	int shims_epoll_fd; /* all shims, so that they can be left waiting together */
	bool stopping;

	int hub_fd;       /* -1: none */
	int candidate_fd; /* connected, has not said HELLO; -1: none */
	uint64_t epoch;
	uint64_t connection; /* counts hubs */
	bool hello_owed;
	/* A report for which the hub has no room; until it has, shims are not listened to. */
	bool blocked;
	struct shim_message blocked_message;
	bool child_owed; /* dead children were left alone because of that */

	struct slot slots[SHIMS_MAX];
	size_t n_slots; /* slots from here on were never used */
	size_t idle[SHIMS_IDLE_MAX];
	size_t n_idle;
	struct reap reaps[REAPS_MAX];
	size_t n_reaps;
	struct run_slot runs[RUNS_MAX];
	uint64_t last_run_group;
};

/* launcher.c */
int launcher_watch(int epoll_fd, int fd, uint32_t events, uint64_t what);
/* Says something to the hub; afterwards l->blocked says whether there is room for more. */
void launcher_tell_hub(struct launcher *l, const struct shim_message *m);
/* Answers HELLO once no launch of an earlier connection can still claim its session. */
void launcher_answer_hello(struct launcher *l);

/* launcher_shims.c */
/* In a new process: closes all that is the launcher's, but for what the host says. */
void launcher_close_all(struct launcher *l);
/* Gives the launch to a shim; says FAILED to the hub when that cannot be. */
void launcher_hand_over(struct launcher *l, const struct shim_message *m, int record_fd);
void launcher_on_shim(struct launcher *l, size_t index);
/* Shims that died, and orphans of theirs. */
void launcher_on_child(struct launcher *l);
void launcher_add_reap(struct launcher *l, const struct reap *reap);
/* One round for each dead shim's remains. */
void launcher_run_reaps(struct launcher *l);
/* Ends what shims left that died while there was no launcher. */
void launcher_sweep(struct launcher *l);

/* launcher_run.c */
/* Gives the program whose record is in the socket to a runner; answers there when that cannot be. */
void launcher_run(struct launcher *l, int control_fd);
bool launcher_is_runner(const struct launcher *l, pid_t pid);
/* Frees its slot, and ends what it has left unless it is clean; nothing when it was none. */
void launcher_on_runner_death(struct launcher *l, pid_t pid, bool clean);

#endif
