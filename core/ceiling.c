#include "core/ceiling.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "core/field.h"
#include "core/owner.h"
#include "core/pathname.h"
#include "core/strlist.h"

static const char *const mode_names[] = {
	[NETWORK_MODE_UNKNOWN] = "",
	[NETWORK_MODE_NONE] = "none",
	[NETWORK_MODE_ALLOWLIST] = "allowlist",
};

const char *network_mode_name(enum network_mode mode)
{
	return mode_names[(size_t)mode < ARRAY_SIZE(mode_names) ? mode : NETWORK_MODE_UNKNOWN];
}

enum network_mode network_mode_parse(const char *word)
{
	for (size_t i = NETWORK_MODE_NONE; i < ARRAY_SIZE(mode_names); i++)
		if (strcmp(mode_names[i], word) == 0)
			return (enum network_mode)i;
	return NETWORK_MODE_UNKNOWN;
}

static int refuse(struct error *err, int code, const char *field, const char *reason)
{
	int r = error_set(err, code, "%s", reason);

	error_field(err, "%s", field);
	return r;
}

static int exceeds(struct error *err, const char *field, const char *reason)
{
	int r = refuse(err, EACCES, field, reason);

	error_remedy(err, "ask for less; cat /cloop/policy/ceiling shows what is allowed");
	return r;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

/* What DNS allows for a name and for one of its parts. */
#define HOST_BYTES_MAX 253
#define HOST_LABEL_BYTES_MAX 63

static bool name_valid(struct text_view v)
{
	size_t label = 0;

	if (v.len == 0 || v.len > HOST_BYTES_MAX)
		return false;
	for (size_t i = 0; i <= v.len; i++) {
		if (i < v.len && v.data[i] != '.') {
			if (!is_name_byte(v.data[i]))
				return false;
			label++;
			continue;
		}
		if (label == 0 || label > HOST_LABEL_BYTES_MAX || v.data[i - label] == '-' ||
		    v.data[i - 1] == '-')
			return false;
		label = 0;
	}
	return true;
}

static bool address_valid(struct text_view v)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (v.len == 0 || v.len >= sizeof(text))
		return false;
	memcpy(text, v.data, v.len);
	text[v.len] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1;
}

/* Nothing, or a colon and a number from 1 to 65535 without a leading zero. */
static bool port_valid(struct text_view v)
{
	unsigned long port = 0;

	if (v.len == 0)
		return true;
	if (v.len < 2 || v.len > 6 || v.data[0] != ':' || v.data[1] == '0')
		return false;
	for (size_t i = 1; i < v.len; i++) {
		if (!is_digit(v.data[i]))
			return false;
		port = port * 10 + (unsigned long)(v.data[i] - '0');
	}
	return port <= 65535;
}

bool network_host_valid(struct text_view v)
{
	const char *end;

	if (v.len == 0 || memchr(v.data, '\0', v.len))
		return false;
	if (v.data[0] == '[') {
		end = memchr(v.data, ']', v.len);
		if (!end)
			return false;

		size_t n = (size_t)(end - v.data);
		return address_valid((struct text_view){v.data + 1, n - 1}) &&
		       port_valid((struct text_view){end + 1, v.len - n - 1});
	}
	end = memchr(v.data, ':', v.len);
	size_t n = end ? (size_t)(end - v.data) : v.len;
	return name_valid((struct text_view){v.data, n}) &&
	       port_valid((struct text_view){v.data + n, v.len - n});
}

static struct text_view view_of(const char *s)
{
	return (struct text_view){text_or_empty(s), strlen(text_or_empty(s))};
}

int ceiling_check(const struct ceiling *c, struct error *err)
{
	if (c->n_allowed_images > c->max_allowed_images)
		return refuse(err, EINVAL, "allowed_images", "names more than max_allowed_images");
	for (size_t i = 0; i < c->n_allowed_images; i++)
		if (!c->allowed_images[i][0])
			return refuse(err, EINVAL, "allowed_images", "names an empty digest");
	if (c->n_allowed_network_hosts > c->max_allowed_hosts)
		return refuse(err, EINVAL, "allowed_network_hosts",
			      "names more than max_allowed_hosts");
	for (size_t i = 0; i < c->n_allowed_network_hosts; i++)
		if (!network_host_valid(view_of(c->allowed_network_hosts[i])))
			return refuse(err, EINVAL, "allowed_network_hosts",
				      "names something that is not one host");
	return 0;
}

static bool fits(const struct ceiling *c, const char *text)
{
	return strlen(text) <= c->max_string_bytes;
}

static int check_image(const struct ceiling *c, const struct isolated_spec *s, struct error *err)
{
	const char *digest = text_or_empty(s->image_digest);

	if (!digest[0])
		return refuse(err, EINVAL, "image_digest", "must name an image");
	if (!fits(c, digest))
		return exceeds(err, "image_digest", "is longer than is allowed");
	if (!strlist_contains(c->allowed_images, c->n_allowed_images, digest))
		return exceeds(err, "image_digest", "is not an image that is allowed");
	return 0;
}

static int check_entrypoint(const struct ceiling *c, const struct isolated_spec *s,
			    struct error *err)
{
	if (s->n_entrypoint == 0 || !s->entrypoint[0][0])
		return refuse(err, EINVAL, "entrypoint", "must name the program to run");
	if (s->n_entrypoint > c->max_arguments)
		return exceeds(err, "entrypoint", "has more arguments than are allowed");
	for (size_t i = 0; i < s->n_entrypoint; i++)
		if (!fits(c, s->entrypoint[i]))
			return exceeds(err, "entrypoint",
				       "has an argument that is longer than is allowed");
	return 0;
}

static int check_environment(const struct ceiling *c, const struct isolated_spec *s,
			     struct error *err)
{
	if (s->n_environment > c->max_environment)
		return exceeds(err, "environment", "has more variables than are allowed");
	for (size_t i = 0; i < s->n_environment; i++) {
		const struct spec_label *v = &s->environment[i];

		if (!v->key[0] || strchr(v->key, '='))
			return refuse(err, EINVAL, "environment", "has a variable without a name");
		if (!fits(c, v->key) || !fits(c, v->value))
			return exceeds(err, "environment",
				       "has a variable that is longer than is allowed");
	}
	return 0;
}

static int check_directory(const struct ceiling *c, const struct isolated_spec *s,
			   struct error *err)
{
	const char *dir = text_or_empty(s->working_directory);

	if (!fits(c, dir))
		return exceeds(err, "working_directory", "is longer than is allowed");
	if (!s->workspace_archive)
		return !dir[0] || strcmp(dir, "/") == 0
			       ? 0
			       : refuse(err, EINVAL, "working_directory",
					"must be / or empty without an archive of the workspace");
	if (!pathname_is_clean(dir, strlen(dir)) || !pathname_is_below(dir, ISOLATED_SOURCE_DIR))
		return refuse(err, EINVAL, "working_directory",
			      "must be a clean path in " ISOLATED_SOURCE_DIR);
	return 0;
}

/* What no ceiling can allow. */
static int check_privileges(const struct ceiling *c, const struct isolated_spec *s,
			    struct error *err)
{
	if (s->privileged)
		return exceeds(err, "privileged", "is never allowed");
	if (s->n_host_mounts > 0)
		return exceeds(err, "host_mounts", "are never allowed");
	if (s->expose_runtime_socket)
		return exceeds(err, "expose_runtime_socket", "is never allowed");
	if (!s->no_new_privileges)
		return exceeds(err, "no_new_privileges", "must be set");
	if (c->require_read_only_root && !s->read_only_root)
		return exceeds(err, "read_only_root", "must be set");
	return 0;
}

static int check_network(const struct ceiling *c, const struct isolated_spec *s, struct error *err)
{
	if (s->network == NETWORK_MODE_NONE)
		return s->n_allowed_hosts == 0
			       ? 0
			       : refuse(err, EINVAL, "allowed_hosts",
					"must be empty for a workload without network");
	if (s->network != NETWORK_MODE_ALLOWLIST)
		return refuse(err, EINVAL, "network", "must be none or allowlist");
	if (!c->permit_network)
		return exceeds(err, "network", "is not allowed");
	if (s->n_allowed_hosts == 0)
		return refuse(err, EINVAL, "allowed_hosts", "must name a host");
	if (s->n_allowed_hosts > c->max_allowed_hosts)
		return exceeds(err, "allowed_hosts", "names more hosts than are allowed");
	for (size_t i = 0; i < s->n_allowed_hosts; i++) {
		const char *host = s->allowed_hosts[i];

		if (!fits(c, host))
			return exceeds(err, "allowed_hosts", "names one longer than is allowed");
		if (!network_host_valid(view_of(host)))
			return refuse(err, EINVAL, "allowed_hosts",
				      "names something that is not one host");
		if (!strlist_contains(c->allowed_network_hosts, c->n_allowed_network_hosts, host))
			return exceeds(err, "allowed_hosts", "names a host that is not allowed");
	}
	return 0;
}

/* The limits that every workload has; GPUs are apart. */
static const struct limit {
	const char *name;
	size_t offset;
} limits[] = {
	{"limits.cpu_millis", offsetof(struct isolated_limits, cpu_millis)},
	{"limits.memory_bytes", offsetof(struct isolated_limits, memory_bytes)},
	{"limits.disk_bytes", offsetof(struct isolated_limits, disk_bytes)},
	{"limits.pids", offsetof(struct isolated_limits, pids)},
	{"limits.execution_time", offsetof(struct isolated_limits, execution_time_ns)},
	{"limits.output_bytes", offsetof(struct isolated_limits, output_bytes)},
};

static uint64_t limit_at(const struct isolated_limits *l, const struct limit *limit)
{
	return *(const uint64_t *)((const char *)l + limit->offset);
}

static int check_limits(const struct ceiling *c, const struct isolated_spec *s, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		uint64_t asked = limit_at(&s->limits, &limits[i]);

		if (asked == 0)
			return refuse(err, EINVAL, limits[i].name, "must be set");
		if (asked > limit_at(&c->limits, &limits[i]))
			return exceeds(err, limits[i].name, "is above the ceiling");
	}
	if (!s->allow_gpu)
		return s->limits.gpu_device_count == 0
			       ? 0
			       : refuse(err, EINVAL, "limits.gpu_device_count",
					"must be 0 for a workload without a GPU");
	if (!c->permit_gpu)
		return exceeds(err, "allow_gpu", "is not allowed");
	if (s->limits.gpu_device_count == 0)
		return refuse(err, EINVAL, "limits.gpu_device_count", "must be set");
	if (s->limits.gpu_device_count > c->limits.gpu_device_count)
		return exceeds(err, "limits.gpu_device_count", "is above the ceiling");
	return 0;
}

int ceiling_check_spec(const struct ceiling *c, const struct isolated_spec *s, struct error *err)
{
	int r;

	if ((r = check_privileges(c, s, err)) < 0 || (r = check_image(c, s, err)) < 0 ||
	    (r = check_entrypoint(c, s, err)) < 0 || (r = check_environment(c, s, err)) < 0 ||
	    (r = check_directory(c, s, err)) < 0 || (r = check_network(c, s, err)) < 0)
		return r;
	return check_limits(c, s, err);
}

int ceiling_check_input(const struct ceiling *c, uint64_t bytes, struct error *err)
{
	if (bytes <= c->max_input_bytes)
		return 0;
	return refuse(err, EFBIG, "input", "is larger than is allowed");
}

int isolated_result_check(const struct isolated_limits *l, int64_t exit_code, uint64_t output_bytes,
			  const struct isolated_usage *usage, struct error *err)
{
	if (exit_code < 0 || exit_code > 255)
		return refuse(err, EPROTO, "exit_code", "is not from 0 to 255");
	if (output_bytes > l->output_bytes)
		return refuse(err, EPROTO, "output", "is larger than its limit");
	if (usage->cpu_millis > l->cpu_millis)
		return refuse(err, EPROTO, "usage.cpu_millis", "is above its limit");
	if (usage->peak_memory_bytes > l->memory_bytes)
		return refuse(err, EPROTO, "usage.peak_memory", "is above its limit");
	if (usage->disk_written_bytes > l->disk_bytes)
		return refuse(err, EPROTO, "usage.disk_written", "is above its limit");
	if (usage->duration_ns < 0 || (uint64_t)usage->duration_ns > l->execution_time_ns)
		return refuse(err, EPROTO, "usage.duration", "is negative or above its limit");
	return 0;
}

int execution_digest(const char *id, size_t len, char ret[static EXECUTION_DIGEST_LEN + 1],
		     struct error *err)
{
	/* The NUL that ends the literal is the one between the two. */
	unsigned char text[sizeof(EXECUTION_ID_DOMAIN) + EXECUTION_ID_BYTES_MAX];
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (len == 0 || len > EXECUTION_ID_BYTES_MAX)
		return refuse(err, EINVAL, "execution_id", "must have from 1 to 128 bytes");
	memcpy(text, EXECUTION_ID_DOMAIN, sizeof(EXECUTION_ID_DOMAIN));
	memcpy(text + sizeof(EXECUTION_ID_DOMAIN), id, len);
	if (EVP_Digest(text, sizeof(EXECUTION_ID_DOMAIN) + len, digest, &n, EVP_sha256(), NULL) !=
	    1)
		return error_oom(err);
	memcpy(ret, "sha256:", 8);
	for (unsigned i = 0; i < n; i++)
		(void)snprintf(ret + 7 + 2 * (size_t)i, 3, "%02x", digest[i]);
	return 0;
}

int isolated_max_active_check(int64_t max_active, struct error *err)
{
	if (max_active >= 1 && max_active <= ISOLATED_ACTIVE_MAX)
		return 0;
	return refuse(err, EINVAL, "max_active", "must be from 1 to 256");
}
