/*
 * What the benchmarks run as a workload.
 *
 *	emit bytes N            writes N bytes of lines, 64 KiB at a time
 *	emit ticks N MS FILE    waits for FILE, then writes N lines, one in MS ms: each is the
 *instant at which it was written, in ns of CLOCK_MONOTONIC
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define CHUNK_BYTES ((size_t)64 << 10)
#define LINE_BYTES 64

static void write_all(const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, data, len);

		if (n < 0)
			bench_die("cannot write");
		data += n;
		len -= (size_t)n;
	}
}

static void emit_bytes(size_t n)
{
	static char chunk[CHUNK_BYTES];

	memset(chunk, 'x', sizeof(chunk));
	for (size_t i = LINE_BYTES - 1; i < sizeof(chunk); i += LINE_BYTES)
		chunk[i] = '\n';
	for (; n > 0; n -= n < sizeof(chunk) ? n : sizeof(chunk))
		write_all(chunk, n < sizeof(chunk) ? n : sizeof(chunk));
}

static void emit_ticks(size_t n, unsigned ms, const char *file)
{
	char line[32];

	while (access(file, F_OK) < 0)
		bench_sleep_ms(5);
	for (size_t i = 0; i < n; i++) {
		bench_sleep_ms(ms);
		int len = snprintf(line, sizeof(line), "%020" PRId64 "\n", bench_now_ns());
		write_all(line, (size_t)len);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "bytes") == 0)
		emit_bytes(strtoull(argv[2], NULL, 10));
	else if (argc == 5 && strcmp(argv[1], "ticks") == 0)
		emit_ticks(strtoull(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10),
			   argv[4]);
	else
		return 2;
	return 0;
}
