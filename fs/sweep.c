#include "fs/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

#include "core/clock.h"
#include "core/executor.h"
#include "core/executor_config.h"
#include "core/orphan.h"
#include "core/session.h"
#include "core/store/store.h"
#include "drivers/shim/client.h"
#include "drivers/shim/orphans.h"
#include "fs/context.h"

struct sweep {
	struct hub *hub;
	int sessions_fd;
	struct driver *driver;
	unsigned shard;
	bool busy;
	int64_t next_ns; /* on the boot clock */
	int64_t grace_ns;
	bool restless; /* a test does not wait for the next sweep */
};

/* One shard on its way through the pool, and back. */
struct pass {
	uv_work_t work;
	struct sweep *sweep;
	unsigned shard;
	uint64_t *serials; /* at first all, then those without a row */
	size_t n;
	struct shim_folder *folders;
	enum orphan_verdict *verdicts;
	int *results;
	int result;
};

static void begin_shard(struct sweep *s);

static void pass_free(struct pass *p)
{
	free(p->serials);
	free(p->folders);
	free(p->verdicts);
	free(p->results);
	free(p);
}

static void end_pass(struct pass *p)
{
	struct sweep *s = p->sweep;

	pass_free(p);
	s->busy = false;
	if (!s->hub->store)
		return; /* the hub is ending */
	if (++s->shard < SESSION_SHARDS) {
		begin_shard(s);
		return;
	}
	s->shard = 0;
	s->next_ns = clock_boot_ns() + (s->restless ? 0 : SWEEP_REST_S * CLOCK_NS_PER_S);
}

static void judge(uv_work_t *work)
{
	struct pass *p = work->data;
	struct sweep *s = p->sweep;
	int64_t now_ns = clock_now_ns();

	for (size_t i = 0; i < p->n; i++) {
		struct shim_folder *f = &p->folders[i];

		p->verdicts[i] = ORPHAN_LEAVE;
		p->results[i] = shim_folder_look(s->sessions_fd, p->serials[i], f);
		if (p->results[i] < 0)
			continue;
		const struct orphan o = {
			.held = f->held, .dated = f->claimed_at_ns > 0, .since_ns = f->claimed_at_ns};
		p->verdicts[i] = orphan_judge(&o, now_ns, s->grace_ns);
		if (p->verdicts[i] == ORPHAN_REMOVE)
			p->results[i] = shim_session_remove(s->sessions_fd, p->serials[i]);
	}
}

static void killed(void *user, int result, const struct error *err)
{
	(void)user; /* a later sweep sees whether it has ended */
	(void)result;
	(void)err;
}

static void kill_orphan(struct sweep *s, uint64_t serial, uint32_t attempt)
{
	const struct executor_config config = {.kind = NULL};
	struct signal_key key;
	bool found = false;

	while (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
		;
	if (!s->driver->ready ||
	    s->driver->ops->adopt(s->driver, (uint32_t)serial, attempt, &config, &found, NULL) < 0 || !found)
		return;
	if (s->driver->ops->signal(s->driver, (uint32_t)serial, attempt, &key, SIGNAL_KILL, killed, NULL,
				   NULL) == 0)
		hub_log("session folder %llu has no row: what ran there is being ended",
			(unsigned long long)serial);
}

static void judged(uv_work_t *work, int status)
{
	struct pass *p = work->data;

	for (size_t i = 0; status == 0 && i < p->n; i++) {
		if (p->verdicts[i] == ORPHAN_KILL && p->sweep->hub->store)
			kill_orphan(p->sweep, p->serials[i], p->folders[i].attempt);
		else if (p->verdicts[i] == ORPHAN_REMOVE)
			hub_log("session folder %llu has no row: %s", (unsigned long long)p->serials[i],
				p->results[i] < 0 ? strerror(-p->results[i]) : "removed");
	}
	end_pass(p);
}

/* Keeps those that no row is known of. A row that cannot be read is one that may be there. */
static void leave_orphans(struct pass *p)
{
	struct store_tx *tx = store_reader(p->sweep->hub->store);
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		bool known = true;

		if (p->serials[i] <= UINT32_MAX &&
		    session_known(tx, (int64_t)p->serials[i], &known, NULL) == 0 && !known)
			p->serials[n++] = p->serials[i];
	}
	p->n = n;
}

static void listed(uv_work_t *work, int status)
{
	struct pass *p = work->data;

	if (status < 0 || p->result < 0 || !p->sweep->hub->store) {
		end_pass(p);
		return;
	}
	leave_orphans(p);
	if (p->n > 0) {
		p->folders = calloc(p->n, sizeof(*p->folders));
		p->verdicts = calloc(p->n, sizeof(*p->verdicts));
		p->results = calloc(p->n, sizeof(*p->results));
	}
	if (p->n == 0 || !p->folders || !p->verdicts || !p->results ||
	    uv_queue_work(&p->sweep->hub->loop, &p->work, judge, judged) < 0)
		end_pass(p);
}

static void list(uv_work_t *work)
{
	struct pass *p = work->data;

	p->result = shim_shard_list(p->sweep->sessions_fd, p->shard, &p->serials, &p->n);
}

static void begin_shard(struct sweep *s)
{
	struct pass *p = calloc(1, sizeof(*p));

	if (!p)
		return; /* at the next tick */
	p->sweep = s;
	p->shard = s->shard;
	p->work.data = p;
	s->busy = uv_queue_work(&s->hub->loop, &p->work, list, listed) == 0;
	if (!s->busy)
		pass_free(p);
}

void sweep_tick(struct sweep *s)
{
	if (!s->busy && clock_boot_ns() >= s->next_ns)
		begin_shard(s);
}

int sweep_new(struct hub *hub, int sessions_fd, struct driver *driver, struct sweep **ret,
	      struct error *err)
{
	struct sweep *s = calloc(1, sizeof(*s));

	if (!s)
		return error_oom(err);
	s->hub = hub;
	s->sessions_fd = sessions_fd;
	s->driver = driver;
	s->grace_ns = ORPHAN_GRACE_NS;
#ifdef CLOOP_TEST_HOOKS
	const char *grace_ms = getenv("CLOOP_ORPHAN_GRACE_MS");

	if (grace_ms) {
		s->grace_ns = strtoll(grace_ms, NULL, 10) * CLOCK_NS_PER_MS;
		s->restless = true;
	}
#endif
	*ret = s;
	return 0;
}

struct sweep *sweep_free(struct sweep *s)
{
	free(s);
	return NULL;
}
