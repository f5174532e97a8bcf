#!/usr/bin/env bats
# What other programs see in the code without running it.

load static

@test "cppcheck finds nothing" {
	cppcheck --project="$BUILD/compile_commands.json" -j "$(cpus)" --quiet --error-exitcode=1 \
		--enable=warning,performance,portability --inline-suppr --std=c11 \
		--library="$ROOT/tests/static/cppcheck.cfg" \
		--suppressions-list="$ROOT/tests/static/cppcheck.suppressions"
}

@test "clang-tidy finds nothing (.clang-tidy says what it looks for)" {
	cd "$BATS_TEST_TMPDIR"
	run-clang-tidy -quiet -p "$BUILD" -j "$(cpus)" "^(?!$BUILD)" >out 2>&1 || {
		grep -A 5 -E '(error|warning):' out
		false
	}
}

@test "the analyzer of gcc finds nothing" {
	CC=gcc meson setup "$BATS_TEST_TMPDIR/build" "$ROOT" -Dtests=false -Dwerror=true \
		-Dbuildtype=plain -Dc_args="-O1 -fanalyzer $(grep -v '^#' "$ROOT/tests/static/analyzer" | xargs)"
	ninja -C "$BATS_TEST_TMPDIR/build"
}
