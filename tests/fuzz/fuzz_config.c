/*
 * What stands in the configuration directory: hub.json, and the document of an executor. Whatever is
 * accepted is within its bounds, and an executor's has one canonical text that reads back as the same;
 * whatever is refused says why and leaves nothing.
 */
#include <errno.h>
#include <string.h>

#include "core/executor.h"
#include "core/executor_config.h"
#include "core/hub_config.h"
#include "core/json.h"
#include "core/owner.h"
#include "tests/fuzz/fuzz.h"

/* A driver that has a key of its own. */
static int check_keys(struct driver *d, struct json_object *config, json_t **ret_options,
		      struct error *err)
{
	AUTO_JSON json_t *options = json_object();
	const char *image = NULL;

	(void)d;
	int r = json_object_string(config, "image", &image, err);
	if (r < 0)
		return r;
	if (!options || json_put_string_if(options, "image", image) < 0)
		return error_oom(err);
	*ret_options = take_ptr(options);
	return 0;
}

static struct driver_ops plain_ops = {.kind = "localprocess"};
static struct driver_ops keyed_ops = {.kind = "keyed", .config_check = check_keys};
static struct driver plain = {.ops = &plain_ops}, keyed = {.ops = &keyed_ops};
static struct driver *const drivers[] = {&plain, &keyed, NULL};

static void check_refusal(const struct error *err)
{
	MUST(err->code > 0);
	MUST(err->reason[0] != '\0');
}

static void read_hub(const char *text, size_t len)
{
	struct hub_config c = {.retention_count = -42};
	struct error err = {0};

	if (hub_config_parse(text, len, &c, &err) < 0) {
		MUST(c.retention_count == -42);
		check_refusal(&err);
		return;
	}
	MUST(c.retention_count >= 0 && c.retention_age_ns > 0);
	MUST(c.log_quota_bytes >= (int64_t)LOG_QUOTA_MIN && c.log_quota_bytes <= (int64_t)LOG_QUOTA_MAX);
	MUST(c.disk_floor_bytes >= 0);
	MUST(c.failover_max_attempts >= 0 && c.failover_max_attempts <= 10);
	MUST(c.supervisor.interval_ns > 0 && c.supervisor.probe_timeout_ns > 0);
	MUST(c.supervisor.backoff_base_ns > 0 &&
	     c.supervisor.backoff_max_ns >= c.supervisor.backoff_base_ns);
	MUST(c.supervisor.jitter_fraction >= 0 && c.supervisor.jitter_fraction <= SUPERVISOR_JITTER_MAX);
	MUST(c.supervisor.policy.unreachable_after >= c.supervisor.policy.degrade_after);
}

static void read_executor(const char *text, size_t len)
{
	AUTO_EXECUTOR_CONFIG struct executor_config c = {0}, again = {0};
	struct error err = {0};

	if (executor_config_parse(text, len, drivers, &c, &err) < 0) {
		MUST(!c.kind && !c.options && c.n_labels == 0);
		check_refusal(&err);
		return;
	}
	AUTO_FREE char *canonical = executor_config_text(&c);
	MUST(canonical);
	MUST(executor_config_parse(canonical, strlen(canonical), drivers, &again, &err) == 0);
	AUTO_FREE char *twice = executor_config_text(&again);
	MUST(twice && strcmp(canonical, twice) == 0);
	for (size_t i = 1; i < c.n_harnesses; i++)
		MUST(strcmp(c.harnesses[i - 1], c.harnesses[i]) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_hub((const char *)data, size);
	read_executor((const char *)data, size);
	return 0;
}
