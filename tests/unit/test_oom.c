/*
 * Memory that runs out: every scenario runs once for each of its allocations, which then fails. It
 * may succeed or refuse, but not crash, and the sanitizer sees that nothing is lost.
 *
 * The linker sends the allocations of core/ through here (--wrap), and with them those of the
 * parser (core/json_text.c).
 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/device.h"
#include "core/executor.h"
#include "core/executor_config.h"
#include "core/gitplan.h"
#include "core/health.h"
#include "core/hub_config.h"
#include "core/json.h"
#include "core/lease.h"
#include "core/placement.h"
#include "core/project.h"
#include "core/redact.h"
#include "core/registry.h"
#include "core/requirements.h"
#include "core/revocation_json.h"
#include "core/revocation_log.h"
#include "core/spec.h"
#include "core/strlist.h"
#include "core/workspace_access.h"
#include "core/writeback_inspect.h"
#include "core/writeback_result.h"

static size_t count, fail_at; /* fail_at 0: never */

static bool fails(void)
{
	return ++count == fail_at;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_asprintf(char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return fails() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? NULL : __real_strndup(s, n);
}

int __wrap_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;

	if (fails()) {
		/* What the library leaves there is undefined: nobody may look. */
		*ret = (char *)0x1;
		return -1;
	}
	va_start(ap, fmt);
	int n = vasprintf(ret, fmt, ap);
	va_end(ap);
	return n;
}

/* Runs it with every allocation failing in turn. Returns how many there are. */
static size_t torture(void (*scenario)(void))
{
	size_t n = 0;

	for (fail_at = 1;; fail_at++) {
		count = 0;
		scenario();
		n = count;
		if (count < fail_at)
			break;
		/* A scenario that goes on for ever would say nothing. */
		assert_true(fail_at < 100000);
	}
	fail_at = 0;
	return n;
}

/* Whether it was refused: then with a sentence, and never because of what was written. */
static bool refused(int r, const struct error *err)
{
	if (r == 0)
		return false;
	if (r != -ENOMEM)
		fail_msg("allocation %zu: %d, %s: %s", fail_at, r, err->field, err->reason);
	assert_true(err->reason[0] != '\0');
	return true;
}

/* What is all there, or NULL. Frees it. */
static void whole(char *text, const char *want)
{
	if (text)
		assert_string_equal(text, want);
	free(text);
}

/* Documents in canonical form. */
#define EXECUTOR_JSON                                                                              \
	"{\"kind\":\"x\",\"labels\":{\"a\":\"1\",\"b\":\"2\"},\"max_concurrent\":3,"               \
	"\"log_quota_bytes\":4096,\"harnesses\":[\"A\",\"b\"],\"container_runtimes\":[\"kata\"],"  \
	"\"memory_mb\":16,\"health_check\":{\"argv\":[\"/bin/sh\",\"-c\",\"\"],\"timeout_ms\":7}}"
#define REQUIREMENTS_JSON                                                                          \
	"{\"labels\":{\"a\":\"1\",\"b\":\"2\"},\"harnesses\":[\"h\"],"                             \
	"\"allowed_isolations\":[\"container\",\"vm\"],\"require_signal\":true}"

/* Nobody asks; but who has none takes no health_check. */
static int probe(struct driver *d, const struct executor_probe *p, executor_probe_fn *done,
		 void *user, struct error *err)
{
	(void)d;
	(void)p;
	(void)done;
	(void)user;
	return error_set(err, ENOSYS, "nobody asks");
}

static void an_executor_config(void)
{
	static struct driver_ops ops = {.kind = "x", .probe = probe};
	static struct driver driver = {.ops = &ops};
	static struct driver *const drivers[] = {&driver, NULL};
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0};
	struct error err = {0};

	if (!refused(executor_config_parse(EXECUTOR_JSON, strlen(EXECUTOR_JSON), drivers, &c, &err),
		     &err))
		whole(executor_config_text(&c), EXECUTOR_JSON);
	else
		assert_null(c.kind);
}

static void a_hub_config(void)
{
	static const char text[] = "{\"executors\":{\"allow_host_process\":false},\"supervisor\":{"
				   "\"interval\":\"100ms\","
				   "\"jitter_fraction\":0.9},\"retention\":{\"age\":\"10s\"},\"log_"
				   "quota_bytes\":4096}";
	struct hub_config c = {.retention_count = 7};
	struct error err = {0};

	if (refused(hub_config_parse(text, strlen(text), &c, &err), &err)) {
		assert_int_equal(c.retention_count, 7);
		assert_int_equal(c.log_quota_bytes, 0);
	} else {
		assert_int_equal(c.host_process, HOST_PROCESS_FORBIDDEN);
		assert_int_equal(c.log_quota_bytes, 4096);
	}
}

static void some_requirements(void)
{
	AUTO_REQUIREMENTS struct requirements q = {0};
	struct error err = {0};

	if (!refused(requirements_parse(REQUIREMENTS_JSON, strlen(REQUIREMENTS_JSON), &q, &err),
		     &err))
		whole(requirements_text(&q), REQUIREMENTS_JSON);
	else
		assert_true(requirements_is_zero(&q));
}

static void a_placement_request(void)
{
	static const char *const text[] = {
		[PLACEMENT_REQUEST_WHOLE] = "{\"spec\":{\"argv\":[\"a\"],\"image\":\"i\"},"
					    "\"requirements\":" REQUIREMENTS_JSON "}",
		[PLACEMENT_REQUEST_START] = "{\"argv\":[\"a\"],\"image\":\"i\"}",
		[PLACEMENT_REQUEST_CHECK] = REQUIREMENTS_JSON,
	};

	for (size_t form = 0; form < ARRAY_SIZE(text); form++) {
		AUTO_PLACEMENT_REQUEST struct placement_request q = {0};
		struct error err = {0};
		int r = placement_request_parse(text[form], strlen(text[form]),
						(enum placement_request_form)form, &q, &err);

		if (refused(r, &err)) {
			assert_null(q.spec);
			assert_true(requirements_is_zero(&q.requirements));
			continue;
		}
		assert_int_equal(q.spec != NULL, form != PLACEMENT_REQUEST_CHECK);
		assert_int_equal(q.requirements.require_signal, form != PLACEMENT_REQUEST_START);
		assert_int_equal(q.requirements.require_image_override,
				 form != PLACEMENT_REQUEST_CHECK);
	}
}

static void a_project_path(void)
{
	struct error err = {0};
	char *path = NULL;

	if (!refused(project_path_clean("/a/../b//c", &path, &err), &err))
		whole(path, "/b/c");
	else
		assert_null(path);
}

static void a_revocation(void)
{
	static const char text[] =
		"{\"lease_id\":\"L\",\"grant_id\":\"g\",\"action\":\"kill\",\"known\":true,"
		"\"env_scrubbed\":[\"a\",\"b\"],\"killed\":[\"h\"],\"error\":\"half\"}";
	struct revoke_report report = {0};
	AUTO_JSON json_t *value = NULL;
	struct error err = {0};

	if (refused(json_parse(text, strlen(text), &value, &err), &err) ||
	    refused(revoke_report_from_json(value, "", &report, &err), &err)) {
		assert_int_equal(report.n_killed, 0);
		assert_null(report.error);
		return;
	}
	AUTO_JSON json_t *back = revoke_report_to_json(&report);
	if (back)
		assert_string_equal(json_string_value(json_object_get(back, "error")), "half");
	struct revoke_outcome outcome = {.lease_id = (char *)"L", .has_ack = true, .ack = report};
	json_decref(revoke_outcome_to_json(&outcome));
	revoke_report_clear(&report);
}

static void some_capabilities(void)
{
	struct capabilities c = {.isolation = ISOLATION_CONTAINER, .supports_signal = true}, back;
	AUTO_JSON json_t *value = capabilities_to_json(&c);
	struct error err = {0};

	if (!value || refused(capabilities_from_json(value, "", &back, &err), &err))
		return;
	assert_int_equal(back.isolation, ISOLATION_CONTAINER);
	assert_true(back.supports_signal);
}

static const char spec_json[] =
	"{\"work_dir\":\"/w\",\"argv\":[\"a\",\"b\"],\"env\":[\"A=/run/l/x\",\"B=\"],"
	"\"labels\":{\"k\":\"v\",\"a\":\"b\"},\"resource_limits\":{\"pids\":1},\"image\":\" i \","
	"\"setup_commands\":[\"c\"],\"mounts\":[{\"source\":\"s\",\"target\":\"/m\"}],"
	"\"host_mounts\":[{\"name\":\"n\",\"source\":\"/s\",\"target\":\"/t\"}],"
	"\"secrets\":[{\"lease_id\":\"l\",\"env_keys\":[\"A\"],\"files\":[\"/run/l/x\"],\"dir\":\"/"
	"run/l\"}],"
	"\"workspace\":{\"kind\":\"git\",\"repo\":\"https://h/a/b\",\"ref\":"
	"\"0123456789abcdef0123456789abcdef01234567\"},"
	"\"write_back\":{\"mode\":\"push\",\"branch\":\"cloop/x\"}}";

static void a_spec(void)
{
	AUTO_SPEC struct spec *spec = NULL;
	struct error err = {0};
	int r = spec_parse(spec_json, sizeof(spec_json) - 1, &spec, &err);

	if (refused(r, &err)) {
		assert_null(spec);
		return;
	}
	AUTO_FREE char *before = spec_text(spec);
	r = spec_relocate_secrets(spec, "/run/l", "/dev/shm/x", &err);
	AUTO_FREE char *after = spec_text(spec);
	/* All of it moved, or nothing. */
	if (before && after)
		assert_int_equal(strcmp(before, after) == 0, r < 0);
}

static void a_plan(void)
{
	struct workspace w = {.kind = WORKSPACE_GIT, .repo = (char *)"https://h/a/b"};
	struct git_credential c = {.password = "tok-12345678"};
	struct git_plan plan;
	char **list;
	size_t n;

	if (git_plan_make(&w, "/w", &plan, NULL) == 0)
		git_plan_clear(&plan);
	if (git_credential_env(&w, &c, &list, &n, NULL) == 0)
		git_secrets_free(list, n);
	if (git_credential_secrets(&c, &list, &n) == 0)
		git_secrets_free(list, n);
	free(git_credential_header(&c));
	free(workspace_describe(&w));
	free(workspace_host(&w));
	free(device_work_dir("/srv/x"));
	struct grant_denial d = {.workspace = &w, .executor_id = "e"};
	assert_true(workspace_grant_deny(&d, NULL) < 0);
}

static void a_write_back(void)
{
	static const char twice[] = WRITEBACK_SENTINEL
		" {\"branch\":\"cloop/a\",\"commit_sha\":\"x\"}\n" WRITEBACK_SENTINEL
		" {\"branch\":\"cloop/b\",\"commit_sha\":\"y\"}\n";
	AUTO_WRITEBACK_RESULT struct writeback_result last = {0};
	int found = writeback_sentinel_scan(twice, sizeof(twice) - 1, &last);

	/* The last one counts, or none. */
	assert_true(found == 1 || found == -ENOMEM);
	if (found == 1)
		assert_string_equal(last.branch, "cloop/b");

	static const char output[] =
		WRITEBACK_SENTINEL " {\"branch\":\"cloop/a\",\"commit_sha\":\"x\"}";
	struct bundle_entry e = {"d/l", 3, MODE_SYMLINK, "../x", 4};
	AUTO_WRITEBACK_RESULT struct writeback_result r = {0};
	AUTO_FREE char *line = NULL;
	int bad;

	(void)writeback_sentinel_scan(output, sizeof(output) - 1, &r);
	(void)writeback_sentinel_make(&r, &line, NULL);
	free(writeback_result_describe(&r));
	bad = writeback_check_entry(&e, NULL, NULL);
	assert_true(bad == 0 || bad == -ENOMEM);
	struct text_view secret = {"cloop-writeback", 15};
	AUTO_FREE char *masked = NULL;
	size_t len;
	(void)redact_text(output, sizeof(output) - 1, &secret, 1, &masked, &len);
}

static void leases(void)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	char *key[] = {(char *)"T", NULL};
	struct secret_binding b = {.lease_id = (char *)"L", .env_keys = key, .n_env_keys = 1};
	struct handle_record old = {.handle_id = (char *)"old"};
	struct lease_holder *holders;
	char **list;
	size_t n;

	if (!index)
		return;
	int bound = lease_index_bind(index, "h", &b, 1);
	assert_int_equal(lease_index_holds(index, "L"), bound == 0);
	int marked = lease_index_adopt(index, &old);
	assert_int_equal(lease_index_holds(index, "other"), marked == 0);
	if (lease_index_leases(index, &list, &n) == 0)
		strlist_free(list, n);
	if (lease_index_unresolved(index, &list, &n) == 0)
		strlist_free(list, n);
	if (lease_index_holders(index, &(struct revoke_request){.lease_id = "L"}, &holders, &n) ==
	    0)
		lease_holders_free(holders, n);
	assert_int_equal(lease_index_unresolved_error(index, NULL) < 0, marked == 0);
}

static void a_revocation_log(void)
{
	AUTO_REVOCATION_LOG struct revocation_log *log = revocation_log_new();
	char *killed[] = {(char *)"h", NULL};
	struct revoke_outcome o = {.lease_id = (char *)"L", .reason = (char *)"r"};
	struct revoke_report ack = {.known = true, .killed = killed, .n_killed = 1};
	const struct revoke_outcome **list;
	size_t n;

	if (!log)
		return;
	(void)revocation_log_record(log, &o, NULL);
	(void)revocation_log_record(log, &o, NULL);
	(void)revocation_log_settle(log, "L", "", &ack, 1);
	(void)revocation_log_fail(log, "L", "", REVOKE_FAILED, "x");
	if (revocation_log_pending(log, &list, &n) == 0)
		free(list);
	if (revocation_log_snapshot(log, &list, &n) == 0)
		free(list);
}

static void a_registry(void)
{
	struct host_policy policy = {0};
	AUTO_REGISTRY struct registry *r = registry_new(&policy);
	const struct registry_entry *entry;
	struct error err = {0};

	if (!r)
		return;
	int added = registry_register(r, "host", ISOLATION_NONE, NULL, NULL);
	assert_int_equal(registry_len(r), added == 0);
	assert_int_equal(registry_default_id(r)[0] != '\0', added == 0);
	(void)registry_register(r, "box", ISOLATION_VM, NULL, NULL);
	int bound = registry_bind(r, "/p", "gone", NULL);
	int found = registry_resolve(r, "/p", &entry, &err);
	/* A binding that is held is never passed over for the default. */
	if (bound == 0)
		assert_true(found == -ENOENT || found == -ENOMEM);
	host_policy_apply(&policy, false);
	assert_true(registry_resolve(r, "/q", &entry, &err) < 0 ||
		    isolation_isolates_from_host(entry->isolation));
	registry_unregister(r, "host");
}

static void records(void)
{
	AUTO_MEMORY_HANDLE_STORE struct handle_store *store = handle_store_new_memory();
	struct spec_label meta = {(char *)"k", (char *)"v"};
	struct secret_binding b = {.lease_id = (char *)"L", .egress = true};
	struct handle_record r = {.handle_id = (char *)"h",
				  .executor_id = (char *)"e",
				  .external_id = (char *)"x",
				  .meta = &meta,
				  .n_meta = 1,
				  .secrets = &b,
				  .n_secrets = 1};
	struct handle_record *rows = NULL, back;
	size_t n = 0;

	if (!store)
		return;
	handle_store_record(store, &r, NULL);
	handle_store_load(store, "", &rows, &n, NULL);
	handle_records_free(rows, n);
	AUTO_JSON json_t *v = handle_record_to_json(&r);
	if (v && handle_record_from_json(v, "", &back, NULL) == 0)
		handle_record_clear(&back);
}

static void a_placement(void)
{
	struct candidate c = {.executor_id = "e"};
	struct placement_refusal refusal = {0};
	struct health h = {0};
	size_t i;

	if (placement_select(&c, 1, &(struct requirements){.require_stream = true}, true, &i,
			     &refusal, NULL) < 0) {
		json_decref(placement_refusal_to_json(&refusal));
		placement_refusal_clear(&refusal);
	}
	json_decref(capabilities_to_json(&c.capabilities));
	json_decref(health_to_json("e", &h));
}

static void each_allocation_fails(void **state)
{
	static void (*const scenarios[])(void) = {
		a_spec,
		a_plan,
		a_write_back,
		leases,
		a_revocation_log,
		a_registry,
		records,
		a_placement,
		an_executor_config,
		a_hub_config,
		some_requirements,
		a_placement_request,
		a_revocation,
		some_capabilities,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		assert_true(torture(scenarios[i]) > 3);
	/* That one makes few. */
	assert_true(torture(a_project_path) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};

	return cmocka_run_group_tests_name("oom", tests, NULL, NULL);
}
