/*
 * cloopd: one executable, whose first argument says which of its processes it is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/hub.h"
#include "fs/keeper.h"
#include "fs/keeper_log.h"
#include "fs/nudger.h"
#include "fs/options.h"

#define EXIT_USAGE 2

static const char *get(const char *name)
{
	return getenv(name);
}

static struct hub_options hub_options(const struct options *o)
{
	return (struct hub_options){
		.fuse_fd = o->fuse_fd,
		.area_fd = o->area_fd,
		.keeper_fd = o->keeper_fd,
		.nudger_fd = o->nudger_fd,
		.mountpoint = o->mountpoint,
		.state_dir = o->state_dir,
		.runtime_dir = o->runtime_dir,
		.config_dir = o->config_dir,
		.allow_other = o->allow_other,
		.nudger_pid = o->nudger_pid,
	};
}

/* The kernel names a process after the file that it executes, which may be a descriptor. */
static void set_name(const char *name)
{
	(void)prctl(PR_SET_NAME, name);
}

static int print(const char *text)
{
	return fputs(text, stdout) == EOF || fflush(stdout) == EOF ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const struct options_environment env = {.uid = geteuid(), .get = get};
	CLEANUP(options_clear) struct options o = {0};
	struct hub_options hub;
	struct error err;
	int r = options_parse(argc, argv, &env, &o, &err);

	if (r < 0) {
		keeper_log_error(&err);
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
	}
	hub = hub_options(&o);
	switch (o.command) {
	case COMMAND_SERVE:
		set_name("cloopd");
		return keeper_serve(&o);
	case COMMAND_STOP:
		return keeper_stop(&o);
	case COMMAND_VERSION:
		return print("cloopd " CLOOP_VERSION "\n");
	case COMMAND_HELP:
		return print(options_help());
	case COMMAND_HUB:
		set_name("cloopd-hub");
		return hub_run(&hub);
	case COMMAND_HUB_CHECK_INIT:
		set_name("cloopd-check");
		return hub_check_init(&hub);
	case COMMAND_NUDGER:
		set_name("cloopd-nudger");
		return nudger_main(o.mountpoint, o.socket_fd);
	}
	return EXIT_FAILURE;
}
