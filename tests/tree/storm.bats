# Random system calls on everything, by several users at once, with the hub killed in between: the
# daemon lives, answers nothing strange, and works as before.

load common

setup_file() {
	hub_begin
}

storm() {
	timeout -k 5 100 "$HERE/storm" "$M" "$1" "$2"
}

@test "random calls of five processes do not harm the daemon" {
	local pids=() pid who

	pid=$(hub_pid)
	for i in 1 2 3; do
		storm "$i" 8 > "$BATS_TEST_TMPDIR/storm.$i" 2>&1 3>&- &
		pids+=($!)
	done
	if ((EUID == 0)); then
		for who in alice mallory; do
			as "$who" timeout -k 5 100 "$HERE/storm" "$M" 4 8 > "$BATS_TEST_TMPDIR/storm.$who" 2>&1 3>&- &
			pids+=($!)
		done
	fi
	for i in "${pids[@]}"; do
		wait "$i" || fail "$(cat "$BATS_TEST_TMPDIR"/storm.*)"
	done
	equal "$(hub_pid)" "$pid"
}

@test "nor do they while the hub is killed" {
	local pids=() i

	for i in 5 6 7; do
		storm "$i" 6 > "$BATS_TEST_TMPDIR/storm.$i" 2>&1 3>&- &
		pids+=($!)
	done
	for i in 1 2 3; do
		sleep 1
		hub_kill
	done
	for i in "${pids[@]}"; do
		wait "$i" || fail "$(cat "$BATS_TEST_TMPDIR"/storm.*)"
	done
}

is_quiet() {
	grep -qx '0 sessions in flight' "$M/status"
}

@test "afterwards all is as before" {
	local id executor

	sessions_end
	eventually is_quiet
	for id in "$M/sessions"/*; do
		[[ ! -d $id ]] || rmdir "$id"
	done
	for executor in "$M/executors"/*; do
		[[ -d $executor ]] || continue
		equal "$(cat "$executor/inflight")" 0
		rmdir "$executor"
	done
	equal "$(ls "$M/sessions" "$M/executors" | grep -v :$ | xargs)" ''
	mkdir "$M/executors/local"
	echo '{"kind":"localprocess"}' > "$M/executors/local/config"
	equal "$(ended "$(start "$(spec /bin/sh -c 'exit 5')")")" 5
}

@test "the hub stops and leaves nothing" {
	hub_end
}
