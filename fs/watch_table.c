#include "fs/watch_table.h"

#include <errno.h>
#include <stdlib.h>

#include "core/owner.h"
#include "fs/watch_table_internal.h"

/* Buckets at first; doubled when there are more entries than buckets. */
#define BUCKETS_MIN 256

static struct node object_of(struct node node)
{
	return (struct node){.kind = node.kind, .serial = node.serial};
}

/* Node ids differ in a few high and low bits only. */
uint64_t watch_hash(uint64_t id)
{
	id ^= id >> 32;
	id *= UINT64_C(0x9e3779b97f4a7c15);
	return id ^ id >> 29;
}

/* --- objects -------------------------------------------------------------------------------- */

static struct watch_object **bucket_of(const struct watch_table *t, struct node dir)
{
	return &t->objects[watch_hash(node_id(object_of(dir))) & (t->n_object_buckets - 1)];
}

struct watch_object *watch_object_find(const struct watch_table *t, struct node dir)
{
	struct watch_object *o = *bucket_of(t, dir);

	while (o && (o->dir.kind != dir.kind || o->dir.serial != dir.serial))
		o = o->next_in_bucket;
	return o;
}

static void grow_objects(struct watch_table *t)
{
	size_t n = t->n_object_buckets * 2;
	struct watch_object **bigger = calloc(n, sizeof(struct watch_object *)), **old = t->objects;

	if (!bigger)
		return; /* longer chains do as well */
	size_t n_old = t->n_object_buckets;
	t->objects = bigger;
	t->n_object_buckets = n;
	for (size_t i = 0; i < n_old; i++)
		for (struct watch_object *o = old[i], *next; o; o = next) {
			struct watch_object **bucket = bucket_of(t, o->dir);

			next = o->next_in_bucket;
			o->next_in_bucket = *bucket;
			*bucket = o;
		}
	free(old);
}

struct watch_object *watch_object_get(struct watch_table *t, struct node dir)
{
	struct watch_object *o = watch_object_find(t, dir);

	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	if (t->n_objects >= t->n_object_buckets)
		grow_objects(t);
	struct watch_object **bucket = bucket_of(t, dir);
	o->dir = object_of(dir);
	o->next_in_bucket = *bucket;
	*bucket = o;
	t->n_objects++;
	return o;
}

static void object_free(struct watch_object *o)
{
	free(o->prints);
	free(o);
}

/* While the whole mount is watched, what was announced of each object is worth remembering. */
static bool is_idle(const struct watch_table *t, const struct watch_object *o)
{
	if (o->place != PLACE_NONE || o->marks || o->new_marks || o->dirty || o->burst ||
	    o->doubted || o->first)
		return false;
	return o->gone || !t->everything || t->n_objects > NUDGE_MARKS_MAX;
}

void watch_object_let_go(struct watch_table *t, struct watch_object *o)
{
	struct watch_object **place = bucket_of(t, o->dir);

	if (t->holding || !is_idle(t, o))
		return;
	while (*place != o)
		place = &(*place)->next_in_bucket;
	*place = o->next_in_bucket;
	t->n_objects--;
	object_free(o);
}

static uint64_t rows_of(const struct watch_table *t, enum node_kind kind)
{
	return t->values[kind] | t->outputs[kind];
}

uint64_t watch_object_covered(const struct watch_table *t, const struct watch_object *o)
{
	return t->everything || (o->marks & ROW_BIT(0)) ? ~UINT64_C(0) : o->marks;
}

/* --- the tables of the tree ----------------------------------------------------------------- */

static void sort_row(struct watch_table *t, enum node_kind kind, const struct node_file *file,
		     unsigned row)
{
	uint64_t bit = ROW_BIT(row);

	if (file->fixed)
		return;
	switch (file->type) {
	case FILE_TEXT:
	case FILE_CONTROL:
	case FILE_DOCUMENT:
		/* A text with a size of its own is as long as some output. */
		if (file->size)
			t->outputs[kind] |= bit;
		else
			t->values[kind] |= bit;
		break;
	case FILE_LOG:
	case FILE_STREAM:
		t->outputs[kind] |= bit;
		break;
	case FILE_WAIT:
		t->values[kind] |= bit;
		break;
	case FILE_TRANSACTION:
	case FILE_LINK:
	case FILE_DIR:
		break;
	}
}

static int sort_rows(struct watch_table *t, struct error *err)
{
	for (int kind = NODE_NONE + 1; kind < NODE_KINDS; kind++) {
		const struct node_dir *dir = node_dir((enum node_kind)kind);

		if (dir && dir->n_files > WATCH_ROWS_MAX)
			return error_set(err, EINVAL, "%s has more than %d rows", dir->path,
					 WATCH_ROWS_MAX);
		for (size_t i = 0; dir && i < dir->n_files; i++)
			sort_row(t, (enum node_kind)kind, &dir->files[i], (unsigned)i + 1);
	}
	return 0;
}

int watch_table_new(const struct watch_table_hooks *hooks, void *user, struct watch_table **ret,
		    struct error *err)
{
	struct watch_table *t = calloc(1, sizeof(*t));

	if (!t)
		return error_oom(err);
	*t = (struct watch_table){
		.hooks = hooks,
		.user = user,
		.n_object_buckets = BUCKETS_MIN,
		.n_name_buckets = BUCKETS_MIN,
		.next_number = 1,
		.next_scan = 1,
		.tokens = WATCH_BURST * INT64_C(1000),
	};
	t->objects = calloc(BUCKETS_MIN, sizeof(struct watch_object *));
	t->names = calloc(BUCKETS_MIN, sizeof(struct watch_name *));
	int r = t->objects && t->names ? sort_rows(t, err) : error_oom(err);
	if (r < 0) {
		t = watch_table_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

struct watch_table *watch_table_free(struct watch_table *t)
{
	if (!t)
		return NULL;
	if (t->names)
		watch_names_free(t);
	for (size_t i = 0; t->objects && i < t->n_object_buckets; i++)
		while (t->objects[i]) {
			struct watch_object *o = t->objects[i];

			t->objects[i] = o->next_in_bucket;
			object_free(o);
		}
	free(t->objects);
	free(t->names);
	free(t);
	return NULL;
}

/* --- look-ups ------------------------------------------------------------------------------- */

static size_t lookup_set(uint64_t dir)
{
	return watch_hash(dir) & (LOOKUP_SETS - 1);
}

void watch_table_looked_up(struct watch_table *t, struct node node, int64_t now_ms)
{
	uint64_t dir = node_id(object_of(node));
	struct watch_lookup *set = t->lookups[lookup_set(dir)], *oldest = set;

	for (size_t i = 0; i < LOOKUP_WAYS && oldest->dir != dir; i++)
		if (set[i].dir == dir || set[i].at_ms < oldest->at_ms)
			oldest = &set[i];
	*oldest = (struct watch_lookup){.dir = dir, .at_ms = now_ms};
}

int64_t watch_table_lookup(const struct watch_table *t, struct node dir, int64_t now_ms)
{
	uint64_t id = node_id(object_of(dir));
	const struct watch_lookup *set = t->lookups[lookup_set(id)];

	for (size_t i = 0; i < LOOKUP_WAYS; i++)
		if (set[i].dir == id && now_ms - set[i].at_ms < WATCH_LOOKUP_MS)
			return set[i].at_ms;
	return -1;
}

/* --- changes -------------------------------------------------------------------------------- */

uint64_t watch_table_values(const struct watch_table *t, enum node_kind kind)
{
	return t->values[kind];
}

uint64_t watch_table_outputs(const struct watch_table *t, enum node_kind kind)
{
	return t->outputs[kind];
}

uint64_t watch_table_marks(const struct watch_table *t, struct node dir)
{
	const struct watch_object *o = watch_object_find(t, dir);

	return o && !o->gone ? o->marks : 0;
}

bool watch_object_doubt(struct watch_table *t, struct watch_object *o)
{
	if (!o->doubted) {
		if (t->n_doubted >= WATCH_DOUBTS_MAX)
			return false;
		t->n_doubted++;
		o->doubted = true;
		o->next_doubted = t->doubted;
		t->doubted = o;
	}
	t->wants_scan = true;
	return true;
}

void watch_table_changed(struct watch_table *t, struct node dir, uint64_t rows, int64_t now_ms)
{
	struct watch_object *o = watch_object_find(t, dir);
	uint64_t covered = o ? watch_object_covered(t, o) : t->everything ? ~UINT64_C(0) : 0;

	rows &= rows_of(t, dir.kind);
	uint64_t certain = rows & covered, rest = rows & ~covered;
	if (rest && watch_table_lookup(t, dir, now_ms) < 0)
		rest = 0;
	if ((o && o->gone) || (!certain && !rest))
		return;
	if (!o)
		o = watch_object_get(t, dir);
	if (!o)
		return;
	o->dirty |= certain;
	if (rest && watch_object_doubt(t, o)) {
		o->doubt |= rest;
		o->doubt_scan = t->next_scan;
	}
	watch_object_settle(t, o, now_ms);
	watch_object_let_go(t, o);
}

void watch_object_remember(struct watch_object *o, unsigned row, uint64_t print)
{
	if (!o->prints)
		o->prints = calloc(node_dir(o->dir.kind)->n_files + 1, sizeof(*o->prints));
	if (!o->prints)
		return; /* then it is not known */
	o->prints[row] = print;
	o->known |= ROW_BIT(row);
}

static void learn_row(struct watch_table *t, struct watch_object *o, unsigned row)
{
	struct node file = o->dir;
	uint64_t print;

	file.file = (uint8_t)row;
	if (t->hooks->print(t->user, file, &print) >= 0)
		watch_object_remember(o, row, print);
}

void watch_table_told(struct watch_table *t, struct node file)
{
	struct watch_object *o = watch_object_find(t, file);

	if (!o || file.file == 0 || file.file > WATCH_ROWS_MAX || o->gone)
		return;
	o->dirty &= ~ROW_BIT(file.file);
	o->burst &= ~ROW_BIT(file.file);
	o->doubt &= ~ROW_BIT(file.file);
	if (watch_object_covered(t, o) & rows_of(t, file.kind) & ROW_BIT(file.file))
		learn_row(t, o, file.file);
}

uint64_t watch_table_learn(struct watch_table *t, struct node dir)
{
	struct watch_object *o = watch_object_find(t, dir);

	if (!o || o->gone)
		return 0;
	uint64_t before = o->known, rows = watch_object_covered(t, o) & rows_of(t, dir.kind) &
					   ~(o->known | o->dirty | o->burst | o->doubt);
	for (; rows; rows &= rows - 1)
		learn_row(t, o, (unsigned)__builtin_ctzll(rows));
	return o->known & ~before;
}

void watch_table_unlearn(struct watch_table *t, struct node dir, uint64_t rows)
{
	struct watch_object *o = watch_object_find(t, dir);

	if (o)
		o->known &= ~rows;
}

/* --- marks ---------------------------------------------------------------------------------- */

void watch_table_marks_begin(struct watch_table *t)
{
	t->n_new_marks = 0;
	for (size_t i = 0; i < t->n_object_buckets; i++)
		for (struct watch_object *o = t->objects[i]; o; o = o->next_in_bucket)
			o->new_marks = 0;
}

void watch_table_mark(struct watch_table *t, uint64_t inode)
{
	struct node node;

	if (!node_parse(inode, &node) || node.file > WATCH_ROWS_MAX ||
	    t->n_new_marks == NUDGE_MARKS_MAX)
		return;
	struct watch_object *o = watch_object_get(t, node);
	if (!o)
		return;
	t->n_new_marks += !(o->new_marks & ROW_BIT(node.file));
	o->new_marks |= ROW_BIT(node.file);
}

/* Ends the doubt of an object as far as the scan can. Returns how much turned out certain. */
static size_t judge(struct watch_table *t, struct watch_object *o, uint64_t scan, int64_t now_ms)
{
	uint64_t certain = o->doubt & watch_object_covered(t, o);
	size_t n = watch_names_judge(t, o, scan) + (certain != 0);

	o->dirty |= certain;
	o->known &= ~certain; /* what they showed before is not known */
	o->doubt = o->doubt_scan <= scan ? 0 : o->doubt & ~certain;
	watch_object_settle(t, o, now_ms);
	return n;
}

static size_t judge_doubted(struct watch_table *t, uint64_t scan, int64_t now_ms)
{
	struct watch_object *list = t->doubted;
	size_t n = 0;

	t->doubted = NULL;
	t->n_doubted = 0;
	while (list) {
		struct watch_object *o = list;

		list = o->next_doubted;
		n += judge(t, o, scan, now_ms);
		o->doubted = o->doubt || o->names_in_doubt > 0;
		if (o->doubted) {
			o->next_doubted = t->doubted;
			t->doubted = o;
			t->n_doubted++;
		} else {
			watch_object_let_go(t, o);
		}
	}
	return n;
}

/* Takes over the new marks. Returns whether they are others than before. */
static bool take_marks(struct watch_table *t, struct watch_object *o)
{
	uint64_t before = o->marks;

	o->marks = o->new_marks;
	o->marks_before = before;
	/* What nobody watches any more need not be announced, and will change unseen. */
	uint64_t covered = watch_object_covered(t, o);
	o->dirty &= covered;
	o->burst &= covered;
	o->known &= covered;
	return before != o->marks;
}

size_t watch_table_marks_end(struct watch_table *t, uint64_t scan, bool everything, int64_t now_ms)
{
	struct watch_object *changed = NULL;

	t->everything = everything;
	t->n_marks = t->n_new_marks;
	for (size_t i = 0; i < t->n_object_buckets; i++)
		for (struct watch_object *o = t->objects[i]; o; o = o->next_in_bucket)
			if (take_marks(t, o)) {
				o->next_changed = changed;
				changed = o;
			}
	t->holding = true; /* the hooks come back with changes of other objects */
	for (struct watch_object *o = changed; o; o = o->next_changed) {
		watch_object_settle(t, o, now_ms);
		if (!o->gone)
			t->hooks->marked(t->user, o->dir, o->marks_before, o->marks);
	}
	size_t n = judge_doubted(t, scan, now_ms);
	t->holding = false;
	for (size_t i = 0; i < t->n_object_buckets; i++)
		for (struct watch_object *o = t->objects[i], *next; o; o = next) {
			next = o->next_in_bucket;
			watch_object_let_go(t, o);
		}
	return n;
}

void watch_table_marks_same(struct watch_table *t, uint64_t scan, int64_t now_ms)
{
	(void)judge_doubted(t, scan, now_ms);
}

bool watch_table_wants_scan(const struct watch_table *t)
{
	return t->wants_scan;
}

uint64_t watch_table_ask_scan(struct watch_table *t)
{
	t->wants_scan = false;
	return t->next_scan++;
}

void watch_table_each(struct watch_table *t, void (*fn)(void *user, struct node dir), void *user)
{
	t->holding = true;
	for (size_t i = 0; i < t->n_object_buckets; i++)
		for (struct watch_object *o = t->objects[i]; o; o = o->next_in_bucket)
			if (o->marks && !o->gone)
				fn(user, o->dir);
	t->holding = false;
}

size_t watch_table_count_marks(const struct watch_table *t)
{
	return t->n_marks;
}
