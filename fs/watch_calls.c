#include <stddef.h>

#include "fs/watch_table_internal.h"

/*
 * Files looked at in one turn: what shows the same as last time costs no call, but a rendering, and
 * the loop has other things to do.
 */
#define PRINTS_A_TURN 128

/* --- lists ---------------------------------------------------------------------------------- */

static void insert_before(struct watch_list *list, struct watch_object *o, struct watch_object *at)
{
	o->next = at;
	o->prev = at ? at->prev : list->last;
	*(o->prev ? &o->prev->next : &list->first) = o;
	*(at ? &at->prev : &list->last) = o;
}

static void take_out(struct watch_list *list, struct watch_object *o)
{
	*(o->prev ? &o->prev->next : &list->first) = o->next;
	*(o->next ? &o->next->prev : &list->last) = o->prev;
	o->next = o->prev = NULL;
}

void watch_object_unlist(struct watch_table *t, struct watch_object *o)
{
	if (o->place == PLACE_QUEUE)
		take_out(&t->queue, o);
	else if (o->place == PLACE_RESTING)
		take_out(&t->resting, o);
	o->place = PLACE_NONE;
}

/* In the order of their time; all rest equally long, so the place is near the end. */
static void rest(struct watch_table *t, struct watch_object *o)
{
	struct watch_object *at = NULL, *before = t->resting.last;

	while (before && before->rest_until_ms > o->rest_until_ms) {
		at = before;
		before = before->prev;
	}
	insert_before(&t->resting, o, at);
	o->place = PLACE_RESTING;
}

void watch_object_settle(struct watch_table *t, struct watch_object *o, int64_t now_ms)
{
	bool rows = o->burst || (o->dirty & watch_object_covered(t, o));

	if (o->place == PLACE_CALLED || o->place == PLACE_QUEUE || o->place == PLACE_PARKED)
		return;
	watch_object_unlist(t, o);
	if (!watch_names_ready(o) && !rows)
		return;
	if (!watch_names_ready(o) && !o->burst && now_ms < o->rest_until_ms) {
		rest(t, o);
		return;
	}
	insert_before(&t->queue, o, NULL);
	o->place = PLACE_QUEUE;
}

static void wake_rested(struct watch_table *t, int64_t now_ms)
{
	struct watch_object *o;

	while ((o = t->resting.first) && o->rest_until_ms <= now_ms)
		watch_object_settle(t, o, now_ms);
}

/* --- limits --------------------------------------------------------------------------------- */

static void fill(struct watch_table *t, int64_t now_ms)
{
	int64_t full = WATCH_BURST * INT64_C(1000), passed = now_ms - t->filled_ms;

	t->filled_ms = now_ms;
	/* Full after so long whatever it was; and nothing overflows. */
	t->tokens = passed > 1000 ? full : t->tokens + passed * WATCH_RATE;
	if (t->tokens > full)
		t->tokens = full;
}

static struct watch_slot *free_slot(struct watch_table *t)
{
	for (size_t i = 0; i < NUDGE_WORKERS; i++)
		if (t->slots[i].call.number == 0)
			return &t->slots[i];
	return NULL;
}

struct watch_slot *watch_slot_of_name(struct watch_table *t, const struct watch_name *n)
{
	for (size_t i = 0; i < NUDGE_WORKERS; i++)
		if (t->slots[i].call.number != 0 && t->slots[i].name == n)
			return &t->slots[i];
	return NULL;
}

/* --- choosing ------------------------------------------------------------------------------- */

/*
 * Whether a row shows something else than when it was announced last. One that shows nothing is not
 * taken for changed when it is not known what it showed before.
 */
static bool has_changed(struct watch_table *t, struct watch_object *o, unsigned row)
{
	struct node file = o->dir;
	uint64_t print, bit = ROW_BIT(row);
	bool known = o->known & bit;

	file.file = (uint8_t)row;
	o->known &= ~bit;
	if (t->hooks->print(t->user, file, &print) < 0)
		return false;
	bool same = known ? o->prints[row] == print : print == 0;
	watch_object_remember(o, row, print);
	return !same;
}

/* The next row of an object that is to be announced; 0 when its burst is over. */
static unsigned next_row(struct watch_table *t, struct watch_object *o, int *budget)
{
	if (!o->burst) {
		o->burst = o->dirty & watch_object_covered(t, o);
		o->dirty &= ~o->burst;
	}
	while (o->burst && *budget > 0) {
		unsigned row = (unsigned)__builtin_ctzll(o->burst);

		o->burst &= ~ROW_BIT(row);
		--*budget;
		if (has_changed(t, o, row))
			return row;
	}
	return 0;
}

static enum nudge_type type_of(const struct watch_name *n)
{
	struct node node = n->node;

	if (n->row)
		node = node_row(node, n->row);
	mode_t type = node_type(node);
	if (n->fate == NAME_LOOK)
		return NUDGE_LOOK;
	if (n->fate == NAME_CAME)
		return type == S_IFDIR ? NUDGE_MKDIR : NUDGE_SYMLINK;
	return type == S_IFDIR ? NUDGE_RMDIR : NUDGE_UNLINK;
}

static struct watch_call *call(struct watch_table *t, struct watch_slot *slot,
			       struct watch_object *o, struct watch_name *n, unsigned row)
{
	slot->object = o;
	slot->name = n;
	slot->call = (struct watch_call){.number = t->next_number++, .dir = o->dir};
	if (n) {
		slot->call.type = type_of(n);
		slot->call.node = n->node;
		slot->call.name = n->name;
		slot->call.row = n->row;
	} else {
		slot->call.type = NUDGE_MODIFY;
		slot->call.node = o->dir;
		slot->call.node.file = (uint8_t)row;
		o->burst_called = true;
		o->was_called = true;
	}
	o->place = PLACE_CALLED;
	t->tokens -= 1000;
	t->n_calls++;
	return &slot->call;
}

/* The burst is over: the next one waits. */
static void end_burst(struct watch_object *o, int64_t now_ms)
{
	if (o->burst || !o->burst_called)
		return;
	o->burst_called = false;
	o->rest_until_ms = now_ms + WATCH_FILE_MS;
}

struct watch_call *watch_table_next(struct watch_table *t, int64_t now_ms, int64_t *ret_due_ms)
{
	int budget = PRINTS_A_TURN;
	struct watch_slot *slot = free_slot(t);
	struct watch_object *o;

	fill(t, now_ms);
	wake_rested(t, now_ms);
	while (slot && (o = t->queue.first)) {
		if (t->tokens < 1000) {
			*ret_due_ms = now_ms + (1000 - t->tokens) / WATCH_RATE + 1;
			return NULL;
		}
		if (budget == 0) {
			*ret_due_ms = now_ms;
			return NULL;
		}
		watch_object_unlist(t, o);
		if (watch_names_ready(o))
			return call(t, slot, o, o->first, 0);
		if (watch_names_coming(t, o->dir)) {
			o->place = PLACE_PARKED;
			continue;
		}
		/* It may have been queued for a name that was taken back. */
		bool rests = !o->burst && now_ms < o->rest_until_ms;
		unsigned row = rests ? 0 : next_row(t, o, &budget);
		if (row)
			return call(t, slot, o, NULL, row);
		end_burst(o, now_ms);
		watch_object_settle(t, o, now_ms);
		watch_object_let_go(t, o);
	}
	*ret_due_ms = t->resting.first ? t->resting.first->rest_until_ms : WATCH_NEVER;
	return NULL;
}

/* --- ends ----------------------------------------------------------------------------------- */

static void end(struct watch_table *t, struct watch_slot *slot, int64_t now_ms)
{
	struct watch_object *o = slot->object;
	struct watch_name *n = slot->name;

	*slot = (struct watch_slot){0};
	o->place = PLACE_NONE;
	if (n)
		watch_name_end(t, n);
	end_burst(o, now_ms);
	watch_object_settle(t, o, now_ms);
	watch_object_let_go(t, o);
}

enum nudge_type watch_table_done(struct watch_table *t, uint64_t number, int64_t now_ms)
{
	for (size_t i = 0; number != 0 && i < NUDGE_WORKERS; i++)
		if (t->slots[i].call.number == number) {
			enum nudge_type type = t->slots[i].call.type;

			end(t, &t->slots[i], now_ms);
			return type;
		}
	return NUDGE_NONE;
}

void watch_table_retry(struct watch_table *t, int64_t now_ms)
{
	/* A scan that the dead one was asked for is not reported by the next. */
	t->wants_scan = t->wants_scan || t->doubted;
	for (size_t i = 0; i < NUDGE_WORKERS; i++) {
		struct watch_slot *slot = &t->slots[i];
		struct watch_object *o = slot->object;

		if (slot->call.number == 0)
			continue;
		if (slot->call.answered || slot->call.cancelled) {
			end(t, slot, now_ms);
			continue;
		}
		if (slot->call.type == NUDGE_MODIFY && !o->gone) {
			o->burst |= ROW_BIT(slot->call.node.file);
			o->known &= ~ROW_BIT(slot->call.node.file);
		}
		*slot = (struct watch_slot){0};
		o->place = PLACE_NONE;
		watch_object_settle(t, o, now_ms);
		watch_object_let_go(t, o);
	}
}

struct watch_call *watch_table_under_way(struct watch_table *t, size_t i)
{
	return t->slots[i].call.number != 0 ? &t->slots[i].call : NULL;
}

uint64_t watch_table_count_calls(const struct watch_table *t)
{
	return t->n_calls;
}
