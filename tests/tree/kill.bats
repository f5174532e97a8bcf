# kill -9 of the hub: nothing runs twice, nothing is lost, and whoever waits notices nothing.

load common

setup_file() {
	hub_begin
	mkdir "$D/work/ran"
}

# Each test has a keeper of its own, so that the deaths of different tests do not add up.
setup() {
	[[ $BATS_TEST_DESCRIPTION == 'the hub stops'* ]] || hub_restart
}

# writer FIRST STEP LAST: starts workloads, one after the other, and notes the answers.
writer() {
	local i

	for ((i = $1; i <= $3; i += $2)); do
		# The number is the name of the file it appends to, what it prints, and its exit code.
		if exec 7<> "$M/executors/local/start" &&
			printf '{"argv":["/bin/sh","-c","echo ran >> %s/%d; echo out-%d; echo err-%d >&2; exit %d"]}\n' \
				"$D/work/ran" "$i" "$i" "$i" $((i % 256)) >&7; then
			echo "$i $(jq -r .session <&7)" >> "$D/acknowledged.$1"
		else
			echo "$i" >> "$D/refused.$1"
		fi
		exec 7>&-
	done
}

has_lines() {
	(($(cat "$D"/acknowledged.* "$D"/refused.* 2> /dev/null | wc -l) >= $1))
}

@test "8 writers launch 200 workloads while the hub is killed four times" {
	local pids=() i id n=0

	for i in 1 2 3 4 5 6 7 8; do
		writer "$i" 8 200 3>&- &
		pids+=($!)
	done
	for i in 20 60 110 160; do
		eventually has_lines "$i"
		hub_kill
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	cat "$D"/acknowledged.* > "$BATS_TEST_TMPDIR/all"
	# No writer saw an error; every number was acknowledged, with an id of its own.
	equal "$(cat "$D"/refused.* 2> /dev/null)" ''
	equal "$(wc -l < "$BATS_TEST_TMPDIR/all")" 200
	equal "$(cut -d ' ' -f 2 "$BATS_TEST_TMPDIR/all" | sort -u | wc -l)" 200
	while read -r i id; do
		equal "$(ended "$id")" $((i % 256)) || fail "$i $id"
		equal "$(now "$id" stdout) $(now "$id" stderr)" "out-$i err-$i" || fail "$i $id"
		equal "$(now "$id" log | sort | xargs)" "err-$i out-$i" || fail "$i $id"
		equal "$(cat "$D/work/ran/$i")" ran || fail "$i $id"
		n=$((n + 1))
	done < "$BATS_TEST_TMPDIR/all"
	equal "$n" 200
	# No other session exists, and none was told of twice.
	equal "$(ls "$M/sessions" | wc -l)" 200
	equal "$(jq -r 'select(.type == "session.started") | .session' "$M/events" | sort | uniq -c |
		awk '{ print $1 }' | sort | uniq -c | xargs)" '200 1'
	equal "$(jq -r 'select(.type == "session.ended") | .session' "$M/events" | sort | uniq -c |
		awk '{ print $1 }' | sort | uniq -c | xargs)" '200 1'
	equal "$(cat "$M/executors/local/inflight")" 0
}

shows() {
	[[ $(cat "$1") == "$2" ]]
}

@test "readers and writers that wait go on as if nothing had happened" {
	local id tail follow stream waiter half answer half_id

	id=$(start "$(script "echo one; while [ ! -e $D/work/go ]; do sleep 0.05; done; echo two; exit 6")")
	tail -s 0.1 -f "$M/sessions/$id/log" > "$D/tail" 3>&- &
	tail=$!
	cat "$M/sessions/$id/follow" > "$D/follow" 3>&- &
	follow=$!
	cat "$M/sessions/$id/lines" > "$D/lines" 3>&- &
	stream=$!
	cat "$M/sessions/$id/wait" > "$D/wait" 3>&- &
	waiter=$!
	# Half a document, an acknowledged start whose answer nobody has read, a refusal likewise, a
	# reader in the middle of a file.
	exec 6<> "$M/executors/local/start" 7<> "$M/executors/local/start" 8<> "$M/executors/local/start"
	exec 9< "$M/sessions/$id/spec"
	printf '{"argv":["/bin/sh","-c","exit' >&6
	echo '{"argv":["/bin/sh","-c","exit 21"]}' >&7
	run ! bash -c 'echo "{}" >&8'
	IFS= read -r -N 10 half <&9
	eventually shows "$D/tail" one
	eventually shows "$D/follow" one
	hub_kill
	hub_kill
	equal "$half$(cat <&9)" "$(now "$id" spec)"
	printf ' 22"]}' >&6
	half_id=$(jq -r .session <&6)
	answer=$(jq -r .session <&7)
	equal "$(jq -r '.errno + " " + .field' <&8)" 'EINVAL argv'
	exec 6>&- 7>&- 8>&- 9<&-
	equal "$(ended "$half_id" "$answer" | xargs)" '22 21'
	equal "$(cat "$D/wait" "$D/tail" "$D/follow")" $'one\none'
	touch "$D/work/go"
	eventually shows "$D/tail" $'one\ntwo'
	hub_kill
	wait "$follow" "$waiter" "$stream"
	equal "$(cat "$D/follow")" $'one\ntwo'
	equal "$(jq -j .text "$D/lines")" $'one\ntwo'
	equal "$(cat "$D/wait")" 6
	kill "$tail"
	equal "$(jq -s 'map(.seq) == [1, 2]' "$D/lines")" true
}

@test "a signal is delivered once" {
	local id i

	id=$(start "$(spec /usr/bin/python3 -uIS -c '
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("up")
while True:
    signal.sigwait([signal.SIGTERM])
    print("asked")')")
	timeout 60 head -n 1 "$M/sessions/$id/follow"
	for i in $(seq 40); do
		((i % 10 != 5)) || hub_kill_soon
		echo terminate > "$M/sessions/$id/signal"
		eventually has_asked "$id" "$i"
	done
	sleep 0.2
	equal "$(now "$id" log | grep -c asked)" 40
	echo kill > "$M/sessions/$id/signal"
	equal "$(ended "$id")" 137
	wait_killer
}

has_asked() {
	(($(now "$1" log | grep -c asked) >= $2))
}

# Kills the hub from the background, while the test goes on.
hub_kill_soon() {
	hub_kill 3>&- &
	KILLER=$!
}

wait_killer() {
	wait "$KILLER"
}

@test "executors are made, changed and removed, each once" {
	local i

	for i in $(seq 40); do
		((i % 10 != 5)) || hub_kill_soon
		mkdir "$M/executors/e$i"
		echo '{"kind":"localprocess"}' > "$M/executors/e$i/config"
		echo "cordon because $i" > "$M/executors/e$i/state"
		echo uncordon > "$M/executors/e$i/state"
		equal "$(cat "$M/executors/e$i/state")" ready
		((i % 2)) || rmdir "$M/executors/e$i"
	done
	wait_killer
	equal "$(ls "$M/executors" | wc -l)" 21
	equal "$(jq -r 'select(.type == "executor.added") | .executor_id' "$M/events" | grep -c '^e')" 40
	equal "$(jq -r 'select(.type == "executor.removed") | .executor_id' "$M/events" | grep -c '^e')" 20
	equal "$(jq -r 'select(.type == "executor.state_change") | .executor_id' "$M/events" | grep -c '^e')" 80
	for i in $(seq 1 2 40); do
		rmdir "$M/executors/e$i"
	done
}

@test "sessions are forgotten once, and a refused start stays refused" {
	local i id

	for i in $(seq 40); do
		id=$(start "$(spec /bin/true)")
		ended "$id"
		((i % 10 != 5)) || hub_kill_soon
		rmdir "$M/sessions/$id"
		run ! start '{"argv":["/nonexistent"]}'
		like "$(jq -r .field "$M/error.json")" '^argv.0.$'
	done
	wait_killer
	equal "$(cat "$M/executors/local/inflight")" 0
	equal "$(jq -r 'select(.type == "session.removed") | .session' "$M/events" | sort | uniq -d)" ''
}

@test "a session that ends while no hub runs has its code, times and log" {
	local id pid

	id=$(start "$(script "while [ ! -e $D/work/end ]; do sleep 0.02; done; echo last words; exit 33")")
	pid=$(hub_pid)
	# Stopped first, so that the end happens while it does nothing.
	kill -STOP "$pid"
	touch "$D/work/end"
	sleep 0.3
	kill -9 "$pid"
	echo "$pid" >> "$D/killed"
	equal "$(ended "$id")" 33
	equal "$(now "$id" log)" 'last words'
	equal "$(status "$id" '.started_at < .finished_at')" true
}

@test "a killed launcher is another one; what runs goes on, and starts are taken again" {
	local id

	id=$(start "$(script "while [ ! -e $D/work/launched ]; do sleep 0.05; done; exit 12")")
	kill -9 "$(launcher_pid)"
	equal "$(ended "$(start "$(spec /bin/sh -c 'exit 13')")")" 13
	equal "$(now "$id" state)" running
	touch "$D/work/launched"
	equal "$(ended "$id")" 12
}

@test "the hub stops and leaves nothing" {
	hub_end
}
