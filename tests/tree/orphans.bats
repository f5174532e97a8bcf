# Folders of sessions that no row is known of: young ones and those in doubt are left, the others go.

load common

GRACE_MS=4000

setup_file() {
	export CLOOP_ORPHAN_GRACE_MS=$GRACE_MS
	hub_begin
}

# folder SESSION: where its files are.
folder() {
	local serial

	serial=$(rows "SELECT serial FROM session WHERE name = '$1'")
	printf '%s/home/state/sessions/%02x/%016x\n' "$D" $((serial % 256)) "$serial"
}

# rows SQL: of the database of a hub that is stopped, or that is only looked at.
rows() {
	python3 - "$D/home/state/cloop.db" "$1" <<- 'PYTHON'
		import sqlite3
		import sys
		db = sqlite3.connect(sys.argv[1])
		for row in db.execute(sys.argv[2]):
		    print(*row)
		db.commit()
	PYTHON
}

is_gone() {
	[[ ! -e $1 ]]
}

process_is_gone() {
	! kill -0 "$1" 2> /dev/null
}

@test "what no row is known of goes after the grace, what is in doubt stays" {
	local over runs doubt kept over_at runs_at doubt_at kept_at pid

	over=$(start "$(spec /bin/echo over)")
	kept=$(start "$(spec /bin/echo kept)")
	doubt=$(start "$(spec /bin/echo doubt)")
	runs=$(start "$(script 'trap "" TERM; while :; do sleep 1; done')")
	ended "$over" "$kept" "$doubt" > /dev/null
	pid=$(now "$runs" pid)
	over_at=$(folder "$over") kept_at=$(folder "$kept") doubt_at=$(folder "$doubt")
	runs_at=$(folder "$runs")
	[[ -d $over_at && -d $kept_at && -d $doubt_at && -d $runs_at ]]
	hub_stop
	rows "DELETE FROM session WHERE name IN ('$over', '$doubt', '$runs')"
	# Nobody can tell from when this one is; and what has no name of ours is not ours.
	truncate -s 3 "$doubt_at/started"
	mkdir "${over_at%/*}/elsewhere" "${over_at%/*}/00"
	hub_start
	equal "$(ls "$M/sessions")" "$kept"
	# It is younger than that, as long as this machine is not slower than the grace.
	(($(date +%s%3N) - $(stat -c %Y "$runs_at/started") * 1000 >= GRACE_MS)) || kill -0 "$pid"
	eventually is_gone "$over_at"
	eventually process_is_gone "$pid"
	eventually is_gone "$runs_at"
	equal "$(now "$kept" log)" kept
	[[ -e $kept_at/started && -e $doubt_at/started && -d ${over_at%/*}/elsewhere && -d ${over_at%/*}/00 ]]
	rm -r "$doubt_at" "${over_at%/*}/elsewhere" "${over_at%/*}/00"
}

@test "sessions that have their rows are never taken for orphans" {
	local i ids=() id

	for i in 1 2 3 4 5 6 7 8; do
		ids+=("$(start "$(script "sleep 6; exit $i")")")
	done
	hub_kill
	for i in 1 2 3 4 5 6 7 8; do
		id=${ids[i - 1]}
		equal "$(ended "$id")" "$i"
		[[ -e $(folder "$id")/exit ]]
	done
}

@test "the hub stops and leaves nothing" {
	hub_end
}

teardown_file() {
	hub_clean
}
