/*
 * The nudger: a process of the keeper that makes changes visible to those who watch files, by
 *system calls through the mount (fs/watch.h), and that finds out what is watched.
 *
 * Any of its calls may wait for the hub, so it is a process of its own that may hang or be stopped
 *or killed without harm: nobody waits for it, and only events are lost. It holds neither the FUSE
 * descriptor nor the shared area, and no state that a restart would miss.
 *
 * Threads: the first one scans for marks, every two seconds and when the hub asks, and never
 *touches the mount; NUDGE_WORKERS carry out orders; one closes descriptors. Threads never end
 *before the process does, so that the hub can know them by their numbers.
 *
 *	nudger.c        the threads and the calls
 *	nudger_marks.c  who watches what, out of /proc
 *	nudger_files.c  the descriptors that are kept open
 */
#ifndef CLOOP_FS_NUDGER_H
#define CLOOP_FS_NUDGER_H

/* How often /proc is read. */
#define NUDGER_SCAN_MS 2000

/*
 * At most this share of one processor goes into reading /proc: after a scan that took long there is
 * none for so many times as long.
 */
#define NUDGER_SCAN_SHARE 20

/*
 * Runs until it is killed: the kernel does that when the keeper ends. Returns the exit status when
 * it cannot begin.
 */
int nudger_main(const char *mountpoint, int socket_fd);

#endif
