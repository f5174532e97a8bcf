#include "fs/nudger.h"
#include <unistd.h>
int nudger_main(const char *mountpoint, int socket_fd)
{
	char c[512];
	(void)mountpoint;
	while (read(socket_fd, c, sizeof c) > 0)
		;
	return 0;
}
