#include "fs/render.h"

#include <errno.h>

#include "core/buf.h"
#include "core/dispatch.h"
#include "core/json.h"
#include "core/owner.h"
#include "fs/context.h"
#include "fs/node.h"

int render_line(struct buf *out, const char *text)
{
	buf_puts(out, text);
	buf_puts(out, "\n");
	return out->failed;
}

int render_json(struct buf *out, json_t *value)
{
	AUTO_JSON json_t *owned = value;
	AUTO_FREE char *text = owned ? json_text(owned) : NULL;

	return text ? render_line(out, text) : -ENOMEM;
}

int render_session_link(const struct view *v, struct buf *out)
{
	const struct session *s = dispatch_get(v->hub->dispatch, v->node.serial);

	if (!s)
		return -ESTALE;
	buf_printf(out, "../../../sessions/%s", s->name);
	return out->failed;
}
