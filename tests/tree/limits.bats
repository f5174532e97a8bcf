# Resource limits, where the daemon has control groups to enforce them.

load common

setup_file() {
	hub_begin
}

# can: whether the launcher found the groups for all limits.
can() {
	[[ $(jq .supports_resource_limits "$M/executors/local/capabilities") == true ]] ||
		skip "no control groups for limits here"
}

limited() {
	script "$1" "{resource_limits: $2}"
}

@test "capabilities and refusals say the same" {
	if [[ $(jq .supports_resource_limits "$M/executors/local/capabilities") == true ]]; then
		equal "$(ended "$(start "$(limited 'exit 3' '{pids: 20, memory_mb: 64, cpu_millis: 500}')")")" 3
	else
		refused EOPNOTSUPP resource_limits.memory_mb put "$M/executors/local/start" \
			"$(limited 'exit 3' '{memory_mb: 64}')"
	fi
	refused EOPNOTSUPP resource_limits.disk_mb put "$M/executors/local/start" "$(limited 'exit 3' '{disk_mb: 1}')"
	# No limit at all is no question of groups.
	equal "$(ended "$(start "$(limited 'exit 4' '{}')")")" 4
	equal "$(ended "$(start "$(limited 'exit 4' '{pids: 0, memory_mb: 0}')")")" 4
}

@test "the next hub knows what the launcher can do before it says so again" {
	local before launcher

	before=$(cat "$M/executors/local/capabilities")
	launcher=$(launcher_pid)
	kill -STOP "$launcher"
	hub_kill
	equal "$(cat "$M/executors/local/capabilities")" "$before"
	refused EOPNOTSUPP resource_limits.disk_mb put "$M/executors/local/start" "$(limited 'exit 3' '{disk_mb: 1}')"
	kill -CONT "$launcher"
	equal "$(ended "$(start "$(spec /bin/sh -c 'exit 5')")")" 5
}

@test "too much memory ends the workload: 137, cause oom" {
	local id

	can
	id=$(start "$(spec /usr/bin/python3 -IS -c '
print("up", flush=True)
parts = []
while True: parts.append(bytearray(1 << 20))' | jq -c '.resource_limits = {memory_mb: 64}')")
	equal "$(ended "$id")" 137
	equal "$(status "$id" '[.state, .cause, .exit_code] | map(tostring) | join(" ")')" 'killed oom -1'
	like "$(now "$id" error)" 'memory'
	equal "$(now "$id" log)" up
}

@test "a child that takes too much memory is told apart from an exit" {
	local id

	can
	id=$(start "$(limited '/usr/bin/python3 -IS -c "
parts = []
while True: parts.append(bytearray(1 << 20))"; exit 5' '{memory_mb: 64}')")
	# Whichever was killed: the session does not end as if nothing had happened.
	ended "$id"
	like "$(status "$id" .cause)" '^(oom|exit)$'
	[[ $(status "$id" .cause) == oom || $(status "$id" .exit_code) == 5 ]]
}

@test "as much memory as was asked for is there" {
	can
	equal "$(ended "$(start "$(spec /usr/bin/python3 -IS -c 'x = bytearray(100 << 20); print(len(x))' |
		jq -c '.resource_limits = {memory_mb: 256}')")")" 0
}

@test "no more processes than asked for" {
	local id

	can
	id=$(start "$(limited 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; exit 0' '{pids: 6}')")
	[[ $(ended "$id") != 0 ]]
	like "$(now "$id" stderr)" '[Ff]ork'
}

@test "no more of a processor than asked for" {
	local id used

	can
	id=$(start "$(limited 'end=$(($(date +%s) + 2)); while [ "$(date +%s)" -lt "$end" ]; do :; done; times' \
		'{cpu_millis: 200}')")
	equal "$(ended "$id")" 0
	# Two seconds at a fifth of a processor, with much room for rounding.
	used=$(now "$id" stdout | awk -F '[ms ]+' '{ n += $1 * 60 + $2 + $3 * 60 + $4 } END { print int(n * 1000) }')
	((used < 1200)) || fail "$used ms"
}

@test "the groups of a session go with it" {
	local instance before

	can
	need_root
	instance=$(stat -c '%D-' "$D/home/run")$(printf '%x' "$(stat -c %i "$D/home/run")")
	before=$(find /sys/fs/cgroup -maxdepth 5 -type d -path "*/cloop/$instance/*" | wc -l)
	ended "$(start "$(limited 'exit 0' '{pids: 20, memory_mb: 64, cpu_millis: 500}')")"
	eventually has_groups "$instance" "$before"
}

has_groups() {
	[[ $(find /sys/fs/cgroup -maxdepth 5 -type d -path "*/cloop/$1/*" | wc -l) == "$2" ]]
}

@test "limits hold for other users' workloads, who cannot lift them" {
	local id

	can
	need_root
	id=$(WHO=alice start "$(limited 'for f in /sys/fs/cgroup/*/cloop/*/*/pids.max /sys/fs/cgroup/cloop/*/*/pids.max; do
		echo max > "$f"; done 2> /dev/null
		for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; exit 0' '{pids: 6}')")
	[[ $(ended "$id") != 0 ]]
}

@test "the hub stops and leaves nothing" {
	hub_end
}
