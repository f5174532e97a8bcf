/*
 * The nudger: a process of the keeper that makes changes visible to those who watch files, by system
 * calls through the mount. Any of them may wait for the hub, so it is a process of its own that may
 * hang or be killed without harm. It holds neither the FUSE descriptor nor the shared area.
 */
#ifndef CLOOP_FS_NUDGER_H
#define CLOOP_FS_NUDGER_H

/*
 * Runs until the other end of the SOCK_DGRAM pair, which hubs write to, is closed. Returns the exit
 * status.
 */
int nudger_main(const char *mountpoint, int socket_fd);

#endif
