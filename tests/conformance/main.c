/*
 * cloop-conform: answers rows of the reference with the functions of core/.
 *
 * Reads one JSON object a line, {"call": …, "input": …}, and writes one line for each, in order:
 * the object that the reference would answer, {"unknown_call": true} for a call that is not known.
 * See README.md for the forms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/calls.h"

static const struct call *find_call(const char *name)
{
	static const struct call *const tables[] = {
		spec_calls,   workspace_calls, writeback_calls, secret_calls,
		handle_calls, health_calls,    fleet_calls,
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct call *c = tables[i]; c->name; c++)
			if (strcmp(c->name, name) == 0)
				return c;
	return NULL;
}

static json_t *answer(const char *line, size_t len)
{
	AUTO_JSON json_t *row = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
	const struct call *call = find_call(get_text(row, "call"));

	if (!call)
		return json_pack("{s:b}", "unknown_call", 1);
	AUTO_JSON json_t *input = expand(json_object_get(row, "input"));
	return call->answer(input);
}

int main(void)
{
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	ssize_t len;

	while ((len = getline(&line, &size, stdin)) >= 0) {
		AUTO_JSON json_t *value = answer(line, (size_t)len);
		AUTO_FREE char *text = value ? json_text(value) : NULL;

		(void)puts(text ? text : "{\"error\":\"no answer\"}");
		(void)fflush(stdout);
	}
	return ferror(stdin) || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
