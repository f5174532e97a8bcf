#include "fs/config_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "core/owner.h"
#include "core/text.h"
#include "fs/config_file.h"

#define SUFFIX ".json"

/* What an editor, a copy, a rename or a chmod does to a directory and to what is in it. */
#define WATCHED                                                                                    \
	(IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM |          \
	 IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

static void entry_clear(struct config_entry *e)
{
	free(e->id);
	free(e->file);
	free(e->text);
	executor_config_clear(&e->config);
	*e = (struct config_entry){0};
}

void config_snapshot_clear(struct config_snapshot *s)
{
	for (size_t i = 0; i < s->n; i++)
		entry_clear(&s->entries[i]);
	free(s->entries);
	free(s->hub_text);
	*s = (struct config_snapshot){.watch_top = -1, .watch_executors = -1};
}

bool config_name_is_meant(const char *name)
{
	size_t len = strlen(name);

	/* `x.json~`, `x.json.swp` and `x.json.tmp` do not end as they should; `.x.json` is hidden. */
	return name[0] != '.' && name[0] != '#' && len > strlen(SUFFIX) &&
	       strcmp(name + len - strlen(SUFFIX), SUFFIX) == 0;
}

/* Watches the directory behind a descriptor; -1 when that cannot be. */
static int watch(int inotify_fd, int dir_fd)
{
	char path[40];

	if (inotify_fd < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
	return inotify_add_watch(inotify_fd, path, WATCHED);
}

static void scan_hub(int dir_fd, struct config_snapshot *ret)
{
	size_t len = 0;

	ret->hub = hub_config_default();
	ret->hub_result = config_file_read(dir_fd, HUB_CONFIG_NAME, HUB_CONFIG_BYTES_MAX, &ret->hub_text,
					   &len, &ret->hub_err);
	if (ret->hub_result == 0)
		ret->hub_result = hub_config_parse(ret->hub_text, len, &ret->hub, &ret->hub_err);
}

/* The name as a sentence can show it. */
static char *shown_name(const char *name)
{
	char copy[CONFIG_NAME_SHOWN_MAX], *text;

	(void)snprintf(copy, sizeof(copy), "%s", name);
	if (strlen(name) >= sizeof(copy))
		text_ellipsis(copy, sizeof(copy));
	text_one_line(copy);
	if (asprintf(&text, CONFIG_EXECUTORS_DIR "/%s", text_utf8_valid(copy, strlen(copy)) ? copy : "?") < 0)
		return NULL;
	return text;
}

static int read_entry(int dir_fd, const char *name, struct driver *const *drivers,
		      struct config_entry *e)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *id = strndup(name, strlen(name) - strlen(SUFFIX));
	size_t len = 0;

	if (!id)
		return error_oom(&e->err);
	int r = object_name_check("executor", id, &e->err);
	if (r < 0)
		return r;
	e->id = take_ptr(id);
	r = config_file_read(dir_fd, name, CONFIG_EXECUTOR_BYTES_MAX, &text, &len, &e->err);
	if (r >= 0)
		r = executor_config_parse(text, len, drivers, &e->config, &e->err);
	if (r < 0)
		return r;
	e->text = executor_config_text(&e->config);
	return e->text ? 0 : error_oom(&e->err);
}

static int by_file(const void *a, const void *b)
{
	return strcmp(((const struct config_entry *)a)->file, ((const struct config_entry *)b)->file);
}

static int add_entry(int dir_fd, const char *name, struct driver *const *drivers,
		     struct config_snapshot *ret, size_t *cap)
{
	if (ret->n == CONFIG_ENTRIES_MAX)
		return error_set(&ret->dir_err, E2BIG, CONFIG_EXECUTORS_DIR " holds more than %d files",
				 CONFIG_ENTRIES_MAX);
	if (ret->n == *cap) {
		size_t grown_cap = *cap ? *cap * 2 : 16;
		struct config_entry *grown = reallocarray(ret->entries, grown_cap, sizeof(*grown));

		if (!grown)
			return error_oom(&ret->dir_err);
		ret->entries = grown;
		*cap = grown_cap;
	}
	struct config_entry e = {.file = shown_name(name)};
	if (!e.file)
		return error_oom(&ret->dir_err);
	e.result = read_entry(dir_fd, name, drivers, &e);
	if (e.result == -ENOENT)
		entry_clear(&e); /* gone meanwhile: as if it had not been there */
	else
		ret->entries[ret->n++] = e;
	return 0;
}

static int scan_executors(int dir_fd, struct driver *const *drivers, struct config_snapshot *ret)
{
	AUTO_CLOSEDIR DIR *dir = fdopendir(dir_fd);
	size_t cap = 0;
	int r = 0;

	if (!dir) {
		r = error_set(&ret->dir_err, errno, "cannot list " CONFIG_EXECUTORS_DIR ": %s",
			      strerror(errno));
		(void)close_fd(dir_fd);
		return r;
	}
	while (r == 0) {
		errno = 0;
		const struct dirent *entry = readdir(dir);

		if (!entry && errno)
			r = error_set(&ret->dir_err, errno, "cannot list " CONFIG_EXECUTORS_DIR ": %s",
				      strerror(errno));
		if (!entry)
			break;
		if (config_name_is_meant(entry->d_name))
			r = add_entry(dirfd(dir), entry->d_name, drivers, ret, &cap);
	}
	if (ret->n > 0)
		qsort(ret->entries, ret->n, sizeof(*ret->entries), by_file);
	return r;
}

/* A directory that is missing holds nothing; one that cannot be looked at says nothing. */
static int missing_or(int r)
{
	return r == -ENOENT ? 0 : r;
}

void config_scan(const char *config_dir, struct driver *const *drivers, int inotify_fd, bool only_hub,
		 struct config_snapshot *ret)
{
	AUTO_CLOSE int top = -1;
	int executors = -1;

	*ret = (struct config_snapshot){.watch_top = -1, .watch_executors = -1};
	int r = config_directory_open(AT_FDCWD, config_dir, config_dir, &top, &ret->dir_err);
	if (r < 0) {
		ret->hub = hub_config_default();
		ret->hub_result = r;
		ret->hub_err = ret->dir_err;
		ret->dir_result = missing_or(r);
	} else {
		ret->watch_top = watch(inotify_fd, top);
		scan_hub(top, ret);
	}
	if (ret->hub_result == -ENOENT)
		ret->hub_text = strdup("");
	if (r < 0 || only_hub)
		return;
	r = config_directory_open(top, CONFIG_EXECUTORS_DIR, CONFIG_EXECUTORS_DIR, &executors, &ret->dir_err);
	if (r == 0) {
		ret->watch_executors = watch(inotify_fd, executors);
		r = scan_executors(executors, drivers, ret);
	}
	ret->dir_result = missing_or(r);
}
