#include "fs/probe.h"

#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/fleet.h"
#include "core/text.h"
#include "fs/change.h"
#include "fs/context.h"
#include "fs/supervise.h"

static const struct executor *executor_at(const struct view *v)
{
	return fleet_get(v->hub->fleet, v->node.serial);
}

int64_t probe_changed(const struct view *v)
{
	const struct executor *e = executor_at(v);

	if (!e)
		return 0;
	const struct executor_record_health *h = &e->record.health;
	int64_t at = h->last_probe_ns > h->state_changed_at_ns ? h->last_probe_ns : h->state_changed_at_ns;
	return at > e->record.changed_at_ns ? at : e->record.changed_at_ns;
}

int probe_render(const struct view *v, struct buf *out)
{
	const struct executor *e = executor_at(v);
	char at[CLOCK_RFC3339_MAX];

	if (!e)
		return -ESTALE;
	const struct executor_record_health *h = &e->record.health;
	if (!h->last_probe_ns)
		return 0;
	clock_format(h->last_probe_ns, at);
	if (h->consecutive_failures == 0)
		buf_printf(out, "ok %s\n", at);
	else
		buf_printf(out, "failed %s%s%s\n", at, e->probe_failure ? ": " : "",
			   e->probe_failure ? e->probe_failure : "");
	return out->failed;
}

static void probed(void *user, const struct error *err)
{
	struct change *c = user;

	if (err) {
		c->err = *err;
		change_refuse(c);
	} else {
		change_finish(c);
	}
}

void probe_command(struct change *c, const char *command)
{
	const struct executor *e = fleet_get(c->hub->fleet, c->node.serial);
	struct text_view word = text_trim(command, strlen(command));

	if (!e) {
		(void)error_set_kind(&c->err, ESTALE, ERROR_EXECUTOR_NOT_FOUND, "the executor was removed");
	} else if (word.len != 3 || strncmp(word.data, "now", 3) != 0) {
		(void)error_set(&c->err, EINVAL, "no such command for a probe");
		error_remedy(&c->err, "echo now > executors/%s/probe", e->record.name);
	} else if (supervise_probe(c->hub, e, probed, c, &c->err) == 0) {
		return;
	}
	change_refuse(c);
}
