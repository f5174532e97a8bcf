/* The launcher's shims: made, given work, listened to, and what is left when they die. */
#include "drivers/shim/launcher_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/fault.h"
#include "core/owner.h"
#include "drivers/shim/reaper.h"
#include "drivers/shim/runner.h"
#include "drivers/shim/session_dir.h"

static void fail_launch(struct launcher *l, const struct shim_header *h, int error)
{
	struct shim_message m;

	shim_message_init(&m, SHIM_FAILED, h->serial, h->attempt);
	m.body.failure.error = error;
	m.body.failure.step = SHIM_STEP_SHIM;
	launcher_tell_hub(l, &m);
}

static struct slot *find_free_slot(struct launcher *l)
{
	for (size_t i = 0; i < l->n_slots; i++)
		if (l->slots[i].state == SLOT_FREE && l->slots[i].pid == 0)
			return &l->slots[i];
	return l->n_slots < SHIMS_MAX ? &l->slots[l->n_slots++] : NULL;
}

void launcher_close_all(struct launcher *l)
{
	l->listen_fd = close_fd(l->listen_fd);
	l->signal_fd = close_fd(l->signal_fd);
	l->epoll_fd = close_fd(l->epoll_fd);
	l->shims_epoll_fd = close_fd(l->shims_epoll_fd);
	l->hub_fd = close_fd(l->hub_fd);
	l->candidate_fd = close_fd(l->candidate_fd);
	l->gate_fd = close_fd(l->gate_fd);
	for (size_t i = 0; i < l->n_slots; i++)
		l->slots[i].fd = close_fd(l->slots[i].fd);
}

/* record_fd: what is handed over just now, and no business of the fork. */
static int fork_shim(struct launcher *l, int record_fd, struct slot **ret)
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
	r = launcher_watch(l->shims_epoll_fd, ours, EPOLLIN, (uint64_t)(slot - l->slots));
	if (r < 0)
		return r;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)close_fd(ours);
		(void)close_fd(record_fd);
		launcher_close_all(l);
		shim_run(&l->host, theirs);
	}
	slot->pid = pid;
	slot->fd = take_fd(&ours);
	*ret = slot;
	return 0;
}

/* An idle shim, else a new one. */
static int find_shim(struct launcher *l, int record_fd, struct slot **ret)
{
	if (l->n_idle == 0)
		return fork_shim(l, record_fd, ret);
	*ret = &l->slots[l->idle[--l->n_idle]];
	return 0;
}

void launcher_hand_over(struct launcher *l, const struct shim_message *m, int record_fd)
{
	struct slot *slot = NULL;
	int r;

	(void)fault_point("launcher.launch");
	for (;;) {
		r = find_shim(l, record_fd, &slot);
		if (r < 0)
			break;
		r = shim_message_send(slot->fd, m, record_fd);
		if (r == 0) {
			slot->state = SLOT_LAUNCHING;
			slot->serial = m->header.serial;
			slot->attempt = m->header.attempt;
			slot->connection = l->connection;
			slot->answered = false;
			(void)fault_point("launcher.handed_over");
			return;
		}
		/* One that was killed; what is left of it is noticed by SIGCHLD. */
		slot->state = SLOT_BUSY;
		if (r != -EPIPE && r != -ECONNRESET)
			break;
	}
	fail_launch(l, &m->header, -r);
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
	(void)fault_point("launcher.answer");
	if (slot->connection == l->connection)
		launcher_tell_hub(l, m);
	(void)fault_point("launcher.answered");
}

void launcher_on_shim(struct launcher *l, size_t index)
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
	launcher_answer_hello(l);
}

static bool is_shim(pid_t pid, void *arg)
{
	const struct launcher *l = arg;

	for (size_t i = 0; i < l->n_slots; i++)
		if (l->slots[i].pid == pid)
			return true;
	return launcher_is_runner(l, pid);
}

void launcher_add_reap(struct launcher *l, const struct reap *reap)
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
	launcher_tell_hub(l, &m);
}

void launcher_run_reaps(struct launcher *l)
{
	const struct process_filter spare = {is_shim, l};
	size_t kept = 0;

	/* A blocked hub could not be told. */
	for (size_t i = 0; i < l->n_reaps; i++) {
		struct reap reap = l->reaps[i];
		bool later = l->blocked;
		int r = later ? 0
			      : reaper_round(&l->host, reap.serial, reap.attempt, reap.check_lock,
					     &spare);

		if (r == 0) {
			/* What is being ended is ended, whoever comes to hold the lock
			 * meanwhile. */
			reap.check_lock = reap.check_lock && later;
			l->reaps[kept++] = reap;
			continue;
		}
		if (reap.answer && reap.connection == l->connection) {
			struct shim_message m;

			shim_message_init(&m, SHIM_REAPED, reap.serial, reap.attempt);
			m.body.reply.error = r < 0 ? -r : 0;
			launcher_tell_hub(l, &m);
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
			memmove(&l->idle[i], &l->idle[i + 1], (l->n_idle - i) * sizeof(l->idle[0]));
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
		launcher_add_reap(l, &reap);
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

/* Shims and runners that died, and orphans of theirs. */
void launcher_on_child(struct launcher *l)
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
		else
			/* One that ends by itself leaves nothing. */
			launcher_on_runner_death(l, info.si_pid,
						 info.si_code == CLD_EXITED &&
							 info.si_status == 0);
	}
	l->child_owed = false;
	launcher_run_reaps(l);
	launcher_answer_hello(l);
}

/* A leaf of an earlier launcher: "<serial in hex>.<attempt>". */
static void sweep_group(const char *name, void *arg)
{
	struct reap reap = {0};
	char end;

	if (sscanf(name, "%16" SCNx64 ".%" SCNu32 "%c", &reap.serial, &reap.attempt, &end) != 2)
		return;
	/* A runner ends with its launcher: what is in its group is in the way of nobody. */
	reap.check_lock = reap.attempt != RUNNER_ATTEMPT;
	launcher_add_reap(arg, &reap);
}

/* Sockets whose shim is dead. */
static void sweep_sockets(struct launcher *l)
{
	int fd = openat(l->host.sockets_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		(void)close_fd(fd);
	while (d && (e = readdir(d))) {
		uint64_t serial;
		char end;

		if (sscanf(e->d_name, "%16" SCNx64 "%c", &serial, &end) != 1)
			continue;
		AUTO_CLOSE int dir = session_dir_open(l->host.sessions_fd, serial);
		if (dir == -ENOENT || (dir >= 0 && session_dir_locked(dir) == 0))
			(void)unlinkat(l->host.sockets_fd, e->d_name, 0);
	}
}

void launcher_sweep(struct launcher *l)
{
	cgroup_list(&l->host.cgroups, sweep_group, l);
	sweep_sockets(l);
	launcher_run_reaps(l);
}
