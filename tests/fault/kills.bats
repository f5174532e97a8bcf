# Many launches while hubs, launchers or the whole machine go down at any moment, and while another
# version takes over.
#
# With CLOOP_LONG=1 there are 1,000 launches, else 200.

load ../tree/common

LAUNCHES=$BATS_TEST_DIRNAME/launches

setup_file() {
	# A version of its own, that can be replaced while it runs.
	hub_make
	mkdir "$D/bin"
	cp "$CLOOPD" "${CLOOPD%/*}/cloop-launcher" "$D/bin"
	export CLOOPD=$D/bin/cloopd
	hub_start
}

setup() {
	need_root
	need python3
	COUNT=200
	[[ ${CLOOP_LONG-0} != 1 ]] || COUNT=1000
	WORK=$D/work/$BATS_TEST_NUMBER
	mkdir -m 777 "$WORK"
}

# writers_begin: eight of them start $COUNT workloads.
writers_begin() {
	local i

	WRITERS=()
	for i in 1 2 3 4 5 6 7 8; do
		"$LAUNCHES" write "$M" "$WORK" "$i" 8 "$COUNT" "$BATS_TEST_TMPDIR/answers.$i" 3>&- &
		WRITERS+=($!)
	done
}

writers_run() {
	local pid

	for pid in "${WRITERS[@]}"; do
		! kill -0 "$pid" 2> /dev/null || return 0
	done
	return 1
}

writers_end() {
	wait "${WRITERS[@]}"
	"$LAUNCHES" check "$M" "$WORK" "$COUNT" "$BATS_TEST_TMPDIR"/answers.*
	eventually nothing_in_flight
}

nothing_in_flight() {
	[[ $(cat "$M/executors/local/inflight") == 0 ]]
}

# A moment of up to so many milliseconds.
moment() {
	local ms=$((RANDOM % $1))

	sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
}

shows() {
	[[ $(cat "$1") == "$2" ]]
}

# watchers_begin: everybody who waits for something of one session.
watchers_begin() {
	WATCHED=$(start "$(script "echo one; while [ ! -e $WORK.go ]; do sleep 0.05; done; echo two; exit 6")")
	tail -s 0.1 -f "$M/sessions/$WATCHED/log" > "$BATS_TEST_TMPDIR/tail" 3>&- &
	TAIL=$!
	cat "$M/sessions/$WATCHED/follow" > "$BATS_TEST_TMPDIR/follow" 3>&- &
	READERS=($!)
	cat "$M/sessions/$WATCHED/lines" > "$BATS_TEST_TMPDIR/lines" 3>&- &
	READERS+=($!)
	cat "$M/sessions/$WATCHED/wait" > "$BATS_TEST_TMPDIR/wait" 3>&- &
	READERS+=($!)
	python3 -IS -c '
import os, select, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
p = select.poll()
p.register(fd, select.POLLIN)
print(p.poll(300000)[0][1] == select.POLLIN, os.read(fd, 10))' "$M/sessions/$WATCHED/wait" \
		> "$BATS_TEST_TMPDIR/poll" 3>&- &
	READERS+=($!)
	# Half a document; one that is acknowledged, with an answer that nobody has read.
	exec 6<> "$M/executors/local/start" 7<> "$M/executors/local/start"
	printf '{"argv":["/bin/sh","-c","exit' >&6
	echo '{"argv":["/bin/sh","-c","exit 21"]}' >&7
	eventually shows "$BATS_TEST_TMPDIR/tail" one
	eventually shows "$BATS_TEST_TMPDIR/follow" one
}

watchers_end() {
	local id

	id=$(jq -r .session <&7)
	equal "$(ended "$id")" 21
	printf ' 22"]}' >&6
	id=$(jq -r .session <&6)
	equal "$(ended "$id")" 22
	exec 6>&- 7>&-
	equal "$(cat "$BATS_TEST_TMPDIR/wait" "$BATS_TEST_TMPDIR/tail" "$BATS_TEST_TMPDIR/follow")" $'one\none'
	touch "$WORK.go"
	wait "${READERS[@]}"
	eventually shows "$BATS_TEST_TMPDIR/tail" $'one\ntwo'
	kill "$TAIL"
	equal "$(cat "$BATS_TEST_TMPDIR/follow")" $'one\ntwo'
	equal "$(jq -j .text "$BATS_TEST_TMPDIR/lines")" $'one\ntwo'
	equal "$(jq -s 'map(.seq) == [1, 2]' "$BATS_TEST_TMPDIR/lines")" true
	equal "$(cat "$BATS_TEST_TMPDIR/wait")" 6
	equal "$(cat "$BATS_TEST_TMPDIR/poll")" "True b'6\\n'"
}

launcher_is_other() {
	local pid

	pid=$(launcher_pid) && [[ $pid != "$1" ]]
}

@test "8 writers launch workloads while the hub is killed at random, and everybody waits on" {
	local kills=0

	watchers_begin
	writers_begin
	while writers_run; do
		moment 250
		hub_kill
		kills=$((kills + 1))
	done
	echo "# $COUNT launches, $kills hubs killed" >&3
	((kills > 0))
	watchers_end
	writers_end
}

@test "8 writers launch workloads while launchers are killed at random" {
	local kills=0 pid

	hub_restart
	writers_begin
	while writers_run; do
		moment 250
		pid=$(launcher_pid) || continue
		kill -9 "$pid"
		kills=$((kills + 1))
		eventually launcher_is_other "$pid"
	done
	echo "# $COUNT launches, $kills launchers killed" >&3
	((kills > 0))
	writers_end
}

# upgrade_to TEXT: another program, that says another version, takes over.
upgrade_to() {
	local hub launcher

	hub=$(hub_pid) launcher=$(launcher_pid)
	LC_ALL=C sed "s/${VERSION//./\\.}/$1/g" "$D/bin/first" > "$D/bin/next"
	chmod 755 "$D/bin/next"
	mv "$D/bin/next" "$CLOOPD"
	kill -USR2 "$(keeper)"
	echo "$hub" >> "$D/killed"
	eventually hub_is_other "$hub"
	eventually launcher_is_other "$launcher"
}

@test "8 writers launch workloads while other versions take over" {
	local i upgrades=0 version id

	VERSION=$(cat "$M/version")
	cp "$CLOOPD" "$D/bin/first"
	hub_restart
	id=$(start "$(script "while [ ! -e $WORK.go ]; do sleep 0.05; done; exit 12")")
	watchers_begin
	writers_begin
	while writers_run; do
		version=$(printf '%s' "$VERSION" | sed "s/[0-9]*$/$((upgrades % 10))/")
		upgrade_to "$version"
		upgrades=$((upgrades + 1))
		equal "$(cat "$M/version")" "$version"
		moment 300
	done
	echo "# $COUNT launches, $upgrades upgrades" >&3
	((upgrades > 0))
	watchers_end
	wait "${WRITERS[@]}"
	"$LAUNCHES" check "$M" "$WORK" "$COUNT" "$BATS_TEST_TMPDIR"/answers.*
	# What began under the first of all is signalled, and ends, under the last.
	touch "$WORK.go"
	equal "$(ended "$id")" 12
}

@test "a launcher of another version is named, and what runs goes on" {
	local id kept=$D/bin/kept pid before

	hub_restart
	id=$(start "$(script "while [ ! -e $WORK.go ]; do sleep 0.05; done; exit 13")")
	pid=$(launcher_pid)
	mv "$D/bin/cloop-launcher" "$kept"
	cat > "$D/bin/cloop-launcher" <<-'LAUNCHER'
		#!/usr/bin/python3 -IS
		import socket, sys
		listener = socket.socket(fileno=int(sys.argv[sys.argv.index("--listen-fd") + 1]))
		while True:
		    listener.accept()[0].close()
	LAUNCHER
	chmod 755 "$D/bin/cloop-launcher"
	kill -9 "$pid"
	eventually start_is_refused
	equal "$(jq -r .errno "$M/error.json")" EHOSTUNREACH
	like "$(cat "$D"/said.*)" 'cloop-launcher hangs up instead of answering'
	touch "$WORK.go"
	equal "$(ended "$id")" 13
	before=$(cat "$M/executors/local/inflight")
	# An upgrade brings both.
	mv "$kept" "$D/bin/cloop-launcher"
	hub_pid >> "$D/killed"
	kill -USR2 "$(keeper)"
	eventually nothing_in_flight
	echo "# $before starts had waited" >&3
	equal "$(ended "$(start "$(spec /bin/sh -c 'exit 14')")")" 14
}

# One that was taken before that was known is acknowledged, and runs later.
start_is_refused() {
	! bash -c "echo '{\"argv\":[\"/bin/true\"]}' > $M/executors/local/start" 2> /dev/null &&
		[[ $(jq -r .errno "$M/error.json") == EHOSTUNREACH ]]
}

# machine_restarts: everything that runs is gone at once, and another boot id is there.
machine_restarts() {
	local pid

	pid=$(keeper)
	kill -9 "$pid"
	eventually keeper_is_gone
	# Shims first, so that none records an end.
	# shellcheck disable=SC2046
	kill -9 $(hub_shims) "$2"
	umount -l "$M"
	rm -r "$D/home/run"/*
	hub_setting CLOOP_BOOT_ID "$1"
	hub_start
}

@test "the machine is restarted: what ran is failed, and says so; nothing is launched again" {
	local id finished

	hub_has_hooks || skip "needs a build with test hooks"
	finished=$(start "$(spec /bin/sh -c 'exit 15')")
	equal "$(ended "$finished")" 15
	id=$(start "$(script "echo began >> $WORK/began; echo printed; exec sleep 300")")
	eventually shows "$M/sessions/$id/log" printed
	machine_restarts 12345678-1234-1234-1234-123456789abc "$(now "$id" pid)"
	equal "$(ended "$id")" 255
	equal "$(now "$id" state) $(status "$id" .cause)" 'failed lost'
	equal "$(now "$id" error)" 'the machine was restarted while it ran'
	like "$(now "$id" log)" ^printed
	equal "$(ended "$finished") $(now "$finished" state)" '15 exited'
	equal "$(cat "$WORK/began")" began
	equal "$(now "$id" attempt)" 1
	equal "$(ended "$(start "$(spec /bin/sh -c 'exit 16')")")" 16
}

@test "the hub stops and leaves nothing" {
	hub_end
}
