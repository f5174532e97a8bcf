/*
 * The durable identity of one dispatched workload: enough to find it again after the hub has
 * restarted, and no more. Never a spec and never a secret.
 *
 * Persisting it is best effort: a workload that started must not be called failed because a row
 * could not be written. The helpers below report a failure and do not pass it on.
 *
 * Source: the reference's HandleRecord, HandleStore, MemoryHandleStore, RecordHandle, LoadHandles,
 * ForgetHandle.
 */
#ifndef CLOOP_CORE_HANDLE_RECORD_H
#define CLOOP_CORE_HANDLE_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/label.h"
#include "core/owner.h"
#include "core/secret.h"

struct handle_record {
	char *handle_id; /* the key */
	char *executor_id;
	char *driver;      /* a KIND_… */
	char *external_id; /* what the runtime calls it */
	char *project_path;
	int64_t task_id;
	int64_t pid; /* 0 where it means nothing */
	char *image;
	int64_t started_at; /* dispatch, nanoseconds */
	int64_t deadline; /* absolute, so that an outage does not extend a timeout; 0: none here */
	struct spec_label *meta; /* what a driver wants back; sorted by key; never a secret */
	size_t n_meta;
	struct secret_binding *secrets;
	size_t n_secrets;
	bool secrets_recorded; /* secrets is an answer, also when it is empty */
};

/*
 * Handle, executor and external id must not be blank: without the last one the workload could never
 * be found, only be seen as an orphan. EINVAL.
 */
int handle_record_validate(const struct handle_record *r, struct error *err);

/* Returns 0 or -ENOMEM. */
int handle_record_copy(struct handle_record *ret, const struct handle_record *r);
void handle_record_clear(struct handle_record *r);
struct handle_record *handle_records_free(struct handle_record *records, size_t n);

/* The reference's object, empty fields left out; NULL when out of memory. */
json_t *handle_record_to_json(const struct handle_record *r);
int handle_record_from_json(json_t *value, const char *path, struct handle_record *ret,
			    struct error *err);

/*
 * Where records are kept. list returns those of one executor ("": all), the oldest first, in an
 * array that the caller frees with handle_records_free(). Removing what is not there succeeds.
 */
struct handle_store {
	int (*put)(struct handle_store *store, const struct handle_record *r, struct error *err);
	int (*list)(struct handle_store *store, const char *executor_id, struct handle_record **ret,
		    size_t *ret_n, struct error *err);
	int (*remove)(struct handle_store *store, const char *handle_id, struct error *err);
};

/* A store that forgets everything at the end of the process. NULL when out of memory. */
struct handle_store *handle_store_new_memory(void);
struct handle_store *handle_store_free_memory(struct handle_store *store);
OWNER_DEFINE(struct handle_store, memory_handle_store, handle_store_free_memory);
#define AUTO_MEMORY_HANDLE_STORE CLEANUP(owner_memory_handle_storep)
size_t handle_store_memory_len(const struct handle_store *store);

/*
 * Best effort. `report` (may be NULL) has code 0 when it worked. Without a store nothing happens;
 * load then returns no rows, as it does on a failure.
 */
void handle_store_record(struct handle_store *store, const struct handle_record *r,
			 struct error *report);
void handle_store_forget(struct handle_store *store, const char *handle_id, struct error *report);
void handle_store_load(struct handle_store *store, const char *executor_id,
		       struct handle_record **ret, size_t *ret_n, struct error *report);

#endif
