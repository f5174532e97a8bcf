#include "tests/unit/store_help.h"
#include "tests/unit/store_vfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct shim_file {
	sqlite3_file base;
	enum vfs_file_kind kind;
	int last_errno;
	bool fresh; /* created and not synced since: the first sync includes the directory */
	sqlite3_file *real; /* behind this struct */
};

struct fault {
	bool set;
	int code;
	int skip;
};

/* A VFS has no place for state of its own but the process, and both threads of a store come here.
 */
static struct {
	sqlite3_vfs vfs;
	sqlite3_vfs *real;
	pthread_mutex_t mutex;
	struct fault faults[VFS_MARK][VFS_FILES];
	int failures;
	bool recording;
	struct vfs_event *events;
	size_t n, cap;
} shim = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int last_errno;

static bool tracked(enum vfs_file_kind kind)
{
	return kind < VFS_FILES;
}

/* Whether this call is to fail; the errno, or 0. */
static int fault_of(enum vfs_call call, enum vfs_file_kind kind)
{
	int code = 0;

	if (!tracked(kind))
		return 0;
	(void)pthread_mutex_lock(&shim.mutex);
	struct fault *f = &shim.faults[call][kind];
	if (f->set && f->skip-- <= 0) {
		f->skip = 0;
		code = f->code;
		shim.failures++;
	}
	(void)pthread_mutex_unlock(&shim.mutex);
	if (code)
		last_errno = code;
	return code;
}

static void record(enum vfs_call call, enum vfs_file_kind kind, int64_t offset, const void *data,
		   size_t len)
{
	(void)pthread_mutex_lock(&shim.mutex);
	if (shim.recording && tracked(kind)) {
		if (shim.n == shim.cap) {
			shim.cap = shim.cap ? shim.cap * 2 : 1024;
			shim.events = reallocarray(shim.events, shim.cap, sizeof(*shim.events));
			assert_non_null(shim.events);
		}
		struct vfs_event *e = &shim.events[shim.n++];
		*e = (struct vfs_event){.call = call, .file = kind, .offset = offset, .len = len};
		if (len) {
			e->data = malloc(len);
			assert_non_null(e->data);
			memcpy(e->data, data, len);
		}
	}
	(void)pthread_mutex_unlock(&shim.mutex);
}

static int file_fault(sqlite3_file *f, enum vfs_call call)
{
	struct shim_file *file = (struct shim_file *)f;
	int code = fault_of(call, file->kind);

	if (code)
		file->last_errno = code;
	return code;
}

#define REAL(f) (((struct shim_file *)(f))->real)
#define KIND(f) (((struct shim_file *)(f))->kind)

static int shim_close(sqlite3_file *f)
{
	return REAL(f)->pMethods->xClose(REAL(f));
}

static int shim_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 offset)
{
	if (file_fault(f, VFS_READ))
		return SQLITE_IOERR_READ;
	return REAL(f)->pMethods->xRead(REAL(f), buf, n, offset);
}

static int shim_write(sqlite3_file *f, const void *buf, int n, sqlite3_int64 offset)
{
	int code = file_fault(f, VFS_WRITE);

	if (code) {
		(void)REAL(f)->pMethods->xWrite(REAL(f), buf, n / 2, offset);
		record(VFS_WRITE, KIND(f), offset, buf, (size_t)n / 2);
		return code == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
	}
	record(VFS_WRITE, KIND(f), offset, buf, (size_t)n);
	return REAL(f)->pMethods->xWrite(REAL(f), buf, n, offset);
}

static int shim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	if (file_fault(f, VFS_TRUNCATE))
		return SQLITE_IOERR_TRUNCATE;
	record(VFS_TRUNCATE, KIND(f), size, NULL, 0);
	return REAL(f)->pMethods->xTruncate(REAL(f), size);
}

static int shim_sync(sqlite3_file *f, int flags)
{
	if (file_fault(f, VFS_SYNC))
		return SQLITE_IOERR_FSYNC;
	int rc = REAL(f)->pMethods->xSync(REAL(f), flags);
	record(VFS_SYNC, KIND(f), ((struct shim_file *)f)->fresh, NULL, 0);
	((struct shim_file *)f)->fresh = false;
	return rc;
}

static int shim_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return REAL(f)->pMethods->xFileSize(REAL(f), size);
}

static int shim_lock(sqlite3_file *f, int level)
{
	return REAL(f)->pMethods->xLock(REAL(f), level);
}

static int shim_unlock(sqlite3_file *f, int level)
{
	return REAL(f)->pMethods->xUnlock(REAL(f), level);
}

static int shim_reserved(sqlite3_file *f, int *ret)
{
	return REAL(f)->pMethods->xCheckReservedLock(REAL(f), ret);
}

static int shim_control(sqlite3_file *f, int op, void *arg)
{
	if (op == SQLITE_FCNTL_LAST_ERRNO) {
		*(int *)arg = ((struct shim_file *)f)->last_errno;
		return SQLITE_OK;
	}
	return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}

static int shim_sector(sqlite3_file *f)
{
	return REAL(f)->pMethods->xSectorSize(REAL(f));
}

static int shim_device(sqlite3_file *f)
{
	/* Nothing is promised, least of all that a write is whole after a power cut. */
	(void)f;
	return 0;
}

static int shim_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
	return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, ret);
}

static int shim_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	return REAL(f)->pMethods->xShmLock(REAL(f), offset, n, flags);
}

static void shim_shm_barrier(sqlite3_file *f)
{
	REAL(f)->pMethods->xShmBarrier(REAL(f));
}

static int shim_shm_unmap(sqlite3_file *f, int delete)
{
	return REAL(f)->pMethods->xShmUnmap(REAL(f), delete);
}

static const sqlite3_io_methods shim_methods = {
	.iVersion = 2,
	.xClose = shim_close,
	.xRead = shim_read,
	.xWrite = shim_write,
	.xTruncate = shim_truncate,
	.xSync = shim_sync,
	.xFileSize = shim_size,
	.xLock = shim_lock,
	.xUnlock = shim_unlock,
	.xCheckReservedLock = shim_reserved,
	.xFileControl = shim_control,
	.xSectorSize = shim_sector,
	.xDeviceCharacteristics = shim_device,
	.xShmMap = shim_shm_map,
	.xShmLock = shim_shm_lock,
	.xShmBarrier = shim_shm_barrier,
	.xShmUnmap = shim_shm_unmap,
};

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	struct shim_file *file = (struct shim_file *)f;

	(void)vfs;
	file->base.pMethods = NULL;
	file->last_errno = 0;
	file->real = (sqlite3_file *)(file + 1);
	file->kind = flags & SQLITE_OPEN_MAIN_DB        ? VFS_DB
		     : flags & SQLITE_OPEN_WAL          ? VFS_WAL
		     : flags & SQLITE_OPEN_MAIN_JOURNAL ? VFS_JOURNAL
							: VFS_FILES;
	int exists = 1;
	if (fault_of(VFS_OPEN, file->kind))
		return SQLITE_CANTOPEN;
	if (file->kind == VFS_WAL || file->kind == VFS_JOURNAL)
		(void)shim.real->xAccess(shim.real, name, SQLITE_ACCESS_EXISTS, &exists);
	file->fresh = !exists;
	int rc = shim.real->xOpen(shim.real, name, file->real, flags, ret_flags);
	if (rc == SQLITE_OK)
		file->base.pMethods = &shim_methods;
	return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
	size_t len = strlen(name);
	enum vfs_file_kind kind = VFS_FILES;

	(void)vfs;
	if (len > 4 && strcmp(name + len - 4, "-wal") == 0)
		kind = VFS_WAL;
	else if (len > 8 && strcmp(name + len - 8, "-journal") == 0)
		kind = VFS_JOURNAL;
	if (fault_of(VFS_DELETE, kind))
		return SQLITE_IOERR_DELETE;
	record(VFS_DELETE, kind, sync_dir, NULL, 0);
	return shim.real->xDelete(shim.real, name, sync_dir);
}

static int shim_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	(void)vfs;
	return shim.real->xAccess(shim.real, name, flags, ret);
}

static int shim_full_path(sqlite3_vfs *vfs, const char *name, int n, char *ret)
{
	(void)vfs;
	return shim.real->xFullPathname(shim.real, name, n, ret);
}

static int shim_randomness(sqlite3_vfs *vfs, int n, char *ret)
{
	(void)vfs;
	return shim.real->xRandomness(shim.real, n, ret);
}

static int shim_sleep(sqlite3_vfs *vfs, int us)
{
	(void)vfs;
	return shim.real->xSleep(shim.real, us);
}

static int shim_time(sqlite3_vfs *vfs, double *ret)
{
	(void)vfs;
	return shim.real->xCurrentTime(shim.real, ret);
}

static int shim_last_error(sqlite3_vfs *vfs, int n, char *ret)
{
	(void)vfs;
	(void)n;
	(void)ret;
	return last_errno;
}

void vfs_install(void)
{
	shim.real = sqlite3_vfs_find(NULL);
	assert_non_null(shim.real);
	shim.vfs = (sqlite3_vfs){
		.iVersion = 1,
		.szOsFile = (int)sizeof(struct shim_file) + shim.real->szOsFile,
		.mxPathname = shim.real->mxPathname,
		.zName = VFS_NAME,
		.xOpen = shim_open,
		.xDelete = shim_delete,
		.xAccess = shim_access,
		.xFullPathname = shim_full_path,
		.xRandomness = shim_randomness,
		.xSleep = shim_sleep,
		.xCurrentTime = shim_time,
		.xGetLastError = shim_last_error,
	};
	assert_int_equal(sqlite3_vfs_register(&shim.vfs, 0), SQLITE_OK);
}

void vfs_fail(enum vfs_call call, enum vfs_file_kind file, int code, int skip)
{
	(void)pthread_mutex_lock(&shim.mutex);
	shim.faults[call][file] = (struct fault){.set = true, .code = code, .skip = skip};
	(void)pthread_mutex_unlock(&shim.mutex);
}

void vfs_heal(void)
{
	(void)pthread_mutex_lock(&shim.mutex);
	memset(shim.faults, 0, sizeof(shim.faults));
	shim.failures = 0;
	(void)pthread_mutex_unlock(&shim.mutex);
}

int vfs_failures(void)
{
	(void)pthread_mutex_lock(&shim.mutex);
	int n = shim.failures;
	(void)pthread_mutex_unlock(&shim.mutex);
	return n;
}

void vfs_record_free(void)
{
	for (size_t i = 0; i < shim.n; i++)
		free(shim.events[i].data);
	free(shim.events);
	shim.events = NULL;
	shim.n = shim.cap = 0;
}

void vfs_record_start(void)
{
	vfs_record_free();
	(void)pthread_mutex_lock(&shim.mutex);
	shim.recording = true;
	(void)pthread_mutex_unlock(&shim.mutex);
}

void vfs_record_stop(void)
{
	(void)pthread_mutex_lock(&shim.mutex);
	shim.recording = false;
	(void)pthread_mutex_unlock(&shim.mutex);
}

void vfs_mark(int64_t number)
{
	record(VFS_MARK, VFS_DB, number, NULL, 0);
}

size_t vfs_record_length(void)
{
	return shim.n;
}

const struct vfs_event *vfs_record_at(size_t i)
{
	return &shim.events[i];
}

/* A file as it is put together from the record. */
struct image {
	bool exists;
	size_t len, cap;
	unsigned char *data;
};

static void image_resize(struct image *im, size_t len)
{
	if (len > im->cap) {
		im->cap = len * 2;
		im->data = realloc(im->data, im->cap);
		assert_non_null(im->data);
	}
	if (len > im->len)
		memset(im->data + im->len, 0, len - im->len);
	im->len = len;
}

/* Applies a change; of a write only the bytes from `from` up to `to`. */
static void image_apply(struct image *im, const struct vfs_event *e, size_t from, size_t to)
{
	size_t end = (size_t)e->offset + to;

	im->exists = e->call != VFS_DELETE;
	switch (e->call) {
	case VFS_WRITE:
		if (end > im->len)
			image_resize(im, end);
		if (to > from)
			memcpy(im->data + e->offset + from, e->data + from, to - from);
		break;
	case VFS_TRUNCATE:
		if ((size_t)e->offset < im->len)
			image_resize(im, (size_t)e->offset);
		break;
	case VFS_DELETE:
		im->len = 0;
		break;
	default:
		break;
	}
}

static bool is_change(const struct vfs_event *e, enum vfs_file_kind kind)
{
	return e->file == kind &&
	       (e->call == VFS_WRITE || e->call == VFS_TRUNCATE || e->call == VFS_DELETE);
}

/* One file: what was synced for certain, and of the rest what this loss leaves. */
static void rebuild_file(size_t n, enum vfs_loss loss, enum vfs_file_kind kind, struct image *im)
{
	size_t synced = 0, deleted = 0, last = 0, nth = 0;

	for (size_t i = 0; i < n; i++) {
		const struct vfs_event *e = &shim.events[i];

		if (e->file == kind && e->call == VFS_SYNC)
			synced = i + 1;
		if (e->file == kind && e->call == VFS_DELETE)
			deleted = i + 1;
		/* The directory was synced, and with it a deletion before. */
		if ((e->call == VFS_SYNC || e->call == VFS_DELETE) && e->offset != 0)
			synced = deleted > synced ? deleted : synced;
		if (is_change(e, kind))
			last = i;
	}
	for (size_t i = 0; i < n; i++) {
		const struct vfs_event *e = &shim.events[i];
		size_t from = 0, to = e->len;

		if (!is_change(e, kind))
			continue;
		if (i >= synced && loss == VFS_LOSE_ALL)
			continue;
		if (i >= synced && (loss == VFS_LOSE_EVEN || loss == VFS_LOSE_ODD)) {
			if (i == last && loss == VFS_LOSE_EVEN)
				to /= 2;
			else if (i == last)
				from = to / 2;
			else if (nth++ % 2 == (loss == VFS_LOSE_ODD))
				continue;
		}
		image_apply(im, e, from, to);
	}
}

void vfs_rebuild(size_t n, enum vfs_loss loss, const char *db)
{
	static const char *const suffixes[VFS_FILES] = {"", "-wal", "-journal"};

	for (int kind = 0; kind < VFS_FILES; kind++) {
		struct image im = {0};
		char path[256];

		rebuild_file(n, loss, (enum vfs_file_kind)kind, &im);
		(void)snprintf(path, sizeof(path), "%s%s", db, suffixes[kind]);
		/* The store itself makes the database's name durable before SQLite is called. */
		if (im.exists || kind == VFS_DB)
			help_spew(path, (const char *)im.data, im.len);
		else
			(void)unlink(path);
		free(im.data);
	}
}
