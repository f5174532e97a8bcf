/*
 * A launcher for the keeper's tests. It checks what it was given, leaves a "shim" (a process in a
 * session of its own that lives on), writes "pid" to <state-dir>/launchers and the shim's to
 * <state-dir>/shims, and waits for its end.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void record(const char *sessions_dir, const char *name, int value)
{
	char path[PATH_MAX], line[16];

	(void)snprintf(path, sizeof(path), "%s/../%s", sessions_dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int n = snprintf(line, sizeof(line), "%d\n", value);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		exit(3);
	(void)close(fd);
}

static int listens(int fd)
{
	int type = 0, accepts = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts;
}

int main(int argc, char **argv)
{
	struct stat st;

	if (argc != 7 || strcmp(argv[1], "--sessions-dir") != 0 ||
	    strcmp(argv[3], "--runtime-dir") != 0 || strcmp(argv[5], "--listen-fd") != 0)
		return 2;
	if (stat(argv[2], &st) < 0 || stat(argv[4], &st) < 0 || !listens(atoi(argv[6])))
		return 2;
	/* Descriptors that nobody gave it. */
	for (int fd = 3; fd < 64; fd++)
		if (fd != atoi(argv[6]) && fcntl(fd, F_GETFD) >= 0)
			return 2;
	/* Whoever clears up finds the shim in the record, so nobody ends this before that is written. */
	sigset_t term, before;
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &term, &before);
	pid_t shim = fork();
	if (shim == 0) {
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		(void)setsid();
		(void)close(atoi(argv[6]));
		for (;;)
			(void)pause();
	}
	record(argv[2], "shims", shim);
	record(argv[2], "launchers", getpid());
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	for (;;)
		(void)pause();
}
