/* What every target has in common: libFuzzer calls it, and so does corpus.c. */
#ifndef CLOOP_TESTS_FUZZ_FUZZ_H
#define CLOOP_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An assertion that no build leaves out. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
