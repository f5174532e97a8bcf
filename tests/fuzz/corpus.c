/* Runs a target over every file of a directory, for builds without libFuzzer. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/owner.h"
#include "tests/fuzz/fuzz.h"

static int run(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	AUTO_FREE uint8_t *data = NULL;
	struct stat st;
	size_t used = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return 0;
	/* Exactly as large as the input, so that a sanitizer sees a read past its end. */
	data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
	while (data && used < (size_t)st.st_size) {
		ssize_t n = read(fd, data + used, (size_t)st.st_size - used);

		if (n <= 0)
			return -1;
		used += (size_t)n;
	}
	if (!data)
		return -1;
	LLVMFuzzerTestOneInput(data, used);
	return 1;
}

int main(int argc, char **argv)
{
	AUTO_CLOSEDIR DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	int files = 0;

	if (!dir)
		return EXIT_FAILURE;
	while ((entry = readdir(dir)) != NULL) {
		int r = run(dirfd(dir), entry->d_name);

		if (r < 0) {
			(void)fprintf(stderr, "%s: cannot be read\n", entry->d_name);
			return EXIT_FAILURE;
		}
		files += r;
	}
	return files > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
