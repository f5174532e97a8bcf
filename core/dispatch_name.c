/* The names of sessions: chosen by a label, or made. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/dispatch_internal.h"

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

#define AUTO_NAME_CHARS 16

void dispatch_make_name(char buf[static SESSION_ID_MAX + 1])
{
	unsigned char random[AUTO_NAME_CHARS];

	/* Cannot fail or block once the machine has seeded itself; 80 bits do not meet by chance. */
	while (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		;
	memcpy(buf, "s-", 2);
	for (size_t i = 0; i < AUTO_NAME_CHARS; i++)
		buf[2 + i] = base32[random[i] % 32];
	buf[2 + AUTO_NAME_CHARS] = '\0';
}

static bool has_automatic_form(const char *name)
{
	return strlen(name) == 2 + AUTO_NAME_CHARS && strncmp(name, "s-", 2) == 0 &&
	       strspn(name + 2, base32) == AUTO_NAME_CHARS;
}

static int check_chosen_name(const char *name, struct error *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strlen(name);
	int r = 0;

	if (len < 1 || len > SESSION_ID_MAX || strspn(name, allowed) != len ||
	    strchr("._-", name[0])) {
		r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC, "not a session id");
		error_remedy(err, "use 1 to 64 of a-z, 0-9, dot, underscore and dash, beginning with a "
				  "letter or digit");
	} else if (has_automatic_form(name)) {
		r = error_set_kind(err, EINVAL, ERROR_INVALID_SPEC,
				   "has the form of an automatic session id");
		error_remedy(err, "choose another one");
	}
	if (r < 0)
		error_field(err, "labels.%s", SESSION_LABEL);
	return r;
}

int dispatch_check_id(const struct spec *spec, struct error *err)
{
	const char *chosen = spec_label(spec, SESSION_LABEL);

	return chosen ? check_chosen_name(chosen, err) : 0;
}
