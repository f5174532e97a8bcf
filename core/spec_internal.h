/* Between spec.c (rules) and spec_json.c (reading and writing). */
#ifndef CLOOP_CORE_SPEC_INTERNAL_H
#define CLOOP_CORE_SPEC_INTERNAL_H

#include "core/error.h"
#include "core/spec.h"

/* spec_validate() with a prefix for the paths in errors. */
int spec_check(const struct spec *spec, const char *path, struct error *err);

#endif
