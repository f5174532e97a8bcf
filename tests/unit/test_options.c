#include "tests/unit/test.h"

#include <string.h>

#include "fs/options.h"

#define ARGS_MAX 12

static const char *full(const char *name)
{
	if (strcmp(name, "HOME") == 0)
		return "/home/u";
	if (strcmp(name, "XDG_STATE_HOME") == 0)
		return "/s";
	if (strcmp(name, "XDG_CONFIG_HOME") == 0)
		return "/c";
	return strcmp(name, "XDG_RUNTIME_DIR") == 0 ? "/r" : NULL;
}

static const char *only_home(const char *name)
{
	return strcmp(name, "HOME") == 0 ? "/home/u" : NULL;
}

static const char *relative(const char *name)
{
	return strcmp(name, "HOME") == 0 ? "/home/u" : "relative";
}

static const char *nothing(const char *name)
{
	(void)name;
	return NULL;
}

static int parse(const struct options_environment *env, const char *const *words,
		 struct options *ret, struct error *err)
{
	int argc = 0;

	while (words[argc])
		argc++;
	return options_parse(argc, (char *const *)(uintptr_t)words, env, ret, err);
}

static void usage_errors_name_the_word(void **state)
{
	static const struct {
		const char *words[ARGS_MAX];
		const char *says;
	} cases[] = {
		{{"cloopd"}, "no command"},
		{{"cloopd", ""}, "unknown command "},
		{{"cloopd", "--Version"}, "unknown command --Version"},
		{{"cloopd", "serve", "--state-di", "/x"}, "unknown option --state-di"},
		{{"cloopd", "serve", "--state-dirs=/x"}, "unknown option --state-dirs=/x"},
		{{"cloopd", "serve", "--"}, NULL},
		{{"cloopd", "serve", "--", "--foreground"}, NULL},
		{{"cloopd", "serve", "--", "/a", "/b"}, "unexpected argument /b"},
		{{"cloopd", "serve", ""}, "empty"},
		{{"cloopd", "serve", "--state-dir", ""}, "needs a path"},
		{{"cloopd", "serve", "--state-dir="}, "needs a path"},
		{{"cloopd", "serve", "--config-dir"}, "--config-dir needs a value"},
		{{"cloopd", "serve", "--no-allow-other=1"}, "takes no value"},
		{{"cloopd", "serve", "--fuse-fd", "3"}, "unknown option --fuse-fd"},
		{{"cloopd", "serve", "--allow-other"}, "unknown option --allow-other"},
		{{"cloopd", "stop", "--runtime-dir", "/x"}, "unknown option --runtime-dir"},
		{{"cloopd", "--version", "now"}, "unexpected argument now"},
		{{"cloopd", "--help", "--state-dir", "/x"}, "unknown option --state-dir"},
		{{"cloopd", "nudger", "--mountpoint", "/m"}, "started by the keeper"},
		{{"cloopd", "nudger", "--mountpoint", "/m", "--socket-fd", "-1"}, "needs a number"},
		{{"cloopd", "nudger", "--mountpoint", "/m", "--socket-fd", "4x"}, "needs a number"},
		{{"cloopd", "nudger", "--mountpoint", "/m", "--socket-fd", "99999999999"},
		 "needs a number"},
		{{"cloopd", "nudger", "--mountpoint", "/m", "--socket-fd", "4"}, NULL},
		{{"cloopd", "hub", "--fuse-fd", "3"}, "started by the keeper"},
	};
	static const struct options_environment env = {.uid = 0, .get = nothing};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(options_clear) struct options o = {0};
		struct error err = {0};
		int r = parse(&env, cases[i].words, &o, &err);

		if (!cases[i].says) {
			assert_int_equal(r, 0);
			continue;
		}
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(err.reason, cases[i].says));
		assert_string_equal(err.remedy, "see cloopd --help");
		assert_null(o.state_dir);
	}
}

static void defaults_depend_on_who_asks(void **state)
{
	static const struct {
		struct options_environment env;
		const char *state_dir, *runtime_dir, *config_dir, *mountpoint;
		bool allow_other;
	} cases[] = {
		{{0, full}, "/var/lib/cloop", "/run/cloop", "/etc/cloop", "/cloop", true},
		{{7, full}, "/s/cloop", "/r/cloopd", "/c/cloop", "/r/cloop", false},
		{{7, only_home},
		 "/home/u/.local/state/cloop",
		 "/run/user/7/cloopd",
		 "/home/u/.config/cloop",
		 "/run/user/7/cloop",
		 false},
		{{4294967294U, relative},
		 "/home/u/.local/state/cloop",
		 "/run/user/4294967294/cloopd",
		 "/home/u/.config/cloop",
		 "/run/user/4294967294/cloop",
		 false},
	};
	static const char *const words[] = {"cloopd", "serve", NULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(options_clear) struct options o = {0};

		assert_int_equal(parse(&cases[i].env, words, &o, NULL), 0);
		assert_int_equal(o.command, COMMAND_SERVE);
		assert_string_equal(o.state_dir, cases[i].state_dir);
		assert_string_equal(o.runtime_dir, cases[i].runtime_dir);
		assert_string_equal(o.config_dir, cases[i].config_dir);
		assert_string_equal(o.mountpoint, cases[i].mountpoint);
		assert_int_equal(o.allow_other, cases[i].allow_other);
		assert_true(o.mountpoint_is_default);
		assert_false(o.foreground);
	}
}

static void without_a_home_the_places_must_be_given(void **state)
{
	static const struct options_environment env = {.uid = 7, .get = nothing};
	static const char *const bare[] = {"cloopd", "stop", NULL};
	static const char *const given[] = {"cloopd",       "serve", "--state-dir=/a",
					    "--config-dir", "/b",    "--runtime-dir=/c",
					    "/d",           NULL};
	CLEANUP(options_clear) struct options o = {0};
	struct error err;

	(void)state;
	assert_int_equal(parse(&env, bare, &o, &err), -ENOENT);
	assert_string_equal(err.remedy, "give --state-dir");
	assert_int_equal(parse(&env, given, &o, &err), 0);
	assert_string_equal(o.runtime_dir, "/c");
	assert_false(o.mountpoint_is_default);
}

static void the_last_one_counts(void **state)
{
	static const struct options_environment env = {.uid = 0, .get = nothing};
	static const char *const words[] = {"cloopd",       "serve", "--state-dir=/a",
					    "--state-dir",  "/b=c",  "--no-allow-other",
					    "--foreground", NULL};
	CLEANUP(options_clear) struct options o = {0};

	(void)state;
	assert_int_equal(parse(&env, words, &o, NULL), 0);
	assert_string_equal(o.state_dir, "/b=c");
	assert_true(o.foreground);
	assert_false(o.allow_other);
}

static void a_hub_gets_what_the_keeper_says(void **state)
{
	static const struct options_environment env = {.uid = 0, .get = full};
	static const char *const words[] = {"cloopd",
					    "hub",
					    "--fuse-fd",
					    "3",
					    "--area-fd=4",
					    "--keeper-fd",
					    "5",
					    "--mountpoint=/m",
					    "--state-dir=/s",
					    "--runtime-dir=/r",
					    "--config-dir=/c",
					    NULL};
	CLEANUP(options_clear) struct options o = {0};

	(void)state;
	assert_int_equal(parse(&env, words, &o, NULL), 0);
	assert_int_equal(o.fuse_fd, 3);
	assert_int_equal(o.area_fd, 4);
	assert_int_equal(o.keeper_fd, 5);
	assert_int_equal(o.nudger_fd, -1);
	assert_int_equal(o.nudger_pid, 0);
	assert_false(o.allow_other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_errors_name_the_word),
		cmocka_unit_test(defaults_depend_on_who_asks),
		cmocka_unit_test(without_a_home_the_places_must_be_given),
		cmocka_unit_test(the_last_one_counts),
		cmocka_unit_test(a_hub_gets_what_the_keeper_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
