# What ends, or is lost, while no daemon runs at all: the next one finds out once, and harms nobody else.
# In a build in which a minute of a timeout is short.

load common

setup_file() {
	hub_begin
}

# dead PID: it has ended, and its parent knows.
dead() {
	! kill -0 "$1" 2> /dev/null
}

# told TYPE ID: how often events has it.
told() {
	jq -r --arg type "$1" --arg id "$2" 'select(.type == $type and .session == $id) | .type' "$M/events" |
		wc -l
}

@test "a timeout ends a workload when its time has come, whether a daemon runs or not" {
	local id pid back

	id=$(start "$(script "trap '' TERM INT; while :; do sleep 0.05; done" '{timeout_minutes: 1}')")
	pid=$(now "$id" pid)
	hub_stop
	eventually dead "$pid"
	back=$(date +%s%N)
	hub_start
	equal "$(ended "$id")" 137
	equal "$(status "$id" '[.state, .cause, .exit_code] | map(tostring) | join(" ")')" 'killed timeout -1'
	# It ended then, not when the daemon came back.
	(($(date -d "$(status "$id" .finished_at)" +%s%N) < back))
	equal "$(told session.ended "$id")" 1
}

@test "what was lost is told of once, however often the daemon starts" {
	local id shim pid i

	id=$(start "$(script 'exec sleep 1000')")
	pid=$(now "$id" pid)
	shim=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
	hub_stop
	kill -9 "$shim" "$pid"
	eventually dead "$pid"
	for i in 1 2 3; do
		hub_start
		equal "$(ended "$id")" 255
		equal "$(status "$id" '[.state, .cause] | join(" ")')" 'failed lost'
		hub_kill
		equal "$(told session.ended "$id")" 1
		equal "$(cat "$M/executors/local/inflight")" 0
		((i == 3)) || hub_stop
	done
}

# take_over PID: starts processes until one has this pid, which is $stranger then.
take_over() {
	local i

	for ((i = 0; i < 300; i++)); do
		echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid || return 1
		sleep 120 3>&- &
		stranger=$!
		((stranger != $1)) || return 0
		kill "$stranger"
		wait "$stranger" || true
	done
	return 1
}

@test "a stranger that got the pid of what was lost is not signalled" {
	local id shim pid stranger=''

	need_root
	[[ -w /proc/sys/kernel/ns_last_pid ]] || skip "pids cannot be chosen"
	id=$(start "$(script 'exec sleep 1000')")
	pid=$(now "$id" pid)
	shim=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
	hub_stop
	kill -9 "$shim" "$pid"
	eventually dead "$pid"
	take_over "$pid" || skip "another process was faster"
	hub_start
	equal "$(ended "$id")" 255
	equal "$(now "$id" state) $(status "$id" .cause)" 'failed lost'
	put "$M/sessions/$id/signal" kill
	rmdir "$M/sessions/$id"
	kill -0 "$stranger"
	kill "$stranger"
	wait "$stranger" || true
}

@test "the hub stops and leaves nothing" {
	hub_end
}

teardown_file() {
	hub_clean
}
