#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2119,SC2120,SC2153,SC2154,SC2174 # each test is a process, and bats sets its own
# The service of an ordinary user, mounted through fusermount3.

load keeper.bash

NOBODY=65534

setup() {
	# Who is nobody cannot enter the directories of the tests.
	T=$(mktemp -d /tmp/cloop-user.XXXXXX)
	BATS_TEST_TMPDIR=$T keeper_setup
	chown -R $NOBODY:$NOBODY "$T"
	# In this mount namespace alone everybody may open the device.
	mknod "$T/fuse" c 10 229
	chmod 666 "$T/fuse"
	mount --bind "$T/fuse" /dev/fuse
}

teardown() {
	as_user timeout -k 5 40 "$T/bin/cloopd" stop --state-dir "$STATE" 2>/dev/null
	for pid in "${BACKGROUND[@]}" $(cat "$STATE/shims" 2>/dev/null); do
		kill -9 "$pid" 2>/dev/null
	done
	umount /dev/fuse
	not mounted && rm -rf "$T"
}

as_user() {
	env -u XDG_RUNTIME_DIR -u XDG_STATE_HOME -u XDG_CONFIG_HOME HOME="$T" \
		setpriv --reuid $NOBODY --regid $NOBODY --clear-groups "$@"
}
serve() { as_user timeout -k 5 60 "$T/bin/cloopd" serve "${PLACES[@]}" "$@" "$MNT" 3>&-; }
stop() { as_user timeout -k 5 40 "$T/bin/cloopd" stop --state-dir "$STATE"; }
answers() { [ "$(as_user timeout 5 cat "$MNT/hello" 2>/dev/null)" = "$1" ]; }

@test "everything works, and nobody else enters" {
	serve
	answers one
	options=$(grep " $MNT " /proc/self/mountinfo)
	[[ $options == *nosuid,nodev,noexec,noatime* ]]
	[[ $options == *user_id=$NOBODY* ]]
	[[ $options != *default_permissions* ]]
	[[ $options != *allow_other* ]]
	run cat "$MNT/hello"
	[ "$status" -ne 0 ]
	last=$(hub)
	kill -9 "$last"
	until_ hub_is_not "$last"
	answers one
	stop
	not mounted
}

@test "the default places are below the XDG directories" {
	mkdir -m 700 "$T/xdg"
	chown $NOBODY "$T/xdg"
	PLACES=() STATE=$T/.local/state/cloop MNT=$T/xdg/cloop
	as_user env XDG_RUNTIME_DIR="$T/xdg" timeout -k 5 60 "$T/bin/cloopd" serve 3>&-
	answers one
	[ -S "$T/xdg/cloopd/launcher.sock" ]
	[ -d "$STATE/sessions" ]
	[ "$(stat -c %a "$STATE" "$T/.local/state" "$T/.local" | tr '\n' ' ')" = "700 700 700 " ]
	as_user timeout -k 5 40 "$T/bin/cloopd" stop
	not mounted
}

@test "busy, then lazily" {
	serve
	# shellcheck disable=SC2016 # expanded by the inner shell
	(exec setpriv --reuid $NOBODY --regid $NOBODY --clear-groups sh -c 'cd "$1" && exec sleep 60' - "$MNT" 3>&-) &
	BACKGROUND+=("$!")
	until_ link_is "/proc/$!/cwd" "$MNT"
	stop
	not mounted
	logged "$MNT is busy: unmounted lazily"
}

@test "a dead mount is cleared, a living one is not" {
	serve
	run as_user timeout -k 5 60 "$T/bin/cloopd" serve --state-dir "$T/state2" --runtime-dir "$T/run2" --config-dir "$T/etc" "$MNT" 3>&-
	refused 1 "$MNT is the mount of another cloopd that is running"
	kill -9 "$(keeper)"
	until_ not alive "$(hub)"
	mounted
	serve
	answers one
}

@test "root's daemon does not touch a user's living mount" {
	serve
	run timeout -k 5 60 "$T/bin/cloopd" serve --state-dir "$T/state2" --runtime-dir "$T/run2" --config-dir "$T/etc2" "$MNT" 3>&-
	refused 1 "$MNT is the mount of another cloopd that is running"
	answers one
}

@test "fusermount3 is missing, or refuses" {
	mkdir "$T/path"
	ln -s "$(command -v timeout)" "$T/path/"
	run as_user env PATH="$T/path" timeout -k 5 60 "$T/bin/cloopd" serve "${PLACES[@]}" "$MNT" 3>&-
	refused 1 "cannot mount at $MNT: cloopd: cannot execute fusermount3" "install fuse3"
	chown 0 "$MNT"
	run serve
	refused 1 "cannot mount at $MNT: fusermount3: " "may this user mount there?"
	chown $NOBODY "$MNT"
}

@test "umount by the user ends the service" {
	serve
	keeper=$(keeper)
	as_user fusermount3 -u "$MNT"
	until_ not alive "$keeper"
	logged "$MNT was unmounted: ending"
}
