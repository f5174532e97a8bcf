/*
 * cloop-launcher: gives each workload a shim, so that a launch never forks the hub.
 *
 *	cloop-launcher --sessions-dir DIR --runtime-dir DIR --listen-fd N
 *	               [--cgroup-parent PATH] [--cgroup-root DIR]
 *
 * N is a listening SOCK_SEQPACKET socket, bound by the keeper, so that a launcher that is started
 * again has the same one. One thread, one epoll loop, no state on disk: what has to survive is in
 * the sessions' folders and in the shims. It serves one hub at a time (protocol.h).
 *
 * SIGTERM and SIGINT end it; shims go on, and end when their session is over. A hub that reads slowly
 * holds up the reports of the shims, never a workload.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/reaper.h"
#include "drivers/shim/session_dir.h"
#include "drivers/shim/shim.h"

/* Each running workload has a shim. More at once than a machine of any size runs. */
#define SHIMS_MAX 16384
/* Idle shims are 30 KiB each; as many as a burst of launches needs. */
#define SHIMS_IDLE_MAX 16
/* Dead shims whose remains are being ended at the same time; more wait in the hub. */
#define REAPS_MAX 1024
#define EVENTS_MAX 64
/* Rounds of ending what a dead shim left. */
#define REAP_RETRY_MS 10
/* Room for the reports of a burst, where we may ask for it. */
#define HUB_BUFFER_BYTES (4 << 20)
#define CGROUP_PARENT "cloop"

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

/* What a dead shim left, until nothing of it is. */
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
};

/* What an event of epoll_fd is about; a shim's event carries the number of its slot. */
enum source { SOURCE_LISTEN, SOURCE_SIGNAL, SOURCE_HUB, SOURCE_CANDIDATE, SOURCE_SHIMS };

static int watch(int epoll_fd, int fd, uint32_t events, uint64_t what)
{
	struct epoll_event e = {.events = events, .data = {.u64 = what}};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static void rewatch(int epoll_fd, int fd, uint32_t events, uint64_t what)
{
	struct epoll_event e = {.events = events, .data = {.u64 = what}};

	(void)epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &e);
}

/* --- the hub --- */

static void listen_to_shims(struct launcher *l, bool on)
{
	rewatch(l->epoll_fd, l->shims_epoll_fd, on ? EPOLLIN : 0, SOURCE_SHIMS);
}

static void drop_hub(struct launcher *l)
{
	l->hub_fd = close_fd(l->hub_fd);
	l->hello_owed = false;
	if (l->blocked) {
		l->blocked = false;
		listen_to_shims(l, true);
	}
}

static void tell_hub(struct launcher *l, const struct shim_message *m)
{
	int r = l->hub_fd < 0 ? 0 : shim_message_send(l->hub_fd, m, -1);

	if (r == -EAGAIN) {
		l->blocked = true;
		l->blocked_message = *m;
		listen_to_shims(l, false);
		rewatch(l->epoll_fd, l->hub_fd, EPOLLOUT, SOURCE_HUB);
	} else if (r < 0) {
		drop_hub(l);
	}
}

static void unblock(struct launcher *l)
{
	int r = shim_message_send(l->hub_fd, &l->blocked_message, -1);

	if (r == -EAGAIN)
		return;
	if (r < 0) {
		drop_hub(l);
		return;
	}
	l->blocked = false;
	rewatch(l->epoll_fd, l->hub_fd, EPOLLIN, SOURCE_HUB);
	listen_to_shims(l, true);
}

static void fail_launch(struct launcher *l, const struct shim_header *h, int error)
{
	struct shim_message m;

	shim_message_init(&m, SHIM_FAILED, h->serial, h->attempt);
	m.body.failure.error = error;
	m.body.failure.step = SHIM_STEP_SHIM;
	tell_hub(l, &m);
}

/* Answers HELLO once no launch of an earlier connection can still claim its session. */
static void answer_hello(struct launcher *l)
{
	struct shim_message m;

	if (!l->hello_owed || l->blocked)
		return;
	for (size_t i = 0; i < l->n_slots; i++)
		if (l->slots[i].state == SLOT_LAUNCHING && l->slots[i].connection != l->connection)
			return;
	l->hello_owed = false;
	shim_message_init(&m, SHIM_HELLO, 0, 0);
	m.body.hello.epoch = l->epoch;
	m.body.hello.abilities = l->host.cgroups.abilities;
	if (l->host.origin.can_setuid)
		m.body.hello.abilities |= SHIM_CAN_SETUID;
	m.body.hello.launcher_pid = getpid();
	tell_hub(l, &m);
}

/* --- shims --- */

static struct slot *find_free_slot(struct launcher *l)
{
	for (size_t i = 0; i < l->n_slots; i++)
		if (l->slots[i].state == SLOT_FREE && l->slots[i].pid == 0)
			return &l->slots[i];
	return l->n_slots < SHIMS_MAX ? &l->slots[l->n_slots++] : NULL;
}

/* In the new process: nothing of the launcher's but what the host says. */
__attribute__((noreturn)) static void become_shim(struct launcher *l, int fd)
{
	(void)close_fd(l->listen_fd);
	(void)close_fd(l->signal_fd);
	(void)close_fd(l->epoll_fd);
	(void)close_fd(l->shims_epoll_fd);
	(void)close_fd(l->hub_fd);
	(void)close_fd(l->candidate_fd);
	for (size_t i = 0; i < l->n_slots; i++)
		if (l->slots[i].fd != fd)
			(void)close_fd(l->slots[i].fd);
	shim_run(&l->host, fd);
}

static int fork_shim(struct launcher *l, struct slot **ret)
{
	struct slot *slot = find_free_slot(l);
	AUTO_CLOSE int ours = -1, theirs = -1;
	int fds[2];

	if (!slot)
		return -EAGAIN;
	slot->fd = -1;
	slot->pid = 0;
	slot->state = SLOT_FREE;
	int r = fault_point("launcher.fork");
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return -errno;
	ours = fds[0];
	theirs = fds[1];
	r = watch(l->shims_epoll_fd, ours, EPOLLIN, (uint64_t)(slot - l->slots));
	if (r < 0)
		return r;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)close_fd(ours);
		become_shim(l, theirs);
	}
	slot->pid = pid;
	slot->fd = take_fd(&ours);
	*ret = slot;
	return 0;
}

/* Gives the launch to a shim: an idle one, else a new one. Returns 0 or a negative errno. */
static int hand_over(struct launcher *l, const struct shim_message *m, int record_fd)
{
	struct slot *slot = NULL;

	for (;;) {
		bool fresh = l->n_idle == 0;

		if (!fresh)
			slot = &l->slots[l->idle[--l->n_idle]];
		else {
			int r = fork_shim(l, &slot);

			if (r < 0)
				return r;
		}
		slot->state = SLOT_LAUNCHING;
		slot->serial = m->header.serial;
		slot->attempt = m->header.attempt;
		slot->connection = l->connection;
		slot->answered = false;
		int r = shim_message_send(slot->fd, m, record_fd);
		if (r == 0)
			return 0;
		/* An idle shim that was killed; its end is noticed by SIGCHLD. */
		slot->serial = 0;
		slot->state = SLOT_BUSY;
		if (fresh)
			return r;
	}
}

static void set_idle(struct launcher *l, struct slot *slot)
{
	slot->serial = 0;
	slot->state = SLOT_IDLE;
	if (l->n_idle < SHIMS_IDLE_MAX) {
		l->idle[l->n_idle++] = (size_t)(slot - l->slots);
		return;
	}
	/* It ends when it sees that; until SIGCHLD says so the slot stays taken. */
	slot->fd = close_fd(slot->fd);
	slot->state = SLOT_BUSY;
}

static void on_shim_message(struct launcher *l, struct slot *slot, const struct shim_message *m)
{
	bool answer = m->header.type == SHIM_STARTED || m->header.type == SHIM_FAILED;

	if (slot->state == SLOT_LAUNCHING)
		slot->state = SLOT_BUSY;
	if (m->header.type == SHIM_FAILED || m->header.type == SHIM_IDLE)
		set_idle(l, slot);
	if (!answer || slot->answered)
		return;
	slot->answered = true;
	if (slot->connection == l->connection)
		tell_hub(l, m);
}

static void on_shim(struct launcher *l, size_t index)
{
	struct slot *slot = &l->slots[index];
	struct shim_message m;
	int r = slot->fd < 0 ? -EAGAIN : shim_message_recv(slot->fd, &m, NULL);

	if (r == -EAGAIN)
		return;
	if (r <= 0) {
		/* The process is dead or about to be; SIGCHLD says when. */
		slot->fd = close_fd(slot->fd);
		return;
	}
	on_shim_message(l, slot, &m);
	answer_hello(l);
}

/* --- the remains of dead shims --- */

static bool is_shim(pid_t pid, void *arg)
{
	const struct launcher *l = arg;

	for (size_t i = 0; i < l->n_slots; i++)
		if (l->slots[i].pid == pid)
			return true;
	return false;
}

static void add_reap(struct launcher *l, const struct reap *reap)
{
	struct shim_message m;

	if (l->n_reaps < REAPS_MAX) {
		l->reaps[l->n_reaps++] = *reap;
		return;
	}
	/* Too many at once: the hub asks again. What our own child left is lost from sight only
	 * until the hub asks for it. */
	if (!reap->answer)
		return;
	shim_message_init(&m, SHIM_REAPED, reap->serial, reap->attempt);
	m.body.reply.error = EBUSY;
	tell_hub(l, &m);
}

static void run_reaps(struct launcher *l)
{
	const struct process_filter spare = {is_shim, l};
	size_t kept = 0;

	/* A blocked hub could not be told. */
	for (size_t i = 0; i < l->n_reaps; i++) {
		struct reap reap = l->reaps[i];
		int r = l->blocked ? 0
				   : reaper_round(&l->host, reap.serial, reap.attempt,
						  reap.check_lock, &spare);

		if (r == 0) {
			l->reaps[kept++] = reap;
			continue;
		}
		if (reap.answer && reap.connection == l->connection) {
			struct shim_message m;

			shim_message_init(&m, SHIM_REAPED, reap.serial, reap.attempt);
			m.body.reply.error = r < 0 ? -r : 0;
			tell_hub(l, &m);
		}
	}
	l->n_reaps = kept;
}

/* Passes on what a dead shim said before it died. False when the hub has no room for it now. */
static bool hear_last_words(struct launcher *l, size_t index)
{
	struct slot *slot = &l->slots[index];
	struct shim_message m;

	while (!l->blocked && slot->fd >= 0) {
		int r = shim_message_recv(slot->fd, &m, NULL);

		if (r <= 0)
			return true;
		on_shim_message(l, slot, &m);
	}
	return !l->blocked;
}

static void forget_idle(struct launcher *l, size_t index)
{
	for (size_t i = 0; i < l->n_idle; i++)
		if (l->idle[i] == index) {
			l->n_idle--;
			memmove(&l->idle[i], &l->idle[i + 1],
				(l->n_idle - i) * sizeof(l->idle[0]));
			return;
		}
}

static void on_shim_death(struct launcher *l, size_t index)
{
	struct slot *slot = &l->slots[index];
	char name[SESSION_NAME_MAX];

	forget_idle(l, index);
	if (slot->serial != 0) {
		struct reap reap = {.serial = slot->serial, .attempt = slot->attempt};
		struct shim_header h = {.serial = slot->serial, .attempt = slot->attempt};

		session_dir_name(slot->serial, name);
		(void)unlinkat(l->host.sockets_fd, name, 0);
		add_reap(l, &reap);
		/* How far it had come, the hub sees from the files. */
		if (!slot->answered && slot->connection == l->connection)
			fail_launch(l, &h, ECHILD);
	}
	slot->fd = close_fd(slot->fd);
	slot->state = SLOT_FREE;
	slot->pid = 0;
}

static size_t slot_of(const struct launcher *l, pid_t pid)
{
	size_t i = 0;

	while (i < l->n_slots && l->slots[i].pid != pid)
		i++;
	return i;
}

/* Shims that died, and orphans of theirs. */
static void on_child(struct launcher *l)
{
	siginfo_t info;

	for (;;) {
		/* A shim stays a zombie until all that it said is passed on. */
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
		    info.si_pid == 0)
			break;
		size_t index = slot_of(l, info.si_pid);
		if (index < l->n_slots && !hear_last_words(l, index)) {
			l->child_owed = true;
			return;
		}
		(void)waitpid(info.si_pid, NULL, WNOHANG | __WALL);
		if (index < l->n_slots)
			on_shim_death(l, index);
	}
	l->child_owed = false;
	run_reaps(l);
	answer_hello(l);
}

static void on_signal(struct launcher *l)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else
			l->stopping = true;
	}
	if (child)
		on_child(l);
}

/* --- connections --- */

static void on_connect(struct launcher *l)
{
	AUTO_CLOSE int fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int size = HUB_BUFFER_BYTES;

	if (fd < 0 || shim_peer_check(fd) < 0)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	l->candidate_fd = close_fd(l->candidate_fd);
	if (watch(l->epoll_fd, fd, EPOLLIN, SOURCE_CANDIDATE) == 0)
		l->candidate_fd = take_fd(&fd);
}

static void on_candidate(struct launcher *l)
{
	struct shim_message m;
	int r = shim_message_recv(l->candidate_fd, &m, NULL);

	if (r == -EAGAIN)
		return;
	if (r <= 0 || m.header.type != SHIM_HELLO || m.body.hello.epoch < l->epoch) {
		l->candidate_fd = close_fd(l->candidate_fd);
		return;
	}
	/* What the hub before has sent and we have not read is dropped with its socket. */
	drop_hub(l);
	l->hub_fd = take_fd(&l->candidate_fd);
	rewatch(l->epoll_fd, l->hub_fd, EPOLLIN, SOURCE_HUB);
	l->epoch = m.body.hello.epoch;
	l->connection++;
	l->hello_owed = true;
	answer_hello(l);
}

static void on_hub(struct launcher *l)
{
	AUTO_CLOSE int record_fd = -1;
	struct shim_message m;
	int r = shim_message_recv(l->hub_fd, &m, &record_fd);

	if (r == -EAGAIN)
		return;
	/* Before the answer to HELLO the hub has nothing to say. */
	if (r <= 0 || l->hello_owed) {
		drop_hub(l);
		return;
	}
	if (m.header.type == SHIM_LAUNCH) {
		(void)fault_point("launcher.launch");
		r = hand_over(l, &m, record_fd);
		if (r < 0)
			fail_launch(l, &m.header, -r);
	} else if (m.header.type == SHIM_REAP) {
		struct reap reap = {.serial = m.header.serial,
				    .attempt = m.header.attempt,
				    .check_lock = true,
				    .answer = true,
				    .connection = l->connection};

		add_reap(l, &reap);
		run_reaps(l);
	} else {
		drop_hub(l);
	}
}

static void on_shims(struct launcher *l)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(l->shims_epoll_fd, events, EVENTS_MAX, 0);

	/* One report at a time when the hub has no room for more. */
	for (int i = 0; i < n && !l->blocked; i++)
		on_shim(l, (size_t)events[i].data.u64);
}

static void dispatch(struct launcher *l, enum source source)
{
	switch (source) {
	case SOURCE_LISTEN:
		on_connect(l);
		break;
	case SOURCE_SIGNAL:
		on_signal(l);
		break;
	case SOURCE_CANDIDATE:
		if (l->candidate_fd >= 0)
			on_candidate(l);
		break;
	case SOURCE_HUB:
		if (l->hub_fd >= 0 && l->blocked)
			unblock(l);
		else if (l->hub_fd >= 0)
			on_hub(l);
		break;
	case SOURCE_SHIMS:
		on_shims(l);
		break;
	}
}

static int run(struct launcher *l)
{
	while (!l->stopping) {
		struct epoll_event e;
		int n = epoll_wait(l->epoll_fd, &e, 1, l->n_reaps > 0 ? REAP_RETRY_MS : -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1)
			dispatch(l, (enum source)e.data.u64);
		else if (n == 0)
			run_reaps(l);
		if (l->child_owed && !l->blocked)
			on_child(l);
	}
	return 0;
}

/* --- start --- */

/* Whether we may become other users: root in a container may not. */
static bool can_setuid(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const uint32_t wanted = (1U << CAP_SETUID) | (1U << CAP_SETGID);

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	return (data[0].effective & wanted) == wanted;
}

static void remember_origin(struct workload_origin *o)
{
	AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, o->oom_score_adj, sizeof(o->oom_score_adj) - 1);
	struct rlimit all;

	if (n < 0)
		(void)strcpy(o->oom_score_adj, "0");
	(void)getrlimit(RLIMIT_NOFILE, &o->nofile);
	o->can_setuid = can_setuid();
	/* A descriptor a shim. */
	all = o->nofile;
	all.rlim_cur = all.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &all);
}

static int open_dirs(struct launcher *l, const char *sessions, const char *runtime)
{
	AUTO_CLOSE int sessions_fd = open(sessions, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int runtime_fd = open(runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (sessions_fd < 0 || runtime_fd < 0 || fstat(runtime_fd, &st) < 0)
		return -errno;
	if (mkdirat(runtime_fd, SHIM_SOCKETS_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	l->host.sockets_fd = openat(runtime_fd, SHIM_SOCKETS_DIR,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->host.sockets_fd < 0)
		return -errno;
	l->host.sessions_fd = take_fd(&sessions_fd);
	(void)snprintf(l->cgroup_instance, sizeof(l->cgroup_instance), "%llx-%llx",
		       (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	return 0;
}

static int open_loop(struct launcher *l)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->shims_epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->signal_fd < 0 || l->epoll_fd < 0 || l->shims_epoll_fd < 0)
		return -errno;
	int r = watch(l->epoll_fd, l->listen_fd, EPOLLIN, SOURCE_LISTEN);
	if (r == 0)
		r = watch(l->epoll_fd, l->signal_fd, EPOLLIN, SOURCE_SIGNAL);
	if (r == 0)
		r = watch(l->epoll_fd, l->shims_epoll_fd, EPOLLIN, SOURCE_SHIMS);
	return r;
}

/* What was not meant for us, the shims would hand on to every workload's supervisor. */
static void close_others(int keep)
{
	(void)syscall(SYS_close_range, 3U, (unsigned)keep - 1, 0);
	(void)syscall(SYS_close_range, (unsigned)keep + 1, ~0U, 0);
}

static int usage(void)
{
	(void)fputs("usage: cloop-launcher --sessions-dir DIR --runtime-dir DIR --listen-fd N\n"
		    "                      [--cgroup-parent PATH] [--cgroup-root DIR]\n",
		    stderr);
	return 2;
}

static int fail(const char *what, int r)
{
	(void)fprintf(stderr, "cloop-launcher: %s: %s\n", what, strerror(-r));
	return 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"sessions-dir", required_argument, NULL, 's'},
		{"runtime-dir", required_argument, NULL, 'r'},
		{"listen-fd", required_argument, NULL, 'l'},
		{"cgroup-parent", required_argument, NULL, 'p'},
		{"cgroup-root", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};
	/* Too large for the stack; the shims inherit it and touch little of it. */
	static struct launcher l;
	const char *sessions = NULL, *runtime = NULL, *root = NULL;
	int c;

	l.cgroup_parent = CGROUP_PARENT;
	l.listen_fd = l.hub_fd = l.candidate_fd = -1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			sessions = optarg;
			break;
		case 'r':
			runtime = optarg;
			break;
		case 'l':
			l.listen_fd = atoi(optarg);
			break;
		case 'p':
			l.cgroup_parent = optarg;
			break;
		case 'c':
			root = optarg;
			break;
		default:
			return usage();
		}
	}
	if (!sessions || !runtime || l.listen_fd < 3 || optind != argc)
		return usage();
	close_others(l.listen_fd);
	if (fcntl(l.listen_fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(l.listen_fd, F_SETFL, O_NONBLOCK) < 0)
		return fail("--listen-fd", -errno);

	(void)umask(077);
	remember_origin(&l.host.origin);
	int r = open_dirs(&l, sessions, runtime);
	if (r < 0)
		return fail(runtime, r);
	r = cgroup_tree_open(&l.host.cgroups, root, l.cgroup_parent, l.cgroup_instance);
	if (r < 0)
		return fail("control groups", r);
	r = chdir("/") < 0 ? -errno : open_loop(&l);
	if (r == 0)
		r = run(&l);
	cgroup_tree_remove(&l.host.cgroups, l.cgroup_parent, l.cgroup_instance);
	return r < 0 ? fail("event loop", r) : 0;
}
