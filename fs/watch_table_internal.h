/*
 * What the parts of the table share.
 *
 *	watch_table.c  objects, marks and look-ups
 *	watch_names.c  names that came and went
 *	watch_calls.c  the queue, the limits, the calls under way
 */
#ifndef CLOOP_FS_WATCH_TABLE_INTERNAL_H
#define CLOOP_FS_WATCH_TABLE_INTERNAL_H

#include "fs/watch_table.h"

/* Look-ups that are remembered: sets of four, the oldest of which makes room. A power of two. */
#define LOOKUP_SETS 4096
#define LOOKUP_WAYS 4

#define ROW_BIT(row) (UINT64_C(1) << (row))

/* Where an object waits. */
enum watch_place {
	PLACE_NONE,
	PLACE_QUEUE,   /* for a call */
	PLACE_RESTING, /* for its time */
	PLACE_PARKED,  /* for its own name to be announced */
	PLACE_CALLED,  /* a call is under way */
};

enum watch_fate {
	NAME_CAME,
	NAME_WENT,
	NAME_LOOK, /* it went, and the kernel is to see that */
};

struct watch_name {
	struct watch_name *next, *prev; /* in its directory, in order */
	struct watch_name *next_in_bucket;
	struct watch_object *object; /* the directory */
	struct node node;
	uint64_t scan; /* in doubt until this scan; 0: certain */
	uint8_t row;
	enum watch_fate fate;
	char name[];
};

struct watch_object {
	struct watch_object *next_in_bucket;
	struct watch_object *next, *prev; /* in the queue, or among the resting */
	struct watch_object *next_doubted, *next_changed;
	struct node dir;
	enum watch_place place;

	uint64_t marks, new_marks, marks_before;
	uint64_t dirty; /* changed, and marked */
	uint64_t doubt; /* changed, and looked up lately */
	uint64_t burst; /* of dirty: what is being announced */
	uint64_t known; /* rows whose print is right */
	uint64_t *prints;
	uint64_t doubt_scan;
	int64_t rest_until_ms;
	bool burst_called; /* something of this burst was announced */
	bool was_called;
	bool doubted; /* rows or names are in doubt */
	bool gone;
	uint32_t names_in_doubt;

	struct watch_name *first, *last;
};

struct watch_list {
	struct watch_object *first, *last;
};

struct watch_slot {
	struct watch_call call; /* number 0: free */
	struct watch_object *object;
	struct watch_name *name; /* NULL: MODIFY */
};

struct watch_lookup {
	uint64_t dir;
	int64_t at_ms;
};

struct watch_table {
	const struct watch_table_hooks *hooks;
	void *user;
	uint64_t values[NODE_KINDS], outputs[NODE_KINDS];

	struct watch_object **objects;
	size_t n_object_buckets, n_objects;
	struct watch_name **names;
	size_t n_name_buckets, n_names, names_in_doubt;

	struct watch_list queue, resting;
	struct watch_slot slots[NUDGE_WORKERS];
	uint64_t next_number, n_calls;
	int64_t tokens; /* thousandths of a call */
	int64_t filled_ms;

	uint64_t next_scan;
	bool wants_scan;
	bool everything;
	size_t n_marks, n_new_marks;
	struct watch_object *doubted;
	size_t n_doubted;
	bool holding; /* no object is freed now */

	size_t sessions_waiting;
	uint32_t sessions_settled;

	struct watch_lookup lookups[LOOKUP_SETS][LOOKUP_WAYS];
};

/* --- watch_table.c --- */

struct watch_object *watch_object_find(const struct watch_table *t, struct node dir);
struct watch_object *watch_object_get(struct watch_table *t, struct node dir);

/* Frees it when there is nothing to be remembered of it. */
void watch_object_let_go(struct watch_table *t, struct watch_object *o);

/* Rows that carry a mark, or whose directory does. */
uint64_t watch_object_covered(const struct watch_table *t, const struct watch_object *o);

/* Keeps the print of a row; without memory it is not known. */
void watch_object_remember(struct watch_object *o, unsigned row, uint64_t print);

/* Puts it among those in doubt; false when these are too many. */
bool watch_object_doubt(struct watch_table *t, struct watch_object *o);

uint64_t watch_hash(uint64_t id);

/* --- watch_names.c --- */

/* Whether its head can be announced, is in doubt, or there is none. */
bool watch_names_ready(const struct watch_object *o);

/* Whether a name is still to be announced as having come that stands for the object. */
bool watch_names_coming(const struct watch_table *t, struct node node);

/* Ends the doubt of an object's names: those in doubt until `scan` go when it is not marked. */
size_t watch_names_judge(struct watch_table *t, struct watch_object *o, uint64_t scan);

/* The name was announced, or never will be. */
void watch_name_end(struct watch_table *t, struct watch_name *n);

void watch_names_free(struct watch_table *t);

/* --- watch_calls.c --- */

/* Puts the object where it belongs after something changed in it; it may be freed. */
void watch_object_settle(struct watch_table *t, struct watch_object *o, int64_t now_ms);

/* Takes it out of its list. */
void watch_object_unlist(struct watch_table *t, struct watch_object *o);

struct watch_slot *watch_slot_of_name(struct watch_table *t, const struct watch_name *n);

#endif
