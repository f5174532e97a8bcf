/*
 * Vetting what a sandbox wrote: which paths, modes and links of a commit range may be applied.
 *
 * The sandbox runs hostile code, so this gates every range, pushed or bundled alike. It takes the
 * entries as they were read out of git and does no I/O.
 *
 * Paths: relative, clean, inside the tree, no control character and no backslash, nothing named
 * .git in any spelling that a case-folding or normalising file system takes for it: any case,
 * trailing dots and spaces, the short name git~1, an NTFS stream (".git:x", ".git::$INDEX…") and
 * code points that HFS+ ignores. `.github`, `.gitmodules` and `x.git` are ordinary.
 * Modes: a deletion, a file, an executable, a tree and a symbolic link are accepted, submodules and
 * everything else are not. A link may point to the root of the tree or inside it, not into .git;
 * it is resolved lexically from its own directory.
 *
 * Source: the reference's ValidateWriteBackPath, ValidateBundleEntry and InspectWriteBack. The last
 * two foldings of .git go further.
 *
 * Errors: EBADMSG with ERROR_WRITEBACK_REJECTED. A rejection is a security event and never worth a
 * retry; an infrastructure failure is ERROR_WRITEBACK_UNAVAILABLE and comes from elsewhere.
 */
#ifndef CLOOP_CORE_WRITEBACK_INSPECT_H
#define CLOOP_CORE_WRITEBACK_INSPECT_H

#include <stddef.h>

#include "core/error.h"
#include "core/writeback.h"

/* The reference's bounds. */
#define MAX_WRITEBACK_FILES 20000
#define MAX_WRITEBACK_PATH_LEN 4096

/* Git file modes as `git diff --raw` prints them. */
#define MODE_ABSENT "000000"
#define MODE_FILE "100644"
#define MODE_EXEC "100755"
#define MODE_SYMLINK "120000"
#define MODE_SUBMODULE "160000"
#define MODE_TREE "040000"

/*
 * The closed set of classifications: what metrics count by. The sentence of a rejection holds names
 * that the sandbox chose and must not be counted by.
 */
enum writeback_reason {
	WRITEBACK_REASON_UNSPECIFIED = 0, /* not classified: a mistake of the hub */
	WRITEBACK_REASON_BAD_BRANCH,
	WRITEBACK_REASON_BAD_COMMIT,
	WRITEBACK_REASON_EMPTY_RANGE,
	WRITEBACK_REASON_UNKNOWN_BASE,
	WRITEBACK_REASON_FSCK,
	WRITEBACK_REASON_REF_MOVED,
	WRITEBACK_REASON_NOT_DESCENDANT,
	WRITEBACK_REASON_TOO_MANY_COMMITS,
	WRITEBACK_REASON_PATH,
	WRITEBACK_REASON_MODE,
	WRITEBACK_REASONS, /* how many there are */
};

/* "bad_branch" and so on; anything outside the set is "unspecified". */
const char *writeback_reason_name(enum writeback_reason reason);

/* One changed path of a range. Borrowed; the path may hold any byte. */
struct bundle_entry {
	const char *path;
	size_t path_len;
	const char *mode;
	const char *link_target; /* for MODE_SYMLINK, else NULL */
	size_t link_target_len;
};

/* What was refused. Everything borrowed from the arguments; NULL where it plays no part. */
struct writeback_rejection {
	enum writeback_reason code;
	const char *branch;
	const char *commit_sha;
	const struct bundle_entry *entry; /* NULL when no single path is at fault */
	const char *mode;                 /* when the mode is the problem */
	const char *target;               /* when the link is the problem */
};

/*
 * Fills err with a rejection of the given class. For the parts of the pipeline that know a reason
 * of their own: wrong ref, unknown base. Returns -EBADMSG.
 */
int writeback_reject(struct writeback_rejection *ret, enum writeback_reason code, struct error *err,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

int writeback_check_path(const char *path, size_t len, struct error *err);

/* ret may be NULL; it is filled on a rejection only. */
int writeback_check_entry(const struct bundle_entry *entry, struct writeback_rejection *ret,
			  struct error *err);

/*
 * Checks a whole range: first how many entries there are, then each. Branch and commit are not
 * checked again, they only locate the refusal.
 */
int writeback_inspect(const char *branch, const char *commit_sha,
		      const struct bundle_entry *entries, size_t n, struct writeback_rejection *ret,
		      struct error *err);

#endif
