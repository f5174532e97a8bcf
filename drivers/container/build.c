#include "drivers/container/build.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/owner.h"
#include "drivers/container/argv.h"
#include "drivers/container/internal.h"

/* Half an hour: what takes longer belongs into an image that somebody makes. */
#define BUILD_TIMEOUT_MS (INT64_C(30) * 60 * 1000)
#define BUILDS_DIR "builds"
#define BUILD_FILE "Containerfile"
#define TAG_PREFIX "localhost/cloop-setup:"

struct build_waiter {
	struct build_waiter *next;
	container_build_fn *done;
	void *user;
};

struct build {
	LIST_ENTRY(build) link;
	struct container_builds *builds;
	char *tag;
	struct buf text; /* the end of what was said */
	bool cut;
	uint64_t run;
	struct build_waiter *waiters;
};

struct container_builds {
	struct driver_shims *shims;
	LIST_HEAD(build_list, build) list;
};

char *container_build_tag(const char *base, char *const *commands, size_t n)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(ctx, base, strlen(base) + 1) == 1;
	char *tag = NULL;

	/* With its NUL each: two lists that differ are never the same bytes. */
	for (size_t i = 0; i < n && good; i++)
		good = EVP_DigestUpdate(ctx, commands[i], strlen(commands[i]) + 1) == 1;
	good = good && EVP_DigestFinal_ex(ctx, digest, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	if (good)
		tag = malloc(sizeof(TAG_PREFIX) + 64);
	if (!tag)
		return NULL;
	char *p = stpcpy(tag, TAG_PREFIX);
	for (size_t i = 0; i < 32; i++)
		p += sprintf(p, "%02x", digest[i]);
	return tag;
}

char *container_build_file(const char *base, char *const *commands, size_t n)
{
	struct buf b = BUF_INIT(SPEC_SETUP_COMMANDS_MAX * (size_t)SPEC_SETUP_COMMAND_BYTES_MAX * 6);

	buf_printf(&b, "FROM %s\nLABEL %s=true\n", base, CONTAINER_LABEL_MANAGED);
	for (size_t i = 0; i < n; i++) {
		AUTO_JSON json_t *argv = json_pack("[s,s,s]", "/bin/sh", "-c", commands[i]);
		/* Escaped: what is beyond ASCII, and everything that ends a line. */
		AUTO_FREE char *text = argv ? json_write(argv, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

		if (!text) {
			buf_free(&b);
			return NULL;
		}
		buf_printf(&b, "RUN %s\n", text);
	}
	if (b.failed) {
		buf_free(&b);
		return NULL;
	}
	return buf_take(&b);
}

/* Writes the file into a folder of its own below the runtime directory: the build's whole context. */
static int write_file(int runtime_fd, const char *name, const char *text)
{
	size_t len = strlen(text);

	if (mkdirat(runtime_fd, BUILDS_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	AUTO_CLOSE int all = openat(runtime_fd, BUILDS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (all < 0 || (mkdirat(all, name, 0700) < 0 && errno != EEXIST))
		return -errno;
	AUTO_CLOSE int dir = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	AUTO_CLOSE int fd = openat(dir, BUILD_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -ENOSPC;
}

static void remove_file(int runtime_fd, const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), BUILDS_DIR "/%s/" BUILD_FILE, name);
	(void)unlinkat(runtime_fd, path, 0);
	(void)snprintf(path, sizeof(path), BUILDS_DIR "/%s", name);
	(void)unlinkat(runtime_fd, path, AT_REMOVEDIR);
	(void)unlinkat(runtime_fd, BUILDS_DIR, AT_REMOVEDIR);
}

static const char *name_of(const char *tag)
{
	return tag + strlen(TAG_PREFIX);
}

static struct build *build_free(struct build *b)
{
	if (!b)
		return NULL;
	LIST_REMOVE(b, link);
	remove_file(driver_shims_options(b->builds->shims)->runtime_fd, name_of(b->tag));
	while (b->waiters) {
		struct build_waiter *w = b->waiters;

		b->waiters = w->next;
		free(w);
	}
	buf_free(&b->text);
	free(b->tag);
	free(b);
	return NULL;
}

static void on_output(void *user, enum shim_stream stream, const char *bytes, size_t len)
{
	struct build *b = user;
	size_t keep = CONTAINER_BUILD_TEXT_MAX / 2;

	(void)stream;
	if (len > keep) {
		bytes += len - keep;
		len = keep;
		b->cut = true;
	}
	if (b->text.len + len > CONTAINER_BUILD_TEXT_MAX) {
		memmove(b->text.data, b->text.data + b->text.len - keep, keep);
		b->text.len = keep;
		b->text.data[keep] = '\0';
		b->cut = true;
	}
	buf_append(&b->text, bytes, len);
}

static void finished(void *user, const struct run_result *result, const struct error *failed)
{
	struct build *b = user;
	struct build_waiter *waiters = take_ptr(b->waiters);
	AUTO_FREE char *text = NULL;
	const struct error *verdict = failed;
	char line[256];
	struct error err;

	/* A NUL would end what is said to the log. */
	for (size_t i = 0; i < b->text.len; i++)
		if (b->text.data[i] == '\0')
			b->text.data[i] = '?';
	text = b->text.len > 0 ? buf_take(&b->text) : NULL;
	if (!failed && (result->timed_out || result->exit_code != 0)) {
		container_last_line(text ? text : "", line, sizeof(line));
		if (result->timed_out)
			(void)error_set(&err, ETIMEDOUT, "the setup commands do not come to an end");
		else
			(void)error_set(&err, EIO, "the setup commands failed: %s", line);
		error_field(&err, "setup_commands");
		verdict = &err;
	}
	(void)build_free(b);
	while (waiters) {
		struct build_waiter *w = waiters;

		waiters = w->next;
		w->done(w->user, text ? text : "", verdict);
		free(w);
	}
}

static int start(struct build *b, const struct container_config *config, char *const *env,
		 const char *base, const struct spec *spec, struct error *err)
{
	int runtime_fd = driver_shims_options(b->builds->shims)->runtime_fd;
	AUTO_FREE char *file = container_build_file(base, spec->setup_commands, spec->n_setup_commands);
	char link[32], runtime[PATH_MAX], dir[PATH_MAX + 256], path[PATH_MAX + 512], network[128];

	if (!file)
		return error_oom(err);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", runtime_fd);
	ssize_t n = readlink(link, runtime, sizeof(runtime) - 1);
	int r = n < 0 ? -errno : write_file(runtime_fd, name_of(b->tag), file);
	if (r < 0)
		return error_set(err, -r, "the build file cannot be written: %s", strerrordesc_np(-r));
	runtime[n] = '\0';
	(void)snprintf(dir, sizeof(dir), "%s/" BUILDS_DIR "/%s", runtime, name_of(b->tag));
	(void)snprintf(path, sizeof(path), "%s/" BUILD_FILE, dir);
	(void)snprintf(network, sizeof(network), "--network=%s",
		       spec->disable_network ? "none" : config->network);
	const char *argv[] = {
		container_runtime_name(config->runtime), "build", "--pull=never", "--no-cache",
		"--force-rm", network, "--cap-drop=all",
		"--cap-add=CHOWN,DAC_OVERRIDE,FOWNER,FSETID,SETGID,SETUID",
		"--http-proxy=false", "--tag", b->tag, "--file", path,
		dir, NULL};
	const struct run_command command = {
		.argv = (char *const *)(uintptr_t)argv,
		.env = env,
		.uid = geteuid(),
		.gid = getegid(),
		.timeout_ms = BUILD_TIMEOUT_MS,
		.on_output = on_output,
	};
	return shim_client_run(driver_shims_client(b->builds->shims), &command, finished, b, &b->run, err);
}

static struct build *find(struct container_builds *builds, const char *tag)
{
	struct build *b;

	LIST_FOREACH (b, &builds->list, link)
		if (strcmp(b->tag, tag) == 0)
			return b;
	return NULL;
}

int container_builds_make(struct container_builds *builds, const struct container_config *config,
			  char *const *env, const char *base, const struct spec *spec, const char *tag,
			  container_build_fn *done, void *user, struct error *err)
{
	struct build_waiter *w = calloc(1, sizeof(*w));
	struct build *b = find(builds, tag);
	int r = 0;

	if (!w)
		return error_oom(err);
	*w = (struct build_waiter){.done = done, .user = user};
	if (!b) {
		b = calloc(1, sizeof(*b));
		char *copy = b ? strdup(tag) : NULL;

		if (!copy) {
			free(b);
			free(w);
			return error_oom(err);
		}
		b->builds = builds;
		b->tag = copy;
		b->text = BUF_INIT(CONTAINER_BUILD_TEXT_MAX);
		LIST_INSERT_HEAD(&builds->list, b, link);
		r = start(b, config, env, base, spec, err);
		if (r < 0)
			(void)build_free(b);
	}
	if (r < 0) {
		free(w);
		return r;
	}
	w->next = b->waiters;
	b->waiters = w;
	return 0;
}

struct container_builds *container_builds_new(struct driver_shims *shims)
{
	struct container_builds *builds = calloc(1, sizeof(*builds));

	if (!builds)
		return NULL;
	builds->shims = shims;
	LIST_INIT(&builds->list);
	return builds;
}

struct container_builds *container_builds_free(struct container_builds *builds)
{
	if (!builds)
		return NULL;
	while (!LIST_EMPTY(&builds->list)) {
		struct build *b = LIST_FIRST(&builds->list);

		shim_client_run_cancel(driver_shims_client(builds->shims), b->run);
		(void)build_free(b);
	}
	free(builds);
	return NULL;
}
