#include "fs/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "core/owner.h"

/* Decodes \ooo in place: space, tab, newline and backslash are written so. */
static void unescape(char *s)
{
	char *to = s;

	for (const char *p = s; *p; to++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
		    p[3] >= '0' && p[3] <= '7') {
			*to = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 4;
		} else {
			*to = *p++;
		}
	}
	*to = '\0';
}

/* Cuts the next field off *p; NULL at the end. */
static char *next_field(char **p)
{
	char *field = *p;

	if (!field || *field == '\0')
		return NULL;
	char *space = strchr(field, ' ');
	if (space) {
		*space = '\0';
		*p = space + 1;
	} else {
		*p = NULL;
	}
	return field;
}

/* id parent major:minor root mountpoint options [tags…] - type source options */
static bool parse_line(char *line, const char *path, struct mountinfo *ret)
{
	unsigned int maj, min;
	char *p = line, *field = NULL, *dev, *mountpoint, *type, *source;

	line[strcspn(line, "\n")] = '\0';
	(void)next_field(&p);
	(void)next_field(&p);
	dev = next_field(&p);
	(void)next_field(&p);
	mountpoint = next_field(&p);
	if (!mountpoint || sscanf(dev, "%u:%u", &maj, &min) != 2)
		return false;
	unescape(mountpoint);
	if (strcmp(mountpoint, path) != 0)
		return false;
	while ((field = next_field(&p)) && strcmp(field, "-") != 0)
		;
	type = next_field(&p);
	source = next_field(&p);
	if (!type || !source)
		return false;
	unescape(type);
	unescape(source);
	ret->dev = makedev(maj, min);
	(void)snprintf(ret->type, sizeof(ret->type), "%s", type);
	(void)snprintf(ret->source, sizeof(ret->source), "%s", source);
	return true;
}

int mountinfo_find_in(FILE *f, const char *path, struct mountinfo *ret, struct error *err)
{
	AUTO_FREE char *line = NULL;
	size_t size = 0;
	bool found = false;

	/* Mounts are listed in the order in which they were made: the last one lies on top. */
	while (getline(&line, &size, f) >= 0)
		if (parse_line(line, path, ret))
			found = true;
	if (ferror(f))
		return error_set(err, EIO, "cannot read the list of mounts");
	return found;
}

int mountinfo_find(const char *path, struct mountinfo *ret, struct error *err)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/mountinfo", "re");

	if (!f)
		return error_set(err, errno, "cannot open /proc/self/mountinfo: %s",
				 strerror(errno));
	return mountinfo_find_in(f, path, ret, err);
}
