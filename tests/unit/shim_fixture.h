/*
 * A real launcher in a directory of its own, and a client of it, for the tests of drivers/shim.
 *
 * Everything goes when the fixture does: fixture_close() fails the test when a process, a control
 * group or a file in the runtime directory is left.
 */
#ifndef CLOOP_TESTS_UNIT_SHIM_FIXTURE_H
#define CLOOP_TESTS_UNIT_SHIM_FIXTURE_H

#include "tests/unit/test.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "drivers/shim/client.h"

#define FIXTURE_SERIALS 1024
/* Far beyond what anything takes; only a broken program meets it. */
#define FIXTURE_WAIT_MS 60000

/* What the client said about one session. */
struct outcome {
	int n_started, n_failed, n_exited, n_lost;
	struct shim_started started;
	struct shim_exit exit;
	struct error err;
};

/* Which control groups the launcher uses. */
enum fixture_groups {
	FIXTURE_GROUPS_MACHINE,
	FIXTURE_GROUPS_V1,   /* the machine's v1 controllers, without the unified tree */
	FIXTURE_GROUPS_NONE, /* as for an ordinary user */
};

struct fixture {
	char dir[64];
	char cgroup_parent[48];
	char cgroup_root[80]; /* "": the machine's */
	int dir_fd, sessions_fd, runtime_fd, listen_fd;
	pid_t launcher;
	uv_loop_t loop;
	uv_timer_t tick;
	struct shim_client *client;
	uint64_t epoch;
	int n_ready, n_disconnected, n_refused;
	unsigned abilities;
	struct outcome outcomes[FIXTURE_SERIALS];
};

/* Makes the directories, the socket, the launcher and the client, and waits until it is ready. */
struct fixture *fixture_open(void);
/* For main(): becomes a user without any privilege when the first argument asks for it. */
bool fixture_main(int argc, char **argv);

/*
 * Runs those of the tests that mean something here: not every build has fault points, and not every
 * user control groups. Returns the exit status.
 */
int fixture_run_tests(const char *name, const struct CMUnitTest *tests, size_t n,
		      bool (*applies)(const char *name));
/* The same with options: faults for the launcher (CLOOP_FAULT; %s is the fixture's directory). */
struct fixture *fixture_open_with(const char *fault, enum fixture_groups groups);
void fixture_close(struct fixture *f);

void fixture_start_launcher(struct fixture *f, const char *fault);
void fixture_kill_launcher(struct fixture *f);
void fixture_start_client(struct fixture *f);
/* The same beside a mount with that device. */
void fixture_start_client_beside(struct fixture *f, dev_t mount);
/* The same without waiting until it is ready. */
void fixture_begin_client(struct fixture *f);
enum shim_adoption fixture_adopt(struct fixture *f, uint64_t serial, uint32_t attempt);
/* As if the hub were killed: nothing of the client is left, nothing was said. */
void fixture_drop_client(struct fixture *f);

/* Runs the loop until the condition holds, and fails the test when it does not come to. */
bool fixture_turn(struct fixture *f, uint64_t *deadline);
#define fixture_until(f, condition)                                                                \
	do {                                                                                       \
		uint64_t deadline_ = 0;                                                            \
		while (!(condition))                                                               \
			if (!fixture_turn((f), &deadline_))                                        \
				fail_msg("never came: %s", #condition);                            \
	} while (0)

/* A request with the test's own ids, work_dir "/" and PATH in env. argv ends with NULL. */
struct launch_request fixture_request(uint64_t serial, const char *const *argv);
/* Launches `sh -c script`. */
void fixture_launch_shell(struct fixture *f, uint64_t serial, const char *script);
void fixture_launch(struct fixture *f, const struct launch_request *request);
/* Launches and waits for the end; returns what was said. */
const struct outcome *fixture_run(struct fixture *f, const struct launch_request *request);
const struct outcome *fixture_run_shell(struct fixture *f, uint64_t serial, const char *script);
void fixture_signal(struct fixture *f, uint64_t serial, uint8_t key, enum shim_signal signal);
bool fixture_ended(const struct fixture *f, uint64_t serial);
/* The session's log as text; static storage. */
const char *fixture_log(const struct fixture *f, uint64_t serial);
/* Creates a file in the fixture's directory, with text. */
void fixture_write(const struct fixture *f, const char *name, const char *text, mode_t mode);
/* Whether anything is left of a session: its folder or its control group. */
bool fixture_left(const struct fixture *f, uint64_t serial);
/* The pid of the shim of a session, from its record. */
pid_t fixture_shim(const struct fixture *f, uint64_t serial);
/* How many shims the launcher has. */
int fixture_shims(const struct fixture *f);
/* The shim that has stopped, 0 when there is none. */
pid_t fixture_stopped_shim(const struct fixture *f);
/* The letter of a process's state ('T': stopped), 0 when there is none. */
char fixture_state(pid_t pid);
/* Whether a process is there and no zombie. */
bool fixture_alive(pid_t pid);
/* The number in a file of the fixture's directory, 0 until there is one. */
int fixture_number(const struct fixture *f, const char *name);

#endif
