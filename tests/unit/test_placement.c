#include "tests/unit/test.h"

#include <string.h>

#include "core/json.h"
#include "core/placement.h"

static struct candidate able(const char *id)
{
	return (struct candidate){
		.executor_id = id,
		.capabilities =
			{
				.isolation = ISOLATION_CONTAINER,
				.virtualized = true,
				.supports_stream = true,
				.supports_signal = true,
				.supports_resource_limits = true,
				.shares_host_filesystem = true,
				.network_egress = true,
				.supports_image_override = true,
				.supports_sandbox_build = true,
				.supports_workspace_provisioning = true,
				.supports_write_back = true,
				.supports_sandbox_mounts = true,
				.supports_host_mounts = true,
				.supports_secret_files = true,
				.max_concurrent = 4,
				.platform = "linux",
				.arch = "amd64",
			},
		.can_revoke = true,
	};
}

static const struct requirements everything = {
	.require_isolation = true,
	.require_virtualization = true,
	.require_network_egress = true,
	.require_resource_limits = true,
	.require_image_override = true,
	.require_sandbox_build = true,
	.require_sandbox_mounts = true,
	.require_host_mounts = true,
	.require_workspace_provisioning = true,
	.require_host_filesystem_workspace = true,
	.require_write_back = true,
	.require_secret_files = true,
	.require_revocation = true,
	.require_stream = true,
	.require_signal = true,
};

/* Takes capabilities away from the last to the first: the first that is missing is blamed. */
static void the_order_of_blame(void **state)
{
	struct candidate c = able("n");
	struct requirements q = everything;

	(void)state;
	q.min_memory_mb = 10;
	assert_int_equal(placement_reject(&c, &q, true, NULL), CONSTRAINT_NONE);

#define LOSE(change, constraint)                                                                   \
	do {                                                                                       \
		change;                                                                            \
		assert_int_equal(placement_reject(&c, &q, true, NULL), constraint);                \
	} while (0)
	LOSE((c.in_flight_known = true, c.in_flight = 4), CONSTRAINT_CAPACITY);
	LOSE(c.memory_mb = 9, CONSTRAINT_MEMORY);
	LOSE(c.capabilities.supports_signal = false, CONSTRAINT_SIGNAL);
	LOSE(c.capabilities.supports_stream = false, CONSTRAINT_STREAM);
	LOSE(c.can_revoke = false, CONSTRAINT_REVOCATION);
	LOSE(c.capabilities.supports_secret_files = false, CONSTRAINT_SECRET_FILES);
	LOSE(c.capabilities.supports_write_back = false, CONSTRAINT_WRITE_BACK);
	LOSE(c.capabilities.shares_host_filesystem = false, CONSTRAINT_WORKSPACE);
	LOSE(c.capabilities.supports_workspace_provisioning = false, CONSTRAINT_WORKSPACE);
	LOSE(c.capabilities.supports_host_mounts = false, CONSTRAINT_HOST_MOUNTS);
	LOSE(c.capabilities.supports_sandbox_mounts = false, CONSTRAINT_SANDBOX_MOUNTS);
	LOSE(c.capabilities.supports_sandbox_build = false, CONSTRAINT_SANDBOX_BUILD);
	LOSE(c.capabilities.supports_image_override = false, CONSTRAINT_IMAGE_OVERRIDE);
	LOSE(c.capabilities.supports_resource_limits = false, CONSTRAINT_RESOURCE_LIMITS);
	LOSE(c.capabilities.network_egress = false, CONSTRAINT_NETWORK_EGRESS);
	LOSE(q.require_container_runtime = true, CONSTRAINT_CONTAINER_RUNTIME);
	char *have[] = {(char *)"x"}, *want[] = {(char *)"y"};
	LOSE((c.harnesses = have, c.n_harnesses = 1, q.harnesses = want, q.n_harnesses = 1),
	     CONSTRAINT_HARNESS);
	LOSE(q.arch = (char *)"arm64", CONSTRAINT_ARCH);
	LOSE(q.platform = (char *)"plan9", CONSTRAINT_PLATFORM);
	struct spec_label label = {(char *)"k", (char *)"v"};
	LOSE((q.labels = &label, q.n_labels = 1), CONSTRAINT_LABELS);
	LOSE(c.capabilities.virtualized = false, CONSTRAINT_VIRTUALIZATION);
	LOSE(q.allowed_isolations = 1U << ISOLATION_VM, CONSTRAINT_ISOLATION);
	c.capabilities.isolation = ISOLATION_NONE;
	assert_int_equal(placement_reject(&c, &q, false, NULL), CONSTRAINT_HOST_POLICY);
	LOSE(c.state = NODE_CORDONED, CONSTRAINT_HEALTH);
	LOSE(q.executor_id = (char *)"other", CONSTRAINT_EXECUTOR_ID);
#undef LOSE
}

static void single_rules(void **state)
{
	struct spec_label have[] = {{(char *)"a", (char *)"1"}, {(char *)"b", (char *)"2"}};
	struct spec_label want = {(char *)"a", (char *)"1"};
	char *runtimes[] = {(char *)"runc"}, *harnesses[] = {(char *)"Tool", (char *)"b"};
	char *asked[] = {(char *)"tool"}, *both[] = {(char *)"tool", (char *)"c"};
	struct candidate c = able("n");

	(void)state;
#define CHECK(constraint, ...)                                                                     \
	assert_int_equal(placement_reject(&c, &(struct requirements){__VA_ARGS__}, true, NULL),    \
			 constraint)
	CHECK(CONSTRAINT_NONE, .executor_id = (char *)"");
	CHECK(CONSTRAINT_NONE, .executor_id = (char *)"n");
	CHECK(CONSTRAINT_EXECUTOR_ID, .executor_id = (char *)"N");

	c.state = NODE_DEGRADED;
	CHECK(CONSTRAINT_NONE, .ignore_capacity = true);
	CHECK(CONSTRAINT_HEALTH, .forbid_degraded = true);
	c.state = NODE_UNREACHABLE;
	CHECK(CONSTRAINT_HEALTH, .executor_id = (char *)"n");
	c.state = NODE_READY;

	CHECK(CONSTRAINT_LABELS, .labels = &want, .n_labels = 1);
	c.labels = have;
	c.n_labels = 2;
	CHECK(CONSTRAINT_NONE, .labels = &want, .n_labels = 1);
	want.value = (char *)"2";
	CHECK(CONSTRAINT_LABELS, .labels = &want, .n_labels = 1);

	CHECK(CONSTRAINT_NONE, .platform = (char *)"Linux", .arch = (char *)"AMD64");
	CHECK(CONSTRAINT_PLATFORM, .platform = (char *)"linux ");
	c.capabilities.platform = c.capabilities.arch = NULL;
	CHECK(CONSTRAINT_NONE, .platform = (char *)"plan9", .arch = (char *)"vax");

	CHECK(CONSTRAINT_NONE, .harnesses = both, .n_harnesses = 2);
	c.harnesses = harnesses;
	c.n_harnesses = 2;
	CHECK(CONSTRAINT_NONE, .harnesses = asked, .n_harnesses = 1);
	CHECK(CONSTRAINT_HARNESS, .harnesses = both, .n_harnesses = 2);

	c.container_runtimes = runtimes;
	c.n_container_runtimes = 1;
	CHECK(CONSTRAINT_NONE, .require_container_runtime = true);

	CHECK(CONSTRAINT_NONE, .min_memory_mb = 1000);
	c.memory_mb = 999;
	CHECK(CONSTRAINT_MEMORY, .min_memory_mb = 1000);
	c.memory_mb = 1000;
	CHECK(CONSTRAINT_NONE, .min_memory_mb = 1000);

	c.in_flight = 4;
	CHECK(CONSTRAINT_NONE, .forbid_degraded = true);
	c.in_flight_known = true;
	CHECK(CONSTRAINT_CAPACITY, .forbid_degraded = true);
	CHECK(CONSTRAINT_NONE, .ignore_capacity = true);
	c.in_flight = 3;
	CHECK(CONSTRAINT_NONE, .forbid_degraded = true);
	c.in_flight = 9000;
	c.capabilities.max_concurrent = 0;
	CHECK(CONSTRAINT_NONE, .forbid_degraded = true);

	c.capabilities.isolation = ISOLATION_NONE;
	CHECK(CONSTRAINT_ISOLATION, .require_isolation = true);
	CHECK(CONSTRAINT_NONE, .allowed_isolations = 1U << ISOLATION_NONE);
	/* Undeclared is refused by the registry, not here. */
	c.capabilities.isolation = ISOLATION_UNDECLARED;
	CHECK(CONSTRAINT_NONE, .require_isolation = true);
	assert_int_equal(placement_reject(&c, &(struct requirements){0}, false, NULL),
			 CONSTRAINT_NONE);
#undef CHECK
}

static const char *choose(const struct candidate *c, size_t n)
{
	size_t i = 99;

	assert_int_equal(placement_select(c, n, &(struct requirements){0}, true, &i, NULL, NULL),
			 0);
	return c[i].executor_id;
}

static void ranking(void **state)
{
	struct candidate c[3] = {able("c"), able("a"), able("b")};

	(void)state;
	assert_string_equal(choose(c, 3), "a");
	c[1].state = NODE_DEGRADED;
	assert_string_equal(choose(c, 3), "b");
	/* Free slots are absolute, and unknown load is plenty. */
	for (size_t i = 0; i < 3; i++)
		c[i].in_flight_known = true;
	c[0].capabilities.max_concurrent = 100;
	c[0].in_flight = 90;
	c[2].capabilities.max_concurrent = 8;
	assert_string_equal(choose(c, 3), "c");
	c[2].in_flight_known = false;
	assert_string_equal(choose(c, 3), "b");
	c[0].capabilities.max_concurrent = 0;
	assert_string_equal(choose(c, 3), "b");
	c[2].capabilities.isolation = ISOLATION_NONE;
	assert_string_equal(choose(c, 3), "c");
	/* Degraded comes last however free it is. */
	c[1].in_flight_known = false;
	c[0].in_flight = 0;
	c[0].capabilities.max_concurrent = c[2].capabilities.max_concurrent = 1;
	c[2].in_flight_known = true;
	assert_string_equal(choose(c, 3), "c");
}

static void nobody_is_left(void **state)
{
	struct candidate c[4] = {able("d"), able("b"), able("a"), able("c")};
	AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
	struct error err;
	size_t i = 99;

	(void)state;
	c[0].capabilities.supports_stream = false;
	c[1].state = NODE_CORDONED;
	c[2].capabilities.supports_stream = false;
	c[3].state = NODE_UNREACHABLE;
	assert_int_equal(placement_select(c, 4, &(struct requirements){.require_stream = true},
					  true, &i, &refusal, &err),
			 -EHOSTUNREACH);
	/* Two and two: the alphabetically first. */
	assert_int_equal(refusal.constraint, CONSTRAINT_HEALTH);
	assert_int_equal(err.kind, ERROR_NO_PLACEMENT);
	assert_string_equal(err.field, "health");
	assert_int_equal(i, 99);

	AUTO_JSON json_t *v = placement_refusal_to_json(&refusal);
	AUTO_FREE char *text = json_text(v);
	assert_string_equal(
		text, "{\"constraint\":\"health\",\"considered\":4,\"rejections\":["
		      "{\"executor_id\":\"a\",\"constraint\":\"stream\",\"detail\":\"has no live "
		      "output\"},"
		      "{\"executor_id\":\"b\",\"constraint\":\"health\",\"detail\":\"the executor "
		      "is cordoned\"},"
		      "{\"executor_id\":\"c\",\"constraint\":\"health\",\"detail\":\"the executor "
		      "is unreachable\"},"
		      "{\"executor_id\":\"d\",\"constraint\":\"stream\",\"detail\":\"has no live "
		      "output\"}]}");
}

static void errors_have_their_errno(void **state)
{
	struct candidate c = able("n");
	struct placement_refusal refusal;
	struct error err;
	size_t i;

	(void)state;
	assert_int_equal(
		placement_select(NULL, 0, &(struct requirements){0}, true, &i, &refusal, &err),
		-ENODEV);
	assert_int_equal(refusal.constraint, CONSTRAINT_NO_CANDIDATES);
	assert_int_equal(refusal.considered, 0);
	placement_refusal_clear(&refusal);

	c.state = NODE_DRAINING;
	assert_int_equal(placement_select(&c, 1, &(struct requirements){0}, true, &i, NULL, &err),
			 -EBUSY);
	c.state = NODE_READY;
	c.in_flight_known = true;
	c.in_flight = 4;
	assert_int_equal(placement_select(&c, 1, &(struct requirements){0}, true, &i, NULL, &err),
			 -EBUSY);
	c.capabilities.isolation = ISOLATION_NONE;
	assert_int_equal(placement_select(&c, 1, &(struct requirements){0}, false, &i, NULL, &err),
			 -EACCES);
	assert_int_equal(err.kind, ERROR_NO_PLACEMENT);
}

static void the_bound_executor(void **state)
{
	char *others[] = {(char *)"kata-2"};
	struct candidate c = able("bound");
	enum constraint gap = CONSTRAINT_NONE;
	struct error err;
	static const struct {
		struct requirements q;
		bool denied;
	} rows[] = {
		{{.require_image_override = true}, true},  {{.require_sandbox_build = true}, true},
		{{.require_sandbox_mounts = true}, true},  {{.require_network_egress = true}, true},
		{{.require_resource_limits = true}, true}, {{.require_virtualization = true}, true},
		{{.require_secret_files = true}, false},   {{.require_write_back = true}, false},
		{{.require_isolation = true}, false},      {{.require_host_mounts = true}, false},
	};

	(void)state;
	assert_int_equal(placement_check_bound(&c, &everything, false, "/p", NULL, 0, &gap, &err),
			 0);
	assert_int_equal(gap, CONSTRAINT_NONE);
	c.capabilities = (struct capabilities){.isolation = ISOLATION_NONE};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = placement_check_bound(&c, &rows[i].q, true, "/p", others, 1, &gap, &err);

		assert_int_equal(r, rows[i].denied ? -EACCES : -ENODEV);
		assert_int_equal(err.kind,
				 rows[i].denied ? ERROR_HOST_EXECUTION_DENIED : ERROR_NO_PLACEMENT);
		if (rows[i].denied)
			assert_non_null(strstr(err.remedy, "kata-2"));
	}
	/* The policy itself is an ordinary gap here. */
	assert_int_equal(placement_check_bound(&c, &(struct requirements){0}, false, "/p", others,
					       1, &gap, &err),
			 -EACCES);
	assert_int_equal(err.kind, ERROR_NO_PLACEMENT);
	assert_int_equal(gap, CONSTRAINT_HOST_POLICY);
	/* An isolated executor with the same gap is not a matter of the host. */
	c.capabilities.isolation = ISOLATION_REMOTE;
	assert_int_equal(placement_check_bound(&c, &rows[0].q, true, "/p", others, 1, &gap, &err),
			 -ENODEV);
	assert_int_equal(gap, CONSTRAINT_IMAGE_OVERRIDE);
	/* Undeclared isolation counts as none. */
	c.capabilities.isolation = ISOLATION_UNDECLARED;
	assert_int_equal(placement_check_bound(&c, &rows[0].q, true, "/p", others, 1, &gap, &err),
			 -EACCES);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(constraint_name(CONSTRAINT_HOST_POLICY), "host_execution_policy");
	for (unsigned i = 1; i < CONSTRAINTS; i++)
		assert_true(constraint_name((enum constraint)i)[0] != '\0');
	assert_string_equal(constraint_name(CONSTRAINTS), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_order_of_blame),
		cmocka_unit_test(single_rules),
		cmocka_unit_test(ranking),
		cmocka_unit_test(nobody_is_left),
		cmocka_unit_test(errors_have_their_errno),
		cmocka_unit_test(the_bound_executor),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
