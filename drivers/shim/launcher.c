/*
 * cloop-launcher: gives each workload a shim, and each helper program of the hub a runner, so that
 * the hub never forks.
 *
 *	cloop-launcher --sessions-dir DIR --runtime-dir DIR --listen-fd N
 *	               [--cgroup-parent PATH] [--cgroup-root DIR]
 *
 * N is a listening SOCK_SEQPACKET socket, bound by the keeper, so that a launcher that is started
 * again has the same one. One thread, one epoll loop, no state on disk: what has to survive is in
 * the sessions' folders and in the shims. It serves one hub at a time (protocol.h).
 *
 * SIGTERM and SIGINT end it; shims go on, and end when their session is over. A hub that reads
 * slowly holds up the reports of the shims, never a workload. Runners end with the launcher.
 */
#include "drivers/shim/launcher_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/owner.h"
#include "drivers/shim/session_dir.h"

#define EVENTS_MAX 64
/* Rounds of ending what a dead shim left, and looks at the shims of earlier launchers. */
#define RETRY_MS 10
#define STOP_ROUNDS 100
/* Room for the reports of a burst, where we may ask for it. */
#define HUB_BUFFER_BYTES (4 << 20)
#define CGROUP_PARENT "cloop"

/* What an event of epoll_fd is about; a shim's event carries the number of its slot. */
enum source { SOURCE_LISTEN, SOURCE_SIGNAL, SOURCE_HUB, SOURCE_CANDIDATE, SOURCE_SHIMS };

int launcher_watch(int epoll_fd, int fd, uint32_t events, uint64_t what)
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

void launcher_tell_hub(struct launcher *l, const struct shim_message *m)
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

/*
 * Whether the shims of earlier launchers are past the point where they claim a session. One that is
 * not holds a lock on the directory of sockets, or will find, when it has got it, that its launcher
 * is gone.
 */
static bool earlier_shims_settled(struct launcher *l)
{
	if (l->gate_fd < 0)
		return true;
	if (flock(l->gate_fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	/* Once is enough; our own shims are in our table. */
	l->gate_fd = close_fd(l->gate_fd);
	return true;
}

void launcher_answer_hello(struct launcher *l)
{
	struct shim_message m;

	if (!l->hello_owed || l->blocked || !earlier_shims_settled(l))
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
	launcher_tell_hub(l, &m);
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
		launcher_on_child(l);
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
	if (launcher_watch(l->epoll_fd, fd, EPOLLIN, SOURCE_CANDIDATE) == 0)
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
	launcher_answer_hello(l);
}

static void on_hub(struct launcher *l)
{
	AUTO_CLOSE int passed_fd = -1;
	struct shim_message m;
	int r = shim_message_recv(l->hub_fd, &m, &passed_fd);

	if (r == -EAGAIN)
		return;
	/* Before the answer to HELLO the hub has nothing to say. */
	if (r <= 0 || l->hello_owed) {
		drop_hub(l);
		return;
	}
	if (m.header.type == SHIM_LAUNCH) {
		launcher_hand_over(l, &m, passed_fd);
	} else if (m.header.type == SHIM_REAP) {
		struct reap reap = {.serial = m.header.serial,
				    .attempt = m.header.attempt,
				    .check_lock = true,
				    .answer = true,
				    .connection = l->connection};

		launcher_add_reap(l, &reap);
		launcher_run_reaps(l);
	} else if (m.header.type == SHIM_PING) {
		shim_message_init(&m, SHIM_PONG, m.header.serial, 0);
		launcher_tell_hub(l, &m);
	} else if (m.header.type == SHIM_RUN && passed_fd >= 0) {
		launcher_run(l, passed_fd);
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
		launcher_on_shim(l, (size_t)events[i].data.u64);
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
		bool waiting = l->n_reaps > 0 || (l->hello_owed && l->gate_fd >= 0);
		int n = epoll_wait(l->epoll_fd, &e, 1, waiting ? RETRY_MS : -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1)
			dispatch(l, (enum source)e.data.u64);
		if (n == 0) {
			launcher_run_reaps(l);
			launcher_answer_hello(l);
		}
		if (l->child_owed && !l->blocked)
			launcher_on_child(l);
	}
	return 0;
}

/* What is being ended takes some milliseconds more; what cannot die is left to the next
 * launcher. */
static void finish_reaps(struct launcher *l)
{
	drop_hub(l);
	for (int i = 0; i < STOP_ROUNDS && l->n_reaps > 0; i++) {
		(void)poll(NULL, 0, RETRY_MS);
		launcher_run_reaps(l);
	}
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
	int r = session_dir_prepare(sessions_fd);
	if (r < 0)
		return r;
	if (mkdirat(runtime_fd, SHIM_SOCKETS_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	l->host.sockets_fd = openat(runtime_fd, SHIM_SOCKETS_DIR,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->host.sockets_fd < 0)
		return -errno;
	l->gate_fd = openat(l->host.sockets_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->gate_fd < 0)
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
	int r = launcher_watch(l->epoll_fd, l->listen_fd, EPOLLIN, SOURCE_LISTEN);
	if (r == 0)
		r = launcher_watch(l->epoll_fd, l->signal_fd, EPOLLIN, SOURCE_SIGNAL);
	if (r == 0)
		r = launcher_watch(l->epoll_fd, l->shims_epoll_fd, EPOLLIN, SOURCE_SHIMS);
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
	l.listen_fd = l.hub_fd = l.candidate_fd = l.gate_fd = -1;
	l.host.launcher = getpid();
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

	/* What is private says so where it is made; a workload may read its own group's limits. */
	(void)umask(022);
	remember_origin(&l.host.origin);
	int r = open_dirs(&l, sessions, runtime);
	if (r < 0)
		return fail(runtime, r);
	r = cgroup_tree_open(&l.host.cgroups, root, l.cgroup_parent, l.cgroup_instance);
	if (r < 0)
		return fail("control groups", r);
	r = chdir("/") < 0 ? -errno : open_loop(&l);
	if (r == 0) {
		launcher_sweep(&l);
		r = run(&l);
		finish_reaps(&l);
	}
	cgroup_remove_everywhere(&l.host.cgroups, NULL);
	cgroup_tree_remove(&l.host.cgroups, l.cgroup_parent, l.cgroup_instance);
	return r < 0 ? fail("event loop", r) : 0;
}
