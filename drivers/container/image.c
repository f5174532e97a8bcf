#include "drivers/container/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/owner.h"
#include "core/text.h"
#include "drivers/container/argv.h"
#include "drivers/container/internal.h"
#include "drivers/shim/run.h"

/* A runtime that does not answer in this time is not there. */
#define INSPECT_TIMEOUT_MS 30000
#define ID_HEX 64
/* Times of files are those of the last tick of the kernel's clock. */
#define TICK_NS (20 * CLOCK_NS_PER_MS)

struct waiter {
	struct waiter *next;
	container_image_fn *done;
	void *user;
};

/* When a file was changed last, and which one it is. */
struct stamp {
	uint64_t dev, ino, size;
	int64_t mtime_ns;
};

struct entry {
	TAILQ_ENTRY(entry) link;
	struct container_images *images; /* NULL: freed while a file was looked at */
	char *key;                       /* runtime, environment and reference */
	const char *reference;           /* in key */
	char **argv, **env;              /* of the inspection */
	struct container_image_facts facts;
	bool known; /* facts are, as long as the stamp is the same */
	bool busy;
	bool looking; /* `stat` is on its way */
	struct stamp stamp;
	int64_t asked_ns;
	uint64_t run;
	struct waiter *waiters, **last;
	uv_fs_t stat;
};

TAILQ_HEAD(entries, entry);

struct container_images {
	struct driver_shims *shims;
	struct entries entries; /* the one that was used last comes first */
	size_t n;
};

void container_image_facts_clear(struct container_image_facts *f)
{
	free(f->image);
	free(f->listed);
	*f = (struct container_image_facts){0};
}

/* --- what an inspection says ---------------------------------------------------------------- */

static const char *text_at(json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);

	/* With a NUL inside it is nothing that we could use. */
	if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
		return "";
	return json_string_value(value);
}

static bool is_id(const char *text)
{
	if (strncmp(text, "sha256:", 7) == 0)
		text += 7;
	return strlen(text) == ID_HEX && strspn(text, "0123456789abcdef") == ID_HEX;
}

/* The name in a reference, without tag and digest. */
static size_t name_length(const char *reference)
{
	size_t len = strcspn(reference, "@");
	const char *slash = memrchr(reference, '/', len);
	const char *from = slash ? slash : reference;
	const char *colon = memchr(from, ':', len - (size_t)(from - reference));

	return colon ? (size_t)(colon - reference) : len;
}

/* The digest under the name that was asked for, else under any. */
static const char *choose_digest(json_t *image, const char *reference)
{
	static const struct container_config anything;
	json_t *digests = json_object_get(image, "RepoDigests"), *value;
	size_t len = name_length(reference), i;
	const char *first = "";
	struct error err;

	json_array_foreach(digests, i, value)
	{
		const char *text = json_is_string(value) ? json_string_value(value) : "";

		if (!strchr(text, '@') || container_image_check(&anything, text, &err) < 0)
			continue;
		if (strncmp(text, reference, len) == 0 && text[len] == '@')
			return text;
		if (!first[0])
			first = text;
	}
	return first;
}

/* <root>/overlay/<layer>/diff is a layer of an image that <root>/overlay-images/images.json lists. */
static char *find_list(json_t *image)
{
	json_t *driver = json_object_get(image, "GraphDriver");
	const char *name = text_at(driver, "Name");
	const char *upper = text_at(json_object_get(driver, "Data"), "UpperDir");
	char *middle, *list = NULL;

	if (!name[0] || strchr(name, '/') || upper[0] != '/' || asprintf(&middle, "/%s/", name) < 0)
		return strdup("");
	const char *end = NULL;
	for (const char *p = upper; (p = strstr(p, middle)); p++)
		end = p;
	free(middle);
	if (!end)
		return strdup("");
	return asprintf(&list, "%.*s/%s-images/images.json", (int)(end - upper), upper, name) < 0 ? NULL
												: list;
}

static int refuse(struct error *err, int code, const char *reason, const char *remedy)
{
	int r = error_set(err, code, "%s", reason);

	error_field(err, "image");
	if (remedy)
		error_remedy(err, "%s", remedy);
	return r;
}

int container_image_parse(const char *text, size_t len, const char *reference,
			  struct container_image_facts *ret, struct error *err)
{
	AUTO_JSON json_t *document = NULL;
	if (json_read(text, len, 0, &document, NULL) == -ENOMEM)
		return error_oom(err);
	json_t *image = json_array_get(document, 0);
	json_t *entrypoint = json_object_get(json_object_get(image, "Config"), "Entrypoint");
	struct container_image_facts f = {0};

	if (json_array_size(document) != 1 || !is_id(text_at(image, "Id")))
		return refuse(err, EIO, "the container runtime does not say which image that is", NULL);
	/* A string, or a list of them; either way there is something before argv. */
	if (json_array_size(entrypoint) > 0 || (json_is_string(entrypoint) && json_string_length(entrypoint) > 0))
		return refuse(err, EINVAL, "the image has an ENTRYPOINT, and would not execute argv itself",
			      "use an image without one");
	const char *digest = choose_digest(image, reference);
	f.image = strdup(digest[0] ? digest : text_at(image, "Id"));
	f.listed = find_list(image);
	if (!f.image || !f.listed) {
		container_image_facts_clear(&f);
		return error_oom(err);
	}
	*ret = f;
	return 0;
}

/* --- answers -------------------------------------------------------------------------------- */

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

static struct entry *entry_free(struct entry *e)
{
	if (!e)
		return NULL;
	while (e->waiters) {
		struct waiter *w = e->waiters;

		e->waiters = w->next;
		free(w);
	}
	container_image_facts_clear(&e->facts);
	free_list(e->argv);
	free_list(e->env);
	free(e->key);
	free(e);
	return NULL;
}

/* Tells everybody who waits; they may ask again at once. */
static void answer(struct entry *e, const struct error *err)
{
	struct waiter *waiters = take_ptr(e->waiters);
	AUTO_FREE char *image = err ? NULL : strdup(e->facts.image);
	struct error oom;

	e->last = &e->waiters;
	e->busy = false;
	if (!err && !image) {
		(void)error_oom(&oom);
		err = &oom;
	}
	while (waiters) {
		struct waiter *w = waiters;

		waiters = w->next;
		w->done(w->user, image, err);
		free(w);
	}
}

static void fail(struct entry *e, const struct error *err)
{
	e->known = false;
	answer(e, err);
}

static struct stamp stamp_of(const uv_fs_t *req)
{
	const uv_stat_t *st = &req->statbuf;

	return (struct stamp){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * CLOCK_NS_PER_S + st->st_mtim.tv_nsec,
	};
}

static void inspect(struct entry *e);

/* Looks at the list of images; e outlives the request, also when the cache goes meanwhile. */
static void look(struct entry *e, uv_fs_cb done)
{
	uv_loop_t *loop = driver_shims_options(e->images->shims)->loop;
	struct error err;

	e->stat.data = e;
	e->looking = true;
	if (uv_fs_stat(loop, &e->stat, e->facts.listed, done) < 0) {
		e->looking = false;
		(void)error_oom(&err);
		fail(e, &err);
	}
}

static void looked_after(uv_fs_t *req)
{
	struct entry *e = req->data;

	uv_fs_req_cleanup(req);
	e->looking = false;
	if (!e->images) {
		(void)entry_free(e);
		return;
	}
	e->stamp = stamp_of(req);
	/* A change that came while the runtime was asked may be in its answer, or not. */
	e->known = req->result == 0 && e->stamp.mtime_ns < e->asked_ns - TICK_NS;
	answer(e, NULL);
}

static void looked_before(uv_fs_t *req)
{
	struct entry *e = req->data;
	struct stamp now = stamp_of(req);

	uv_fs_req_cleanup(req);
	e->looking = false;
	if (!e->images) {
		(void)entry_free(e);
		return;
	}
	if (req->result == 0 && now.dev == e->stamp.dev && now.ino == e->stamp.ino &&
	    now.size == e->stamp.size && now.mtime_ns == e->stamp.mtime_ns)
		answer(e, NULL);
	else
		inspect(e);
}

/* --- asking the runtime --------------------------------------------------------------------- */

void container_last_line(const char *text, char *ret, size_t size)
{
	size_t len = strlen(text);

	while (len > 0 && text[len - 1] == '\n')
		len--;
	const char *begin = memrchr(text, '\n', len);
	begin = begin ? begin + 1 : text;
	if (strncmp(begin, "Error: ", 7) == 0)
		begin += 7;
	(void)snprintf(ret, size, "%.*s", (int)(text + len - begin), begin);
	text_one_line(ret);
}

static void describe_failure(const struct run_result *result, struct error *err)
{
	char line[256];

	container_last_line(result->err, line, sizeof(line));
	if (result->timed_out)
		(void)refuse(err, EIO, "the container runtime does not answer", NULL);
	else if (strcasestr(line, "image not known") || strcasestr(line, "no such image") ||
		 strcasestr(line, "unable to find"))
		(void)refuse(err, ENOENT, "the image is not on this machine, and nothing is pulled for a start",
			     "pull, build or import it there first");
	else {
		(void)error_set(err, EIO, "the container runtime cannot look at the image: %s", line);
		error_field(err, "image");
	}
}

static void inspected(void *user, const struct run_result *result, const struct error *failed)
{
	struct entry *e = user;
	struct container_image_facts facts = {0};
	struct error err;

	if (failed) {
		err = *failed;
		error_field(&err, "%s", "");
		if (failed->code == ENOENT)
			error_remedy(&err, "install the runtime, or give its folder in PATH in runtime_env");
		fail(e, &err);
		return;
	}
	if (result->exit_code != 0 || result->truncated) {
		describe_failure(result, &err);
		fail(e, &err);
		return;
	}
	if (container_image_parse(result->out, result->out_len, e->reference, &facts, &err) < 0) {
		fail(e, &err);
		return;
	}
	container_image_facts_clear(&e->facts);
	e->facts = facts;
	if (e->facts.listed[0])
		look(e, looked_after);
	else
		answer(e, NULL);
}

static void inspect(struct entry *e)
{
	const struct run_command command = {
		.argv = e->argv,
		.env = e->env,
		.uid = geteuid(),
		.gid = getegid(),
		.timeout_ms = INSPECT_TIMEOUT_MS,
		.output_max_bytes = RUN_OUTPUT_MAX_BYTES,
	};
	struct error err;

	e->known = false;
	e->asked_ns = clock_now_ns();
	if (shim_client_run(driver_shims_client(e->images->shims), &command, inspected, e, &e->run, &err) < 0)
		fail(e, &err);
}

/* --- the cache ------------------------------------------------------------------------------ */

static char *make_key(const struct container_config *config, char *const *env, const char *reference,
		      const char **ret_reference)
{
	size_t size = strlen(reference) + 32;
	const char *runtime = container_runtime_name(config->runtime);

	for (size_t i = 0; env[i]; i++)
		size += strlen(env[i]) + 1;
	char *key = malloc(size), *p = key;
	if (!key)
		return NULL;
	p = stpcpy(p, runtime);
	for (size_t i = 0; env[i]; i++) {
		*p++ = '\n';
		p = stpcpy(p, env[i]);
	}
	*p++ = '\n';
	*ret_reference = p;
	(void)strcpy(p, reference);
	return key;
}

static char **copy_list(const char *const *list)
{
	size_t n = 0;

	while (list[n])
		n++;
	char **copy = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; copy && i < n; i++)
		if (!(copy[i] = strdup(list[i]))) {
			free_list(copy);
			return NULL;
		}
	return copy;
}

static void forget_oldest(struct container_images *images)
{
	struct entry *e = TAILQ_LAST(&images->entries, entries);

	while (e && e->busy)
		e = TAILQ_PREV(e, entries, link);
	if (!e)
		return;
	TAILQ_REMOVE(&images->entries, e, link);
	images->n--;
	(void)entry_free(e);
}

static struct entry *entry_get(struct container_images *images, const struct container_config *config,
			       char *const *env, const char *reference)
{
	const char *argv[] = {container_runtime_name(config->runtime), "image", "inspect", reference, NULL};
	const char *at = NULL;
	AUTO_FREE char *key = make_key(config, env, reference, &at);
	struct entry *e;

	if (!key)
		return NULL;
	TAILQ_FOREACH (e, &images->entries, link)
		if (strcmp(e->key, key) == 0) {
			TAILQ_REMOVE(&images->entries, e, link);
			TAILQ_INSERT_HEAD(&images->entries, e, link);
			return e;
		}
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->argv = copy_list(argv);
	e->env = copy_list((const char *const *)env);
	if (!e->argv || !e->env)
		return entry_free(e);
	e->images = images;
	e->key = take_ptr(key);
	e->reference = at;
	e->last = &e->waiters;
	if (images->n >= CONTAINER_IMAGES_MAX)
		forget_oldest(images);
	TAILQ_INSERT_HEAD(&images->entries, e, link);
	images->n++;
	return e;
}

int container_images_resolve(struct container_images *images, const struct container_config *config,
			     char *const *env, const char *reference, container_image_fn *done,
			     void *user, struct error *err)
{
	struct entry *e = entry_get(images, config, env, reference);
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return error_oom(err);
	if (!e) {
		free(w);
		return error_oom(err);
	}
	*w = (struct waiter){.done = done, .user = user};
	*e->last = w;
	e->last = &w->next;
	if (e->busy)
		return 0;
	e->busy = true;
	if (e->known)
		look(e, looked_before);
	else
		inspect(e);
	return 0;
}

struct container_images *container_images_new(struct driver_shims *shims)
{
	struct container_images *images = calloc(1, sizeof(*images));

	if (!images)
		return NULL;
	images->shims = shims;
	TAILQ_INIT(&images->entries);
	return images;
}

struct container_images *container_images_free(struct container_images *images)
{
	struct entry *e;

	if (!images)
		return NULL;
	while ((e = TAILQ_FIRST(&images->entries))) {
		TAILQ_REMOVE(&images->entries, e, link);
		shim_client_run_cancel(driver_shims_client(images->shims), e->run);
		/* A file that is being looked at says so when the loop has run. */
		if (e->looking)
			e->images = NULL;
		else
			(void)entry_free(e);
	}
	free(images);
	return NULL;
}
