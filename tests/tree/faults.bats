# A hub that dies in the middle of a change: the next one is asked again, and does it once.

load common

setup_file() {
	# The hubs count down what these files hold; without a number nothing happens.
	export CLOOP_FAULT="change.apply:kill:$BATS_FILE_TMPDIR/apply"
	CLOOP_FAULT+=",change.committed:kill:$BATS_FILE_TMPDIR/committed"
	echo 0 > "$BATS_FILE_TMPDIR/apply"
	echo 0 > "$BATS_FILE_TMPDIR/committed"
	hub_begin
	mkdir "$D/work/ran"
}

# once POINT COMMAND...: runs it, and the hub dies once at that point.
once() {
	local pid

	pid=$(hub_pid)
	echo 1 > "$BATS_FILE_TMPDIR/$1"
	"${@:2}" || fail "$*" || return
	equal "$(cut -d ' ' -f 2 "$BATS_FILE_TMPDIR/$1" | xargs)" 0 || return
	eventually hub_is_other "$pid"
	echo "$pid" >> "$D/killed"
}

# events_of ID: what the events tell of an executor, in a line.
events_of() {
	jq -r --arg id "$1" 'select(.executor_id == $id) | .type + (.to | if . then ":" + . else "" end)' \
		"$M/events" | xargs
}

changes() {
	local x=$1 id

	hub_restart
	once "$x" mkdir "$M/executors/e-$x"
	once "$x" put "$M/executors/e-$x/config" '{"kind":"localprocess"}'
	once "$x" put "$M/executors/e-$x/state" 'cordon because'
	once "$x" put "$M/executors/e-$x/state" uncordon
	equal "$(cat "$M/executors/e-$x/state")" ready
	hub_restart
	once "$x" put "$M/default_id" "e-$x"
	equal "$(readlink "$M/default")" "executors/e-$x"
	put "$M/default_id" local
	once "$x" rmdir "$M/executors/e-$x"
	equal "$(events_of "e-$x")" "executor.added executor.registered executor.state_change:cordoned \
executor.state_change:ready executor.default executor.removed"
	id=$(start "$(spec /bin/true)")
	ended "$id"
	once "$x" rmdir "$M/sessions/$id"
	equal "$(jq -r --arg id "$id" 'select(.session == $id) | .type' "$M/events" | xargs)" \
		'session.started session.ended session.removed'
}

@test "a hub that dies before a change is committed" {
	changes apply
}

@test "a hub that dies before a change is answered" {
	changes committed
}

@test "the hub stops and leaves nothing" {
	hub_end
}
