# Finished sessions go when they are old, or too many; and nothing is started on a full disk.
# shellcheck shell=bash
# shellcheck disable=SC2154

load common

# The state directory is a small file system of its own where that can be.
hub_prepare() {
	mkdir "$D/home/state"
	chmod 700 "$D/home/state"
	((EUID != 0)) || mount -t tmpfs -o size=64m,mode=700 cloop-test "$D/home/state"
	echo '{"disk_floor_bytes":0}' > "$D/home/etc/hub.json"
}

teardown_file() {
	local state=$D/home/state

	hub_clean
	umount "$state" 2> /dev/null || true
	rm -rf "$D"
}

settings() {
	printf '%s\n' "$1" > "$D/home/etc/.new"
	mv "$D/home/etc/.new" "$D/home/etc/hub.json"
}

is_forgotten() {
	[[ ! -e $M/sessions/$1 ]]
}

listed() {
	me ls -U "$M/sessions" | xargs
}

folders() {
	find "$D/home/state/sessions" -mindepth 2 -maxdepth 2 | wc -l
}

folders_are() {
	[[ $(folders) == "$1" ]]
}

# named ID: a session of that name that has ended.
named() {
	start "$(script 'echo out' "{\"labels\":{\"cloop.session\":\"$1\"}}")" > /dev/null
	ended "$1" > /dev/null
}

@test "too many: the oldest go, with their folders, announced like those that somebody removes" {
	need inotifywait
	runs=$(start "$(spec sleep 1000)")
	for id in one two three four five six; do
		named "$id"
	done
	equal "$(folders)" 7
	inotifywait -q -m -e delete --format %f "$M/sessions" > "$BATS_TEST_TMPDIR/seen" 2> /dev/null 3>&- &
	watcher=$!
	exec 9< "$M/sessions/one/log"
	settings '{"disk_floor_bytes":0,"retention":{"count":2}}'
	for id in one two three four; do
		eventually is_forgotten "$id"
	done
	equal "$(listed)" "$runs five six"
	equal "$(now five log)" out
	equal "$(now "$runs" state)" running
	eventually folders_are 3
	equal "$(grep -c '"type":"session.removed".*"reason":"retention"' "$M/events")" 4
	equal "$(jq -r 'select(.type == "session.removed") | .session' "$M/events" | xargs)" 'one two three four'
	# Whoever has one open learns that it is gone.
	run ! cat <&9
	exec 9<&-
	eventually grep -q four "$BATS_TEST_TMPDIR/seen"
	kill "$watcher"
	# The name is free.
	named one
	equal "$(now one attempt)" 1
	put "$M/sessions/$runs/signal" kill
	ended "$runs"
}

@test "too old: it goes, also when its end came while the hub was away" {
	named past
	settings '{"disk_floor_bytes":0,"retention":{"age":"10s"}}'
	start "$(script 'sleep 1' '{"labels":{"cloop.session":"late"}}')" > /dev/null
	hub_kill
	eventually is_forgotten past
	eventually is_forgotten late
	eventually folders_are 0
}

@test "a backlog goes in batches, also when a hub dies in the middle" {
	settings '{"disk_floor_bytes":0}'
	for _ in $(seq 150); do
		start "$(spec true)" > /dev/null
	done
	eventually [ "$(grep -c '"type":"session.ended"' "$M/events")" -ge 150 ]
	settings '{"disk_floor_bytes":0,"retention":{"count":0}}'
	some_are_forgotten() {
		(($(me ls "$M/sessions" | wc -l) < 150))
	}
	eventually some_are_forgotten
	hub_kill
	all_are_forgotten() {
		[[ -z $(listed) ]]
	}
	eventually all_are_forgotten
	# Those of the hub that died are found, too.
	hub_restart
	eventually folders_are 0
	settings '{"disk_floor_bytes":0}'
}

start_is_refused() {
	! start "$(spec true)" 2> /dev/null
}

start_works() {
	start "$(spec true)" > /dev/null 2>&1
}

@test "below the disk floor nothing is started, and what runs goes on" {
	mkfifo "$D/work/gate"
	id=$(start "$(script 'echo one; read -r x < "$0"; echo two' | jq -c --arg f "$D/work/gate" '.argv += [$f]')")
	settings '{"disk_floor_bytes":1125899906842624}'
	eventually start_is_refused
	refused ENOSPC '' start "$(spec true)"
	like "$(jq -r .reason <<< "$refusal")" 'the state directory has [0-9]+ MiB free, less than the 1073741824 MiB'
	like "$(jq -r .remedy <<< "$refusal")" 'disk_floor_bytes'
	grep -q 'warning: the state directory has' "$M/status"
	hub_kill
	refused ENOSPC '' start "$(spec true)"
	echo go > "$D/work/gate"
	equal "$(ended "$id")" 0
	equal "$(now "$id" log | xargs)" 'one two'
	settings '{"disk_floor_bytes":0}'
	eventually start_works
}

@test "the disk fills and is emptied" {
	need_root
	settings '{"disk_floor_bytes":33554432}'
	sleep 1
	start_works
	head -c 40M /dev/zero > "$D/home/state/fill"
	eventually start_is_refused
	refused ENOSPC '' start "$(spec true)"
	# What an administrator does about it works.
	rmdir "$M/sessions/$(me ls "$M/sessions" | head -n 1)"
	rm "$D/home/state/fill"
	eventually start_works
}

@test "the hub stops, and nothing is left" {
	hub_end
}
