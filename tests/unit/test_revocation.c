#include "tests/unit/test.h"

#include <string.h>

#include "core/revocation.h"

static void matching(void **state)
{
	static const struct {
		const char *lease, *grant, *b_lease, *b_grant;
		bool matches;
	} rows[] = {
		{"L1", "", "L1", "g2", true},    {"L1", NULL, "L1", NULL, true},
		{"L1", "", "L2", "g1", false},   {"L1", "g1", "L1", "g1", true},
		{"L1", "g1", "L1", "g2", false}, {"L1", "g1", "L1", "", false},
		{"L1", "g1", "L2", "g1", false}, {"", "", "", "", false},
		{NULL, NULL, NULL, NULL, false}, {"", "g1", "", "g1", false},
		{"l1", "", "L1", "", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct revoke_request q = {.lease_id = rows[i].lease, .grant_id = rows[i].grant};
		struct secret_binding b = {.lease_id = (char *)rows[i].b_lease,
					   .grant_id = (char *)rows[i].b_grant};

		assert_int_equal(revoke_request_matches(&q, &b), rows[i].matches);
	}
}

static void words(void **state)
{
	enum revoke_state s = REVOKE_FAILED;

	(void)state;
	assert_int_equal(revoke_action_effective(revoke_action_parse("kill")), REVOKE_KILL);
	assert_int_equal(revoke_action_effective(revoke_action_parse("scrub")), REVOKE_SCRUB);
	assert_int_equal(revoke_action_effective(revoke_action_parse("")), REVOKE_SCRUB);
	assert_int_equal(revoke_action_effective(revoke_action_parse("KILL")), REVOKE_SCRUB);
	assert_int_equal(revoke_action_effective(revoke_action_parse("kill ")), REVOKE_SCRUB);
	assert_int_equal(revoke_action_parse("purge"), REVOKE_ACTION_UNSET);

	assert_true(revoke_state_parse("revoked", &s));
	assert_true(revoke_state_terminal(s));
	for (unsigned i = 0; i <= REVOKE_FAILED; i++) {
		assert_true(revoke_state_parse(revoke_state_name((enum revoke_state)i), &s));
		assert_int_equal(s, i);
		assert_int_equal(revoke_state_terminal(s), s == REVOKE_REVOKED);
	}
	assert_false(revoke_state_parse("done", &s));
}

static struct spec *spec_with(const char *secrets)
{
	char text[4096];
	struct spec *spec = NULL;

	(void)snprintf(text, sizeof(text), "{\"argv\":[\"x\"],\"secrets\":[%s]}", secrets);
	assert_int_equal(spec_parse(text, strlen(text), &spec, NULL), 0);
	return spec;
}

static void who_may_have_revocable_material(void **state)
{
	static const struct revoker none = {0}, now = {true, true, NULL},
				    offline = {true, false, "the agent is offline"},
				    silent = {true, false, NULL};
	const char *detail = "untouched";
	struct error err;

	(void)state;
	AUTO_SPEC struct spec *plain = spec_with("{\"lease_id\":\"L\"}");
	AUTO_SPEC struct spec *leased = spec_with("{\"lease_id\":\"L\",\"secret_name\":\"ci\","
						  "\"kind\":\"github_pat\",\"env_keys\":[\"T\"]}");
	assert_int_equal(revocation_require("e", "k", &none, plain, &detail, &err), 0);
	assert_int_equal(revocation_require("e", "k", &now, leased, &detail, &err), 0);
	assert_string_equal(detail, "untouched");

	assert_int_equal(revocation_require("e", "k", &none, leased, &detail, &err), -EOPNOTSUPP);
	assert_int_equal(err.kind, ERROR_REVOCATION_UNSUPPORTED);
	assert_null(detail);
	assert_non_null(strstr(err.reason, "ci (github_pat)"));
	assert_int_equal(revocation_require("e", "k", &offline, leased, &detail, &err),
			 -EOPNOTSUPP);
	assert_string_equal(detail, "the agent is offline");
	assert_int_equal(revocation_require("e", "k", &silent, leased, &detail, &err), -EOPNOTSUPP);
	assert_true(detail[0] != '\0');

	assert_false(revoker_supports_revocation(&none));
	assert_false(revoker_supports_revocation(&offline));
	assert_true(revoker_supports_revocation(&now));
	assert_false(revoker_supports_revocation(&(struct revoker){false, true, NULL}));
}

static void many_secrets_make_a_short_sentence(void **state)
{
	char list[4096] = "";
	struct error err;

	(void)state;
	for (int i = 0; i < 60; i++) {
		char one[64];

		(void)snprintf(one, sizeof(one), "%s{\"lease_id\":\"lease-%d\",\"egress\":true}",
			       i > 0 ? "," : "", i);
		strcat(list, one);
	}
	AUTO_SPEC struct spec *spec = spec_with(list);
	assert_int_equal(revocation_require("e", "k", &(struct revoker){0}, spec, NULL, &err),
			 -EOPNOTSUPP);
	assert_non_null(strstr(err.reason, "lease-0, lease-1"));
	assert_non_null(strstr(err.reason, " more"));
	assert_non_null(strstr(err.reason, "does not implement revocation"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matching),
		cmocka_unit_test(words),
		cmocka_unit_test(who_may_have_revocable_material),
		cmocka_unit_test(many_secrets_make_a_short_sentence),
	};

	return cmocka_run_group_tests_name("revocation", tests, NULL, NULL);
}
