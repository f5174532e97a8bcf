/*
 * Placement over ten thousand executors: gathering the candidates and choosing one, as one start
 * does on the hub's loop; the same where nobody fits and each is told why; and one executor found by
 * id and by serial, of which every request needs some.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/candidates.h"
#include "core/owner.h"
#include "core/store/store.h"
#include "tests/bench/bench.h"

#define EXECUTORS 10000
#define KINDS 3
#define LOOKUPS 1000000

static void tell(struct driver *d, const struct executor_config *config, struct capabilities *ret)
{
	(void)d;
	(void)config;
	*ret = (struct capabilities){
		.isolation = ISOLATION_CONTAINER,
		.supports_stream = true,
		.supports_signal = true,
		.network_egress = true,
		.platform = "linux",
		.arch = "amd64",
	};
}

static const struct driver_ops ops[KINDS] = {
	{.kind = "a", .capabilities = tell},
	{.kind = "b", .capabilities = tell},
	{.kind = "c", .capabilities = tell},
};

static int insert(struct store_tx *tx, struct store_op *op, struct error *err)
{
	static char empty[] = "", state[] = "ready";
	char name[32], config[256];

	(void)op;
	for (int i = 0; i < EXECUTORS; i++) {
		(void)snprintf(name, sizeof(name), "node-%05d", (i * 7919) % EXECUTORS);
		(void)snprintf(config, sizeof(config),
			       "{\"kind\":\"%s\",\"labels\":{\"zone\":\"z%d\",\"rack\":\"r%d\",\"tier\":\"x\"},"
			       "\"max_concurrent\":%d}",
			       ops[i % KINDS].kind, i % 10, i % 500, i % 16 + 1);
		const struct executor_record row = {
			.serial = i + 1, .name = name, .kind = empty, .config = config,
			.config_error = empty, .health = {.state = state, .reason = empty},
		};
		int r = executor_record_insert(tx, &row, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void inserted(struct store_op *op, int result, const struct error *err)
{
	(void)op;
	if (result < 0)
		bench_die("the rows cannot be written: %s", err->reason);
}

static void nothing(void *user)
{
	(void)user;
}

static struct fleet *fleet_of_many(struct driver *const *drivers)
{
	struct store_options options = {.boot_id = "boot", .wake = nothing};
	struct store_op op = {.apply = insert, .done = inserted};
	char path[BENCH_PATH_MAX + 16];
	struct store *store = NULL;
	struct error err;

	(void)snprintf(path, sizeof(path), "%s/placement.db", bench_env("BENCH_SCRATCH"));
	if (store_open(path, &options, &store, &err) < 0)
		bench_die("%s", err.reason);
	store_submit(store, &op);
	store_flush(store);
	struct fleet *fleet = fleet_new(drivers);
	if (!fleet || fleet_load(fleet, store_reader(store), &err) < 0)
		bench_die("the fleet cannot be read: %s", err.reason);
	store = store_free(store);
	for (size_t i = 0; i < fleet_len(fleet); i++)
		fleet_at(fleet, i)->inflight = i % 5;
	return fleet;
}

static void measure(struct bench *b, const char *name, struct fleet *fleet,
		    const struct requirements *q, bool fits)
{
	static double ms[2000];
	size_t n = bench_long() ? ARRAY_SIZE(ms) : 200;

	for (size_t i = 0; i < n; i++) {
		AUTO_PLACEMENT_REFUSAL struct placement_refusal refusal = {0};
		struct executor *chosen = NULL;
		struct error err;

		int64_t since = bench_now_ns();
		int r = fleet_select(fleet, q, true, &chosen, &refusal, &err);
		ms[i] = (double)(bench_now_ns() - since) / 1e6;
		if ((r == 0) != fits)
			bench_die("%s: %d", name, r);
	}
	const struct bench_figure f = {
		.name = name,
		.unit = "ms",
		.value = bench_median(ms, n),
		.goal_is = fits ? GOAL_VALUE_MAX : GOAL_NONE,
		.goal = 5,
		.n = n,
	};
	bench_report(b, &f);
}

static void measure_lookups(struct bench *b, struct fleet *fleet)
{
	char name[32];

	int64_t since = bench_now_ns();
	for (int i = 0; i < LOOKUPS; i++) {
		(void)snprintf(name, sizeof(name), "node-%05d", i % EXECUTORS);
		if (!fleet_find(fleet, name) || !fleet_get(fleet, i % EXECUTORS + 1))
			bench_die("%s is not there", name);
	}
	const struct bench_figure f = {
		.name = "executor_of_10000_by_id_and_serial",
		.unit = "µs",
		.value = (double)(bench_now_ns() - since) / 1e3 / LOOKUPS,
		.n = LOOKUPS,
	};
	bench_report(b, &f);
}

int main(void)
{
	static char labels[][2][8] = {{"zone", "z3"}, {"tier", "x"}};
	struct spec_label selector[] = {{labels[1][0], labels[1][1]}, {labels[0][0], labels[0][1]}};
	struct driver drivers[KINDS];
	struct driver *list[KINDS + 1] = {NULL};
	struct requirements q = {.require_isolation = true, .require_signal = true};
	struct bench b = {0};

	for (size_t i = 0; i < KINDS; i++) {
		drivers[i] = (struct driver){.ops = &ops[i]};
		list[i] = &drivers[i];
	}
	struct fleet *fleet = fleet_of_many(list);
	measure(&b, "placement_over_10000", fleet, &q, true);
	q.labels = selector;
	q.n_labels = ARRAY_SIZE(selector);
	measure(&b, "placement_over_10000_by_labels", fleet, &q, true);
	q.require_virtualization = true;
	measure(&b, "refusal_over_10000", fleet, &q, false);
	measure_lookups(&b, fleet);
	fleet = fleet_free(fleet);
	bench_table(&b);
	return 0;
}
