# Executors that become unreachable: their sessions go on elsewhere, each once, whatever dies meanwhile.

load common

# Where a hub can die on a session's way from one executor to another.
STEPS='failover.before_claim failover.claimed failover.fencing failover.fenced failover.fence_recorded
	failover.before_place failover.placed failover.launched'

# A node is given up within half a second, whatever else the machine does.
hub_prepare() {
	echo '{"supervisor":{"interval":"200ms","probe_timeout":"20s","backoff_base":"100ms",
		"backoff_max":"200ms","jitter_fraction":0,"max_concurrent_probes":8,"degrade_after":1,
		"unreachable_after":3}}' > "$D/home/etc/hub.json"
}

setup_file() {
	local i point

	export CLOOP_FAULT=
	for point in $STEPS; do
		CLOOP_FAULT+=${CLOOP_FAULT:+,}$point:kill:$BATS_FILE_TMPDIR/$point
	done
	hub_begin
	mkdir "$D/work/ran"
	chmod 1777 "$D/work/ran"
	for i in 0 1 2 3 4 5 6 7 8 9; do
		mkdir "$M/executors/node$i"
		jq -nc --arg sick "$D/work/node$i.sick" '{kind: "localprocess", health_check: {argv: ["/bin/sh",
			"-c", "[ ! -e $0 ] || { echo its disk is gone; exit 1; }", $sick]}}' \
			> "$M/executors/node$i/config"
	done
	# Ten nodes, and no other.
	echo cordon > "$M/executors/local/state"
}

# Each test has a keeper of its own, so that the deaths of different tests do not add up.
setup() {
	rm -f "$D"/work/node*.sick "$BATS_FILE_TMPDIR"/failover.*
	[[ $BATS_TEST_DESCRIPTION != 'the hub stops'* ]] || return 0
	hub_restart
	eventually all_are_ready
}

all_are_ready() {
	[[ $(cat "$M"/executors/node*/state | sort -u) == ready ]]
}

sicken() {
	touch "$D/work/$1.sick"
}

heal() {
	rm "$D/work/$1.sick"
	eventually has_node_state "$1" ready
}

has_node_state() {
	[[ $(cat "$M/executors/$1/state") == "$2" ]]
}

# counting NAME SECONDS CODE: a workload that says on disk when it begins and when it ends.
counting() {
	jq -nc --arg file "$D/work/ran/$1" --arg name "$1" --arg s "$2" --arg code "$3" \
		'{argv: ["/bin/sh", "-c", "echo began >> $0; echo out $1; sleep $2; echo ended >> $0; exit $3",
		$file, $name, $s, $code], labels: {"cloop.session": $name}}'
}

# gated NAME CODE: the same, until open_gate NAME.
gated() {
	jq -nc --arg file "$D/work/ran/$1" --arg name "$1" --arg code "$2" \
		'{argv: ["/bin/sh", "-c", "echo began >> $0; echo out $1; until [ -e $0.go ]; do sleep 0.1; done;
		echo ended >> $0; exit $2", $file, $name, $code], labels: {"cloop.session": $name}}'
}

open_gate() {
	touch "$D/work/ran/$1.go"
}

# has_begun NAME TIMES
has_begun() {
	(($(grep -c began "$D/work/ran/$1") >= $2))
}

attempts_of() {
	ls "$M/sessions/$1/attempts" | wc -l
}

has_attempts() {
	(($(attempts_of "$1") >= $2))
}

says_error() {
	[[ $(now "$1" error) == *"$2"* ]]
}

# events TYPE SESSION: how many there are.
events() {
	jq -c --arg type "$1" --arg session "$2" \
		'select(.type == $type and .session == $session)' "$M/events" | wc -l
}

# begun_once_an_attempt SESSION: on disk, and in the events.
begun_once_an_attempt() {
	equal "$(grep -c began "$D/work/ran/$1")" "$(events session.started "$1")"
}

# --- load ----------------------------------------------------------------------------------------

# writer FIRST STEP LAST: starts workloads on the nodes in turn; on another one when one is refused.
writer() {
	local i try node

	for ((i = $1; i <= $3; i += $2)); do
		for try in 0 1 2 3; do
			node=node$(((i + try * 3) % 10))
			if start "$(counting "load$i" 15 $((i % 256)))" "$node" > /dev/null 2>&1; then
				echo "load$i" >> "$D/acknowledged.$1"
				break
			fi
		done
	done
}

acknowledged() {
	(($(cat "$D"/acknowledged.* 2> /dev/null | wc -l) >= $1))
}

@test "one of ten nodes is lost under 200 sessions: each goes on elsewhere once, and none is lost" {
	local pids=() i id moved=0 started claimed went attempts began

	for i in 1 2 3 4 5 6 7 8; do
		writer "$i" 8 200 3>&- &
		pids+=($!)
	done
	eventually acknowledged 60
	sicken node3
	for i in "${pids[@]}"; do
		wait "$i"
	done
	equal "$(cat "$D"/acknowledged.* | sort -u | wc -l)" 200
	for i in $(seq 200); do
		timeout "$PATIENCE_S" cat "$M/sessions/load$i/wait" > "$BATS_TEST_TMPDIR/code.$i"
	done
	# One look at the events for all: "session started claimed failover".
	jq -rs 'map(select(.session != null)) | group_by(.session) | .[] |
		[.[0].session] + [("session.started", "session.claimed", "session.failover") as $t |
		map(select(.type == $t)) | length] | join(" ")' "$M/events" > "$BATS_TEST_TMPDIR/told"
	for i in $(seq 200); do
		id=load$i
		read -r _ started claimed went < <(grep "^$id " "$BATS_TEST_TMPDIR/told")
		attempts=$(<"$M/sessions/$id/attempt")
		equal "$(<"$BATS_TEST_TMPDIR/code.$i")" $((i % 256)) || fail "$id"
		# One that was given up at its start may have been killed before its first word.
		began=$(grep -c began "$D/work/ran/$id")
		((began == started || (attempts > 1 && began == started - 1))) || fail "$id: $began $started"
		equal "$(grep -c ended "$D/work/ran/$id")" 1 || fail "$id"
		equal "$claimed $went" "$((attempts - 1)) $((attempts - 1))" || fail "$id"
		if ((attempts > 1)); then
			moved=$((moved + 1))
			equal "$(<"$M/sessions/$id/attempts/1/executor")" node3 || fail "$id"
			like "$(<"$M/sessions/$id/attempts/1/status")" '"cause":"signal"' || fail "$id"
			[[ $(readlink "$M/sessions/$id/executor") != */node3 ]] || fail "$id"
		fi
	done
	((moved > 0)) || fail 'none was moved'
	equal "$(cat "$M"/executors/*/inflight | sort -u)" 0
	heal node3
}

# --- one session ---------------------------------------------------------------------------------

@test "an attempt keeps its executor, its end and its part of the log" {
	start "$(gated kept 5)" node1 > /dev/null
	eventually grep -q began "$D/work/ran/kept"
	equal "$(readlink "$M/sessions/kept/executor")" ../../executors/node1
	sicken node1
	eventually has_begun kept 2
	open_gate kept
	equal "$(ended kept)" 5
	equal "$(ls "$M/sessions/kept/attempts" | xargs)" '1 2'
	equal "$(now kept attempts/1/executor)" node1
	like "$(now kept attempts/2/executor)" '^node[02-9]$'
	equal "$(readlink "$M/sessions/kept/executor")" "../../executors/$(now kept attempts/2/executor)"
	equal "$(now kept attempt) $(status kept .handle_id)" '2 kept.2'
	equal "$(jq -c '[.handle_id, .executor_id, .state, .cause, .signal, .exit_code, has("moved_at")]' \
		"$M/sessions/kept/attempts/1/status")" '["kept.1","node1","killed","signal",9,-1,true]'
	equal "$(jq -c '[.handle_id, .state, .exit_code, .log_bytes, has("moved_at")]' \
		"$M/sessions/kept/attempts/2/status")" '["kept.2","exited",5,9,false]'
	equal "$(now kept attempts/1/log)" 'out kept'
	equal "$(now kept attempts/2/log)" $'[cloop] attempt 2\nout kept'
	equal "$(now kept log)" $'out kept\n[cloop] attempt 2\nout kept'
	equal "$(now kept stdout)" $'out kept\nout kept'
	equal "$(stat -c %s "$M/sessions/kept/attempts/2/log")" 27
	# The lines count on over the attempts.
	equal "$(jq -c '[.seq, .handle_id, .stream]' "$M/sessions/kept/lines" | xargs)" \
		'[1,kept.1,stdout] [2,kept.2,combined] [3,kept.2,stdout]'
	equal "$(status kept .log_bytes)" 18
	begun_once_an_attempt kept
	rmdir "$M/sessions/kept"
	[[ ! -e $M/sessions/kept/attempts ]]
}

@test "who waits for a session's output and end notices no more than a marker line" {
	start "$(gated watched 4)" node2 > /dev/null
	cat "$M/sessions/watched/follow" > "$D/follow" 3>&- &
	local follow=$!
	cat "$M/sessions/watched/wait" > "$D/wait" 3>&- &
	local waiter=$!
	eventually grep -q began "$D/work/ran/watched"
	sicken node2
	eventually has_begun watched 2
	open_gate watched
	wait "$follow" "$waiter"
	equal "$(cat "$D/wait")" 4
	equal "$(cat "$D/follow")" $'out watched\n[cloop] attempt 2\nout watched'
}

@test "cordoned and draining nodes keep what runs there" {
	local id

	start "$(counting cordoned 3 0)" node4 > /dev/null
	start "$(counting draining 3 0)" node5 > /dev/null
	echo cordon > "$M/executors/node4/state"
	echo drain > "$M/executors/node5/state"
	sicken node4
	sicken node5
	for id in cordoned draining; do
		equal "$(ended "$id") $(attempts_of "$id")" '0 1'
	done
	echo uncordon > "$M/executors/node4/state"
	echo uncordon > "$M/executors/node5/state"
}

@test "a drain waits for a session that does not end; failover does not help it" {
	start "$(script 'trap "" TERM INT; while :; do sleep 1; done' '{labels: {"cloop.session": "stuck"}}')" \
		node6 > /dev/null
	echo drain > "$M/executors/node6/state"
	sicken node6
	run -124 timeout 3 cat "$M/executors/node6/drained"
	equal "$(cat "$M/executors/node6/inflight") $(ls "$M/executors/node6/sessions")" '1 stuck'
	put "$M/sessions/stuck/signal" kill
	equal "$(timeout "$PATIENCE_S" cat "$M/executors/node6/drained")" 0
	echo uncordon > "$M/executors/node6/state"
}

@test "a node that comes back while its session is moved does not run it as well" {
	local i

	start "$(gated flapping 0)" node7 > /dev/null
	eventually grep -q began "$D/work/ran/flapping"
	for i in 1 2 3; do
		sicken node7
		sleep 0.4
		rm "$D/work/node7.sick"
		sleep 0.4
	done
	sicken node7
	eventually has_attempts flapping 2
	heal node7
	eventually has_begun flapping 2
	open_gate flapping
	equal "$(ended flapping)" 0
	equal "$(grep -c ended "$D/work/ran/flapping")" 1
	begun_once_an_attempt flapping
}

# sicken_all_for NODE: the others first, or a session would go from one to the next and be quarantined.
sicken_all_for() {
	local i

	for i in 0 1 2 3 4 5 6 7 8 9; do
		[[ node$i == "$1" ]] || sicken "node$i"
	done
	eventually only_ready_is "$1"
	sicken "$1"
}

only_ready_is() {
	local i

	for i in 0 1 2 3 4 5 6 7 8 9; do
		[[ node$i == "$1" ]] || has_node_state "node$i" unreachable || return
	done
}

@test "without a fit node a session waits, and goes on when there is one" {
	start "$(counting waiting 20 7)" node0 > /dev/null
	eventually grep -q began "$D/work/ran/waiting"
	sicken_all_for node0
	eventually says_error waiting 'waits for an executor'
	equal "$(now waiting state) $(now waiting attempt) $(now waiting attempts/2/executor)" 'pending 2 '
	[[ ! -e $M/sessions/waiting/executor && ! -L $M/sessions/waiting/executor ]]
	[[ ! -e $M/executors/node0/sessions/waiting ]]
	refused EBUSY '' rmdir "$M/sessions/waiting"
	hub_kill
	equal "$(now waiting state)" pending
	rm "$D/work/node8.sick"
	equal "$(ended waiting) $(now waiting attempts/2/executor) $(now waiting error)" '7 node8 '
	begun_once_an_attempt waiting
}

@test "one that waits for a node can be ended" {
	start "$(counting unwanted 60 7)" node0 > /dev/null
	sicken_all_for node0
	eventually says_error unwanted 'waits for an executor'
	put "$M/sessions/unwanted/signal" terminate
	equal "$(ended unwanted) $(now unwanted state)" '143 killed'
	rmdir "$M/sessions/unwanted"
}

@test "a session under which two nodes are lost waits for an operator" {
	local node

	start "$(gated killer 0)" node1 > /dev/null
	refused EINVAL '' put "$M/sessions/killer/signal" retry
	sicken node1
	eventually has_attempts killer 2
	eventually is_state killer running
	eventually has_begun killer 2
	node=$(now killer attempts/2/executor)
	sicken "$node"
	eventually says_error killer "quarantined: 2 executors (node1, $node)"
	equal "$(now killer state)" pending
	hub_kill
	heal node1
	sleep 1.5
	equal "$(now killer state)" pending
	put "$M/sessions/killer/signal" retry
	eventually has_begun killer 3
	open_gate killer
	equal "$(ended killer) $(attempts_of killer)" '0 3'
	begun_once_an_attempt killer
	equal "$(events session.quarantined killer) $(events session.released killer)" '1 1'
}

# --- a hub that dies on the way ------------------------------------------------------------------

dies_at() {
	local id=dies-${1#failover.} before

	id=${id//_/-}
	start "$(gated "$id" 9)" node5 > /dev/null
	eventually grep -q began "$D/work/ran/$id"
	before=$(hub_pid)
	echo 1 > "$BATS_FILE_TMPDIR/$1"
	sicken node5
	eventually hub_is_other "$before"
	echo "$before" >> "$D/killed"
	eventually has_begun "$id" 2
	open_gate "$id"
	equal "$(ended "$id")" 9
	equal "$(attempts_of "$id")" 2
	equal "$(now "$id" attempts/1/executor)" node5
	equal "$(jq -r .state "$M/sessions/$id/attempts/1/status")" killed
	equal "$(grep -c ended "$D/work/ran/$id")" 1
	equal "$(grep -c began "$D/work/ran/$id")" 2
	begun_once_an_attempt "$id"
	equal "$(for e in claimed fenced failover ended; do events "session.$e" "$id"; done | xargs)" '1 1 1 1'
	equal "$(now "$id" log)" "$(printf 'out %s\n[cloop] attempt 2\nout %s' "$id" "$id")"
}

@test "a hub that dies before the claim" { dies_at failover.before_claim; }
@test "a hub that dies after the claim" { dies_at failover.claimed; }
@test "a hub that dies when the earlier attempt was killed" { dies_at failover.fencing; }
@test "a hub that dies when the earlier attempt has ended" { dies_at failover.fenced; }
@test "a hub that dies when its end is recorded" { dies_at failover.fence_recorded; }
@test "a hub that dies before the new place is written" { dies_at failover.before_place; }
@test "a hub that dies after the new place is written" { dies_at failover.placed; }
@test "a hub that dies when the next attempt was launched" { dies_at failover.launched; }

@test "the hub stops and leaves nothing" {
	hub_end
}

teardown_file() {
	hub_clean
}
