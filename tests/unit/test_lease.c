#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "core/lease.h"
#include "core/strlist.h"

static char *key[] = {(char *)"T", NULL};

static struct secret_binding binding(const char *lease, const char *grant)
{
	return (struct secret_binding){.lease_id = (char *)lease,
				       .grant_id = (char *)grant,
				       .env_keys = key,
				       .n_env_keys = 1};
}

static void check(const struct lease_index *index, const char *leases, const char *unresolved)
{
	char text[256];
	char **list;
	size_t n;

	for (int which = 0; which < 2; which++) {
		text[0] = '\0';
		assert_int_equal(which ? lease_index_unresolved(index, &list, &n)
				       : lease_index_leases(index, &list, &n),
				 0);
		for (size_t i = 0; i < n; i++) {
			strcat(text, list[i]);
			strcat(text, " ");
		}
		strlist_free(list, n);
		assert_string_equal(text, which ? unresolved : leases);
	}
	struct error err;
	assert_int_equal(lease_index_unresolved_error(index, &err), unresolved[0] ? -EUCLEAN : 0);
}

static void binding_and_releasing(void **state)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	struct secret_binding two[] = {binding("L2", "g"), binding("L1", "")};
	struct secret_binding idle = {.lease_id = (char *)"L9"};

	(void)state;
	check(index, "", "");
	assert_false(lease_index_holds(index, "L1"));
	assert_int_equal(lease_index_bind(index, "h2", two, 2), 0);
	assert_int_equal(lease_index_bind(index, "h1", two, 1), 0);
	assert_int_equal(lease_index_bind(index, "h3", &idle, 1), 0);
	assert_int_equal(lease_index_bind(index, "h4", NULL, 0), 0);
	check(index, "L1 L2 ", "");
	assert_true(lease_index_holds(index, "L1"));
	assert_false(lease_index_holds(index, "L9"));
	/* What is new takes the place of what was known; nothing does not. */
	struct secret_binding other = binding("L3", "");
	assert_int_equal(lease_index_bind(index, "h1", &other, 1), 0);
	check(index, "L1 L2 L3 ", "");
	assert_int_equal(lease_index_bind(index, "h1", &idle, 1), 0);
	check(index, "L1 L2 L3 ", "");
	lease_index_release(index, "h1");
	lease_index_release(index, "nobody");
	check(index, "L1 L2 ", "");
	lease_index_release(index, "h2");
	check(index, "", "");
}

static void doubt_answers_for_every_lease(void **state)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	struct secret_binding b = binding("L1", "");
	struct handle_record recorded = {
		.handle_id = (char *)"h1", .secrets = &b, .n_secrets = 1, .secrets_recorded = true};
	struct handle_record old = {.handle_id = (char *)"h2"};
	struct handle_record empty = {.handle_id = (char *)"h2", .secrets_recorded = true};

	(void)state;
	assert_int_equal(lease_index_adopt(index, &recorded), 0);
	assert_false(lease_index_holds(index, "other"));
	assert_int_equal(lease_index_adopt(index, &old), 0);
	assert_true(lease_index_holds(index, "other"));
	check(index, "L1 ", "h2 ");
	assert_non_null(lease_index_unresolved_reason(index, "h2"));
	assert_null(lease_index_unresolved_reason(index, "h1"));
	/* Marked twice is one doubt; an authoritative record, even an empty one, ends it. */
	assert_int_equal(lease_index_mark_unresolved(index, "h2", "cannot be read"), 0);
	assert_string_equal(lease_index_unresolved_reason(index, "h2"), "cannot be read");
	assert_int_equal(lease_index_adopt(index, &empty), 0);
	assert_false(lease_index_holds(index, "other"));
	check(index, "L1 ", "");
	/* A handle can hold something known and be in doubt. */
	assert_int_equal(lease_index_mark_unresolved(index, "h1", "half of it"), 0);
	check(index, "L1 ", "h1 ");
	lease_index_release(index, "h1");
	check(index, "", "");
	assert_false(lease_index_holds(index, "L1"));
}

static void the_doubt_is_named(void **state)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	struct error err;
	char id[32];

	(void)state;
	for (int i = 0; i < 20; i++) {
		(void)snprintf(id, sizeof(id), "s-%02d.1", i);
		assert_int_equal(lease_index_mark_unresolved(index, id, "lost"), 0);
	}
	assert_int_equal(lease_index_unresolved_error(index, &err), -EUCLEAN);
	assert_int_equal(err.kind, ERROR_BINDINGS_UNRESOLVED);
	assert_non_null(strstr(err.reason, "s-00.1 (lost)"));
	assert_non_null(strstr(err.reason, "and 16 more"));
}

static void holders(void **state)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	struct secret_binding two[] = {binding("L1", "g1"), binding("L1", "g2")};
	struct lease_holder *list;
	size_t n;

	(void)state;
	assert_int_equal(lease_index_bind(index, "h2", two, 2), 0);
	assert_int_equal(lease_index_bind(index, "h1", two, 1), 0);
	assert_int_equal(lease_index_mark_unresolved(index, "h0", "x"), 0);
	assert_int_equal(
		lease_index_holders(index, &(struct revoke_request){.lease_id = "L1"}, &list, &n),
		0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0].handle_id, "h1");
	assert_int_equal(list[0].n_bindings, 1);
	assert_string_equal(list[1].handle_id, "h2");
	assert_int_equal(list[1].n_bindings, 2);
	lease_holders_free(list, n);
	assert_int_equal(
		lease_index_holders(index,
				    &(struct revoke_request){.lease_id = "L1", .grant_id = "g2"},
				    &list, &n),
		0);
	assert_int_equal(n, 1);
	assert_string_equal(list[0].handle_id, "h2");
	assert_string_equal(list[0].bindings[0]->grant_id, "g2");
	lease_holders_free(list, n);
}

static void many_handles(void **state)
{
	AUTO_LEASE_INDEX struct lease_index *index = lease_index_new();
	char id[32], lease[32];

	(void)state;
	/* In an order that is neither that of the ids nor its reverse. */
	for (int i = 0; i < 500; i++) {
		(void)snprintf(id, sizeof(id), "h%d", (i * 7) % 500);
		(void)snprintf(lease, sizeof(lease), "L%d", (i * 7) % 500);
		struct secret_binding b = binding(lease, "");
		assert_int_equal(lease_index_bind(index, id, &b, 1), 0);
	}
	for (int i = 0; i < 500; i += 2) {
		(void)snprintf(id, sizeof(id), "h%d", i);
		lease_index_release(index, id);
	}
	for (int i = 0; i < 500; i++) {
		(void)snprintf(lease, sizeof(lease), "L%d", i);
		assert_int_equal(lease_index_holds(index, lease), i % 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(binding_and_releasing),
		cmocka_unit_test(doubt_answers_for_every_lease),
		cmocka_unit_test(the_doubt_is_named),
		cmocka_unit_test(holders),
		cmocka_unit_test(many_handles),
	};

	return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
