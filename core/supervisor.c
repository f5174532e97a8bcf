#include "core/supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/sorted.h"

/* Before everybody who is due. */
#define DUE_NOW INT64_MIN

struct node {
	int64_t serial;
	int64_t due_ns;
	int64_t failures;
	size_t place; /* in the queue; QUEUED_NOT while it is probed */
	bool again;   /* somebody asked while it is probed */
};

#define QUEUED_NOT SIZE_MAX

struct supervisor {
	struct supervisor_config config;
	double (*random)(void *user);
	void *user;
	struct node **nodes; /* by serial */
	struct node **queue; /* a heap: the one that is due first is at 0 */
	size_t n_nodes, cap, n_queue;
	int64_t *running; /* serials; also of nodes that are not watched any more */
	size_t n_running, cap_running;
};

struct supervisor *supervisor_new(const struct supervisor_config *config,
				  double (*random)(void *user), void *user)
{
	struct supervisor *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->config = supervisor_config_normalize(*config);
	s->random = random;
	s->user = user;
	return s;
}

struct supervisor *supervisor_free(struct supervisor *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_nodes; i++)
		free(s->nodes[i]);
	free(s->nodes);
	free(s->queue);
	free(s->running);
	free(s);
	return NULL;
}

const struct supervisor_config *supervisor_config(const struct supervisor *s)
{
	return &s->config;
}

size_t supervisor_count(const struct supervisor *s)
{
	return s->n_nodes;
}

/* --- who is where --------------------------------------------------------------------------- */

static int compare_serial(const void *item, const void *serial)
{
	const struct node *const *n = item;

	return (*n)->serial < *(const int64_t *)serial ? -1 : 0;
}

static size_t place_of(const struct supervisor *s, int64_t serial)
{
	return sorted_place(s->nodes, s->n_nodes, sizeof(struct node *), &serial, compare_serial);
}

static struct node *find(const struct supervisor *s, int64_t serial)
{
	size_t at = place_of(s, serial);

	return at < s->n_nodes && s->nodes[at]->serial == serial ? s->nodes[at] : NULL;
}

bool supervisor_watches(const struct supervisor *s, int64_t serial)
{
	return find(s, serial) != NULL;
}

static size_t running_at(const struct supervisor *s, int64_t serial)
{
	size_t i = 0;

	while (i < s->n_running && s->running[i] != serial)
		i++;
	return i;
}

/* --- the queue ------------------------------------------------------------------------------ */

static bool before(const struct node *a, const struct node *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->serial < b->serial;
}

static void put(struct supervisor *s, size_t at, struct node *n)
{
	s->queue[at] = n;
	n->place = at;
}

/* Moves a node to where its time belongs. */
static void settle(struct supervisor *s, size_t at)
{
	struct node *n = s->queue[at];

	while (at > 0 && before(n, s->queue[(at - 1) / 2])) {
		put(s, at, s->queue[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < s->n_queue && before(s->queue[child + 1], s->queue[child]))
			child++;
		if (child >= s->n_queue || !before(s->queue[child], n))
			break;
		put(s, at, s->queue[child]);
		at = child;
	}
	put(s, at, n);
}

static void enqueue(struct supervisor *s, struct node *n)
{
	put(s, s->n_queue++, n);
	settle(s, n->place);
}

static void dequeue(struct supervisor *s, struct node *n)
{
	size_t at = n->place;

	if (at == QUEUED_NOT)
		return;
	n->place = QUEUED_NOT;
	s->n_queue--;
	if (at < s->n_queue) {
		put(s, at, s->queue[s->n_queue]);
		settle(s, at);
	}
}

/* --- times ---------------------------------------------------------------------------------- */

static int64_t delay_ns(const struct supervisor *s, int64_t failures)
{
	int64_t delay = failures > 0 ? supervisor_backoff_ns(&s->config, failures)
				     : s->config.interval_ns;

	return supervisor_jitter_ns(delay, s->config.jitter_fraction, s->random(s->user));
}

static int64_t later(int64_t now_ns, int64_t delay)
{
	int64_t at;

	return __builtin_add_overflow(now_ns, delay, &at) ? INT64_MAX : at;
}

void supervisor_configure(struct supervisor *s, const struct supervisor_config *config,
			  int64_t now_ns)
{
	s->config = supervisor_config_normalize(*config);
	for (size_t i = 0; i < s->n_nodes; i++) {
		struct node *n = s->nodes[i];
		int64_t due = later(now_ns, delay_ns(s, n->failures));

		if (n->place == QUEUED_NOT || n->due_ns <= due)
			continue;
		n->due_ns = due;
		settle(s, n->place);
	}
}

/* Room for one node more, also for its probe. */
static int make_room(struct supervisor *s)
{
	if (s->n_nodes < s->cap)
		return 0;
	size_t cap = s->cap ? s->cap * 2 : 16;
	struct node **nodes = reallocarray(s->nodes, cap, sizeof(struct node *));
	if (!nodes)
		return -ENOMEM;
	s->nodes = nodes;
	struct node **queue = reallocarray(s->queue, cap, sizeof(struct node *));
	if (!queue)
		return -ENOMEM;
	s->queue = queue;
	s->cap = cap;
	return 0;
}

int supervisor_watch(struct supervisor *s, int64_t serial, int64_t failures, int64_t ago_ns,
		     int64_t now_ns)
{
	size_t at = place_of(s, serial);

	if (at < s->n_nodes && s->nodes[at]->serial == serial)
		return 0;
	if (make_room(s) < 0)
		return -ENOMEM;
	struct node *n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	*n = (struct node){.serial = serial, .failures = failures, .place = QUEUED_NOT};
	int64_t delay = ago_ns < 0 ? 0 : delay_ns(s, failures) - ago_ns;
	n->due_ns = later(now_ns, delay > 0 ? delay : 0);
	sorted_open_gap(s->nodes, s->n_nodes, sizeof(struct node *), at);
	s->nodes[at] = n;
	s->n_nodes++;
	/* One that is made again while an old probe of it runs is probed when that has ended. */
	if (running_at(s, serial) == s->n_running)
		enqueue(s, n);
	return 0;
}

void supervisor_forget(struct supervisor *s, int64_t serial)
{
	size_t at = place_of(s, serial);

	if (at == s->n_nodes || s->nodes[at]->serial != serial)
		return;
	dequeue(s, s->nodes[at]);
	free(s->nodes[at]);
	sorted_close_gap(s->nodes, s->n_nodes, sizeof(struct node *), at);
	s->n_nodes--;
}

bool supervisor_hurry(struct supervisor *s, int64_t serial)
{
	struct node *n = find(s, serial);

	if (!n)
		return false;
	n->again = n->place == QUEUED_NOT;
	if (!n->again) {
		n->due_ns = DUE_NOW;
		settle(s, n->place);
	}
	return true;
}

static bool is_full(const struct supervisor *s)
{
	return s->n_running >= (size_t)s->config.max_concurrent_probes;
}

bool supervisor_next(struct supervisor *s, int64_t now_ns, int64_t *ret_serial)
{
	if (is_full(s) || s->n_queue == 0 || s->queue[0]->due_ns > now_ns)
		return false;
	if (s->n_running == s->cap_running) {
		size_t cap = s->cap_running ? s->cap_running * 2 : 16;
		int64_t *running = reallocarray(s->running, cap, sizeof(*running));

		if (!running)
			return false;
		s->running = running;
		s->cap_running = cap;
	}
	struct node *n = s->queue[0];
	dequeue(s, n);
	s->running[s->n_running++] = n->serial;
	*ret_serial = n->serial;
	return true;
}

void supervisor_done(struct supervisor *s, int64_t serial, int64_t failures, int64_t now_ns)
{
	struct node *n = find(s, serial);
	size_t at = running_at(s, serial);

	if (at == s->n_running)
		return;
	s->running[at] = s->running[--s->n_running];
	if (!n)
		return;
	n->failures = failures;
	n->due_ns = n->again ? DUE_NOW : later(now_ns, delay_ns(s, failures));
	n->again = false;
	enqueue(s, n);
}

int64_t supervisor_wait_ns(const struct supervisor *s, int64_t now_ns)
{
	if (is_full(s) || s->n_queue == 0)
		return -1;
	int64_t due = s->queue[0]->due_ns;
	return due <= now_ns ? 0 : due - now_ns;
}
