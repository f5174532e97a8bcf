/*
 * Specs from anywhere: whatever is accepted has one canonical text that reads back as the same
 * bytes, satisfies the rules, and can be walked; whatever is refused says why and leaves nothing.
 */
#include <errno.h>
#include <string.h>

#include "core/json.h"
#include "core/spec.h"
#include "tests/fuzz/fuzz.h"

static void check_refusal(const struct error *err)
{
	MUST(err->code > 0);
	MUST(err->reason[0] != '\0');
	MUST(err->kind == ERROR_INVALID_SPEC || err->code == ENOMEM);
}

static void check_text(const struct spec *spec)
{
	AUTO_SPEC struct spec *again = NULL;
	AUTO_FREE char *text = spec_text(spec);
	struct error err = {0};

	MUST(text);
	MUST(spec_parse(text, strlen(text), &again, &err) == 0);
	AUTO_FREE char *twice = spec_text(again);
	MUST(twice && strcmp(text, twice) == 0);
}

static void walk(struct spec *spec)
{
	struct requirements req;

	MUST(spec->n_argv > 0 && spec->argv[spec->n_argv] == NULL);
	MUST(spec->env_set || spec->n_env == 0);
	for (size_t i = 0; i < spec->n_env; i++)
		MUST(strchr(spec->env[i], '=') > spec->env[i]);
	for (size_t i = 1; i < spec->n_labels; i++)
		MUST(strcmp(spec->labels[i - 1].key, spec->labels[i].key) < 0);
	spec_sandbox_requirements(spec, &req);
	MUST(!req.require_revocation || spec->n_secrets > 0);
	MUST(spec_relocate_secrets(spec, "/run/l", "/dev/shm/x", NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_SPEC struct spec *spec = NULL;
	struct error err = {0};

	if (spec_parse((const char *)data, size, &spec, &err) < 0) {
		MUST(!spec);
		check_refusal(&err);
		return 0;
	}
	MUST(spec_validate(spec, NULL) == 0);
	check_text(spec);
	walk(spec);
	return 0;
}
