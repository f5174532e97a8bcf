#include "core/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

static void format_text(char *buf, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void format_text(char *buf, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(buf, size, fmt, ap);

	if (n < 0)
		buf[0] = '\0';
	else if ((size_t)n >= size)
		text_ellipsis(buf, size);
	text_one_line(buf);
}

static int set_va(struct error *err, int code, enum error_kind kind, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));

static int set_va(struct error *err, int code, enum error_kind kind, const char *fmt, va_list ap)
{
	if (err) {
		/* The arguments may point into err itself (wrapping), so format aside first. */
		char reason[ERROR_REASON_MAX];

		format_text(reason, sizeof(reason), fmt, ap);
		err->code = code;
		err->kind = kind;
		err->field[0] = '\0';
		err->remedy[0] = '\0';
		memcpy(err->reason, reason, sizeof(reason));
	}
	return -code;
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = set_va(err, code, ERROR_KIND_NONE, fmt, ap);
	va_end(ap);
	return r;
}

int error_set_kind(struct error *err, int code, enum error_kind kind, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = set_va(err, code, kind, fmt, ap);
	va_end(ap);
	return r;
}

void error_field(struct error *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	format_text(err->field, sizeof(err->field), fmt, ap);
	va_end(ap);
}

void error_remedy(struct error *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	format_text(err->remedy, sizeof(err->remedy), fmt, ap);
	va_end(ap);
}

int error_oom(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

const char *error_name(int code)
{
	const char *name = strerrorname_np(code);

	return name ? name : "E?";
}

size_t error_sentence(const struct error *err, char *buf, size_t size)
{
	int n = snprintf(buf, size, "%s%s%s%s%s", err->field, err->field[0] ? ": " : "", err->reason,
			 err->remedy[0] ? "; " : "", err->remedy);

	if (n < 0)
		buf[0] = '\0';
	else if ((size_t)n >= size)
		text_ellipsis(buf, size);
	return strlen(buf);
}
