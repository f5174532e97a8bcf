#include "core/hub_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/clock.h"
#include "core/duration.h"
#include "core/executor_config.h"
#include "core/field.h"
#include "core/json.h"

/* More often could do nothing but probe; rarer is no supervision. */
#define INTERVAL_MIN_NS (100 * CLOCK_NS_PER_MS)
#define DAY_NS (86400 * CLOCK_NS_PER_S)

/* A session that has just ended is still asked about (core/dispatch.h). */
#define RETENTION_AGE_MIN_NS (10 * CLOCK_NS_PER_S)
#define RETENTION_AGE_MAX_NS (36500 * DAY_NS)

/* As many as there are node ids for. */
#define RETENTION_COUNT_MAX INT64_C(4000000000)

/* Each is a process, or a connection. */
#define PROBES_MAX 1024
#define FAILURES_MAX 1000
#define FAILOVER_ATTEMPTS_MAX 10

#define DISK_FLOOR_MAX (INT64_C(1) << 50)

enum setting_type { SETTING_SWITCH, SETTING_NUMBER, SETTING_DURATION, SETTING_FRACTION };

struct setting {
	const char *section, *key; /* section NULL: at the top */
	enum setting_type type;
	size_t offset;
	int64_t min, max;
};

#define AT(member) offsetof(struct hub_config, member)

/* Rows of one section stand together. */
static const struct setting settings[] = {
	{NULL, "log_quota_bytes", SETTING_NUMBER, AT(log_quota_bytes), LOG_QUOTA_MIN,
	 (int64_t)LOG_QUOTA_MAX},
	{NULL, "disk_floor_bytes", SETTING_NUMBER, AT(disk_floor_bytes), 0, DISK_FLOOR_MAX},
	{"executors", "allow_host_process", SETTING_SWITCH, AT(host_process), 0, 0},
	{"supervisor", "interval", SETTING_DURATION, AT(supervisor.interval_ns), INTERVAL_MIN_NS,
	 DAY_NS},
	{"supervisor", "probe_timeout", SETTING_DURATION, AT(supervisor.probe_timeout_ns),
	 INTERVAL_MIN_NS, DAY_NS},
	{"supervisor", "backoff_base", SETTING_DURATION, AT(supervisor.backoff_base_ns),
	 INTERVAL_MIN_NS, DAY_NS},
	{"supervisor", "backoff_max", SETTING_DURATION, AT(supervisor.backoff_max_ns),
	 INTERVAL_MIN_NS, DAY_NS},
	{"supervisor", "jitter_fraction", SETTING_FRACTION, AT(supervisor.jitter_fraction), 0, 0},
	{"supervisor", "max_concurrent_probes", SETTING_NUMBER, AT(supervisor.max_concurrent_probes), 1,
	 PROBES_MAX},
	{"supervisor", "degrade_after", SETTING_NUMBER, AT(supervisor.policy.degrade_after), 1,
	 FAILURES_MAX},
	{"supervisor", "unreachable_after", SETTING_NUMBER, AT(supervisor.policy.unreachable_after), 1,
	 FAILURES_MAX},
	{"failover", "max_attempts", SETTING_NUMBER, AT(failover_max_attempts), 0,
	 FAILOVER_ATTEMPTS_MAX},
	{"retention", "age", SETTING_DURATION, AT(retention_age_ns), RETENTION_AGE_MIN_NS,
	 RETENTION_AGE_MAX_NS},
	{"retention", "count", SETTING_NUMBER, AT(retention_count), 0, RETENTION_COUNT_MAX},
};

struct hub_config hub_config_default(void)
{
	return (struct hub_config){
		.supervisor = supervisor_config_default(),
		.failover_max_attempts = 2,
		.log_quota_bytes = (int64_t)LOG_QUOTA_DEFAULT,
		.retention_age_ns = 30 * DAY_NS,
		.retention_count = 100000,
		.disk_floor_bytes = INT64_C(1) << 30,
	};
}

static int refuse(struct error *err, const struct json_object *o, const char *key, const char *reason,
		  const char *remedy)
{
	char path[JSON_PATH_MAX];

	json_object_path(o, key, path);
	int r = error_set(err, EINVAL, "%s", reason);
	error_field(err, "%s", path);
	error_remedy(err, "%s", remedy);
	return r;
}

static int refuse_number(struct error *err, const struct json_object *o, const struct setting *s)
{
	char remedy[ERROR_REMEDY_MAX], low[DURATION_MAX], high[DURATION_MAX];

	if (s->type == SETTING_DURATION) {
		duration_format(s->min, low);
		duration_format(s->max, high);
		(void)snprintf(remedy, sizeof(remedy), "write from \"%s\" to \"%s\"", low, high);
	} else {
		(void)snprintf(remedy, sizeof(remedy), "write from %" PRId64 " to %" PRId64, s->min,
			       s->max);
	}
	return refuse(err, o, s->key, "is out of bounds", remedy);
}

static int read_switch(struct json_object *o, const struct setting *s, enum host_process *ret,
		       struct error *err)
{
	bool on = false;
	int r = json_object_bool(o, s->key, &on, err);

	if (r > 0)
		*ret = on ? HOST_PROCESS_ALLOWED : HOST_PROCESS_FORBIDDEN;
	return r;
}

static int read_number(struct json_object *o, const struct setting *s, int64_t *ret,
		       struct error *err)
{
	const char *text = NULL;
	int64_t value = 0;
	int r;

	if (s->type == SETTING_DURATION) {
		r = json_object_string(o, s->key, &text, err);
		if (r > 0 && duration_parse(text, &value) < 0)
			return refuse(err, o, s->key, "is no duration",
				      "write a whole number and ms, s, m, h or d, as \"30s\"");
	} else {
		r = json_object_int64(o, s->key, &value, err);
	}
	if (r <= 0)
		return r;
	if (value < s->min || value > s->max)
		return refuse_number(err, o, s);
	*ret = value;
	return 1;
}

static int read_fraction(struct json_object *o, const struct setting *s, double *ret,
			 struct error *err)
{
	const json_t *value = json_object_field(o, s->key);

	if (!value)
		return 0;
	if (!json_is_number(value))
		return refuse(err, o, s->key, "must be a number", "write from 0 to 0.9");
	double fraction = json_number_value(value);
	if (!(fraction >= 0 && fraction <= SUPERVISOR_JITTER_MAX))
		return refuse(err, o, s->key, "is out of bounds", "write from 0 to 0.9");
	*ret = fraction;
	return 1;
}

static int read_setting(struct json_object *o, const struct setting *s, struct hub_config *c,
			struct error *err)
{
	void *at = (char *)c + s->offset;

	switch (s->type) {
	case SETTING_SWITCH:
		return read_switch(o, s, at, err);
	case SETTING_FRACTION:
		return read_fraction(o, s, at, err);
	default:
		return read_number(o, s, at, err);
	}
}

static bool same_section(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Reads the rows of a section, beginning with the one at *at, and moves it behind them. */
static int read_section(struct json_object *top, size_t *at, struct hub_config *c, struct error *err)
{
	const char *section = settings[*at].section;
	struct json_object inner, *o = top;
	json_t *value = NULL;
	int r = 1;

	if (section) {
		r = json_object_object(top, section, &value, err);
		if (r > 0)
			r = json_object_begin(&inner, value, section, err);
		if (r < 0)
			return r;
		o = &inner;
	}
	for (; *at < ARRAY_SIZE(settings) && same_section(settings[*at].section, section); (*at)++) {
		if (section && !value)
			continue;
		r = read_setting(o, &settings[*at], c, err);
		if (r < 0)
			return r;
	}
	return section && value ? json_object_end(&inner, err) : 0;
}

static int refuse_order(struct error *err, const char *field, const char *other)
{
	int r = error_set(err, EINVAL, "is less than %s", other);

	error_field(err, "%s", field);
	error_remedy(err, "raise it, or lower the other one; what is left out has its default");
	return r;
}

int hub_config_parse(const char *text, size_t len, struct hub_config *ret, struct error *err)
{
	AUTO_JSON json_t *value = NULL;
	struct hub_config c = hub_config_default();
	struct json_object o;

	int r = json_parse(text, len, &value, err);
	if (r >= 0)
		r = json_object_begin(&o, value, "", err);
	for (size_t at = 0; r >= 0 && at < ARRAY_SIZE(settings);)
		r = read_section(&o, &at, &c, err);
	if (r >= 0)
		r = json_object_end(&o, err);
	if (r < 0)
		return r;
	if (c.supervisor.backoff_max_ns < c.supervisor.backoff_base_ns)
		return refuse_order(err, "supervisor.backoff_max", "supervisor.backoff_base");
	if (c.supervisor.policy.unreachable_after < c.supervisor.policy.degrade_after)
		return refuse_order(err, "supervisor.unreachable_after", "supervisor.degrade_after");
	*ret = c;
	return 0;
}
