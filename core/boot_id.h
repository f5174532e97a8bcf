/*
 * The identity of the running boot of the machine. A pid, a start time and CLOCK_BOOTTIME mean
 * something only together with it. libc only.
 */
#ifndef CLOOP_CORE_BOOT_ID_H
#define CLOOP_CORE_BOOT_ID_H

#include <stdint.h>

#define BOOT_ID_BYTES 16

/*
 * Reads /proc/sys/kernel/random/boot_id. In builds with test hooks the environment variable
 * CLOOP_BOOT_ID (a UUID) replaces it. Returns 0, -EINVAL for text that is no UUID, or what reading
 * failed with.
 */
int boot_id_read(uint8_t ret[static BOOT_ID_BYTES]);

/* Parses the 36 characters of a UUID (a newline may follow). Returns 0 or -EINVAL. */
int boot_id_parse(const char *text, uint8_t ret[static BOOT_ID_BYTES]);

#endif
