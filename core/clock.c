#include "core/clock.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec;
}

int64_t clock_now_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t clock_boot_ns(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

void clock_format(int64_t ns, char buf[static CLOCK_RFC3339_MAX])
{
	time_t s = (time_t)(ns / CLOCK_NS_PER_S);
	int64_t rest = ns % CLOCK_NS_PER_S;
	struct tm tm;

	if (rest < 0) {
		rest += CLOCK_NS_PER_S;
		s--;
	}
	(void)gmtime_r(&s, &tm);
	/* int64_t nanoseconds reach from 1677 to 2262: the year always has four digits. */
	(void)snprintf(buf, CLOCK_RFC3339_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%09uZ",
		       (unsigned)(tm.tm_year + 1900) % 10000U, (unsigned)(tm.tm_mon + 1) % 100U,
		       (unsigned)tm.tm_mday % 100U, (unsigned)tm.tm_hour % 100U,
		       (unsigned)tm.tm_min % 100U, (unsigned)tm.tm_sec % 100U,
		       (unsigned)rest % 1000000000U);
}

/* Reads exactly n digits. */
static bool digits(const char **p, int n, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++, (*p)++) {
		if (!isdigit((unsigned char)**p))
			return false;
		v = v * 10 + (**p - '0');
	}
	*ret = v;
	return true;
}

static bool literal(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

int clock_parse(const char *text, int64_t *ret_ns)
{
	static const int month_days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int year, month, day, hour, minute, second, offset = 0;
	int64_t frac = 0;
	const char *p = text;

	if (!digits(&p, 4, &year) || !literal(&p, '-') || !digits(&p, 2, &month) ||
	    !literal(&p, '-') || !digits(&p, 2, &day) || !literal(&p, 'T') ||
	    !digits(&p, 2, &hour) || !literal(&p, ':') || !digits(&p, 2, &minute) ||
	    !literal(&p, ':') || !digits(&p, 2, &second))
		return -EINVAL;
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	if (month < 1 || month > 12 || day < 1 || day > month_days[month - 1] ||
	    (month == 2 && day == 29 && !leap) || hour > 23 || minute > 59 || second > 59)
		return -EINVAL;
	if (*p == '.') {
		int n = 0;

		for (p++; isdigit((unsigned char)*p); p++, n++)
			if (n < 9)
				frac = frac * 10 + (*p - '0');
		if (n == 0)
			return -EINVAL;
		for (; n < 9; n++)
			frac *= 10;
	}
	if (*p == 'Z') {
		p++;
	} else if (*p == '+' || *p == '-') {
		int sign = *p++ == '+' ? 1 : -1, oh, om;

		if (!digits(&p, 2, &oh) || !literal(&p, ':') || !digits(&p, 2, &om) || oh > 23 ||
		    om > 59)
			return -EINVAL;
		offset = sign * (oh * 3600 + om * 60);
	} else {
		return -EINVAL;
	}
	if (*p != '\0')
		return -EINVAL;

	struct tm tm = {.tm_year = year - 1900,
			.tm_mon = month - 1,
			.tm_mday = day,
			.tm_hour = hour,
			.tm_min = minute,
			.tm_sec = second};
	int64_t s = (int64_t)timegm(&tm) - offset, ns;
	if (__builtin_mul_overflow(s, CLOCK_NS_PER_S, &ns) || __builtin_add_overflow(ns, frac, &ns))
		return -EINVAL;
	*ret_ns = ns;
	return 0;
}
