/* cloop-docs: prints the documentation of the tree. */
#include <stdio.h>
#include <string.h>

#include "fs/docs.h"
#include "fs/node.h"

int main(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(NODE_TEXT_MAX);

	if (argc == 2 && strcmp(argv[1], "markdown") == 0)
		docs_markdown(&out);
	else if (argc == 2 && strcmp(argv[1], "manual") == 0)
		docs_manual(&out);
	else if (argc == 2 && strcmp(argv[1], "readme") == 0)
		docs_readme(&out);
	if (!out.data || out.failed) {
		(void)fprintf(stderr, "usage: cloop-docs markdown|manual|readme\n");
		return 2;
	}
	return fwrite(out.data, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? 0 : 1;
}
