/*
 * What hub and nudger say to each other: one message a datagram, over the SOCK_DGRAM pair that the
 * keeper makes with each nudger. Both are of one build, and nobody else holds an end of it.
 *
 * The hub decides what is nudged and when; it never waits for the nudger. It has at most
 * NUDGE_WORKERS orders under way, each about another object, so that every order is taken at once
 * by an idle worker and one that hangs in its call delays none about anything else. The nudger
 * answers each of them with its number, and reports the marks that it finds.
 *
 * A hub's number (area_header.hub_epoch) is in each message: answers to an earlier hub are ignored.
 */
#ifndef CLOOP_FS_NUDGE_PROTOCOL_H
#define CLOOP_FS_NUDGE_PROTOCOL_H

#include <stdint.h>

/*
 * The nudger of a hub that runs as root makes its calls with this group, which nobody else has: it
 * is in the range that neither Debian nor systemd gives out, and below 65536, so that a container
 * with the usual map of ids has it too.
 */
#define NUDGE_GROUP 65533

/* Orders under way, and threads that carry them out. Only a call that hangs keeps one for long. */
#define NUDGE_WORKERS 8

/* Paths below the mount, with the NUL: three names of at most 64 bytes and fixed ones. */
#define NUDGE_PATH_MAX 512

enum nudge_type {
	NUDGE_NONE = 0,
	NUDGE_HELLO, /* a hub begins: report the marks, whatever was reported before */
	NUDGE_SCAN,  /* report the marks of a scan that begins from now on */

	/* The calls. What is kept open of an object that went is closed first. */
	NUDGE_LOOK,
	NUDGE_MODIFY,
	NUDGE_MKDIR,
	NUDGE_SYMLINK,
	NUDGE_RMDIR,
	NUDGE_UNLINK,
};

/* Sent without what follows the NUL of the path. */
struct nudge_order {
	uint32_t type;
	uint32_t reserved;
	uint64_t hub;
	uint64_t number; /* of the call, or of the scan that is asked for */
	uint64_t inode;  /* calls: st_ino of the file */
	uint64_t dir;    /* calls: st_ino of the object that it belongs to */
	char path[NUDGE_PATH_MAX];
};

enum nudge_report_type {
	NUDGE_DONE = 1, /* the call ended; result is 0 or a negative errno */
	NUDGE_MARKS,    /* a part of the marks */
};

/*
 * Marks beyond these are not seen: a recursive watch of a hundred thousand sessions fits. One user
 * other than root has at most a quarter of them.
 */
#define NUDGE_MARKS_MAX 262144
#define NUDGE_MARKS_PER_UID (NUDGE_MARKS_MAX / 4)

/* In one message: some kilobytes, as the kernel bounds what waits in a socket. */
#define NUDGE_MARKS_A_REPORT 1000

enum nudge_marks_flag {
	NUDGE_MARKS_FIRST = 1,
	NUDGE_MARKS_LAST = 2,
	NUDGE_MARKS_SAME = 4,       /* no marks follow: they are as they were reported last */
	NUDGE_MARKS_EVERYTHING = 8, /* somebody watches the mount, or the file system, as a whole */
};

/* Sent without the unused rest of marks. */
struct nudge_report {
	uint32_t type;
	int32_t result;
	uint64_t hub;
	uint64_t number; /* DONE: of the order. MARKS: the latest scan asked for before it began */
	uint32_t flags;
	uint32_t n_marks;
	uint64_t marks[NUDGE_MARKS_A_REPORT]; /* st_ino of what carries one */
};

#endif
