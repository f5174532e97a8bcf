# Watching with inotify: what is announced, to whom, in which order, and how often.

load common
load watch

setup_file() {
	need inotifywait python3
	hub_begin
}

setup() {
	known 0
}

teardown() {
	background_ends
}

@test "a file announces its changes, and only its own" {
	local id

	id=$(start "$(gate own)")
	eventually is_state "$id" running
	watch state "$M/sessions/$id/state"
	watch pid "$M/sessions/$id/pid"
	watch code "$M/sessions/$id/exit_code"
	watch attempt "$M/sessions/$id/attempt"
	watch spec "$M/sessions/$id/spec"
	watch after "$M/executors"
	known 6
	tell own end 3
	eventually saw state "sessions/$id/state MODIFY"
	eventually saw pid "sessions/$id/pid MODIFY"
	eventually saw code "sessions/$id/exit_code MODIFY"
	equal "$(now "$id" exit_code)" 3
	settled after
	equal "$(seen state)" "sessions/$id/state MODIFY"
	equal "$(seen code)" "sessions/$id/exit_code MODIFY"
	equal "$(seen attempt)$(seen spec)" ''
}

@test "inotifywait sees a change that comes at once" {
	local id i

	for ((i = 0; i < 10; i++)); do
		id=$(start "$(gate "once$i")")
		eventually is_state "$id" running
		inotifywait -q -e modify "$M/sessions/$id/state" > "$BATS_TEST_TMPDIR/out" \
			2> "$BATS_TEST_TMPDIR/err" 3>&- &
		# The end is not waited for: the watch may be younger than any look at it.
		eventually grep -qs 'inotify' "/proc/$!/fdinfo/3"
		tell "once$i" end 0
		wait $!
		equal "$(cat "$BATS_TEST_TMPDIR/out")" "$M/sessions/$id/state MODIFY "
		equal "$(now "$id" state)" exited
	done
}

@test "a recursive watch sees a session come, live and go" {
	local id log=$BATS_TEST_TMPDIR/log

	inotifywait -m -r --format '%w%f %e' "$M/sessions" > "$log" 2> "$BATS_TEST_TMPDIR/err" 3>&- &
	echo $! >> "$BATS_TEST_TMPDIR/background"
	eventually grep -q 'Watches established' "$BATS_TEST_TMPDIR/err"
	id=$(start "$(gate recursive)")
	# inotifywait goes through what is new, and watches it then.
	eventually grep -qxF "$M/sessions/$id CREATE,ISDIR" "$log"
	eventually grep -qs "ino:$(printf '%x' "$(stat -c %i "$M/sessions/$id")") " /proc/$!/fdinfo/3
	tell recursive out hello
	eventually grep -qxF "$M/sessions/$id/stdout MODIFY" "$log"
	tell recursive end 0
	eventually grep -qxF "$M/sessions/$id/state MODIFY" "$log"
	rmdir "$M/sessions/$id"
	eventually grep -qxF "$M/sessions/$id DELETE,ISDIR" "$log"
	equal "$(grep -c "/$id CREATE" "$log")" 1
	equal "$(grep -c "/$id DELETE,ISDIR" "$log")" 1
	# What comes first is first, and what goes last is last.
	like "$(grep "/$id" "$log" | head -n 1)" 'CREATE,ISDIR$'
	like "$(grep "/$id " "$log" | tail -n 1)" 'DELETE,ISDIR$'
	# Nothing failed on the way through a session that had just begun.
	equal "$(grep -v '^Setting up\|^Watches' "$BATS_TEST_TMPDIR/err")" ''
}

@test "sessions and their links come and go" {
	local id

	watch names "$M/sessions" "$M/executors/local/sessions"
	id=$(start "$(gate links)")
	eventually saw names "sessions/$id CREATE,ISDIR"
	eventually saw names "executors/local/sessions/$id CREATE"
	equal "$(readlink "$M/executors/local/sessions/$id")" "../../../sessions/$id"
	tell links end 0
	eventually saw names "executors/local/sessions/$id DELETE"
	fsop lstat "$M/executors/local/sessions/$id" | grep ENOENT
	rmdir "$M/sessions/$id"
	eventually saw names "sessions/$id DELETE,ISDIR"
	equal "$(seen names | sort | uniq -d)" ''
	equal "$(seen names | wc -l)" 4
}

@test "a start that is refused leaves its names without a word, or both of them" {
	local id

	watch names "$M/sessions" "$M/executors/local/sessions"
	known 2
	equal "$(fsop write "$M/executors/local/start" "$(spec /nonexistent/program)")" ENOENT
	id=$(start "$(spec /bin/true)")
	ended "$id"
	rmdir "$M/sessions/$id"
	eventually saw names "sessions/$id DELETE,ISDIR"
	equal "$(seen names | grep -c CREATE)" "$(seen names | grep -c DELETE)"
}

@test "output is announced where it shows" {
	local id

	id=$(start "$(gate output)")
	eventually is_state "$id" running
	watch out "$M/sessions/$id/stdout"
	watch err "$M/sessions/$id/stderr"
	watch log "$M/sessions/$id/log"
	watch tail "$M/sessions/$id/log.tail"
	watch follow "$M/.live/sessions/$id/follow"
	tell output out one
	eventually saw out "sessions/$id/stdout MODIFY"
	eventually saw log "sessions/$id/log MODIFY"
	eventually saw follow ".live/sessions/$id/follow MODIFY"
	equal "$(seen err)$(seen tail)" ''
	tell output err two
	eventually saw err "sessions/$id/stderr MODIFY"
	eventually saw log "sessions/$id/log MODIFY" 2
	equal "$(now "$id" log)" $'one\ntwo'
	tell output end 0
	ended "$id"
}

@test "output between the watch and its discovery is announced" {
	local id i

	for ((i = 0; i < 5; i++)); do
		id=$(start "$(gate "early$i")")
		eventually is_state "$id" running
		watch "early$i" "$M/sessions/$id/log"
		tell "early$i" out text
		eventually saw "early$i" "sessions/$id/log MODIFY"
		tell "early$i" end 0
	done
	# Also when it is the last, and the session has ended before anybody looks who watches.
	for ((i = 5; i < 10; i++)); do
		id=$(start "$(gate "early$i")")
		eventually is_state "$id" running
		watch "early$i" "$M/sessions/$id/log"
		watch "follow$i" "$M/.live/sessions/$id/follow"
		tell "early$i" out text
		tell "early$i" end 0
		ended "$id"
		eventually saw "early$i" "sessions/$id/log MODIFY"
		eventually saw "follow$i" ".live/sessions/$id/follow MODIFY"
	done
}

@test "what comes after the log has ended is announced as log.tail" {
	local id i

	mkdir "$M/executors/small"
	put "$M/executors/small/config" '{"kind":"localprocess","log_quota_bytes":4096}'
	id=$(start "$(gate tail)" small)
	eventually is_state "$id" running
	for ((i = 0; i < 100; i++)); do
		tell tail out "$(printf '%099d' $i)"
	done
	eventually has_tail "$id"
	watch tail "$M/sessions/$id/log.tail"
	watch log "$M/sessions/$id/log"
	known 2
	for ((i = 0; i < 3; i++)); do
		tell tail out more
		eventually saw tail "sessions/$id/log.tail MODIFY" "$((i + 1))"
	done
	equal "$(seen log)" ''
	tell tail end 0
	ended "$id"
	rmdir "$M/sessions/$id"
	rmdir "$M/executors/small"
}

has_tail() {
	[[ $(stat -c %s "$M/sessions/$1/log.tail") -gt 1000 ]]
}

@test "projects, their values and the links to their sessions" {
	local id

	watch projects "$M/projects"
	mkdir "$M/projects/app"
	eventually saw projects "projects/app CREATE,ISDIR"
	watch app "$M/projects/app" "$M/projects/app/sessions"
	watch path "$M/projects/app/path"
	known 4
	put "$M/projects/app/binding" local
	eventually saw app "projects/app/binding MODIFY"
	put "$M/projects/app/start" "$(gate project)"
	id=$(me jq -r .session "$M/projects/app/start")
	eventually saw app "projects/app/sessions/$id CREATE"
	equal "$(readlink "$M/projects/app/sessions/$id")" "../../../sessions/$id"
	tell project end 0
	ended "$id"
	# It stays, as the session does.
	equal "$(count app "projects/app/sessions/$id DELETE")" 0
	rmdir "$M/sessions/$id"
	eventually saw app "projects/app/sessions/$id DELETE"
	equal "$(count app "projects/app/sessions/$id CREATE") $(count app "projects/app/sessions/$id DELETE")" '1 1'
	equal "$(seen path)" ''
	rmdir "$M/projects/app"
	eventually saw projects "projects/app DELETE,ISDIR"
	equal "$(count projects "projects/app CREATE,ISDIR") $(count projects "projects/app DELETE,ISDIR")" '1 1'
}

@test "events and default_id are announced" {
	local size

	watch root "$M"
	watch events "$M/events"
	known 2
	size=$(stat -c %s "$M/events")
	mkdir "$M/executors/other"
	eventually saw events "events MODIFY"
	[[ $(stat -c %s "$M/events") -gt $size ]]
	put "$M/executors/other/config" '{"kind":"localprocess"}'
	put "$M/default_id" other
	rmdir "$M/executors/other"
	equal "$(cat "$M/default_id")" local
	eventually saw root "default_id MODIFY" 2
	eventually saw root "events MODIFY"
	# What is rendered anew each time does not change by itself.
	equal "$(seen root | grep -v '^events MODIFY$\|^default_id MODIFY$' || true)" ''
}

@test "what a user does himself is told once" {
	local before healths

	watch executors "$M/executors"
	mkdir "$M/executors/mine"
	put "$M/executors/mine/config" '{"kind":"localprocess"}'
	watch mine "$M/executors/mine"
	known 2
	put "$M/executors/mine/state" 'cordon why not'
	# The file that is announced after it: nothing of before is left.
	eventually saw mine "executors/mine/health MODIFY"
	before=$(count mine "executors/mine/state MODIFY")
	healths=$(count mine "executors/mine/health MODIFY")
	put "$M/executors/mine/state" uncordon
	eventually saw mine "executors/mine/health MODIFY" $((healths + 1))
	# By the truncation and by the write; the kernel may merge the two.
	[[ $(count mine "executors/mine/state MODIFY") -le $((before + 2)) ]]
	rmdir "$M/executors/mine"
	settled executors
	equal "$(count executors "executors/mine CREATE,ISDIR")" 1
	equal "$(count executors "executors/mine DELETE,ISDIR")" 1
}

@test "inflight and drained" {
	local id

	watch executor "$M/executors/local"
	watch drained "$M/.live/executors/local/drained"
	known 2
	id=$(start "$(gate drained)")
	eventually saw executor "executors/local/inflight MODIFY"
	tell drained end 0
	ended "$id"
	eventually saw executor "executors/local/inflight MODIFY" 2
	eventually saw drained ".live/executors/local/drained MODIFY"
}

@test "who watches a session that is forgotten is told" {
	local id

	id=$(start "$(spec true)")
	ended "$id"
	watch dir "$M/sessions/$id"
	rmdir "$M/sessions/$id"
	eventually saw dir "sessions/$id DELETE_SELF"
	id=$(start "$(spec true)")
	ended "$id"
	known 0
	watch file "$M/sessions/$id/state"
	known 1
	rmdir "$M/sessions/$id"
	eventually saw file "sessions/$id/state DELETE_SELF"
	known 0
	mkdir "$M/executors/short"
	watch links "$M/executors/short/sessions"
	known 1
	rmdir "$M/executors/short"
	eventually saw links "executors/short/sessions DELETE_SELF"
}

@test "nobody watches, nothing is announced" {
	local before id i

	before=$(announced)
	for ((i = 0; i < 20; i++)); do
		id=$(start "$(script 'echo out; echo err >&2')")
		ls -l "$M/sessions" "$M/sessions/$id" "$M/executors/local/sessions" > /dev/null
		ended "$id"
		cat "$M/sessions/$id/"{state,status,log,exit_code} "$M/events" > /dev/null
		rmdir "$M/sessions/$id"
	done
	# When the daemon knows of a watch, it knows that there was none before.
	watch version "$M/version"
	known 1
	equal "$(announced)" "$before"
}

@test "descriptors are closed when nobody watches any more" {
	local id nudger

	nudger=$(nudger_pid)
	id=$(start "$(gate kept)")
	eventually is_state "$id" running
	watch log "$M/sessions/$id"
	tell kept out text
	eventually saw log "sessions/$id/log MODIFY"
	eventually holds_files "$nudger"
	background_ends
	eventually holds_no_files "$nudger"
	tell kept end 0
	ended "$id"
}

holds_files() {
	find "/proc/$1/fd" -lname "$M/*" | grep -q .
}

holds_no_files() {
	! holds_files "$1"
}

@test "a user watches his own session, on a hub of root" {
	local id WHO

	need_root
	WHO=alice
	id=$(start "$(gate alice)")
	eventually is_state "$id" running
	watch alice "$M/sessions/$id" "$M/sessions"
	tell alice out text
	eventually saw alice "sessions/$id/log MODIFY"
	tell alice end 0
	eventually saw alice "sessions/$id/state MODIFY"
	me rmdir "$M/sessions/$id"
	eventually saw alice "sessions/$id DELETE,ISDIR"
}

@test "somebody who watches the file system as a whole is told" {
	local id

	need_root
	in_background all "$MARKS" "$M"
	known all
	id=$(start "$(gate all)")
	eventually grep -q "modified $M/sessions/$id/state" "$BATS_TEST_TMPDIR/all"
	tell all out text
	eventually grep -q "modified $M/sessions/$id/stdout" "$BATS_TEST_TMPDIR/all"
	tell all end 0
	ended "$id"
}

@test "nobody else can nudge" {
	local id before

	before=$(ls "$M/executors")
	id=$(start "$(spec true)")
	ended "$id"
	like "$(fallocate -n -l 1 "$M/default_id" 2>&1)" supported
	need_root
	like "$(as carol fallocate -n -l 1 "$M/default_id" 2>&1)" supported
	# Root with the nudger's group is not the nudger, and does nothing by mistake.
	as_group() {
		setpriv --regid 65533 --clear-groups "$FSOP" "$@"
	}
	equal "$(as_group mkdir "$M/executors/nudged")" EPERM
	equal "$(as_group rmdir "$M/sessions/$id")" EPERM
	equal "$(as_group rmdir "$M/executors/local")" EPERM
	equal "$(as_group symlink x "$M/executors/nudged")" EPERM
	equal "$(as_group unlink "$M/executors/local/state")" EPERM
	equal "$(as_group open-write "$M/sessions/$id/state")" EACCES
	equal "$(as_group write "$M/default_id" other)" EACCES
	equal "$(ls "$M/executors")" "$before"
	equal "$(now "$id" state)" exited
	equal "$(cat "$M/default_id")" local
}

@test "poll and epoll" {
	local id how

	for how in poll epoll epoll-edge; do
		id=$(start "$(gate "polled-$how")")
		for file in follow wait lines; do
			in_background "$file" "$POLLS" "$how" "$M/sessions/$id/$file"
			eventually grep -q waits "$BATS_TEST_TMPDIR/$file"
		done
		in_background drained "$POLLS" "$how" "$M/executors/local/drained"
		eventually grep -q waits "$BATS_TEST_TMPDIR/drained"
		tell "polled-$how" out one
		eventually grep -q 'read one' "$BATS_TEST_TMPDIR/follow"
		eventually grep -q 'read .*"one' "$BATS_TEST_TMPDIR/lines"
		equal "$(grep -c '^read ' "$BATS_TEST_TMPDIR/wait" || true)" 0
		tell "polled-$how" out two
		eventually grep -q 'read two' "$BATS_TEST_TMPDIR/follow"
		tell "polled-$how" end 7
		for file in follow wait lines drained; do
			eventually grep -q end "$BATS_TEST_TMPDIR/$file"
		done
		equal "$(grep '^read ' "$BATS_TEST_TMPDIR/wait")" 'read 7'
		equal "$(grep '^read ' "$BATS_TEST_TMPDIR/drained")" 'read 0'
		equal "$(grep '^read ' "$BATS_TEST_TMPDIR/follow")" $'read one\nread two'
	done
}

@test "a directory goes though files in it were open" {
	local id

	id=$(start "$(spec /bin/true)")
	ended "$id"
	watch dir "$M/sessions/$id"
	known 1
	/usr/bin/python3 -IS -c 'import os, sys
files = [os.open(sys.argv[1] + "/" + name, os.O_RDONLY) for name in ("state", "log", "spec")]
os.rmdir(sys.argv[1])
for fd in files:
    os.close(fd)' "$M/sessions/$id"
	eventually saw dir "sessions/$id DELETE_SELF"
	mkdir "$M/executors/opened"
	watch dir2 "$M/executors/opened"
	known 1
	/usr/bin/python3 -IS -c 'import os, sys
fd = os.open(sys.argv[1] + "/kind", os.O_RDONLY)
os.rmdir(sys.argv[1])
os.close(fd)' "$M/executors/opened"
	eventually saw dir2 "executors/opened DELETE_SELF"
}

@test "the hub ends without a trace" {
	hub_end
}
