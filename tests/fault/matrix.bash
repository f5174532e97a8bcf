# What the tests share that kill processes at fault points (core/fault.h).
#
# A hub of these tests knows every point of $POINTS, with the two ends that are in store there: `kill`,
# of the process that comes by, and `kill-both`, of its parent the keeper as well. Each waits for its
# count file, so that one hub after the other goes on to the next point.
# shellcheck shell=bash disable=SC2012,SC2154

TREE=$BATS_TEST_DIRNAME/../tree
FSOP=$TREE/fsop

# faults_prepare POINT…: before the hub starts.
faults_prepare() {
	local point list=()

	mkdir "$D/armed"
	for point; do
		list+=("$point:kill:$D/armed/$point.kill" "$point:kill-both:$D/armed/$point.kill-both")
	done
	hub_setting CLOOP_FAULT "$(IFS=,; echo "${list[*]}")"
}

# arm POINT ACTION: the next process that comes by there dies.
arm() {
	HUB=$(hub_pid)
	echo 1 > "$D/armed/$1.$2"
}

has_fired() {
	[[ $(< "$D/armed/$1.$2") == '0 0 ' ]]
}

# fired POINT ACTION VICTIM: it came by, died, and the next one is at work. Whatever died.
fired() {
	eventually has_fired "$1" "$2" || fail "nobody came by $1" || return
	rm "$D/armed/$1.$2"
	case $2.$3 in
	kill.hub)
		echo "$HUB" >> "$D/killed"
		eventually hub_is_other "$HUB"
		;;
	kill-both.*)
		# The mount is dead. What runs does not depend on it.
		eventually keeper_is_gone
		hub_start
		;;
	esac
}

# The number of lines of a file; 0 when there is none.
lines_of() {
	if [[ -e $1 ]]; then wc -l < "$1"; else echo 0; fi
}

# events_of TYPE KEY VALUE: how many there are.
events_of() {
	jq -r --arg type "$1" --arg key "$2" --arg value "$3" \
		'select(.type == $type and .[$key] == $value) | .type' "$M/events" | wc -l
}

# Folders that the daemon has for sessions, and sockets of what runs.
folders() {
	find "$D/home/state/sessions" -mindepth 2 -maxdepth 2 -type d | wc -l
}

folders_are_those_of_sessions() {
	[[ $(folders) == $(ls "$M/sessions" | wc -l) ]]
}

# nothing_extra: what the daemon keeps is what the tree shows.
nothing_extra() {
	eventually folders_are_those_of_sessions || fail "$(folders) folders" || return
	equal "$(cat "$M/executors/local/inflight")" "$(ls "$M/executors/local/sessions" | wc -l)"
}
