#!/usr/bin/env bats
# The program that counts: what it says must be true whatever a test program prints.

load static

# count KIND RESULT TEXT: what report.py makes of a program that printed that and was judged so.
count() {
	if [ "$1" = tap ]; then
		printf '%b' "$3" >"$BATS_TEST_TMPDIR/log"
	else
		jq -nc --arg result "$2" --arg stdout "$(printf '%b' "$3")" \
			'{name: "x", result: $result, stdout: $stdout, duration: 1}' >"$BATS_TEST_TMPDIR/log"
	fi
	run "$ROOT/tests/report.py" "$1" "$BATS_TEST_TMPDIR/log"
	echo "$output"
	[ "$status" -eq 0 ]
	last=${lines[-1]}
}

@test "what passes, fails and is skipped is counted one by one" {
	count tap - '1..4\nok 1 a\nnot ok 2 b\nok 3 c # skip no root\nok 4 d\n'
	[ "$last" = '2 1 1' ]
	[[ $output == *'skipped: '*'c (no root)'* ]]
	[[ $output == *'| not ok 2 b'* ]]
}

@test "the skips of cmocka are skips, whatever meson makes of them" {
	count meson FAIL '1..3\nok 1 - a\nnot ok 2 # SKIP b\nok 3 - c\n'
	[ "$last" = '2 0 1' ]
}

@test "a program that ends early is a failure" {
	count meson ERROR '1..3\nok 1 - a\n'
	[ "$last" = '1 1 0' ]
	count tap - '1..3\nok 1 - a\nok 2 - b\n'
	[ "$last" = '2 1 0' ]
	count meson TIMEOUT '1..2\nok 1 - a\nok 2 - b\n'
	[ "$last" = '2 1 0' ]
	count meson ERROR 'ok 1 - a\n1..1\n'
	[ "$last" = '1 1 0' ]
	count tap - ''
	[ "$last" = '0 1 0' ]
}

@test "a program that skips all of itself is a skip with a reason" {
	count meson SKIP '1..0 # SKIP needs root\n'
	[ "$last" = '0 0 1' ]
	[[ $output == *'(needs root)'* ]]
}

@test "a program without subtests is one test" {
	count meson OK 'hello\n'
	[ "$last" = '1 0 0' ]
	count meson FAIL 'hello\n'
	[ "$last" = '0 1 0' ]
	[[ $output == *'| hello'* ]]
}

@test "words that only look like results are none" {
	count tap - '1..1\nokay\n# not ok 1\n  ok 2 indented\nok 1 real\n'
	[ "$last" = '1 0 0' ]
}

@test "bytes that are no text do no harm" {
	count tap - '1..1\n\0377\0376\n\0001\nok 1 a\n'
	[ "$last" = '1 0 0' ]
}
