#include "core/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/field.h"
#include "core/sorted.h"
#include "core/strlist.h"

struct holder {
	char *handle_id;
	char *unresolved; /* the reason; NULL when its bindings are known */
	struct secret_binding *bindings;
	size_t n_bindings;
};

/* Sorted by handle id. */
struct lease_index {
	struct holder *holders;
	size_t n, cap;
	size_t n_unresolved;
};

struct lease_index *lease_index_new(void)
{
	return calloc(1, sizeof(struct lease_index));
}

static void holder_clear(struct holder *h)
{
	free(h->handle_id);
	free(h->unresolved);
	secret_bindings_free(h->bindings, h->n_bindings);
	*h = (struct holder){0};
}

struct lease_index *lease_index_free(struct lease_index *index)
{
	for (size_t i = 0; index && i < index->n; i++)
		holder_clear(&index->holders[i]);
	if (index)
		free(index->holders);
	free(index);
	return NULL;
}

static int compare_handle(const void *item, const void *handle_id)
{
	const struct holder *h = item;

	return strcmp(h->handle_id, handle_id);
}

/* Where the handle is, or would be. */
static size_t position(const struct lease_index *index, const char *handle_id, bool *ret_found)
{
	size_t at = sorted_place(index->holders, index->n, sizeof(index->holders[0]), handle_id,
				 compare_handle);

	*ret_found = at < index->n && strcmp(index->holders[at].handle_id, handle_id) == 0;
	return at;
}

static struct holder *find(const struct lease_index *index, const char *handle_id)
{
	bool found;
	size_t at = position(index, handle_id, &found);

	return found ? &index->holders[at] : NULL;
}

/* The holder, made empty if there was none; NULL when out of memory. */
static struct holder *obtain(struct lease_index *index, const char *handle_id)
{
	bool found;
	size_t at = position(index, handle_id, &found);

	if (found)
		return &index->holders[at];
	if (index->n == index->cap) {
		size_t cap = index->cap ? index->cap * 2 : 16;
		struct holder *grown = reallocarray(index->holders, cap, sizeof(*grown));

		if (!grown)
			return NULL;
		index->holders = grown;
		index->cap = cap;
	}
	char *id = strdup(handle_id);
	if (!id)
		return NULL;
	sorted_open_gap(index->holders, index->n, sizeof(index->holders[0]), at);
	index->holders[at] = (struct holder){.handle_id = id};
	index->n++;
	return &index->holders[at];
}

void lease_index_release(struct lease_index *index, const char *handle_id)
{
	bool found;
	size_t at = position(index, handle_id, &found);

	if (!found)
		return;
	if (index->holders[at].unresolved)
		index->n_unresolved--;
	holder_clear(&index->holders[at]);
	sorted_close_gap(index->holders, index->n, sizeof(index->holders[0]), at);
	index->n--;
}

static void resolve(struct lease_index *index, struct holder *h)
{
	if (h->unresolved)
		index->n_unresolved--;
	free(h->unresolved);
	h->unresolved = NULL;
}

/* The revocable ones, copied. */
static int copy_revocable(const struct secret_binding *bindings, size_t n,
			  struct secret_binding **ret, size_t *ret_n)
{
	struct secret_binding *kept = calloc(n + 1, sizeof(*kept));
	size_t used = 0;

	if (!kept)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!secret_binding_revocable(&bindings[i]))
			continue;
		if (secret_binding_copy(&kept[used], &bindings[i]) < 0) {
			secret_bindings_free(kept, used);
			return -ENOMEM;
		}
		used++;
	}
	*ret = kept;
	*ret_n = used;
	return 0;
}

int lease_index_bind(struct lease_index *index, const char *handle_id,
		     const struct secret_binding *bindings, size_t n)
{
	struct secret_binding *kept;
	size_t used;

	if (copy_revocable(bindings, n, &kept, &used) < 0)
		return -ENOMEM;
	struct holder *h = used > 0 ? obtain(index, handle_id) : find(index, handle_id);
	if (!h) {
		secret_bindings_free(kept, used);
		return used > 0 ? -ENOMEM : 0;
	}
	resolve(index, h);
	if (used > 0) {
		secret_bindings_free(h->bindings, h->n_bindings);
		h->bindings = kept;
		h->n_bindings = used;
		return 0;
	}
	secret_bindings_free(kept, used);
	if (h->n_bindings == 0)
		lease_index_release(index, handle_id);
	return 0;
}

int lease_index_adopt(struct lease_index *index, const struct handle_record *record)
{
	const char *id = text_or_empty(record->handle_id);

	if (record->secrets_recorded)
		return lease_index_bind(index, id, record->secrets, record->n_secrets);
	return lease_index_mark_unresolved(index, id,
					   "its record does not say which leases it holds");
}

int lease_index_mark_unresolved(struct lease_index *index, const char *handle_id,
				const char *reason)
{
	char *copy = strdup(text_or_empty(reason));
	struct holder *h = copy ? obtain(index, handle_id) : NULL;

	if (!h) {
		free(copy);
		return -ENOMEM;
	}
	resolve(index, h);
	h->unresolved = copy;
	index->n_unresolved++;
	return 0;
}

bool lease_index_holds(const struct lease_index *index, const char *lease_id)
{
	if (index->n_unresolved > 0)
		return true;
	for (size_t i = 0; i < index->n; i++)
		for (size_t k = 0; k < index->holders[i].n_bindings; k++)
			if (strcmp(index->holders[i].bindings[k].lease_id, lease_id) == 0)
				return true;
	return false;
}

int lease_index_leases(const struct lease_index *index, char ***ret, size_t *ret_n)
{
	size_t total = 0, used = 0;

	for (size_t i = 0; i < index->n; i++)
		total += index->holders[i].n_bindings;
	char **list = calloc(total + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < index->n; i++) {
		for (size_t k = 0; k < index->holders[i].n_bindings; k++) {
			list[used] = strdup(index->holders[i].bindings[k].lease_id);
			if (!list[used]) {
				strlist_free(list, used);
				return -ENOMEM;
			}
			used++;
		}
	}
	*ret_n = strlist_sort_unique(list, used);
	*ret = list;
	return 0;
}

int lease_index_unresolved(const struct lease_index *index, char ***ret, size_t *ret_n)
{
	char **list = calloc(index->n_unresolved + 1, sizeof(*list));
	size_t used = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < index->n; i++) {
		if (!index->holders[i].unresolved)
			continue;
		list[used] = strdup(index->holders[i].handle_id);
		if (!list[used]) {
			strlist_free(list, used);
			return -ENOMEM;
		}
		used++;
	}
	*ret = list;
	*ret_n = used;
	return 0;
}

const char *lease_index_unresolved_reason(const struct lease_index *index, const char *handle_id)
{
	const struct holder *h = find(index, handle_id);

	return h ? h->unresolved : NULL;
}

/* Handles that the sentence names. */
#define UNRESOLVED_NAMED_MAX 4

int lease_index_unresolved_error(const struct lease_index *index, struct error *err)
{
	struct buf names = BUF_INIT(ERROR_REASON_MAX);
	size_t named = 0;
	int r;

	if (index->n_unresolved == 0)
		return 0;
	for (size_t i = 0; i < index->n && named < UNRESOLVED_NAMED_MAX; i++) {
		const struct holder *h = &index->holders[i];

		if (!h->unresolved)
			continue;
		buf_printf(&names, "%s%s (%s)", named > 0 ? ", " : "", h->handle_id, h->unresolved);
		named++;
	}
	if (index->n_unresolved > named)
		buf_printf(&names, " and %zu more", index->n_unresolved - named);
	r = error_set_kind(err, EUCLEAN, ERROR_BINDINGS_UNRESOLVED,
			   "workloads whose leases are not known may still hold the credential: %s",
			   names.data ? names.data : "");
	error_remedy(err, "end them, then revoke again");
	buf_free(&names);
	return r;
}

struct lease_holder *lease_holders_free(struct lease_holder *holders, size_t n)
{
	for (size_t i = 0; holders && i < n; i++)
		free(holders[i].bindings);
	free(holders);
	return NULL;
}

int lease_index_holders(const struct lease_index *index, const struct revoke_request *request,
			struct lease_holder **ret, size_t *ret_n)
{
	struct lease_holder *out = calloc(index->n + 1, sizeof(*out));
	size_t n = 0;

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < index->n; i++) {
		const struct holder *h = &index->holders[i];
		struct lease_holder *found = &out[n];

		for (size_t k = 0; k < h->n_bindings; k++) {
			if (!revoke_request_matches(request, &h->bindings[k]))
				continue;
			if (!found->bindings) {
				found->handle_id = h->handle_id;
				found->bindings = calloc(h->n_bindings,
							 sizeof(const struct secret_binding *));
				n++;
			}
			if (!found->bindings) {
				lease_holders_free(out, n);
				return -ENOMEM;
			}
			found->bindings[found->n_bindings++] = &h->bindings[k];
		}
	}
	*ret = out;
	*ret_n = n;
	return 0;
}
