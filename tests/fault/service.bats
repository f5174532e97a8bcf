#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2119,SC2120,SC2153,SC2154,SC2174 # each test is a process, and bats sets its own
# The unit and the manual page say what the program does. $SOURCE is the source tree.

unit=$SOURCE/contrib/systemd/cloopd.service
page=$SOURCE/docs/cloopd.8

setup() {
	"$STAND_INS/cloopd-one" --help >"$BATS_TEST_TMPDIR/help"
}

@test "systemd has nothing to say about the unit" {
	command -v systemd-analyze >/dev/null || skip "needs systemd-analyze"
	# It demands that the program exists.
	sed "s|^ExecStart=[^ ]*|ExecStart=$STAND_INS/cloopd-one|" "$unit" >"$BATS_TEST_TMPDIR/cloopd.service"
	run systemd-analyze verify --man=no "$BATS_TEST_TMPDIR/cloopd.service"
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "nothing in the unit hides the tree or reaches into workloads" {
	run grep -E '^(Protect|Private|ReadWrite|ReadOnly|Inaccessible|Bind|Root|Mount|TemporaryFileSystem|DynamicUser|NoNewPrivileges|Restrict|SystemCall|Lock|MemoryDeny|Capability|Ambient|Device)' "$unit"
	[ "$status" -eq 1 ]
	grep -qx 'KillMode=process' "$unit"
	grep -qx 'Type=notify' "$unit"
	grep -qx 'Documentation=man:cloopd(8)' "$unit"
}

@test "the unit's command line is one that the program takes" {
	words=$(sed -n 's/^ExecStart=[^ ]* //p' "$unit")
	# shellcheck disable=SC2086 # words
	run timeout -k 5 30 "$STAND_INS/cloopd-one" $words --no-such-option
	[ "$status" -eq 2 ]
	[[ $output == *"unknown option --no-such-option"* ]]
}

@test "the unit gives the keeper more time than it takes to stop" {
	allowed=$(sed -n 's/^TimeoutStopSec=//p' "$unit")
	waits=$(sed -n 's/^#define KEEPER_STOP_WAIT_MS \([0-9]*\)000$/\1/p' "$SOURCE/fs/keeper.h")
	[ "$allowed" -gt "$waits" ]
}

@test "the manual page is clean" {
	command -v mandoc >/dev/null || skip "needs mandoc"
	# Style is left out: it complains about pages that are not installed.
	run mandoc -T lint -W warning "$page"
	echo "$output"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "the manual page has every option of the help, and the defaults" {
	command -v mandoc >/dev/null || skip "needs mandoc"
	mandoc -T ascii "$page" | col -b >"$BATS_TEST_TMPDIR/page"
	for word in $(grep -o -- '--[a-z-]*' "$BATS_TEST_TMPDIR/help" | sort -u) \
		$(grep -o '(/[a-z/]*)' "$BATS_TEST_TMPDIR/help" | tr -d '()'); do
		grep -q -- "$word" "$BATS_TEST_TMPDIR/page" || {
			echo "$word is not in the manual page"
			false
		}
	done
}
