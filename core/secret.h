/*
 * How a spec speaks of leased secrets.
 *
 * A binding says which parts of a spec came from one lease: names and paths, never material, so it
 * may be stored and logged. A secret file carries the material itself; it is never serialised and
 * its content is wiped when it is freed.
 *
 * Source of the rules: the reference's SecretBinding, SecretFile and ValidateSecretFiles.
 */
#ifndef CLOOP_CORE_SECRET_H
#define CLOOP_CORE_SECRET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

/* The reference's MaxSecretFileBytes: a token, a script or a kubeconfig is far below it. */
#define MAX_SECRET_FILE_BYTES (256 * 1024)
/* NAME_MAX: a longer name cannot be created anywhere. */
#define SECRET_NAME_BYTES_MAX 255
/* PATH_MAX without its NUL. */
#define SECRET_PATH_BYTES_MAX 4095
/* A lease produces a handful of files; this only ends absurd sets. */
#define SECRET_FILES_MAX 1024
/* One binding a grant, and a lease has some dozens at most. */
#define SECRET_BINDINGS_MAX 256
/* Names or paths in one binding, for the same reason. */
#define SECRET_BINDING_ITEMS_MAX 1024
/* Ids, names and kinds: they become log fields. */
#define SECRET_ID_BYTES_MAX 256

#define SECRET_FILE_DEFAULT_MODE 0600

struct secret_binding {
	char *lease_id;
	char *grant_id;    /* "": the whole lease */
	char *secret_name; /* for people */
	char *kind;        /* "github_pat", "kubeconfig", … */
	char **env_keys;   /* names of variables, never K=V */
	size_t n_env_keys;
	char **files; /* paths as the executor sees them */
	size_t n_files;
	char *dir;   /* the lease directory that holds files */
	bool egress; /* it also opened a way into the network */
	int64_t expires_at_ns;
};

struct secret_file {
	char *lease_id;
	char *grant_id;
	char *dir;    /* absolute, as the workload sees it */
	char *name;   /* a bare file name */
	int64_t mode; /* permission bits, 0 means SECRET_FILE_DEFAULT_MODE */
	unsigned char *content;
	size_t content_len;
};

/* Whether it names a lease and something that lease delivered: a variable, a file or egress. */
bool secret_binding_revocable(const struct secret_binding *b);

/*
 * Checks a list of bindings: counts, lengths, and that env_keys are names (a K=V there would put a
 * secret at rest). EINVAL, ERROR_INVALID_SPEC.
 */
int secret_bindings_validate(const struct secret_binding *bindings, size_t n, const char *path,
			     struct error *err);

int secret_bindings_from_json(json_t *array, const char *path, struct secret_binding **ret,
			      size_t *ret_n, struct error *err);
json_t *secret_bindings_to_json(const struct secret_binding *bindings, size_t n);

/* A deep copy of one binding. Returns 0 or -ENOMEM, leaving *ret empty. */
int secret_binding_copy(struct secret_binding *ret, const struct secret_binding *b);
void secret_binding_clear(struct secret_binding *b);
struct secret_binding *secret_bindings_free(struct secret_binding *bindings, size_t n);

/*
 * The bindings as a refusal names them: "ci (github_pat), prod (kubeconfig)". The lease id is the
 * last resort. Caller frees; NULL when out of memory.
 */
char *secret_bindings_describe(const struct secret_binding *bindings, size_t n);

/* Every variable name of the bindings, once each, sorted. Caller frees with strlist_free(). */
int secret_bindings_env_keys(const struct secret_binding *bindings, size_t n, char ***ret,
			     size_t *ret_n);

/* The mode to create a file with that was validated. */
mode_t secret_file_mode(const struct secret_file *f);

/* dir/name, cleaned. Caller frees; NULL when out of memory. */
char *secret_file_path(const struct secret_file *f);

/* What a log may show: path, mode and size, never content. Caller frees. */
char *secret_file_describe(const struct secret_file *f);

/*
 * Checks a set: dir is absolute and clean and not "/", name is bare, the mode has owner bits only,
 * the content fits, no two files have one path. EINVAL, ERROR_INVALID_SPEC; never quotes content.
 */
int secret_files_validate(const struct secret_file *files, size_t n, const char *path,
			  struct error *err);

/* The distinct directories in the order they first appear. Caller frees with strlist_free(). */
int secret_files_dirs(const struct secret_file *files, size_t n, char ***ret, size_t *ret_n);

/* Wipes the content. */
void secret_file_clear(struct secret_file *f);
struct secret_file *secret_files_free(struct secret_file *files, size_t n);

#endif
