#include "core/policy_record.h"

#include <errno.h>

#include "core/store/meta.h"

#define META_FORBIDDEN "host_execution_forbidden" /* enum policy_origin; absent: allowed */
#define META_SINCE "host_execution_forbidden_at"
#define META_MOUNT "host_execution_mount"         /* the mount that began last */

/* 0 when the key is not there. */
static int get(struct store_tx *tx, const char *key, int64_t *ret, struct error *err)
{
	int r = meta_get_int(tx, key, ret, err);

	if (r != -ENOENT)
		return r;
	*ret = 0;
	return 0;
}

/* Forgets, at the start of a mount, what does not outlive it. */
static int begin_mount(struct store_tx *tx, uint64_t mount_id, enum host_process configured,
		       int64_t *origin, struct error *err)
{
	int r = meta_set_int(tx, META_MOUNT, (int64_t)(mount_id & INT64_MAX), err);

	if (r < 0 || *origin == POLICY_ALLOWED)
		return r;
	if (*origin == POLICY_FORBIDDEN_BY_HAND && configured != HOST_PROCESS_ALLOWED)
		return 0;
	*origin = POLICY_ALLOWED;
	r = meta_delete(tx, META_SINCE, err);
	return r < 0 ? r : meta_delete(tx, META_FORBIDDEN, err);
}

int policy_record_begin(struct store_tx *tx, uint64_t mount_id, enum host_process configured,
			int64_t now_ns, struct policy_record *ret, struct error *err)
{
	int64_t origin = 0, mount = 0, since = 0;

	int r = get(tx, META_FORBIDDEN, &origin, err);
	if (r >= 0)
		r = get(tx, META_MOUNT, &mount, err);
	if (r >= 0 && mount != (int64_t)(mount_id & INT64_MAX))
		r = begin_mount(tx, mount_id, configured, &origin, err);
	if (r >= 0 && configured == HOST_PROCESS_FORBIDDEN) {
		r = policy_record_forbid(tx, POLICY_FORBIDDEN_BY_FILE, now_ns, err);
		if (origin == POLICY_ALLOWED)
			origin = POLICY_FORBIDDEN_BY_FILE;
	}
	if (r >= 0)
		r = get(tx, META_SINCE, &since, err);
	if (r < 0)
		return r;
	/* A number that nobody wrote forbids as well. */
	if (origin != POLICY_ALLOWED && origin != POLICY_FORBIDDEN_BY_FILE)
		origin = POLICY_FORBIDDEN_BY_HAND;
	*ret = (struct policy_record){.origin = (enum policy_origin)origin, .since_ns = since};
	return 0;
}

int policy_record_forbid(struct store_tx *tx, enum policy_origin by, int64_t now_ns,
			 struct error *err)
{
	int64_t origin = 0;

	int r = get(tx, META_FORBIDDEN, &origin, err);
	if (r < 0 || origin >= (int64_t)by)
		return r;
	if (origin == POLICY_ALLOWED)
		r = meta_set_int(tx, META_SINCE, now_ns, err);
	return r < 0 ? r : meta_set_int(tx, META_FORBIDDEN, by, err);
}
