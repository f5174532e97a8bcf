#include <stdlib.h>
#include <string.h>

#include "fs/watch_table_internal.h"

/* --- by what they stand for ----------------------------------------------------------------- */

static struct watch_name **bucket_of(const struct watch_table *t, struct node node)
{
	return &t->names[watch_hash(node_id(node)) & (t->n_name_buckets - 1)];
}

static void grow(struct watch_table *t)
{
	size_t n = t->n_name_buckets * 2, n_old = t->n_name_buckets;
	struct watch_name **bigger = calloc(n, sizeof(struct watch_name *)), **old = t->names;

	if (!bigger)
		return; /* longer chains do as well */
	t->names = bigger;
	t->n_name_buckets = n;
	for (size_t i = 0; i < n_old; i++)
		for (struct watch_name *e = old[i], *next; e; e = next) {
			struct watch_name **bucket = bucket_of(t, e->node);

			next = e->next_in_bucket;
			e->next_in_bucket = *bucket;
			*bucket = e;
		}
	free(old);
}

/* The name that came and was not announced yet; dir NULL: in any directory. */
static struct watch_name *find_coming(const struct watch_table *t, const struct node *dir,
				      struct node node)
{
	uint64_t id = node_id(node);

	for (struct watch_name *e = *bucket_of(t, node); e; e = e->next_in_bucket)
		if (e->fate == NAME_CAME && node_id(e->node) == id &&
		    (!dir || node_id(e->object->dir) == node_id(*dir)))
			return e;
	return NULL;
}

bool watch_names_coming(const struct watch_table *t, struct node node)
{
	return find_coming(t, NULL, node) != NULL;
}

/* --- in their directory --------------------------------------------------------------------- */

bool watch_names_ready(const struct watch_object *o)
{
	return o->first && o->first->scan == 0;
}

static bool is_session(const struct watch_name *e)
{
	return e->fate == NAME_CAME && e->object->dir.kind == NODE_SESSIONS;
}

/* Appends a name. scan 0: it is certain that somebody watches. */
static void append(struct watch_table *t, struct watch_object *o, const char *name,
		   struct node node, uint8_t row, enum watch_fate fate, uint64_t scan)
{
	size_t len = strlen(name) + 1;

	if (t->n_names == WATCH_NAMES_MAX)
		return;
	if (scan && (t->names_in_doubt == WATCH_NAMES_DOUBT_MAX || !watch_object_doubt(t, o)))
		return;
	struct watch_name *e = malloc(sizeof(*e) + len);
	if (!e)
		return;
	if (t->n_names >= t->n_name_buckets)
		grow(t);
	struct watch_name **bucket = bucket_of(t, node);
	*e = (struct watch_name){
		.prev = o->last,
		.next_in_bucket = *bucket,
		.object = o,
		.node = node,
		.scan = scan,
		.row = row,
		.fate = fate,
	};
	memcpy(e->name, name, len);
	*bucket = e;
	if (o->last)
		o->last->next = e;
	else
		o->first = e;
	o->last = e;
	o->names_in_doubt += scan != 0;
	t->names_in_doubt += scan != 0;
	t->n_names++;
	t->sessions_waiting += is_session(e);
}

static void drop(struct watch_table *t, struct watch_name *e)
{
	struct watch_object *o = e->object;
	struct watch_name **place = bucket_of(t, e->node);

	while (*place != e)
		place = &(*place)->next_in_bucket;
	*place = e->next_in_bucket;
	if (e->prev)
		e->prev->next = e->next;
	else
		o->first = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		o->last = e->prev;
	o->names_in_doubt -= e->scan != 0;
	t->names_in_doubt -= e->scan != 0;
	t->n_names--;
	t->sessions_waiting -= is_session(e);
	free(e);
}

void watch_name_end(struct watch_table *t, struct watch_name *n)
{
	struct node node = n->node;

	if (is_session(n) && node.serial > t->sessions_settled)
		t->sessions_settled = node.serial;
	drop(t, n);
	/* What it stands for may have waited to be announced itself. */
	struct watch_object *o = watch_object_find(t, node);
	if (o && o->place == PLACE_PARKED) {
		o->place = PLACE_NONE;
		watch_object_settle(t, o, 0);
	}
}

void watch_names_free(struct watch_table *t)
{
	for (size_t i = 0; i < t->n_name_buckets; i++)
		while (t->names[i]) {
			struct watch_name *e = t->names[i];

			t->names[i] = e->next_in_bucket;
			free(e);
		}
}

size_t watch_names_judge(struct watch_table *t, struct watch_object *o, uint64_t scan)
{
	bool watched = watch_object_covered(t, o) & ROW_BIT(0);
	size_t n = 0;

	for (struct watch_name *e = o->first, *next; e && o->names_in_doubt > 0; e = next) {
		next = e->next;
		if (e->scan == 0)
			continue;
		if (watched) {
			e->scan = 0;
			o->names_in_doubt--;
			t->names_in_doubt--;
			n++;
		} else if (e->scan <= scan) {
			watch_name_end(t, e);
		}
	}
	return n;
}

/* --- what happens --------------------------------------------------------------------------- */

/* Whether the names in a directory are of interest; *ret_scan is 0 when that is certain. */
static bool wants_names(const struct watch_table *t, struct node dir, int64_t now_ms,
			uint64_t *ret_scan)
{
	const struct watch_object *o = watch_object_find(t, dir);

	*ret_scan = 0;
	if (t->everything || (o && !o->gone && (o->marks & ROW_BIT(0))))
		return true;
	*ret_scan = t->next_scan;
	return !(o && o->gone) && watch_table_lookup(t, dir, now_ms) >= 0;
}

void watch_table_came(struct watch_table *t, struct node dir, const char *name, struct node node,
		      int64_t now_ms)
{
	uint64_t scan;
	struct watch_object *o =
		wants_names(t, dir, now_ms, &scan) ? watch_object_get(t, dir) : NULL;

	if (!o)
		return;
	append(t, o, name, node, 0, NAME_CAME, scan);
	watch_object_settle(t, o, now_ms);
	watch_object_let_go(t, o);
}

/* The marks of an object that went; it is dead from now on. */
static uint64_t bury_one(struct watch_table *t, struct node dir, bool *ret_was_called)
{
	struct watch_object *o = watch_object_find(t, dir);

	if (!o || dir.file != 0)
		return 0;
	*ret_was_called = *ret_was_called || o->was_called;
	o->gone = true;
	if (o->place == PLACE_PARKED)
		o->place = PLACE_NONE;
	o->dirty = o->burst = o->known = o->doubt = 0;
	return o->marks;
}

/* The same with the directories in it, whose marks stand for their rows. */
static uint64_t bury(struct watch_table *t, struct node node, bool *ret_was_called)
{
	uint64_t marks = bury_one(t, node, ret_was_called);
	const struct node_dir *dir = node_dir(node.kind);

	for (size_t i = 0; node.file == 0 && i < dir->n_files; i++)
		if (dir->files[i].type == FILE_DIR &&
		    bury_one(t, node_row(node, (uint8_t)(i + 1)), ret_was_called))
			marks |= ROW_BIT(i + 1);
	return marks;
}

/*
 * Takes back the announcement that a name came. Returns whether its watchers know of it: it was
 * announced, or is being announced, or was there before anybody watched.
 */
static bool is_known(struct watch_table *t, struct node dir, struct node node)
{
	struct watch_name *e = find_coming(t, &dir, node);

	if (!e)
		return true;
	struct watch_slot *slot = watch_slot_of_name(t, e);
	if (!slot) {
		drop(t, e);
		return false;
	}
	slot->call.cancelled = !slot->call.answered;
	return slot->call.answered;
}

void watch_table_went(struct watch_table *t, struct node dir, const char *name, struct node node,
		      bool told, int64_t now_ms)
{
	bool was_called = false, known = is_known(t, dir, node);
	uint64_t scan, marks = bury(t, node, &was_called), rows = marks & ~ROW_BIT(0);
	bool wanted = wants_names(t, dir, now_ms, &scan) && known && !told;
	bool own = (marks & ROW_BIT(0)) && !told, look = told && (rows || was_called);

	if (!wanted && !own && !rows && !look)
		return;
	struct watch_object *o = watch_object_get(t, dir);
	if (!o)
		return;
	/*
	 * After a rmdir the kernel keeps the dead directory while anything of it is in use, and
	 * says that nothing is in it: so what the nudger has open is closed first.
	 */
	if (look)
		append(t, o, name, node, 0, NAME_LOOK, 0);
	/* As on a disk, the files of a directory go before it. */
	for (uint64_t left = rows; left; left &= left - 1)
		append(t, o, name, node, (uint8_t)__builtin_ctzll(left), NAME_WENT, 0);
	if (wanted || own)
		append(t, o, name, node, 0, NAME_WENT, own || rows ? 0 : scan);
	else if (rows)
		append(t, o, name, node, 0, NAME_LOOK, 0);
	watch_object_settle(t, o, now_ms);
	watch_object_let_go(t, o);
}

size_t watch_table_sessions_waiting(const struct watch_table *t)
{
	return t->sessions_waiting;
}

uint32_t watch_table_sessions_settled(const struct watch_table *t)
{
	return t->sessions_settled;
}
