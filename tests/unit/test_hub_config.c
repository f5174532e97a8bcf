#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/disk_floor.h"
#include "core/duration.h"
#include "core/hub_config.h"
#include "core/owner.h"

static int parse(const char *text, struct hub_config *ret, struct error *err)
{
	return hub_config_parse(text, strlen(text), ret, err);
}

static void what_is_not_said_has_its_default(void **state)
{
	static const char *const texts[] = {
		"{}",
		" {\"executors\":{}, \"supervisor\":null, \"retention\":{\"age\":null}} ",
		"{\"executors\":{\"allow_host_process\":null}}",
	};
	const struct hub_config d = hub_config_default();

	(void)state;
	assert_int_equal(d.retention_age_ns, 30 * 86400 * CLOCK_NS_PER_S);
	assert_int_equal(d.retention_count, 100000);
	assert_int_equal(d.disk_floor_bytes, 1 << 30);
	assert_int_equal(d.failover_max_attempts, 2);
	assert_int_equal(d.log_quota_bytes, 1 << 30);
	assert_int_equal(d.host_process, HOST_PROCESS_UNSAID);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct hub_config c;
		struct error err;

		memset(&c, 0xff, sizeof(c));
		assert_int_equal(parse(texts[i], &c, &err), 0);
		assert_int_equal(c.supervisor.interval_ns, d.supervisor.interval_ns);
		assert_int_equal(c.supervisor.policy.unreachable_after, 3);
		assert_int_equal(c.retention_age_ns, d.retention_age_ns);
		assert_int_equal(c.retention_count, d.retention_count);
		assert_int_equal(c.host_process, HOST_PROCESS_UNSAID);
	}
}

static void every_key_is_read(void **state)
{
	static const char text[] =
		"{\"executors\":{\"allow_host_process\":false},"
		"\"supervisor\":{\"interval\":\"100ms\",\"probe_timeout\":\"2s\",\"backoff_base\":\"3s\","
		"\"backoff_max\":\"1h\",\"jitter_fraction\":0.9,\"max_concurrent_probes\":1024,"
		"\"degrade_after\":2,\"unreachable_after\":2},"
		"\"failover\":{\"max_attempts\":0},"
		"\"retention\":{\"age\":\"10s\",\"count\":0},"
		"\"log_quota_bytes\":4096,\"disk_floor_bytes\":0}";
	struct hub_config c;
	struct error err;

	(void)state;
	assert_int_equal(parse(text, &c, &err), 0);
	assert_int_equal(c.host_process, HOST_PROCESS_FORBIDDEN);
	assert_int_equal(c.supervisor.interval_ns, 100 * CLOCK_NS_PER_MS);
	assert_int_equal(c.supervisor.probe_timeout_ns, 2 * CLOCK_NS_PER_S);
	assert_int_equal(c.supervisor.backoff_base_ns, 3 * CLOCK_NS_PER_S);
	assert_int_equal(c.supervisor.backoff_max_ns, 3600 * CLOCK_NS_PER_S);
	assert_true(c.supervisor.jitter_fraction > 0.89 && c.supervisor.jitter_fraction < 0.91);
	assert_int_equal(c.supervisor.max_concurrent_probes, 1024);
	assert_int_equal(c.supervisor.policy.degrade_after, 2);
	assert_int_equal(c.supervisor.policy.unreachable_after, 2);
	assert_int_equal(c.failover_max_attempts, 0);
	assert_int_equal(c.retention_age_ns, 10 * CLOCK_NS_PER_S);
	assert_int_equal(c.retention_count, 0);
	assert_int_equal(c.log_quota_bytes, 4096);
	assert_int_equal(c.disk_floor_bytes, 0);
	assert_int_equal(parse("{\"executors\":{\"allow_host_process\":true}}", &c, &err), 0);
	assert_int_equal(c.host_process, HOST_PROCESS_ALLOWED);
	assert_int_equal(parse("{\"supervisor\":{\"jitter_fraction\":0}}", &c, &err), 0);
	assert_true(c.supervisor.jitter_fraction == 0);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *field;
	} cases[] = {
		{"", ""},
		{"[]", ""},
		{"{", ""},
		{"{} {}", ""},
		{"{\"retention\":{},\"retention\":{}}", ""},
		{"{\"retentoin\":{}}", "retentoin"},
		{"{\"retention\":{\"agge\":\"1d\"}}", "retention.agge"},
		{"{\"retention\":7}", "retention"},
		{"{\"retention.age\":\"1d\"}", "retention.age"},
		{"{\"retention\":{\"age\":30}}", "retention.age"},
		{"{\"retention\":{\"age\":\"30\"}}", "retention.age"},
		{"{\"retention\":{\"age\":\"9s\"}}", "retention.age"},
		{"{\"retention\":{\"age\":\"36501d\"}}", "retention.age"},
		{"{\"retention\":{\"age\":\"99999999999999d\"}}", "retention.age"},
		{"{\"retention\":{\"count\":-1}}", "retention.count"},
		{"{\"retention\":{\"count\":1.5}}", "retention.count"},
		{"{\"failover\":{\"max_attempts\":11}}", "failover.max_attempts"},
		{"{\"log_quota_bytes\":4095}", "log_quota_bytes"},
		{"{\"disk_floor_bytes\":-1}", "disk_floor_bytes"},
		{"{\"disk_floor_bytes\":\"1g\"}", "disk_floor_bytes"},
		{"{\"executors\":{\"allow_host_process\":\"true\"}}", "executors.allow_host_process"},
		{"{\"executors\":{\"allow_host_process\":1}}", "executors.allow_host_process"},
		{"{\"supervisor\":{\"interval\":\"99ms\"}}", "supervisor.interval"},
		{"{\"supervisor\":{\"jitter_fraction\":0.95}}", "supervisor.jitter_fraction"},
		{"{\"supervisor\":{\"jitter_fraction\":-0.1}}", "supervisor.jitter_fraction"},
		{"{\"supervisor\":{\"jitter_fraction\":\"1\"}}", "supervisor.jitter_fraction"},
		{"{\"supervisor\":{\"max_concurrent_probes\":0}}", "supervisor.max_concurrent_probes"},
		{"{\"supervisor\":{\"degrade_after\":0}}", "supervisor.degrade_after"},
		{"{\"supervisor\":{\"degrade_after\":4}}", "supervisor.unreachable_after"},
		{"{\"supervisor\":{\"backoff_base\":\"10m\"}}", "supervisor.backoff_max"},
		{"{\"container\":{\"enabled\":true}}", "container"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hub_config c = {.retention_count = 42};
		struct error err;

		assert_int_equal(parse(cases[i].text, &c, &err), -EINVAL);
		assert_string_equal(err.field, cases[i].field);
		assert_int_equal(c.retention_count, 42);
	}
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ns; /* -1: refused */
	} cases[] = {
		{"0s", 0},
		{"1ms", CLOCK_NS_PER_MS},
		{"45s", 45 * CLOCK_NS_PER_S},
		{"90m", 5400 * CLOCK_NS_PER_S},
		{"12h", 43200 * CLOCK_NS_PER_S},
		{"106751d", INT64_C(106751) * 86400 * CLOCK_NS_PER_S},
		{"106752d", -1},
		{"9223372036854775808ms", -1},
		{"99999999999999999999s", -1},
		{"", -1},
		{"s", -1},
		{"1", -1},
		{"1 s", -1},
		{" 1s", -1},
		{"-1s", -1},
		{"+1s", -1},
		{"1.5h", -1},
		{"1h30m", -1},
		{"1S", -1},
		{"1ns", -1},
		{"1s\n", -1},
	};
	static const struct {
		int64_t ns;
		const char *text;
	} formats[] = {
		{0, "0ms"},
		{CLOCK_NS_PER_MS, "1ms"},
		{1500 * CLOCK_NS_PER_MS, "1500ms"},
		{60 * CLOCK_NS_PER_S, "1m"},
		{90 * CLOCK_NS_PER_S, "90s"},
		{30 * 86400 * CLOCK_NS_PER_S, "30d"},
		{INT64_MAX / 1000000 * 1000000, "9223372036854ms"},
	};
	char text[DURATION_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t ns = -1;

		assert_int_equal(duration_parse(cases[i].text, &ns), cases[i].ns < 0 ? -EINVAL : 0);
		assert_int_equal(ns, cases[i].ns);
	}
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		duration_format(formats[i].ns, text);
		assert_string_equal(text, formats[i].text);
	}
}

static void the_floor(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(disk_floor_check(0, 0, &err), 0);
	assert_int_equal(disk_floor_check(INT64_MAX, 1 << 30, &err), 0);
	assert_int_equal(disk_floor_check(1 << 30, 1 << 30, &err), 0);
	assert_int_equal(disk_floor_check((1 << 30) - 1, 1 << 30, &err), -ENOSPC);
	assert_non_null(strstr(err.reason, "1023 MiB"));
	assert_non_null(strstr(err.remedy, "disk_floor_bytes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_said_has_its_default),
		cmocka_unit_test(every_key_is_read),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(durations),
		cmocka_unit_test(the_floor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
