#!/usr/bin/env bats
# What other programs see in the code without running it.

load static

@test "cppcheck finds nothing" {
	# Tests ask for less care: they end where something is not as it should be.
	jq '[.[] | select(.file | test("/(core|drivers|fs)/"))]' "$BUILD/compile_commands.json" \
		>"$BATS_TEST_TMPDIR/compile_commands.json"
	cppcheck --project="$BATS_TEST_TMPDIR/compile_commands.json" -j "$(cpus)" --quiet --error-exitcode=1 \
		--enable=warning,performance,portability --inline-suppr --std=c11 \
		--library="$ROOT/tests/static/cppcheck.cfg" \
		--suppressions-list="$ROOT/tests/static/cppcheck.suppressions"
}

@test "clang-tidy finds nothing (.clang-tidy says what it looks for)" {
	cd "$BATS_TEST_TMPDIR"
	# What is generated is not ours, and tests are read by their failures.
	run-clang-tidy -quiet -p "$BUILD" -j "$(cpus)" "^$ROOT/(core|drivers|fs)/" >out 2>&1 || {
		grep -A 5 -E '(error|warning):' out
		false
	}
}

@test "the analyzer of gcc finds nothing" {
	CC=gcc meson setup "$BATS_TEST_TMPDIR/build" "$ROOT" -Dtests=false -Dwerror=true \
		-Dbuildtype=plain -Dc_args="-O1 -fanalyzer $(grep -v '^#' "$ROOT/tests/static/analyzer" | xargs)"
	ninja -C "$BATS_TEST_TMPDIR/build"
}
