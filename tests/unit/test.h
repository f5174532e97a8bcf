/* What every unit test includes: cmocka with the headers it wants first. */
#ifndef CLOOP_TESTS_UNIT_TEST_H
#define CLOOP_TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/owner.h"

#endif
