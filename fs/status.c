/*
 * /status: the fleet at a glance, for a person. Two tables whose columns are as wide as what is in them,
 * and no longer than somebody reads: of many executors those that are not ready are shown first.
 */
#include "fs/status.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/dispatch.h"
#include "core/fleet.h"
#include "core/health.h"
#include "core/text.h"
#include "fs/area.h"
#include "fs/context.h"
#include "fs/retention.h"
#include "fs/settings.h"
#include "fs/watch.h"

/* Rows that either table shows, as a person reads no more; the counts above them are of all. */
#define ROWS_MAX 200

/* A reason is shown in one line of a terminal; `health` has all of it. */
#define REASON_BYTES_MAX 80

/* "12345d" */
#define AGE_MAX 24

/* How long ago, in one unit: seconds up to two minutes, and so on. "-" for never. */
static void age_text(int64_t since_ns, int64_t now_ns, char ret[static AGE_MAX])
{
	static const struct {
		int64_t seconds;
		char unit;
	} units[] = {{24 * 3600, 'd'}, {3600, 'h'}, {60, 'm'}};
	int64_t s = now_ns > since_ns ? (now_ns - since_ns) / CLOCK_NS_PER_S : 0;

	if (since_ns == 0) {
		(void)snprintf(ret, AGE_MAX, "-");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (s >= 2 * units[i].seconds) {
			(void)snprintf(ret, AGE_MAX, "%lld%c", (long long)(s / units[i].seconds), units[i].unit);
			return;
		}
	(void)snprintf(ret, AGE_MAX, "%llds", (long long)s);
}

static int wider(int width, const char *text)
{
	size_t n = strlen(text);

	return n > (size_t)width ? (int)n : width;
}

/* --- executors ------------------------------------------------------------------------------ */

/* "2/3", "2/-" without a ceiling: numbers of 20 digits fit. */
#define LOAD_MAX 48

static void load_text(const struct executor *e, char ret[static LOAD_MAX])
{
	if (e->config.max_concurrent > 0)
		(void)snprintf(ret, LOAD_MAX, "%llu/%lld", (unsigned long long)e->inflight,
			       (long long)e->config.max_concurrent);
	else
		(void)snprintf(ret, LOAD_MAX, "%llu/-", (unsigned long long)e->inflight);
}

static const char *kind_of(const struct executor *e)
{
	return e->record.kind[0] ? e->record.kind : "-";
}

struct widths {
	int id, kind, load;
};

static void put_executor(struct buf *out, const struct executor *e, const struct widths *w,
			 int64_t now_ns)
{
	char load[LOAD_MAX], seen[AGE_MAX], reason[REASON_BYTES_MAX + 1];
	const char *why = e->record.health.reason;

	load_text(e, load);
	age_text(e->record.health.last_seen_ns, now_ns, seen);
	if (snprintf(reason, sizeof(reason), "%s", why) >= (int)sizeof(reason))
		text_ellipsis(reason, sizeof(reason));
	text_one_line(reason);
	buf_printf(out, "%-*s  %-*s  %-12s  %*s  %9s%s%s\n", w->id, e->record.name, w->kind, kind_of(e),
		   executor_state(e), w->load, load, seen, reason[0] ? "  " : "", reason);
}

/* "3 executors: 2 ready, 1 draining" */
static void put_summary(struct buf *out, struct fleet *fleet)
{
	size_t counts[NODE_DRAINING + 1] = {0}, unconfigured = 0, n = fleet_len(fleet);
	const char *before = ": ";

	for (size_t i = 0; i < n; i++) {
		const struct executor *e = fleet_at(fleet, i);

		if (e->record.config[0])
			counts[node_state_parse(e->record.health.state)]++;
		else
			unconfigured++;
	}
	buf_printf(out, "%zu executor%s", n, n == 1 ? "" : "s");
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		if (counts[i] > 0) {
			buf_printf(out, "%s%zu %s", before, counts[i], node_state_name((enum node_state)i));
			before = ", ";
		}
	if (unconfigured > 0)
		buf_printf(out, "%s%zu %s", before, unconfigured, STATE_UNCONFIGURED);
	buf_puts(out, "\n");
}

/* Those that the table has room for. One that is not ready is what a person looks for. */
struct choice {
	size_t ready, others;
};

static bool is_ready(const struct executor *e)
{
	return e->record.config[0] && node_state_parse(e->record.health.state) == NODE_READY;
}

static struct choice choose(struct fleet *fleet)
{
	struct choice room = {0};

	for (size_t i = 0; i < fleet_len(fleet); i++)
		if (!is_ready(fleet_at(fleet, i)) && room.others < ROWS_MAX)
			room.others++;
	room.ready = ROWS_MAX - room.others;
	return room;
}

static bool take_row(struct choice *room, const struct executor *e)
{
	size_t *left = is_ready(e) ? &room->ready : &room->others;

	return *left > 0 && (*left)--;
}

static void put_executors(struct buf *out, struct fleet *fleet, int64_t now_ns)
{
	struct widths w = {.id = (int)strlen("EXECUTOR"), .kind = (int)strlen("KIND"),
			   .load = (int)strlen("INFLIGHT/MAX")};
	const struct choice all = choose(fleet);
	struct choice room = all;
	char load[LOAD_MAX];
	size_t n = 0;

	for (size_t i = 0; i < fleet_len(fleet); i++) {
		const struct executor *e = fleet_at(fleet, i);

		if (!take_row(&room, e))
			continue;
		n++;
		load_text(e, load);
		w.id = wider(w.id, e->record.name);
		w.kind = wider(w.kind, kind_of(e));
		w.load = wider(w.load, load);
	}
	buf_printf(out, "%-*s  %-*s  %-12s  %*s  %9s  %s\n", w.id, "EXECUTOR", w.kind, "KIND", "STATE",
		   w.load, "INFLIGHT/MAX", "LAST SEEN", "REASON");
	room = all;
	for (size_t i = 0; i < fleet_len(fleet); i++)
		if (take_row(&room, fleet_at(fleet, i)))
			put_executor(out, fleet_at(fleet, i), &w, now_ns);
	if (n < fleet_len(fleet))
		buf_printf(out, "… and %zu more%s\n", fleet_len(fleet) - n,
			   all.ready > 0 ? ", all of them ready" : "");
}

/* --- sessions ------------------------------------------------------------------------------- */

struct sessions {
	struct buf *out; /* NULL: only measured */
	int64_t now_ns;
	int id, executor;
	unsigned n;
};

static bool one_session(void *user, const struct session *s)
{
	struct sessions *all = user;
	char age[AGE_MAX];

	if (all->n++ == ROWS_MAX)
		return false;
	if (!all->out) {
		all->id = wider(all->id, s->name);
		all->executor = wider(all->executor, s->executor);
		return true;
	}
	age_text(s->started_at_ns ? s->started_at_ns : s->created_at_ns, all->now_ns, age);
	buf_printf(all->out, "%-*s  %-*s  %-8s  %8u  %8lld  %5s\n", all->id, s->name, all->executor,
		   s->executor[0] ? s->executor : "-", session_state_name(s->state), s->uid,
		   (long long)s->pid, age);
	return true;
}

static void put_sessions(struct buf *out, struct dispatch *dispatch, int64_t now_ns)
{
	struct sessions all = {.now_ns = now_ns, .id = (int)strlen("SESSION"),
			       .executor = (int)strlen("EXECUTOR")};

	dispatch_each_live(dispatch, 0, one_session, &all);
	buf_printf(out, "%-*s  %-*s  %-8s  %8s  %8s  %5s\n", all.id, "SESSION", all.executor, "EXECUTOR",
		   "STATE", "UID", "PID", "AGE");
	all.out = out;
	all.n = 0;
	dispatch_each_live(dispatch, 0, one_session, &all);
	if (all.n > ROWS_MAX)
		buf_puts(out, "…\n");
}

/* --- all of it ------------------------------------------------------------------------------ */

int status_render(const struct view *v, struct buf *out)
{
	struct hub *hub = v->hub;
	int64_t now_ns = clock_now_ns();
	char since[CLOCK_RFC3339_MAX];

	clock_format(hub->started_ns, since);
	buf_printf(out, "cloop %s, serving since %s\n", CLOOP_VERSION, since);
	if (hub->groups_missing)
		buf_puts(out, "warning: the groups cloop and cloop-admin do not both exist; root alone "
			      "starts and administers (groupadd cloop; groupadd cloop-admin)\n");
	settings_status(hub, out);
	retention_status(hub, out);
	put_summary(out, hub->fleet);
	buf_printf(out, "%zu sessions in flight\n", dispatch_count_live(hub->dispatch));
	watch_status(hub, out);
	buf_puts(out, "\n");
	put_executors(out, hub->fleet, now_ns);
	buf_puts(out, "\n");
	put_sessions(out, hub->dispatch, now_ns);
	return out->failed;
}

/* Its ages move on all the time; that alone is no change (tar would complain about it). */
int64_t status_changed(const struct view *v)
{
	return area_header(v->hub->area)->events_ns;
}
