/* The sentences for launches that failed. */
#include "drivers/shim/client.h"

#include <errno.h>
#include <string.h>

#include "core/owner.h"

/* What to do about an errno, where that is more than obvious. */
static const char *remedy_for(const struct shim_failure *f)
{
	switch ((enum shim_step)f->step) {
	case SHIM_STEP_WORK_DIR:
		if (f->error == ENOENT)
			return "create the directory, or name another";
		if (f->error == EACCES)
			return "name a directory that the user who starts it may enter";
		return "";
	case SHIM_STEP_WORK_DIR_MOUNT:
		return "name a directory outside";
	case SHIM_STEP_EXEC:
		if (f->error == ENOENT)
			return "give the path of a program that exists";
		if (f->error == EACCES)
			return "make it executable for the user who starts it (chmod +x)";
		if (f->error == ENOEXEC)
			return "begin the script with #! and its interpreter, or name the "
			       "interpreter first";
		return "";
	case SHIM_STEP_EXEC_MOUNT:
		return "copy the program elsewhere";
	case SHIM_STEP_EXEC_SEARCH:
		return "give its full path, or set PATH in env";
	case SHIM_STEP_INTERPRETER:
		return "correct its first line";
	case SHIM_STEP_OWNER:
		return "name a directory of your own, or have its owner start it";
	case SHIM_STEP_ROOT:
		return "give the directory an owner other than root (chown)";
	case SHIM_STEP_BELOW:
		return "name something in the working directory, also after links are followed";
	case SHIM_STEP_RUNTIME:
		return f->error == ENOENT   ? "name a program of the image"
		       : f->error == EACCES ? "make it executable in the image"
					    : "";
	case SHIM_STEP_RUNTIME_EXEC:
		return "install the runtime, or give its folder in PATH in runtime_env";
	case SHIM_STEP_CGROUP:
		return f->error == EOPNOTSUPP ? "leave the limit out, or choose another executor"
					      : "";
	default:
		return "";
	}
}

static int set_group_error(const struct shim_failure *f, struct error *err)
{
	static const struct {
		const char *prefix, *field;
	} fields[] = {{"cpu", "resource_limits.cpu_millis"},
		      {"memory", "resource_limits.memory_mb"},
		      {"pids", "resource_limits.pids"}};
	const char *field = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (strncmp(f->path, fields[i].prefix, strlen(fields[i].prefix)) == 0)
			field = fields[i].field;
	if (f->error == EOPNOTSUPP)
		r = error_set_kind(err, EOPNOTSUPP, ERROR_UNSUPPORTED,
				   "cannot be enforced on this machine");
	else
		r = error_set(err, f->error, "the control group refuses %s: %s", f->path,
			      strerrordesc_np(f->error));
	if (field)
		error_field(err, "%s", field);
	return r;
}

int shim_failure_error(const struct shim_failure *failure, struct error *err)
{
	struct shim_failure f = *failure;
	const char *what, *field = "";
	int r;

	/* What the launcher says is trusted no further than it must be. */
	if (f.error <= 0 || !strerrordesc_np(f.error))
		f.error = EIO;
	what = strerrordesc_np(f.error);
	f.path[SHIM_PATH_MAX - 1] = '\0';

	switch ((enum shim_step)f.step) {
	case SHIM_STEP_RECORD:
		r = error_set(err, f.error, "the launcher does not accept the launch: %s", what);
		break;
	case SHIM_STEP_SHIM:
		r = error_set(err, f.error, "no supervisor could be started: %s", what);
		break;
	case SHIM_STEP_SESSION_DIR:
		r = error_set(err, f.error, "the session's folder cannot be set up: %s", what);
		break;
	case SHIM_STEP_ALREADY:
		r = error_set(err, f.error, "it has been started before");
		break;
	case SHIM_STEP_LOG:
		r = error_set(err, f.error, "its log cannot be created: %s", what);
		break;
	case SHIM_STEP_CGROUP:
		r = set_group_error(&f, err);
		break;
	case SHIM_STEP_CREDENTIALS:
		r = error_set(err, f.error, "cannot become the user who starts it: %s", what);
		break;
	case SHIM_STEP_WORK_DIR:
		field = "work_dir";
		r = error_set(err, f.error, "cannot enter %s: %s", f.path, what);
		break;
	case SHIM_STEP_WORK_DIR_MOUNT:
		field = "work_dir";
		r = error_set(err, f.error, "%s is inside the mount itself", f.path);
		break;
	case SHIM_STEP_EXEC:
		field = "argv[0]";
		r = error_set(err, f.error, "cannot execute %s: %s", f.path, what);
		break;
	case SHIM_STEP_EXEC_MOUNT:
		field = "argv[0]";
		r = error_set(err, f.error, "%s is inside the mount itself", f.path);
		break;
	case SHIM_STEP_EXEC_SEARCH:
		field = "argv[0]";
		r = error_set(err, f.error, "%s is in no directory of its PATH", f.path);
		break;
	case SHIM_STEP_INTERPRETER:
		field = "argv[0]";
		r = error_set(err, f.error, "the interpreter of %s does not exist", f.path);
		break;
	case SHIM_STEP_OWNER:
		field = "work_dir";
		r = error_set(err, f.error, "%s belongs to another user", f.path);
		break;
	case SHIM_STEP_ROOT:
		field = "work_dir";
		r = error_set(err, f.error, "%s belongs to root, and no container runs as root",
			      f.path);
		break;
	case SHIM_STEP_BELOW:
		field = "mounts";
		if (f.error == EXDEV)
			r = error_set(err, EINVAL, "%s leads out of the working directory", f.path);
		else
			r = error_set(err, f.error, "%s cannot be mounted: %s", f.path, what);
		break;
	case SHIM_STEP_HOST_MOUNT:
		field = "host_mounts";
		if (f.error == EXDEV)
			r = error_set(err, EINVAL, "%s is inside the mount itself", f.path);
		else
			r = error_set(err, f.error, "%s cannot be mounted: %s", f.path, what);
		break;
	case SHIM_STEP_SANDBOX:
		r = error_set(err, f.error, "cannot set up %s for the container: %s", f.path, what);
		break;
	case SHIM_STEP_RUNTIME:
		field = f.error == ENOENT || f.error == EACCES ? "argv[0]" : "";
		r = error_set(err, f.error, "the container runtime refuses: %s",
			      f.path[0] != '\0' ? f.path : "it does not say why");
		break;
	case SHIM_STEP_RUNTIME_EXEC:
		r = error_set(err, f.error, "the container runtime %s cannot be executed: %s", f.path,
			      what);
		break;
	case SHIM_STEP_PROCESS:
	default:
		r = error_set(err, f.error, "its process could not be made: %s", what);
		break;
	}
	if (field[0] != '\0')
		error_field(err, "%s", field);
	if (remedy_for(&f)[0] != '\0')
		error_remedy(err, "%s", remedy_for(&f));
	return r;
}
