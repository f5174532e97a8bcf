/*
 * The disk floor: with less free than this in the state directory nothing new is started, so that
 * what runs can still write its logs and its end.
 */
#ifndef CLOOP_CORE_DISK_FLOOR_H
#define CLOOP_CORE_DISK_FLOOR_H

#include <stdint.h>

#include "core/error.h"

/* 0, or ENOSPC with both sizes. free_bytes INT64_MAX: not known, which refuses nothing. */
int disk_floor_check(int64_t free_bytes, int64_t floor_bytes, struct error *err);

#endif
