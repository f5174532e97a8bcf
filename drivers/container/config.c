#include "drivers/container/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/capabilities.h"
#include "core/field.h"
#include "core/json.h"
#include "core/spec.h"
#include "core/strlist.h"

#define CPUS_MIN 0.01
#define CPUS_MAX 1048576.0
#define MILLIS 1000.0

const char *container_runtime_name(enum container_runtime runtime)
{
	return runtime == CONTAINER_DOCKER ? "docker" : "podman";
}

void container_config_clear(struct container_config *c)
{
	free(c->oci_runtime);
	free(c->image);
	free(c->network);
	free(c->selinux_label);
	(void)strlist_free(c->extra_args, c->n_extra_args);
	(void)strlist_free(c->runtime_env, c->n_runtime_env);
	(void)strlist_free(c->registries, c->n_registries);
	(void)strlist_free(c->repos, c->n_repos);
	*c = (struct container_config){0};
}

static int refuse(struct error *err, const char *field, const char *reason, const char *remedy)
{
	int r = error_set(err, EINVAL, "%s", reason);

	error_field(err, "%s", field);
	if (remedy)
		error_remedy(err, "%s", remedy);
	return r;
}

/* Letters, digits, '.', '_', '-', not beginning with a dash. */
static bool is_name(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > CONTAINER_NAME_BYTES_MAX || text[0] == '-')
		return false;
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return false;
	return true;
}

static int read_text(struct json_object *o, const char *name, const char *other, char **ret,
		     struct error *err)
{
	const char *text = other;
	int r = json_object_string(o, name, &text, err);

	if (r < 0)
		return r;
	*ret = strdup(text);
	return *ret ? 0 : error_oom(err);
}

static int read_runtime(struct json_object *o, struct container_config *c, struct error *err)
{
	const char *text = "podman";
	int r = json_object_string(o, "runtime", &text, err);

	if (r < 0)
		return r;
	if (strcmp(text, "docker") == 0)
		c->runtime = CONTAINER_DOCKER;
	else if (strcmp(text, "podman") != 0)
		return refuse(err, "runtime", "is not a container runtime", "write podman or docker");
	r = read_text(o, "oci_runtime", "", &c->oci_runtime, err);
	if (r == 0 && c->oci_runtime[0] && !is_name(c->oci_runtime))
		r = refuse(err, "oci_runtime", "is not the name of an OCI runtime",
			   "write a name, not a path: letters, digits, dot, underscore and dash");
	return r;
}

static int read_network(struct json_object *o, struct container_config *c, struct error *err)
{
	/* What shares somebody's network stack, or says how one is made. */
	static const char *const shared[] = {"host", "container", "ns", "private", "default"};
	int r = read_text(o, "network", "none", &c->network, err);

	if (r < 0)
		return r;
	if (!is_name(c->network))
		return refuse(err, "network", "is not the name of a network",
			      "write none, or the name of one of the runtime's networks");
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
		if (strcasecmp(c->network, shared[i]) == 0)
			return refuse(err, "network", "would share a network with something outside",
				      "write none, or the name of one of the runtime's networks");
	return 0;
}

/* --- limits --------------------------------------------------------------------------------- */

static int read_cpus(struct json_object *o, struct container_config *c, struct error *err)
{
	json_t *value = json_object_field(o, "cpus");

	if (!value)
		return 0;
	double cpus = json_is_number(value) ? json_number_value(value) : 0;
	if (!(cpus >= CPUS_MIN && cpus <= CPUS_MAX))
		return refuse(err, "cpus", "must be a number from 0.01 to 1048576", NULL);
	c->cpu_millis = (int64_t)(cpus * MILLIS + 0.5);
	return 0;
}

/* "512m", "2g", "1024k", "512": a number of MB. Returns 0 for what is none. */
static int64_t size_mb(const char *text)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return 0;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (errno || n <= 0 || n > SPEC_LIMIT_MB_MAX)
		return 0;
	if (strcmp(end, "g") == 0)
		return n > SPEC_LIMIT_MB_MAX / 1024 ? 0 : n * 1024;
	if (strcmp(end, "k") == 0)
		return n % 1024 == 0 ? n / 1024 : 0;
	return strcmp(end, "m") == 0 || *end == '\0' ? n : 0;
}

static int read_memory(struct json_object *o, struct container_config *c, struct error *err)
{
	json_t *value = json_object_field(o, "memory");

	if (!value)
		return 0;
	if (json_is_integer(value) && json_integer_value(value) <= SPEC_LIMIT_MB_MAX)
		c->memory_mb = json_integer_value(value);
	else if (json_is_string(value) && json_string_length(value) == strlen(json_string_value(value)))
		c->memory_mb = size_mb(json_string_value(value));
	return c->memory_mb > 0 ? 0
				: refuse(err, "memory", "is not a size",
					 "write as \"512m\", \"2g\", \"1024k\", or a number of MB");
}

static int read_limits(struct json_object *o, struct container_config *c, struct error *err)
{
	int r = read_cpus(o, c, err);

	if (r == 0)
		r = read_memory(o, c, err);
	c->pids_limit = CONTAINER_PIDS_DEFAULT;
	if (r == 0)
		r = field_int(o, "pids_limit", -1, SPEC_LIMIT_PIDS_MAX, &c->pids_limit, err);
	if (r == 0 && c->pids_limit == 0)
		r = refuse(err, "pids_limit", "must not be 0", "write -1 for no limit");
	if (r == 0)
		r = field_int(o, "orphan_grace_period_seconds", 0, CONTAINER_GRACE_MAX_S, &c->grace_s,
				err);
	if (r == 0 && c->grace_s == 0)
		c->grace_s = CONTAINER_GRACE_DEFAULT_S;
	return r;
}

/* --- options of the runtime ----------------------------------------------------------------- */

/*
 * Options that open the sandbox, hand it something of the host, make the runtime write where it is
 * told, end the container behind its supervisor's back, or are set by the driver.
 */
static const char *const denied[] = {
	"add-capability", "annotation", "arch", "attach", "authfile", "cap-add", "cap-drop",
	"cgroup-conf", "cgroup-manager", "cgroup-parent", "cgroupns", "cgroups", "chrootdirs", "cidfile",
	"config", "conmon", "conmon-pidfile", "connection", "context", "cpus", "cpu-period", "cpu-profile",
	"cpu-quota", "cpu-rt-period", "cpu-rt-runtime", "creds", "decryption-key", "detach", "device",
	"device-cgroup-rule", "device-read-bps", "device-read-iops", "device-write-bps",
	"device-write-iops", "disable-content-trust", "entrypoint", "env", "env-file", "env-host",
	"env-merge", "events-backend", "gidmap", "gpus", "group-add", "group-entry", "health-cmd",
	"health-on-failure", "help", "hooks-dir", "host", "hostuser", "http-proxy", "identity",
	"image-volume",
	"imagestore", "init-path", "interactive", "ip", "ip6", "ipc", "isolation", "kernel-memory",
	"label", "label-file", "link", "log-driver", "log-level", "log-opt", "mac-address", "memory",
	"memory-profile", "memory-reservation", "memory-swap", "memory-swappiness", "module", "mount",
	"name",
	"namespace", "net", "net-alias", "network", "network-alias", "network-cmd-path",
	"network-config-dir", "no-hosts", "noout", "oom-kill-disable", "oom-score-adj", "out", "passwd",
	"passwd-entry", "personality", "pid", "pidfile", "pids-limit", "platform", "pod", "pod-id-file",
	"preserve-fd", "preserve-fds", "privileged", "publish", "publish-all", "pull", "rdt-class",
	"read-only", "read-only-tmpfs", "remote", "replace", "requires", "restart", "rm", "rmi", "root",
	"rootfs", "runroot", "runtime", "runtime-flag", "sdnotify", "seccomp-policy", "secret",
	"security-opt", "sig-proxy", "ssh", "storage-driver", "storage-opt", "subgidname", "subuidname",
	"sysctl", "syslog", "systemd", "tls", "tlscacert", "tlscert", "tlskey", "tlsverify", "tls-verify",
	"timeout", "tmpdir", "tmpfs", "trace", "transient-store", "tty", "uidmap", "ulimit", "umask",
	"unsetenv",
	"unsetenv-all", "url", "use-api-socket", "user", "userns", "uts", "variant", "version", "volume",
	"volume-driver", "volumepath", "volumes-from", "workdir",
};

/* The length of the name behind the dashes. */
static size_t option_len(const char *arg)
{
	return strspn(arg + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
}

static bool is_denied(const char *arg)
{
	size_t len = option_len(arg);

	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		if (strlen(denied[i]) == len && strncmp(denied[i], arg + 2, len) == 0)
			return true;
	return strcasestr(arg, ".sock") != NULL;
}

static int read_extra_args(struct json_object *o, struct container_config *c, struct error *err)
{
	int r = field_list(o, "extra_args", &c->extra_args, &c->n_extra_args, err);
	const char *reason = NULL;

	if (r < 0)
		return r;
	if (c->n_extra_args > CONTAINER_EXTRA_ARGS_MAX)
		return refuse(err, "extra_args", "has too many entries", NULL);
	for (size_t i = 0; i < c->n_extra_args && !reason; i++) {
		const char *arg = c->extra_args[i];

		/* A short option can hide others behind it, and a bare word would be the image. */
		if (strncmp(arg, "--", 2) != 0 || arg[2] == '-' || option_len(arg) == 0 ||
		    strchr("=", arg[2 + option_len(arg)]) == NULL)
			reason = "is not a long option, with its value behind '='";
		else if (strlen(arg) > CONTAINER_EXTRA_ARG_BYTES_MAX || text_has_control(text_trimmed(arg)))
			reason = "is too long, or holds a control character";
		else if (is_denied(arg))
			reason = "would open the sandbox, or is set by the driver";
		if (reason) {
			r = error_set(err, EINVAL, "%s", reason);
			error_field(err, "extra_args[%zu]", i);
			error_remedy(err, "leave it out, or write it as --name=value");
		}
	}
	return r < 0 ? r : 0;
}

bool container_is_variable(const char *name)
{
	if (!isalpha((unsigned char)name[0]) && name[0] != '_')
		return false;
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_')
			return false;
	return true;
}

static int add_variable(struct container_config *c, const char *name, json_t *value)
{
	char *text;

	if (asprintf(&text, "%s=%s", name, json_string_value(value)) < 0)
		return -ENOMEM;
	c->runtime_env[c->n_runtime_env++] = text;
	return 0;
}

static int read_runtime_env(struct json_object *o, struct container_config *c, struct error *err)
{
	json_t *object = NULL, *value;
	const char *name;

	int r = json_object_object(o, "runtime_env", &object, err);
	if (r <= 0 || json_object_size(object) == 0)
		return r;
	if (json_object_size(object) > CONTAINER_RUNTIME_ENV_MAX)
		return refuse(err, "runtime_env", "has too many entries", NULL);
	c->runtime_env = calloc(json_object_size(object) + 1, sizeof(char *));
	if (!c->runtime_env)
		return error_oom(err);
	json_object_foreach(object, name, value)
	{
		if (!container_is_variable(name) || !json_is_string(value) ||
		    json_string_length(value) != strlen(json_string_value(value))) {
			r = error_set(err, EINVAL, "is not the name of a variable with a text");
			error_field(err, "runtime_env.%s", name);
			return r;
		}
		if (add_variable(c, name, value) < 0)
			return error_oom(err);
	}
	c->n_runtime_env = strlist_sort_unique(c->runtime_env, c->n_runtime_env);
	return 0;
}

/* --- images --------------------------------------------------------------------------------- */

#define DIGEST_PREFIX "@sha256:"
#define DIGEST_HEX 64

/* The parts of a reference; views into it. */
struct reference {
	struct text_view registry; /* empty: unqualified */
	struct text_view path;     /* without registry, tag and digest */
	bool has_digest;
};

static bool is_path_char(char c)
{
	return islower((unsigned char)c) || isdigit((unsigned char)c) || strchr("._-/", c);
}

static bool parse_digest(const char *at)
{
	const char *hex = at + strlen(DIGEST_PREFIX);

	return strncmp(at, DIGEST_PREFIX, strlen(DIGEST_PREFIX)) == 0 && strlen(hex) == DIGEST_HEX &&
	       strspn(hex, "0123456789abcdef") == DIGEST_HEX;
}

/* [registry[:port]/]path[:tag][@sha256:…] */
static bool parse_reference(const char *image, struct reference *ret)
{
	const char *at = strchr(image, '@'), *end = at ? at : image + strlen(image);
	const char *slash = memchr(image, '/', (size_t)(end - image)), *path = image;
	struct reference ref = {.has_digest = at != NULL};

	if (strlen(image) > SPEC_IMAGE_BYTES_MAX || (at && !parse_digest(at)))
		return false;
	if (slash) {
		size_t len = (size_t)(slash - image);
		bool host = memchr(image, '.', len) || memchr(image, ':', len) ||
			    (len == 9 && strncmp(image, "localhost", len) == 0);

		if (host) {
			ref.registry = (struct text_view){image, len};
			path = slash + 1;
		}
	}
	for (size_t i = 0; i < ref.registry.len; i++)
		if (!isalnum((unsigned char)image[i]) && !strchr(".-:", image[i]))
			return false;
	const char *colon = memchr(path, ':', (size_t)(end - path));
	const char *path_end = colon ? colon : end;
	if (path == path_end || !isalnum((unsigned char)*path) || path_end[-1] == '/')
		return false;
	for (const char *p = path; p < path_end; p++)
		if (!is_path_char(*p) || (*p == '/' && p[1] == '/'))
			return false;
	if (colon && (colon + 1 == end || end - colon > 129))
		return false;
	for (const char *p = colon ? colon + 1 : end; p < end; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return false;
	if (ref.registry.len > 0 && !isalnum((unsigned char)image[0]))
		return false;
	ref.path = (struct text_view){path, (size_t)(path_end - path)};
	*ret = ref;
	return true;
}

/* "registry/path", or with "/…" behind it, is that repository or one below it. */
static bool repo_matches(const char *repo, const struct reference *ref)
{
	char *name;

	if (asprintf(&name, "%.*s/%.*s", (int)ref->registry.len, ref->registry.data, (int)ref->path.len,
		     ref->path.data) < 0)
		return false;
	size_t len = strlen(repo);
	bool below = len > 2 && strcmp(repo + len - 2, "/*") == 0;
	bool match = below ? strncmp(repo, name, len - 1) == 0 : strcmp(repo, name) == 0;
	free(name);
	return match;
}

static int deny(struct error *err, const char *rule, const char *reason)
{
	int r = error_set(err, EACCES, "image policy (%s): %s", rule, reason);

	error_field(err, "image");
	error_remedy(err, "name an image that the executor's image_policy allows");
	return r;
}

int container_image_check(const struct container_config *c, const char *image, struct error *err)
{
	struct reference ref;
	bool found = c->n_registries == 0;

	if (!parse_reference(image, &ref)) {
		int r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "is not a reference to an image");

		error_field(err, "image");
		error_remedy(err, "write as registry/name:tag or registry/name@sha256:…");
		return r;
	}
	if (ref.registry.len == 0 && (c->n_registries > 0 || c->n_repos > 0))
		return deny(err, "unqualified-reference", "the reference names no registry");
	for (size_t i = 0; i < c->n_registries && !found; i++)
		found = strlen(c->registries[i]) == ref.registry.len &&
			strncasecmp(c->registries[i], ref.registry.data, ref.registry.len) == 0;
	if (!found)
		return deny(err, "registry-allowlist", "the registry is not allowed");
	found = c->n_repos == 0;
	for (size_t i = 0; i < c->n_repos && !found; i++)
		found = repo_matches(c->repos[i], &ref);
	if (!found)
		return deny(err, "repository-allowlist", "the repository is not allowed");
	if (c->require_digest && !ref.has_digest)
		return deny(err, "digest-required", "the reference has no digest");
	return 0;
}

static int read_policy(struct json_object *o, struct container_config *c, struct error *err)
{
	struct json_object policy;
	json_t *object = NULL;

	int r = json_object_object(o, "image_policy", &object, err);
	if (r <= 0)
		return r;
	r = json_object_begin(&policy, object, "image_policy", err);
	if (r >= 0)
		r = field_list(&policy, "registries", &c->registries, &c->n_registries, err);
	if (r >= 0)
		r = field_list(&policy, "repos", &c->repos, &c->n_repos, err);
	if (r >= 0)
		r = json_object_bool(&policy, "require_digest", &c->require_digest, err);
	if (r >= 0)
		r = json_object_end(&policy, err);
	if (r < 0)
		return r;
	if (c->n_registries > CONTAINER_POLICY_ENTRIES_MAX || c->n_repos > CONTAINER_POLICY_ENTRIES_MAX)
		return refuse(err, "image_policy", "has too many entries", NULL);
	for (size_t i = 0; i < c->n_registries + c->n_repos; i++)
		if (!(i < c->n_registries ? c->registries[i] : c->repos[i - c->n_registries])[0])
			return refuse(err, "image_policy", "has an empty entry", NULL);
	c->n_registries = strlist_sort_unique(c->registries, c->n_registries);
	c->n_repos = strlist_sort_unique(c->repos, c->n_repos);
	return 0;
}

static int read_image(struct json_object *o, struct container_config *c, struct error *err)
{
	int r = read_text(o, "image", "", &c->image, err);

	if (r == 0)
		r = read_policy(o, c, err);
	if (r == 0 && c->image[0])
		r = container_image_check(c, c->image, err);
	return r < 0 ? r : 0;
}

/* --- the whole ------------------------------------------------------------------------------ */

int container_config_read(struct json_object *o, struct container_config *ret, struct error *err)
{
	AUTO_CONTAINER_CONFIG struct container_config c = {0};
	int r = read_runtime(o, &c, err);

	if (r >= 0)
		r = read_runtime_env(o, &c, err);
	if (r >= 0)
		r = read_image(o, &c, err);
	if (r >= 0)
		r = read_limits(o, &c, err);
	if (r >= 0)
		r = read_network(o, &c, err);
	if (r >= 0)
		r = read_extra_args(o, &c, err);
	if (r >= 0)
		r = read_text(o, "selinux_label", "", &c.selinux_label, err);
	if (r >= 0 && c.selinux_label[0] && strcmp(c.selinux_label, "z") != 0 &&
	    strcmp(c.selinux_label, "Z") != 0)
		r = refuse(err, "selinux_label", "is not a label", "write z or Z");
	if (r < 0)
		return r;
	*ret = c;
	c = (struct container_config){0};
	return 0;
}

int container_config_load(json_t *options, struct container_config *ret, struct error *err)
{
	AUTO_JSON json_t *none = json_object();
	struct json_object o;

	if (!none)
		return error_oom(err);
	int r = json_object_begin(&o, options ? options : none, "", err);
	return r < 0 ? r : container_config_read(&o, ret, err);
}

static int put_list(json_t *o, const char *name, char *const *list, size_t n)
{
	return n > 0 ? json_put_new(o, name, strlist_to_json(list, n)) : 0;
}

static int put_runtime_env(json_t *o, const struct container_config *c)
{
	json_t *env = c->n_runtime_env > 0 ? json_object() : NULL;
	int r = 0;

	if (c->n_runtime_env == 0)
		return 0;
	for (size_t i = 0; i < c->n_runtime_env && env && r == 0; i++) {
		const char *equals = strchr(c->runtime_env[i], '=');
		AUTO_FREE char *name = strndup(c->runtime_env[i], (size_t)(equals - c->runtime_env[i]));

		r = name ? json_put_string(env, name, equals + 1) : -ENOMEM;
	}
	if (r < 0) {
		json_decref(env);
		return r;
	}
	return json_put_new(o, "runtime_env", env);
}

static int put_policy(json_t *o, const struct container_config *c)
{
	if (c->n_registries == 0 && c->n_repos == 0 && !c->require_digest)
		return 0;
	json_t *policy = json_object();
	if (!policy || put_list(policy, "registries", c->registries, c->n_registries) < 0 ||
	    put_list(policy, "repos", c->repos, c->n_repos) < 0 ||
	    json_put_bool_if(policy, "require_digest", c->require_digest) < 0) {
		json_decref(policy);
		return -ENOMEM;
	}
	return json_put_new(o, "image_policy", policy);
}

json_t *container_config_to_json(const struct container_config *c)
{
	AUTO_JSON json_t *o = json_object();

	if (!o || json_put_string(o, "runtime", container_runtime_name(c->runtime)) < 0 ||
	    put_runtime_env(o, c) < 0 || json_put_string_if(o, "oci_runtime", c->oci_runtime) < 0 ||
	    json_put_string_if(o, "image", c->image) < 0 || put_policy(o, c) < 0)
		return NULL;
	if (c->cpu_millis > 0 &&
	    json_put_new(o, "cpus",
			 c->cpu_millis % 1000 == 0 ? json_integer(c->cpu_millis / 1000)
						   : json_real((double)c->cpu_millis / MILLIS)) < 0)
		return NULL;
	if (json_put_int_if(o, "memory", c->memory_mb) < 0 ||
	    (c->pids_limit != CONTAINER_PIDS_DEFAULT && json_put_int(o, "pids_limit", c->pids_limit) < 0))
		return NULL;
	if (strcmp(c->network, "none") != 0 && json_put_string(o, "network", c->network) < 0)
		return NULL;
	if (put_list(o, "extra_args", c->extra_args, c->n_extra_args) < 0 ||
	    json_put_string_if(o, "selinux_label", c->selinux_label) < 0)
		return NULL;
	if (c->grace_s != CONTAINER_GRACE_DEFAULT_S &&
	    json_put_int(o, "orphan_grace_period_seconds", c->grace_s) < 0)
		return NULL;
	return take_ptr(o);
}
