/*
 * Time. Instants are nanoseconds of real time since 1970 (int64_t, 0 = unset), as the reference's
 * time.Time crosses into JSON: RFC 3339, UTC, nine decimals. Pure rules take instants as arguments;
 * only the parts with I/O call clock_now_ns().
 */
#ifndef CLOOP_CORE_CLOCK_H
#define CLOOP_CORE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define CLOCK_NS_PER_S INT64_C(1000000000)
#define CLOCK_NS_PER_MS INT64_C(1000000)

/* "2026-01-02T03:04:05.000000006Z" and the NUL. */
#define CLOCK_RFC3339_MAX 31

/* CLOCK_REALTIME, in nanoseconds. */
int64_t clock_now_ns(void);

/* CLOCK_BOOTTIME, in nanoseconds: goes on during suspend, starts at 0 with the machine. */
int64_t clock_boot_ns(void);

/* Formats an instant (years 0000 to 9999). */
void clock_format(int64_t ns, char buf[static CLOCK_RFC3339_MAX]);

/*
 * Parses RFC 3339 with any number of decimals (past the ninth cut off) and any offset. Returns 0,
 * or -EINVAL when the text is not one or the instant does not fit.
 */
int clock_parse(const char *text, int64_t *ret_ns);

#endif
