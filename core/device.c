#include "core/device.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/owner.h"
#include "core/pathname.h"

/* Letters, digits, '_' and '-' stay, every other code point becomes one '-'. */
static void base_name(const char *path, char buf[static DEVICE_NAME_BASE_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	size_t used = 0, skip = 0;

	for (const char *p = slash ? slash + 1 : path; *p && used < DEVICE_NAME_BASE_MAX; p++) {
		char c = *p;

		if (((unsigned char)c & 0xc0) == 0x80)
			continue;
		bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '_' || c == '-';
		buf[used++] = keep ? c : '-';
	}
	while (used > 0 && buf[used - 1] == '-')
		used--;
	while (skip < used && buf[skip] == '-')
		skip++;
	memmove(buf, buf + skip, used - skip);
	buf[used - skip] = '\0';
}

char *device_work_dir(const char *work_dir)
{
	char base[DEVICE_NAME_BASE_MAX + 1];
	unsigned char digest[EVP_MAX_MD_SIZE];
	char *name = NULL;

	if (work_dir[0] != '/')
		return strdup(work_dir);
	AUTO_FREE char *path = pathname_clean(work_dir, strlen(work_dir));
	if (!path || EVP_Digest(path, strlen(path), digest, NULL, EVP_sha256(), NULL) != 1)
		return NULL;
	base_name(path, base);
	if (asprintf(&name, "%s-%02x%02x%02x%02x", base[0] ? base : "project", digest[0], digest[1],
		     digest[2], digest[3]) < 0)
		return NULL;
	return name;
}
