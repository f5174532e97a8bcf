/* Runs a fuzz target on the files that are given: in builds without libFuzzer, over the corpus. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/owner.h"

/* No stored input is larger. */
#define INPUT_MAX_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		AUTO_FCLOSE FILE *f = fopen(argv[i], "rbe");
		AUTO_FREE uint8_t *data = malloc(INPUT_MAX_BYTES);

		if (!f || !data) {
			perror(argv[i]);
			return 1;
		}
		(void)LLVMFuzzerTestOneInput(data, fread(data, 1, INPUT_MAX_BYTES, f));
	}
	return 0;
}
