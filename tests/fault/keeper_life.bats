#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2119,SC2120,SC2153,SC2154,SC2174 # each test is a process, and bats sets its own
# The service through the lives and deaths of its processes.

load keeper.bash
setup() { keeper_setup; }
teardown() { keeper_teardown; }

@test "serve returns when the tree can be used; stop takes everything but the shims" {
	serve
	[ "$(cat "$MNT/hello")" = one ]
	[ "$(ls "$MNT")" = "$(printf 'hello\nslow\nwait')" ]
	keeper=$(keeper) hub=$(hub) launcher=$(launcher)
	shim=$(cat "$STATE/shims")
	[ -S "$RUN/launcher.sock" ]
	[ "$(stat -c %a "$RUN/launcher.sock" "$RUN" "$STATE" | tr '\n' ' ')" = "600 700 700 " ]
	stop
	not mounted
	for pid in $keeper $hub $launcher; do
		not alive "$pid"
	done
	alive "$shim"
	[ ! -e "$RUN/launcher.sock" ]
	[ -z "$(ls "$MNT")" ]
}

@test "the mount has the options that it should have, and a device of its own" {
	serve
	options=$(grep " $MNT " /proc/self/mountinfo)
	[[ $options == *" rw,nosuid,nodev,noexec,noatime "* ]]
	[[ $options == *default_permissions,allow_other,max_read=131072* ]]
	[[ $options != *shared:* ]]
	stop
	serve --no-allow-other
	options=$(grep " $MNT " /proc/self/mountinfo)
	[[ $options != *default_permissions* ]]
	[[ $options != *allow_other* ]]
}

@test "in a shared parent the mount itself is private" {
	mkdir "$T/shared"
	mount -t tmpfs shared "$T/shared"
	mount --make-shared "$T/shared"
	mkdir "$T/shared/mnt"
	MNT=$T/shared/mnt
	serve
	[[ $(grep " $MNT " /proc/self/mountinfo) != *shared:* ]]
	stop
	umount "$T/shared"
}

@test "stop gives a blocked reader its end of file" {
	serve
	cat "$MNT/wait" >"$T/out" 2>"$T/err" 3>&- &
	reader=$!
	until_ pgrep -f "cat $MNT/wait"
	sleep 0.2
	stop
	wait "$reader"
	[ ! -s "$T/err" ]
	not mounted
}

@test "stop with a hub that does not listen" {
	behave deaf
	serve
	cat "$MNT/wait" >/dev/null 2>"$T/err" 3>&- &
	reader=$!
	stop
	not mounted
	run wait "$reader"
	[ "$status" -ne 0 ]
	logged "does not end: killed"
}

@test "stop with a hub that is stopped, and one that hangs before it is ready" {
	serve
	kill -STOP "$(hub)"
	stop
	not mounted
	behave hang
	serve 2>/dev/null &
	caller=$!
	until_ grep -q "^[0-9]* one" "$STATE/hubs"
	until_ hubs_started 2
	stop
	not mounted
	run wait "$caller"
}

@test "stop while somebody is in the tree: lazily, with a sentence" {
	serve
	(cd "$MNT" && exec sleep 60 3>&-) &
	BACKGROUND+=("$!")
	until_ link_is "/proc/$!/cwd" "$MNT"
	stop
	not mounted
	logged "$MNT is busy: unmounted lazily"
}

@test "something mounted over the tree is left alone" {
	serve
	mount -t tmpfs theirs "$MNT"
	stop
	grep -q " $MNT .* tmpfs theirs" /proc/self/mountinfo
	logged "mounted over $MNT: left alone"
	umount "$MNT"
	# What is below is dead now, and recognised.
	serve
	answers one
}

@test "fifty hubs are killed under blocked readers and requests in flight; nobody sees an error" {
	serve
	for i in 1 2 3; do
		(
			while [ ! -e "$T/done" ]; do
				[ "$(cat "$MNT/slow")" = one ] && ls "$MNT" >/dev/null && df "$MNT" >/dev/null || exit 1
			done
		) 2>>"$T/err" 3>&- &
		readers[i]=$!
		cat "$MNT/wait" >"$T/wait.$i" 2>>"$T/err" 3>&- &
		blocked[i]=$!
	done
	for ((i = 0; i < 50; i++)); do
		last=$(ready)
		kill -9 "$last"
		until_ ready_is_not "$last"
		sleep 0.0$((i % 7))
	done
	touch "$T/done"
	wait "${readers[@]}"
	touch "$STATE/release"
	wait "${blocked[@]}"
	[ "$(cat "$T"/wait.?)" = "$(printf 'one\none\none')" ]
	[ ! -s "$T/err" ]
	[ "$(wc -l <"$STATE/hubs")" -ge 51 ]
	not logged EIO
}

@test "a crash loop ends in EIO, also for what was unanswered, and heals" {
	serve
	behave poison
	last=$(hub)
	kill -9 "$last"
	until_ hub_is_not "$last"
	# This LOOKUP kills each hub that sees it.
	run timeout -k 5 30 cat "$MNT/hello"
	[ "$status" -eq 1 ]
	[[ $output == *"Input/output error"* ]]
	logged "too many hubs died: requests to $MNT are answered EIO"
	run timeout 5 df "$MNT"
	[ "$status" -ne 124 ]
	rm "$STATE/behave"
	until_ answers one
	logged "the outage is over"
}

@test "without a ready hub for ten seconds callers get EIO, and it heals" {
	serve
	# shellcheck disable=SC2217 # it only has the file open
	sleep 60 <"$MNT/hello" 3>&- &
	opener=$!
	BACKGROUND+=("$opener")
	until_ has_open "$opener" "$MNT/hello"
	behave hang
	last=$(hub)
	kill -9 "$last"
	until_ hub_is_not "$last"
	begin=$SECONDS
	run timeout -k 5 40 ls "$MNT"
	[ "$status" -eq 2 ]
	[[ $output == *"Input/output error"* ]]
	[ $((SECONDS - begin)) -ge 8 ]
	# Closed during the outage, while the hung hub has the shared area.
	kill -9 "$opener"
	until_ not alive "$opener"
	rm "$STATE/behave"
	kill -9 "$(hub)"
	until_ answers one
	logged "there was no hub for too long"
}

@test "a hub that refuses at the start: its sentence, status 1, nothing mounted" {
	behave refuse
	run serve
	refused 1 "cloop.db: is damaged; restore it from a backup"
	not mounted
	status=0
	"$T/bin/cloopd" serve "${PLACES[@]}" --foreground "$MNT" >"$T/log" 2>&1 3>&- || status=$?
	[ "$status" -eq 1 ]
	grep -q "cloop.db: is damaged; restore it from a backup" "$T/log"
	not mounted
}

@test "a hub that refuses later: the mount stays with EIO, an upgrade tries again at once" {
	serve
	behave refuse
	kill -9 "$(hub)"
	until_ logged "the hub refuses to serve: requests to $MNT are answered EIO"
	logged "cloop.db: is damaged"
	run timeout -k 5 20 cat "$MNT/hello"
	[ "$status" -eq 1 ]
	mounted
	rm "$STATE/behave"
	kill -USR2 "$(keeper_of "$(launcher)")"
	until_ answers one
}

@test "hubs that die before one was ready: status 1 after five, nothing mounted" {
	behave crash
	run serve
	refused 1 "5 hubs died before one was ready; see cloopd.log in the state directory"
	[ "$(wc -l <"$STATE/hubs")" -eq 5 ]
	not mounted
}

@test "whoever called is gone before it is ready: the daemon ends" {
	behave hang
	"$T/bin/cloopd" serve "${PLACES[@]}" "$MNT" 3>&- &
	caller=$!
	until_ test -s "$STATE/hubs"
	keeper=$(keeper)
	kill -9 "$caller"
	until_ not alive "$keeper"
	not mounted
}

@test "a killed launcher is started again with the same socket" {
	serve
	inode=$(stat -c %i "$RUN/launcher.sock")
	for i in 1 2 3; do
		last=$(launcher)
		kill -9 "$last"
		until_ launchers_started $((i + 1))
	done
	[ "$(stat -c %i "$RUN/launcher.sock")" = "$inode" ]
	answers one
	logged "launcher ended: signal 9 (Killed)"
}

@test "a killed nudger is started again and the hub is told" {
	serve
	first=$(tail -n 1 "$STATE/hubs" | cut -d ' ' -f 3)
	alive "$first"
	kill -9 "$first"
	until_ test -s "$STATE/nudgers"
	second=$(tail -n 1 "$STATE/nudgers")
	[ "$first" != "$second" ]
	alive "$second"
	last=$(hub)
	kill -9 "$last"
	until_ hub_is_not "$last"
	[ "$(tail -n 1 "$STATE/hubs" | cut -d ' ' -f 3)" = "$second" ]
}

@test "a nudger that hangs in the mount holds up nobody" {
	behave nudge
	serve
	nudger=$(tail -n 1 "$STATE/hubs" | cut -d ' ' -f 3)
	until_ has_open "$nudger" "$MNT/wait"
	answers one
	kill -STOP "$(hub)"
	stop
	not mounted
	not alive "$nudger"
}

@test "a killed keeper takes hub, launcher and nudger along; the next one clears the dead mount" {
	serve
	hub=$(hub) launcher=$(launcher) nudger=$(tail -n 1 "$STATE/hubs" | cut -d ' ' -f 3)
	cat "$MNT/wait" >/dev/null 2>"$T/err" 3>&- &
	reader=$!
	kill -9 "$(keeper)"
	run wait "$reader"
	for pid in $hub $launcher $nudger; do
		until_ not alive "$pid"
	done
	run stat "$MNT"
	[[ $output == *"Transport endpoint is not connected"* ]]
	# A second dead mount upon the first.
	T2=$T/second
	mkdir "$T2"
	mounted
	serve
	answers one
	kill -9 "$(keeper)"
	until_ not alive "$(hub)"
	serve
	answers one
	stop
	not mounted
}

@test "an upgrade leaves mount, descriptors and blocked readers as they are" {
	serve
	last=$(hub)
	exec 4<"$MNT/slow"
	cat "$MNT/wait" >"$T/out" 2>"$T/err" 3>&- 4<&- &
	reader=$!
	nudger=$(tail -n 1 "$STATE/hubs" | cut -d ' ' -f 3)
	install "$STAND_INS/cloopd-two" "$T/bin/cloopd"
	kill -USR2 "$(keeper)"
	until_ hub_is_not "$last"
	until_ answers two
	[ "$(cat <&4)" = two ]
	exec 4<&-
	touch "$STATE/release"
	wait "$reader"
	[ "$(cat "$T/out")" = two ]
	[ ! -s "$T/err" ]
	until_ not alive "$nudger"
	# And with it the killed hub's successor.
	last=$(hub)
	kill -9 "$last"
	until_ hub_is_not "$last"
	answers two
}

@test "an upgrade that would negotiate another INIT, or is missing, is refused" {
	serve
	last=$(hub)
	install "$STAND_INS/cloopd-other-init" "$T/bin/cloopd"
	kill -USR2 "$(keeper)"
	until_ logged "upgrade refused: hub-check-init of $T/bin/cloopd ended with exit status 1"
	logged "another INIT"
	rm "$T/bin/cloopd"
	kill -USR2 "$(keeper)"
	until_ logged "cannot open $T/bin/cloopd: No such file"
	printf 'no program' >"$T/bin/cloopd"
	kill -USR2 "$(keeper)"
	until_ logged "ended with exit status 127"
	answers one
	[ "$(hub)" = "$last" ]
	# A killed hub is followed by what was accepted, not by what lies there.
	kill -9 "$last"
	until_ hub_is_not "$last"
	answers one
}

@test "the program's path is the one that was called, its links included" {
	mkdir "$T/v1" "$T/v2"
	mv "$T/bin/cloopd" "$T/v1/"
	cp "$STAND_INS/cloopd-two" "$T/v2/cloopd"
	ln -s v1 "$T/current"
	ln -s "$T/current/cloopd" "$T/bin/cloopd"
	cd "$T"
	(PATH=$T/bin:$PATH && timeout -k 5 60 cloopd serve "${PLACES[@]}" "$MNT" 3>&-)
	answers one
	last=$(hub)
	ln -sfn v2 "$T/current"
	kill -USR2 "$(keeper)"
	until_ hub_is_not "$last"
	until_ answers two
}

@test "SIGHUP does nothing" {
	serve
	kill -HUP "$(keeper)" "$(keeper)"
	answers one
	alive "$(keeper)"
}

@test "SIGINT ends a foreground service, which logs to stderr" {
	set -m
	serve_foreground
	set +m
	kill -INT "$KEEPER"
	wait "$KEEPER"
	not mounted
	grep -q "stopping: signal 2" "$T/log"
	[ ! -e "$STATE/cloopd.log" ]
}

@test "umount ends the service with status 0 and a sentence" {
	serve_foreground
	umount "$MNT"
	wait "$KEEPER"
	grep -q "$MNT was unmounted: ending" "$T/log"
}

@test "umount while no hub runs ends the service too" {
	serve_foreground
	behave refuse
	kill -9 "$(hub)"
	until_ grep -q EIO "$T/log"
	umount "$MNT"
	wait "$KEEPER"
	grep -q "the mount at $MNT is gone: ending" "$T/log"
}

@test "a reader of stderr that goes does not end the service" {
	"$T/bin/cloopd" serve "${PLACES[@]}" --foreground "$MNT" 2>&1 >/dev/null 3>&- | head -n 1 >/dev/null 3>&- &
	until_ answers one
	last=$(hub)
	kill -9 "$last"
	until_ hub_is_not "$last"
	answers one
}

@test "closed standard descriptors do no harm" {
	(timeout -k 5 60 "$T/bin/cloopd" serve "${PLACES[@]}" "$MNT" <&- >&- 2>&- 3>&-)
	answers one
}

@test "the service manager is told, by a path and by an abstract name" {
	for address in "$T/notify" "@cloop-test-$$"; do
		rm -f "$T/told"
		python3 - "$address" >"$T/told" 3>&- <<-'END' &
			import socket, sys
			a = sys.argv[1]
			s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
			s.bind("\0" + a[1:] if a[0] == "@" else a)
			print("bound", flush=True)
			while True:
			    text = s.recv(4096).decode()
			    print(text, flush=True)
			    if "STOPPING=1" in text:
			        break
		END
		listener=$!
		BACKGROUND+=("$listener")
		until_ grep -q bound "$T/told"
		NOTIFY_SOCKET=$address serve_foreground
		until_ grep -q "^READY=1" "$T/told"
		grep -q "^MAINPID=$KEEPER" "$T/told"
		grep -q "^STATUS=serving $MNT, hub $(hub)" "$T/told"
		not grep -qz NOTIFY_SOCKET "/proc/$(launcher)/environ"
		stop
		wait "$listener"
	done
}

@test "a long path to the runtime directory" {
	long=$(printf 'd%.0s' {1..60})
	RUN=$T/$long/$long/$long
	PLACES=(--state-dir "$STATE" --runtime-dir "$RUN" --config-dir "$T/etc")
	serve
	[ -S "$RUN/launcher.sock" ]
	alive "$(launcher)"
	stop
	[ ! -e "$RUN/launcher.sock" ]
}

@test "a log that grew too large is kept once and emptied" {
	mkdir -m 700 "$STATE"
	head -c 9000000 /dev/zero | tr '\0' x >"$STATE/cloopd.log"
	serve
	[ "$(stat -c %s "$STATE/cloopd.log.1")" -ge 9000000 ]
	[ "$(stat -c %s "$STATE/cloopd.log")" -lt 100000 ]
	stop
	logged "ended"
}

@test "hub and nudger may open more files than the launcher, whose workloads inherit its limit" {
	(ulimit -Sn 256 && serve)
	[ "$(awk '/open files/ { print $4 }' "/proc/$(launcher)/limits")" = 256 ]
	[ "$(awk '/open files/ { print $4 }' "/proc/$(hub)/limits")" = "$(ulimit -Hn)" ]
}
