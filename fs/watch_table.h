/*
 * What is watched, and what is still to be announced: the bookkeeping behind fs/watch.h. No FUSE,
 * no socket and no clock; time is an argument, in milliseconds of any clock that does not go back.
 *
 * An object is a directory of the tree with the files of its table (struct node, kind and serial).
 * It is of interest while something in it carries a mark of inotify or fanotify, which the nudger
 * reports, and for WATCH_LOOKUP_MS after somebody looked it up: whoever sets a mark has done that,
 * and the report comes later. What changes meanwhile is in doubt: it is announced when a scan that
 * began after the change finds the mark, and dropped when it finds none. So nothing is ever
 * announced that nobody watches, and a change of what nobody looks at costs two look-ups in memory.
 *
 * Files: a change is a bit, so changes merge while they wait. What a file shows is reduced to a
 * number (its print) when it is announced, and a file whose print is the same as last time is not.
 * An object rests WATCH_FILE_MS between two bursts of announcements, so that each file is announced
 * at most ten times a second, and after the last change for certain.
 *
 * Names that came or went are announced in their order, one directory at a time, and before the
 * changes of what came. A name that goes before it was announced is never mentioned, unless
 * somebody watches the object itself.
 *
 * Calls: watch_table_next() gives what is to be done next, at most NUDGE_WORKERS at a time, each
 * about another object, WATCH_RATE a second after WATCH_BURST; watch_table_done() ends one.
 */
#ifndef CLOOP_FS_WATCH_TABLE_H
#define CLOOP_FS_WATCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "fs/node.h"
#include "fs/nudge_protocol.h"

/* How long a look-up counts as an interest: longer than two scans of the nudger. */
#define WATCH_LOOKUP_MS 5000

/* Between two announcements of a file: ten a second at most. */
#define WATCH_FILE_MS 100

/* Both together are what any one second sees at most: 500. */
#define WATCH_RATE 450
#define WATCH_BURST 50

/*
 * Names that wait. A watcher who is so far behind has lost the first of them in its own queue
 * (16384 events by default) long ago; those that come then are lost too.
 */
#define WATCH_NAMES_MAX 262144

/*
 * Objects in doubt, and names: so many cannot change within a scan. They are there for the time
 * when no nudger answers.
 */
#define WATCH_DOUBTS_MAX 4096
#define WATCH_NAMES_DOUBT_MAX 16384

/* Rows of a table that can be watched: they are bits of a word. */
#define WATCH_ROWS_MAX 63

#define WATCH_NEVER INT64_MAX

struct watch_table;

struct watch_table_hooks {
	/* What the file shows now, as a number. A negative errno: it is gone. */
	int (*print)(void *user, struct node file, uint64_t *ret);
	/* The marks in an object changed; bit 0 is the directory itself, bit n its n-th row. */
	void (*marked)(void *user, struct node dir, uint64_t before, uint64_t after);
};

/* One call of the nudger, valid until watch_table_done(). */
struct watch_call {
	uint64_t number; /* never 0 */
	enum nudge_type type;
	struct node node; /* the file, or what the name stands for */
	struct node dir;  /* not MODIFY: the directory that exists, with the entry `name` in it */
	const char *name; /* NULL: MODIFY */
	uint8_t row; /* not 0: it is not about `name`, but about this row of what went with it */

	/* Kept for whoever answers the nudger's requests. */
	bool answered;  /* the call had its effect */
	bool cancelled; /* it must not have any more */
};

/* Errors: EINVAL, a table of the tree has too many rows; ENOMEM. */
int watch_table_new(const struct watch_table_hooks *hooks, void *user, struct watch_table **ret,
		    struct error *err);
struct watch_table *watch_table_free(struct watch_table *t);

/* --- what happens --------------------------------------------------------------------------- */

/* Somebody looked up the object, or a file in it. */
void watch_table_looked_up(struct watch_table *t, struct node node, int64_t now_ms);

/* When it was looked up last, if that counts still; else -1. */
int64_t watch_table_lookup(const struct watch_table *t, struct node dir, int64_t now_ms);

/* The rows of a kind that are announced: those that change with the object, and its output. */
uint64_t watch_table_values(const struct watch_table *t, enum node_kind kind);
uint64_t watch_table_outputs(const struct watch_table *t, enum node_kind kind);

/* The marks in an object, as the last report had them. */
uint64_t watch_table_marks(const struct watch_table *t, struct node dir);

/* Rows that may have changed. */
void watch_table_changed(struct watch_table *t, struct node dir, uint64_t rows, int64_t now_ms);

/* The file changed, and its watchers are told without us. */
void watch_table_told(struct watch_table *t, struct node file);

/*
 * Takes what the watched files of an object show now for what was announced last, where that is not
 * known. Returns those rows.
 */
uint64_t watch_table_learn(struct watch_table *t, struct node dir);

/* Announces the rows even if they show the same as last time. */
void watch_table_unlearn(struct watch_table *t, struct node dir, uint64_t rows);

void watch_table_came(struct watch_table *t, struct node dir, const char *name, struct node node,
		      int64_t now_ms);

/*
 * With `told` the watchers of the directory, and of what went, are told without us; those of the
 * files in it still have to be, which the kernel only lets happen when it has forgotten the
 * directory: while somebody is in it, they are not told.
 */
void watch_table_went(struct watch_table *t, struct node dir, const char *name, struct node node,
		      bool told, int64_t now_ms);

/* Every object with marks; fn may tell of changes in that very object. */
void watch_table_each(struct watch_table *t, void (*fn)(void *user, struct node dir), void *user);

/* --- marks ---------------------------------------------------------------------------------- */

/* A report: its marks between begin and end, which says how many doubts proved right. */
void watch_table_marks_begin(struct watch_table *t);
void watch_table_mark(struct watch_table *t, uint64_t inode);
size_t watch_table_marks_end(struct watch_table *t, uint64_t scan, bool everything, int64_t now_ms);

/* A scan that found the same. */
void watch_table_marks_same(struct watch_table *t, uint64_t scan, int64_t now_ms);

/* Whether changes are in doubt that no scan was asked for. */
bool watch_table_wants_scan(const struct watch_table *t);

/* The number of a scan that is asked for now. */
uint64_t watch_table_ask_scan(struct watch_table *t);

/* --- calls ---------------------------------------------------------------------------------- */

/*
 * The next call, NULL when there is none now; then *ret_due_ms is when to ask again by itself
 * (WATCH_NEVER: when something happens).
 */
struct watch_call *watch_table_next(struct watch_table *t, int64_t now_ms, int64_t *ret_due_ms);

/* The call ended. Returns its type; 0, and nothing happens, for a number that is not under way. */
enum nudge_type watch_table_done(struct watch_table *t, uint64_t number, int64_t now_ms);

/*
 * Whoever made the calls is gone: those under way that had no effect are to be made again, and a scan
 * is to be asked for again.
 */
void watch_table_retry(struct watch_table *t, int64_t now_ms);

/* The calls under way, in NUDGE_WORKERS places; NULL when there is none in the i-th. */
struct watch_call *watch_table_under_way(struct watch_table *t, size_t i);

/* --- figures -------------------------------------------------------------------------------- */

/* Marks that the last report had. */
size_t watch_table_count_marks(const struct watch_table *t);

/* Calls made. */
uint64_t watch_table_count_calls(const struct watch_table *t);

/*
 * Of the names that came in /sessions: how many wait, and the serial of the last one that does not
 * any more (announced, or not watched).
 */
size_t watch_table_sessions_waiting(const struct watch_table *t);
uint32_t watch_table_sessions_settled(const struct watch_table *t);

#endif
