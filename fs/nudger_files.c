#include "fs/nudger_files.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/owner.h"
#include "fs/nudger_marks.h"

struct file {
	int fd; /* -1: free */
	uint64_t inode, dir;
	uint64_t used;
	unsigned busy;
	bool doomed;
};

struct files {
	pthread_mutex_t lock;
	pthread_cond_t something_doomed;
	uint64_t clock;
	bool ended;
	size_t max;
	struct file list[];
};

struct files *files_new(size_t max)
{
	struct files *f;

	if (max > NUDGER_FILES_MAX)
		max = NUDGER_FILES_MAX;
	f = calloc(1, sizeof(*f) + max * sizeof(f->list[0]));
	if (!f)
		return NULL;
	f->max = max;
	for (size_t i = 0; i < max; i++)
		f->list[i].fd = -1;
	if (pthread_mutex_init(&f->lock, NULL) != 0) {
		free(f);
		return NULL;
	}
	(void)pthread_cond_init(&f->something_doomed, NULL);
	return f;
}

struct files *files_free(struct files *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < f->max; i++)
		close_fd(f->list[i].fd);
	(void)pthread_cond_destroy(&f->something_doomed);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

static struct file *find(struct files *f, uint64_t inode)
{
	for (size_t i = 0; i < f->max; i++)
		if (f->list[i].fd >= 0 && f->list[i].inode == inode && !f->list[i].doomed)
			return &f->list[i];
	return NULL;
}

static struct file *find_fd(struct files *f, int fd)
{
	for (size_t i = 0; i < f->max; i++)
		if (f->list[i].fd == fd)
			return &f->list[i];
	return NULL;
}

/* A place for another file, NULL when all are busy; *ret_fd is what has to be closed for it. */
static struct file *make_room(struct files *f, int *ret_fd)
{
	struct file *oldest = NULL;

	for (size_t i = 0; i < f->max; i++) {
		struct file *file = &f->list[i];

		if (file->fd < 0)
			return file;
		if (file->busy == 0 && (!oldest || file->used < oldest->used))
			oldest = file;
	}
	if (oldest)
		*ret_fd = take_fd(&oldest->fd);
	return oldest;
}

static int use(struct files *f, struct file *file)
{
	file->busy++;
	file->used = ++f->clock;
	return file->fd;
}

int files_get(struct files *f, uint64_t inode, uint64_t dir, int (*open_file)(void *user),
	      void *user)
{
	AUTO_CLOSE int evicted = -1;

	(void)pthread_mutex_lock(&f->lock);
	struct file *file = find(f, inode);
	int fd = file ? use(f, file) : -1;
	(void)pthread_mutex_unlock(&f->lock);
	if (fd >= 0)
		return fd;

	fd = open_file(user);
	if (fd < 0)
		return fd;
	(void)pthread_mutex_lock(&f->lock);
	file = make_room(f, &evicted);
	if (file) {
		*file = (struct file){.fd = fd, .inode = inode, .dir = dir};
		(void)use(f, file);
	}
	(void)pthread_mutex_unlock(&f->lock);
	return fd;
}

void files_put(struct files *f, int fd, int broken)
{
	(void)pthread_mutex_lock(&f->lock);
	struct file *file = find_fd(f, fd);
	if (file) {
		file->busy--;
		file->doomed = file->doomed || broken;
		if (file->doomed)
			(void)pthread_cond_signal(&f->something_doomed);
	}
	(void)pthread_mutex_unlock(&f->lock);
	if (!file)
		(void)close(fd); /* there was no place to keep it */
}

void files_forget(struct files *f, uint64_t dir)
{
	for (size_t i = 0; i < f->max; i++) {
		AUTO_CLOSE int fd = -1;

		(void)pthread_mutex_lock(&f->lock);
		struct file *file = &f->list[i];
		if (file->fd >= 0 && file->dir == dir) {
			file->doomed = true;
			if (file->busy == 0)
				fd = take_fd(&file->fd);
		}
		(void)pthread_mutex_unlock(&f->lock);
	}
}

void files_forget_all(struct files *f)
{
	(void)pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->max; i++)
		f->list[i].doomed = true;
	(void)pthread_cond_signal(&f->something_doomed);
	(void)pthread_mutex_unlock(&f->lock);
}

uint64_t files_now(struct files *f)
{
	(void)pthread_mutex_lock(&f->lock);
	uint64_t now = f->clock;
	(void)pthread_mutex_unlock(&f->lock);
	return now;
}

void files_keep(struct files *f, const struct marks *marks, uint64_t since)
{
	if (marks->everything)
		return;
	(void)pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->max; i++) {
		struct file *file = &f->list[i];

		if (file->fd >= 0 && file->used <= since && !marks_have(marks, file->inode) &&
		    !marks_have(marks, file->dir))
			file->doomed = true;
	}
	(void)pthread_cond_signal(&f->something_doomed);
	(void)pthread_mutex_unlock(&f->lock);
}

/* The descriptor of one that is to be closed and that nobody uses; -1: there is none. */
static int take_doomed(struct files *f)
{
	for (size_t i = 0; i < f->max; i++)
		if (f->list[i].fd >= 0 && f->list[i].doomed && f->list[i].busy == 0)
			return take_fd(&f->list[i].fd);
	return -1;
}

void files_close(struct files *f)
{
	(void)pthread_mutex_lock(&f->lock);
	while (!f->ended) {
		int fd = take_doomed(f);

		if (fd < 0) {
			(void)pthread_cond_wait(&f->something_doomed, &f->lock);
			continue;
		}
		(void)pthread_mutex_unlock(&f->lock);
		(void)close(fd);
		(void)pthread_mutex_lock(&f->lock);
	}
	(void)pthread_mutex_unlock(&f->lock);
}

void files_end(struct files *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->ended = true;
	(void)pthread_cond_signal(&f->something_doomed);
	(void)pthread_mutex_unlock(&f->lock);
}
