# Hub, shim, monitor and client of a container are killed, at each step: no container is left, none
# is started twice, and the session says what became of it.

load common
load container

# The points at which a shim dies; each has a file that counts.
POINTS=(shim.claimed shim.cloned shim.client_running shim.running shim.ending shim.before_exit
	shim.remove workload.exec)

setup_file() {
	local point

	export CLOOP_FAULT=''
	for point in "${POINTS[@]}"; do
		CLOOP_FAULT+="${CLOOP_FAULT:+,}$point:kill:$BATS_FILE_TMPDIR/$point"
		echo 0 > "$BATS_FILE_TMPDIR/$point"
	done
	box_begin
}

setup() {
	need_podman
}

# Each run leaves a line.
ran() {
	script "echo ran >> /workspace/ran; ${1:-true}" "{\"work_dir\":\"$D/work/w\"}"
}

fresh() {
	rm -rf "$D/work/w"
	mkdir "$D/work/w"
	chown "${UID_OF[alice]}" "$D/work/w"
}

ran_at_most_once() {
	(($(cat "$D/work/w/ran" 2> /dev/null | wc -l) <= 1)) || fail "ran twice"
}

# dies_at POINT: the shim of the next session does, once.
dies_at() {
	local point=$1 id
	fresh
	echo 1 > "$BATS_FILE_TMPDIR/$point"
	id=$(box "$(ran 'exit 4')") || true
	if [[ -n $id ]]; then
		ended "$id"
		like "$(status "$id" .state)" 'failed|exited' || return
	fi
	equal "$(tr -d ' \n' < "$BATS_FILE_TMPDIR/$point" | sed 's/.*\(.\)$/\1/')" 0 ||
		fail "$point was not passed" || return
	eventually no_container_is_left || fail "$point: $(box_podman ps -a)" || return
	ran_at_most_once || return
	# The next one is as good as ever.
	id=$(box '{"argv":["true"]}')
	equal "$(ended "$id")" 0
}

@test "a shim that dies before its client runs" {
	dies_at shim.claimed
	dies_at shim.cloned
}

@test "a shim that dies while its client makes the container" {
	dies_at shim.client_running
}

@test "a shim that dies while its container runs, or ends" {
	dies_at shim.running
	dies_at shim.ending
	dies_at shim.before_exit
}

@test "a client that dies before it is executed" {
	dies_at workload.exec
}

@test "a monitor that is killed: the container goes with it" {
	fresh
	id=$(box "$(ran 'sleep 9876543')")
	shim=$(shim_of)
	eventually test -s "$D/work/w/ran"
	kill -9 "$(children "$shim" | tr -d ' ')"
	ended "$id"
	equal "$(status "$id" .state)" killed
	eventually no_container_is_left
	! pgrep -f 'sleep 9876543$'
}

@test "a monitor that is killed, and then the shim that removes the container" {
	fresh
	id=$(box "$(ran 'sleep 9876543')")
	shim=$(shim_of)
	echo 1 > "$BATS_FILE_TMPDIR/shim.remove"
	kill -9 "$(children "$shim" | tr -d ' ')"
	ended "$id"
	equal "$(status "$id" .state)" failed
	eventually no_container_is_left
}

@test "a client that is killed: the start fails, and nothing is left" {
	fresh
	(
		until [[ -e $BATS_TEST_TMPDIR/over ]]; do
			client=$(children "$(shim_of)" | awk '{print $1}')
			if [[ -n $client ]] && grep -q podman "/proc/$client/cmdline"; then
				kill -9 "$client"
				break
			fi
			sleep 0.01
		done
	) 2> /dev/null 3>&- &
	killer=$!
	# It may have been too late.
	if id=$(box "$(ran 'sleep 2')" 2> "$BATS_TEST_TMPDIR/said"); then
		ended "$id"
	else
		grep -q 'killed by signal 9' "$BATS_TEST_TMPDIR/said"
	fi
	touch "$BATS_TEST_TMPDIR/over"
	wait "$killer"
	eventually no_container_is_left
	ran_at_most_once
}

@test "a hub that is killed while a container starts, runs and ends" {
	fresh
	put "$M/executors/box/start" "$(ran 'sleep 3; echo end; exit 6' | jq -c '.labels = {"cloop.session":"k"}')" \
		3>&- &
	writer=$!
	sleep 0.3
	hub_kill
	wait "$writer" || true
	eventually test -e "$M/sessions/k"
	hub_kill
	equal "$(ended k)" 6
	equal "$(now k log)" end
	equal "$(wc -l < "$D/work/w/ran")" 1
	eventually no_container_is_left
}

@test "all of them at once" {
	fresh
	id=$(box "$(ran 'sleep 9876543')")
	shim=$(shim_of)
	monitor=$(children "$shim" | tr -d ' ')
	hub=$(hub_pid)
	kill -9 "$hub" "$shim" "$monitor"
	echo "$hub" >> "$D/killed"
	eventually hub_is_other "$hub"
	ended "$id"
	equal "$(status "$id" .state)" failed
	eventually no_container_is_left
	run ! pgrep -f 'sleep 9876543$'
	ran_at_most_once
}

@test "the hub stops and leaves nothing" {
	box_end
}
