#include "fs/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "core/boot_id.h"
#include "core/clock.h"
#include "core/dispatch.h"
#include "core/fault.h"
#include "core/owner.h"
#include "core/fleet.h"
#include "core/project.h"
#include "core/store/store.h"
#include "drivers/container/driver.h"
#include "drivers/localprocess/driver.h"
#include "drivers/shim/log_writer.h"
#include "drivers/shim/session_dir.h"
#include "fs/area.h"
#include "fs/change.h"
#include "fs/config_dir.h"
#include "fs/context.h"
#include "fs/failover.h"
#include "fs/follow.h"
#include "fs/hub_store.h"
#include "fs/logs.h"
#include "fs/preflight.h"
#include "fs/session_folders.h"
#include "fs/projects.h"
#include "fs/retention.h"
#include "fs/settings.h"
#include "fs/supervise.h"
#include "fs/sweep.h"
#include "fs/transaction.h"
#include "fs/tree.h"
#include "fs/watch.h"
#include "fs/wire.h"

#define TICK_MS 1000
#define LAUNCHER_WAIT_MS 5000 /* the first hub of a mount */

/* Everything that lives as long as the process; hub_run() owns it. */
struct process {
	struct hub hub; /* first: what is called back with the process may take the hub */
	struct driver *drivers[3]; /* ends with NULL */
	struct driver_shims *shims;
	struct localprocess *localprocess;
	struct container *container;
	struct sweep *sweep;
	int sessions_fd, runtime_fd;
	struct session_folders folders;
	uv_async_t wake;
	uv_timer_t tick;
	uv_poll_t keeper;
};

void hub_log(const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	size_t len = (size_t)n < sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < 0x20)
			line[i] = '?';
	line[len++] = '\n';
	/* One write, so that lines of several processes do not mix. Nothing to do if it fails. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

void hub_event(struct hub *hub)
{
	area_header(hub->area)->events_ns = clock_now_ns();
	watch_modified(hub, root_node("events"));
}

static void events_told(void *user)
{
	hub_event(user);
}

void hub_exit(struct hub *hub, int status)
{
	hub->exiting = true;
	hub->exit_status = status;
	uv_stop(&hub->loop);
}

/* --- what the domain reports ---------------------------------------------------------------- */

/* A session's links in the directories of executors. */
static struct node link_node(uint32_t serial)
{
	return (struct node){.kind = NODE_EXECUTOR_SESSION, .serial = serial, .file = 1};
}

static struct node links_of(int64_t executor_serial)
{
	return (struct node){.kind = NODE_EXECUTOR_SESSIONS, .serial = (uint32_t)executor_serial};
}

static void session_changed(void *user, uint32_t serial)
{
	struct hub *hub = user;
	const struct session *s = dispatch_get(hub->dispatch, serial);

	logs_forget(hub, serial); /* a launch that is tried again makes another folder */
	watch_modified_all(hub, (struct node){.kind = NODE_SESSION, .serial = serial});
	if (s)
		failover_changed(hub, s);
	if (s && session_state_finished(s->state)) {
		if (s->executor_serial)
			watch_deleted(hub, links_of(s->executor_serial), s->name, link_node(serial));
		metrics_ended(hub, s->state);
	}
	follow_wake(hub, NODE_LIVE_SESSION, serial);
	preflight_session_changed(hub, serial);
}

static void session_created(void *user, uint32_t serial, const char *name)
{
	struct hub *hub = user;

	const struct session *s = dispatch_get(hub->dispatch, serial);

	area_header(hub->area)->sessions_ns = dispatch_changed_ns(hub->dispatch);
	watch_created(hub, (struct node){.kind = NODE_SESSIONS}, name,
		      (struct node){.kind = NODE_SESSION, .serial = serial});
	if (s)
		watch_created(hub, links_of(s->executor_serial), name, link_node(serial));
	if (s)
		projects_session_created(hub, s->project_serial, serial, name);
}

static void session_removed(void *user, uint32_t serial, const char *name, int64_t executor_serial,
			    int64_t project_serial)
{
	struct hub *hub = user;

	hub_event(hub);
	logs_forget(hub, serial);
	area_header(hub->area)->sessions_ns = dispatch_changed_ns(hub->dispatch);
	if (executor_serial)
		watch_deleted(hub, links_of(executor_serial), name, link_node(serial));
	projects_session_removed(hub, project_serial, serial, name);
	watch_deleted(hub, (struct node){.kind = NODE_SESSIONS}, name,
		      (struct node){.kind = NODE_SESSION, .serial = serial});
	follow_wake(hub, NODE_LIVE_SESSION, serial);
}

static void inflight_changed(void *user, int64_t executor_serial)
{
	struct hub *hub = user;
	const struct node dir = {.kind = NODE_EXECUTOR, .serial = (uint32_t)executor_serial};

	watch_modified_all(hub, dir);
	follow_wake(hub, NODE_LIVE_EXECUTOR, (uint32_t)executor_serial);
	config_dir_inflight(hub, executor_serial);
}

static void say(void *user, const char *line)
{
	(void)user;
	hub_log("%s", line);
}

static void mend(void *user, uint32_t serial, uint64_t log_quota_bytes)
{
	struct process *p = user;

	session_folders_mend(&p->folders, serial, log_quota_bytes);
}

static void forget(void *user, uint32_t serial)
{
	struct process *p = user;

	session_folders_forget(&p->folders, serial);
}

/* --- the keeper ----------------------------------------------------------------------------- */

static void tell_keeper(const struct hub_options *o, enum keeper_message_type type, const char *text)
{
	struct keeper_message m = {.type = type};

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	(void)send(o->keeper_fd, &m, sizeof(m), MSG_NOSIGNAL);
}

static void on_keeper(uv_poll_t *poll, int status, int events)
{
	struct hub *hub = poll->data;
	struct keeper_message m;
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};

	(void)status;
	(void)events;
	ssize_t n = recvmsg(hub->options->keeper_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hub_exit(hub, 1); /* the keeper is gone, and nobody would start the next hub */
		return;
	}
	const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n == (ssize_t)sizeof(m) && m.type == KEEPER_STOP) {
		follow_stop(hub);
		store_flush(hub->store);
		hub_exit(hub, HUB_EXIT_STOPPED);
	} else if (n == (ssize_t)sizeof(m) && m.type == KEEPER_NUDGER) {
		watch_set_nudger(hub, (pid_t)m.value, fd);
		fd = -1;
	}
	close_fd(fd);
}

/* --- timers and commits --------------------------------------------------------------------- */

static void wake_loop(void *user)
{
	struct process *p = user;

	(void)uv_async_send(&p->wake); /* the one call of libuv that other threads may make */
}

static void on_wake(uv_async_t *async)
{
	struct hub *hub = async->data;

	store_dispatch(hub->store);
}

static void on_tick(uv_timer_t *timer)
{
	struct process *p = timer->data;
	struct hub *hub = &p->hub;

	dispatch_tick(hub->dispatch);
	follow_tick(hub);
	sweep_tick(p->sweep);
	session_folders_tick(&p->folders);
	config_dir_tick(hub);
	retention_tick(hub);
}

/* --- start ---------------------------------------------------------------------------------- */

static int open_directory(const char *path, const char *name, int *ret, struct error *err)
{
	AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0 && name) {
		int parent = dir;

		if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
			return error_set(err, errno, "cannot make %s/%s: %s", path, name, strerror(errno));
		dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int saved = errno;
		(void)close(parent);
		errno = saved;
	}
	if (dir < 0)
		return error_set(err, errno, "cannot open %s%s%s: %s", path, name ? "/" : "", name ? name : "",
				 strerror(errno));
	*ret = take_fd(&dir);
	return 0;
}

static const struct dispatch_hooks hooks = {
	.changed = session_changed,
	.created = session_created,
	.removed = session_removed,
	.inflight = inflight_changed,
	.told = events_told,
	.log = say,
	.mend = mend,
	.forget = forget,
	.place = failover_place,
	.moved = failover_moved,
	.attempted = failover_attempted,
};

static int boot_text(char ret[static 2 * BOOT_ID_BYTES + 1], struct error *err)
{
	uint8_t id[BOOT_ID_BYTES];
	int r = boot_id_read(id);

	if (r < 0)
		return error_set(err, -r, "cannot read the boot id of this machine: %s", strerror(-r));
	for (size_t i = 0; i < BOOT_ID_BYTES; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", id[i]);
	return 0;
}

static int prepare_domain(struct process *p, struct error *err)
{
	struct hub *hub = &p->hub;
	char boot[2 * BOOT_ID_BYTES + 1];

	int r = boot_text(boot, err);
	if (r >= 0)
		r = open_directory(hub->options->state_dir, "sessions", &p->sessions_fd, err);
	if (r >= 0)
		r = open_directory(hub->options->runtime_dir, NULL, &p->runtime_fd, err);
	if (r < 0)
		return r;
	p->folders = (struct session_folders){.hub = hub, .sessions_fd = p->sessions_fd};
	hub->fleet = fleet_new(p->drivers);
	if (!hub->fleet)
		return error_oom(err);
	r = dispatch_new(hub->store, hub->fleet, boot, &hooks, p, &hub->dispatch, err);
	if (r < 0)
		return r;
	const struct driver_shims_options options = {
		.loop = &hub->loop,
		.sessions_fd = p->sessions_fd,
		.runtime_fd = p->runtime_fd,
		.epoch = area_header(hub->area)->hub_epoch,
		.forbidden_dev = area_header(hub->area)->mount_dev,
		.abilities = &area_header(hub->area)->launcher_abilities,
		.log = say,
		.events = &dispatch_events,
		.user = hub->dispatch,
	};
	r = driver_shims_new(&options, &p->shims, err);
	if (r >= 0)
		r = localprocess_new(p->shims, &p->localprocess, err);
	if (r >= 0)
		r = container_new(p->shims, hub->gid_admin, &p->container, err);
	if (r < 0)
		return r;
	p->drivers[0] = localprocess_driver(p->localprocess);
	p->drivers[1] = container_driver(p->container);
	settings_apply(hub);
	r = fleet_load(hub->fleet, store_reader(hub->store), err);
	hub->projects = projects_new();
	if (r >= 0)
		r = hub->projects ? projects_load(hub->projects, store_reader(hub->store), err) : error_oom(err);
	if (r >= 0)
		r = dispatch_load(hub->dispatch, area_header(hub->area)->sessions_ns, err);
	return r < 0 ? r : config_dir_new(hub, err);
}

static int prepare_tree(struct process *p, struct error *err)
{
	struct hub *hub = &p->hub;

	int r = prune_new(hub, &hub->prune, err);
	if (r >= 0)
		r = follow_new(hub, &hub->follow, err);
	if (r >= 0)
		r = logs_new(hub, p->sessions_fd, &hub->logs, err);
	if (r >= 0)
		r = watch_new(hub, &hub->watch, err);
	if (r >= 0)
		r = supervise_new(hub, &hub->supervise, err);
	if (r >= 0 && transaction_init(hub) < 0)
		r = error_oom(err);
	if (r >= 0)
		r = sweep_new(hub, p->sessions_fd, localprocess_driver(p->localprocess), &p->sweep, err);
	if (r < 0)
		return r;
	failover_attach(hub);
	r = wire_new(hub, &tree_ops, &hub->wire, err);
	/* What it forgets at once, all of the above has to hear of. */
	return r < 0 ? r : retention_new(hub, p->sessions_fd, &p->folders.n_removals, err);
}

static int prepare_loop(struct process *p, struct error *err)
{
	struct hub *hub = &p->hub;
	int r = uv_loop_init(&hub->loop);

	if (r == 0)
		r = uv_async_init(&hub->loop, &p->wake, on_wake);
	if (r == 0)
		r = uv_timer_init(&hub->loop, &p->tick);
	if (r == 0)
		r = uv_timer_start(&p->tick, on_tick, TICK_MS, TICK_MS);
	if (r == 0)
		r = uv_poll_init(&hub->loop, &p->keeper, hub->options->keeper_fd);
	p->wake.data = p->keeper.data = hub;
	p->tick.data = p;
	if (r == 0)
		r = uv_poll_start(&p->keeper, UV_READABLE | UV_DISCONNECT, on_keeper);
	return r < 0 ? error_set(err, -r, "cannot set up the event loop: %s", uv_strerror(r)) : 0;
}

/*
 * Until a launcher has said what it can do, `capabilities` would promise too little to whoever asks as
 * soon as the mount is there. A launcher that does not come up keeps nobody away from the tree.
 */
static void await_launcher(struct hub *hub)
{
	uint64_t until = uv_now(&hub->loop) + LAUNCHER_WAIT_MS;

	while (!area_header(hub->area)->launcher_abilities && uv_now(&hub->loop) < until && !hub->exiting)
		(void)uv_run(&hub->loop, UV_RUN_ONCE);
}

static int serve(struct process *p, struct error *err)
{
	struct hub *hub = &p->hub;

	int r = area_attach(hub->options->area_fd, &hub->area, err);
	if (r < 0)
		return r;
	struct area_header *h = area_header(hub->area);
	h->hub_epoch++;
	if (h->served_ns == 0) {
		int64_t now = clock_now_ns();

		h->events_ns = h->sessions_ns = h->executors_ns = now;
		h->served_ns = now;
	}
	hub->started_ns = h->served_ns;
	hub->nonce = (uint16_t)(h->hub_epoch * 4099); /* apart from the clones of earlier hubs */
	r = hub_store_begin(hub, wake_loop, p, err);
	if (r >= 0)
		r = settings_begin(hub, err);
	if (r >= 0)
		r = prepare_domain(p, err);
	if (r >= 0)
		r = prepare_tree(p, err);
	if (r >= 0)
		r = wire_replay_init(hub->wire, err);
	if (r < 0)
		return r;
	r = wire_replay_requests(hub->wire, err);
	if (r >= 0)
		r = wire_start(hub->wire, err);
	if (r < 0)
		return r;
	follow_wake_saved(hub);
	await_launcher(hub);
	if (hub->exiting)
		return hub->exit_status;
	supervise_start(hub);
	tell_keeper(hub->options, KEEPER_HUB_READY, "");
	(void)uv_run(&hub->loop, UV_RUN_DEFAULT);
	return hub->exit_status;
}

static void close_handle(uv_handle_t *handle, void *unused)
{
	(void)unused;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/*
 * An orderly end. The writer thread ends first, as it wakes the loop; then whatever the loop still
 * holds is closed while the structs that it lies in are there.
 */
static void tear_down(struct process *p)
{
	struct hub *hub = &p->hub;

	supervise_stop(hub);
	if (hub->wire)
		wire_stop(hub->wire);
	hub->store = store_free(hub->store);
	p->container = container_free(p->container);
	p->localprocess = localprocess_free(p->localprocess);
	p->shims = driver_shims_free(p->shims);
	uv_walk(&hub->loop, close_handle, NULL);
	(void)uv_run(&hub->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&hub->loop);

	hub->supervise = supervise_free(hub->supervise);
	p->sweep = sweep_free(p->sweep);
	hub->watch = watch_free(hub->watch);
	hub->logs = logs_free(hub->logs);
	hub->dispatch = dispatch_free(hub->dispatch);
	hub->fleet = fleet_free(hub->fleet);
	hub->projects = projects_free(hub->projects);
	hub->wire = wire_free(hub->wire);
	hub->follow = follow_free(hub->follow);
	hub->prune = prune_free(hub->prune);
	hub->config_dir = config_dir_free(hub->config_dir);
	hub->retention = retention_free(hub->retention);
	hub->settings = settings_free(hub->settings);
	free(hub->scanners);
	hub->area = area_free(hub->area);
	p->sessions_fd = close_fd(p->sessions_fd);
	p->runtime_fd = close_fd(p->runtime_fd);
}

int hub_run(const struct hub_options *options)
{
	struct process *p = calloc(1, sizeof(*p));
	struct error err;

	if (!p)
		return 1;
	p->sessions_fd = p->runtime_fd = -1;
	p->hub.options = options;
	p->hub.uid = geteuid();
	p->hub.gid = getegid();
	caller_find_groups(&p->hub);
	int r = caller_home_read(&p->hub.home);
	if (r < 0)
		hub_log("/proc cannot be read (%s): no caller can be told from another", strerror(-r));
	r = prepare_loop(p, &err);
	if (r < 0) {
		hub_log("%s", err.reason);
		free(p);
		return 1;
	}
	r = serve(p, &err);
	if (r < 0) {
		char sentence[KEEPER_TEXT_MAX];

		(void)error_sentence(&err, sentence, sizeof(sentence));
		hub_log("cannot serve: %s", sentence);
		tell_keeper(options, KEEPER_HUB_REFUSED, sentence);
		r = HUB_EXIT_REFUSED;
	}
	tear_down(p);
	free(p);
	return r;
}

int hub_check_init(const struct hub_options *options)
{
	struct area_header h;
	struct error err;

	/* A hub is at work in the area: this only reads the header. */
	if (pread(options->area_fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h)) {
		hub_log("cannot read the shared area");
		return 1;
	}
	if (h.layout != AREA_LAYOUT) {
		hub_log("the running mount has shared area layout %u, this binary %u", h.layout, AREA_LAYOUT);
		return 1;
	}
	if (h.init_len > 0 && wire_check_init(&h, &tree_ops, &err) < 0) {
		hub_log("%s", err.reason);
		return 1;
	}
	return 0;
}
