#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2119,SC2120,SC2153,SC2154,SC2174 # each test is a process, and bats sets its own
# Each refusal of `cloopd serve` is one sentence that names the path and the remedy.

load keeper.bash
setup() { keeper_setup; }
teardown() { keeper_teardown; }

cloopd() { timeout -k 5 60 "$T/bin/cloopd" "$@" 3>&-; }

@test "a command line that is wrong ends with status 2 and the way to the help" {
	run cloopd
	refused 2 "no command given" "see cloopd --help"
	run cloopd fly
	refused 2 "unknown command fly"
	run cloopd serve --fast
	refused 2 "unknown option --fast"
	run cloopd serve -f
	refused 2 "unknown option -f"
	run cloopd serve /a /b
	refused 2 "unexpected argument /b"
	run cloopd serve --state-dir
	refused 2 "--state-dir needs a value"
	run cloopd serve --foreground=yes
	refused 2 "--foreground takes no value"
	run cloopd stop /cloop
	refused 2 "unexpected argument /cloop"
	run cloopd hub --fuse-fd 3
	refused 2 "started by the keeper"
	run cloopd hub --fuse-fd x
	refused 2 "--fuse-fd needs a number"
}

@test "version and help" {
	run cloopd --version
	[ "$status" -eq 0 ]
	[[ $output =~ ^"cloopd "[0-9]+\.[0-9]+\.[0-9]+$ ]]
	run cloopd --help
	[ "$status" -eq 0 ]
	[[ $output == *"--state-dir DIR"* ]]
}

@test "a relative mountpoint" {
	cd "$T"
	MNT=mnt
	run serve
	refused 1 "mountpoint mnt is a relative path" "give an absolute one"
}

@test "a mountpoint that ends with a dot" {
	MNT=$T/mnt/..
	run serve
	refused 1 "$T/mnt/.. ends with a dot"
}

@test "a mountpoint that is missing" {
	MNT=$T/missing
	run serve
	refused 1 "mountpoint $T/missing does not exist" "mkdir $T/missing"
	[ ! -e "$T/missing" ]
}

@test "a mountpoint that is not a directory" {
	MNT=$T/file
	touch "$MNT"
	run serve
	refused 1 "mountpoint $T/file is not a directory"
}

@test "a mountpoint that is a link to nowhere or in a circle" {
	MNT=$T/link
	ln -s nowhere "$MNT"
	run serve
	refused 1 "mountpoint $T/nowhere does not exist"
	ln -sfn link "$MNT"
	run serve
	refused 1 "$T/link is a link with too many links"
}

@test "a mountpoint that is not empty" {
	touch "$MNT/precious"
	run serve
	refused 1 "mountpoint $MNT is not empty" precious
}

@test "a mountpoint where something else is mounted stays as it is" {
	mount -t tmpfs theirs "$MNT"
	run serve
	refused 1 "something else is mounted at $MNT (theirs, type tmpfs)" "unmount it"
	grep -q " $MNT .* tmpfs theirs" /proc/self/mountinfo
	umount "$MNT"
}

@test "directories inside the mountpoint, also by way of a link, and not made there" {
	ln -s mnt "$T/link"
	STATE=$MNT/state
	run cloopd serve --state-dir "$T/link/state" --runtime-dir "$RUN" --config-dir "$T/etc" "$MNT"
	refused 1 "state directory $MNT/state is inside the mountpoint $MNT" --state-dir
	run cloopd serve --state-dir "$T/state" --runtime-dir "$MNT" --config-dir "$T/etc" "$MNT"
	refused 1 "runtime directory $MNT is inside the mountpoint" --runtime-dir
	run cloopd serve --state-dir "$T/state" --runtime-dir "$RUN" --config-dir "$MNT/x/y" "$MNT"
	refused 1 "config directory $MNT/x/y is inside the mountpoint" --config-dir
	[ -z "$(ls "$MNT")" ]
	[ ! -e "$T/state" ]
}

@test "a name that only begins like the mountpoint is not inside" {
	STATE=$T/mnt-state PLACES=(--state-dir "$T/mnt-state" --runtime-dir "$RUN" --config-dir "$T/etc")
	serve
	answers one
}

@test "a mountpoint inside the state directory" {
	mkdir -m 700 -p "$STATE/mnt"
	MNT=$STATE/mnt
	run serve
	refused 1 "mountpoint $MNT is inside the state directory $STATE"
}

@test "a state directory that cannot be made" {
	touch "$T/file"
	run cloopd serve --state-dir "$T/file/state" --runtime-dir "$RUN" --config-dir "$T/etc" "$MNT"
	refused 1 "$T/file/state" "Not a directory"
	mkdir "$T/ro"
	mount -t tmpfs -o ro theirs "$T/ro"
	run cloopd serve --state-dir "$T/ro/a/b" --runtime-dir "$RUN" --config-dir "$T/etc" "$MNT"
	refused 1 "cannot make $T/ro/a" "Read-only file system" --state-dir
	umount "$T/ro"
}

@test "a state directory that cannot be written" {
	mkdir -m 700 "$STATE"
	mount -t tmpfs -o ro,mode=700 theirs "$STATE"
	run serve
	umount "$STATE"
	refused 1 "state directory $STATE" "Read-only file system" --state-dir
}

@test "a state or runtime directory of somebody else, or open to somebody else" {
	mkdir -m 700 "$STATE" "$RUN"
	chown 65534 "$STATE"
	run serve
	refused 1 "state directory $STATE belongs to uid 65534" "chown it"
	chown 0 "$STATE"
	chmod 770 "$STATE"
	run serve
	refused 1 "state directory $STATE is writable for others (mode 0770)" "chmod go-w $STATE"
	run stop
	refused 1 "state directory $STATE is writable for others"
	chmod 700 "$STATE"
	chmod 707 "$RUN"
	run serve
	refused 1 "runtime directory $RUN is writable for others"
}

@test "a config directory that everybody may write" {
	mkdir "$T/etc"
	chmod 777 "$T/etc"
	run serve
	refused 1 "config directory $T/etc is writable for others" "chmod o-w"
	chmod 755 "$T/etc"
	chown 65534 "$T/etc"
	run serve
	refused 1 "config directory $T/etc belongs to uid 65534"
}

@test "a lock that is a link is not followed" {
	mkdir -m 700 "$STATE"
	ln -s "$T/victim" "$STATE/lock"
	run serve
	refused 1 "cannot write into state directory $STATE"
	[ ! -e "$T/victim" ]
}

@test "a second daemon on one state directory, one runtime directory, one mountpoint" {
	serve
	mkdir "$T/mnt2"
	run cloopd serve "${PLACES[@]}" "$T/mnt2"
	refused 1 "state directory $STATE is in use by cloopd with pid $(keeper)" "stop that one first"
	run cloopd serve --state-dir "$T/state2" --runtime-dir "$RUN" --config-dir "$T/etc" "$T/mnt2"
	refused 1 "runtime directory $RUN is in use by cloopd with pid $(keeper)"
	run cloopd serve --state-dir "$T/state2" --runtime-dir "$T/run2" --config-dir "$T/etc" "$MNT"
	refused 1 "$MNT is the mount of another cloopd that is running"
	answers one
}

@test "the mount of another daemon whose hub hangs is left alone, in bounded time" {
	serve
	kill -STOP "$(hub)"
	run cloopd serve --state-dir "$T/state2" --runtime-dir "$T/run2" --config-dir "$T/etc" "$MNT"
	kill -CONT "$(hub)"
	refused 1 "$MNT is the mount of another cloopd that is running"
	answers one
}

@test "a launcher that is missing" {
	rm "$T/bin/cloop-launcher"
	run serve
	refused 1 "neither $T/bin/cloop-launcher nor /" "install cloop-launcher"
}

@test "stop where nothing runs" {
	run stop
	refused 1 "state directory $STATE" "No such file"
	mkdir -m 700 "$STATE"
	run stop
	refused 1 "no cloopd runs with the state directory $STATE"
	serve
	stop
	run stop
	refused 1 "no cloopd runs with the state directory $STATE"
}
