# Watching while the nudger or the hub is stopped or killed, and how much is announced at most.

load ../tree/common
load ../tree/watch

setup_file() {
	need python3
	hub_begin
}

setup() {
	FSOP=$TREE/fsop
	known 0
}

teardown() {
	kill -CONT "$(nudger_pid)" "$(keeper)" 2> /dev/null || true
	background_ends
}

nudger_is_other() {
	local pid

	pid=$(nudger_pid) && [[ $pid != "$1" ]]
}

nudger_kill() {
	local pid

	pid=$(nudger_pid)
	kill -9 "$pid"
	eventually nudger_is_other "$pid"
}

@test "a nudger that is stopped delays nobody, and catches up" {
	local id watched_id i ids=() stays=()

	watched_id=$(start "$(gate stopped)")
	eventually is_state "$watched_id" running
	watch names "$M/sessions" "$M/executors/local/sessions"
	watch state "$M/sessions/$watched_id/state"
	known 3
	kill -STOP "$(nudger_pid)"
	for ((i = 0; i < 20; i++)); do
		ids+=("$(start "$(spec /bin/true)")")
	done
	tell stopped end 0
	ended "$watched_id" "${ids[@]}"
	for ((i = 0; i < 20; i++)); do
		if ((i % 2)); then
			rmdir "$M/sessions/${ids[i]}"
		else
			stays+=("${ids[i]}")
		fi
	done
	equal "$(seen state)" ''
	kill -CONT "$(nudger_pid)"
	eventually saw state "sessions/$watched_id/state MODIFY"
	for id in "${stays[@]}"; do
		eventually saw names "sessions/$id CREATE,ISDIR"
	done
	# In the order in which they came, each once; and of what came and went meanwhile, not a word but
	# what the kernel itself says about an rmdir.
	equal "$(seen names | sed -n 's,^sessions/\(.*\) CREATE.ISDIR$,\1,p')" "$(printf '%s\n' "${stays[@]}")"
	equal "$(seen names | grep '^executors/')" "executors/local/sessions/$watched_id DELETE"
}

@test "a nudger that is killed is followed by another" {
	local id

	id=$(start "$(gate killed)")
	eventually is_state "$id" running
	watch log "$M/sessions/$id/log"
	watch names "$M/sessions"
	known 2
	tell killed out one
	eventually saw log "sessions/$id/log MODIFY"
	nudger_kill
	tell killed out two
	eventually saw log "sessions/$id/log MODIFY" 2
	tell killed end 0
	ended "$id"
	id=$(start "$(spec /bin/true)")
	eventually saw names "sessions/$id CREATE,ISDIR"
}

@test "watches outlive the hub" {
	local id

	id=$(start "$(gate outlive)")
	eventually is_state "$id" running
	watch dir "$M/sessions/$id"
	watch state "$M/sessions/$id/state"
	watch names "$M/sessions" "$M/executors/local/sessions"
	known 4
	hub_kill
	tell outlive out text
	eventually saw dir "sessions/$id/log MODIFY"
	tell outlive end 0
	eventually saw state "sessions/$id/state MODIFY"
	eventually saw names "executors/local/sessions/$id DELETE"
	hub_kill
	rmdir "$M/sessions/$id"
	eventually saw names "sessions/$id DELETE,ISDIR"
	eventually saw dir "sessions/$id DELETE_SELF"
	equal "$(count names "sessions/$id DELETE,ISDIR")" 1
}

@test "what happens while there is no hub is announced by the next" {
	local id hub

	id=$(start "$(gate meanwhile)")
	eventually is_state "$id" running
	watch state "$M/sessions/$id/state"
	watch out "$M/sessions/$id/stdout"
	known 2
	hub=$(hub_pid)
	# Its parent must not start another one yet.
	kill -STOP "$(keeper)"
	kill -9 "$hub"
	echo "$hub" >> "$D/killed"
	tell meanwhile out text
	tell meanwhile end 3
	eventually has_no_process meanwhile
	kill -CONT "$(keeper)"
	eventually hub_is_other "$hub"
	eventually saw state "sessions/$id/state MODIFY"
	eventually saw out "sessions/$id/stdout MODIFY"
	equal "$(now "$id" exit_code)" 3
}

# Whether the workload that has this gate open has ended.
has_no_process() {
	! find /proc/[0-9]*/fd -lname "$D/work/$1" 2> /dev/null | grep -q .
}

@test "sessions that come while hubs die are announced, and nothing else happens" {
	local id i ids=() executors

	executors=$(ls "$M/executors")
	watch names "$M/sessions"
	known 1
	for ((i = 0; i < 8; i++)); do
		ids+=("$(start "$(spec /bin/true)")")
		hub_kill
		ids+=("$(start "$(spec /bin/true)")")
		sleep "0.0$((i * 12 % 10))$((i % 10))"
		((i % 3)) || nudger_kill
	done
	for id in "${ids[@]}"; do
		eventually saw names "sessions/$id CREATE,ISDIR"
	done
	ended "${ids[@]}"
	equal "$(ls "$M/executors")" "$executors"
	for id in "${ids[@]}"; do
		equal "$(now "$id" attempt)" 1
		rmdir "$M/sessions/$id"
	done
}

# The numbers of the nudger's calls, as the kernel has them: fallocate, mkdirat, unlinkat, symlinkat,
# openat2.
is_in_a_call() {
	grep -qsE '^(285|258|263|266|437) ' "/proc/$1/task/"*/syscall
}

@test "a nudger that is killed in a call, and the hub with it" {
	local id hub nudger executors i ids=()

	[[ $(uname -m) == x86_64 ]] || skip "knows the system calls of one machine only"
	executors=$(ls "$M/executors")
	watch names "$M/sessions" "$M/executors/local/sessions"
	known 2
	for ((i = 0; i < 4; i++)); do
		hub=$(hub_pid) nudger=$(nudger_pid)
		# It finds its orders when it goes on, and the hub does not answer it then.
		kill -STOP "$nudger"
		ids+=("$(start "$(spec /bin/true)")")
		cat "$M/status" > /dev/null
		kill -STOP "$hub"
		kill -CONT "$nudger"
		eventually is_in_a_call "$nudger"
		if ((i % 2)); then
			# A little further.
			kill -CONT "$hub"
			kill -STOP "$hub"
		fi
		# It cannot die before it is answered, and nobody takes its request for another's.
		kill -9 "$nudger"
		kill -9 "$hub"
		echo "$hub" >> "$D/killed"
		eventually hub_is_other "$hub"
		eventually nudger_is_other "$nudger"
	done
	for id in "${ids[@]}"; do
		eventually saw names "sessions/$id CREATE,ISDIR"
	done
	ended "${ids[@]}" > /dev/null
	equal "$(ls "$M/executors")" "$executors"
	rmdir "${ids[@]/#/$M/sessions/}"
	equal "$(ls "$M/sessions" | grep -cxF -f <(printf '%s\n' "${ids[@]}") || true)" 0
}

@test "polls go on with the next hub" {
	local id file

	id=$(start "$(gate polled)")
	for file in follow wait; do
		in_background "$file" "$POLLS" epoll "$M/sessions/$id/$file"
		eventually grep -q '^waits' "$BATS_TEST_TMPDIR/$file"
	done
	in_background drained "$POLLS" epoll-edge "$M/executors/local/drained"
	eventually grep -q '^waits' "$BATS_TEST_TMPDIR/drained"
	hub_kill
	tell polled out one
	eventually grep -q '^read one' "$BATS_TEST_TMPDIR/follow"
	hub_kill
	tell polled out two
	eventually grep -q '^read two' "$BATS_TEST_TMPDIR/follow"
	hub_kill
	tell polled end 5
	for file in follow wait drained; do
		eventually grep -q '^end' "$BATS_TEST_TMPDIR/$file"
	done
	equal "$(grep '^read ' "$BATS_TEST_TMPDIR/follow")" $'read one\nread two'
	equal "$(grep '^read ' "$BATS_TEST_TMPDIR/wait")" 'read 5'
}

# chatter: a script that prints a line every few milliseconds until it is killed.
chatter() {
	spec /usr/bin/python3 -IS -u -c 'import time
while True:
    print("x")
    time.sleep(0.03)'
}

# The milliseconds between a watcher's first and last event.
span() {
	awk '/^[0-9]/ { if (!first) first = $1; last = $1 } END { print last - first }' "$BATS_TEST_TMPDIR/$1"
}

span_reaches() {
	[[ $(span "$1") -ge $2 ]]
}

@test "no file is announced more than ten times a second, all together no more than 500 times" {
	local i id ids=() events ms

	for ((i = 0; i < 40; i++)); do
		ids+=("$(start "$(chatter)")")
	done
	for id in "${ids[@]}"; do
		eventually is_state "$id" running
	done
	watch one "$M/sessions/${ids[0]}/log"
	watch all "${ids[@]/#/$M/sessions/}"
	eventually span_reaches one 4000
	eventually span_reaches all 4000
	for id in "${ids[@]}"; do
		put "$M/sessions/$id/signal" kill
	done
	ms=$(span one)
	events=$(count one "sessions/${ids[0]}/log MODIFY")
	echo "one file: $events in $ms ms" >&2
	((events <= ms / 100 + 2))
	ms=$(span all)
	events=$(seen all | grep -c MODIFY)
	echo "all files: $events in $ms ms" >&2
	((events <= ms / 2 + 50))
	# Everything was announced in the end.
	for id in "${ids[@]}"; do
		eventually saw all "sessions/$id/state MODIFY"
		rmdir "$M/sessions/$id"
	done
}

@test "the hub ends without a trace" {
	hub_end
}
