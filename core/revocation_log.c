#include "core/revocation_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/strlist.h"

/* In the order of insertion. */
struct revocation_log {
	struct revoke_outcome **entries;
	size_t n, cap;
};

void revoke_report_clear(struct revoke_report *r)
{
	free(r->lease_id);
	free(r->grant_id);
	strlist_free(r->env_scrubbed, r->n_env_scrubbed);
	strlist_free(r->killed, r->n_killed);
	free(r->error);
	*r = (struct revoke_report){0};
}

static int copy_report(struct revoke_report *ret, const struct revoke_report *from)
{
	struct revoke_report copy = *from;

	copy.lease_id = strdup(text_or_empty(from->lease_id));
	copy.grant_id = strdup(text_or_empty(from->grant_id));
	copy.env_scrubbed = strlist_dup(from->env_scrubbed, from->n_env_scrubbed);
	copy.killed = strlist_dup(from->killed, from->n_killed);
	copy.error = strdup(text_or_empty(from->error));
	if (!copy.lease_id || !copy.grant_id || !copy.error ||
	    (from->n_env_scrubbed > 0 && !copy.env_scrubbed) ||
	    (from->n_killed > 0 && !copy.killed)) {
		revoke_report_clear(&copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

static struct revoke_outcome *outcome_free(struct revoke_outcome *o)
{
	if (!o)
		return NULL;
	free(o->lease_id);
	free(o->grant_id);
	free(o->executor_id);
	free(o->reason);
	free(o->error);
	revoke_report_clear(&o->ack);
	free(o);
	return NULL;
}

OWNER_DEFINE(struct revoke_outcome, outcome, outcome_free);
#define AUTO_OUTCOME CLEANUP(owner_outcomep)

/* A copy, with the key trimmed. */
static struct revoke_outcome *outcome_dup(const struct revoke_outcome *from)
{
	AUTO_OUTCOME struct revoke_outcome *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->lease_id = text_trim_dup(text_or_empty(from->lease_id));
	o->grant_id = text_trim_dup(text_or_empty(from->grant_id));
	o->executor_id = strdup(text_or_empty(from->executor_id));
	o->reason = strdup(text_or_empty(from->reason));
	o->error = strdup(text_or_empty(from->error));
	o->state = from->state;
	o->action = from->action;
	o->sent_at = from->sent_at;
	o->acked_at = from->acked_at;
	if (!o->lease_id || !o->grant_id || !o->executor_id || !o->reason || !o->error)
		return NULL;
	if (from->has_ack && copy_report(&o->ack, &from->ack) < 0)
		return NULL;
	o->has_ack = from->has_ack;
	return take_ptr(o);
}

struct revocation_log *revocation_log_new(void)
{
	return calloc(1, sizeof(struct revocation_log));
}

struct revocation_log *revocation_log_free(struct revocation_log *log)
{
	for (size_t i = 0; log && i < log->n; i++)
		outcome_free(log->entries[i]);
	if (log)
		free(log->entries);
	free(log);
	return NULL;
}

size_t revocation_log_len(const struct revocation_log *log)
{
	return log->n;
}

static bool same(struct text_view v, const char *s)
{
	return v.len == strlen(s) && memcmp(v.data, s, v.len) == 0;
}

static struct revoke_outcome *find(const struct revocation_log *log, const char *lease_id,
				   const char *grant_id)
{
	struct text_view lease = text_trimmed(lease_id), grant = text_trimmed(grant_id);

	for (size_t i = 0; i < log->n; i++)
		if (same(lease, log->entries[i]->lease_id) &&
		    same(grant, log->entries[i]->grant_id))
			return log->entries[i];
	return NULL;
}

static void drop(struct revocation_log *log, size_t i)
{
	outcome_free(log->entries[i]);
	memmove(&log->entries[i], &log->entries[i + 1], (log->n - i - 1) * sizeof(log->entries[0]));
	log->n--;
}

/* Drops finished entries, oldest first, but never the one that was just added. */
static void evict(struct revocation_log *log)
{
	while (log->n > MAX_RETAINED_REVOCATIONS) {
		size_t oldest = log->n;

		for (size_t i = 0; i + 1 < log->n; i++)
			if (revoke_state_terminal(log->entries[i]->state) &&
			    (oldest == log->n ||
			     log->entries[i]->sent_at < log->entries[oldest]->sent_at))
				oldest = i;
		if (oldest == log->n)
			return;
		drop(log, oldest);
	}
}

static int insert(struct revocation_log *log, struct revoke_outcome *entry)
{
	if (log->n == log->cap) {
		size_t cap = log->cap ? log->cap * 2 : 16;
		struct revoke_outcome **grown = reallocarray(log->entries, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		log->entries = grown;
		log->cap = cap;
	}
	log->entries[log->n++] = entry;
	evict(log);
	return 0;
}

static void replace(char **slot, char **with)
{
	char *old = *slot;

	*slot = *with;
	*with = old;
}

/* Takes over from the fresh copy what it has; the copy is thrown away afterwards. */
static void refresh(struct revoke_outcome *entry, struct revoke_outcome *fresh)
{
	entry->state = fresh->state;
	if (fresh->action != REVOKE_ACTION_UNSET)
		entry->action = fresh->action;
	if (fresh->reason[0])
		replace(&entry->reason, &fresh->reason);
	if (fresh->executor_id[0])
		replace(&entry->executor_id, &fresh->executor_id);
	if (fresh->sent_at != 0)
		entry->sent_at = fresh->sent_at;
	replace(&entry->error, &fresh->error);
	if (fresh->has_ack) {
		revoke_report_clear(&entry->ack);
		entry->ack = fresh->ack;
		entry->has_ack = true;
		entry->acked_at = fresh->acked_at;
		fresh->ack = (struct revoke_report){0};
	}
}

int revocation_log_record(struct revocation_log *log, const struct revoke_outcome *outcome,
			  const struct revoke_outcome **ret)
{
	struct revoke_outcome *entry = find(log, outcome->lease_id, outcome->grant_id);

	if (!entry || !revoke_state_terminal(entry->state)) {
		AUTO_OUTCOME struct revoke_outcome *fresh = outcome_dup(outcome);

		if (!fresh)
			return -ENOMEM;
		if (entry) {
			refresh(entry, fresh);
		} else {
			entry = fresh;
			if (insert(log, fresh) < 0)
				return -ENOMEM;
			take_ptr(fresh);
		}
	}
	if (ret)
		*ret = entry;
	return 0;
}

int revocation_log_settle(struct revocation_log *log, const char *lease_id, const char *grant_id,
			  const struct revoke_report *ack, int64_t at)
{
	struct revoke_outcome *entry = find(log, lease_id, grant_id);
	struct revoke_report copy;

	if (!entry || revoke_state_terminal(entry->state))
		return 0;
	AUTO_FREE char *error = strdup(text_or_empty(ack->error));
	if (!error || copy_report(&copy, ack) < 0)
		return -ENOMEM;
	replace(&entry->error, &error);
	revoke_report_clear(&entry->ack);
	entry->ack = copy;
	entry->has_ack = true;
	entry->acked_at = at;
	entry->state = entry->error[0] ? REVOKE_FAILED : REVOKE_REVOKED;
	return 0;
}

int revocation_log_fail(struct revocation_log *log, const char *lease_id, const char *grant_id,
			enum revoke_state state, const char *error)
{
	struct revoke_outcome *entry = find(log, lease_id, grant_id);

	if (!entry)
		return 0;
	AUTO_FREE char *copy = strdup(text_or_empty(error));
	if (!copy)
		return -ENOMEM;
	replace(&entry->error, &copy);
	entry->state = state;
	return 0;
}

/* Stable merge of few entries: insertion keeps the order of insertion among equals. */
static size_t sorted(const struct revocation_log *log, bool owed_only,
		     const struct revoke_outcome **out)
{
	size_t n = 0;

	for (size_t i = 0; i < log->n; i++) {
		const struct revoke_outcome *entry = log->entries[i];
		size_t at = n;

		if (owed_only && revoke_state_terminal(entry->state))
			continue;
		while (at > 0 && out[at - 1]->sent_at > entry->sent_at) {
			out[at] = out[at - 1];
			at--;
		}
		out[at] = entry;
		n++;
	}
	return n;
}

int revocation_log_pending(const struct revocation_log *log, const struct revoke_outcome ***ret,
			   size_t *ret_n)
{
	const struct revoke_outcome **out = calloc(log->n + 1, sizeof(*out));

	if (!out)
		return -ENOMEM;
	*ret_n = sorted(log, true, out);
	*ret = out;
	return 0;
}

int revocation_log_snapshot(const struct revocation_log *log, const struct revoke_outcome ***ret,
			    size_t *ret_n)
{
	const struct revoke_outcome **out = calloc(log->n + 1, sizeof(*out));

	if (!out)
		return -ENOMEM;
	size_t n = sorted(log, false, out);
	for (size_t i = 0; i < n / 2; i++) {
		const struct revoke_outcome *other = out[i];

		out[i] = out[n - 1 - i];
		out[n - 1 - i] = other;
	}
	*ret_n = n;
	*ret = out;
	return 0;
}
