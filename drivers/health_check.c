#include "drivers/health_check.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"

/* Of the line that is quoted: a sentence stays one that can be read. */
#define QUOTE_BYTES 160

int64_t health_check_timeout_ms(const struct executor_health_check *check, int64_t probe_ms)
{
	return check->timeout_ms > 0 && check->timeout_ms < probe_ms ? check->timeout_ms : probe_ms;
}

struct run_command health_check_command(const struct executor_health_check *check, char *const *env,
					int64_t timeout_ms)
{
	return (struct run_command){
		.argv = check->argv,
		.env = env,
		.uid = geteuid(),
		.gid = getegid(),
		.timeout_ms = timeout_ms,
		.output_max_bytes = HEALTH_CHECK_OUTPUT_BYTES,
	};
}

/* The first line that says something, cut to what fits; what is no UTF-8 is not quoted. */
static struct text_view first_line(const char *text, size_t len)
{
	struct text_view v = text_trim(text, len);
	const char *newline = v.len > 0 ? memchr(v.data, '\n', v.len) : NULL;

	if (newline)
		v.len = (size_t)(newline - v.data);
	if (v.len > QUOTE_BYTES)
		v.len = QUOTE_BYTES;
	/* The cut may have gone through a character. */
	for (int i = 0; i < 3 && v.len > 0 && !text_utf8_valid(v.data, v.len); i++)
		v.len--;
	if (v.len > 0 && (memchr(v.data, '\0', v.len) || !text_utf8_valid(v.data, v.len)))
		v.len = 0;
	return v;
}

int health_check_verdict(const struct run_result *result, const struct error *failure,
			 int64_t timeout_ms, struct error *err)
{
	if (failure)
		return error_set(err, failure->code, "health_check: %s", failure->reason);
	if (result->timed_out)
		return error_set(err, ETIMEDOUT, "health_check took longer than %lld ms",
				 (long long)timeout_ms);
	if (result->exit_code == 0)
		return 0;
	struct text_view said = first_line(result->err, result->err_len);
	if (said.len == 0)
		said = first_line(result->out, result->out_len);
	if (result->signal)
		return error_set(err, EIO, "health_check was ended by signal %d%s%.*s", result->signal,
				 said.len ? ": " : "", (int)said.len, said.len ? said.data : "");
	return error_set(err, EIO, "health_check exited with %d%s%.*s", result->exit_code,
			 said.len ? ": " : "", (int)said.len, said.len ? said.data : "");
}
